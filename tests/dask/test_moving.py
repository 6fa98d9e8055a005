"""pack, unpack and relayout of Dask arrays give what they give of the whole array, in any chunks."""

import pickle
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.layout.checks import byte_count
from tests import reference
from tests.dask.test_slabs import numbered, storable
from tests.support.random_shapes import random_shapes

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
from dask._task_spec import Task  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def any_chunks(rng, sizes):
    """Ragged chunks, sometimes with empty ones."""
    found = []
    for size in sizes:
        ends = sorted(rng.randint(0, size) for _ in range(rng.choice((0, 0, 1, 2, 3))))
        found.append(tuple(end - start for start, end in zip([0, *ends], [*ends, size])))
    return tuple(found)


def any_target(rng, shape):
    """Another layout of the same logical array."""
    fields = {"minor_to_major": rng.sample(range(shape.rank), shape.rank)}
    if rng.random() < 0.5:
        fields["tiles"] = [tuple(rng.choice((1, 2, 4, 8)) for _ in range(rng.choice((1, 2))))]
    if rng.random() < 0.3:
        fields["padded_dimensions"] = [size + rng.choice((0, 1, 5)) for size in shape.dimensions]
    if rng.random() < 0.5:
        fields["element_size_in_bits"] = shape.layout.element_size_in_bits
    try:
        return shape.with_layout(gl.Layout(**fields))
    except gl.LayoutError:
        return shape.with_layout(None)


