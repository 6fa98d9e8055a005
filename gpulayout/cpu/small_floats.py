"""Floats of 16 bits or fewer: their codes from f32 or f64, and their numbers from codes.

A code is sign, exponent and mantissa, as IEEE 754 has them; the numbers of one sign have ascending codes.  Rounding
adds and subtracts a large number, whose last place is the last place of the target at x:

    f16 has 10 bits of mantissa, f32 has 23.  x = 1 + 2^-11, between two numbers of f16: 1 and 1 + 2^-10
    large = 1.5 * 2^(0 + 23 - 10);  x + large rounds to a multiple of 2^-10, half to even;  - large is exact: 1

Below the least normal number the last place stays the same, so subnormal numbers are rounded right, too.  The rounded
number, times a power of two that replaces the bias of the exponent, has the code in its upper bits.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.float_formats import FORMATS, FloatFormat


class _Wide(NamedTuple):
    """How a native float is laid out."""

    word: np.dtype[Any]
    mantissa_bits: int
    bias: int

    def power(self, exponent: int) -> int:
        """The bits of a power of two; of infinity for the exponent bias + 1."""
        return self.bias + exponent << self.mantissa_bits


_WIDE = {
    np.dtype(np.float32): _Wide(np.dtype(np.uint32), 23, 127),
    np.dtype(np.float64): _Wide(np.dtype(np.uint64), 52, 1023),
}


class _Rounding(NamedTuple):
    """The constants of `encode`, as NumPy numbers.

    exponent   the bits of the exponent
    least      the bits of the least normal number; below it the last place stays the same
    large      what makes the number to add from the bits of an exponent
    scale      replaces the bias
    cut        bits of mantissa that the target lacks
    rare       the bits of the largest number's power of two
    beyond     twice that power: too large
    sign_shift from the place of a number's sign to that of a code's
    """

    exponent: Any
    least: Any
    large: Any
    scale: Any
    cut: Any
    rare: int
    beyond: Any
    sign_shift: Any


@functools.cache
def _rounding(target: ElementType, dtype: np.dtype[Any]) -> _Rounding:
    form, wide = FORMATS[target], _WIDE[dtype]
    word, kind, cut = wide.word.type, dtype.type, wide.mantissa_bits - form.mantissa_bits
    top = (form.largest >> form.mantissa_bits) - form.bias
    return _Rounding(
        word(wide.power(wide.bias + 1)),
        word(wide.power(1 - form.bias)),
        word((cut << wide.mantissa_bits) + (1 << wide.mantissa_bits - 1)),
        kind(2.0 ** (form.bias - wide.bias)),
        word(cut),
        wide.power(top),
        kind(2.0 ** (top + 1)),
        word(8 * dtype.itemsize - form.sign.bit_length()),
    )


def encode(numbers: np.ndarray, target: ElementType, saturate: bool, codes: np.ndarray) -> None:
    """Write the codes of f32 or f64 numbers, each rounded once.

    target   a float of 16 bits or fewer, with a smaller range than the numbers' type
    codes    unsigned integers of the target's width, of the same shape
    """
    form, constants = FORMATS[target], _rounding(target, numbers.dtype)
    bits = numbers.view(constants.exponent.dtype)
    exponents = bits & constants.exponent
    # Most blocks have no number that is infinite, a nan or as large as the largest number's power of two.
    is_rare = exponents.size > 0 and int(np.maximum.reduce(exponents, axis=None)) >= constants.rare
    clipped = np.clip(numbers, -constants.beyond, constants.beyond) if is_rare else numbers
    if is_rare:
        exponents = clipped.view(bits.dtype) & constants.exponent
    np.maximum(exponents, np.full_like(exponents, constants.least), out=exponents)  # NumPy is slower with a number
    exponents += constants.large
    large = exponents.view(numbers.dtype)
    rounded = clipped + large
    rounded -= large
    rounded *= constants.scale
    found = rounded.view(bits.dtype)
    found >>= constants.cut
    np.copyto(codes, found, casting="unsafe")  # without the sign, which is in a higher place
    upper = np.right_shift(bits, constants.sign_shift, out=exponents)
    upper &= bits.dtype.type(form.sign)
    signs = upper.astype(codes.dtype)
    if form.nan == form.sign:
        signs *= codes != 0
    codes |= signs
    if is_rare:
        is_too_large = found & bits.dtype.type(2 * form.sign - 1) > form.largest
        np.copyto(codes, codes.dtype.type(form.too_large(saturate)) | signs, where=is_too_large)
        np.copyto(codes, codes.dtype.type(form.nan or 0), where=numbers != numbers)


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


def decode(codes: np.ndarray, source: ElementType) -> np.ndarray:
    """The f32 numbers of codes of a float of 16 bits or fewer, exactly; bits of the codes above the type's are ignored.

    codes    unsigned integers of the source's width

    The fields of a code become those of an f32, whose bias a power of two then replaces.  Infinities and nans follow.
    """
    form, wide, carrier = FORMATS[source], _WIDE[np.dtype(np.float32)], codes.dtype
    above = 8 * carrier.itemsize - form.sign.bit_length()
    fields = np.left_shift(codes, carrier.type(above)) if above else codes
    bits = fields.view(f"i{carrier.itemsize}").astype(np.int32, order="C")  # the sign fills the upper bits
    bits <<= wide.mantissa_bits - form.mantissa_bits - above
    bits &= np.int32(((form.sign - 1) << wide.mantissa_bits - form.mantissa_bits) - (1 << 31))
    numbers = bits.view(np.float32)
    numbers *= np.float32(2.0 ** (wide.bias - form.bias))
    if form.infinity is not None or form.nan is not None:
        _give_infinities_and_nans(codes, form, numbers)
    return numbers


def _give_infinities_and_nans(codes: np.ndarray, form: FloatFormat, numbers: np.ndarray) -> None:
    kind = codes.dtype.type
    if form.nan == form.sign:
        is_nan = codes == kind(form.nan)
    else:
        magnitude = codes & kind(form.sign - 1)
        if magnitude.max(initial=0) <= form.largest:
            return
        is_nan = magnitude > kind(form.infinity or form.largest)
        if form.infinity is not None:
            np.copysign(np.float32(np.inf), numbers, out=numbers, where=magnitude == kind(form.infinity))
    np.copyto(numbers, np.float32(np.nan), where=is_nan)


def powers() -> np.ndarray:
    """The f32 number of each code of f8e8m0fnu."""
    numbers: np.ndarray = np.ldexp(np.ones(256), np.arange(256) - 127)
    numbers[0xFF] = np.nan
    return numbers.astype(np.float32)
