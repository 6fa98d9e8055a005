"""Layouts as the bytes of `xla.LayoutProto`, which XLA, JAX and TensorFlow store and send.

protobuf leaves out a field that has its default.  A tail padding alignment of 1 is written nevertheless, as XLA does:

    {0,1}       0a 02 00 01     minor_to_major, two bytes: 0, 1
                80 01 01        tail_padding_alignment_in_elements: 1

    {0,1:PD(3,5)PV(lowest)} in the dialect "2017"
                0a 02 00 01     minor_to_major, two bytes: 0, 1
                12 02 03 05     padded_dimensions, two bytes: 3, 5
                18 03           padding_value: 3
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import SplitConfig
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.tile import Combine, Tile
from gpulayout.xla.protos import messages
from gpulayout.xla.protos.messages import Dialect, Message

_DENSE = 1  # of the old enumeration `format`: 0 is unset, 2 is sparse
ELEMENT_TYPES = {member.proto_number: member for member in ElementType}


def layout_to_proto(layout: Layout | str, dialect: Dialect = "xla", *, into: bytes = b"") -> bytes:
    """A layout as the bytes of `xla.LayoutProto`; the inverse of `layout_from_proto`.

    Parameters
    ----------
    layout : Layout or str
        A layout or its text.
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.
    into : bytes, optional
        A message to write the layout into.  Fields that this library does not know stay, also those of tiles and split
        configurations: `layout_to_proto(layout_from_proto(data), into=data)` keeps all of `data`.

    Returns
    -------
    bytes

    Raises
    ------
    LayoutError
        For a field that the dialect does not have: padding today; tiles and all later properties in 2017; a number as
        padding value and tiles with `*` in both.
    ImportError
        If protobuf, the extra `proto`, is missing.

    Notes
    -----
    The bytes are those that XLA writes.

    Examples
    --------
    >>> from gpulayout import Layout
    >>> layout_to_proto(Layout((0, 1), padded_dimensions=(3, 5), padding_value="lowest"), "2017").hex(" ")
    '0a 02 00 01 12 02 03 05 18 03'
    """
    layout = parse_layout(layout) if isinstance(layout, str) else layout
    if not isinstance(layout, Layout):
        raise LayoutTypeError(f"layout {layout!r} is not a Layout: it is {checks.type_text(layout)}")
    messages.check_dialect(dialect)
    message = messages.parse("LayoutProto", into)
    if into:
        read_layout(message, dialect)
    write_layout(layout, message, dialect)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def layout_from_proto(data: bytes | bytearray | memoryview, dialect: Dialect = "xla") -> Layout:
    """The layout in the bytes of `xla.LayoutProto`; the inverse of `layout_to_proto`.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        The message.
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.

    Returns
    -------
    Layout

    Raises
    ------
    LayoutError
        For bytes that are not such a message, a layout that cannot exist, a sparse layout, and a field of the other
        dialect; the message names the field.  Fields that no dialect has are ignored.
    ImportError
        If protobuf, the extra `proto`, is missing.

    Examples
    --------
    >>> print(layout_from_proto(bytes.fromhex("0a020001 32050a03088001")))
    {0,1:T(8,128)}
    """
    messages.check_dialect(dialect)
    return read_layout(messages.parse("LayoutProto", data), dialect)


# ---- reading ---------------------------------------------------------------------------------------


def read_layout(message: Message, dialect: Dialect, path: str = "LayoutProto") -> Layout:
    """The layout of a message; `path` names it in errors."""
    messages.check_fields(message, dialect, path)
    for name in ("tiles", "split_configs"):
        for entry, part in enumerate(getattr(message, name)):
            messages.check_fields(part, dialect, f"{path}.{name}[{entry}]")
    _check_dense(message, path)
    with named(path):
        return Layout(
            message.minor_to_major,
            padded_dimensions=message.padded_dimensions or None,
            padding_value=_padding_value(message.padding_value),
            tiles=[tuple(tile.dimensions) for tile in message.tiles],
            tail_padding_alignment=message.tail_padding_alignment_in_elements or 1,
            element_size_in_bits=message.element_size_in_bits,
            memory_space=message.memory_space,
            split_configs=[SplitConfig(config.dimension, config.split_indices) for config in message.split_configs],
            dynamic_shape_metadata_prefix_bytes=message.dynamic_shape_metadata_prefix_bytes,
            index_type=_index_type(message.index_primitive_type, "index_primitive_type"),
            pointer_type=_index_type(message.pointer_primitive_type, "pointer_primitive_type"),
        )


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Put the path of the message in front of a LayoutError about its fields."""
    try:
        yield
    except LayoutError as error:
        raise LayoutError(f"{path}: {error}") from None


