"""Index conversion of whole arrays: the checks of a call, and the programs that backends prepared.

An array inside a traced function has no memory.  There the table of digits becomes arithmetic of its library, and what
would raise an error for an index is refused, because nothing knows the index yet.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import TracedArray
from gpulayout.choices.backends import default_backend
from gpulayout.layout.checks import counted, number_text, out_of_bounds_text
from gpulayout.layout.digits import StrideTable
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.backend import AnyArray, Backend, PreparedConversion
from gpulayout.moves.index_program import Mode, convert_program, delinearize_program, linearize_program
from gpulayout.moves.lowered_run import is_jax
from gpulayout.running.same_kind import Maker, on_memory

INT64 = np.dtype(np.int64)
_PLAIN_INDICES = (int, np.integer, list, tuple)  # moved to the device of the arrays


class IndexConversion:
    """The conversion in one direction for one shape; `convert_linear` goes from `shape` to `target`.

    program    what is computed
    prepared   the program as each backend prepared it
    """

    __slots__ = ("shape", "target", "program", "prepared")

    def __init__(self, direction: str, shape: Shape, target: Shape | None = None):
        if target is not None:
            self.program = convert_program(shape, target)
        else:
            self.program = (linearize_program if direction == "linearize" else delinearize_program)(shape)
        self.shape, self.target = shape, target
        self.prepared: dict[Backend, PreparedConversion] = {}

    @property
    def role(self) -> str:
        """The name of the given array in messages."""
        return "index" if self.program.direction == "linearize" else "linear"

    def __call__(self, indices: Any, mode: Mode, out: Any) -> AnyArray:
        """Convert an array, or values that become one.  Returns `out` if there is one."""
        if library_of(indices) is not None:
            try:
                return on_memory(indices, self.role, out, functools.partial(self._opened, mode))
            except TracedArray:
                return _traced(self, indices, mode, out)
        backend, array = arrays.open_array_like(indices, self.role, None)
        if type(out) is type(array) is not np.ndarray and self.on(backend).again(array, out, mode):
            return out
        return self._opened(mode, backend, array, out, backend)

    def _opened(self, mode: Mode, backend: Backend, array: AnyArray, out: Any, maker: Maker) -> AnyArray:
        """Convert an array that `open_array` returned; `maker` makes new memory."""
        array = _integers(array, self.role)
        if self.program.direction == "linearize":
            _check_rank(array, self.shape)
        return self._run(backend, array, mode, out, maker)

    def broadcast(self, operands: Any, mode: Mode, out: Any) -> AnyArray:
        """Linearize one index array per dimension, broadcast against each other.

        The first array decides of which library the result is.
        """
        first = next((operand for operand in operands if not isinstance(operand, _PLAIN_INDICES)), None)
        try:
            if library_of(first) is None:
                return self._broadcast(operands, mode, out)
            return on_memory(first, "index", out, lambda _backend, _array, *to: self._broadcast(operands, mode, *to))
        except TracedArray:
            return _traced(self, operands, mode, out)

    def _broadcast(self, operands: Any, mode: Mode, out: Any, maker: Maker | None = None) -> AnyArray:
        backend, values, result_shape = _open_operands(operands, self.shape)
        maker = maker or backend
        in_one_pass = (
            backend.linearize_broadcast
            if self.program.is_dot_product
            and self.program.rank <= backend.max_operands
            and not self.shape.is_zero_element_array
            else None
        )
        if in_one_pass and out is None:
            result = maker.empty(result_shape, INT64, values[0])
            if in_one_pass(self.program, values, result, mode) is None:
                return result
        elif in_one_pass and mode != "raise":  # with "raise", a bad index would be found when `out` is half written
            result = self._opened_out(backend, values[0], result_shape, mode, out)
            if not any(arrays.may_overlap(backend, value, result) for value in values):
                arrays.will_be_written(out)
                in_one_pass(self.program, values, result, mode)
                return out
        return self._run(backend, _stacked(backend, values, result_shape, self.shape, mode), mode, out, maker)

    def on(self, backend: Backend) -> PreparedConversion:
        """The program, prepared by a backend."""
        return self.prepared.get(backend) or self.prepared.setdefault(backend, backend.prepare_conversion(self.program))

    def _run(self, backend: Backend, indices: AnyArray, mode: Mode, out: Any, maker: Maker) -> AnyArray:
        """Convert in one pass.  With the caller's `out` and a mode that raises, a pass that only checks comes first."""
        sizes, rank = tuple(indices.shape), self.program.rank
        results = {"linearize": sizes[1:], "delinearize": (rank, *sizes), "convert_linear": sizes}
        result_shape = results[self.program.direction]
        if mode in ("wrap", "clip") and self.shape.is_zero_element_array and 0 not in result_shape:
            raise _no_elements(self.shape, mode)
        if out is None:
            result = maker.empty(result_shape, INT64, indices)
            if result.dtype != INT64:  # JAX's own width of indices
                self._check_result_dtype(result.dtype, mode, "the result")
        else:
            result = self._opened_out(backend, indices, result_shape, mode, out)
            arrays.check_no_overlap(backend, indices, result, (self.role, "out"))
        checks_before = out is not None and mode in ("raise", "mark")  # an error must leave `out` untouched
        indices, conversion = backend.contiguous(indices), self.on(backend)
        offender = conversion.convert(indices, None, mode) if checks_before else None
        if offender is None:
            arrays.will_be_written(out)
            offender = conversion.convert(indices, result, mode, checks_before)
        if offender is not None:
            raise self._error(indices, offender)
        return result if out is None else out

    def _opened_out(
        self, backend: Backend, indices: AnyArray, result_shape: tuple[int, ...], mode: Mode, out: Any
    ) -> AnyArray:
        out_backend, result = arrays.open_array(out, "out", writing=True)
        arrays.check_shape(result, result_shape, "out")
        if not result.flags.c_contiguous:
            raise BufferError(f"out with strides {tuple(result.strides)} is not C-contiguous")
        self._check_result_dtype(result.dtype, mode)
        arrays.check_same_device(backend, indices, out_backend, result, (self.role, "out"))
        return result

    def _check_result_dtype(self, dtype: np.dtype, mode: Mode, role: str = "out") -> None:
        if dtype.kind not in "iu" or not dtype.isnative:
            raise TypeError(f"{role} has dtype {dtype}: linear and logical indices are native integers")
        sizes = self.shape.dimensions if self.program.direction == "delinearize" else [self.program.reach]
        largest = max([*sizes, 1]) - 1
        if np.iinfo(dtype).max < largest:
            raise TypeError(f"{role} has dtype {dtype}, which cannot hold {largest}")
        if mode == "mark" and dtype.kind == "u":
            raise TypeError(f"{role} has dtype {dtype}, which cannot hold -1, the mark of padding")

    def _error(self, indices: AnyArray, offender: int) -> IndexError:
        """The error for the index at a flat position; fetches the index from the device if it is there."""
        is_logical = self.program.direction == "linearize"
        position, where = _position(offender, indices.shape[1:] if is_logical else indices.shape)
        if not is_logical:
            return IndexError(linear_message(int(indices[position]), self.shape, where))
        index = tuple(int(indices[(dim, *position)]) for dim in range(self.program.rank))
        dim = next(d for d in range(self.program.rank) if not 0 <= index[d] < self.shape.dimensions[d])
        return IndexError(out_of_bounds_text(index, dim, self.shape.dimensions[dim], self.shape, where))


