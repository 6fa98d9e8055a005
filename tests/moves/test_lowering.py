"""Lowered moves: their steps do what `gl.relayout` does, bit for bit, and there are no more of them than needed."""

import math
import os
import pickle
import random
import shutil

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.moves.lowered import Pad, Permute, Reshape, Slice, sizes_after
from gpulayout.moves.lowering import common_refinement, lowered_pack, lowered_unpack, merged
from tests.support.tiled_cases import TYPES, drawn_pair, expected_buffer, logical_array

COUNT = int(os.environ.get("GPULAYOUT_TEST_PAIRS", "180"))  # a long run: GPULAYOUT_TEST_PAIRS=3000
EDGES = [
    ("f32[]", "f32[]"),
    ("f32[]{:T(4)}", "f32[]{:T(8)}"),
    ("f32[0]", "{0}"),
    ("f32[0,5]{1,0:T(2,3)}", "{0,1}"),
    ("f32[2,0,3]{2,0,1:PD(2,4,5)PV(1)}", "{0,1,2:PD(2,3,3)}"),
    ("f32[5]{0:T(4)}", "{0:T(3)(2)}"),
    ("s8[3,5,7]{0,2,1:T(2,4)(2,1)}", "{2,1,0:PD(4,5,8)PV(lowest)T(*,3)}"),
    ("bf16[20,130]{1,0:T(8,128)(2,1)}", "{0,1:T(16,8)L(5000)}"),
]


def bits(array):
    return np.asarray(array).tobytes()


def pairs():
    """As many pairs as asked for, and the edges."""
    rng = random.Random(33)
    for source, target in EDGES:
        plan = gl.plan(source, target)
        yield plan.source, plan.target
    for _ in range(COUNT):
        yield drawn_pair(rng, rng.choice(tuple(TYPES)))


def test_random_pairs_lowered_in_numpy_are_relayouts():
    for source, target in pairs():
        buffer, expected = expected_buffer(source), bits(expected_buffer(target))
        lowered = gl.plan(source, target).lower()
        assert bits(lowered(buffer)) == expected == bits(gl.relayout(buffer, source, target)), (source, target)
        assert lowered.dimensions == buffer.shape and lowered.result_dimensions == (target.buffer_size,)
        assert bits(lowered_unpack(source)(buffer)) == bits(logical_array(source)), source
        assert bits(lowered_pack(target)(logical_array(target))) == expected, target


def test_random_pairs_lowered_in_torch_are_relayouts():
    torch = pytest.importorskip("torch")
    for source, target in pairs():
        given = tensor_of(torch, expected_buffer(source))
        found = gl.plan(source, target).lower()(given)
        assert found.is_contiguous() and found.dtype == given.dtype
        assert bits(found.view(torch.uint8).numpy()) == bits(expected_buffer(target)), (source, target)


def tensor_of(torch, array):
    """The same bits; torch cannot read the types of ml_dtypes."""
    kind = getattr(torch, array.dtype.name)
    return torch.frombuffer(bytearray(array.tobytes()), dtype=kind) if array.size else torch.empty(0, dtype=kind)


# ---- every bit of every type ---------------------------------------------------------------------------------------


def torch_types():
    """Names of the element types that torch has, whole bytes only."""
    names = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    narrow = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    return [*names.split(), *narrow.split()]


def patterns(kind):
    """Every code of a type of one byte, or random bytes; many are nans with payloads, and there is a negative zero."""
    dtype, count = gl.ElementType.of(kind).dtype, 16 * 32
    if dtype.itemsize == 1:
        return (np.arange(count) % (2 if kind == "bool" else 256)).astype(np.uint8).view(dtype).reshape(16, 32)
    found = np.random.default_rng(1).integers(0, 256, count * dtype.itemsize, np.uint8)
    narrow = min(dtype.itemsize, 8)
    found[: 100 * dtype.itemsize].view(f"u{narrow}")[:] |= 0x7F81 << 8 * (narrow - 2)
    found[-dtype.itemsize :] = [*[0] * (dtype.itemsize - 1), 0x80]
    return found.view(dtype).reshape(16, 32)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", torch_types())