def _check_dense(message: Message, path: str) -> None:
    """LayoutError for the fields that once described sparse arrays, unless they say "dense"."""
    if message.format not in (0, _DENSE) or message.max_sparse_elements:
        raise LayoutError(
            f"{path}.format {message.format}, max_sparse_elements {message.max_sparse_elements}: "
            "sparse layouts no longer exist"
        )
    levels = tuple(message.dim_level_types)
    if any(levels):
        raise LayoutError(
            f"{path}.dim_level_types {checks.shown(levels)} is not all 0 (dense): sparse layouts no longer exist"
        )
    if message.HasField("physical_shape"):
        raise LayoutError(f"{path}.physical_shape is set: only sparse layouts had one")


def _padding_value(number: int) -> PaddingValue | None:
    if number not in range(len(PaddingValue)):
        raise LayoutError(f"padding_value {number} is not one of 0..{len(PaddingValue) - 1}")
    return PaddingValue(number) if number else None


def _index_type(number: int, field: str) -> ElementType | None:
    if number and number not in ELEMENT_TYPES:
        raise LayoutError(f"{field} {number} is not the number of an array's element type")
    return ELEMENT_TYPES[number] if number else None


# ---- writing ---------------------------------------------------------------------------------------


def write_layout(layout: Layout, message: Message, dialect: Dialect) -> None:
    """Set all fields of a message from the layout."""
    if layout.bit_order != "little":
        raise LayoutError(
            f"bit_order {layout.bit_order} of {_shown(layout)} cannot be expressed in protos: XLA has only 'little'"
        )
    fields = messages.MESSAGES["LayoutProto"]
    for name, value, default in _values(layout):
        if dialect in fields[name].dialects:
            put(message, name, value)
        elif value != default:
            raise LayoutError(
                f"{name} of {_shown(layout)} cannot be expressed in the dialect {dialect!r} of protos: "
                f"field {fields[name].number} belongs to {fields[name].dialects[0]!r}"
            )


def _values(layout: Layout) -> list[tuple[str, Any, Any]]:
    """(field of the message, its value for this layout, its default)."""
    return [
        ("minor_to_major", layout.minor_to_major, ()),
        ("padded_dimensions", layout.padded_dimensions or (), ()),
        ("padding_value", _padding_number(layout), 0),
        ("tiles", [{"dimensions": _tile_sizes(tile, layout)} for tile in layout.tiles], []),
        ("tail_padding_alignment_in_elements", layout.tail_padding_alignment, 1),
        ("element_size_in_bits", layout.element_size_in_bits, 0),
        ("memory_space", layout.memory_space, 0),
        ("index_primitive_type", layout.index_type.proto_number if layout.index_type else 0, 0),
        ("pointer_primitive_type", layout.pointer_type.proto_number if layout.pointer_type else 0, 0),
        ("dynamic_shape_metadata_prefix_bytes", layout.dynamic_shape_metadata_prefix_bytes, 0),
        (
            "split_configs",
            [{"dimension": config.dimension, "split_indices": config.split_indices} for config in layout.split_configs],
            [],
        ),
    ]


def _padding_number(layout: Layout) -> int:
    value = layout.padding_value
    if value is not None and not isinstance(value, PaddingValue):
        raise LayoutError(
            f"padding_value of {_shown(layout)} cannot be expressed in protos: they have named values but no numbers"
        )
    return value.value if value else 0


def _tile_sizes(tile: Tile, layout: Layout) -> tuple[int, ...]:
    sizes = [size for size in tile.dimensions if not isinstance(size, Combine)]
    if len(sizes) != len(tile.dimensions):
        raise LayoutError(f"tiles of {_shown(layout)} cannot be expressed in protos: XLA cannot read '*' there")
    return tuple(sizes)


def _shown(layout: Layout) -> str:
    return f"layout {checks.clipped(str(layout), 200)}"


def put(message: Message, name: str, value: Any) -> None:
    """Set one field.  Repeated messages are overwritten in place, so that their unknown fields stay."""
    if isinstance(value, int):
        setattr(message, name, value)
        return
    field = getattr(message, name)
    if not hasattr(field, "add"):
        del field[:]
        field.extend(value)
        return
    resize(field, len(value))
    for part, values in zip(field, value):
        for key, entry in values.items():
            put(part, key, entry)


def resize(field: Any, length: int) -> None:
    """Give a field of repeated messages this length by cutting or adding at its end."""
    del field[length:]
    while len(field) < length:
        field.add()
