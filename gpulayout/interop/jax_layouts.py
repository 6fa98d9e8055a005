"""JAX's layouts: `jax.experimental.layout.Layout`, and `Format`, which adds where the array lives.

    Layout(major_to_minor=(1, 0), tiling=((8, 128), (2, 1)))        {0,1:T(8,128)(2,1)}

JAX writes the order most major first; this library and XLA's text write it most minor first.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.interop.orders import said_in_full
from gpulayout.layout.checks import shown, type_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.layout.tile import COMBINE

_SAID = ("tiles", "element_size_in_bits")


def from_jax_layout(layout: Any, dimensions: Iterable[SupportsIndex], element_type: str | DTypeLike) -> Shape:
    """The shape of an array with a JAX layout.

    Parameters
    ----------
    layout : jax.experimental.layout.Layout
        With concrete fields: not `Layout.AUTO`, which leaves the choice to XLA.
    dimensions : iterable of int
        Logical sizes: `array.shape`.
    element_type : str or DTypeLike
        An XLA name, or what `ElementType.of` takes: `array.dtype`.

    Raises
    ------
    LayoutError
        The layout is AUTO or None, or it does not fit the dimensions.

    See Also
    --------
    to_jax_layout : the inverse.
    from_jax_format : the same from a `Format`.

    Notes
    -----
    The shape says what the layout says.  XLA's CPU backend does not follow all of it: it keeps tiles as a label and
    stores elements untiled, and it packs int4 also where the layout has no element size.

    Examples
    --------
    >>> from types import SimpleNamespace            # in place of jax.experimental.layout.Layout
    >>> columns = SimpleNamespace(major_to_minor=(1, 0), tiling=((8, 128),), sub_byte_element_size_in_bits=0)
    >>> str(from_jax_layout(columns, (16, 256), "f32"))
    'f32[16,256]{0,1:T(8,128)}'
    """
    if layout is None or not hasattr(layout, "major_to_minor"):
        is_auto = type(layout).__name__.startswith("AutoLayout")  # which is also what some releases print
        if layout is None or is_auto:
            name = "AUTO" if is_auto else layout
            raise LayoutError(
                f"layout {name} leaves the layout to XLA: take array.format.layout of an array that has one"
            )
        hint = ": gl.interop.from_jax_format takes a Format" if hasattr(layout, "sharding") else ""
        raise LayoutTypeError(f"layout is {type_text(layout)}, not a jax.experimental.layout.Layout{hint}")
    own = Layout.from_major_to_minor(
        layout.major_to_minor,
        tiles=_field(layout, "tiling") or (),
        element_size_in_bits=_field(layout, "sub_byte_element_size_in_bits"),
    )
    return Shape(element_type, dimensions, own)


def to_jax_layout(shape: Shape | str) -> Any:
    """The `jax.experimental.layout.Layout` of a shape.

    Parameters
    ----------
    shape : Shape or str

    Raises
    ------
    LayoutError
        The shape has padded dimensions, a pad value, ``*`` in a tile, or another field that JAX does not have.
    ImportError
        JAX is not installed.

    See Also
    --------
    from_jax_layout : the inverse.
    to_jax_format : the layout with a sharding, as `jax.device_put` takes it.

    Examples
    --------
    >>> to_jax_layout("f32[2,3]{0,1:PD(3,5)}")
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: padded_dimensions (3, 5) of f32[2,3]{0,1:PD(3,5)} cannot be expressed as a JAX layout
    """
    shape = as_shape(shape)
    layout = said_in_full(shape, "a JAX layout", says=_SAID)
    for tile in layout.tiles:
        if COMBINE in tile:
            raise LayoutError(f"tile {tile} of {shape} cannot be expressed as a JAX layout: its tiles have no *")
    tiling = tuple(tile.sizes for tile in layout.tiles)
    return _module().Layout(layout.major_to_minor, tiling, layout.element_size_in_bits)


def from_jax_format(format: Any, dimensions: Iterable[SupportsIndex], element_type: str | DTypeLike) -> Shape:
    """The shape of an array with a JAX `Format`, which is a layout and a sharding; the inverse of `to_jax_format`.

    Parameters
    ----------
    format : jax.experimental.layout.Format
        `array.format`.
    dimensions : iterable of int
        Logical sizes: `array.shape`.
    element_type : str or DTypeLike
        An XLA name, or what `ElementType.of` takes: `array.dtype`.

    Raises
    ------
    LayoutError
        The sharding splits the array over several devices, or the layout is AUTO or None.

    Examples
    --------
    >>> from types import SimpleNamespace            # in place of JAX's classes
    >>> columns = SimpleNamespace(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    >>> str(from_jax_format(SimpleNamespace(layout=columns, sharding=None), (2, 3), "f32"))
    'f32[2,3]{0,1}'
    """
    if not hasattr(format, "sharding"):
        raise LayoutTypeError(f"format is {type_text(format)}, not a jax.experimental.layout.Format")
    sharding = format.sharding
    if sharding is not None and not sharding.is_fully_replicated:
        raise LayoutError(
            f"sharding {sharding} splits dimensions {shown(tuple(dimensions))} over {sharding.num_devices} devices: "
            "every shard has a layout of its own, take array.addressable_shards[n].data"
        )
    return from_jax_layout(format.layout, dimensions, element_type)


def to_jax_format(shape: Shape | str, sharding: Any = None) -> Any:
    """The `jax.experimental.layout.Format` of a shape, as `jax.device_put` takes it; the inverse of `from_jax_format`.

    Parameters
    ----------
    shape : Shape or str
    sharding : jax.sharding.Sharding, optional
        Where the array lives: by default JAX's first device.

    Raises
    ------
    LayoutError
        As for `to_jax_layout`.
    ImportError
        JAX is not installed.

    Examples
    --------
    >>> to_jax_format("f32[16]{0:L(64)}")
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: tail_padding_alignment 64 of f32[16]{0:L(64)} cannot be expressed as a JAX layout
    """
    layout = to_jax_layout(shape)
    if sharding is None:
        jax = importlib.import_module("jax")
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return _module().Format(layout, sharding)


def _module() -> Any:
    return importlib.import_module("jax.experimental.layout")


def _field(layout: Any, name: str) -> Any:
    """A field that some releases write with an underscore."""
    return getattr(layout, name) if hasattr(layout, name) else getattr(layout, f"_{name}")