# A repeated call makes no program and, on a GPU, prepares no launch.  An entry takes 1 to 3 KB, and on a GPU 1 to 5 KB
# more for each of up to 16 launches.
conversion = functools.lru_cache(maxsize=1024)(IndexConversion)


# ---- one index array per dimension: brought together without changing the value of any coordinate ------------------


def _integers(array: AnyArray, role: str) -> AnyArray:
    """The array, if its dtype is a native integer.  An empty list, which becomes an array of floats, is fine too."""
    if array.dtype.kind not in "iu":
        if array.size == 0 and array.dtype.kind == "f":
            return array.astype(INT64)
        raise TypeError(f"{role} has dtype {array.dtype}: indices must be integers")
    if not array.dtype.isnative:
        raise TypeError(
            f"{role} has dtype {array.dtype.str}, which is big-endian: convert it with "
            f".astype({array.dtype.newbyteorder('=').name!r})"
        )
    return array


def _open_operands(operands: Sequence[Any], shape: Shape) -> tuple[Backend, list[AnyArray], tuple[int, ...]]:
    """(backend, one integer array per dimension, the shape they broadcast to).

    Plain numbers and lists are moved to the device of the arrays.
    """
    opened = [
        None if isinstance(operand, _PLAIN_INDICES) else arrays.open_array(operand, f"index[{dim}]")
        for dim, operand in enumerate(operands)
    ]
    backend, first = next((pair for pair in opened if pair), None) or (default_backend(), None)
    values = []
    for dim, (pair, operand) in enumerate(zip(opened, operands)):
        if pair is None:
            array = backend.array(operand, None, like=first)
        else:
            array = pair[1]
            arrays.check_same_device(backend, first, *pair, ("index", f"index[{dim}]"))
        values.append(_integers(array, f"index[{dim}]"))
    try:
        return backend, values, tuple(np.broadcast_shapes(*(array.shape for array in values)))
    except ValueError:
        shapes = ", ".join(str(tuple(array.shape)) for array in values)
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast for {shape}") from None


