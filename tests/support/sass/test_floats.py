"""Floats in the interpreter of machine code are those of IEEE 754: one rounding each, subnormal numbers, nan, zeros."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.support.sass.floats import fused_f32, fused_f64, rounded_f32
from tests.support.sass.test_machine import ARCHITECTURES, THREADS, launched, needs_disassembler

pytestmark = needs_disassembler
rng = np.random.default_rng(11)
EDGES = np.array(
    [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    + [0x3F000000, 0x40200000, 0x437F0000, 0x437F8000, 0x4B000001, 0x00FFFFFF, 0x7F000000, 0x33000001],
    np.uint32,
)


def operands():
    """Pairs of floats: special ones with each other, and all kinds of random ones."""
    edges = np.concatenate([EDGES, EDGES | np.uint32(1 << 31)])
    a, b = (each.ravel() for each in np.meshgrid(edges, edges))
    any_bits = rng.integers(0, 2**32, (2, 4 * THREADS), np.uint32)
    near = (rng.standard_normal((2, 4 * THREADS)) * 2.0 ** rng.integers(-3, 3, 4 * THREADS)).astype(np.float32)
    a, b = np.concatenate([[a, b], any_bits, near.view(np.uint32)], axis=1)
    count = a.size // THREADS * THREADS
    return a[:count].view(np.float32), b[:count].view(np.float32)


def exact(a, b, c):
    """a * b + c of single numbers in f32, by exact numbers."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    return nearest_f32(total) if total else a * b + c


def nearest_f32(value):
    """The float next to an exact number, half to even."""
    step = Fraction(2) ** max(math.frexp(abs(value.numerator) / value.denominator)[1] - 24, -149)
    return min(float(round(value / step) * step), 2.0**128) if value > 0 else -nearest_f32(-value)


def clamped(values, low, high):
    with np.errstate(invalid="ignore"):
        rounded = np.clip(np.rint(values.astype(np.float64)), low, high)
    return np.where(np.isnan(values), 0, rounded).astype(np.int64).astype(np.uint32)


def flushed(values):
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)


def least(x, y):
    """The minimum: the number beside a nan, and -0 before 0."""
    return np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y))


def ptx(text, to="f", given='"f"(x), "f"(y)'):
    """The statement that puts the result of an instruction into f, a float, r, a word, or h, half of one."""
    return f'asm("{text}" : "={to}"({to}) : {given});'


ONE = '"f"(x)'
RESULTS = {"f": ("float", "__float_as_uint(f)"), "r": ("unsigned", "r"), "h": ("unsigned short", "h")}
OPERATIONS = {
    ptx("add.rn.f32 %0, %1, %2;"): lambda x, y: x + y,
    ptx("sub.rn.f32 %0, %1, %2;"): lambda x, y: x - y,
    ptx("mul.rn.f32 %0, %1, %2;"): lambda x, y: x * y,
    ptx("div.rn.f32 %0, %1, %2;"): lambda x, y: x / y,
    ptx("rcp.rn.f32 %0, %1;", given=ONE): lambda x, y: np.float32(1) / x,
    ptx("mul.rn.ftz.f32 %0, %1, %2;"): lambda x, y: flushed(flushed(x) * flushed(y)),
    ptx("add.rz.f32 %0, %1, %2;"): lambda x, y: fused_f32(x, np.float32(1), y, "RZ"),
    ptx("min.f32 %0, %1, %2;"): lambda x, y: least(x, y),
    ptx("max.f32 %0, %1, %2;"): lambda x, y: -least(-x, -y),
    ptx("abs.f32 %0, %1; neg.f32 %0, %0;", given=ONE): lambda x, y: -np.abs(x),
    "r = x < y;": lambda x, y: (flushed(x) < flushed(y)).astype(np.uint32),
    "r = !(x >= y);": lambda x, y: (~(flushed(x) >= flushed(y))).astype(np.uint32),
    "r = x != y;": lambda x, y: (flushed(x) != flushed(y)).astype(np.uint32),
    "f = (float)(int)__float_as_uint(x);": lambda x, y: x.view(np.int32).astype(np.float32),
    "f = (float)__float_as_uint(x);": lambda x, y: x.view(np.uint32).astype(np.float32),
    "f = (float)(unsigned char)(__float_as_uint(x) >> 16);": lambda x, y: x.view(np.uint8)[2::4].astype(np.float32),
    "f = (float)(short)__float_as_uint(x);": lambda x, y: x.view(np.int16)[::2].astype(np.float32),
    ptx("cvt.rn.f32.f64 %0, %1;", given='"d"(u)'): lambda x, y: x,
    ptx("cvt.rn.f32.f64 %0, %1;", given='"d"((u * v))'): lambda x, y: (x.astype(np.float64) * y).astype(np.float32),
    ptx("cvt.rn.f32.f64 %0, %1;", given='"d"((u / v))'): lambda x, y: (x.astype(np.float64) / y).astype(np.float32),
    ptx("cvt.rn.f32.f64 %0, %1;", given='"d"(fma(u, v, u))'): lambda x, y: (x.astype(np.float64) * y + x).astype(
        np.float32
    ),
    ptx("cvt.rni.s32.f32 %0, %1;", "r", ONE): lambda x, y: clamped(x, -(2**31), 2**31 - 1),
    ptx("cvt.rni.u32.f32 %0, %1;", "r", ONE): lambda x, y: clamped(x, 0, 2**32 - 1),
    ptx("cvt.rni.s8.f32 %0, %1;", "r", ONE): lambda x, y: clamped(x, -128, 127),
    ptx("cvt.rni.u8.f32 %0, %1;", "r", ONE): lambda x, y: clamped(x, 0, 255),
    ptx("cvt.rn.f16.f32 %0, %1;", "h", ONE): lambda x, y: x.astype(np.float16).view(np.uint16).astype(np.uint32),
    ptx("cvt.f32.f16 %0, %1;", given='"h"((unsigned short)__float_as_uint(x))'): lambda x, y: x.view(np.float16)[
        ::2
    ].astype(np.float32),
}


