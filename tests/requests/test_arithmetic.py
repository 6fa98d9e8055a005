"""Arithmetic on the way as users call it.

The law: the target holds, place by place, the elements of the logical array, each as the exact model changes it.  Its
padding is the target's own.
"""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import ElementType
from tests.support import effort, executors
from tests.support.arithmetic_cases import (
    Case,
    are_same,
    drawn_case,
    drawn_codes,
    expected_codes,
    generator,
    kept_dtype,
)
from tests.support.lookup_cases import few_pieces

PAIRS = {  # source, target, form
    "pixels": ("u8", "f32", "scale"),
    "normalised pixels": ("u8", "f32", "normalise"),
    "rounded": ("f32", "bf16", "cast"),
    "quantised": ("f32", "s8", "quantise"),
    "quantised and packed": ("f32", ("u4", 4), "quantise"),
    "dequantised": (("u4", 4), "f32", "quantise"),
    "from pairs of bits": (("s2", 2), "f16", "scale"),
    "to single bits": ("s32", ("u1", 1), "cast"),
    "eight bits": ("f64", "f8e4m3fn", "cast"),
    "scaled eight bits": ("bf16", "f8e4m3fn", "scale"),
    "wide integers": ("s64", "f32", "scale"),
    "truths": ("f32", "pred", "cast"),
    "from truths": ("pred", "bf16", "scale"),
    "complex": ("c64", "c128", "cast"),
    "narrower complex": ("c128", "c64", "cast"),
}
SIZES = (0, 1, 2, 3, 5)


def kinds_of(pair):
    return [(ElementType(kind[0]), kind[1]) if isinstance(kind, tuple) else ElementType(kind) for kind in pair[:2]]


@pytest.fixture
def executor(executor):
    """Every executor that changes elements."""
    if not hasattr(executor.backend, "prepare_arithmetic"):
        pytest.skip(f"{executor.name} has no arithmetic")
    return executor


# ---- every small layout ----------------------------------------------------------------------------------------------


def small_arrays(rank):
    """(dimensions, order of the source, order of the target) of all small arrays of this rank."""
    orders = list(itertools.permutations(range(rank)))
    return itertools.product(itertools.product(SIZES, repeat=rank), orders, orders)


def check(executor, case):
    """The plan of a case between guarded buffers, at an address that is not aligned."""
    buffer = executors.source_buffer(executor, case.buffer, phase=case.source.itemsize)
    phase = case.target.itemsize
    out, memory = executors.guarded(executor, kept_dtype(case.target), case.target.buffer_length, phase)
    out[...] = executor.array(np.frombuffer(b"\xa5" * out.nbytes, out.dtype))
    assert gl.plan(case.source, case.target, **case.keywords)(buffer, out=out) is out
    assert case.is_result(executor.host(out)), str(case)
    assert executors.guards_intact(executor, memory, phase, case.target.nbytes), str(case)
    assert executor.host(buffer).tobytes() == case.buffer.tobytes(), str(case)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rank", range(4))
def test_every_small_layout(executor, name, rank):
    every = 1 if effort.ALL else (1, 1, 1, 23)[rank]
    if executor.name != "numpy":  # whose kernels have exhaustive tests of their own
        every *= (1, 5, 37, 41)[rank]
    for number, (dimensions, *orders) in enumerate(itertools.islice(small_arrays(rank), 0, None, every)):
        rng = generator(name, rank, number)
        check(executor, drawn_case(rng, kinds_of(PAIRS[name]), dimensions, orders, PAIRS[name][2]))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["pixels", "dequantised", "quantised and packed", "complex"])
def test_tiles_that_are_looked_up(executor, name):
    """Then elements pass through dense arrays, before, after, or on both sides."""
    kinds, form = kinds_of(PAIRS[name]), PAIRS[name][2]
    with few_pieces(1):
        for number in range(40 if effort.ALL else 8):
            rng = generator("looked up", name, number)
            dimensions = tuple(rng.choice((2, 3, 5, 7)) for _ in range(rng.randint(1, 3)))
            orders = [tuple(rng.sample(range(len(dimensions)), len(dimensions))) for _ in range(2)]
            check(executor, drawn_case(rng, kinds, dimensions, orders, form))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "source, target",
    [
        ("u8[57,61]{1,0:T(7,5)}", "f32[57,61]{0,1:T(8,3)}"),
        ("u8[57,61]", "f32[57,61]{1,0:T(7,5)(3,2)}"),
        ("u8[57,61]{0,1:T(7,5)(3,2)}", "f32[57,61]"),
        ("u4[57,61]{0,1:T(7,5)E(4)}", "f32[57,61]{1,0:T(8,3)(3,2)}"),
    ],
)
def test_tangled_tiles(executor, source, target):
    source, target = map(gl.parse_shape, (source, target))
    rng = generator(source, target)
    options = {"scale": np.array([0.5, 3.0, 0.1])[:, None], "shift": np.linspace(-1, 1, 61)}
    check(executor, Case(source, target, options, drawn_codes(rng, source.element_type, source.dimensions)))


