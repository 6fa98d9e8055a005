"""Transposes by pattern, such as "h w c -> c h w", or by numbers of axes, in one move."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.api import arrays
from gpulayout.api.array_types import Array, Kind, Out, OwnKind, Scalar
from gpulayout.api.copies import copy
from gpulayout.api.libraries import library_of
from gpulayout.api.same_kind import Maker, same_kind
from gpulayout.api.sides import check_no_self_overlap
from gpulayout.api.transfer import SEPARATE
from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Backend
from gpulayout.moves.move import MAX_AXES

CARRIERS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}  # bytes of an element -> a type of that width


@overload
def transpose(
    array: NDArray[Scalar], axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int
) -> NDArray[Scalar]: ...
@overload
def transpose(
    array: OwnKind[Kind], axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int
) -> Kind: ...
@overload
def transpose(array: Array, axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int) -> Any: ...
@overload
def transpose(array: Array, axes: str | Iterable[int] | None = None, *, out: Out, **sizes: int) -> Out: ...
def transpose(  # type: ignore[misc]  # the overloads name `axes`, which is then one of `sizes`
    array: Array, axes: str | Iterable[int] | None = None, /, *, out: Any = None, **sizes: Any
) -> Any:
    """Reorder the axes of an array, in one pass; a new result is in C order.

    Parameters
    ----------
    array : array
        Any array the library takes, with any strides and elements of 1, 2, 4, 8 or 16 bytes.
    axes : str or sequence of int, optional
        A pattern such as ``"h w c -> c h w"``, as in einops; or, as in `numpy.transpose`, the old number of every new
        axis.  By default the axes are reversed.
    out : array, optional
        Array to write to, of the shape and dtype of the result, on the same device, with any strides that do not
        overlap: a slice of a larger array, such as ``cache[:, 0]``.
    **sizes : int
        Sizes of the axes that a pattern splits, such as ``h=32``; the pattern can say them too: ``"(h=32 w) -> w h"``.
        One per split axis may be left out.

    Returns
    -------
    array
        A new array of the library of `array`, where it lives; or `out`.

    Raises
    ------
    LayoutError
        For a pattern or an order that does not fit the array.
    TypeError
        For elements of another size, Python objects, and an `out` of another dtype.
    BufferError
        For an `out` of another shape, that is read-only, on another device, overlaps itself or shares memory with
        `array`.  Planes of one array, such as ``cache[:, 0]`` and ``cache[:, 1]``, share none.

    See Also
    --------
    pack : Order, padding and tiles, as a flat buffer.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.arange(12).reshape(2, 2, 3)
    >>> transpose(image, "h w c -> c h w").tolist()
    [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]
    >>> transpose(image, (2, 0, 1)).shape, transpose(image, "h w c -> c (h w)").shape
    ((3, 2, 2), (3, 4))
    >>> transpose(np.arange(6), "(h w) -> w h", h=2)
    array([[0, 3],
           [1, 4],
           [2, 5]])

    Keys go into their plane of a cache, in the cache's order:

    >>> cache = np.zeros((1, 2, 3, 2), int)
    >>> keys = np.arange(6).reshape(1, 2, 3)
    >>> transpose(keys, "b h s -> b s h", out=cache[:, 0]).tolist()
    [[[0, 3], [1, 4], [2, 5]]]
    """
    if axes is None and "axes" in sizes:  # by keyword; beside a pattern it is the size of an axis of that name
        axes = sizes.pop("axes")
    if isinstance(out, (int, np.integer)) and isinstance(axes, str):
        raise TypeError(
            f"out is the number {checks.value_text(out)}, not an array: to give the size of an axis called out, write "
            f"it in the pattern, as out={checks.value_text(out)}"
        )
    library = library_of(array)
    if library is not None:
        return same_kind(library, array, "array", out, functools.partial(_transposed, axes, sizes, out))
    backend, source = arrays.open_array(array, "array")
    return _transposed(axes, sizes, out, backend, source, backend)


def _transposed(
    axes: str | Iterable[int] | None, sizes: dict[str, int], out: Any, backend: Backend, source: Any, maker: Maker
) -> Any:
    """The transpose of an array that `open_array` returned; `maker` makes new memory."""
    if not isinstance(axes, str):
        if sizes:
            raise TypeError(
                f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w', but axes is "
                f"{checks.value_text(axes)}"
            )
        if isinstance(axes, (Layout, Shape)):
            raise TypeError(f"axes is {checks.type_text(axes)}: gl.pack takes layouts and shapes")
        given = range(source.ndim - 1, -1, -1) if axes is None else axes
        context = checks.Later(lambda: f" for an array of shape {tuple(source.shape)}")
        order = checks.permutation("axes", given, source.ndim, context, from_end=True)
        dimensions, strides = tuple(source.shape[dim] for dim in order), tuple(source.strides[dim] for dim in order)
        shape = dimensions
    else:
        find = _rearranged if all(type(size) is int for size in sizes.values()) else _rearranged.__wrapped__
        dimensions, strides, shape = find(axes, tuple(source.shape), tuple(source.strides), tuple(sizes.items()))
    carrier = _carrier(source.dtype, dimensions)
    if out is None:
        result = out = maker.empty(shape, source.dtype, source)
    else:
        result = _opened_out(backend, source, shape, out)
        arrays.will_be_written(out)
    if 0 not in shape:
        copy(backend, source, strides, carrier, result)
    return out


def _opened_out(backend: Backend, source: Any, shape: tuple[int, ...], out: Any) -> Any:
    """`out` as an array of its backend, with every check."""
    out_backend, result = arrays.open_array(out, "out", writing=True)
    arrays.check_shape(result, shape, "out")
    if result.dtype != source.dtype:
        raise TypeError(f"out has dtype {result.dtype}, but array has {source.dtype}")
    check_no_self_overlap(result, "out")
    if backend is not out_backend or type(source) is not np.ndarray:
        arrays.check_same_device(backend, source, out_backend, result, ("array", "out"))
    arrays.check_no_overlap(backend, source, result, ("array", "out"), rule=SEPARATE)
    return result


@functools.lru_cache(maxsize=1024)  # a repeated call makes no shape
def _carrier(dtype: np.dtype, dimensions: tuple[int, ...]) -> Shape:
    """A shape of elements as wide as those of this dtype: a transpose moves bytes, whatever they mean."""
    if dtype.itemsize not in CARRIERS or dtype.hasobject:
        raise TypeError(
            f"array has dtype {dtype}, of {dtype.itemsize} bytes: elements of 1, 2, 4, 8 or 16 bytes other than "
            "Python objects can be moved"
        )
    return Shape(CARRIERS[dtype.itemsize], dimensions)


# A repeated call reads no pattern.  Sizes such as True or 2.0, which equal ints, must not reach this cache.
@functools.lru_cache(maxsize=1024)
def _rearranged(
    pattern: str, shape: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(sizes, byte strides) of the axes by name, in the order of the result, and the shape of the result."""
    found = read_pattern(pattern, len(shape))
    if max(len(found.order), len(found.after)) > MAX_AXES:
        raise LayoutError(f"{found.shown} has {max(len(found.order), len(found.after))} axes: {MAX_AXES} is the limit")
    named = found.axis_sizes(shape, dict(sizes))
    stepped = found.axis_strides(named, strides)
    return (
        tuple(named[name] for name in found.order),
        tuple(stepped[name] for name in found.order),
        tuple(math.prod(named[name] for name in group) for group in found.after),
    )
