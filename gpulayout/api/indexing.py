"""Index conversion: logical index to linear index and back, and from one layout's linear index to another's.

Each function takes plain ints, or whole arrays of indices of any integer dtype, and runs where they live.
"""
from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.index_operands import INT64, integers, open_operands, stacked
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.checks import counted, out_of_bounds_text, type_text, value_text
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.backend import Array, Backend
from gpulayout.moves.index_builder import convert_program, delinearize_program, linearize_program
from gpulayout.moves.index_program import IndexProgram


def linearize(index: Any, shape: Shape | str, *, mode: str = "raise", out: Any = None) -> Any:
    """Linear indices of logical indices: places in the buffer, counted in elements.

    index   (rank, ...) integers, the first axis being the dimension, as `numpy.indices` gives; or a sequence of `rank`
            integer arrays that broadcast; or a sequence of `rank` plain ints, which gives a plain int
    mode    "raise": IndexError for a coordinate outside 0..size-1, found before anything is written
            "wrap": coordinates modulo the size; "clip": moved to the nearest end; on a GPU these wait for nothing, whereas
            an index that may be refused has to be waited for
    out     (...) integers for the result, C-contiguous, on the same device; returned as given

    The result is int64 unless `out` says otherwise.  TypeError for indices that are not integers, IndexError for a wrong
    rank, BufferError for an `out` of a wrong shape or overlapping memory.

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
            raise IndexError(f"index has {counted(len(index), 'coordinate')}, but {shape} has {counted(shape.rank, 'dimension')}")
        if all(_is_int(coordinate) for coordinate in index) and out is None:
            return _linearize_one(index, shape, mode)
        for dim, coordinate in enumerate(index):
            if isinstance(coordinate, (numbers.Number, np.bool_, str, bytes, type(None))) and not _is_int(coordinate):
                raise TypeError(f"index[{dim}] is {value_text(coordinate)}, {type_text(coordinate)}: indices are whole numbers")
        if not all(isinstance(coordinate, (tuple, list)) for coordinate in index):
            return _linearize_operands(index, shape, mode, out)
    backend, given = arrays.open_array_like(index, "index", None)
    given = integers(given, "index")
    if given.ndim == 0 or given.shape[0] != shape.rank:
        found = f"shape {tuple(given.shape)}"
        raise IndexError(f"index has {found}, but {shape} has {counted(shape.rank, 'dimension')}: the first axis must be {shape.rank} "
                         "(points in rows go in as index.T)")
    program = linearize_program(shape)
    return _convert(program, shape, backend, given, given.shape[1:], mode, out)


def delinearize(linear: Any, shape: Shape | str, *, padding: str = "raise", out: Any = None) -> Any:
    """Logical indices of linear indices: the inverse of `linearize`.

    linear    (...) integers; a plain int gives a tuple of plain ints
    padding   what to do with places that hold no element: "raise" an IndexError, or "mark" them with -1 in every coordinate
    out       (rank, ...) integers for the result, C-contiguous, on the same device; returned as given

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
    backend, given = arrays.open_array_like(linear, "linear", None)
    given = integers(given, "linear")
    return _convert(delinearize_program(shape), shape, backend, given, (shape.rank, *given.shape), padding, out)


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
    program = convert_program(source, target)
    if _is_int(linear) and out is None:
        return stride_table(target).linear_of(_delinearize_one(operator.index(linear), source, "raise"))
    backend, given = arrays.open_array_like(linear, "linear", None)
    given = integers(given, "linear")
    return _convert(program, source, backend, given, given.shape, "raise", out)


# ---- arrays of indices ---------------------------------------------------------------------------------------

def _convert(program: IndexProgram, shape: Shape, backend: Backend, given: Array, result_shape: tuple[int, ...], mode: str, out: Any) -> Array:
    """Convert, in one pass; with the caller's `out` and something to check, the check is a pass of its own before."""
    if mode in ("wrap", "clip") and shape.is_zero_element_array and math.prod(result_shape):
        raise IndexError(f"index cannot be brought into {shape} with mode {mode!r}: it has no elements")
    result, checked = _result(program, shape, backend, given, result_shape, mode, out)
    given = backend.contiguous(given)
    offender = backend.convert(program, given, None, mode) if checked else None
    if offender is None:
        offender = backend.convert(program, given, result, mode, checked)
    if offender is not None:
        raise _index_error(program, shape, given, offender)
    return result if out is None else out


