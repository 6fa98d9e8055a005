"""Arithmetic in place, where `out` is the memory of `buffer`; and what large arrays, threads and caches could spoil."""

import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import ElementType, LayoutError
from tests.support import executors
from tests.support.arithmetic_cases import Case, drawn_codes, generator, in_every_place, kept_dtype

WIDTHS = "both need the same number of whole bytes"
PARTS = "out must be separate memory, or the same from the first byte to the last"
ELSEWHERE = "because only gl.relayout and plans work in place"


def case_of(source, target, **options):
    source, target = map(gl.parse_shape, (source, target))
    codes = drawn_codes(generator(source, target), source.element_type, source.dimensions)
    return Case(source, target, options, codes)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("max_bytes", [None, 16, 300])
@pytest.mark.parametrize(
    "source, target, options",
    [
        ("f32[4,6]", "s32[4,6]", {}),
        ("f32[4,6]", "s32[4,6]{0,1}", {}),
        ("s32[4,6,5]{1,0,2}", "f32[4,6,5]", {"scale": [0.5, 2, 0.1, 3, -1.25]}),
        ("u8[16,9]", "f8e4m3fn[16,9]{0,1}", {"shift": 0.25}),
        ("f8e5m2[16,9]", "s8[16,9]{0,1:PV(7)}", {"scale": 0.5, "zero_point": 1}),
        ("f64[3,5]{0,1}", "s64[3,5]", {}),
        ("c64[6,4]", "c64[6,4]", {}),
        ("u16[8,12]{1,0:T(4,4)}", "bf16[8,12]{0,1:T(4,4)}", {"scale": np.arange(1, 5)[:, None]}),
        ("u8[]", "s8[]", {}),
        ("u8[0,3]", "s8[0,3]{0,1}", {}),
    ],
)
def test_a_call_in_place_gives_what_one_to_other_memory_gives(executor, source, target, options, max_bytes):
    case = case_of(source, target, **options)
    phase = case.source.itemsize
    buffer, memory = executors.guarded(executor, case.buffer.dtype, case.buffer.size, phase)
    buffer[...] = executor.array(case.buffer)
    out = buffer.view(kept_dtype(case.target))
    assert gl.plan(case.source, case.target, **case.keywords)(buffer, out=out, max_bytes=max_bytes) is out
    assert case.is_result(executor.host(out)), str(case)
    assert executors.guards_intact(executor, memory, phase, case.buffer.nbytes)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_arrays_in_place(threads):
    values = np.arange(701 * 1003, dtype=np.float32) - 350000
    turned = values.astype(np.float64).reshape(701, 1003).T  # the steps to s32 are done in f64
    expected = np.rint(turned * 0.37).astype(np.int32).ravel()
    with gl.use_threads(threads):
        for workspace in (None, "64K"):
            buffer = values.copy()
            out = buffer.view(np.int32)
            gl.relayout(buffer, "f32[701,1003]", "s32[701,1003]{0,1}", scale=0.37, out=out, max_bytes=workspace)
            assert (out == expected).all()


def test_in_place_on_tensors():
    torch = pytest.importorskip("torch")
    buffer = torch.arange(6, dtype=torch.float32)
    out = buffer.view(torch.int32)
    assert gl.relayout(buffer, "f32[2,3]", "{0,1}", dtype="s32", scale=10, out=out, max_bytes=64) is out
    assert out.tolist() == [0, 30, 10, 40, 20, 50]
    assert gl.relayout(out, "s32[3,2]", "{0,1}", dtype="f32", out=buffer) is buffer
    assert buffer.tolist() == [0, 10, 20, 30, 40, 50]
    for target in ("{1,0}", "{0,1}"):  # autograd has to know of both, also where no element moves
        before = out._version
        gl.relayout(buffer, "f32[2,3]", target, dtype="s32", out=out)
        assert out._version > before
        out.copy_(torch.arange(6.0).view(torch.int32))


