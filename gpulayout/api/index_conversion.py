"""Index conversion of whole arrays: the checks of a call, and the programs that backends prepared."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.index_operands import INT64, PLAIN_INDICES, integers, open_operands, stacked
from gpulayout.api.libraries import Library, library_of
from gpulayout.api.not_memory import TracedArray
from gpulayout.api.same_kind import Maker, on_memory
from gpulayout.api.traced_indices import traced_conversion
from gpulayout.layout.checks import counted, number_text, out_of_bounds_text
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.backend import AnyArray, Backend, PreparedConversion
from gpulayout.moves.index_program import Mode, convert_program, delinearize_program, linearize_program


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

    def __call__(self, given: Any, mode: Mode, out: Any) -> AnyArray:
        """Convert an array, or values that become one.  Returns `out` if given."""
        library = library_of(given)
        if library is not None:
            try:
                return on_memory(given, self.role, out, functools.partial(self._opened, mode))
            except TracedArray:
                return self._traced(given, mode, out)
        backend, array = arrays.open_array_like(given, self.role, None)
        if type(out) is type(array) is not np.ndarray and self.on(backend).again(array, out, mode):
            return out
        return self._opened(mode, backend, array, out, backend)

    def _opened(self, mode: Mode, backend: Backend, array: AnyArray, out: Any, maker: Maker) -> AnyArray:
        """Convert an array that `open_array` returned; `maker` makes new memory."""
        array = integers(array, self.role)
        if self.program.direction == "linearize" and (array.ndim == 0 or array.shape[0] != self.program.rank):
            rank = self.program.rank
            raise IndexError(
                f"index has shape {tuple(array.shape)}, but {self.shape} has {counted(rank, 'dimension')}: the first "
                f"axis must be {rank} (for points in rows, pass index.T)"
            )
        return self.run(backend, array, mode, out, maker)

    def broadcast(self, operands: Any, mode: Mode, out: Any) -> AnyArray:
        """Linearize one index array per dimension, broadcast against each other.

        The first array decides of which library the result is.
        """
        first = next((given for given in operands if not isinstance(given, PLAIN_INDICES)), None)
        library = library_of(first)
        try:
            return self._broadcast_on(library, first, operands, mode, out)
        except TracedArray:
            return self._traced(operands, mode, out)

    def _traced(self, given: Any, mode: Mode, out: Any) -> Any:
        return traced_conversion(self.program.direction, self.shape, self.target, given, mode, out)

    def _broadcast_on(self, library: Library | None, first: Any, operands: Any, mode: Mode, out: Any) -> AnyArray:
        if library is None:
            return self._broadcast(operands, mode, out)

        def work(_backend: Backend, _array: AnyArray, out: Any, result: Maker) -> AnyArray:
            return self._broadcast(operands, mode, out, result)

        return on_memory(first, "index", out, work)

    def _broadcast(self, operands: Any, mode: Mode, out: Any, maker: Maker | None = None) -> AnyArray:
        backend, values, result_shape = open_operands(operands, self.shape)
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
        return self.run(backend, stacked(backend, values, result_shape, self.shape, mode), mode, out, maker)

    def on(self, backend: Backend) -> PreparedConversion:
        """The program, prepared by a backend."""
        return self.prepared.get(backend) or self.prepared.setdefault(backend, backend.prepare_conversion(self.program))

    def run(self, backend: Backend, given: AnyArray, mode: Mode, out: Any, maker: Maker) -> AnyArray:
        """Convert in one pass.  With the caller's `out` and a mode that raises, a pass that only checks comes first."""
        result_shape = self._result_shape(given.shape)
        if mode in ("wrap", "clip") and self.shape.is_zero_element_array and 0 not in result_shape:
            raise IndexError(f"index cannot be brought into {self.shape} with mode {mode!r}: it has no elements")
        if out is None:
            result = maker.empty(result_shape, INT64, given)
            if result.dtype != INT64:  # JAX's own width of indices
                self._check_result_dtype(result.dtype, mode, "the result")
        else:
            result = self._opened_out(backend, given, result_shape, mode, out)
            arrays.check_no_overlap(backend, given, result, (self.role, "out"))
        checks_before = out is not None and mode in ("raise", "mark")  # an error must leave `out` untouched
        given, conversion = backend.contiguous(given), self.on(backend)
        offender = conversion.convert(given, None, mode) if checks_before else None
        if offender is None:
            arrays.will_be_written(out)
            offender = conversion.convert(given, result, mode, checks_before)
        if offender is not None:
            raise self._error(given, offender)
        return result if out is None else out

    def _result_shape(self, given: tuple[int, ...]) -> tuple[int, ...]:
        if self.program.direction == "convert_linear":
            return tuple(given)
        return tuple(given[1:]) if self.program.direction == "linearize" else (self.program.rank, *given)

    def _opened_out(
        self, backend: Backend, given: AnyArray, result_shape: tuple[int, ...], mode: Mode, out: Any
    ) -> AnyArray:
        out_backend, result = arrays.open_array(out, "out", writing=True)
        arrays.check_shape(result, result_shape, "out")
        arrays.check_contiguous(result, "out")
        self._check_result_dtype(result.dtype, mode)
        arrays.check_same_device(backend, given, out_backend, result, (self.role, "out"))
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

    def _error(self, given: AnyArray, offender: int) -> IndexError:
        """The error for the index at a flat position; fetches the index from the device if it is there."""
        is_logical = self.program.direction == "linearize"
        lead = given.shape[1:] if is_logical else given.shape
        position = tuple(int(i) for i in np.unravel_index(offender, lead))
        place = f" at position {position[0] if len(position) == 1 else position}" if lead else ""
        if not is_logical:
            return IndexError(linear_message(int(given[position]), self.shape, place))
        index = tuple(int(given[(dim, *position)]) for dim in range(self.program.rank))
        dim = next(d for d in range(self.program.rank) if not 0 <= index[d] < self.shape.dimensions[d])
        return IndexError(out_of_bounds_text(index, dim, self.shape.dimensions[dim], self.shape, place))


# A repeated call makes no program and, on a GPU, prepares no launch.  An entry takes 1 to 3 KB, and on a GPU 1 to 5 KB
# more for each of up to 16 launches.
conversion = functools.lru_cache(maxsize=1024)(IndexConversion)


def linear_message(linear: int, shape: Shape, place: str) -> str:
    """Why a linear index has no element; `place` is text such as ` at position 3`."""
    if not 0 <= linear < shape.buffer_size:
        return (
            f"linear index {number_text(linear)}{place} is out of bounds for {shape}: "
            f"its buffer has {shape.buffer_size} places"
        )
    return f"linear index {linear}{place} is padding of {shape}: {stride_table(shape).why_padding(linear)}"
