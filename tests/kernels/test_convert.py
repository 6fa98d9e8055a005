"""Casts and steps of kernels/convert.cuh are those of the exact model: one rounding each, for every code that is short
enough to try them all, and for those of 32 and 64 bits where roundings change.
"""

import itertools

import numpy as np
import pytest

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic
from tests import reference_arithmetic as model
from tests.support.cast_kernels import FORMS, TYPES, arithmetic_of, converted, pairs_of, text_of
from tests.support.effort import ALL
from tests.support.simt import toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
SHORT = [element_type for element_type in TYPES if model.width_of(element_type.value) < 16]
HALVES = [ElementType(name) for name in ("s16", "u16", "f16", "bf16")]
WIDE = [ElementType(name) for name in ("s32", "u32", "s64", "u64", "f32", "f64")]


def right(values, found, target, saturate):
    """Which codes are those of the values in the target's type."""
    if target in (ElementType.F32, ElementType.F64):
        with np.errstate(all="ignore"):  # a signalling nan may stay one, and there is no number after the largest
            return model.are_nearest(values, found.view(target.dtype))
    expected = model.expected_codes(values, target.value, saturate).astype(found.dtype)
    return (found == expected) | model.is_nan(found, target.value) & model.is_nan(expected, target.value)


def wrong_casts(source, codes, values, text=None, targets=TYPES):
    """The first wrong code of every pair and rule."""
    found = []
    for target in targets:
        for saturate in (True, False) if target.is_floating else (True,):
            codes_found = converted(codes, Arithmetic(source, target, saturate), (), text)
            wrong = np.flatnonzero(~right(values, codes_found, target, saturate))
            if wrong.size:
                first = wrong[0]
                found.append((source.value, target.value, saturate, hex(codes[first]), hex(codes_found[first])))
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", [*SHORT, *HALVES])
def test_every_code_to_every_type(source):
    values = model.all_values(source.value)
    assert wrong_casts(source, np.arange(values.size), values) == []


@pytest.mark.parametrize("source", [each for each in SHORT if model.width_of(each.value) < 8])
def test_bits_above_the_value_are_ignored(source):
    width = model.width_of(source.value)
    values = model.all_values(source.value)[np.arange(256) % (1 << width)]
    assert wrong_casts(source, np.arange(256), values) == []


def wide_values(source):
    """Numbers of a type of 32 or 64 bits: of every size, and around those where the roundings to other types change."""
    random = np.random.default_rng(31)
    bits = 8 * source.itemsize
    codes = random.integers(0, 1 << 32, 4000 * (1 + 4 * ALL), np.uint64) << np.uint64(32)
    codes = (codes | random.integers(0, 1 << 32, codes.size, np.uint64)) >> np.uint64(64 - bits)
    if source.is_integral:
        codes >>= random.integers(0, bits, codes.size).astype(np.uint64)
        middles = [1 << high | 1 << low for high, low in itertools.combinations(range(bits), 2)]
        edges = [number + step for number in (0, *middles, *(1 << k for k in range(bits))) for step in (-1, 0, 1)]
        edges += [-number for number in edges]
        codes = np.concatenate([codes, np.array([edge % (1 << bits) for edge in edges], np.uint64)])
        return codes.astype(source.carrier).view(source.dtype)
    middles = [np.array([0, np.inf, np.nan, 2.0**-149, 2.0**-150, 2.0**128 - 2.0**103])]
    middles += [limit + np.array([-0.5, 0, 0.5]) for limit in (2.0**k for k in range(65))]
    middles += [model.boundaries(each.value) for each in reversed(TYPES) if each.is_floating and each.itemsize < 4]
    edges = np.concatenate(middles)
    if not ALL:
        edges = np.concatenate([edges[:2000], random.choice(edges, 2000)])
    with np.errstate(all="ignore"):
        edges = np.concatenate([edges, -edges]).astype(source.dtype)
        around = [
            edges,
            np.nextafter(edges, source.dtype.type(np.inf)),
            np.nextafter(edges, source.dtype.type(-np.inf)),
        ]
    return np.concatenate([codes.astype(source.carrier).view(source.dtype), *around])


def exact(numbers):
    """Numbers as the model takes them: float64, or integers of 64 bits."""
    kind = {"f": np.float64, "i": np.int64, "u": np.uint64}[numbers.dtype.kind]
    with np.errstate(all="ignore"):
        return numbers.astype(kind)


@pytest.mark.parametrize("source", WIDE)
def test_numbers_of_32_and_64_bits_to_every_type(source):
    numbers = wide_values(source)
    assert wrong_casts(source, numbers.view(source.carrier), exact(numbers)) == []


# ---- steps -----------------------------------------------------------------------------------------------------------


def some_codes(element_type, count, random):
    width = model.width_of(element_type.value)
    return (
        random.integers(0, 1 << width, count, np.uint64, endpoint=False)
        if width < 64
        else random.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    )


