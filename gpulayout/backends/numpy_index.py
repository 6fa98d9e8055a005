"""Index conversion on the CPU, in blocks that stay in the cache.

NumPy divides fastest by a scalar and in 32 bits, so a block is narrowed to uint32 when the buffer allows it, and remainders
come from a multiplication and a subtraction.  Every operation writes into scratch arrays that a thread allocates once:
new memory for each result would cost as much as the operation.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpulayout.backends import numpy_index_program
from gpulayout.backends.threads import share
from gpulayout.planning.index_plan import IndexDigit, IndexPlan
from gpulayout.planning.index_program import IndexProgram

BLOCK = 1 << 16              # indices: 512 KB of int64, half of a usual second-level cache
SHARE = 1 << 18              # indices from which on another thread is worth its start


def convert(plan: IndexPlan | IndexProgram, given: np.ndarray, result: np.ndarray | None, mode: str, checked: bool = False) -> int | None:
    """See `Backend.convert`."""
    if checked and mode == "raise":
        mode = "checked"
    tiled = isinstance(plan, IndexProgram)
    run, new_scratch = (_PROGRAMS[plan.direction], numpy_index_program.Scratch) if tiled else (_BLOCKS[plan.direction], _Scratch)
    offenders = []

    def convert_part(first: int, last: int) -> None:
        scratch = new_scratch(plan, min(last - first, BLOCK))
        for start in range(first, last, BLOCK):
            part = slice(start, min(start + BLOCK, last))
            offender = run(plan, scratch, given[..., part], None if result is None else result[..., part], mode)
            if offender is not None:
                offenders.append(start + offender)
                return

    share(convert_part, given.shape[-1], SHARE)
    return min(offenders, default=None)


class _Scratch:
    """Arrays of one thread: three for the digits of linear indices, two for sums."""

    def __init__(self, plan: IndexPlan, size: int):
        narrow = plan.index_bits == 32
        self.digits = np.empty((3, size), np.uint32 if narrow else np.uint64)
        self.sums = np.empty((2, size), np.int32 if narrow else np.int64)


def _linearize(plan: IndexPlan, scratch: _Scratch, index: np.ndarray, linear: np.ndarray | None, mode: str) -> int | None:
    if mode == "raise":
        offender = _first_outside((index[digit.dim], digit.bound) for digit in plan.digits)
        if offender is not None:
            return offender
    if linear is not None:
        _write_digits(((_inside(index[digit.dim], digit.bound, mode), digit) for digit in reversed(plan.digits)), scratch, linear)
    return None


def _delinearize(plan: IndexPlan, scratch: _Scratch, linear: np.ndarray, index: np.ndarray | None, mode: str) -> int | None:
    offender, padding = _offender(plan, scratch, linear, mode)
    if offender is not None:
        return offender
    if index is not None:
        for coordinate, digit in _coordinates(plan, scratch, linear):
            np.copyto(index[digit.dim], coordinate, casting="unsafe")
        if padding is not None:
            index[:, padding] = -1
    return None


def _convert_linear(plan: IndexPlan, scratch: _Scratch, source: np.ndarray, target: np.ndarray | None, mode: str) -> int | None:
    offender, _ = _offender(plan, scratch, source, mode)
    if offender is None and target is not None:
        _write_sum(_coordinates(plan, scratch, source), scratch, target)
    return offender


def _offender(plan: IndexPlan, scratch: _Scratch, linear: np.ndarray, mode: str) -> tuple[int | None, np.ndarray | None]:
    """The first linear index that is refused, and, in mode "mark", where the others lie in padding, if anywhere."""
    if mode == "checked":
        return None, None
    offender = _first_outside([(linear, plan.size)])
    if offender is not None:
        return offender, None
    padding = _padding(plan, scratch, linear)
    if padding is not None and mode != "mark":
        return int(np.argmax(padding)), None
    return None, padding


_BLOCKS = {"linearize": _linearize, "delinearize": _delinearize, "convert_linear": _convert_linear}


def _write_digits(digits: Iterable[tuple[np.ndarray, IndexDigit]], scratch: _Scratch, linear: np.ndarray) -> None:
    """linear[...] = the number with these digits, most major first: ((a * extent of b) + b) * extent of c + c.

    One multiplication and one addition for each, both in the result itself, when its type holds the linear index of every place.
    """
    fits = linear.dtype.itemsize >= scratch.sums.dtype.itemsize
    total = linear if fits else scratch.sums[0, :len(linear)]
    above = None
    for coordinate, digit in digits:
        if above is not None:
            np.multiply(above, total.dtype.type(digit.extent), out=total, dtype=total.dtype, casting="unsafe")
            np.add(total, coordinate, out=total, dtype=total.dtype, casting="unsafe")
            coordinate = total
        above = coordinate
    if above is not total:                               # a single digit, or none: the only place of a scalar
        np.copyto(total, 0 if above is None else above, casting="unsafe")
    if total is not linear:
        np.copyto(linear, total, casting="unsafe")


def _linearize_tiled(program: IndexProgram, scratch: numpy_index_program.Scratch, index: np.ndarray, linear: np.ndarray | None,
                     mode: str) -> int | None:
    loads = [step for step in program.steps if step.load is not None]
    if mode == "raise":
        offender = _first_outside((index[step.load], step.bound) for step in loads)
        if offender is not None:
            return offender
    if linear is not None:
        inside = (_inside(index[step.load], step.bound, mode) for step in loads)
        numpy_index_program.linear_of(program, scratch, inside, linear)
    return None


def _from_linear_tiled(program: IndexProgram, scratch: numpy_index_program.Scratch, linear: np.ndarray, result: np.ndarray | None,
                       mode: str) -> int | None:
    offender = None if mode == "checked" else _first_outside([(linear, program.size)])
    if offender is not None:
        return offender
    padding = numpy_index_program.padding_of(program, scratch, linear, result)
    if padding is not None and mode != "mark":
        return int(np.argmax(padding))
    if padding is not None and result is not None:
        result[:, padding] = -1
    return None


_PROGRAMS = {"linearize": _linearize_tiled, "delinearize": _from_linear_tiled, "convert_linear": _from_linear_tiled}


def _write_sum(terms: Iterable[tuple[np.ndarray, IndexDigit]], scratch: _Scratch, linear: np.ndarray) -> None:
    """linear[...] = the sum of coordinate * stride; all coordinates are inside, so that no sum leaves the type of `sums`."""
    total, term = scratch.sums[:, :len(linear)]
    wanted = total.dtype
    if linear.dtype == wanted:
        total = linear
    place = total
    for coordinate, digit in terms:
        np.copyto(place, coordinate, casting="unsafe")
        if digit.stride != 1:
            np.multiply(place, wanted.type(digit.stride), out=place)
        if place is term:
            np.add(total, term, out=total)
        place = term
    if place is total:                                   # no digits: the only place of a scalar
        total[...] = 0
    if total is not linear:
        np.copyto(linear, total, casting="unsafe")


def _coordinates(plan: IndexPlan, scratch: _Scratch, linear: np.ndarray) -> Iterator[tuple[np.ndarray, IndexDigit]]:
    """The coordinate of every digit, most minor first; each array is used again for the next."""
    rest, above, coordinate = scratch.digits[:, :len(linear)]
    np.copyto(rest, linear, casting="unsafe")
    for digit in plan.digits[:-1]:
        extent = rest.dtype.type(max(digit.extent, 1))
        np.floor_divide(rest, extent, out=above)
        np.multiply(above, extent, out=coordinate)
        np.subtract(rest, coordinate, out=coordinate)
        yield coordinate, digit
        rest, above = above, rest
    for digit in plan.digits[-1:]:                       # the most major digit is what is left
        yield rest, digit


def _padding(plan: IndexPlan, scratch: _Scratch, linear: np.ndarray) -> np.ndarray | None:
    """Where any digit lies in padding; None where nothing does."""
    if not any(digit.bound < digit.extent for digit in plan.digits):
        return None
    found = np.zeros(len(linear), bool)
    for coordinate, digit in _coordinates(plan, scratch, linear):
        if digit.bound < digit.extent:
            found |= coordinate >= coordinate.dtype.type(digit.bound)
    return found if found.any() else None


def _first_outside(arrays: Iterable[tuple[np.ndarray, int]]) -> int | None:
    """The least position at which any array leaves 0..bound-1.

    Negative numbers are large unsigned ones: the largest tells whether there is any at all.
    """
    positions = []
    for values, bound in arrays:
        unsigned, limit = values.view(f"u{values.itemsize}"), min(bound, np.iinfo(values.dtype).max + 1)
        if len(values) and int(unsigned.max()) >= limit:
            positions.append(int(np.argmax(unsigned >= unsigned.dtype.type(limit))))
    return min(positions, default=None)


def _inside(values: np.ndarray, bound: int, mode: str) -> np.ndarray:
    """Coordinates as the mode has them; -1 wraps to bound - 1 and clips to 0."""
    if mode == "wrap":
        wide = np.int64 if values.dtype.kind == "i" else np.uint64
        return np.mod(values.astype(wide), wide(bound))
    if mode == "clip":
        return np.clip(values, 0, min(bound - 1, np.iinfo(values.dtype).max))
    return values
