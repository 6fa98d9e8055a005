"""Index conversion on the CPU: an index program as steps over rows of numbers, a number for each index.

f32[2,3]{0,1:PD(3,5)}: row = place - place // 3 * 3, column = place // 3

    load    rows[1] = given[0], below 15
    add     rows[2] = 0 + rows[1] // 3 * 1            past    rows[3] >= 2 is padding        store   result[0] = rows[3]
    add     rows[3] = rows[1] + rows[2] // 1 * -3     past    rows[2] >= 3 is padding        store   result[1] = rows[2]

A quotient that is no shift has a row of its own, as several sums may need it.  A sum of one number is its row.
Numbers are unsigned words of 32 or 64 bits that wrap.  The native engine executes the steps where it runs, see
kernels/cpu/index_program.cpp, else NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.threads import share, thread_count
from gpulayout.moves.index_program import IndexProgram, Instruction, Mode

LOAD, ADD, PAST, STORE = range(4)  # in kernels/cpu/index_program.h
ZEROS, LINEAR = range(2)  # the first rows: zeros, and the given linear indices
HIGHEST = 2**63 - 1

BLOCK = 1 << 15  # indices of NumPy's arrays: those of a program stay in a second-level cache
SHARE = 1 << 18  # the fewest indices that justify another thread
ALONE = 1 << 14  # so many do not justify another thread of the engine

_MODES = {"raise": 0, "wrap": 1, "clip": 2, "mark": 3}  # in kernels/cpu/index_program.h


class RowStep(NamedTuple):
    """One of these, for every index:

    LOAD    rows[into] = rows[base] + given[side] * weight; given[side] must be below the bound
    ADD     rows[into] = rows[base] + rows[number] // divisor * weight
    PAST    the place is padding if rows[number] >= bound
    STORE   result[side] = rows[number]

    checks  whether a PAST depends on it
    """

    kind: int
    into: int = ZEROS
    base: int = ZEROS
    number: int = ZEROS
    divisor: int = 1
    weight: int = 1
    side: int = 0
    bound: int = HIGHEST
    checks: bool = False


@dataclass
class _RowSum:
    row: int = ZEROS
    is_own: bool = False  # the row has nothing but this sum


class _RowWriter:
    """Writes the steps of a program."""

    def __init__(self, program: IndexProgram):
        self.direction, self.bits = program.direction, program.index_bits
        self.steps: list[RowStep] = []
        self.rows = 2
        self.linear, self.target = _RowSum(), _RowSum()  # results
        self.registers: dict[int | None, int] = {None: LINEAR}
        self.quotients: dict[tuple[int, int], int] = {}

    def put(self, total: _RowSum, step: RowStep) -> None:
        """Add what a step computes to a sum."""
        base = total.row
        if not total.is_own:
            total.row, total.is_own, self.rows = self.rows, True, self.rows + 1
        self.steps.append(step._replace(into=total.row, base=base, weight=step.weight % 2**self.bits))

    def add(self, total: _RowSum, row: int, divisor: int, weight: int, is_shared: bool = True) -> None:
        """Add row // divisor * weight; is_shared: other sums may need the quotient."""
        if row == ZEROS or divisor >> self.bits:
            return
        if is_shared and divisor & (divisor - 1):
            if (row, divisor) not in self.quotients:
                quotient = _RowSum()
                self.put(quotient, RowStep(ADD, number=row, divisor=divisor))
                self.quotients[row, divisor] = quotient.row
            row, divisor = self.quotients[row, divisor], 1
        if total.row == ZEROS and divisor == weight == 1:
            total.row = row
        else:
            self.put(total, RowStep(ADD, number=row, divisor=divisor, weight=weight))

    def write(self, instruction: Instruction) -> None:
        """Write one instruction."""
        load, terms, bound, register, store, adds = instruction
        number = _RowSum()
        if load is not None:
            at_once = register is None and len(adds) == 1 and adds[0].divisor == 1
            step = RowStep(LOAD, side=load, bound=HIGHEST if bound is None else bound)
            if at_once:
                return self.put(self.linear, step._replace(weight=adds[0].weight))
            self.put(number, step)
        for term in terms:
            self.add(number, self.registers[term.register], term.divisor, term.weight)
        if load is None and bound is not None and not bound >> self.bits:  # else no number reaches it
            self.steps.append(RowStep(PAST, number=number.row, bound=bound))
        if register is not None:
            self.registers[register] = number.row
        for divisor, weight in adds:
            self.add(self.linear, number.row, divisor, weight, is_shared=register is not None)
        if store is not None and self.direction == "delinearize":
            self.steps.append(RowStep(STORE, number=number.row, side=store))
        if store is not None and self.direction == "lookup":
            self.add(self.target, number.row, 1, store)
        return None


def steps_of(program: IndexProgram) -> tuple[RowStep, ...]:
    """The steps of a program.  The second result of a look-up is the place in the target."""
    writer = _RowWriter(program)
    if program.direction != "linearize":
        writer.steps.append(RowStep(LOAD, LINEAR, bound=program.size))
    for instruction in program.instructions:
        writer.write(instruction)
    if program.direction != "delinearize":
        writer.steps.append(RowStep(STORE, number=writer.linear.row))
    if program.direction == "lookup":
        writer.steps.append(RowStep(STORE, number=writer.target.row, side=1))
    needed: set[int] = set()  # rows, by the later steps
    for k, step in reversed(list(enumerate(writer.steps))):
        if step.kind == PAST or (step.kind != STORE and step.into in needed):
            needed |= {step.base, step.number}
            writer.steps[k] = step._replace(checks=True)
    return tuple(writer.steps)


