"""Index conversion of tiled layouts on the CPU: the steps of an `IndexProgram`, each for a block of indices at once.

Numbers are unsigned words that wrap, 32 bits wide where the plan says so, as in the kernel.  Every operation writes into
arrays that a thread allocates once.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulayout.planning.index_program import IndexProgram, Step


class Scratch:
    """Arrays of one thread: for the given linear indices, a sum, a quotient, the number at hand, and those that are kept."""

    def __init__(self, program: IndexProgram, size: int):
        self.rows = np.empty((4 + program.slots, size), np.uint32 if program.index_bits == 32 else np.uint64)

    def of_length(self, length: int) -> np.ndarray:
        return self.rows[:, :length]


def linear_of(program: IndexProgram, scratch: Scratch, inside: Iterator[np.ndarray], linear: np.ndarray) -> None:
    """Write linear indices of coordinates; `inside` gives those of one dimension after the other, and all are in bounds."""
    rows = scratch.of_length(len(linear))
    rows[1] = 0
    for step in program.steps:
        number = rows[3] if step.slot is None else rows[4 + step.slot]
        if step.load is None:
            _sum_up(step, rows, number)
        else:
            np.copyto(number, next(inside), casting="unsafe")
        _add_quotients(step, rows, number)
    np.copyto(linear, rows[1], casting="unsafe")


def padding_of(program: IndexProgram, scratch: Scratch, linear: np.ndarray, result: np.ndarray | None) -> np.ndarray | None:
    """Where linear indices, all of them in the buffer, point at padding; None where nothing does.

    result    gets what the program gives for them, coordinates or linear indices; those of padding are meaningless
    """
    rows = scratch.of_length(len(linear))
    np.copyto(rows[0], linear, casting="unsafe")
    rows[1] = 0
    found = None
    for step in program.steps:
        number = rows[3] if step.slot is None else rows[4 + step.slot]
        _sum_up(step, rows, number)
        if step.bound is not None:
            past = number >= number.dtype.type(step.bound)
            found = past if found is None else np.logical_or(found, past, out=found)
        if result is not None:
            _add_quotients(step, rows, number)
            if step.store is not None and program.direction == "delinearize":
                np.copyto(result[step.store], number, casting="unsafe")
    if result is not None and program.direction != "delinearize":
        np.copyto(result, rows[1], casting="unsafe")
    return found if found is not None and found.any() else None


def _sum_up(step: Step, rows: np.ndarray, number: np.ndarray) -> None:
    """number[...] = the sum of the step's terms; a number that is kept may take the slot of one that it is made of."""
    total = rows[3]
    total[...] = 0
    for slot, divisor, weight in step.terms:
        _add(total, rows[0] if slot is None else rows[4 + slot], divisor, weight, rows[2])
    if number is not total:
        number[...] = total


def _add_quotients(step: Step, rows: np.ndarray, number: np.ndarray) -> None:
    for divisor, weight in step.adds:
        _add(rows[1], number, divisor, weight, rows[2])


def _add(total: np.ndarray, value: np.ndarray, divisor: int, weight: int, quotient: np.ndarray) -> None:
    """total += value // divisor * weight, by way of `quotient`; nothing that a factor of 1 makes needless is done."""
    word = total.dtype.type
    if divisor != 1:
        value = np.floor_divide(value, word(divisor), out=quotient)
    if abs(weight) != 1:
        value = np.multiply(value, word(abs(weight) % (1 << 8 * total.itemsize)), out=quotient)
    (np.add if weight > 0 else np.subtract)(total, value, out=total)
