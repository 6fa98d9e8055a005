"""The model of casts is checked against numbers that everybody knows, and its arrays against its rational numbers."""

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from tests import reference_arithmetic as model

SMALL_FLOATS = "f16 bf16 f8e5m2 f8e4m3 f8e4m3fn f8e3m4 f8e5m2fnuz f8e4m3fnuz f8e4m3b11fnuz f8e8m0fnu".split()
SMALL_FLOATS += ["f6e3m2fn", "f6e2m3fn", "f4e2m1fn"]
INTEGERS = "s1 u1 s2 u2 s4 u4 s8 u8 s16 u16 s32 u32 s64 u64".split()


@pytest.mark.parametrize(
    "name, largest, least",
    [
        ("f16", 65504, 2**-24),
        ("bf16", (2 - 2**-7) * 2.0**127, 2**-133),
        ("f8e5m2", 57344, 2**-16),
        ("f8e4m3", 240, 2**-9),
        ("f8e4m3fn", 448, 2**-9),
        ("f8e3m4", 15.5, 2**-6),
        ("f8e5m2fnuz", 57344, 2**-17),
        ("f8e4m3fnuz", 240, 2**-10),
        ("f8e4m3b11fnuz", 30, 2**-13),
        ("f8e8m0fnu", 2.0**127, 2**-127),
        ("f6e3m2fn", 28, 2**-4),
        ("f6e2m3fn", 7.5, 2**-3),
        ("f4e2m1fn", 6, 0.5),
    ],
)
def test_ranges_of_the_small_floats(name, largest, least):
    kind = model.float_of(name)
    assert model.decode(kind.largest, name) == largest
    assert model.decode(0 if name == "f8e8m0fnu" else 1, name) == least


def test_native_floats_are_read_and_rounded_as_python_does():
    numbers = random.Random(1)
    for _ in range(3000):
        bits = numbers.getrandbits(64)
        (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
        if value == value:
            assert model.decode(bits, "f64") == value and model.encode(value, "f64") == bits
        exact = Fraction(numbers.getrandbits(70), numbers.getrandbits(60) + 1) * Fraction(2) ** numbers.randint(
            -1200, 0
        )
        assert model.decode(model.encode(exact, "f64"), "f64") == float(exact)
        (half,) = struct.unpack("<e", (bits % 65536).to_bytes(2, "little"))
        if half == half:
            assert model.decode(bits % 65536, "f16") == half


@pytest.mark.parametrize(
    "value, name, saturate, code",
    [
        (Fraction(464), "f8e4m3fn", False, 0x7E),  # a tie; the largest number's code is even
        (Fraction(465), "f8e4m3fn", False, 0x7F),
        (Fraction(465), "f8e4m3fn", True, 0x7E),
        (-math.inf, "f8e4m3fnuz", True, 0xFF),
        (-math.inf, "f8e4m3fnuz", False, 0x80),
        (Fraction(65520), "f16", True, 0x7C00),
        (Fraction(-1, 10**9), "f8e5m2fnuz", True, 0),
        (Fraction(-1, 10**9), "f8e5m2", True, 0x80),
        (math.nan, "f4e2m1fn", True, 0),
        (-math.inf, "f4e2m1fn", False, 0xF),
        (Fraction(3, 2), "f8e8m0fnu", True, 128),
        (Fraction(-1, 10**90), "f8e8m0fnu", True, 0xFF),
        (-0.0, "f8e8m0fnu", True, 0),
        (math.inf, "f8e8m0fnu", True, 0xFE),
        (math.inf, "f8e8m0fnu", False, 0xFF),
        (Fraction(5, 2), "s8", True, 2),
        (Fraction(-1, 2), "s8", True, 0),
        (Fraction(-9, 5), "s2", True, 2),
        (-math.inf, "s1", True, 1),
        (math.nan, "u64", True, 0),
        (math.nan, "pred", True, 1),
        (-0.0, "pred", True, 0),
    ],
)
def test_rules_of_the_casts(value, name, saturate, code):
    assert model.encode(value, name, saturate) == code


@pytest.mark.parametrize("kind, float_type", [("f32", np.float32), ("f64", np.float64)])
def test_steps_are_those_of_ieee_754(kind, float_type):
    """NumPy's own operations on numbers of every kind, which round once."""
    numbers = random.Random(2)
    word = f"u{np.dtype(float_type).itemsize}"
    width = 8 * np.dtype(float_type).itemsize
    codes = [numbers.getrandbits(width) for _ in range(60)] + [0, 1, 1 << width - 1, (1 << width - 1) + 1]
    codes += [model.encode(value, kind) for value in (1, -1, math.inf, -math.inf, math.nan, Fraction(5, 2), -3)]
    values = [model.decode(code, kind) for code in codes]
    natives = np.array(codes, word).view(float_type)
    operations = {"multiply": np.multiply, "add": np.add, "subtract": np.subtract, "divide": np.divide}
    for operation, ufunc in operations.items():
        with np.errstate(all="ignore"):
            expected = ufunc.outer(natives, natives)
        found = [[float(model.step(operation, left, right, kind)) for right in values] for left in values]
        assert model.same_floats(np.array(found), expected.astype(np.float64)).all(), operation
    found = np.array([float(model.step("round", value, None, kind)) for value in values])
    assert model.same_floats(found, np.rint(natives).astype(np.float64)).all()


def samples(name):
    """Numbers at, above and below the boundaries of a type, and others, all of them float64."""
    numbers = np.random.default_rng(3)
    limits = model.boundaries(name) if model.is_float(name) else np.arange(-3, 3) + 0.5
    limits = numbers.choice(limits, 200)
    found = np.concatenate([limits, np.nextafter(limits, np.inf), np.nextafter(limits, -np.inf), limits * 1.1])
    found = np.concatenate([found, -found, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324]])
    return np.concatenate([found, 2.0 ** np.arange(-10, 70), 2.0 ** np.arange(-10, 70) - 0.5])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [*SMALL_FLOATS, *INTEGERS, "pred"])