FLOATS = np.arange(1, 13, dtype=np.float32)
REFUSED = {
    "elements of another width": (
        lambda memory: gl.relayout(memory.view("f4")[:6], "f32[6]", "{0}", dtype="f64", out=memory.view("f8")),
        WIDTHS,
    ),
    "of fewer bytes": (lambda m: gl.relayout(m.view("f4"), "f32[12]", "{0}", dtype="u8", out=m.view("u1")), WIDTHS),
    "packed": (
        lambda m: gl.relayout(m.view("u1"), "u4[96]{0:E(4)}", "s4[96]{0:E(4)}", dtype="s4", out=m.view("u1")),
        WIDTHS,
    ),
    "a part": (lambda m: gl.relayout(m.view("f4")[:6], "f32[6]", "{0}", dtype="s32", out=m.view("i4")[2:8]), PARTS),
    "a longer out": (lambda m: gl.relayout(m.view("f4")[:6], "f32[6]", "{0}", dtype="s32", out=m.view("i4")), PARTS),
    "a part, with max_bytes": (
        lambda m: gl.relayout(m.view("f4")[:6], "f32[6]", "{0}", dtype="s32", out=m.view("i4")[2:8], max_bytes=64),
        "out is not the memory of buffer: a relayout in place, with a workspace, needs out=buffer",
    ),
    "of fewer bytes, with max_bytes": (
        lambda m: gl.relayout(m.view("f4"), "f32[12]", "{0}", dtype="s16", out=m.view("i2"), max_bytes=64),
        WIDTHS,
    ),
    "of more bytes, with max_bytes": (
        lambda m: gl.relayout(m.view("i2"), "s16[12]", "{0}", dtype="f32", out=m.view("f4"), max_bytes=64),
        WIDTHS,
    ),
    "pack": (lambda m: gl.pack(m.view("f4").reshape(3, 4).T, "{1,0}", dtype="s32", out=m.view("i4")), ELSEWHERE),
    "transpose": (
        lambda m: gl.transpose(m.view("f4").reshape(3, 4), dtype="s32", out=m.view("i4").reshape(4, 3)),
        ELSEWHERE,
    ),
    "unpack": (lambda m: gl.unpack(m.view("f4"), "f32[12]", dtype="s32", out=m.view("i4")), ELSEWHERE),
    "many": (
        lambda m: gl.relayout_many([(m.view("f4"), "f32[12]", "{0}")], dtype="s32", out=[m.view("i4")]),
        "overlap",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_calls_on_shared_memory_are_refused(name):
    call, message = REFUSED[name]
    memory = FLOATS.copy()
    with pytest.raises(BufferError, match=message):
        call(memory.view(np.uint8))
    assert (memory == FLOATS).all()


def test_a_padding_value_that_only_the_new_type_has():
    memory = np.arange(6, dtype=np.uint8)
    for limit in (None, 4):
        out = memory.copy().view(np.int8)
        gl.relayout(out.view(np.uint8), "u8[2,3]", "s8[2,3]{0,1:PV(-1)}", dtype="s8", out=out, max_bytes=limit)
        assert out.tolist() == [0, 3, 1, 4, 2, 5]


def test_padding_in_place_is_refused():
    """As for relayouts in place."""
    for source, target in [("f32[3,2]{1,0:PD(3,4)}", "{1,0:PD(3,4)}"), ("f32[3,2]", "{0,1:PD(3,4)}")]:
        memory = FLOATS.copy()
        with pytest.raises(LayoutError, match="cannot be moved in place: "):
            gl.plan(source, target, dtype="s32")(memory, out=memory.view(np.int32))
        assert (memory == FLOATS).all()


def test_a_limit_below_an_element_is_refused():
    memory = FLOATS.copy()
    for out, options in ((memory, {}), (memory.view(np.int32), {"dtype": "s32"}), (memory, {"scale": 2.0})):
        with pytest.raises(LayoutError, match="^max_bytes 3 is less than an element of f32"):
            gl.relayout(memory, "f32[3,4]", "{0,1}", out=out, max_bytes=3, **options)
    assert (memory == FLOATS).all()


def test_a_limit_for_a_relayout_to_other_memory_is_refused():
    buffer, out = FLOATS.copy(), np.zeros(12, np.int32)
    with pytest.raises(
        BufferError, match="^out is not the memory of buffer: a relayout in place, with a workspace, needs"
    ):
        gl.relayout(buffer, "f32[3,4]", "{0,1}", dtype="s32", out=out, max_bytes=64)
    with pytest.raises(TypeError, match="^max_bytes is only for a relayout in place: pass out=buffer too$"):
        gl.relayout(buffer, "f32[3,4]", "{0,1}", dtype="s32", max_bytes=64)
    assert (buffer == FLOATS).all() and not out.any()


# ---- several blocks, several threads ---------------------------------------------------------------------------------

LARGE = {  # dimensions are odd, so that blocks end early on every side
    "pixels": ("u8", "f32", "n h w c -> n c h w", (2, 501, 703, 3), {"scale": np.array([0.1, 3, 0.7]), "shift": -1.3}),
    "turned": ("f32", "bf16", "a b -> b a", (1001, 1303), {}),
    "quantised": (
        "f32",
        "s8",
        "a b -> b a",
        (1001, 1303),
        {"scale": np.linspace(0.1, 3, 1001)[:, None], "zero_point": 3},
    ),
    "widened": ("s8", "f64", "a b c -> c b a", (101, 103, 107), {"scale": 0.1}),
    "narrowed": ("f64", "f16", "a b c -> b a c", (101, 103, 107), {"shift": np.linspace(-1, 1, 107)}),
    "straight": ("u16", "f32", "a -> a", (2000003,), {"scale": 0.37}),
    "blocks": (
        "f32",
        "f8e4m3fn",
        "a b -> a b",
        (1010, 1030),
        {"scale": np.linspace(0.1, 3, 10 * 103).reshape(10, 103)},
    ),
}


def by_numpy(array, target, options):
    """The elements by NumPy's own f32 and f64, which are IEEE's."""
    wide = np.float64 if max(array.itemsize, target.itemsize) > 4 else np.float32
    operands = {name: in_every_place(np.asarray(value, wide), array.shape) for name, value in options.items()}
    numbers = array.astype(wide)
    if "zero_point" in options:
        numbers = np.rint(numbers / operands["scale"]) + operands["zero_point"]
        return np.clip(numbers, -128, 127).astype(target)
    if "scale" in options:
        numbers = numbers * operands["scale"]
    if "shift" in options:
        numbers = numbers + operands["shift"]
    if target.name == "float8_e4m3fn":
        numbers = np.clip(numbers, -448, 448)
    return numbers.astype(target)


@pytest.mark.parametrize("name", LARGE)
def test_threads_and_blocks_change_nothing(name):
    source, target, pattern, dimensions, options = LARGE[name]
    kind = ElementType(target).dtype
    numbers = np.random.default_rng(5).integers(0, 256, dimensions) - (0 if source[0] == "u" else 128)
    array = numbers.astype(ElementType(source).dtype)
    expected = gl.transpose(by_numpy(array, kind, options), pattern).tobytes()
    for threads in (1, 2, 5):
        with gl.use_threads(threads):
            assert gl.transpose(array, pattern, dtype=target, **options).tobytes() == expected, threads
            found = gl.pack(array, pattern, dtype=target, **options)
            assert found.tobytes() == expected, threads
            room = np.zeros(len(found) + 2, kind)
            gl.pack(array, pattern, dtype=target, out=room[1:-1], **options)
            assert room[1:-1].tobytes() == expected and not room[[0, -1]].astype(bool).any(), threads


# ---- what is kept between calls --------------------------------------------------------------------------------------


def test_a_repeated_call_uses_its_own_numbers(executor):
    array = executor.array(np.arange(12, dtype=np.uint8).reshape(3, 4))
    for factor in (1.0, 2.0, -0.5):
        for scale in (factor, [factor] * 4, np.full((3, 1), factor)):
            found = gl.pack(array, "{0,1}", dtype="f32", scale=scale, shift=factor)
            assert (executor.host(found) == np.arange(12).reshape(3, 4).T.ravel() * factor + factor).all()
            found = gl.plan("u8[3,4]", "f32[3,4]{0,1}", scale=scale)(array.reshape(-1))
            assert (executor.host(found) == np.arange(12).reshape(3, 4).T.ravel() * factor).all()


def test_a_repeated_call_of_packed_elements_has_its_own_results(executor):
    """Its dense arrays between the stages are other ones each time."""
    packed = "u4[4,6]{0,1:E(4)}"
    for first in (0, 5, 3, 9):
        codes = (np.arange(24).reshape(4, 6) * 5 + first) % 16
        buffer = gl.pack(executor.array(codes.astype(np.uint8)), packed)
        for out in (None, executor.array(np.full(24, -1, np.float32))):
            found = gl.relayout(buffer, packed, "f32[4,6]", scale=0.5, out=out)
            assert executor.host(found).tolist() == (codes / 2).ravel().tolist()
            back = gl.relayout(found, "f32[4,6]", packed, dtype="u4", scale=2.0)
            assert executor.host(back).tolist() == executor.host(buffer).tolist()


def test_the_order_of_the_steps_and_saturate_are_part_of_what_is_kept():
    given = np.array([1000.0], np.float32)
    for saturate in (True, False, True):
        found = gl.pack(given, "{0}", dtype="f8e4m3fn", saturate=saturate).astype(np.float32)
        assert found[0] == 448 if saturate else np.isnan(found[0])
    assert gl.pack(given, "{0}", scale=2, shift=1)[0] == 2001
    assert gl.pack(given, "{0}", std=2, mean=1)[0] == 499.5


def test_calls_of_several_threads_do_not_mix_their_numbers():
    array = np.arange(40000, dtype=np.uint8).reshape(200, 200)
    problems = []

    def work(factor):
        expected = array.T * np.float32(factor)
        for _ in range(30):
            if (gl.transpose(array, dtype="f32", scale=factor) != expected).any():
                problems.append(factor)

    workers = [threading.Thread(target=work, args=(factor,)) for factor in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems
