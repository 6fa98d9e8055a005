"""The conversions of kernels/convert.cuh as NVRTC makes them for a device are those of the exact model.

`test_convert.py` compiles the functions for the host, which has no instructions for conversions.  Here
`tests/support/sass` executes the code of a device: all codes of sources of up to 16 bits, and numbers of the others.
"""

import itertools

import numpy as np
import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step
from tests import reference_arithmetic as model
from tests.kernels.test_convert import exact, expected_steps, right, some_codes, some_parameters, wide_values
from tests.support import nvrtc
from tests.support.cast_kernels import TYPES, arithmetic_of
from tests.support.conversion_code import converted_by_code
from tests.support.effort import ALL

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))
AT_ONCE = 6  # pairs of types in one compilation
MOST = 1 << 16 if ALL else 1 << 12  # numbers of a source of more than 16 bits

# Each type once as a source and once as a target, and the pairs that most arrays take.
PAIRS = [(source, TYPES[(number + 11) % len(TYPES)]) for number, source in enumerate(TYPES)]
USUAL = [
    *("u8 f32", "s8 f32", "u8 f16", "u8 bf16", "s4 bf16", "f32 bf16", "f32 f16", "bf16 f32", "f16 f32", "f16 bf16"),
    *("bf16 f16", "f32 f8e4m3fn", "bf16 f8e4m3fn", "f32 f8e5m2", "f8e4m3fn f32", "f8e4m3fn bf16", "f8e5m2 f32"),
    *("f8e5m2 f16", "f32 s8", "f32 u8", "f32 s16", "f16 s4", "bf16 u16", "f32 s32", "f32 u32", "f64 f32", "f32 f64"),
    "bf16 f8e5m2",  # and the number in the middle between the largest f8e5m2 and infinity
]
NAMED = [tuple(map(ElementType, pair.split())) for pair in USUAL]
CASTS = list(itertools.product(TYPES, TYPES)) if ALL else list(dict.fromkeys([*NAMED, *PAIRS]))


def rules(source, target):
    """The casts between two types: one for each rule, where they differ."""
    kind = model.float_of(target.value) if target.is_floating else None
    differ = kind is not None and model.infinite(kind, True) != model.infinite(kind, False)
    return [Arithmetic(source, target, saturate) for saturate in (True, False)[: 1 + differ]]


def numbers_of(source):
    """(codes, values): all of a short type; edges and random ones of the others."""
    if model.width_of(source.value) <= 16:
        values = model.all_values(source.value)
        return np.arange(values.size), values
    numbers = wide_values(source)
    numbers = np.random.default_rng(3).choice(numbers, MOST) if numbers.size > MOST else numbers
    return numbers.view(source.carrier), exact(numbers)


def wrong_casts(pairs, architecture="sm_90", text=None):
    """The first wrong code of every pair and rule."""
    arithmetics, found = tuple(each for pair in pairs for each in rules(*pair)), []
    for number, each in enumerate(arithmetics):
        codes, values = numbers_of(each.source)
        result = converted_by_code(arithmetics, number, codes, (), architecture, text)
        wrong = np.flatnonzero(~right(values, result, each.target, each.saturate))
        if wrong.size:
            found.append(
                (each.source.value, each.target.value, each.saturate, hex(codes[wrong[0]]), hex(result[wrong[0]]))
            )
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, len(CASTS), AT_ONCE))
def test_casts_are_right(first):
    assert wrong_casts(CASTS[first : first + AT_ONCE]) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ("sm_80", "sm_89", "sm_100"))
@pytest.mark.parametrize("first", range(0, len(NAMED) if ALL else 18, AT_ONCE))
def test_casts_of_other_architectures_are_right(architecture, first):
    few = NAMED if ALL else NAMED[len(architecture) % 2 :: 3] + NAMED[11:20]
    assert wrong_casts(few[first : first + AT_ONCE], architecture) == []


