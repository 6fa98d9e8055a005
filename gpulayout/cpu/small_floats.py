"""Floats of 16 bits or fewer: their codes from f32 or f64, and their numbers from codes.

A code is sign, exponent and mantissa, as IEEE 754 has them; the numbers of one sign have ascending codes.  Rounding
adds and subtracts a large number, whose last place is the last place of the target at x:

    f16 has 10 bits of mantissa, f32 has 23.  x = 1 + 2^-11, between two numbers of f16: 1 and 1 + 2^-10
    large = 1.5 * 2^(0 + 23 - 10);  x + large rounds to a multiple of 2^-10, half to even;  - large is exact: 1

Below the least normal number the last place stays the same, so subnormal numbers are rounded right, too.  The rounded
number, times a power of two that replaces the bias of the exponent, has the code in its upper bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.element_type import ElementType


class FloatFormat(NamedTuple):
    """What the codes of a type mean; they have a sign bit above exponent and mantissa.

    largest        code of the largest finite number
    infinity       code of infinity; None if the type has none
    nan            code of a nan; None if the type has none.  0x80 is also where -0 would be
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.exponent_bits + self.mantissa_bits

    def too_large(self, saturate: bool) -> int:
        """The code for numbers that are too large."""
        if self.infinity is not None:
            return self.infinity
        return self.largest if saturate or self.nan is None else self.nan


FORMATS = {
    ElementType.F16: FloatFormat(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    ElementType.BF16: FloatFormat(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    ElementType.F8E5M2: FloatFormat(5, 2, 15, 0x7B, 0x7C, 0x7E),
    ElementType.F8E4M3: FloatFormat(4, 3, 7, 0x77, 0x78, 0x7C),
    ElementType.F8E3M4: FloatFormat(3, 4, 3, 0x6F, 0x70, 0x78),
    ElementType.F8E4M3FN: FloatFormat(4, 3, 7, 0x7E, None, 0x7F),
    ElementType.F8E5M2FNUZ: FloatFormat(5, 2, 16, 0x7F, None, 0x80),
    ElementType.F8E4M3FNUZ: FloatFormat(4, 3, 8, 0x7F, None, 0x80),
    ElementType.F8E4M3B11FNUZ: FloatFormat(4, 3, 11, 0x7F, None, 0x80),
    ElementType.F6E3M2FN: FloatFormat(3, 2, 3, 0x1F),
    ElementType.F6E2M3FN: FloatFormat(2, 3, 1, 0x1F),
    ElementType.F4E2M1FN: FloatFormat(2, 1, 1, 0x07),
}


class _Wide(NamedTuple):
    """How a native float is laid out."""

    word: np.dtype[Any]
    mantissa_bits: int
    bias: int

    def power(self, exponent: int) -> int:
        """The bits of a power of two; of infinity for the exponent bias + 1."""
        return self.bias + exponent << self.mantissa_bits

    @property
    def sign_place(self) -> int:
        """The place of the sign bit."""
        return 8 * self.word.itemsize - 1


_WIDE = {
    np.dtype(np.float32): _Wide(np.dtype(np.uint32), 23, 127),
    np.dtype(np.float64): _Wide(np.dtype(np.uint64), 52, 1023),
}


def encode(numbers: np.ndarray, target: ElementType, saturate: bool, codes: np.ndarray) -> None:
    """Write the codes of f32 or f64 numbers, each rounded once.

    target   one of FORMATS, with a smaller range than the numbers' type
    codes    unsigned integers of the target's width, of the same shape
    """
    form, wide = FORMATS[target], _WIDE[numbers.dtype]
    word, cut = wide.word.type, wide.mantissa_bits - form.mantissa_bits
    infinity, beyond = wide.power(wide.bias + 1), wide.power((form.largest >> form.mantissa_bits) - form.bias + 1)
    bits = numbers.view(wide.word)
    magnitude = bits & word((1 << wide.sign_place) - 1)
    large = magnitude & word(infinity)
    # Nothing is too large or nan in most blocks.
    nan = None
    is_large = bool(large.max(initial=0) >= beyond - (1 << wide.mantissa_bits))
    if is_large:
        nan = magnitude > word(infinity)
        np.minimum(magnitude, word(beyond), out=magnitude)
    np.clip(large, word(wide.power(1 - form.bias)), word(beyond), out=large)
    large += word((cut << wide.mantissa_bits) + (1 << wide.mantissa_bits - 1))
    rounded = magnitude.view(numbers.dtype)
    rounded += large.view(numbers.dtype)
    rounded -= large.view(numbers.dtype)
    rounded *= numbers.dtype.type(2.0 ** (form.bias - wide.bias))
    found = rounded.view(wide.word)
    found >>= word(cut)
    if is_large:
        np.copyto(found, word(form.too_large(saturate)), where=found > word(form.largest))
    sign = np.right_shift(bits, word(wide.sign_place - (form.sign.bit_length() - 1)), out=large)
    sign &= word(form.sign)
    if form.nan == form.sign:
        sign *= found != 0
    found |= sign
    if nan is not None:
        np.copyto(found, word(form.nan or 0), where=nan)
    np.copyto(codes, found, casting="unsafe")


def encode_power(numbers: np.ndarray, saturate: bool, codes: np.ndarray) -> None:
    """Write the codes of f8e8m0fnu, which holds powers of two: 0x00 is 2^-127, 0xfe 2^127 and 0xff a nan.

    The bits of an f64 plus half a unit of the exponent have the exponent of the nearest power, ties away from zero.
    """
    wide = np.asarray(numbers, np.float64)
    exponents = wide.view(np.int64) + (1 << 51)
    exponents >>= 52
    exponents -= 1023 - 127
    np.copyto(exponents, 0xFE if saturate else 0xFF, where=exponents > 0xFE)
    np.maximum(exponents, 0, out=exponents)
    np.copyto(exponents, 0xFF, where=(wide < 0) | (wide != wide))
    np.copyto(codes, exponents, casting="unsafe")


def numbers_of(source: ElementType) -> np.ndarray:
    """The f32 number of each byte, for a float type of at most 8 bits; bits above the type's are ignored."""
    if source is ElementType.F8E8M0FNU:
        return _powers()
    codes = np.arange(256)
    form = FORMATS[source]
    magnitude = codes & form.sign - 1
    mantissa, exponent = magnitude & (1 << form.mantissa_bits) - 1, magnitude >> form.mantissa_bits
    mantissa += (exponent > 0) << form.mantissa_bits
    numbers: np.ndarray = np.ldexp(
        mantissa.astype(np.float64), np.maximum(exponent, 1) - form.bias - form.mantissa_bits
    )
    numbers[magnitude > form.largest] = np.nan
    if form.infinity is not None:
        numbers[magnitude == form.infinity] = np.inf
    numbers[codes & form.sign != 0] *= -1
    if form.nan == form.sign:
        numbers[form.sign] = np.nan
    return numbers.astype(np.float32)


def _powers() -> np.ndarray:
    numbers: np.ndarray = np.ldexp(np.ones(256), np.arange(256) - 127)
    numbers[0xFF] = np.nan
    return numbers.astype(np.float32)
