"""Element conversions of NumPy and of the native engine, with each instruction set, against the exact model: every code
of the small types, random codes of the wide ones, and the neighbours of every number where rounding changes.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step
from tests import reference_arithmetic as model
from tests.support import effort
from tests.support.element_conversions import ENGINES, conversions

REAL = [kind for kind in ElementType if not kind.is_complex]
SMALL = [kind for kind in REAL if kind.itemsize <= 2]
WIDE = [kind for kind in REAL if kind.itemsize > 2]
SMALL_FLOATS = [kind for kind in SMALL if kind.is_floating]
NATIVE = (ElementType.F32, ElementType.F64)
RANDOM = 1_000_000 if effort.ALL else 100_000  # for each pair of types: 180 million in all


@pytest.fixture(params=ENGINES)
def engine(request):
    """NumPy, and the native engine with each of its instruction sets."""
    with conversions(request.param) as found:
        yield found


def asks(target):
    """The values of `saturate` that make a difference."""
    if target not in SMALL_FLOATS or model.float_of(target.value).infinity is not None:
        return (True,)
    return (True, False)


def wrong(values, found, target, saturate):
    """Which of the found codes are not what the model says of the values, float64 or integers of 64 bits."""
    with np.errstate(all="ignore"):
        if target in NATIVE:
            return ~model.are_nearest(values, found.view(target.dtype))
        expected = model.expected_codes(values, target.value, saturate)
    nan = model.is_nan(expected, target.value)
    return np.where(nan, ~model.is_nan(found, target.value), found != expected)


def check(engine, codes, source, target, values):
    """Cast codes of the source, whose values are these."""
    for saturate in asks(target):
        found = engine.cast(codes, source, target, saturate).view(target.carrier)
        bad = wrong(values, found, target, saturate)
        assert not bad.any(), (target, saturate, codes[bad][:5], values[bad][:5], found[bad][:5])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SMALL, ids=str)
def test_every_code_of_a_small_type_becomes_every_type(engine, source):
    """Above the bits of an element there are others, which do not count."""
    count = 2 if source is ElementType.PRED else 1 << 8 * source.itemsize
    codes = np.arange(count).astype(source.carrier)
    values = model.all_values(source.value)
    values = values[codes.astype(np.intp) % len(values)]
    for target in REAL:
        if target is source:
            same = engine.cast(codes, source, target).view(source.carrier)
            mask = source.carrier.type((1 << model.width_of(source.value)) - 1)
            assert (same == codes & mask).all()
        else:
            check(engine, codes, source, target, values)


def values_of(codes, source):
    """The values of wide codes: float64, or integers of 64 bits."""
    natives = codes.view(source.dtype)
    with np.errstate(all="ignore"):
        return natives if source in (ElementType.S64, ElementType.U64) else natives.astype(np.float64)


def random_codes(source, count, seed):
    """Half of them with every bit random, and half small numbers, for integers, or of middling size, for floats."""
    numbers = np.random.default_rng(seed)
    bits = numbers.integers(0, 2**64, count, np.uint64)
    codes = bits.astype(source.carrier)
    half = codes[: count // 2]
    if source.is_floating:
        middling = numbers.standard_normal(len(half)) * 2.0 ** numbers.integers(-30, 30, len(half))
        half[...] = middling.astype(source.dtype).view(source.carrier)
    else:
        narrower = numbers.integers(0, source.bits, len(half)).astype(source.carrier)
        half.view(source.dtype)[...] >>= narrower.view(source.dtype)
    return codes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", REAL, ids=str)
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_random_wide_codes(engine, source, target):
    codes = random_codes(source, RANDOM, 6)
    if target is source:
        assert (engine.cast(codes, source, target).view(source.carrier) == codes).all()
    else:
        check(engine, codes, source, target, values_of(codes, source))


def limits_of(target):
    """Numbers where rounding to the target changes, or saturation begins, as float64."""
    if target in SMALL_FLOATS:
        return model.boundaries(target.value)
    if target is ElementType.PRED:
        return np.array([0.0])
    if target in NATIVE:
        return random_ties(target)
    lowest, highest = model.range_of(target.value)
    near = np.arange(-300, 300) / 2
    return np.concatenate([near, lowest + near, highest + near, 2.0 ** np.arange(64)])


def random_ties(target):
    """Numbers halfway between two f32; for f64, odd integers that need 54 bits, rounded to an f64."""
    bits = np.random.default_rng(7).integers(0, 2**31 - 2**24, 20_000).astype(np.uint32)
    singles = bits.view(np.float32)
    ties = (singles.astype(np.float64) + np.nextafter(singles, np.float32(np.inf))) / 2
    return np.concatenate([ties, 2.0 ** np.arange(53, 64), ties[(ties > 2**52) & (ties < 2**62)] * 1.5])


def around(limits, source):
    """Codes of the source at the limits and next to them, of both signs."""
    limits = np.concatenate([limits, -limits])
    if source.is_floating:
        with np.errstate(all="ignore"):
            near = limits.astype(source.dtype)
            sides = [np.nextafter(near, source.dtype.type(side)) for side in (-np.inf, np.inf)]
        return np.concatenate([near, *sides]).view(source.carrier)
    lowest, highest = model.range_of(source.value)
    floors = {math.floor(limit) for limit in limits.tolist()}
    near = {floor + step for floor in floors for step in (-1, 0, 1, 2)} | {lowest, lowest + 1, highest - 1, highest}
    return np.array([number for number in near if lowest <= number <= highest], source.dtype).view(source.carrier)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", REAL, ids=str)
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_next_to_every_number_where_rounding_changes(engine, source, target):
    if target is not source:
        codes = around(limits_of(target), source)
        check(engine, codes, source, target, values_of(codes, source))


@pytest.mark.parametrize("source, target", [("c64", "c128"), ("c128", "c64")])
def test_the_parts_of_complex_numbers_are_cast(engine, source, target):
    source, target = ElementType(source), ElementType(target)
    parts = random_codes(source.component, 2000, 8)
    found = engine.cast(parts.view(source.dtype), source, target).view(target.component.dtype)
    assert not wrong(values_of(parts, source.component), found, target.component, True).any()


@pytest.mark.parametrize("target", SMALL_FLOATS, ids=str)
def test_ml_dtypes_rounds_f32_to_the_same(engine, target):
    codes = np.concatenate([around(limits_of(target), ElementType.F32), random_codes(ElementType.F32, 100_000, 9)])
    numbers = codes.view(np.float32)
    if target is ElementType.F8E8M0FNU:
        # The law gives 2^-127 for zero, ml_dtypes a nan; and between 2^-127 and 1.5 * 2^-127 it takes the farther one.
        numbers = numbers[~(np.abs(numbers) < 2.0**-126)]
    if not target.holds(np.nan):
        numbers = numbers[numbers == numbers]  # the law gives 0, ml_dtypes -0
    found = engine.cast(numbers, ElementType.F32, target, saturate=False)
    with np.errstate(all="ignore"):
        expected = numbers.astype(target.dtype)
        assert model.same_floats(found.astype(np.float32), expected.astype(np.float32)).all()


# ---- how arrays lie ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", list(ElementType), ids=str)
def test_strides_and_carriers_change_nothing(engine, source):
    """A block may lie anywhere, as its own dtype or as unsigned integers; what is between its elements stays."""
    bits = np.random.default_rng(10).integers(0, 256, 4 * 10 * 3 * source.itemsize).astype(np.uint8)
    if source is ElementType.PRED:
        bits %= 2
    memory = bits.view(source.dtype).reshape(4, 10, 3)
    memory.setflags(write=False)
    values = memory[::2, ::-3, :2].swapaxes(0, 1)
    for target in ElementType:
        if source.is_complex != target.is_complex:
            continue
        expected = engine.cast(values.copy(), source, target)
        room = np.full((4, 2, 5), 77, target.carrier)
        out = room[:, ::-1, 1::2]
        for dtype in (target.dtype, target.carrier):
            out[...] = 0
            engine.convert(Arithmetic(source, target), values.view(source.carrier), (), out.view(dtype))
            assert out.tobytes() == expected.tobytes(), target
        out[...] = 77
        assert (room == 77).all()


@pytest.mark.parametrize("source", REAL, ids=str)
def test_elements_change_where_they_lie(engine, source):
    """All of a number is read before its place is written."""
    codes = random_codes(source, 1000, 11) if source in WIDE else np.arange(1000).astype(source.carrier)
    if source is ElementType.PRED:
        codes %= 2
    for target in (kind for kind in REAL if kind.itemsize == source.itemsize):
        expected, place = engine.cast(codes, source, target), codes.copy()
        engine.convert(Arithmetic(source, target), place, (), place)
        assert place.tobytes() == expected.tobytes(), target


@pytest.mark.parametrize("target", REAL, ids=str)
def test_no_dimensions_and_no_elements(engine, target):
    assert engine.cast(np.array(1, np.float32), ElementType.F32, target).shape == ()
    for source in REAL:
        assert engine.cast(np.empty((0, 3), source.dtype), source, target).shape == (0, 3)


# ---- steps -----------------------------------------------------------------------------------------------------------

FORMS = {
    "scale and shift": (Step("multiply", 0), Step("add", 1)),
    "scale": (Step("multiply", 0),),
    "shift": (Step("add", 0),),
    "normalise": (Step("divide", 0), Step("subtract", 1), Step("divide", 2)),
    "quantise": (Step("divide", 0), Step("round"), Step("add", 1)),
    "dequantise": (Step("subtract", 0), Step("multiply", 1)),
}
PAIRS = [
    ("u8", "f32"), ("u8", "f16"), ("u8", "bf16"), ("u8", "f64"), ("u8", "u8"), ("s4", "bf16"), ("f4e2m1fn", "f32"),
    ("f8e4m3fn", "bf16"), ("f16", "f16"), ("bf16", "f8e5m2"), ("f32", "s8"), ("f32", "u4"), ("f32", "f16"),
    ("f32", "f32"), ("f32", "f8e4m3fnuz"), ("f64", "f32"), ("f64", "s64"), ("s32", "f32"), ("s64", "bf16"),
    ("u64", "u64"), ("f32", "pred"), ("pred", "f32"), ("f32", "f8e8m0fnu"), ("f8e8m0fnu", "s16"), ("f64", "f64"),
    ("f16", "f64"), ("f8e8m0fnu", "f64"), ("bf16", "s32"), ("u2", "f64"), ("f6e2m3fn", "s64"),
]  # fmt: skip


def some_codes(source, count, seed):
    numbers = np.random.default_rng(seed)
    if source in WIDE:
        return random_codes(source, count, seed)
    return numbers.integers(0, 1 << model.width_of(source.value), count).astype(source.carrier)


def some_parameters(kind, count, seed):
    """Everyday numbers, integers, and some that overflow, vanish or mean nothing."""
    numbers = np.random.default_rng(seed)
    found = np.where(numbers.random(count) < 0.5, numbers.standard_normal(count), numbers.integers(-9, 9, count))
    rare = numbers.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, 1e-38, 3e-45], count)
    return np.where(numbers.random(count) < 0.85, found, rare).astype(kind.dtype)


def exact_value(number):
    return number if number != number or not number or abs(number) == math.inf else Fraction(number)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", PAIRS, ids=" to ".join)
def test_steps_round_one_by_one(engine, names, form):
    source, target = map(ElementType, names)
    arithmetic = Arithmetic(source, target, True, FORMS[form], form)
    assert arithmetic.compute.value == model.compute_type(*names)
    count = 2000 if effort.ALL else 150
    codes = some_codes(source, count, 11)
    number = sum(step.parameter is not None for step in arithmetic.steps)
    parameters = [some_parameters(arithmetic.compute, count, 12 + k) for k in range(number)]
    out = np.empty(count, target.carrier)
    engine.convert(arithmetic, codes, parameters, out)
    columns = [map(exact_value, column.tolist()) for column in parameters]
    rows = zip(codes.tolist(), *columns)
    expected = np.array([model.converted(code, *names, True, FORMS[form], row) for code, *row in rows], np.uint64)
    nan = model.is_nan(expected, names[1])
    assert (nan == model.is_nan(out, names[1])).all()
    bad = ~nan & (out != expected)
    assert not bad.any(), (codes[bad][:3], [column[bad][:3] for column in parameters], out[bad][:3], expected[bad][:3])


@pytest.mark.parametrize("names", PAIRS, ids=" to ".join)
def test_one_parameter_serves_many_elements(engine, names):
    """Parameters broadcast, and neither they nor the values change."""
    source, target = map(ElementType, names)
    arithmetic = Arithmetic(source, target, True, FORMS["scale and shift"], "scale and shift")
    values = some_codes(source, 60, 13).reshape(3, 4, 5).transpose(1, 2, 0)
    scale = np.array([0.5, 2, -3], arithmetic.compute.dtype)
    shift = np.array([[1], [2.5], [0], [4], [5]], arithmetic.compute.dtype)
    for array in (values, scale, shift):
        array.setflags(write=False)
    results = []
    for parameters in ((scale, shift), [array * np.ones(values.shape, array.dtype) for array in (scale, shift)]):
        out = np.zeros((4, 5, 6), target.carrier)
        engine.convert(arithmetic, values, parameters, out[..., ::2])
        assert not out[..., 1::2].any()
        results.append(out)
    assert (results[0] == results[1]).all()