def _stacked(
    backend: Backend, values: Sequence[AnyArray], result_shape: tuple[int, ...], shape: Shape, mode: Mode
) -> AnyArray:
    """The operands as one (rank, ...) array.

    uint64 and signed operands have no common integer dtype.  uint64 coordinates from 2^63 up are wrapped or clipped in
    their own dimension first, or refused.
    """
    common = np.result_type(*(array.dtype for array in values))
    with backend.on_device_of(values[0]):
        if common.kind not in "iu":
            common = INT64
            values = [_signed(array, dim, values, result_shape, shape, mode) for dim, array in enumerate(values)]
        together = backend.empty((shape.rank, *result_shape), common, values[0])
        for dim, array in enumerate(values):
            together[dim, ...] = array
    return together


def _signed(
    array: AnyArray, dim: int, values: Sequence[AnyArray], result_shape: tuple[int, ...], shape: Shape, mode: Mode
) -> AnyArray:
    size = shape.dimensions[dim]
    if array.dtype != np.uint64 or 0 in result_shape or not size or int(array.max()) < 2**63:
        return array.astype(INT64)
    if mode == "wrap":
        return (array % np.uint64(size)).astype(INT64)
    if mode == "clip":
        return array.clip(0, size - 1).astype(INT64)
    is_large = (array >> np.uint64(63)).astype(bool)  # the coordinates from 2^63 up
    first = int(np.broadcast_to(is_large, result_shape).reshape(-1).argmax())
    position, where = _position(first, result_shape)
    index = tuple(int(np.broadcast_to(other, result_shape)[position]) for other in values)
    raise IndexError(out_of_bounds_text(index, dim, size, shape, where))


# ---- traced arrays: the table of digits as integer arithmetic of JAX and PyTorch -----------------------------------


def _traced(conversion: IndexConversion, indices: Any, mode: Mode, out: Any) -> Any:
    """The conversion of a traced array; of several for `linearize`.

    Places without an element, also those outside the buffer, are marked with -1.
    """
    direction, shape, target = conversion.program.direction, conversion.shape, conversion.target
    if out is not None:
        raise BufferError("out cannot be written to inside a traced function: use the result of the call")
    if mode == "raise":
        advice = (
            "mode='clip' or mode='wrap'"
            if direction == "linearize"
            else "padding='mark', which marks what lies outside the buffer too"
        )
        raise TypeError(f"{direction} cannot raise an error for an index inside a traced function: pass {advice}")
    operands = [*indices] if isinstance(indices, (tuple, list)) else [indices]
    xp = sys.modules["jax"].numpy if any(map(is_jax, operands)) else sys.modules["torch"]
    table = stride_table(shape)
    if direction == "linearize":
        return _linearized(xp, table, shape, indices, mode)
    _check_width(xp, max(shape.buffer_size, 0 if target is None else target.buffer_size), shape)
    linear = _wide(xp, indices, "linear", shape.buffer_size, "clip")
    values, is_element = table.index_of(linear), table.is_element(linear)
    if target is not None:
        return xp.where(is_element, stride_table(target).linear_of(values), -1)
    marked = [xp.where(is_element, value, -1) for value in values]
    return xp.stack(marked) if marked else xp.zeros((0, *linear.shape), dtype=linear.dtype)


