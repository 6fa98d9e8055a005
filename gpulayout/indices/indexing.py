"""Index conversion: from logical to linear indices and back, and from one layout's linear indices to another's.

Each function takes plain ints or whole arrays of indices, of any integer dtype, and runs where the arrays live.

One law holds for all three: an index out of range is an error, unless `linearize` is told to wrap or clip it.  A place
that holds no element is an error too, or gives the mark -1 if the caller asks for it.
"""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.arrays.array_types import (
    ArrayLike,
    HostArray,
    HostIndex,
    IndexLike,
    IndexMode,
    Integer,
    Kind,
    Out,
    OwnKind,
    OwnKindIndex,
    PaddingMode,
    ShapeLike,
    TargetLike,
    Undecided,
)
from gpulayout.arrays.shaped_buffer import ShapedBuffer, shape_in
from gpulayout.indices.index_conversion import conversion, linear_message
from gpulayout.layout.checks import check_word, counted, out_of_bounds_text, type_text, value_text
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.text import as_shape
from gpulayout.requests.shape_arguments import as_target
from gpulayout.traced.traced import between_graphs

Int64Array = NDArray[np.int64]
# What torch.compile says of index conversion with fullgraph=True.
_OUTSIDE = "gpulayout converts indices outside of graphs: call it before the compiled function, and pass the places"
HasShape: TypeAlias = ShapeLike | ShapedBuffer[Any]
HasTarget: TypeAlias = TargetLike | ShapedBuffer[Any]


@overload
def linearize(index: Sequence[Undecided], shape: HasShape, *, mode: IndexMode = "raise", out: None = None) -> Any: ...
@overload
def linearize(index: Sequence[Integer], shape: HasShape, *, mode: IndexMode = "raise", out: None = None) -> int: ...
@overload
def linearize(index: HostIndex, shape: HasShape, *, mode: IndexMode = "raise", out: None = None) -> Int64Array: ...
@overload
def linearize(index: OwnKindIndex[Kind], shape: HasShape, *, mode: IndexMode = "raise", out: None = None) -> Kind: ...
@overload
def linearize(index: IndexLike, shape: HasShape, *, mode: IndexMode = "raise", out: None = None) -> Any: ...
@overload
def linearize(index: IndexLike, shape: HasShape, *, mode: IndexMode = "raise", out: Out) -> Out: ...
def linearize(index: IndexLike, shape: HasShape, *, mode: IndexMode = "raise", out: Any = None) -> Any:
    """Convert logical indices to linear indices: places in the buffer, counted in elements.

    Parameters
    ----------
    index : array of integers, or sequence
        An array of shape (rank, ...): its first axis is the dimension, as `numpy.indices` returns it.  Or a sequence of
        `rank` integer arrays that broadcast.  Or a sequence of `rank` plain ints.
    shape : Shape, Array or str
        A shape or its text, or an `Array`, which has one.
    mode : {"raise", "wrap", "clip"}, optional
        What to do with coordinates outside 0..size-1: raise IndexError, take them modulo the size, or move them to the
        nearest end.  On a GPU only "raise" has to wait for the device.  A logical index never names padding.
    out : array of integers, optional
        C-contiguous array to write to, of shape (...), on the same device.  With ``mode="raise"`` the indices are then
        read twice, once to check them all: an error leaves `out` as it was.  A new result takes one pass.

    Returns
    -------
    int or array
        An int for plain ints; `out` when it is given; else an int64 array of shape (...).

    Raises
    ------
    IndexError
        For a coordinate out of bounds, with ``mode="raise"``; for a wrong rank; and for any index into a shape without
        elements.  Nothing is written.
    ValueError
        For any other `mode`.
    TypeError
        For indices that are not integers, and for an `out` that cannot hold the largest result.
    BufferError
        For an `out` of another shape, that is read-only, or that shares memory with `index`.

    See Also
    --------
    delinearize : The inverse.

    Notes
    -----
    A layout is a mixed-radix number, and `stride_table` lists its digits.  Each digit adds
    ``index[dim] // step % extent * stride`` to the linear index.

    Examples
    --------
    >>> linearize((1, 2), "f32[2,3]{0,1:PD(3,5)}")
    7
    >>> import numpy as np
    >>> linearize(np.indices((2, 3)).reshape(2, -1), "f32[2,3]{0,1}")
    array([0, 2, 4, 1, 3, 5])
    >>> linearize((9, 130), "bf16[16,256]{1,0:T(8,128)(2,1)}")
    3077
    """
    if isinstance(index, str) and isinstance(shape, (tuple, list)):
        raise TypeError(f"index is a str and shape a {type(shape).__name__}: the index comes first")
    if is_compiling() and not (isinstance(index, (tuple, list)) and all(_is_int(coordinate) for coordinate in index)):
        return between_graphs(_OUTSIDE, functools.partial(linearize, index, shape, mode=mode, out=out))
    shape = as_shape(shape_in(shape))
    check_word("mode", mode, ("raise", "wrap", "clip"))
    if isinstance(index, (tuple, list)):
        if len(index) != shape.rank:
            text = f"index has {counted(len(index), 'coordinate')}, but {shape} has {counted(shape.rank, 'dimension')}"
            if index and all(isinstance(point, (tuple, list)) and len(point) == shape.rank for point in index):
                text += ": for points in rows, pass numpy.array(index).T"
            raise IndexError(text)
        if all(_is_int(coordinate) for coordinate in index) and out is None:
            return _linearize_one(index, shape, mode)
        for dim, coordinate in enumerate(index):
            if isinstance(coordinate, (numbers.Number, np.bool_, str, bytes, type(None))) and not _is_int(coordinate):
                raise TypeError(
                    f"index[{dim}] is {value_text(coordinate)}, {type_text(coordinate)}: indices are whole numbers"
                )
        if not all(isinstance(coordinate, (tuple, list)) for coordinate in index):
            return conversion("linearize", shape).broadcast(index, mode, out)
    return conversion("linearize", shape)(index, mode, out)