# ---- blocks that do not nest -----------------------------------------------------------------------------------------


def test_blocks_of_two_parameters_need_no_common_divisor(executor):
    values = np.arange(10403, dtype=np.float32)
    scale, shift = np.arange(1, 104, dtype=np.float32), np.arange(101, dtype=np.float32)
    found = gl.pack(executor.array(values), "{0}", scale=scale, shift=shift)
    assert executor.host(found).tolist() == (values * np.repeat(scale, 101) + np.repeat(shift, 103)).tolist()


@pytest.mark.parametrize("stride", [1, -2])
@pytest.mark.parametrize("new", [True, False])
def test_blocks_and_split_axes_need_no_common_divisor(executor, stride, new):
    given = np.arange(2 * 10403, dtype=np.float32)
    array, scale = executor.array(given)[::stride][:10403], np.arange(1, 104, dtype=np.float32)
    room = executor.array(np.zeros((101, 206), np.float32))
    found = gl.transpose(array, "(a b) -> b a", a=103, scale=np.arange(1, 102), out=None if new else room[:, ::2])
    expected = given[::stride][:10403] * np.repeat(np.arange(1, 102, dtype=np.float32), 103)
    assert executor.host(found).tolist() == expected.reshape(103, 101).T.tolist()
    found = gl.pack(array, "{0:T(101)}", scale=scale)
    expected = given[::stride][:10403] * np.repeat(scale, 101)
    assert executor.host(found).tolist() == expected.tolist()


# ---- all calls agree -------------------------------------------------------------------------------------------------


def strided(executor, values, rng):
    """An array of the executor with these values and other strides."""
    order = rng.sample(range(values.ndim), values.ndim)
    steps = [rng.choice((1, 2, -1, -3)) for _ in order]
    room = np.zeros([values.shape[dim] * abs(steps[dim]) for dim in order], values.dtype)
    view = executor.array(room).transpose(np.argsort(order))
    view = view[tuple(slice(None, None, step) for step in steps)]
    view[...] = executor.array(values)
    return view


AGREE = ["pixels", "normalised pixels", "rounded", "quantised", "quantised and packed", "dequantised", "complex"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", AGREE)
def test_all_calls_agree(executor, name):
    *kinds, form = PAIRS[name]
    if executor.name == "cupy":  # whose arrays of bf16 are integers, and say nothing of bf16
        kinds = ["f16" if kind == "bf16" else kind for kind in kinds]
    for number in range(60 if effort.ALL else 6):
        rng = generator("agree", name, number)
        dimensions = tuple(rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randint(1, 4)))
        orders = [tuple(rng.sample(range(len(dimensions)), len(dimensions))) for _ in range(2)]
        check_calls(executor, drawn_case(rng, kinds_of(kinds), dimensions, orders, form), rng)


def check_calls(executor, case, rng):
    source, target, keywords = case.source, case.target, case.keywords
    buffer = executor.array(case.buffer)
    array = strided(executor, case.array, rng)
    check(executor, case)
    results = [
        gl.plan(source, target, **keywords)(buffer),
        gl.plan(source, target.layout, **keywords)(buffer),
        gl.relayout(buffer, source, target, **keywords),
        gl.relayout(buffer, str(source), str(target.layout), **keywords),
        *gl.relayout_many([(buffer, source, target), (buffer, source, target)], **keywords),
        gl.pack(array, target, **keywords),
        gl.pack(array, target.layout, **keywords),
    ]
    out = executor.array(np.zeros(target.buffer_length + 3, kept_dtype(target)))
    gl.relayout_many([(buffer, source, target)], out=[out[:-3]], **keywords)
    results.append(out[:-3])
    for found in results:
        assert case.is_result(executor.host(found)), str(case)
    check_logical_calls(executor, case, buffer, array, rng)


