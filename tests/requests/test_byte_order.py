"""Arrays in the other byte order than the machine's, as DICOM, FITS and NetCDF have them: results are those of the same
numbers in the machine's order, which NumPy makes of them, bit for bit.
"""

import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import gpulayout as gl
from tests.support import effort

TYPES = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
SHAPES = [(), (0,), (1,), (5,), (0, 3), (2, 3), (3, 1), (2, 3, 4)]

on_hosts = pytest.mark.parametrize("executor", ["numpy", "native"], indirect=True)
CALLS = 4  # from the third one on, repeated calls run without checks


def given(code, dimensions, seed=0):
    """The same numbers in both orders: any bits, signalling nans among them."""
    native = np.dtype(f"={code}")
    rng = np.random.default_rng(seed)
    size = int(np.prod(dimensions))
    values = np.frombuffer(rng.bytes(size * native.itemsize), native).reshape(dimensions).copy()
    if native.kind == "b":
        values = (values.view(np.uint8) % 2).view(bool)
    if native.kind in "fc" and size:
        parts = values.reshape(-1).view(f"u{native.itemsize // (1 + (native.kind == 'c'))}")
        parts[0] = {2: 0x7D01, 4: 0x7F80_0001, 8: 0x7FF0_0000_0000_0001}[parts.itemsize]  # it signals
    swapped = values.view(f"u{native.itemsize}" if native.kind != "c" else native).byteswap()
    return values, swapped.view(native.newbyteorder("S")) if native.itemsize > 1 else values.copy()


def same(found, expected):
    assert found.dtype == expected.dtype and found.dtype.isnative and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def layouts(rank):
    """Orders; padding that is written in the machine's order; tiles, which cut the array into pieces."""
    for order in itertools.permutations(range(rank)):
        text = ",".join(map(str, order))
        yield f"{{{text}}}"
    if rank == 2:
        yield from ("{0,1:PD(4,5)PV(1)}", "{1,0:PD(4,5)PV(highest)}", "{1,0:PV(lowest)T(2,2)}", "{0,1:T(2,2)(2,1)}")


def strided(array):
    """Views of arrays in memory that is larger, reversed, or repeated."""
    if not array.ndim:
        return [array]
    stepped, reverse = np.repeat(array, 2, -1)[..., ::2], array[::-1].copy()[::-1]
    return [array, np.asfortranarray(array), stepped, reverse, np.broadcast_to(array, (2, *array.shape))]


@pytest.mark.one_in(2)
@on_hosts
@pytest.mark.parametrize("code", TYPES)
def test_every_call_gives_what_it_gives_for_the_same_numbers_in_native_order(executor, code):
    for dimensions in SHAPES:
        values, swapped = given(code, dimensions)
        assert swapped.dtype.itemsize == 1 or not swapped.dtype.isnative
        for text in layouts(len(dimensions)):
            if values.dtype.kind in "bc" and "PV(" in text:
                continue
            shape = gl.Shape(values.dtype, dimensions, gl.parse_layout(text))
            buffer = gl.pack(values, shape)
            foreign = buffer.astype(buffer.dtype)  # the padding too
            foreign = foreign.byteswap().view(foreign.dtype.newbyteorder("S")) if foreign.itemsize > 1 else foreign
            for _ in range(CALLS):
                same(gl.pack(swapped, shape), buffer)
                same(gl.pack(swapped, text), buffer)
                same(gl.unpack(foreign, shape), values)
                same(gl.relayout(foreign, shape, "C"), values.reshape(-1))
            out = np.empty_like(buffer)
            assert gl.pack(swapped, shape, out=out) is out
            same(out, buffer)
            plan = gl.plan(shape, "C")
            for _ in range(CALLS):
                same(plan(foreign), values.reshape(-1))
            same(gl.relayout_many([(foreign, shape, "C"), (buffer, shape, "C")])[0], values.reshape(-1))
        for array, other in zip(strided(values), strided(swapped)):
            same(gl.pack(other, "F"), gl.pack(array, "F"))


