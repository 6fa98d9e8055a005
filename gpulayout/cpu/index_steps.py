"""An index program as steps over rows of numbers, a number for each index: what the native engine and NumPy execute.

f32[2,3]{0,1:PD(3,5)}: row = place - place // 3 * 3, column = place // 3

    load    rows[1] = given[0], below 15
    add     rows[2] = 0 + rows[1] // 3 * 1            past    rows[3] >= 2 is padding        store   result[0] = rows[3]
    add     rows[3] = rows[1] + rows[2] // 1 * -3     past    rows[2] >= 3 is padding        store   result[1] = rows[2]

A quotient that is no shift has a row of its own, as several sums may need it.  A sum of one number is its row.
Numbers are unsigned words of 32 or 64 bits that wrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.moves.index_program import IndexProgram, Instruction

LOAD, ADD, PAST, STORE = range(4)  # in kernels/cpu/index_program.h
ZEROS, LINEAR = range(2)  # the first rows: zeros, and the given linear indices
HIGHEST = 2**63 - 1


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
    for each in program.instructions:
        writer.write(each)
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