def check_logical_calls(executor, case, buffer, array, rng):
    """Calls whose result is a logical array, new or in a part of a larger one."""
    kind, order = case.target.element_type, tuple(rng.sample(range(array.ndim), array.ndim))
    wanted = case.wanted
    out = strided(executor, np.zeros(wanted.shape, kind.dtype), rng)
    turned = strided(executor, np.zeros(wanted.transpose(order).shape, kind.dtype), rng)
    assert gl.unpack(buffer, case.source, out=out, **case.keywords) is out
    assert gl.transpose(array, order, out=turned, **case.keywords) is turned
    for found, expected in [
        (gl.unpack(buffer, case.source, **case.keywords), wanted),
        (out, wanted),
        (gl.transpose(array, order, **case.keywords), wanted.transpose(order)),
        (turned, wanted.transpose(order)),
    ]:
        assert are_same(executor.host(found), expected, kind), str(case)


def test_a_pattern_means_the_same_in_every_call(executor):
    rng = generator("patterns")
    codes = drawn_codes(rng, ElementType.U8, (2, 6, 4, 3))
    options = {"dtype": "f32", "scale": np.array([0.5, 2.0, 0.1]), "shift": np.array([[-1.0], [3.0]]), "block": 2}
    wanted = expected_codes(codes, ElementType.U8, ElementType.F32, options)
    wanted = wanted.reshape(2, 3, 2, 4, 3).transpose(0, 4, 2, 1, 3)
    pattern = "n (y a) x c -> n c (a y) x"
    array = executor.array(codes)
    assert are_same(
        executor.host(gl.transpose(array, pattern, a=2, **options)), wanted.reshape(2, 3, 6, 4), ElementType.F32
    )
    pattern = "n (y a=2) x c -> n c (a y) x"
    for found in (
        gl.pack(array, pattern, **options),
        gl.plan("u8[2,6,4,3]", pattern, **options)(array.reshape(-1)),
        gl.relayout(array, "{3,2,1,0}", pattern, **options),
    ):
        assert are_same(executor.host(found), wanted.reshape(-1), ElementType.F32)


def test_patterns_that_split_and_join_axes():
    """Of every size, with 1 among them."""
    patterns = (
        "(a b) c -> c b a",
        "(a b) c -> (c a) b",
        "c (a b) -> b (a c)",
        "(b a) c -> a 1 (b c)",
        "(a b) c -> (a b c)",
    )
    for sizes in itertools.product((0, 1, 2, 3), repeat=3):
        named = dict(zip("abc", sizes))
        for pattern in patterns:
            before = pattern.split(" ->")[0]
            joined = named["a"] * named["b"]
            array = np.arange(joined * named["c"], dtype=np.uint8)
            array = array.reshape((joined, named["c"]) if before.startswith("(") else (named["c"], joined))
            scale = np.arange(1, array.shape[1] + 1, dtype=np.float32)
            known = {"a": named["a"]} if named["a"] else {"a": 0, "b": named["b"]}
            expected = gl.transpose(array * scale, pattern, **known)
            found = gl.transpose(array, pattern, dtype="f32", scale=scale, **known)
            assert found.shape == expected.shape and found.tolist() == expected.tolist(), (pattern, named)


def test_the_way_back(executor):
    """Powers of two are exact, so unpack with the inverse gives the elements again."""
    values = np.arange(-60, 60, dtype=np.int8).reshape(4, 5, 6)
    scale = 2.0 ** np.arange(-3, 3)
    buffer = gl.pack(executor.array(values), "{0,2,1:PD(5,5,7)PV(one)T(2,4)}", dtype="f32", scale=scale)
    again = gl.unpack(buffer, "f32[4,5,6]{0,2,1:PD(5,5,7)PV(one)T(2,4)}", dtype="s8", scale=1 / scale)
    assert executor.host(again).tolist() == values.tolist()


# ---- anything --------------------------------------------------------------------------------------------------------

TYPES = list(ElementType)


@hypothesis.settings(max_examples=2000 if effort.ALL else 120)
@hypothesis.given(st.randoms(use_true_random=False))
def test_any_types_layouts_and_parameters(rng):
    executor = executors.HostExecutor("numpy", gl.choices.backends.host_backend())
    source = rng.choice(TYPES)
    target = rng.choice([kind for kind in TYPES if kind.is_complex == source.is_complex])
    dimensions = tuple(rng.choice((1, 2, 2, 3, 4, 6, 9)) for _ in range(rng.randint(0, 4)))
    orders = [tuple(rng.sample(range(len(dimensions)), len(dimensions))) for _ in range(2)]
    kinds = [(kind, kind.bits if kind.is_sub_byte and rng.random() < 0.6 else 0) for kind in (source, target)]
    case = drawn_case(rng, kinds, dimensions, orders)
    if source is not target or case.options:
        check(executor, case)
