"""`transpose` and `unpack` write into any strided N-d array: the elements of the result, and no byte between them.

An output is a view of a larger array.  What NumPy's assignment to the same view does to the larger array is the law.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.requests.reading import Call
from gpulayout.running.request import request_of
from tests.support.executors import guarded, guards_intact
from tests.support.foreign import Producer
from tests.support.placed import pack_pieces

DTYPES = ("uint8", "int16", "float32", "float64", "complex128", "S2", "V16", "datetime64[s]", "bool")
# How an output of shape (4, 6, 10) lies in an array with larger axes.
PLACES = {
    "a plane": lambda shape: ((*shape[:1], 2, *shape[1:]), lambda base: base[:, 0]),
    "the last plane": lambda shape: ((*shape, 3), lambda base: base[..., 2]),
    "every second, backwards": lambda shape: ([2 * size for size in shape], lambda base: base[::-2, ::2, ::-2]),
    "backwards": lambda shape: (shape, lambda base: base[::-1, ::-1, ::-1]),
    "in other order": lambda shape: (shape[::-1], lambda base: base.T),
    "a corner": lambda shape: ([size + 3 for size in shape], lambda base: base[1:-2, 2:-1, 3:]),
    "whole": lambda shape: (shape, lambda base: base),
}


def numbered(shape, dtype):
    """Elements that differ in every byte, as far as their width allows."""
    dtype = np.dtype(dtype)
    count = math.prod(shape) * dtype.itemsize
    values = (np.arange(count, dtype=np.uint32) * 2654435761 >> 24).astype(np.uint8)
    return (values % 2 if dtype.kind == "b" else values).view(dtype).reshape(shape)


def outputs(executor, dtype, shape, place, phase=0):
    """(an output, its larger array on the host as bytes, memory of the executor around it)."""
    large, cut = PLACES[place](shape)
    base, memory = guarded(executor, np.uint8, math.prod(large) * np.dtype(dtype).itemsize, phase)
    base[...] = executor.array(np.full(base.shape, 0x77, np.uint8))
    return cut(base.view(executor.backend.held(np.dtype(dtype))).reshape(large)), cut, base, large, memory


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", ("uint8", "int16", "float32", "float64", "complex128"))
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_transpose_writes_its_elements_and_nothing_else(executor, place, dtype, order):
    array = numbered((4, 6, 10), dtype)
    shape = array.transpose(order).shape
    for phase in (0, np.dtype(dtype).itemsize):
        out, cut, base, large, memory = outputs(executor, dtype, shape, place, phase)
        assert gl.transpose(executor.array(array), order, out=out) is out
        expected = np.full(base.size, 0x77, np.uint8)
        cut(expected.view(dtype).reshape(large))[...] = array.transpose(order)
        assert executor.host(base).tobytes() == expected.tobytes()
        assert guards_intact(executor, memory, phase, base.size)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0:PD(5,6,12)}", "{2,1,0:T(2,4)}"])
def test_so_does_an_unpack(executor, place, layout):
    for dtype in ("uint8", "float32", "complex128"):
        array = numbered((4, 6, 10), dtype)
        shape = gl.Shape(array.dtype, array.shape, gl.parse_layout(layout))
        out, cut, base, large, memory = outputs(executor, dtype, array.shape, place)
        buffer = gl.pack(executor.array(array), shape)
        assert gl.unpack(buffer, shape, out=out) is out
        expected = np.full(base.size, 0x77, np.uint8)
        cut(expected.view(dtype).reshape(large))[...] = array
        assert executor.host(base).tobytes() == expected.tobytes()
        assert guards_intact(executor, memory, 0, base.size)


@pytest.mark.parametrize(
    "pattern, sizes, shape, joined",
    [
        ("b s h d -> b s (h d)", {}, (3, 4, 2, 5), (3, 4, 10)),
        ("b h s d -> b s (h d)", {}, (3, 2, 4, 5), (3, 4, 10)),
        ("b s h d -> (h d b) s", {}, (3, 4, 2, 5), (30, 4)),
        ("b s (h d) -> b h s d", {"h": 2}, (3, 4, 10), (3, 2, 4, 5)),
        ("b (s p) (h d) -> (b h) (p s) d", {"h": 2, "p": 2}, (3, 4, 10), (6, 4, 5)),
        ("b s h d -> 1 (b s h d) 1", {}, (3, 4, 2, 5), (1, 120, 1)),
        ("b 1 d -> (b 1) d 1", {}, (6, 1, 5), (6, 5, 1)),
    ],
)
def test_joined_axes_of_an_output_need_one_stride_only(executor, pattern, sizes, shape, joined):
    array = numbered(shape, "float32")
    plain = executor.host(gl.transpose(executor.array(array), pattern, **sizes))
    assert plain.shape == joined
    for cut in (
        lambda base: base[..., ::2],
        lambda base: base[::-1, ..., 1::2],
        lambda base: base[(slice(None), *[slice(None, None, -1)] * (base.ndim - 2), slice(None, None, -2))],
    ):
        large = (*joined[:-1], 2 * joined[-1])
        base = executor.array(np.full(large, -1, np.float32))
        expected = np.full(large, -1, np.float32)
        out = cut(base)
        assert gl.transpose(executor.array(array), pattern, out=out, **sizes) is out
        cut(expected)[...] = plain
        assert executor.host(base).tolist() == expected.tolist()


@given(st.data())
def test_strides_of_split_axes_are_those_of_numpy(data):
    """Splitting an axis never needs a copy, so NumPy's reshape gives the same view."""
    groups = data.draw(st.lists(st.lists(st.sampled_from((1, 1, 2, 3)), max_size=3), max_size=4))
    joined = tuple(math.prod(group) for group in groups)
    large = np.zeros([2 * size for size in joined], np.int8)
    steps = data.draw(st.tuples(*[st.sampled_from((1, 2, -1, -2)) for _ in joined]))
    out = large[tuple(slice(None, size * step if step > 0 else None, step) for size, step in zip(joined, steps))]
    out = out[(..., *(slice(size) for size in joined))]
    dimensions = tuple(size for group in groups for size in group)
    expected = out.reshape(dimensions)
    assert not out.size or np.shares_memory(expected, out)
    names = iter(f"a{number}" for number in range(len(dimensions)))
    after = " ".join(f"({' '.join(itertools.islice(names, len(group)))})" for group in groups)
    before = " ".join(f"a{number}" for number in range(len(dimensions)))
    found = request_of(
        Call("transpose", None, f"{before} -> {after}"), out.dtype, np.zeros(dimensions, np.int8), out
    ).write
    strides = {digit.dim: digit.stride for digit in found.digits}
    assert strides == {dim: expected.strides[dim] for dim, size in enumerate(dimensions) if size > 1}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_and_addresses_without_alignment(dtype):
    itemsize = np.dtype(dtype).itemsize
    array = numbered((3, 5, 4), dtype)
    for offset, gap in itertools.product((0, 1, 3), (0, 1, itemsize)):
        step = itemsize + gap  # fields of records of odd sizes, as np.dtype([...])["field"] has them
        memory = np.full(60 * step + offset + itemsize, 0x5C, np.uint8)
        expected = memory.copy()
        for target, write in (
            (memory, lambda out: gl.transpose(array, (2, 0, 1), out=out)),
            (expected, lambda out: out.__setitem__(..., array.transpose(2, 0, 1))),
        ):
            write(np.ndarray((4, 3, 5), dtype, target, offset, (step, 20 * step, 4 * step)))
        assert memory.tobytes() == expected.tobytes(), (offset, gap)