# ---- conversion ------------------------------------------------------------------------------------------------------


def native_program(module: ModuleType, steps: tuple[RowStep, ...], bits: int, places: int = -1) -> Any:
    """The steps, compiled by the engine; places: of a look-up."""
    module.set_caches(*machine_caches())
    return module.IndexProgram(steps, bits, places)


class HostConversion:
    """`PreparedConversion` of the CPU."""

    __slots__ = ("_program", "_steps", "_compiled")

    def __init__(self, program: IndexProgram):
        self._program, self._steps, self._compiled = program, steps_of(program), None

    def convert(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`; arrays may have any strides."""
        is_logical = self._program.direction == "linearize"
        if given.ndim != 1 + is_logical:
            count = math.prod(given.shape[1:]) if is_logical else given.size
            given = given.reshape((self._program.rank, count) if is_logical else (count,))
        module = native.module()
        if module is not None:
            compiled = self._compiled
            if compiled is None:
                compiled = self._compiled = native_program(module, self._steps, self._program.index_bits)
            threads = thread_count() if given.shape[-1] > ALONE else 1
            offender: int | None = compiled.convert(given, result, _MODES[mode], checked, threads)
            return offender
        if result is not None:
            result = result.reshape(-1, given.shape[-1]) if given.shape[-1] else None
        return self._by_numpy(given if is_logical else given[None], result, mode, checked)

    def again(self, given: np.ndarray, result: np.ndarray, mode: str) -> bool:
        """Always False: checking NumPy arrays takes no longer than recognising an earlier call."""
        return False

    def _by_numpy(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool) -> int | None:
        """`convert` of rows."""
        offenders = []

        def convert_part(first: int, last: int) -> None:
            for start in range(first, last, BLOCK):
                part = slice(start, min(start + BLOCK, last))
                offender = self._block(given[:, part], None if result is None else result[:, part], mode, checked)
                if offender is not None:
                    offenders.append(start + offender)
                    return

        share(convert_part, given.shape[-1], SHARE)
        return min(offenders, default=None)

    def _block(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool) -> int | None:
        """The first offender of a block.  Results in the same block as an offender are not written."""
        steps, word, count = self._steps, word_of_bits(self._program.index_bits), given.shape[-1]
        loads = [(step.side, step.bound) for step in steps if step.kind == LOAD]
        if mode in ("wrap", "clip"):
            inside = {side: _inside(given[side], bound, mode) for side, bound in loads}
            return _first([run(steps, word, count, inside, result)], None)
        if not checked:
            first = _first((outside(given[side], bound) for side, bound in loads), None)
            if first is not None:
                return first if mode == "mark" else _first([run(steps, word, first, given[:, :first], None)], first)
        if mode == "raise":
            return _first([run(steps, word, count, given, result, not checked)], None)
        if result is not None and (padding := run(steps, word, count, given, result)) is not None:
            result[:, padding] = -1
        return None


# ---- by NumPy: each step on a whole block of indices -----------------------------------------------------------------


def word_of_bits(bits: int) -> type[np.unsignedinteger]:
    """The word in which NumPy computes."""
    return np.uint32 if bits == 32 else np.uint64


def run(
    steps: Iterable[RowStep],
    word: type[np.unsignedinteger],
    count: int,
    given: np.ndarray | Mapping[int, np.ndarray],
    result: np.ndarray | None,
    has_checks: bool = True,
) -> np.ndarray | None:
    """Write the results of a block of `count` indices by NumPy, if wanted.

    given, result   a row for each side of the steps
    has_checks      whether sums are compared with their bounds

    Returns a mask of the indices where a sum reaches its bound; None when there are none.
    """
    rows = {ZEROS: np.zeros(count, word)}
    padding = np.zeros(count, bool)
    for kind, into, base, number, divisor, weight, side, bound, checks in steps:
        if kind == STORE and result is not None:
            np.copyto(result[side], rows[number], casting="unsafe")
        elif kind == PAST and has_checks:
            padding |= rows[number] >= word(bound)
        elif kind < PAST and (result is not None or (checks and has_checks)):
            part = given[side].astype(word) if kind == LOAD else rows[number]
            if divisor > 1:
                part = part // word(divisor)  # NumPy divides by a constant with a multiplication
            rows[into] = rows[base] + part * word(weight)
    return padding if padding.any() else None


def outside(values: np.ndarray, bound: int) -> np.ndarray | None:
    """A mask of the values that leave 0..bound-1; None when there are none.

    Negative numbers are large when read as unsigned, so the maximum shows whether any number is outside.  It
    writes nothing; comparing each number would write a mask.
    """
    size = values.itemsize
    unsigned, limit = values.view(f"u{size}"), min(bound, 1 << 8 * size - (values.dtype.kind == "i"))
    return None if int(unsigned.max(initial=0)) < limit else unsigned >= unsigned.dtype.type(limit)


def _first(masks: Iterable[np.ndarray | None], otherwise: int | None) -> int | None:
    """The first position that is in any mask."""
    return min((int(np.argmax(mask)) for mask in masks if mask is not None), default=otherwise)


def _inside(values: np.ndarray, bound: int, mode: str) -> np.ndarray:
    """The coordinates, brought into bounds: -1 wraps to bound - 1 and clips to 0."""
    if mode == "clip":
        clipped: np.ndarray = np.clip(values, 0, min(bound - 1, np.iinfo(values.dtype).max))
        return clipped
    wide = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64, copy=False)
    whole = wide // wide.dtype.type(bound)  # done by multiplication; np.remainder divides
    wrapped: np.ndarray = wide - whole * wide.dtype.type(bound)
    return wrapped