def some_parameters(arithmetic, count, random):
    """Numbers of every size, small integers, zeros and infinities."""
    kind = arithmetic.compute.dtype
    word = np.uint32 if kind.itemsize == 4 else np.uint64
    found = []
    for _ in range(sum(step.parameter is not None for step in arithmetic.steps)):
        usual = (random.standard_normal(count) * 2.0 ** random.integers(-12, 12, count)).astype(kind)
        any_bits = random.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(kind)
        plain = random.choice(np.array([0, -0.0, 1, -1, 2, 255, 0.5, np.inf], kind), count)
        found.append(np.where(random.random(count) < 0.7, usual, np.where(random.random(count) < 0.5, any_bits, plain)))
    return found


def expected_steps(codes, arithmetic, parameters):
    kind = arithmetic.compute.value
    operands = [[model.decode(int(code), kind) for code in array.view(f"u{array.itemsize}")] for array in parameters]
    return [
        model.converted(
            int(code), arithmetic.source.value, arithmetic.target.value, arithmetic.saturate, arithmetic.steps, given
        )
        for code, *given in zip(codes, *operands)
    ]


def wrong_steps(form, pairs, count, text=None):
    """The first wrong code of every pair."""
    random, found = np.random.default_rng(7), []
    for number, (source, target) in enumerate(pairs):
        arithmetic = arithmetic_of(form, source, target, bool(number % 2))
        codes = some_codes(source, count, random)
        parameters = some_parameters(arithmetic, count, random)
        result = converted(codes, arithmetic, parameters, text)
        expected = np.array(expected_steps(codes, arithmetic, parameters), np.uint64).astype(result.dtype)
        wrong = result != expected
        wrong &= ~(model.is_nan(result, target.value) & model.is_nan(expected, target.value))
        if wrong.any():
            first = np.flatnonzero(wrong)[0]
            operands = [array[first] for array in parameters]
            found.append(
                (source.value, target.value, hex(codes[first]), operands, hex(result[first]), hex(expected[first]))
            )
    return found


@pytest.mark.parametrize("form", FORMS)
def test_steps_round_once_each(form):
    pairs = pairs_of(form)
    count = 10 if len(pairs) > 100 else 40
    assert wrong_steps(form, pairs, count * (1 + 9 * ALL)) == []


FLOATS = [(ElementType.F32, ElementType.F32), (ElementType.F64, ElementType.F64)]


@pytest.mark.parametrize("form", FORMS)
def test_steps_of_floats_of_every_size(form):
    assert wrong_steps(form, FLOATS, 1000 * (1 + 9 * ALL)) == []


# ---- broken twins ----------------------------------------------------------------------------------------------------

FUSED = (
    "if (operation == GPL_ROUND) {",
    "const bool fused = operation == GPL_MULTIPLY && next == GPL_ADD;\n"
    "    const long double product = (long double)x * operand(0).value;\n"
    "    if (fused) { x = (typename GplReal<W>::type)(product + operand(1).value); break; }\n"
    "    if (operation == GPL_ROUND) {",
)


def test_a_fused_multiply_add_is_seen():
    """It computes in 64 bits of mantissa and rounds once, where two roundings are the law."""
    found = wrong_steps("scale and shift", FLOATS, 300, text_of(FUSED))
    assert {source for source, *_ in found} == {"f32", "f64"}


CAST_FAULTS = [
    (("rest == half && (whole & 1)", "rest == half"), "f64", "f16"),  # ties away from zero
    (("nan = given != given, ", "nan = given - given != 0, "), "f32", "f16"),  # infinity is nan
    (
        ("if (place.code < least << 23) place.code = least << 23;", ""),
        "f32",
        "f16",
    ),  # subnormal numbers have more places
    (("is_nan_last = type.special == GPL_FINITE;", "is_nan_last = false;"), "f32", "f4e2m1fn"),  # nan becomes -0
    (("gpl_at_most(x.real, most.real)", "x.real"), "f32", "f8e5m2"),  # what is too large has any code
    (("if (type.special == GPL_UNSIGNED_ZERO && code == 0) return 0;", ""), "f32", "f8e4m3fnuz"),
    (("type.special == GPL_NAN ? all - 1 : all;", "all;"), "f32", "f8e4m3fn"),
    (("if (shift > most) shift = most;", "shift &= most;"), "f64", "s64"),
    (("above > 0 ? above : 0", "above"), "f64", "f16"),  # no subnormal numbers
    (("(x.significand >> (top - 1) & 1)", "0"), "f32", "f8e8m0fnu"),
    (("(all >> 1) + negative", "all >> 1"), "s32", "s8"),
    (("(all >> 1) + 1)", "all >> 1)"), "f32", "s8"),
    (("return x != x ? 0 : result.code & range.all;", "return result.code & range.all;"), "f32", "s8"),
    (("x.code + 0x7FFF + (x.code >> 16 & 1)", "x.code + 0x8000"), "f32", "bf16"),
    (("gpl_top(x.significand) + x.exponent >= 8", "gpl_top(x.significand) + x.exponent > 8"), "f32", "u32"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("change, source, target", CAST_FAULTS if ALL else CAST_FAULTS[:5])
def test_a_broken_cast_is_seen(change, source, target):
    source = ElementType(source)
    numbers = wide_values(source)
    found = wrong_casts(source, numbers.view(source.carrier), exact(numbers), text_of(change), [ElementType(target)])
    assert found, change