def test_huge_strides_and_those_that_are_never_used():
    array = numbered((1, 3, 2), "int32")
    memory = np.zeros(12, np.int32)
    out = np.lib.stride_tricks.as_strided(memory, (3, 1, 2), (16, 1 << 62, 4))
    gl.transpose(array, "a b c -> b a c", out=out)
    assert memory.reshape(3, 4)[:, :2].tolist() == array[0].tolist() and not memory.reshape(3, 4)[:, 2:].any()
    memory = np.zeros(6, np.int32)
    out = np.lib.stride_tricks.as_strided(memory, (1, 6), (-(1 << 62), 4))
    gl.transpose(array, "a b c -> a (c b)", out=out)
    assert memory.tolist() == array[0].T.ravel().tolist()
    for strides in ((1 << 62, 4, 4), (0, 0, 0), (-3, -3, -3)):
        empty = np.lib.stride_tricks.as_strided(np.zeros(1, np.int32), (0, 6, 5), strides)
        assert gl.transpose(np.zeros((6, 0, 5), np.int32), (1, 0, 2), out=empty) is empty
        assert gl.transpose(empty, "a (b c) d -> (d c) b a", b=2).shape == (15, 2, 0)


def test_an_element_alone_goes_anywhere():
    memory = np.zeros(4, np.float64)
    assert gl.transpose(np.float64(3)[()] * np.ones(()), out=memory[1:2].reshape(())).shape == ()
    gl.transpose(np.full((1, 1), 5.0), "a b -> (a b)", out=memory[2:][::-2])
    assert memory.tolist() == [0, 3, 0, 5]


