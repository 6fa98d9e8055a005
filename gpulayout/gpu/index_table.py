"""The table of kernels/index.cu: the digits of an index program in which every coordinate is one digit.

    f32[2,3]{0,1:PD(3,5)}   row = place - place // 3 * 3, column = place // 3
                            digits of 3 and 5 places, most minor first

Linear indices past 2^31 need 64 bits, and a 64-bit division takes three times the instructions of a 32-bit one.  So
the digits are divided into a lower and an upper part of fewer than 2^31 places each.  One 64-bit division splits an
index into these two numbers, and then 32 bits are enough for every digit.  With 70001 x 30000 x 70003 places the lower
part is 70001 x 30000 and the upper part 70003.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.moves.index_program import IndexProgram, Instruction


class IndexDigit(NamedTuple):
    """A digit of the linear index: its width, the logical size, the stride in the result, the row of coordinates."""

    extent: int
    bound: int
    stride: int
    row: int


class IndexTable(NamedTuple):
    """The digits, most minor first, and the width of the numbers that they are taken from.

    digit_bits   32 if the linear indices, or both parts of them, fit 31 bits; else 64
    low_digits   digits in the lower part of an index that is split in two; 0 if it is not split
    """

    digits: tuple[IndexDigit, ...]
    digit_bits: int
    low_digits: int


def index_table(program: IndexProgram) -> IndexTable | None:
    """The program as a table; None when some coordinate is not one digit with one stride, as in tiled layouts."""
    digits = _coordinates(program) if program.direction == "linearize" else _digits(program)
    if digits is None:
        return None
    low_digits = low_part([digit.extent for digit in digits])
    if program.index_bits == 32 or not low_digits:
        return IndexTable(digits, program.index_bits, 0)
    return IndexTable(digits, 32, low_digits)


def low_part(extents: Sequence[int]) -> int:
    """How many digits, minor first, make the lower of two parts of fewer than 2^31 places each; 0 if there is no split.

    The lower part is as long as possible, since a shorter one leaves more for the upper part.

    >>> low_part((70001, 30000, 70003)), low_part((2**31, 2)), low_part((2**8, 2**24, 2**8))
    (2, 0, 0)
    """
    low = max(number for number in range(len(extents) + 1) if math.prod(extents[:number]) < 2**31)
    return low if math.prod(extents[low:]) < 2**31 else 0


def _coordinates(program: IndexProgram) -> tuple[IndexDigit, ...] | None:
    """The given coordinates as digits of their own sizes; linearizing divides by none of them."""
    if not program.is_dot_product:
        return None
    digits = [
        IndexDigit(each.bound, each.bound, _stride(each), each.load)
        for each in program.instructions
        if each.bound is not None and each.load is not None
    ]
    return tuple(sorted(digits, key=lambda digit: digit.stride or program.size))


def _digits(program: IndexProgram) -> tuple[IndexDigit, ...] | None:
    """The digits of the given linear index; None unless they cover it, and each is a coordinate or has one stride.

    Digits of one place come last.  Nothing is left of the index by then, so no division by 1 is needed.
    """
    found: list[tuple[int, IndexDigit]] = []
    ones: list[IndexDigit] = []
    for each in program.instructions:
        place, extent = _place_and_extent(each, program.size)
        if (
            not extent
            or any(add.divisor > 1 for add in each.adds)
            or program.direction == "delinearize"
            and each.store is None
        ):
            return None
        digit = IndexDigit(extent, extent if each.bound is None else each.bound, _stride(each), each.store or 0)
        if each.terms:
            found.append((place, digit))
        else:
            ones.append(digit)
    found.sort()
    expected = 1
    for place, digit in found:
        if place != expected:
            return None
        expected *= digit.extent
    return (*(digit for _, digit in found), *ones) if expected >= program.size else None


def _place_and_extent(instruction: Instruction, size: int) -> tuple[int, int]:
    """The digit index // place % extent that the terms of an instruction compute; extent 0 if they compute none."""
    terms = instruction.terms
    if not terms:
        return 0, 1
    (register, place, weight), *others = terms
    if register is not None or weight != 1:
        return 0, 0
    if not others:
        return place, -(-size // place)
    extent = -others[0].weight
    return place, extent if others == [(None, place * extent, -extent)] else 0


def _stride(instruction: Instruction) -> int:
    return instruction.adds[0].weight if instruction.adds else 0