F8 = [
    each
    for each in TYPES
    if each.is_floating and each.itemsize == 1 and each.value.startswith("f8e") and each.bits == 8
]
OF_F8 = [
    pair for f8 in F8 for name in ("f32", "bf16", "f16") for pair in ((ElementType(name), f8), (f8, ElementType(name)))
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, len(OF_F8), 3))
def test_casts_of_f8_without_instructions_for_them_are_right(first):
    assert wrong_casts(OF_F8[first : first + 3], "sm_80") == []


# ---- steps -----------------------------------------------------------------------------------------------------------

STEPS = [
    *(("normalise", "u8", target) for target in ("f32", "f16", "f64")),
    *(("scale and shift", *pair) for pair in (("u8", "f32"), ("f32", "f32"), ("s32", "f64"), ("bf16", "f8e4m3fn"))),
    *(("quantise", *pair) for pair in (("f32", "s8"), ("f32", "u8"), ("bf16", "s4"), ("f64", "s16"))),
    *(("dequantise", *pair) for pair in (("s8", "f32"), ("u4", "bf16"), ("s32", "f64"))),
]


def wrong_steps(arithmetic, count, architecture="sm_90", text=None, parameters=None, codes=None):
    """The first wrong code: with numbers of every size, subnormal ones too, zeros and infinities."""
    random = np.random.default_rng(19)
    codes = some_codes(arithmetic.source, count, random) if codes is None else codes
    parameters = parameters or some_parameters(arithmetic, count, random)
    with np.errstate(invalid="ignore"):
        result = converted_by_code((arithmetic,), 0, codes, parameters, architecture, text)
    expected = np.array(expected_steps(codes, arithmetic, parameters), np.uint64).astype(result.dtype)
    target = arithmetic.target.value
    wrong = (result != expected) & ~(model.is_nan(result, target) & model.is_nan(expected, target))
    first = np.flatnonzero(wrong)[:1]
    return [(hex(codes[k]), [array[k] for array in parameters], hex(result[k]), hex(expected[k])) for k in first]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form, source, target", STEPS)
def test_steps_are_right(form, source, target):
    arithmetic = arithmetic_of(form, ElementType(source), ElementType(target))
    assert wrong_steps(arithmetic, 1024 * (1 + 7 * ALL)) == []


@pytest.mark.parametrize("architecture", ("sm_80", "sm_100"))
@pytest.mark.parametrize("form, source, target", STEPS if ALL else STEPS[::7])
def test_steps_of_other_architectures_are_right(form, source, target, architecture):
    arithmetic = arithmetic_of(form, ElementType(source), ElementType(target))
    assert wrong_steps(arithmetic, 512, architecture) == []


def test_every_byte_is_normalised_as_it_should():
    """255 divides, and means and deviations are those of images."""
    arithmetic = arithmetic_of("normalise", ElementType.U8, ElementType.F32)
    usual = [np.full(256, value, np.float32) for value in (255, 0.485, 0.229)]
    codes, expected = np.arange(256), (np.arange(256, dtype=np.float32) / usual[0] - usual[1]) / usual[2]
    found = converted_by_code((arithmetic,), 0, codes, usual)
    assert np.array_equal(found.view(np.float32), expected)


def ends(count):
    """Divisors and means around the ends of what the quick division takes, beyond them, and those of images."""
    random = np.random.default_rng(23)
    powers = 2.0 ** np.array([-149, -130, -40, -13, -12, -11, -10, -9, 0, 9, 10, 11, 12, 13, 26, 60, 126])
    edges = np.concatenate([powers, [0, np.inf, np.nan, 255, 127.5, 0.229, 0.485, 2 / 255]]).astype(np.float32)
    edges = np.concatenate([np.nextafter(edges, np.float32(side)) for side in (0, np.inf)] + [edges])
    usual = np.array([1, 255, 0.229, 0.485, 0, 2.0**-10, 2.0**10], np.float32)
    chosen = []
    for _ in range(3):
        some = np.where(random.random(count) < 0.6, random.choice(edges, count), random.choice(usual, count))
        chosen.append(np.where(random.random(count) < 0.2, -some, some))
    return chosen


NEAR = ("(115u << 23) <= 24u << 23", "(115u << 23) <= ~0u")