def _is_torch(xp: Any) -> bool:
    """True for the module of PyTorch, False for jax.numpy."""
    return xp is sys.modules.get("torch")


def _linearized(xp: Any, table: StrideTable, shape: Shape, index: Any, mode: Mode) -> Any:
    if not isinstance(index, (tuple, list)):
        _check_rank(index, shape)
    if shape.is_zero_element_array:
        raise _no_elements(shape, mode)
    _check_width(xp, shape.buffer_size, shape)
    values = []
    for dim, size in enumerate(shape.dimensions):
        value = _wide(xp, index[dim], f"index[{dim}]", size, mode)
        values.append(value % size if mode == "wrap" else xp.clip(value, 0, size - 1))
    if not values:
        return xp.zeros(index.shape[1:] if hasattr(index, "shape") else (), dtype=_integer(xp))
    values = list((xp.broadcast_tensors if _is_torch(xp) else xp.broadcast_arrays)(*values))
    return table.linear_of(values) + xp.zeros_like(values[0])


def _integer(xp: Any) -> Any:
    """The type of the results: JAX's own width of indices."""
    return xp.int64 if _is_torch(xp) or sys.modules["jax"].config.jax_enable_x64 else xp.int32


def _check_width(xp: Any, places: int, shape: Shape) -> None:
    if places > 1 << 31 and _integer(xp) is xp.int32:
        raise TypeError(f"{shape} has {places} places, more than int32 counts: set jax_enable_x64")


def _wide(xp: Any, value: Any, role: str, size: int, mode: Mode) -> Any:
    """An array of the results' type.  A large unsigned number is brought near `size` first, where it would not fit."""
    if _is_torch(xp):
        value = xp.as_tensor(value)
        is_integral = not (value.dtype.is_floating_point or value.dtype.is_complex or value.dtype is xp.bool)
    else:
        value = xp.asarray(value)
        is_integral = xp.issubdtype(value.dtype, np.integer)
    if not is_integral:
        raise TypeError(f"{role} has dtype {value.dtype}: indices must be integers")
    if _is_torch(xp):
        return value.to(xp.int64)
    if xp.issubdtype(value.dtype, np.unsignedinteger) and size <= np.iinfo(value.dtype).max:
        end = np.asarray(size, value.dtype)
        value = value % end if mode == "wrap" else xp.minimum(value, end)
    return value.astype(_integer(xp))


# ---- messages ------------------------------------------------------------------------------------------------------


def _check_rank(index: Any, shape: Shape) -> None:
    """IndexError unless the first axis of an array of logical indices is the dimension."""
    if not index.ndim or index.shape[0] != shape.rank:
        raise IndexError(
            f"index has shape {tuple(index.shape)}, but {shape} has {counted(shape.rank, 'dimension')}: the first axis "
            f"must be {shape.rank} (for points in rows, pass index.T)"
        )


def _no_elements(shape: Shape, mode: Mode) -> IndexError:
    return IndexError(f"index cannot be brought into {shape} with mode {mode!r}: it has no elements")


def _position(number: int, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """The position of an element in C order, and the words for it; none for a single index."""
    position = tuple(int(i) for i in np.unravel_index(number, sizes))
    return position, f" at position {position[0] if len(position) == 1 else position}" if position else ""


def linear_message(linear: int, shape: Shape, where: str) -> str:
    """Why a linear index has no element; `where` is text such as ` at position 3`."""
    if not 0 <= linear < shape.buffer_size:
        return (
            f"linear index {number_text(linear)}{where} is out of bounds for {shape}: "
            f"its buffer has {shape.buffer_size} places"
        )
    return f"linear index {linear}{where} is padding of {shape}: {stride_table(shape).why_padding(linear)}"