@overload
def delinearize(
    linear: Integer, shape: HasShape, *, padding: PaddingMode = "raise", out: None = None
) -> tuple[int, ...]: ...
@overload
def delinearize(
    linear: HostArray, shape: HasShape, *, padding: PaddingMode = "raise", out: None = None
) -> Int64Array: ...
@overload
def delinearize(
    linear: OwnKind[Kind], shape: HasShape, *, padding: PaddingMode = "raise", out: None = None
) -> Kind: ...
@overload
def delinearize(linear: ArrayLike, shape: HasShape, *, padding: PaddingMode = "raise", out: None = None) -> Any: ...
@overload
def delinearize(linear: ArrayLike, shape: HasShape, *, padding: PaddingMode = "raise", out: Out) -> Out: ...
def delinearize(linear: ArrayLike, shape: HasShape, *, padding: PaddingMode = "raise", out: Any = None) -> Any:
    """Convert linear indices to logical indices: the inverse of `linearize`.

    Parameters
    ----------
    linear : int or array of integers
        Places in the buffer, counted in elements.
    shape : Shape, Array or str
        A shape or its text, or an `Array`, which has one.
    padding : {"raise", "mark"}, optional
        What to do with places that hold no element: raise IndexError, or set every coordinate to -1.  A linear index
        outside the buffer is an error either way.
    out : array of integers, optional
        C-contiguous array to write to, of shape (rank, ...), on the same device.  The indices are then read twice, once
        to check them all: an error leaves `out` as it was.  A new result takes one pass.

    Returns
    -------
    tuple of int, or array
        A tuple for a plain int; `out` when it is given; else an int64 array of shape (rank, ...).

    Raises
    ------
    IndexError
        For a linear index outside the buffer, and for padding with ``padding="raise"``.  Nothing is written.
    ValueError
        For any other `padding`.
    TypeError
        For indices that are not integers, and for an `out` that cannot hold the largest result, or -1 with
        ``padding="mark"``.
    BufferError
        For an `out` of another shape, that is read-only, or that shares memory with `linear`.

    See Also
    --------
    linearize : The inverse.
    convert_linear : From one layout's linear indices to another's, in one step.

    Examples
    --------
    >>> delinearize(7, "f32[2,3]{0,1:PD(3,5)}")
    (1, 2)
    >>> import numpy as np
    >>> delinearize(np.arange(3), "f32[2,3]{0,1:PD(3,5)}", padding="mark")
    array([[ 0,  1, -1],
           [ 0,  0, -1]])
    >>> delinearize([2, 3], "f32[6]{0:T(3)(2)}", padding="mark")
    array([[ 2, -1]])
    """
    if is_compiling() and not _is_int(linear):
        return between_graphs(_OUTSIDE, functools.partial(delinearize, linear, shape, padding=padding, out=out))
    shape = as_shape(shape_in(shape))
    check_word("padding", padding, ("raise", "mark"))
    if _is_int(linear) and out is None:
        index = _delinearize_one(operator.index(linear), shape, padding)
        return (-1,) * shape.rank if index is None else index
    return conversion("delinearize", shape)(linear, padding, out)


