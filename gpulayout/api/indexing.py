"""Index conversion: logical index to linear index and back, and from one layout's linear index to another's.

Each function takes plain ints, or whole arrays of indices of any integer dtype, and runs where they live.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpulayout.api.index_conversion import conversion, linear_message
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.checks import counted, out_of_bounds_text, type_text, value_text
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table


def linearize(index: Any, shape: Shape | str, *, mode: str = "raise", out: Any = None) -> Any:
    """Linear indices of logical indices: places in the buffer, counted in elements.

    index   (rank, ...) integers, the first axis being the dimension, as `numpy.indices` gives; or a sequence of `rank`
            integer arrays that broadcast; or a sequence of `rank` plain ints, which gives a plain int
    mode    "raise": IndexError for a coordinate outside 0..size-1, found before anything is written
            "wrap": coordinates modulo the size; "clip": moved to the nearest end; on a GPU these wait for nothing, whereas
            an index that may be refused has to be waited for
    out     (...) integers for the result, C-contiguous, on the same device; returned as given

    The result is int64 unless `out` says otherwise.  TypeError for indices that are not integers, IndexError for a
    wrong rank, BufferError for an `out` of a wrong shape or overlapping memory.

    >>> linearize((1, 2), "f32[2,3]{0,1:PD(3,5)}")
    7
    >>> import numpy as np
    >>> linearize(np.indices((2, 3)).reshape(2, -1), "f32[2,3]{0,1}")
    array([0, 2, 4, 1, 3, 5])
    >>> linearize((9, 130), "bf16[16,256]{1,0:T(8,128)(2,1)}")
    3077
    """
    shape = as_shape(shape)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"mode {mode!r} is not one of 'raise', 'wrap', 'clip'")
    if isinstance(index, (tuple, list)):
        if len(index) != shape.rank:
            raise IndexError(
                f"index has {counted(len(index), 'coordinate')}, but {shape} has {counted(shape.rank, 'dimension')}"
            )
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


def delinearize(linear: Any, shape: Shape | str, *, padding: str = "raise", out: Any = None) -> Any:
    """Logical indices of linear indices: the inverse of `linearize`.

    linear    (...) integers; a plain int gives a tuple of plain ints padding   what to do with places that hold no
    element: "raise" an IndexError, or "mark" them with -1 in every coordinate out       (rank, ...) integers for the
    result, C-contiguous, on the same device; returned as given

    IndexError for a linear index outside the buffer, in both cases.  The result is int64 unless `out` says otherwise.

    >>> delinearize(7, "f32[2,3]{0,1:PD(3,5)}")
    (1, 2)
    >>> import numpy as np
    >>> delinearize(np.arange(3), "f32[2,3]{0,1:PD(3,5)}", padding="mark")
    array([[ 0,  1, -1],
           [ 0,  0, -1]])
    >>> delinearize([2, 3], "f32[6]{0:T(3)(2)}", padding="mark")
    array([[ 2, -1]])
    """
    shape = as_shape(shape)
    if padding not in ("raise", "mark"):
        raise ValueError(f"padding {padding!r} is not one of 'raise', 'mark'")
    if _is_int(linear) and out is None:
        return _delinearize_one(operator.index(linear), shape, padding)
    return conversion("delinearize", shape)(linear, padding, out)


def convert_linear(linear: Any, source: Shape | str, target: Shape | Layout | str, *, out: Any = None) -> Any:
    """Linear indices in the layout of `source` as linear indices in the layout of `target`, in one step.

    linear   (...) integers; a plain int gives a plain int
    out      (...) integers for the result, C-contiguous, on the same device, other memory; returned as given

    IndexError for a linear index outside the source or in its padding; LayoutError when the two shapes are not the same
    logical array.

    >>> convert_linear(1, "f32[2,3]{1,0}", "f32[2,3]{0,1:PD(3,5)}")
    3
    >>> convert_linear(3077, "bf16[16,256]{1,0:T(8,128)(2,1)}", "bf16[16,256]")
    2434
    """
    source = as_shape(source, "source")
    target = as_shape(target, "target", like=source)
    between = conversion("convert_linear", source, target)
    if _is_int(linear) and out is None:
        return stride_table(target).linear_of(_delinearize_one(operator.index(linear), source, "raise"))
    return between(linear, "raise", out)


# ---- single indices --------------------------------------------------------------------------------------------


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def _linearize_one(index: Sequence[int], shape: Shape, mode: str) -> int:
    checked = []
    for dim, (coordinate, size) in enumerate(zip(map(operator.index, index), shape.bounds)):
        if not 0 <= coordinate < size:
            if mode == "raise" or not size:
                raise IndexError(
                    out_of_bounds_text(tuple(map(operator.index, index)), dim, shape.dimensions[dim], shape)
                )
            coordinate = coordinate % size if mode == "wrap" else min(max(coordinate, 0), size - 1)
        checked.append(coordinate)
    return stride_table(shape).linear_of(checked)


def _delinearize_one(linear: int, shape: Shape, padding: str) -> tuple[int, ...]:
    if not 0 <= linear < shape.buffer_size:
        raise IndexError(linear_message(linear, shape, ""))
    table = stride_table(shape)
    values = table.values_of(linear)
    if all(value < size for value, size in zip(values, table.sizes)):
        return tuple(values[: shape.rank])
    if padding == "mark":
        return (-1,) * shape.rank
    raise IndexError(linear_message(linear, shape, ""))
