"""Division by a number known in advance, as a multiplication and a shift.

GPUs have no integer division; what compilers emit instead takes 10 to 100 instructions.  For a divisor d
choose the least s with 2^s >= d and m = floor(2^b * (2^s - d) / d) + 1 in b bits (32 or 64).  Then

    n // d == (mulhi(n, m) + n) >> s          for every 0 <= n < 2^(b-1)

where mulhi is the upper half of the product.  Example, b = 32, d = 7: s = 3, m = 613566757;
n = 50: mulhi = 7, (7 + 50) >> 3 = 7.  (Granlund and Montgomery, 1994; n < 2^(b-1) keeps the sum from wrapping.)

For d >= 2 there is also a form without the sum: m = ceil(2^(b-1+s) / d) still fits b bits, and

    n // d == mulhi(n, m) >> (s - 1)              for the same n

Proof: rounding up adds less than d <= 2^s to d * m, and n times that stays below 2^(b-1+s).  Example, d = 7: s = 3,
m = ceil(2^34 / 7) = 2454267027; n = 50: mulhi = 28, 28 >> 2 = 7.  Index conversion, which is mostly division, uses it.
"""

from __future__ import annotations

from typing import NamedTuple


class Divisor(NamedTuple):
    """A divisor with its multiplier and shift, as in the kernels' `GplDivisor`."""

    value: int
    multiplier: int
    shift: int


def divisor(value: int, bits: int) -> Divisor:
    """The magic numbers of a divisor 1 <= value < 2^(bits-1).

    >>> divisor(7, 32)
    Divisor(value=7, multiplier=613566757, shift=3)
    """
    shift = (value - 1).bit_length()
    return Divisor(value, (((1 << bits) * ((1 << shift) - value)) // value + 1) % (1 << bits), shift)


def reciprocal(value: int, bits: int) -> Divisor:
    """The magic numbers of the form without a sum, 1 <= value < 2^(bits-1).  Those of 1 are right only for n = 0.

    >>> reciprocal(7, 32)
    Divisor(value=7, multiplier=2454267027, shift=2)
    """
    if value == 1:
        return Divisor(1, 0, 0)
    shift = (value - 1).bit_length()
    return Divisor(value, -(-(1 << bits - 1 + shift) // value), shift - 1)


def multiplied(number: int, by: Divisor, bits: int) -> int:
    """number // by.value for 0 <= number < 2^(bits-1), as the kernels compute it from a `reciprocal`."""
    return (number * by.multiplier >> bits) >> by.shift


def divide(number: int, by: Divisor, bits: int) -> int:
    """number // by.value for 0 <= number < 2^(bits-1), as the kernels compute it from a `divisor`."""
    return ((number * by.multiplier >> bits) + number) >> by.shift