def test_divisions_are_right_at_the_ends_of_the_quick_way():
    arithmetic = arithmetic_of("normalise", ElementType.U8, ElementType.F32)
    assert wrong_steps(arithmetic, 4096, parameters=ends(4096)) == []
    text = kernel_text("convert.cuh")
    assert NEAR[0] in text
    assert wrong_steps(arithmetic, 4096, text=text.replace(*NEAR), parameters=ends(4096))


ROUNDED = {
    "round, to f32": ("f32", "f32", (Step("divide", 0), Step("round"))),
    "round, to s8": ("f32", "s8", (Step("divide", 0), Step("round"))),
    "round and add, to u8": ("f32", "u8", (Step("divide", 0), Step("round"), Step("add", 1))),
    "round in between, to bf16": ("f16", "bf16", (Step("divide", 0), Step("round"), Step("multiply", 1))),
    "to s16": ("f32", "s16", (Step("divide", 0),)),
    "to pred": ("f32", "pred", (Step("divide", 0),)),
}


def quotients_around_halves(source, count):
    """(codes, divisors): numbers of every size, infinities and nans, and quotients of about 0.5, 1.5, .."""
    random = np.random.default_rng(29)
    divisors = ends(count)[0]
    with np.errstate(all="ignore"):
        numbers = (random.integers(-300, 300, count) + np.float32(0.5)) * np.where(divisors, divisors, 1)
        numbers = np.nextafter(numbers, random.choice(np.float32([-np.inf, np.inf, 0]), count))
        codes = numbers.astype(source.dtype).view(source.carrier)
    any_code = some_codes(source, count, random).astype(codes.dtype)
    return np.where(random.random(count) < 0.5, codes, any_code), divisors


@pytest.mark.parametrize("name", ROUNDED)
def test_quotients_that_are_rounded_next_are_right(name):
    source, target, steps = ROUNDED[name]
    arithmetic = Arithmetic(ElementType(source), ElementType(target), True, steps)
    codes, divisors = quotients_around_halves(arithmetic.source, 2048)
    parameters = [divisors, np.full(codes.size, 3, np.float32)][: sum(step.parameter is not None for step in steps)]
    assert wrong_steps(arithmetic, codes.size, parameters=parameters, codes=codes) == []


# ---- broken twins ----------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "operation, right, wrong",
    [
        ("multiply", '"mul.rn.f32', '"mul.rn.ftz.f32'),  # what CuPy's options make of an operator
        ("add", '"add.rn.f32', '"add.rz.f32'),
        ("divide", '"div.rn.f32', '"div.full.ftz.f32'),
        ("divide", "(117u << 23) <= 20u << 23", "(117u << 23) <= ~0u"),
        ("divide", "if (!is_near) is_sure &=", "if (is_near) is_sure &="),
    ],
)
def test_a_broken_instruction_is_seen(operation, right, wrong):
    text = kernel_text("convert.cuh")
    assert text.count(right) == 1
    arithmetic = Arithmetic(ElementType.F32, ElementType.F32, True, (Step(operation, 0),))
    assert wrong_steps(arithmetic, 1024) == []
    assert wrong_steps(arithmetic, 1024, text=text.replace(right, wrong))


@pytest.mark.parametrize(
    "name, right, wrong",
    [
        ("round, to f32", "is_sure &= result.real == result.real;", ";"),  # infinity
        ("to pred", "next ? next == GPL_ROUND : to_whole;", "true;"),  # a small quotient is not 0
        ("round in between, to bf16", "if (next || !to_whole) x = gpl_rint<W>(x);", "if (!next) x = gpl_rint<W>(x);"),
    ],
)
def test_a_broken_rounded_quotient_is_seen(name, right, wrong):
    source, target, steps = ROUNDED[name]
    text = kernel_text("convert.cuh")
    assert text.count(right) == 1
    arithmetic = Arithmetic(ElementType(source), ElementType(target), True, steps)
    codes, divisors = quotients_around_halves(arithmetic.source, 2048)
    parameters = [divisors, np.full(codes.size, 3, np.float32)][: sum(step.parameter is not None for step in steps)]
    assert wrong_steps(arithmetic, codes.size, "sm_90", text.replace(right, wrong), parameters, codes)