def test_every_bit_of_every_type_survives_compiling(kind):
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    array = patterns(kind)
    source = gl.Shape(array.dtype, array.shape, "{0,1:T(7,5)}")
    target = source.with_layout("{1,0:T(3,8)}")
    given = tensor_of(torch, array.reshape(-1)).view(16, 32)

    def moved(x):
        packed = gl.pack(x, source)
        return gl.relayout(packed, source, target), gl.unpack(packed, source), gl.transpose(x)

    expected = moved(array)
    for found in (
        torch.compile(moved, backend="aot_eager", fullgraph=True)(given),
        [each[0] for each in torch.func.vmap(moved)(given[None])],
    ):
        for part, wanted in zip(found, expected):
            assert part.dtype == given.dtype and part.shape == wanted.shape
            assert bits(part.contiguous().reshape(-1).view(torch.uint8).numpy()) == bits(wanted)


# ---- few steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, target, steps",
    [
        ("f32[2,3]", "{1,0}", ()),
        ("f32[2,3]", "{0,1}", ("reshape", "permute", "reshape")),
        ("f32[8,16,32]", "{1,2,0}", ("reshape", "permute", "reshape")),
        ("f32[8,16,32]{0,1,2}", "{0,2,1}", ("reshape", "permute", "reshape")),
        ("f32[1,16,1]", "{0,1,2}", ()),
        ("f32[16,256]{1,0:T(8,128)}", "{1,0}", ("reshape", "permute", "reshape")),
        ("f32[128,256]{1,0:T(8,128)}", "{0,1:T(8,128)}", ("reshape", "permute", "reshape")),
        ("f32[16,256]{1,0:T(8,128)}", "{1,0:T(8,128)}", ()),
        ("f32[20,256]{1,0:T(8,128)}", "{1,0}", ("reshape", "permute", "reshape", "slice", "reshape")),
        ("f32[2,3]", "{1,0:PD(2,4)}", ("reshape", "pad", "reshape")),
        ("f32[2,3]{1,0:PD(2,4)}", "{1,0}", ("reshape", "slice", "reshape")),
        ("f32[5]{0:PD(8)}", "{0}", ("slice",)),
        ("f32[5]", "{0:PD(8)}", ("pad",)),
    ],
)
def test_steps_merge(source, target, steps):
    lowered = gl.plan(source, target).lower()
    assert tuple(type(step).__name__.lower() for step in lowered.steps) == steps
    buffer = np.arange(lowered.dimensions[0], dtype=np.float32)
    assert lowered(buffer).tolist() == gl.relayout(buffer, source, target).tolist()


def test_merging_keeps_what_steps_do():
    """Random steps, so that every rule meets sizes of 1 and 0, and neighbours that it must not merge."""
    rng, shorter = random.Random(5), 0
    for _ in range(2000):
        sizes, steps = random_steps(rng)
        found = merged(steps, sizes)
        array = np.arange(math.prod(sizes)).reshape(sizes)
        lowered, plain = (gl.Lowered("s64", sizes, each)(array) for each in (found, steps))
        assert lowered.shape == plain.shape and lowered.tolist() == plain.tolist(), (sizes, steps)
        assert merged(found, sizes) == found and len(found) <= 2 * len(steps) + 1
        shorter += len(found) < len(steps)
    assert shorter > 500


