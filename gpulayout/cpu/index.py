"""Index conversion on the CPU: it splits the work into cache-sized blocks and threads, and checks indices.

`index_run` does the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gpulayout.cpu.index_run import Scratch, linear_of, outside, padding_of
from gpulayout.cpu.threads import share
from gpulayout.moves.index_program import IndexProgram, Mode

# Of one array.  A check and the computation after it find the array in a second-level cache, and threads seldom wait
# for each other between NumPy's operations.
BLOCK_BYTES = 1 << 20
SHARE = 1 << 18  # the fewest indices that justify another thread

# In a second pass, all indices are known to be in the buffer and, with "raise", not in padding; so no pass checks.
_CHECKED = {"raise": "checked", "mark": "mark checked"}


class HostConversion:
    """`PreparedConversion` of the CPU."""

    __slots__ = ("_program",)

    def __init__(self, program: IndexProgram):
        self._program = program

    def convert(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`; arrays that are not C-contiguous are copied."""
        program = self._program
        how: str = _CHECKED.get(mode, mode) if checked else mode
        is_logical = program.direction == "linearize"
        count = math.prod(given.shape[1:]) if is_logical else given.size
        given = given.reshape((program.rank, count) if is_logical else (count,))
        if result is not None:
            result = result.reshape((program.rank, count) if program.direction == "delinearize" else (count,))
        run = _to_linear if is_logical else _from_linear
        block = BLOCK_BYTES // max(4, given.itemsize, 0 if result is None else result.itemsize)
        offenders = []

        def convert_part(first: int, last: int, scratch: Scratch) -> None:
            for start in range(first, last, block):
                part = slice(start, min(start + block, last))
                offender = run(program, scratch, given[..., part], None if result is None else result[..., part], how)
                if offender is not None:
                    offenders.append(start + offender)
                    return

        share(convert_part, count, SHARE, scratch=lambda: (Scratch(program, min(count, block)),))
        return min(offenders, default=None)

    def again(self, given: np.ndarray, result: np.ndarray, mode: str) -> bool:
        """Always False: checking NumPy arrays takes no longer than recognising an earlier call."""
        return False


def _to_linear(
    program: IndexProgram, scratch: Scratch, index: np.ndarray, linear: np.ndarray | None, mode: str
) -> int | None:
    loads = [(index[row], bound) for row, bound in program.loads]
    if linear is None:
        return _first_outside(loads)
    beyond = linear_of(
        program, scratch, [_inside(values, bound, mode) for values, bound in loads], linear, mode == "raise"
    )
    return None if beyond is None else int(np.argmax(beyond))


def _from_linear(
    program: IndexProgram, scratch: Scratch, linear: np.ndarray, result: np.ndarray | None, mode: str
) -> int | None:
    outside = None if mode in _CHECKED.values() else _first_outside([(linear, program.size)])
    if outside is not None:
        before = None if mode == "mark" or not outside else padding_of(program, scratch, linear[:outside], None)
        return outside if before is None else int(np.argmax(before))
    if result is None and mode == "mark":
        return None
    padding = padding_of(program, scratch, linear, result, mode != "checked")
    if padding is not None and mode == "raise":
        return int(np.argmax(padding))
    if padding is not None and result is not None:
        _mark(result, padding)
    return None


def _mark(result: np.ndarray, padding: np.ndarray) -> None:
    """Write -1 for padding: to every coordinate, or to the linear index.  The mask is searched once."""
    places = np.flatnonzero(padding)
    for row in np.atleast_2d(result):
        row[places] = -1


def _first_outside(arrays: Iterable[tuple[np.ndarray, int]]) -> int | None:
    """The first position at which any array leaves 0..bound-1."""
    masks = [mask for values, bound in arrays if (mask := outside(values, bound)) is not None]
    return min((int(np.argmax(mask)) for mask in masks), default=None)


def _inside(values: np.ndarray, bound: int, mode: str) -> np.ndarray:
    """The coordinates, brought into bounds if the mode asks for it: -1 wraps to bound - 1 and clips to 0."""
    if mode == "wrap":
        word = np.int64 if values.dtype.kind == "i" else np.uint64
        wide = values.astype(word, copy=False)
        whole = np.floor_divide(wide, word(bound))  # done by multiplication; np.remainder divides
        np.multiply(whole, word(bound), out=whole)
        return np.subtract(wide, whole, out=whole)
    if mode == "clip":
        clipped: np.ndarray = np.clip(values, 0, min(bound - 1, np.iinfo(values.dtype).max))
        return clipped
    return values