@on_hosts
@pytest.mark.parametrize("code", TYPES)
def test_a_transpose_keeps_the_order_unless_it_names_a_type(executor, code):
    values, swapped = given(code, (2, 3, 4))
    for axes in itertools.permutations(range(3)):
        for _ in range(CALLS):
            moved = gl.transpose(swapped, axes)
            assert moved.dtype == swapped.dtype and moved.tobytes() == swapped.transpose(axes).tobytes()
            same(gl.transpose(swapped, axes, dtype=values.dtype), values.transpose(axes))
            assert gl.transpose(swapped, axes).dtype == swapped.dtype
        out = np.zeros_like(moved)
        assert gl.transpose(swapped, axes, out=out) is out and out.tobytes() == moved.tobytes()
        native = np.zeros(out.shape, values.dtype)
        gl.transpose(swapped, axes, dtype=values.dtype, out=native)
        same(native, values.transpose(axes))


@on_hosts
@pytest.mark.parametrize("code", [code for code in TYPES if code[0] not in "c"])
def test_casts_and_arithmetic_read_the_numbers(executor, code):
    values, swapped = given(code, (3, 40))
    for target in ("pred", "s8", "u16", "s32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "s4"):
        for array, other in zip(strided(values), strided(swapped)):
            same(gl.pack(other, "F", dtype=target), gl.pack(array, "F", dtype=target))
            axes = range(array.ndim)[::-1]
            same(gl.transpose(other, axes, dtype=target), gl.transpose(array, axes, dtype=target))
    scale = np.linspace(-2, 3, 40)
    for options in (
        {"scale": 0.5, "shift": -1},
        {"scale": scale, "divide": True},
        {"mean": scale, "std": scale + 9},
    ):
        for _ in range(CALLS):
            same(gl.transpose(swapped, dtype="f32", **options), gl.transpose(values, dtype="f32", **options))
    if values.dtype.kind == "f":
        quantised = {"dtype": "s8", "scale": 0.25, "zero_point": 3}
        same(gl.pack(swapped, "F", **quantised), gl.pack(values, "F", **quantised))


@on_hosts
@pytest.mark.parametrize("code", ["i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_numbers_of_parameters_may_have_either_order(executor, code):
    """Also where calls with the same bytes in the other order take turns, and parameters that are views."""
    values, _ = given("f4", (3, 40))
    numbers = (np.arange(40) % 7 + 1).astype(f"={code}")
    foreign = numbers.astype(numbers.dtype.newbyteorder("S"))
    repeated = np.repeat(foreign, 2)[::2]
    for options in (
        lambda it: {"scale": it, "shift": it},
        lambda it: {"scale": it, "divide": True},
        lambda it: {"mean": it, "std": it},
        lambda it: {"scale": it[3]},
        lambda it: {"scale": it[3:4].reshape(())},
        lambda it: {"scale": it[:5], "block": 8},
    ):
        for _ in range(CALLS):
            for source in (foreign, repeated):
                same(gl.pack(values, "F", **options(source)), gl.pack(values, "F", **options(numbers)))
        expected = gl.plan("f32[3,40]", "F", **options(numbers))
        same(gl.plan("f32[3,40]", "F", **options(foreign))(values), expected(values))
    if code[0] == "i":
        quantised = {"dtype": "u8", "scale": 0.25}
        plain = gl.pack(values, "F", zero_point=numbers, **quantised)
        same(gl.pack(values, "F", zero_point=foreign, **quantised), plain)
    plan, expected = gl.plan("f32[3,40]", "F", scale=foreign), gl.pack(values, "F", scale=foreign)
    foreign[:] = 0  # the caller's; plans keep their own numbers
    same(plan(values), expected)


@on_hosts
@pytest.mark.parametrize("code", ["c8", "c16"])
def test_both_parts_of_complex_numbers_are_swapped(executor, code):
    values, swapped = given(code, (3, 40))
    for target in ("c64", "c128"):
        same(gl.pack(swapped, "F", dtype=target), gl.pack(values, "F", dtype=target))


@on_hosts
@pytest.mark.parametrize("element_type", ["bf16", "f8e5m2", "s4"])
def test_unsigned_integers_carry_types_that_numpy_lacks_in_either_order(executor, element_type):
    kind = gl.ElementType.of(element_type)
    codes = np.arange(24, dtype=kind.carrier).reshape(4, 6)
    if kind.itemsize == 1:
        codes &= 15
    swapped = codes.astype(codes.dtype.newbyteorder(">"))
    shape = f"{element_type}[4,6]{{0,1:PD(4,8)}}"
    same(gl.pack(swapped, shape), gl.pack(codes, shape))
    same(gl.pack(swapped, shape, dtype=element_type), gl.pack(codes, shape, dtype=element_type))


@on_hosts
@pytest.mark.parametrize("code", ["u2", "f4"])
def test_packed_targets_and_many_tiles_take_stages(executor, code):
    values, swapped = given(code, (37, 41))
    packed = "s4[37,41]{0,1:E(4)}"
    for _ in range(CALLS):
        same(gl.pack(swapped, packed, dtype="s4"), gl.pack(values, packed, dtype="s4"))
    text = f"{gl.ElementType.of(values.dtype)}[37,41]{{1,0:T(8,4)(2,1)}}"
    for _ in range(CALLS):
        same(gl.pack(swapped, text), gl.pack(values, text))
        same(gl.pack(swapped, text, dtype=values.dtype), gl.pack(values, text))


@on_hosts
def test_large_arrays_go_through_threads_and_tiles(executor):
    for code, dimensions in (("f4", (700, 1100)), ("i2", (64, 90, 210)), ("c16", (300, 400)), ("f8", (1 << 20,))):
        values, swapped = given(code, dimensions)
        axes = range(len(dimensions))[::-1]
        same(gl.transpose(swapped, axes, dtype=values.dtype), values.transpose(axes))
        same(gl.pack(swapped, "C"), values.reshape(-1))
        if code != "c16":
            with np.errstate(all="ignore"):
                same(gl.transpose(swapped, axes, dtype="f64"), gl.transpose(values, axes, dtype="f64"))


@on_hosts
@hypothesis.settings(
    max_examples=400 if effort.ALL else 60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(data=st.data())
def test_any_shape_and_layout(executor, data):
    code = data.draw(st.sampled_from([code for code in TYPES if int(code[1:]) > 1]))
    dimensions = tuple(data.draw(st.lists(st.integers(0, 9), min_size=0, max_size=5)))
    rank = len(dimensions)
    order = data.draw(st.permutations(range(rank)))
    padded = [size + data.draw(st.integers(0, 3)) for size in dimensions]
    shape = gl.Shape(f"={code}", dimensions, gl.Layout(tuple(order), padded_dimensions=tuple(padded)))
    values, swapped = given(code, dimensions, seed=data.draw(st.integers(0, 99)))
    buffer = gl.pack(swapped, shape)
    same(buffer, gl.pack(values, shape))
    same(gl.unpack(buffer.byteswap().view(swapped.dtype), shape), values)


# ---- what is refused, and what stays as it is ------------------------------------------------------------------------


@on_hosts
def test_results_are_in_the_order_of_the_machine(executor):
    values, swapped = given("f4", (2, 3))
    foreign = swapped.reshape(-1).copy()
    before = foreign.tobytes()
    said = "out has dtype >f4, which is big-endian: pass an array of float32, because results have the byte order"
    for call in (
        lambda out: gl.pack(swapped, "F", out=out.reshape(-1)),
        lambda out: gl.pack(values, "F", out=out.reshape(-1)),
        lambda out: gl.unpack(foreign.copy(), "f32[2,3]", out=out),
        lambda out: gl.unpack(values.reshape(-1), "f32[2,3]", out=out),
        lambda out: gl.relayout(foreign, "f32[2,3]", "F", out=out.reshape(-1)),
        lambda out: gl.transpose(swapped, (0, 1), dtype="f32", out=out),
        lambda out: gl.plan("f32[2,3]", "F")(foreign, out=out.reshape(-1)),
        lambda out: gl.relayout(foreign, "f32[2,3]", "F", out=foreign),
    ):
        out = np.zeros((2, 3), ">f4")
        with pytest.raises(TypeError) as caught:
            call(out)
        assert said in str(caught.value) and not out.any() and foreign.tobytes() == before


@on_hosts
def test_the_same_memory_is_swapped_in_place_under_its_new_name(executor):
    values, swapped = given("f4", (40, 30))
    memory = swapped.reshape(-1).copy()
    out = memory.view("=f4")
    assert gl.relayout(memory, "f32[40,30]", "F", out=out) is out
    same(out, gl.pack(values, "F"))
    memory = swapped.reshape(-1).copy()
    out = memory.view("=f4")
    gl.relayout(memory, "f32[40,30]", "F", out=out, max_bytes=4096)
    same(out, gl.pack(values, "F"))


@on_hosts
def test_calls_that_alternate_between_orders_are_told_apart(executor):
    values, swapped = given("i4", (4, 5))
    for _ in range(6):
        same(gl.pack(values, "F"), values.T.reshape(-1))
        same(gl.pack(swapped, "F"), values.T.reshape(-1))
        same(gl.transpose(values), values.T)
        assert gl.transpose(swapped).dtype == swapped.dtype


@on_hosts
def test_asarray_takes_either_order_and_holds_native_numbers(executor):
    values, swapped = given("f4", (3, 4))
    for array, other in ((values, swapped), (np.asfortranarray(values), np.asfortranarray(swapped))):
        assert repr(gl.asarray(other)) == repr(gl.asarray(array))
        same(np.asarray(gl.asarray(other)), values)
        same(gl.asarray(other, "{1,0:PD(4,8)}").buffer, gl.asarray(array, "{1,0:PD(4,8)}").buffer)
    same(gl.asarray(np.repeat(swapped, 2, 1)[:, ::2], "F").buffer, gl.pack(values, "F"))
    with pytest.raises(TypeError, match="buffer has dtype >f4, which is big-endian: convert it with .astype"):
        gl.Array(swapped.reshape(-1), "f32[3,4]")


@on_hosts
def test_views_move_nothing_and_so_swap_nothing(executor):
    _, swapped = given("f4", (3, 4))
    seen = gl.view(swapped, "h w -> w h")
    assert seen.dtype == swapped.dtype and np.shares_memory(seen, swapped) and seen.tobytes() == swapped.T.tobytes()
    with pytest.raises(TypeError, match="buffer has dtype >f4, which is big-endian: convert it"):
        gl.view(swapped.reshape(-1), "f32[3,4]{0,1}")


def test_blocks_and_streams_of_plans_refuse_the_other_order():
    plan, buffer, out = gl.plan("f32[4,6]", "F"), np.zeros(24, ">f4"), np.zeros(24, np.float32)
    for call in (lambda: plan.blocks(1 << 20)[0](buffer, out=out), lambda: plan.stream(buffer, out=out)):
        with pytest.raises(TypeError, match="buffer has dtype >f4, which is big-endian: convert it with .astype"):
            call()


@on_hosts
def test_other_types_are_refused_by_their_own_name(executor):
    for dtype in (">M8[s]", ">U4", [("a", ">f4")]):
        array = np.zeros((2, 3), dtype)
        with pytest.raises(TypeError, match="dtype|element type"):
            gl.pack(array, "F")
    with pytest.raises(TypeError, match="array has dtype >?float64|array has dtype float64, but f32"):
        gl.pack(np.zeros((2, 3), ">f8"), "f32[2,3]{0,1}")
