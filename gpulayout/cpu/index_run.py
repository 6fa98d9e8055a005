"""Index conversion on the CPU: the operations of a `HostProgram`, each on a whole block of indices.

Numbers are unsigned words that wrap, as in the kernel.  Operations write into arrays that a thread allocates once, or
into the result when its words have the same width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpulayout.cpu.index_operations import HostProgram, host_program
from gpulayout.moves.index_program import IndexProgram

FUNCTIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "divide": np.floor_divide,
    "multiply": np.multiply,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "mask": np.bitwise_and,
}


class Scratch:
    """The registers of one thread, `size` words each.  The first block allocates them."""

    def __init__(self, program: IndexProgram, size: int):
        self.program, self.size = program, size
        self.known: dict[tuple[bool, int, int], tuple[HostProgram, np.ndarray]] = {}

    def execute(self, given: Sequence[np.ndarray], rows: Sequence[np.ndarray], is_checked: bool) -> np.ndarray | None:
        """Write the rows of the result, if any.

        Returns a mask of the indices where a number exceeds its bound; None when there are none, or without
        `is_checked`.
        """
        variant = is_checked, given[0].itemsize if given else 0, rows[0].itemsize if rows else 0
        if variant not in self.known:
            host = host_program(self.program, self.program.index_bits, *variant)
            self.known[variant] = (
                host,
                np.empty((host.registers - host.rows, self.size), np.uint32 if host.bits == 32 else np.uint64),
            )
        host, registers = self.known[variant]
        length = len((given or rows)[0])
        numbers = [row.view(registers.dtype) for row in rows] if host.rows else []
        numbers += list(registers if length == self.size else registers[:, :length])
        return _execute(host, numbers, given, rows, [bound for _, bound in self.program.loads] if is_checked else ())


def linear_of(
    program: IndexProgram, scratch: Scratch, index: Sequence[np.ndarray], linear: np.ndarray, is_checked: bool
) -> np.ndarray | None:
    """Write the linear indices of coordinates; `index` has one array per dimension.

    Returns a mask of the indices outside the shape; None when there are none, or without `is_checked`.
    """
    return scratch.execute(index, [linear], is_checked)


def outside(values: np.ndarray, bound: int) -> np.ndarray | None:
    """A mask of the values that leave 0..bound-1; None when there are none.

    Negative numbers are large when read as unsigned, so the maximum shows whether any number is outside.  It
    writes nothing; comparing each number would write a mask.
    """
    size = values.itemsize
    unsigned, limit = values.view(f"u{size}"), min(bound, 1 << 8 * size - (values.dtype.kind == "i"))
    return None if int(np.maximum.reduce(unsigned)) < limit else unsigned >= unsigned.dtype.type(limit)


def padding_of(
    program: IndexProgram, scratch: Scratch, linear: np.ndarray, result: np.ndarray | None, is_checked: bool = True
) -> np.ndarray | None:
    """A mask of the linear indices that point at padding; None when there are none, or without `is_checked`.

    linear    indices in the buffer
    result    receives the program's coordinates or linear indices; must not overlap `linear`; meaningless at padding
    """
    is_checked = is_checked and program.has_bounds
    if result is None and not is_checked:
        return None
    rows = [] if result is None else list(result) if program.direction == "delinearize" else [result]
    return scratch.execute([linear], rows, is_checked)


def _execute(
    host: HostProgram,
    numbers: list[np.ndarray],
    given: Sequence[np.ndarray],
    rows: Sequence[np.ndarray],
    bounds: Sequence[int],
) -> np.ndarray | None:
    """See `Scratch.execute`; `numbers` are the registers, `bounds` those of the given arrays.  A given array of words
    of that width becomes a register.
    """
    found: np.ndarray | None = None
    word: type[np.generic] = numbers[0].dtype.type if numbers else np.uint64
    for kind, into, left, right, number in host.ops:
        if kind in FUNCTIONS:
            FUNCTIONS[kind](numbers[left], word(number) if right is None else numbers[right], out=numbers[into])
        elif kind == "past":
            if numbers[left].max(initial=0) >= number:  # rarely True; unlike a comparison, it writes no mask
                past = numbers[left] >= word(number)
                found = past if found is None else np.logical_or(found, past, out=found)
        elif kind == "outside":
            beyond = outside(given[number], bounds[number])
            if beyond is not None:
                found = beyond if found is None else np.logical_or(found, beyond, out=found)
        elif kind == "store":
            np.copyto(rows[number], numbers[left], casting="unsafe")
        elif kind == "fill":
            numbers[into].fill(number)
        elif given[number].itemsize == numbers[into].itemsize:  # read in place: a copy would be one more pass
            numbers[into] = given[number].view(word)
        else:
            np.copyto(numbers[into], given[number], casting="unsafe")
    return found
