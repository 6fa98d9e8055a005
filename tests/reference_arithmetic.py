"""The independent model of casts and arithmetic: exact rational numbers, rounded once.

Slow and obvious, and it shares no code with the library: it takes the names of element types, and codes, which are the
bits of an element as a plain integer.  A value is a Fraction, or one of the floats nan, inf, -inf and -0.0.

`expected_codes` gives the same for arrays.  It compares numbers with exact boundaries, and a test compares it with the
plain model.
"""

import functools
import math
import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np

NATIVE_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


class Float(NamedTuple):
    """A floating-point type.  `suffix` is "", "fn", "fnuz" or "fnu", as its name has it."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    suffix: str
    width: int

    @property
    def sign(self):
        """The sign bit; 0 if the type has none."""
        return 0 if self.suffix == "fnu" else 1 << self.exponent_bits + self.mantissa_bits

    @property
    def nan(self):
        """The code of a nan, or None."""
        if self.suffix == "fnuz":
            return self.sign
        if self.suffix == "fnu":
            return 0xFF
        if self.suffix == "fn":
            return self.sign - 1 if self.width == 8 else None
        return self.sign - 1

    @property
    def infinity(self):
        """The code of infinity, or None."""
        return (1 << self.exponent_bits) - 1 << self.mantissa_bits if not self.suffix else None

    @property
    def largest(self):
        """The code of the largest finite number."""
        if self.infinity is not None:
            return self.infinity - 1
        return {"fnuz": self.sign - 1, "fnu": 0xFE, "fn": self.sign - 1 - (self.width == 8)}[self.suffix]

    def magnitude(self, code):
        """The number of a code without its sign, as if every code were a number."""
        mantissa, exponent = code % (1 << self.mantissa_bits), code >> self.mantissa_bits
        if exponent or self.suffix == "fnu":
            mantissa += 1 << self.mantissa_bits
        return Fraction(mantissa) * Fraction(2) ** (self.power(exponent) - self.mantissa_bits)

    def power(self, field):
        """The exponent of the numbers with this field of the code; subnormals have that of the least normal."""
        return max(field, self.suffix != "fnu") - self.bias


@functools.cache
def float_of(name):
    """The Float that a name stands for."""
    if name in NATIVE_FLOATS:
        exponent_bits, mantissa_bits = NATIVE_FLOATS[name]
        width = exponent_bits + mantissa_bits + 1
        return Float(exponent_bits, mantissa_bits, (1 << exponent_bits - 1) - 1, "", width)
    width, exponent_bits, mantissa_bits, bias, suffix = re.fullmatch(
        r"f(\d)e(\d)m(\d)(?:b(\d+))?([a-z]*)", name
    ).groups()
    usual = (1 << int(exponent_bits) - 1) - 1 + (suffix == "fnuz")
    return Float(int(exponent_bits), int(mantissa_bits), int(bias or usual), suffix, int(width))


def is_float(name):
    return "f" in name


def width_of(name):
    """Bits of a code."""
    return 1 if name == "pred" else float_of(name).width if is_float(name) else int(name[1:])


def range_of(name):
    """The lowest and the highest number of an integer type."""
    bits = width_of(name)
    return (-1 << bits - 1, (1 << bits - 1) - 1) if name[0] == "s" else (0, (1 << bits) - 1)


def is_negative(value):
    return value < 0 or isinstance(value, float) and math.copysign(1, value) < 0


def decode(code, name):
    """The value of a code; bits above its width are ignored."""
    code %= 1 << width_of(name)
    if not is_float(name):
        return Fraction(code - (1 << width_of(name)) if code > range_of(name)[1] else code)
    kind = float_of(name)
    sign, magnitude = (code & kind.sign, code & kind.sign - 1) if kind.sign else (0, code)
    if code == kind.nan or magnitude > max(kind.largest, kind.infinity or 0):
        return math.nan
    if magnitude == kind.infinity:
        return -math.inf if sign else math.inf
    if not magnitude and sign:
        return -0.0
    return -kind.magnitude(magnitude) if sign else kind.magnitude(magnitude)


def encode(value, name, saturate=True):
    """The code of a value, rounded once to the type."""
    if name == "pred":
        return int(value != 0)
    if not is_float(name):
        return encode_integer(value, name)
    kind = float_of(name)
    if value != value:
        return kind.nan or 0
    if kind.suffix == "fnu":
        return encode_power(value, kind, saturate)
    sign = kind.sign if is_negative(value) else 0
    if abs(value) == math.inf:
        return sign | infinite(kind, saturate)
    code = nearest(abs(Fraction(value)), kind)
    if code > kind.largest:
        code = infinite(kind, saturate)
    return code | sign if code or kind.suffix != "fnuz" else 0


def encode_integer(value, name):
    if value != value:
        return 0
    lowest, highest = range_of(name)
    if abs(value) == math.inf:
        return (highest if value > 0 else lowest) % (1 << width_of(name))
    return min(max(round(Fraction(value)), lowest), highest) % (1 << width_of(name))


def infinite(kind, saturate):
    """The code, without a sign, of what is too large."""
    if kind.infinity is not None:
        return kind.infinity
    return kind.largest if saturate or kind.nan is None else kind.nan


def nearest(magnitude, kind):
    """The code of the nearest number, half to even, as if every code were a number and there were more of them."""
    if not magnitude:
        return 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    exponent = max(exponent, kind.power(0))
    units = round(magnitude / Fraction(2) ** (exponent - kind.mantissa_bits))  # half to even, as Python rounds
    return (exponent - kind.power(0) << kind.mantissa_bits) + units


def encode_power(value, kind, saturate):
    """The code of the nearest power of two; a tie goes up."""
    if value < 0:
        return kind.nan
    code = 0
    while code <= kind.largest and value >= kind.magnitude(code) * Fraction(3, 2):
        code += 1
    return code if code <= kind.largest else infinite(kind, saturate)


# ---- steps -----------------------------------------------------------------------------------------------------------


def compute_type(source, target):
    """The type of the steps."""
    return "f64" if {source, target} & {"f64", "s32", "u32", "s64", "u64"} else "f32"


def rounded(value, name):
    """A value in a floating-point type."""
    return decode(encode(value, name), name)


def step(operation, left, right, name):
    """One operation of IEEE 754 in a type: the exact result rounded once."""
    if left != left or right != right:
        return math.nan
    if operation == "round":
        if abs(left) == math.inf or not left:
            return left
        return Fraction(round(left)) or (-0.0 if left < 0 else Fraction(0))
    if operation in ("multiply", "divide"):
        return rounded(product(left, right, operation == "divide"), name)
    return rounded(total(left, negated(right) if operation == "subtract" else right), name)


def negated(value):
    """Minus a value, which may be a zero of either sign."""
    return -value if value else Fraction(0) if is_negative(value) else -0.0


def total(left, right):
    if math.inf in (abs(left), abs(right)):
        return math.nan if left == -right else left if abs(left) == math.inf else right
    if not left and not right:
        return -0.0 if is_negative(left) and is_negative(right) else Fraction(0)
    return Fraction(left) + Fraction(right)


def product(left, right, is_quotient):
    sign = -1 if is_negative(left) != is_negative(right) else 1
    left, right = abs(left), abs(right)
    if is_quotient:
        if left == right and left in (0, math.inf):
            return math.nan
        is_infinite, is_zero = left == math.inf or not right, not left or right == math.inf
    else:
        is_infinite, is_zero = math.inf in (left, right), 0 in (left, right)
        if is_infinite and is_zero:
            return math.nan
    if is_infinite:
        return sign * math.inf
    if is_zero:
        return -0.0 if sign < 0 else Fraction(0)
    return sign * (left / right if is_quotient else left * right)


def converted(code, source, target, saturate=True, steps=(), parameters=()):
    """The code of an element after the steps, (operation, number of a parameter or None) each.

    parameters    values of the type of the steps
    """
    value = decode(code, source)
    if steps:
        kind = compute_type(source, target)
        value = rounded(value, kind)
        for operation, number in steps:
            value = step(operation, value, Fraction(0) if number is None else parameters[number], kind)
    return encode(value, target, saturate)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def is_nan(codes, name):
    """Which codes are nans."""
    codes = np.asarray(codes)
    if not is_float(name):
        return np.zeros(codes.shape, bool)
    kind = float_of(name)
    if kind.suffix in ("fnuz", "fnu") or kind.nan is None:
        return codes == kind.nan if kind.nan is not None else np.zeros(codes.shape, bool)
    return codes & codes.dtype.type(kind.sign - 1) > codes.dtype.type(max(kind.largest, kind.infinity or 0))


@functools.cache
def all_values(name):
    """The values of all codes of a type of at most 16 bits, as float64, which has them all."""
    values = [decode(code, name) for code in range(1 << width_of(name))]
    assert all(value != value or float(value) == value for value in values)
    return np.array([float(value) for value in values])


@functools.cache
def boundaries(name):
    """The numbers where rounding changes, above zero: number i is halfway between codes i and i + 1."""
    kind = float_of(name)
    numbers = [kind.magnitude(code) for code in range(kind.largest + 2)]
    middles = [(low + high) / 2 for low, high in zip(numbers, numbers[1:])]
    assert all(Fraction(float(middle)) == middle for middle in middles)
    return np.array([float(middle) for middle in middles])


def counts_below(numbers, limits):
    """How many limits are below each number, and how many are not above it.

    numbers    float64, or integers of 64 bits, which are compared as integers
    """
    if numbers.dtype.kind != "f":
        limits = limits[limits < 2.0**64]
        below, above = np.floor(limits).astype(np.uint64), np.ceil(limits).astype(np.uint64)
        return np.searchsorted(below, numbers, "left"), np.searchsorted(above, numbers, "right")
    return np.searchsorted(limits, numbers, "left"), np.searchsorted(limits, numbers, "right")


def magnitudes_and_signs(values):
    """Absolute values, of unsigned integers for integers, and whether there is a minus."""
    if values.dtype.kind == "f":
        return np.abs(values), np.signbit(values)
    signs = values < 0
    return np.where(signs, -values.astype(np.uint64), values.astype(np.uint64)), signs


def expected_codes(values, name, saturate=True):
    """The codes of float64 numbers, or of integers of 64 bits, rounded once to any type but f32 and f64."""
    if name == "pred":
        return (values != 0).astype(np.uint8)
    if not is_float(name):
        return expected_integers(values, name)
    kind = float_of(name)
    magnitudes, signs = magnitudes_and_signs(values)
    low, high = counts_below(magnitudes, boundaries(name))
    codes = np.where(low % 2 == 0, low, high)
    if kind.suffix == "fnu":
        codes = high
    codes[codes > kind.largest] = infinite(kind, saturate)
    if kind.suffix == "fnu":
        codes[signs & (magnitudes != 0)] = kind.nan
    else:
        codes |= np.where(signs & ((codes != 0) | (kind.suffix != "fnuz")), kind.sign, 0)
    codes[values != values] = kind.nan or 0
    return codes.astype(np.uint16)


def expected_integers(values, name):
    """The codes of numbers in an integer type, by Python's own integers."""
    lowest, highest = range_of(name)

    def nearest_integer(value):
        if value != value:
            return 0
        return lowest if value <= lowest else highest if value >= highest else round(value)

    return np.array([nearest_integer(value) % (highest - lowest + 1) for value in values.tolist()], np.uint64)


def are_nearest(values, found):
    """Whether each float32 or float64 is the nearest to its number, half to even.

    values    float64, or integers of 64 bits
    """
    if found.dtype == np.float64:
        return same_floats(found, values if values.dtype.kind == "f" else np.array([float(v) for v in values.tolist()]))
    exact = found.astype(np.float64)
    below, above = (np.nextafter(found, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf))
    below[found == np.finfo(np.float32).min], above[found == np.finfo(np.float32).max] = -(2.0**128), 2.0**128
    low, high = (exact + below) / 2, (exact + above) / 2
    if values.dtype.kind != "f":
        values, low, high = (array.astype(object) for array in (values, low, high))  # Python compares these exactly
    is_even = found.view(np.uint32) % 2 == 0
    inside = (low < values) & (values < high) | ((values == low) | (values == high)) & is_even
    limit = 2.0**128 - 2.0**103
    inside = np.where(np.isinf(found), np.where(found > 0, values >= limit, values <= -limit), inside).astype(bool)
    if values.dtype.kind != "f":
        return inside
    return inside & (np.signbit(values) == np.signbit(found)) | np.isnan(values) & np.isnan(found)


def same_floats(left, right):
    """Whether numbers are equal, zeros with the same sign, or both nans."""
    return (left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right)