def _result(program, shape, backend, given, result_shape, mode, out) -> tuple[Array, bool]:
    """The array to write, and whether the indices must be checked before: the caller's memory is not touched in vain."""
    if out is None:
        return backend.empty(tuple(result_shape), INT64, given), False
    result = _opened_out(program, shape, backend, given, result_shape, mode, out)
    arrays.check_no_overlap(backend, given, result, ("index", "out"))
    return result, mode in ("raise", "mark")


def _opened_out(program, shape, backend, given, result_shape, mode, out) -> Array:
    out_backend, result = arrays.open_array(out, "out", writing=True)
    arrays.check_shape(result, tuple(result_shape), "out")
    _check_result_dtype(result.dtype, program, shape, mode)
    arrays.check_same_device(backend, given, out_backend, result, ("index", "out"))
    return result


def _linearize_operands(operands: Sequence, shape: Shape, mode: str, out: Any) -> Array:
    """One index array per dimension: they broadcast against each other."""
    backend, values, result_shape = open_operands(operands, shape)
    program = linearize_program(shape)
    as_they_are = program.is_dot_product and shape.rank <= backend.max_operands and not shape.is_zero_element_array
    if as_they_are and out is None:
        result = backend.empty(result_shape, INT64, values[0])
        if backend.linearize_broadcast(program, values, result, mode) is None:
            return result
    elif as_they_are and mode != "raise":              # an index that is refused would be found with `out` half written
        result = _opened_out(program, shape, backend, values[0], result_shape, mode, out)
        if not any(arrays.may_overlap(backend, value, result) for value in values):
            backend.linearize_broadcast(program, values, result, mode)
            return out
    together = stacked(backend, values, result_shape, shape, mode)
    return _convert(program, shape, backend, together, result_shape, mode, out)


def _check_result_dtype(dtype: np.dtype, program: IndexProgram, shape: Shape, mode: str) -> None:
    if dtype.kind not in "iu" or not dtype.isnative:
        raise TypeError(f"out has dtype {dtype}: linear and logical indices are native integers")
    sizes = shape.dimensions if program.direction == "delinearize" else [program.reach]
    largest = max([*sizes, 1]) - 1
    if np.iinfo(dtype).max < largest:
        raise TypeError(f"out has dtype {dtype}, which cannot hold {largest}")
    if mode == "mark" and dtype.kind == "u":
        raise TypeError(f"out has dtype {dtype}, which cannot hold -1, the mark of padding")


# ---- single indices --------------------------------------------------------------------------------------------

def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def _linearize_one(index: Sequence[int], shape: Shape, mode: str) -> int:
    checked = []
    for dim, (coordinate, size) in enumerate(zip(map(operator.index, index), shape.bounds)):
        if not 0 <= coordinate < size:
            if mode == "raise" or not size:
                raise IndexError(out_of_bounds_text(tuple(map(operator.index, index)), dim, shape.dimensions[dim], shape))
            coordinate = coordinate % size if mode == "wrap" else min(max(coordinate, 0), size - 1)
        checked.append(coordinate)
    return stride_table(shape).linear_of(checked)


def _delinearize_one(linear: int, shape: Shape, padding: str) -> tuple[int, ...]:
    if not 0 <= linear < shape.buffer_size:
        raise IndexError(_linear_message(linear, shape, ""))
    table = stride_table(shape)
    values = table.values_of(linear)
    if all(value < size for value, size in zip(values, table.sizes)):
        return tuple(values[:shape.rank])
    if padding == "mark":
        return (-1,) * shape.rank
    raise IndexError(_linear_message(linear, shape, ""))


# ---- messages --------------------------------------------------------------------------------------------------

def _index_error(program: IndexProgram, shape: Shape, given: Array, offender: int) -> IndexError:
    """The error for the index at a flat position, which is fetched from the device if need be."""
    logical = program.direction == "linearize"
    lead = given.shape[1:] if logical else given.shape
    position = np.unravel_index(offender, lead)
    place = "" if not lead else f" at position {_position(position)}"
    if not logical:
        return IndexError(_linear_message(int(given[position]), shape, place))
    index = tuple(int(given[(dim, *position)]) for dim in range(program.rank))
    dim = next(d for d in range(program.rank) if not 0 <= index[d] < shape.dimensions[d])
    return IndexError(out_of_bounds_text(index, dim, shape.dimensions[dim], shape, place))


def _position(position: tuple[int, ...]) -> str:
    return str(int(position[0])) if len(position) == 1 else str(tuple(map(int, position)))


def _linear_message(linear: int, shape: Shape, place: str) -> str:
    if not 0 <= linear < shape.buffer_size:
        return f"linear index {linear}{place} is out of bounds for {shape}: its buffer has {shape.buffer_size} places"
    return f"linear index {linear}{place} is padding of {shape}: {stride_table(shape).why_padding(linear)}"