def test_blocks_and_threads_write_no_more(executor):
    """Large enough for cache blocks and for more than one thread, on a CPU."""
    rows = 300 if executor.name == "numpy" else 40
    array = numbered((rows, 7, 500), "float32")
    cuts = lambda base: base[:, 1], lambda base: base[:, 0, ::-1]
    for order, cut in itertools.product(((2, 0, 1), (1, 2, 0)), cuts):
        shape = array.transpose(order).shape
        base = executor.array(np.full((shape[0], 2, *shape[1:]), -1, np.float32))
        expected = np.full(base.shape, -1, np.float32)
        gl.transpose(executor.array(array), order, out=cut(base))
        cut(expected)[...] = array.transpose(order)
        assert executor.host(base).tobytes() == expected.tobytes()


# ---- arrays of other libraries -------------------------------------------------------------------------------------


def test_a_cache_of_numpy_and_cupy(place):
    """Also where an array comes through DLPack, with its strides."""
    cache = place.array(np.zeros((3, 2, 4, 5), np.int16))
    keys = place.array(numbered((3, 5, 4), "int16"))
    for out in (cache[:, 0], Producer(cache[:, 1])):
        assert gl.transpose(keys, "b s h -> b h s", out=out) is out
    gl.transpose(cache[:, 0], "b h s -> b s h", out=keys[::-1])
    found, made = place.host(cache), numbered((3, 5, 4), "int16")
    assert (found[:, 0] == made.swapaxes(1, 2)).all() and (found[:, 1] == found[:, 0]).all()
    assert (place.host(keys) == made[::-1]).all()
    with pytest.raises(BufferError, match="may overlap itself: dimension 0 steps by 0 bytes"):
        gl.transpose(keys, "b s h -> b h s", out=Producer(cache[:, 0], strides=(0, 5, 1)))
    with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
        gl.transpose(keys, "b s h -> b h s", out=Producer(cache[:, 0], flags=1))


def test_a_cache_of_torch():
    torch = pytest.importorskip("torch")
    cache, keys = torch.zeros(2, 2, 4, 3, 5), torch.arange(120.0).reshape(2, 3, 4, 5)
    version = cache._version
    out = cache[:, 0]
    assert gl.transpose(keys, "b h s d -> b s h d", out=out) is out and cache._version > version
    assert cache[:, 0].equal(keys.transpose(1, 2)) and not cache[:, 1].any()
    gl.transpose(cache[:, 0], "b s h d -> b (h s) d", out=cache[:, 1].flatten(1, 2))
    assert cache[:, 1].equal(keys.reshape(2, 4, 3, 5))
    assert gl.unpack(keys.flatten(), "f32[2,4,3,5]{3,1,2,0}", out=cache[:, 1]).equal(keys.transpose(1, 2))
    with pytest.raises(BufferError, match="may overlap itself"):
        gl.transpose(keys, "b h s d -> b s h d", out=torch.zeros(1, 4, 3, 5).expand(2, 4, 3, 5))
    host = np.zeros((2, 4, 3, 10), np.float32)[..., ::2]  # NumPy's memory takes a tensor's elements
    assert (gl.transpose(keys, "b h s d -> b s h d", out=host) == keys.transpose(1, 2).numpy()).all()


def test_planes_of_a_file(tmp_path):
    """Two maps of one file share its bytes; planes between each other share none."""
    path = tmp_path / "cache"
    np.arange(24, dtype=np.int32).tofile(path)
    maps = [np.memmap(path, np.int32, "r+", shape=(3, 2, 4)) for _ in range(2)]
    for source, target in itertools.product(maps, repeat=2):
        with pytest.raises(BufferError, match="overlap in"):
            gl.transpose(source[:, 1], out=target[:, 1].T)
        gl.transpose(source[:, 1], (0, 1), out=target[:, 0])
    assert (maps[0][:, 0] == maps[1][:, 1]).all()


# ---- which outputs are refused -------------------------------------------------------------------------------------


