"""Sums of quotients in few operations: bit fields are moved, and the other quotients are factored by their weights.

A sum of value // divisor * weight, with divisors that divide each other, is a sum of digits.  A digit's weight is its
quotient's weight plus the weight times the extent of the digit below.  The columns of f32[4096,4096]{1,0:T(8,128)} are
two digits of the place:

    place - place // 128 * 128 + place // 1024 * 128 - place // 32768 * 4096
        == place % 128 * 1 + place // 1024 % 32 * 128

A digit is a bit field if its step and weight are powers of two, and the sum moves the field.  Fields that move by the
same distance take one shift and one mask together, even with gaps between them:

    column = place & 127 | place >> 3 & 3968
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar


class WeightedDigit(NamedTuple):
    """value // step % extent * weight; an extent of 0 means no limit."""

    step: int
    extent: int
    weight: int


def digits_of(terms: Sequence[tuple[int, int]]) -> list[WeightedDigit]:
    """The digits of a sum of terms (divisor, weight), smallest divisor first, while each divisor divides the next.

    >>> [tuple(digit) for digit in digits_of([(128, 1), (1024, -8), (32768, 8)])]
    [(128, 8, 1), (1024, 32, 0), (32768, 0, 8)]
    """
    digits: list[WeightedDigit] = []
    for divisor, weight in terms:
        if digits:
            below = digits[-1]
            if divisor % below.step:
                break
            digits[-1] = below._replace(extent=divisor // below.step)
            weight += below.weight * digits[-1].extent
        digits.append(WeightedDigit(divisor, 0, weight))
    return digits


def bit_fields(terms: Sequence[tuple[int, int]], word: int) -> tuple[int, dict[int, int]]:
    """How many of the terms (divisor, weight), smallest divisor first, only move bits; and their masks by shift.

    A field is value >> shift & mask, where a negative shift is to the left; `word` has all bits set.

    >>> bit_fields([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 2**32 - 1)
    (4, {0: 127, 3: 3968})
    >>> bit_fields([(1, 1), (128, -128), (1024, 128), (24576, -3072)], 2**32 - 1)
    (3, {0: 127, 3: 4294967168})
    """
    fields = list(itertools.takewhile(_moves_bits, digits_of(terms)))
    moves: dict[int, int] = {}
    for number, (step, extent, weight) in enumerate(fields, 1):
        if weight:
            shift = step.bit_length() - weight.bit_length()
            field = (extent * weight if number < len(fields) else word + 1) - weight  # the last field has no end
            moves[shift] = moves.get(shift, 0) | field & word
    return len(fields), moves


def _moves_bits(digit: WeightedDigit) -> bool:
    return digit.weight >= 0 and not digit.step & (digit.step - 1) and not digit.weight & (digit.weight - 1)


def divided(terms: Sequence[tuple[int, int]], divisor: int) -> list[tuple[int, int]] | None:
    """The quotient of a sum of terms (divisor, weight), again as a sum of terms; None if its digits do not allow that.

    Rows and columns in f32[4096,4096]{1,0:T(8,128)}, divided by 8 and 128:

    >>> divided([(128, 1), (1024, -8), (32768, 8)], 8), divided([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 128)
    ([(32768, 1)], [(1024, 1), (32768, -32)])
    """
    digits, found, below = digits_of(terms), [], 0
    if len(digits) < len(terms):
        return None
    for step, extent, weight in digits:
        if weight % divisor == 0:
            found.append(WeightedDigit(step, extent, weight // divisor))
            continue
        cut = divisor // weight
        if weight < 0 or divisor % weight or extent % cut and extent > cut:
            return None
        below += (min(extent or cut, cut) - 1) * weight
        if not 0 < extent <= cut:
            found.append(WeightedDigit(step * cut, extent // cut, 1))
    return _terms_of(found) if below < divisor else None


def _terms_of(digits: Sequence[WeightedDigit]) -> list[tuple[int, int]]:
    weights: dict[int, int] = {}
    for step, extent, weight in digits:
        weights[step] = weights.get(step, 0) + weight
        if extent:
            weights[step * extent] = weights.get(step * extent, 0) - weight * extent
    return [(step, weight) for step, weight in sorted(weights.items()) if weight]


class Limit(NamedTuple):
    """value % modulus & mask >= least; a modulus of 0 means no modulus."""

    modulus: int
    mask: int
    least: int


def limit_in_place(terms: Sequence[tuple[int, int]], bound: int, word: int) -> Limit | None:
    """A test of the value itself for "the sum of terms (divisor, weight) is not below a bound"; None if there is none.

    The digits of the sum can be compared in place if they have the same order in the value; a mask clears the bits
    between them.  3999 is 31 * 128 + 31, so a column of f32[4096,3999]{1,0:T(8,128)} is padding if
    place & 31 * 1024 + 127 >= 31 * 1024 + 31:

    >>> limit_in_place([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 3999, 2**32 - 1)
    Limit(modulus=0, mask=31871, least=31775)
    """
    digits, limit, weight = digits_of(terms), Limit(0, 0, 0), 1
    if len(digits) < len(terms):
        return None
    while digits and not digits[-1].weight:
        digits.pop()
    for number, (step, extent, digit_weight) in enumerate(digits, 1):
        if digit_weight not in (0, weight) or step & (step - 1):
            return None
        if digit_weight:
            is_last = number == len(digits)  # only the last extent may be unlimited, or not a power of two
            end = 0 if is_last and extent & (extent - 1) else step * extent
            part = bound // weight if is_last else bound // weight % extent
            limit = Limit(0 if end else step * extent, limit.mask | (end or word + 1) - step, limit.least + part * step)
            weight *= extent
    return limit if digits and limit.least <= word else None


_Weighted = TypeVar("_Weighted", bound="tuple[Any, ...]")


def chains(terms: Sequence[_Weighted]) -> list[list[_Weighted]]:
    """The terms (weight, ...) in lists where each weight divides the one before.

    Such a list, with weights x and y, is computed as (a * (x / y) + b) * y, which is a * x + b * y.

    >>> chains([(31744, "row // 8"), (128, "row"), (896, "column // 128"), (1, "column")])
    [[(31744, 'row // 8'), (128, 'row'), (1, 'column')], [(896, 'column // 128')]]
    """
    found: list[list[_Weighted]] = []
    for term in sorted(terms, key=lambda term: -abs(term[0])):
        chain = next((chain for chain in found if chain[-1][0] % term[0] == 0), None)
        if chain is None:
            found.append([term])
        else:
            chain.append(term)
    return found