@pytest.mark.parametrize("saturate", [True, False])
def test_the_arrays_say_the_same_as_the_rational_numbers(name, saturate):
    values = samples(name)
    exact = [value if value != value or not value or abs(value) == math.inf else Fraction(value) for value in values]
    expected = np.array([model.encode(value, name, saturate) for value in exact], np.uint64)
    found = model.expected_codes(values, name, saturate)
    nans = model.is_nan(found, name)
    assert (nans == model.is_nan(expected, name)).all()
    assert (found[~nans] == expected[~nans]).all()
    for dtype in (np.int64, np.uint64):
        integers = np.random.default_rng(4).integers(0, 2**64, 200, np.uint64)
        integers = (integers >> np.random.default_rng(5).integers(0, 64, 200).astype(np.uint64)).view(dtype)
        expected = [model.encode(Fraction(value), name, saturate) for value in integers.tolist()]
        found = model.expected_codes(integers, name, saturate)
        same = (found == np.array(expected, np.uint64)) | model.is_nan(found, name) & (integers < 0)
        assert same.all()


@pytest.mark.parametrize("target", ["f32", "f64"])
@pytest.mark.parametrize("source", ["f64", "s64", "u64"])
def test_nearest_native_floats_are_known(source, target):
    """The nearest one passes, its two neighbours fail."""
    numbers, float_type = np.random.default_rng(6), {"f32": np.float32, "f64": np.float64}[target]
    bits = numbers.integers(0, 2**64, 300, np.uint64)
    if source == "f64":
        singles = np.abs(bits.astype(np.uint32).view(np.float32))
        with np.errstate(all="ignore"):
            ties = (singles.astype(np.float64) + np.nextafter(singles, np.float32(np.inf))) / 2
        values = np.concatenate([bits.view(np.float64), ties, -ties, np.nextafter(ties, 0), np.nextafter(ties, 9e99)])
        values = np.concatenate([values, [0.0, -0.0, np.inf, np.nan, 2.0**128 - 2.0**103, 3 * 2.0**-150]])
    else:
        values = (bits >> numbers.integers(0, 64, 300).astype(np.uint64)).view(
            {"s64": np.int64, "u64": np.uint64}[source]
        )
    special = [value != value or not value or abs(value) == math.inf for value in values.tolist()]
    exact = [value if is_special else Fraction(value) for value, is_special in zip(values.tolist(), special)]
    found = np.array([float(model.rounded(value, target)) for value in exact]).astype(float_type)
    if source != "f64":
        found = np.abs(found) if source == "u64" else found
    with np.errstate(all="ignore"):
        assert model.are_nearest(values, found).all()
        for side in (-np.inf, np.inf):
            others = np.nextafter(found, float_type(side))
            assert not model.are_nearest(values, others)[(others != found) & (found == found)].any()