def random_steps(rng):
    first = sizes = tuple(rng.choice((0, 1, 2, 2, 3, 4, 6)) for _ in range(rng.randrange(1, 4)))
    steps = []
    for _ in range(rng.randrange(1, 6)):
        kind = rng.choice("reshape permute pad slice".split())
        if kind == "reshape":
            factors = [size for size in sizes for size in ((2, size // 2) if size in (4, 6) else (size,))]
            cut = rng.randrange(len(factors) + 1)
            step = Reshape((*factors[:cut], math.prod(factors[cut:])))
        elif kind == "permute":
            step = Permute(tuple(rng.sample(range(len(sizes)), len(sizes))))
        elif kind == "pad":
            step = Pad(
                tuple(size + rng.choice((0, 0, 1, 2)) for size in sizes), (-1).to_bytes(8, "little", signed=True)
            )
        else:
            step = Slice(tuple(max(size - rng.choice((0, 0, 1)), 0) for size in sizes))
        steps.append(step)
        sizes = sizes_after(step, sizes)
    return first, steps


@pytest.mark.parametrize(
    "one, other, fine",
    [((2, 12), (6, 4), (2, 3, 4)), ((4, 6), (24,), (4, 6)), ((2, 3), (3, 2), None), ((1, 6), (6, 1), (1, 6))],
)
def test_the_common_refinement(one, other, fine):
    found = common_refinement(one, other)
    if fine is None:
        assert found is None
        return
    parts, of_one, of_other = found
    assert [size for size in parts if size != 1] == [size for size in fine if size != 1]
    for sizes, numbers in ((one, of_one), (other, of_other)):
        assert [math.prod(parts[number] for number in group) for group in numbers] == [*sizes]


# ---- the value -----------------------------------------------------------------------------------------------------


def test_a_lowered_move_is_a_value():
    lowered = gl.plan("f32[2,3]", "{0,1:PD(2,4)PV(2.5)}").lower()
    again = pickle.loads(pickle.dumps(lowered))
    assert again == lowered == eval_plain(lowered) and hash(again) == hash(lowered)
    assert lowered != gl.plan("f32[2,3]", "{0,1:PD(2,4)PV(3.5)}").lower()
    assert str(lowered).endswith("pad to (4, 2) with bytes 00002040, reshape to (8,)")
    with pytest.raises(AttributeError):
        lowered.steps = ()
    with pytest.raises(gl.LayoutError, match=r"array has shape \(2, 3\), but these steps take \(6,\)"):
        lowered(np.zeros((2, 3), np.float32))
    with pytest.raises(gl.LayoutError, match=r"steps has \('turn', \(1, 0\)\), which is no step: one of reshape, perm"):
        gl.Lowered("f32", (2, 3), [("turn", (1, 0))])


def eval_plain(lowered):
    """The same from plain arguments."""
    fill = np.float32(2.5).tobytes()
    steps = [("reshape", (2, 3)), ("permute", (1, 0)), ("pad", (4, 2), fill), ("reshape", (8,))]
    return gl.Lowered("f32", lowered.dimensions, steps)


def test_what_cannot_be_lowered_says_why():
    with pytest.raises(gl.LayoutError, match=r"^element_size_in_bits 4 of u4\[6\]{0:E\(4\)} cannot be lowered: 2 elem"):
        gl.plan("u4[6]{0:E(4)}", "u4[6]").lower()
    with pytest.raises(gl.LayoutError, match=r"^cast of f32\[6\]\{0\} is arithmetic, which has no such steps"):
        gl.plan("f32[6]", "{0}", dtype="bf16").lower()


# ---- compiled ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself, and of complex numbers
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex:UserWarning")
@pytest.mark.parametrize(
    "backend, count", [("aot_eager", COUNT // 30), ("inductor", COUNT // 90)], ids=["aot_eager", "inductor"]
)
def test_random_pairs_compiled_are_relayouts(backend, count):
    """Each pair in one graph with a pack and an unpack, some pairs to a graph: compiling takes longer than running."""
    torch = pytest.importorskip("torch")
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("Inductor needs g++")
    rng = random.Random(34)
    drawn = [drawn_pair(rng, rng.choice(tuple(TYPES))) for _ in range(count)]
    for first in range(0, count, 10):
        some = drawn[first : first + 10]

        def moved(buffers):
            found = []
            for buffer, (source, target) in zip(buffers, some):  # noqa: B023
                array = gl.unpack(buffer, source)
                found += [gl.relayout(buffer, source, target), array, gl.pack(array, target)]
            return found

        torch._dynamo.reset()
        buffers = [tensor_of(torch, expected_buffer(source)) for source, _ in some]
        found = iter(torch.compile(moved, backend=backend, fullgraph=True)(buffers))
        for source, target in some:
            for expected in (expected_buffer(target), logical_array(source), expected_buffer(target)):
                part = next(found).contiguous().reshape(-1).view(torch.uint8)
                assert bits(part.numpy()) == bits(expected), (source, target)