def same(found, expected):
    """Which words are equal, or both nans if they are floats."""
    if expected.dtype == np.float32:
        found = found.view(np.float32)
        return (found.view(np.uint32) == expected.view(np.uint32)) | np.isnan(found) & np.isnan(expected)
    return found == expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_floats_are_those_of_the_standard(architecture):
    a, b = operands()
    body = f"const float x = __uint_as_float(source[i]), y = __uint_as_float(source[{a.size} + i]);\n"
    body += 'double u, v; asm("cvt.f64.f32 %0, %1;" : "=d"(u) : "f"(x)); asm("cvt.f64.f32 %0, %1;" : "=d"(v) : "f"(y));'
    for number, text in enumerate(OPERATIONS):
        name = next(name for name in RESULTS if f'"={name}"' in text or text.startswith(name))
        kind, shown = RESULTS[name]
        body += f"{{ {kind} {name}; {text} target[{number * a.size} + i] = {shown}; }}\n"
    source, target = np.concatenate([a, b]).view(np.uint32), np.zeros(a.size * len(OPERATIONS), np.uint32)
    found, _ = launched(body, architecture, source, target, (a.size // THREADS, 1, 1))
    with np.errstate(all="ignore"):
        for (text, meaning), got in zip(OPERATIONS.items(), found.reshape(-1, a.size)):
            expected = meaning(a, b)
            if '"=h"' in text:
                nan = (expected & 0x7FFF) > 0x7C00
                expected = np.where(nan, 0x7FFF, expected)
            wrong = np.flatnonzero(~same(got, expected))
            assert not wrong.size, (
                text,
                a[wrong[:3]],
                b[wrong[:3]],
                got[wrong[:3]].view(np.float32),
                expected[wrong[:3]],
            )


def test_fused_sums_are_rounded_once():
    """Random numbers, and sums that lie at or beside the middle between two floats, where two roundings go wrong."""
    with np.errstate(all="ignore"):
        a, b = operands()
        c = np.where(rng.random(a.size) < 0.5, rng.permutation(b), (-a.astype(np.float64) * b).astype(np.float32))
        small = (rng.standard_normal(a.size) * 2.0**-60).astype(np.float32)
        ties = (1 + 2.0**-23 * rng.integers(0, 9, a.size)).astype(np.float32)
        middle = np.full_like(a, 1 + 2.0**-12)  # its square is a tie
        given = [(a, b, c), (middle, middle, small), (ties, np.full_like(a, 2.0**-24), ties)]
        for x, y, z in given:
            expected = [exact(*map(float, each)) for each in zip(x, y, z)]
            wrong = np.flatnonzero(~same(fused_f32(x, y, z).view(np.uint32), np.array(expected, np.float32)))
            assert not wrong.size, (x[wrong[:3]], y[wrong[:3]], z[wrong[:3]])
        twice = (middle.astype(np.float64) * middle + small).astype(np.float32)
        assert (twice != fused_f32(*given[1])).any()


def test_directed_roundings_enclose_the_exact_number():
    values = rng.standard_normal(1000) * 2.0 ** rng.integers(-160, 130, 1000)
    with np.errstate(all="ignore"):
        down, up, inward = (rounded_f32(values, name).astype(np.float64) for name in ("RM", "RP", "RZ"))
        assert ((down <= values) & (values <= up) & (np.abs(inward) <= np.abs(values))).all()
        assert (np.nextafter(down.astype(np.float32), np.float32(np.inf)) == up.astype(np.float32)).all()
    assert (inward == np.where(values > 0, down, up)).all()


@pytest.mark.parametrize(
    "a, b, c, expected",
    [
        (1 + 2.0**-52, 1 - 2.0**-52, -1.0, -(2.0**-104)),
        (2.0**-600, 2.0**-600, 0.0, 0.0),
        (-(2.0**-600), 2.0**-600, 0.0, -0.0),
        (2.0**-537, 2.0**-537, 2.0**-1074, 2.0**-1073),
        (2.0**1000, 2.0**1000, -(2.0**1023), math.inf),
        (2.0**1000, 2.0**1000, -math.inf, -math.inf),
        (math.inf, -1.0, 5.0, -math.inf),
        (math.inf, 1.0, -math.inf, math.nan),
        (0.0, math.inf, 1.0, math.nan),
        (3.0, -2.0, 6.0, 0.0),
        (-0.0, 1.0, -0.0, -0.0),
    ],
)
def test_fused_sums_of_doubles(a, b, c, expected):
    found = fused_f64(a, b, c)
    assert (
        found == expected
        and math.copysign(1, found) == math.copysign(1, expected)
        or found != found
        and expected != expected
    )


F8 = """unsigned short s; const float x = __uint_as_float(source[i]);
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(s) : "f"(0.0f), "f"(x));
  target[i] = s;"""
F8_BACK = """unsigned s; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(s) : "h"((unsigned short)(i << 8 | (255 - i))));
  target[i] = s;"""
BF16 = """unsigned short s; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(s) : "f"(__uint_as_float(source[i])));
  target[i] = s;"""


def run_short(body, values, architecture="sm_90"):
    return launched(body, architecture, values.astype(np.float32).view(np.uint32), np.zeros(THREADS, np.uint32))[0]


@pytest.mark.parametrize("architecture", ("sm_90", "sm_100"))
def test_floats_of_8_bits(architecture):
    """f8e4m3fn: halves to even, 448 for what is larger, nan stays; and every code back."""
    given = [0, -0.0, 1, 1.0625, 1.1875, -1.0625, 2.0**-9, 2.0**-10, 2.0**-10 * 1.01, 3 * 2.0**-10, 448, 464, 1e9]
    given = [*given, math.inf, -math.inf, math.nan, 247, 248, 249, 2.0**-149]
    expected = [0, 0x80, 0x38, 0x38, 0x3A, 0xB8, 1, 0, 1, 2, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x77, 0x78, 0x78, 0]
    found = run_short(F8, np.resize(given, THREADS), architecture)
    assert found[: len(given)].tolist() == expected
    halves = run_short(F8_BACK, np.zeros(THREADS), architecture).view(np.float16).reshape(-1, 2)
    assert [halves[code, 1] for code in (1, 0x38, 0x7E, 0x81)] == [2.0**-9, 1, 448, -(2.0**-9)]
    assert np.array_equal(halves[:, 0], halves[::-1, 1], equal_nan=True)
    assert np.flatnonzero(np.isnan(halves[:, 1])).tolist() == [0x7F, 0xFF]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bf16_is_rounded_half_to_even(architecture):
    given = [1, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-133, 2.0**-134, -(2.0**-134) * 1.5, 3.4e38, math.inf, math.nan]
    expected = [0x3F80, 0x3F80, 0x3F82, 1, 0, 0x8001, 0x7F80, 0x7F80, 0x7FFF]
    assert run_short(BF16, np.resize(given, THREADS), architecture)[: len(given)].tolist() == expected


HALVES = """const double x = 4294967295.0, y = -1.0 / 3; const bool lower = source[i] & 1;
  const unsigned long long bits = __double_as_longlong(lower ? x : y);
  target[i] = (unsigned)bits ^ (unsigned)(bits >> 32);"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_halves_of_doubles_that_look_like_nans_keep_their_bits(architecture):
    """The lower half of 4294967295.0 is 0xFFE00000, which the disassembler prints as -QNAN."""
    words = np.array([4294967295.0, -1 / 3]).view(np.uint32).reshape(2, 2)
    expected = words[:, 0] ^ words[:, 1]
    found, _ = launched(HALVES, architecture, np.arange(THREADS, dtype=np.uint32), np.zeros(THREADS, np.uint32))
    assert np.array_equal(found, np.where(np.arange(THREADS) & 1, *expected))
