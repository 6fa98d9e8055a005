"""Scales that are measured: the greatest absolute value of each block, by an independent model in NumPy."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.checkpoints import measured
from gpulayout.files.checkpoints.measured import Measure, divisor_of, measured_of, scales_of
from gpulayout.files.checkpoints.views import array_view, in_c_order
from gpulayout.layout.element_type import ElementType
from tests.support.model_measured import scales_by_blocks

KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


SCALES = {**KINDS, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu}


def scales(array, block, divisor=448.0, dtype="f32", most=1 << 22):
    """What is measured of an array, read in parts of at most so many bytes; and how many bytes each part had."""
    parts = []

    def read(start, count):
        parts.append(count)
        assert start == sum(parts[:-1])  # each byte once, in order
        return np.frombuffer(array.tobytes(), np.uint8)[start : start + count].copy()

    kind = next(name for name, each in KINDS.items() if array.dtype == each)
    view = array_view(in_c_order(ElementType(kind), array.shape))
    found = scales_of(measured_of(view, Measure(divisor, ElementType(dtype)), block), read, most)
    assert sum(parts) == array.nbytes and max(parts, default=0) <= max(most, array.itemsize)
    return found


def check(array, block, divisor=448.0, dtype="f32", most=1 << 22):
    found = scales(array, block, divisor, dtype, most)
    wanted = scales_by_blocks(array, block, divisor, SCALES[dtype])
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes(), (array.shape, block, most)


def values(shape, dtype, seed=0):
    """Numbers of all sizes that a scale can have, and of both signs."""
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) * 2.0 ** random.integers(-6, 7, shape)).astype(dtype)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_small_array_in_every_small_block(rank):
    most = {0: 2, 1: 9, 2: 5, 3: 3}[rank]
    steps = {0: 2, 1: 10, 2: 6, 3: 4}[rank]
    for shape in itertools.product(range(most + 1), repeat=rank):
        array = values(shape, np.float32)
        check(array, None, most=8)
        for block in itertools.product(range(1, steps + 1), repeat=rank):
            check(array, block, most=4 * (1 + sum(block) % 7))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    data=st.data(),
    kind=st.sampled_from([*KINDS]),
    dtype=st.sampled_from([*SCALES]),
    divisor=st.sampled_from([1.0, 448.0, 7.5, 6.3, 127.0, 3e-3]),
)
def test_any_array_in_any_block(shape, data, kind, dtype, divisor):
    block = tuple(data.draw(st.lists(st.integers(1, 14), min_size=len(shape), max_size=len(shape))))
    most = data.draw(st.integers(1, 8 * math.prod(shape)))
    check(values(shape, KINDS[kind], data.draw(st.integers(0, 99))), block, divisor, dtype, most)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_zeros_have_the_scale_1(kind):
    array = np.zeros((4, 6), KINDS[kind])
    array[0, 0], array[3, 5] = -2, 4
    array[0, 3] = -0.0
    found = scales(array, (2, 3), 2)
    assert found.tolist() == [[1, 1], [1, 2]]
    assert scales(np.zeros((0, 5), KINDS[kind]), 4).shape == (0, 2)
    assert scales(np.zeros((0, 5), KINDS[kind]), None).tolist() == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value, word", [(np.nan, "a nan"), (-np.nan, "a nan"), (np.inf, "infinite"), (-np.inf, "infinite")]
)
def test_what_is_no_number_is_named_with_the_first_place(kind, value, word):
    array = values((7, 5), KINDS[kind])
    for most in (1, 16, 1 << 20):
        for place in ((0, 0), (3, 4), (6, 4)):
            wrong = array.copy()
            wrong[place], wrong[6, 4] = value, value
            with pytest.raises(
                gl.LayoutError, match=rf"element \({place[0]}, {place[1]}\) is {word}, of which scale=absmax"
            ):
                scales(wrong, (2, 2), most=most)


@pytest.mark.parametrize(
    "kind, dtype, value, divisor, message",
    [
        (
            "f32",
            "f16",
            1e-4,
            448,
            r"block \(0, 1\) is 9.99999975e-05, and scale=absmax/448 of it is .* f16: scale_dtype",
        ),
        (
            "f32",
            "f16",
            1e6,
            7.5,
            r"block \(0, 1\) is 1000000, and scale=absmax/7.5 of it is inf as f16: scale_dtype=f32",
        ),
        ("f64", "f32", 1e-60, 448, r"is 1e-60, and scale=absmax/448 of it is 0 as f32: keep leaves"),
        ("f64", "bf16", 1e300, 1, r"is 1e\+300, and scale=absmax of it is inf as bf16: scale_dtype=f32 has more"),
        ("f32", "f32", 1e-45, 448, r"is 1.40129846e-45, and scale=absmax/448 of it is 0 as f32"),
        ("f32", "f32", 3e38, 0.5, "of it is inf as f32"),
    ],
)
def test_a_scale_that_its_type_does_not_have(kind, dtype, value, divisor, message):
    array = np.ones((2, 4), KINDS[kind])
    array[:, 2:] = value
    if value == 1e-4:
        assert scales(array, 2, divisor, dtype)[0, 1] > 0  # 2.2e-7 is a subnormal number
        array[:, 2:] = 1e-5
        message = message.replace("9.99999975e-05", "9.99999975e-06")
    with pytest.raises(gl.LayoutError, match=message):
        scales(array, 2, divisor, dtype)


def test_powers_of_two_are_those_above():
    """So the greatest element divided by its scale is in range, also where a number is just above a power."""
    for power in (-127, -126, -3, 0, 3, 126, 127):
        for kind in ("f32", "f64"):
            one = KINDS[kind](2.0**power)
            above, below = (np.nextafter(one, KINDS[kind](end)) for end in (np.inf, 0))
            assert scales(np.array([one]), None, 1, "f8e8m0fnu").astype(float) == 2.0**power
            assert scales(np.array([below]), None, 1, "f8e8m0fnu").astype(float) == 2.0**power
            if power < 127:
                assert scales(np.array([above]), None, 1, "f8e8m0fnu").astype(float) == 2.0 ** (power + 1)
                continue
            with pytest.raises(gl.LayoutError, match="of it is inf as f8e8m0fnu: scale_dtype=f32 has more"):
                scales(np.array([above]), None, 1, "f8e8m0fnu")


def test_many_scales_are_made_in_parts(monkeypatch):
    monkeypatch.setattr(measured, "PART", 7)
    check(values((30, 5), np.float32), (1, 2), 7.5, "f16")
    wrong = np.ones((30, 5), np.float32)
    wrong[20, 4] = 1e-30
    with pytest.raises(gl.LayoutError, match=r"of block \(20, 2\) is 1e-30, and scale=absmax of it is 0 as f16"):
        scales(wrong, (1, 2), 1, "f16")


def test_the_greatest_and_the_least_numbers_of_a_type():
    for kind, dtype in KINDS.items():
        info = ml_dtypes.finfo(dtype)
        for value in (info.max, info.tiny, info.smallest_subnormal):
            assert scales(np.array([[-value, value]], dtype), None, 1, kind) == value


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("absmax", 1),
        (" absmax / 448 ", 448),
        ("absmax/7.5", 7.5),
        ("absmax/1e-3", 1e-3),
        ("*absmax", None),
        ("absmax_scales", None),
        (r"\1.absmax", None),
        ("absmax.1", None),
        ("max/kernel", None),
        ("absmaxes/2", None),
    ],
)
def test_what_measures_and_what_is_a_name(text, wanted):
    assert divisor_of(text, "scale") == wanted


@pytest.mark.parametrize(
    "text",
    ["absmax/0", "absmax/-1", "absmax/inf", "absmax/nan", "absmax/1e400", "absmax/1e39", "absmax/1e-50", "absmax/"]
    + ["absmax/a", "absmax*2", "absmax/2/3", "amax/448", "max/448", "absmax(1)", "Abs_Max/6", "absmax+1"],
)
def test_what_is_nearly_absmax(text):
    with pytest.raises(gl.LayoutError, match="is not absmax/NUMBER, such as absmax/448"):
        divisor_of(text, "scale")