def same(lazy, expected):
    """The keys, dtypes and chunks that were promised are those that come, and the bytes are right."""
    assert (lazy.shape, lazy.dtype, lazy._meta.dtype) == (expected.shape, expected.dtype, expected.dtype)
    lazy.dask.validate()
    blocks = dask.compute(*map(lazy.blocks.__getitem__, np.ndindex(lazy.numblocks))) if lazy.ndim else ()
    assert [block.shape for block in blocks] == [
        tuple(sizes[at] for sizes, at in zip(lazy.chunks, place)) for place in np.ndindex(lazy.numblocks) if lazy.ndim
    ]
    assert np.ascontiguousarray(lazy.compute()).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_random_shapes_in_random_chunks(seed):
    rng, moved = random.Random(seed), 0
    for shape in random_shapes(seed, 150, tuples=False):
        if not storable(shape, 2000):
            continue
        array, whole, target = numbered(shape), gl.pack(numbered(shape), shape), any_target(rng, shape)
        largest = max(shape.nbytes, target.nbytes)
        size = rng.choice((None, None, 1 + largest // rng.choice((1, 3, 10))))
        with dask.config.set({"array.chunk-size": 1 + largest // rng.choice((1, 3, 10))}):
            chunks = any_chunks(rng, shape.dimensions)
            buffer = gl.dask.pack(da.from_array(array, chunks=chunks), shape, chunk_size=size)
            same(buffer, whole)
            if rng.random() < 0.5:
                buffer = da.from_array(whole, chunks=any_chunks(rng, whole.shape))
            same(gl.dask.unpack(buffer, shape, chunk_size=size), array)
            same(gl.dask.relayout(buffer, shape, target, chunk_size=size), gl.relayout(whole, shape, target))
        moved += 1
    assert moved > 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("widths", [None, (6, 9, 4)])
@pytest.mark.parametrize("tiles", [(), ((2, 4),)])
def test_buffers_are_those_of_the_definition(order, widths, tiles):
    sizes = (5, 7, 3)
    shape = gl.Shape("s64", sizes, gl.Layout(order, padded_dimensions=widths, padding_value=-1, tiles=tiles))
    expected = reference.tiled_numbers(sizes, order, widths, tiles)
    for chunks in ((5, 7, 3), (2, 3, 2), ((1, 4), (7,), (1, 1, 1))):
        array = da.from_array(np.arange(105).reshape(sizes), chunks=chunks)
        for chunk_size in (None, 1, 100, 1000):
            assert (gl.dask.pack(array, shape, chunk_size=chunk_size).compute() == expected).all()


@pytest.mark.parametrize("name", ["bf16", "f8e4m3fn", "f4e2m1fn", "s4", "pred", "c128"])
def test_every_kind_of_element_is_shuffled(name):
    shape = gl.Shape(name, (9, 13))
    array = numbered(shape)
    lazy = da.from_array(array, chunks=(2, 13))
    buffer = gl.dask.pack(lazy, "{0,1}", chunk_size=20 * shape.itemsize)
    same(buffer, gl.pack(array, "{0,1}"))
    same(gl.dask.relayout(buffer, shape.with_layout("{0,1}"), "{1,0}", chunk_size=30), gl.pack(array, "{1,0}"))


def test_elements_that_are_passed_as_integers_stay_integers():
    array = np.arange(6, dtype=np.uint16).reshape(2, 3)
    buffer = gl.dask.pack(da.from_array(array, chunks=1), "bf16[2,3]{0,1}")
    same(buffer, array.T.ravel())
    same(gl.dask.unpack(buffer, "bf16[2,3]{0,1}"), array)


def test_a_part_of_a_longer_buffer_is_cut_off_by_the_caller():
    buffer = da.arange(100, chunks=7)
    with pytest.raises(BufferError, match="^buffer has 100 elements, but s64.* has 60: pass buffer.:60.$"):
        gl.dask.unpack(buffer, "s64[6,10]")
    same(gl.dask.unpack(buffer[:60], "s64[6,10]"), np.arange(60).reshape(6, 10))


# ---- chunks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1K", "1k", "1kB", "1 KiB", "0.5M", "1MB"])
def test_a_chunk_size_in_text_is_what_other_limits_of_bytes_are(text):
    """Units of 1024, as everywhere in the library.  Dask's own setting keeps Dask's: 1 kB is 1000 bytes."""
    array, limit = da.zeros((2**19, 4), chunks=(2**12, 4), dtype=np.uint8), byte_count("chunk_size", text)
    assert limit in (2**10, 2**19, 2**20)
    buffer = gl.dask.pack(array, "{1,0}", chunk_size=text)
    assert max(buffer.chunks[0]) == limit and buffer.chunks == gl.dask.pack(array, "{1,0}", chunk_size=limit).chunks
    for lazy in (
        gl.dask.unpack(buffer, "u8[524288,4]", chunk_size=text),
        gl.dask.relayout(buffer, "u8[524288,4]", "{1,0:T(2,2)}", chunk_size=text),
    ):
        assert int(np.prod([max(sizes) for sizes in lazy.chunks])) == limit
    with dask.config.set({"array.chunk-size": "1 kB"}):
        assert max(gl.dask.pack(array, "{0,1}").chunks[0]) == 1000


def test_a_setting_of_no_bytes_is_named():
    with dask.config.set({"array.chunk-size": 0}):
        with pytest.raises(gl.LayoutError, match="^Dask's setting array.chunk-size 0 is not at least one byte$"):
            gl.dask.pack(da.zeros((4, 4)), "{0,1}")


def test_a_chunk_size_of_numpy_s_integers_is_taken():
    array = da.zeros((100, 10), dtype=np.uint8)
    assert max(gl.dask.pack(array, "{1,0}", chunk_size=np.int32(50)).chunks[0]) == 50


def test_chunks_that_are_slabs_stay_and_no_chunk_size_is_exceeded():
    array = da.zeros((64, 1000), chunks=((8, 24, 32), 1000), dtype="f4")
    assert gl.dask.pack(array, "{1,0:T(8,128)}").chunks == ((8 * 1024, 24 * 1024, 32 * 1024),)
    assert gl.dask.pack(array, "{1,0:T(8,128)}", chunk_size=64_000).chunks == ((8 * 1024,) * 8,)
    assert gl.dask.pack(array, "{0,1}", chunk_size=64_000).chunks == ((250 * 64,) * 4,)
    buffer = da.zeros(64_000, chunks=8000, dtype="f4")
    assert gl.dask.unpack(buffer, "f32[64,1000]").chunks == ((8,) * 8, (1000,))
    assert gl.dask.unpack(buffer, "f32[1000,64]{0,1}", chunk_size=16_000).chunks == ((1000,), (4,) * 16)


def test_one_index_that_is_too_large_is_cut_along_the_next_dimension():
    array = da.zeros((2, 50, 60), chunks=(2, 50, 60), dtype="f4")
    buffer = gl.dask.pack(array, "{2,1,0}", chunk_size=6000)
    assert buffer.chunks == ((1500, 1500) * 2,)
    assert gl.dask.unpack(buffer, "f32[2,50,60]", chunk_size=6000).chunks == ((1, 1), (25, 25), (60,))


def layers(array):
    return [name.rpartition("-")[0] for name in array.dask.layers]


def test_a_common_most_major_dimension_needs_no_shuffle():
    images = da.zeros(64 * 32 * 32 * 3, chunks=4 * 32 * 32 * 3, dtype="u1")
    moved = gl.dask.relayout(images, "u8[64,3,32,32]{1,3,2,0}", "{3,2,1,0}")
    assert layers(moved)[1:] == ["relayout"] and moved.numblocks == (16,)
    tiles = gl.dask.relayout(images, "u8[64,3,32,32]{1,3,2,0}", "{3,2,1,0:T(8,128)}", chunk_size="100kB")
    assert "unpack" not in layers(tiles) and max(tiles.chunks[0]) <= 100_000
    turned = gl.dask.relayout(images, "u8[64,3,32,32]{3,2,1,0}", "{0,1,2,3}", chunk_size="20kB")
    assert {"unpack", "pack"} < {*layers(turned)} and "relayout" not in layers(turned)


@pytest.mark.parametrize("source, target", [("{1,0}", "{0,1}"), ("{0,1}", "{1,0}")])
def test_shuffled_chunks_that_are_the_buffer_are_not_copied(source, target):
    """The shuffle makes C-ordered chunks of the array in the order of memory."""
    shape = gl.Shape("s64", (60, 100), source)
    moved = gl.dask.relayout(da.arange(6000, chunks=3000), shape, target, chunk_size=5000)
    task = next(iter(moved.dask.layers[moved.name].values()))
    chunk = np.arange(600).reshape(10, 60)
    assert np.shares_memory(task(dict.fromkeys(task.dependencies, chunk)), chunk)
    same(moved, gl.relayout(np.arange(6000), shape, target))


def test_a_chunk_that_the_caller_has_is_copied():
    array = np.arange(12).reshape(3, 4)
    assert not np.shares_memory(gl.dask.pack(da.from_array(array, chunks=-1), "{1,0}").compute(), array)


@pytest.mark.parametrize("setting, rows", [("512KiB", 16), ("128KiB", 8), ("16KiB", 4)])
def test_the_shuffle_joins_small_chunks_but_not_many(setting, rows):
    """Rows of 16 KiB: four chunks of the result at once, as far as Dask's setting allows that."""
    array = da.zeros((64, 4096), chunks=(1, 4096), dtype="f4")
    with dask.config.set({"array.rechunk.method": "p2p", "array.chunk-size": setting}):
        moved = gl.dask.pack(array, "{0,1}", chunk_size="64KiB")
    (shuffle,) = (layer for layer in moved.dask.layers.values() if hasattr(layer, "chunks_input"))
    assert shuffle.chunks_input == ((4096,), (rows,) * (64 // rows))


def test_a_slab_is_seen_and_not_copied_where_strides_suffice():
    data = np.arange(120, dtype=np.float32)
    chunks = {("data", at): data[24 * at : 24 * at + 24] for at in range(5)}
    lazy = gl.dask.unpack(da.Array(chunks, "data", ((24,) * 5,), "f4"), "f32[9,10]{0,1:PD(12,10)}")
    tasks = dask.optimize(lazy)[0].__dask_graph__()
    for block in dask.get(tasks, list(dask.core.flatten(lazy.__dask_keys__()))):
        assert block.shape == (9, 2) and np.shares_memory(block, data)


def test_padding_that_holds_no_element_is_neither_read_nor_made_of_the_array():
    shape = gl.parse_shape("s32[2,4]{1,0:PD(50,4)PV(7)}")
    buffer = gl.dask.pack(da.ones((2, 4), dtype="i4"), shape, chunk_size=64)
    *_, (key, last) = buffer.dask.layers[buffer.name].items()
    assert key == (buffer.name, 12) and not last.dependencies and (buffer[-4:].compute() == 7).all()
    (read,) = dask.optimize(gl.dask.unpack(buffer, shape))
    assert sum(isinstance(task, Task) for task in dict(read.dask).values()) < 5 < len(buffer.dask)


# ---- graphs ----------------------------------------------------------------------------------------------------


def test_names_are_the_same_for_the_same_call_only():
    array = da.ones((40, 50), chunks=7, dtype="f4")
    buffer = da.ones(2000, chunks=300, dtype="f4")
    calls = [
        lambda: gl.dask.pack(array, "{0,1}"),
        lambda: gl.dask.pack(array, "{0,1:PD(40,51)}"),
        lambda: gl.dask.pack(array, "{0,1:PD(40,51)PV(one)}"),
        lambda: gl.dask.pack(array, "{0,1}", chunk_size=1000),
        lambda: gl.dask.pack(array + 1, "{0,1}"),
        lambda: gl.dask.unpack(buffer, "f32[40,50]"),
        lambda: gl.dask.unpack(buffer, "f32[40,50]{0,1}"),
        lambda: gl.dask.relayout(buffer, "f32[40,50]", "{0,1}"),
        lambda: gl.dask.relayout(buffer, "f32[40,50]{0,1}", "{1,0}"),
        lambda: gl.dask.relayout(buffer, "f32[40,50]", "{1,0:PD(40,51)}"),
        lambda: gl.dask.relayout(buffer, "f32[40,50]", "{1,0:PD(40,52)}"),
        lambda: gl.dask.linearize(da.indices((4, 5), chunks=2), "f32[4,5]"),
        lambda: gl.dask.linearize(da.indices((4, 5), chunks=2), "f32[4,5]{0,1}"),
    ]
    names = [call().name for call in calls]
    assert names == [call().name for call in calls] and len(set(names)) == len(names)
    assert gl.dask.pack(array, gl.Layout((0, 1))).name == names[0]


def test_a_task_takes_a_few_hundred_bytes():
    buffer = gl.dask.pack(da.zeros((4000, 4000), chunks=(100, 4000)), "{0,1:T(8,128)(2,1)}", chunk_size=10**6)
    sizes = [len(pickle.dumps(task)) for task in buffer.dask.layers[buffer.name].values()]
    assert len(sizes) == 167 and max(sizes) < 400


@pytest.mark.parametrize("megabytes", [64, 512])
def test_graphs_grow_with_the_number_of_chunks(megabytes):
    rows = 2**10 * megabytes // 64
    buffer = da.zeros(rows * 2**14, chunks=2**20, dtype="f4")
    chunks = megabytes // 4
    moved = gl.dask.relayout(buffer, gl.Shape("f32", (rows, 2**14)), "{0,1}", chunk_size=2**22)
    assert moved.npartitions == chunks and len(moved.dask) < 24 * chunks
    local = gl.dask.relayout(buffer, gl.Shape("f32", (rows, 2**7, 2**7)), "{1,2,0}")
    assert len(local.dask) == 2 * chunks


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError("computed")

    array = da.zeros((40, 50), chunks=7, dtype="f4").map_blocks(fail, dtype="f4", meta=np.zeros((0, 0), "f4"))
    buffer = gl.dask.pack(array, "{0,1}", chunk_size=1000)
    gl.dask.unpack(gl.dask.relayout(buffer, "f32[40,50]{0,1}", "{1,0}"), "f32[40,50]")
    with pytest.raises(AssertionError, match="^computed$"):
        buffer.compute()