@overload
def convert_linear(
    linear: Integer, source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: None = None
) -> int: ...
@overload
def convert_linear(
    linear: HostArray, source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: None = None
) -> Int64Array: ...
@overload
def convert_linear(
    linear: OwnKind[Kind], source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: None = None
) -> Kind: ...
@overload
def convert_linear(
    linear: ArrayLike, source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: None = None
) -> Any: ...
@overload
def convert_linear(
    linear: ArrayLike, source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: Out
) -> Out: ...
def convert_linear(
    linear: ArrayLike, source: HasShape, target: HasTarget, *, padding: PaddingMode = "raise", out: Any = None
) -> Any:
    """Convert linear indices in the layout of `source` to linear indices in the layout of `target`, in one step.

    Parameters
    ----------
    linear : int or array of integers
        Places in a buffer of `source`, counted in elements.
    source : Shape, Array or str
        A shape or its text, or an `Array`, which has one.
    target : Shape, Layout, Array or str
        The same logical array in another layout; or only that layout, such as ``"{0,1}"``.
    padding : {"raise", "mark"}, optional
        What to do with places of the source that hold no element: raise IndexError, or give -1.  A linear index outside
        the buffer is an error either way.
    out : array of integers, optional
        C-contiguous array to write to, of the shape of `linear`, on the same device.  The indices are then read twice,
        once to check them all: an error leaves `out` as it was.  A new result takes one pass.

    Returns
    -------
    int or array
        An int for a plain int; `out` when it is given; else an int64 array of the shape of `linear`.

    Raises
    ------
    IndexError
        For a linear index outside the source's buffer, and for padding with ``padding="raise"``.  Nothing is written.
    LayoutError
        When the two shapes are not the same logical array.
    ValueError, TypeError, BufferError
        As `delinearize` raises them.

    Notes
    -----
    The result is what `delinearize` and then `linearize` give, except that -1, the mark of padding, stays -1.

    Examples
    --------
    >>> convert_linear(1, "f32[2,3]{1,0}", "f32[2,3]{0,1:PD(3,5)}")
    3
    >>> import numpy as np
    >>> convert_linear(np.arange(5), "f32[2,3]{0,1:PD(3,5)}", "f32[2,3]{1,0}", padding="mark")
    array([ 0,  3, -1,  1,  4])
    >>> convert_linear(3077, "bf16[16,256]{1,0:T(8,128)(2,1)}", "bf16[16,256]")
    2434
    """
    if is_compiling() and not _is_int(linear):
        anew = functools.partial(convert_linear, linear, source, target, padding=padding, out=out)
        return between_graphs(_OUTSIDE, anew)
    source = as_shape(shape_in(source), "source")
    target = as_target(shape_in(target), source)
    check_word("padding", padding, ("raise", "mark"))
    between = conversion("convert_linear", source, target)
    if _is_int(linear) and out is None:
        index = _delinearize_one(operator.index(linear), source, padding)
        return -1 if index is None else stride_table(target).linear_of(index)
    return between(linear, padding, out)


# ---- single indices --------------------------------------------------------------------------------------------


def _is_int(value: object) -> TypeGuard[Integer]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def _linearize_one(index: Sequence[Any], shape: Shape, mode: str) -> int:
    checked, coordinates = [], tuple(map(operator.index, index))
    for dim, (coordinate, size) in enumerate(zip(coordinates, shape.bounds)):
        if not 0 <= coordinate < size:
            if mode == "raise" or not size:
                raise IndexError(out_of_bounds_text(coordinates, dim, shape.dimensions[dim], shape))
            coordinate = coordinate % size if mode == "wrap" else min(max(coordinate, 0), size - 1)
        checked.append(coordinate)
    linear: int = stride_table(shape).linear_of(checked)
    return linear


def _delinearize_one(linear: int, shape: Shape, padding: str) -> tuple[int, ...] | None:
    """The logical index; None for padding that is marked."""
    if 0 <= linear < shape.buffer_size:
        table = stride_table(shape)
        values = table.values_of(linear)
        if all(value < size for value, size in zip(values, table.sizes)):
            return tuple(values[: shape.rank])
        if padding == "mark":
            return None
    raise IndexError(linear_message(linear, shape, ""))
