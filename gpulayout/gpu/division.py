"""Division by a number known beforehand, as a multiplication and a shift.

GPUs have no integer division; the compiler's replacement takes 10 to 100 instructions.  For a divisor d
choose the least s with 2^s >= d and m = floor(2^b * (2^s - d) / d) + 1 in b bits (32 or 64).  Then

    n // d == (mulhi(n, m) + n) >> s          for every 0 <= n < 2^(b-1)

where mulhi is the upper half of the product.  Example, b = 32, d = 7: s = 3, m = 613566757;
n = 50: mulhi = 7, (7 + 50) >> 3 = 7.  (Granlund and Montgomery, 1994; n < 2^(b-1) keeps the sum from wrapping.)

A divisor of 2 or more whose m is rounded up can do without the sum, for m = ceil(2^(b-1+s) / d) still fits b bits:

    n // d == mulhi(n, m) >> (s - 1)              for the same n

because n times what the rounding added, which is less than d <= 2^s, stays below 2^(b-1+s).  Example, d = 7: s = 3, m =
ceil(2^34 / 7) = 2454267027; n = 50: mulhi = 28, 28 >> 2 = 7.  The index conversion, which is all division, uses these.
"""

from __future__ import annotations

from typing import NamedTuple


class Divisor(NamedTuple):
    """A divisor with its multiplier and shift, as the kernels' `GplDivisor` holds them."""

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
    """The magic numbers of a divisor without a sum, 1 <= value < 2^(bits-1); those of 1 say 0 // 1 == 0 and no more.

    >>> reciprocal(7, 32)
    Divisor(value=7, multiplier=2454267027, shift=2)
    """
    if value == 1:
        return Divisor(1, 0, 0)
    shift = (value - 1).bit_length()
    return Divisor(value, -(-(1 << bits - 1 + shift) // value), shift - 1)


def multiplied(number: int, by: Divisor, bits: int) -> int:
    """What the kernels compute with a `reciprocal`: number // by.value for 0 <= number < 2^(bits-1)."""
    return (number * by.multiplier >> bits) >> by.shift


def divide(number: int, by: Divisor, bits: int) -> int:
    """What the kernels compute: number // by.value for 0 <= number < 2^(bits-1)."""
    return ((number * by.multiplier >> bits) + number) >> by.shift