def test_outputs_that_are_refused_are_not_written(executor):
    array = executor.array(numbered((4, 6), "float32"))
    base = executor.array(np.full((6, 8), 7, np.float32))
    view = executor.backend.strided
    cases = [
        (view(base, (6, 4), (0, 4)), BufferError, "may overlap itself: dimension 0 steps by 0 bytes where 4 are"),
        (view(base, (6, 4), (8, 4)), BufferError, "may overlap itself: dimension 0 steps by 8 bytes where 16 are"),
        (base[:, :3], BufferError, r"out has shape \(6, 3\), but the result has shape \(6, 4\)"),
        (base[:4, :6], BufferError, r"out has shape \(4, 6\), but the result has shape \(6, 4\)"),
        (base.view(np.int32)[:, :4], TypeError, "out has dtype int32, but array has float32"),
    ]
    for out, error, message in cases:
        with pytest.raises(error, match=message):
            gl.transpose(array, out=out)
    square = base[:6, :6]
    for taken, out in ((square, square), (square[:, ::-1], square), (square[:4], square[:, 2:]), (base[:, :6], square)):
        with pytest.raises(BufferError, match="^array and out overlap in memory: out must be separate memory, because"):
            gl.transpose(taken, out=out)
    assert (executor.host(base) == 7).all()


@pytest.mark.parametrize("first, overlaps", [(47, True), (48, False)])
def test_one_shared_byte_is_enough(first, overlaps):
    """48 bytes are read; the strided output begins at byte 47 or behind them."""
    memory = np.zeros(200, np.uint8)
    out = np.ndarray((3, 4), np.float32, memory, offset=first, strides=(40, 4))
    if not overlaps:
        assert gl.unpack(memory[:48].view(np.float32), "f32[3,4]", out=out) is out
        return
    with pytest.raises(BufferError, match="^buffer and out overlap in memory"):
        gl.unpack(memory[:48].view(np.float32), "f32[3,4]", out=out)


def test_a_read_only_output_is_refused():
    base = np.zeros((6, 8), np.float32)
    base.flags.writeable = False
    with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
        gl.transpose(np.ones((4, 6), np.float32), out=base[:, ::2])
    with pytest.raises(BufferError, match="^out .*read-only"):
        gl.transpose(np.ones((4, 6), np.float32), out=np.broadcast_to(base[:1, :4], (6, 4)))


# ---- planes of one array -------------------------------------------------------------------------------------------


def test_planes_of_one_cache_are_separate_memory(executor):
    """cache[:, 0] and cache[:, 1] lie between each other, and share no byte."""
    values = numbered((2, 2, 3, 5, 4), "float32")
    for axis, call in itertools.product(range(5), ("transpose", "pattern", "again")):
        if values.shape[axis] < 2:
            continue
        cache, expected = executor.array(values), values.copy()
        one, other = (np.moveaxis(cache, axis, 0)[number] for number in (1, 0))
        there, taken = (np.moveaxis(expected, axis, 0)[number] for number in (1, 0))
        out = other.swapaxes(1, 2)
        there = np.ascontiguousarray(there)
        for _ in range(1 + (call == "again")):
            if call == "pattern":
                gl.transpose(one, "a b c d -> a c b d", out=out)
            else:
                gl.transpose(one, (0, 2, 1, 3), out=out)
        taken.swapaxes(1, 2)[...] = there.swapaxes(1, 2)
        assert executor.host(cache).tolist() == expected.tolist(), axis


def test_columns_of_one_matrix_are_too():
    memory = np.arange(24, dtype=np.int32).reshape(12, 2)
    column = memory[:, 1]
    with pytest.raises(BufferError, match="overlap in memory"):
        gl.transpose(column.reshape(3, 4), out=column.reshape(4, 3))
    gl.transpose(column, "(a b) -> (b a)", a=3, out=memory[:, 0])
    assert memory[:, 0].tolist() == column.reshape(3, 4).T.ravel().tolist()


def test_a_buffer_may_lie_in_a_gap_of_its_output(place):
    """Each call again, because CuPy's calls of a known kind take another way."""
    values = numbered((3, 2, 4), "int16")
    cache = place.array(values)
    for row in (1, 2, 1):
        out, expected = cache[:, 0, 0], place.host(cache[row, 1, :3]).tolist()
        assert gl.unpack(cache[row, 1, :3], "s16[3]", out=out) is out
        assert place.host(out).tolist() == expected
        with pytest.raises(BufferError, match="overlap"):
            gl.unpack(cache[row, 0, :3], "s16[3]", out=out)
    values[:, 0, 0] = expected
    assert place.host(cache).tolist() == values.tolist()


def test_contiguous_outputs_are_moved_as_pack_moves_them():
    """One mechanism for all outputs costs contiguous ones nothing: the plan is that of a buffer."""
    array = numbered((4, 6, 10), "float32")
    for order in itertools.permutations(range(3)):
        turned = array.transpose(order)
        (found,) = request_of(Call("transpose", None, order), array.dtype, array, None).pieces
        (packed,) = pack_pieces(turned.strides, gl.Shape("f32", turned.shape))
        assert found.move.axes == packed.move.axes and found[1:] == packed[1:] == (0, 0)
