"""Moves that look up every place, on every executor, against the reference."""

import random
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import lookup
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.plans.plan import Plan
from tests.support.executors import guarded, guards_intact, source_buffer
from tests.support.lookup_cases import few_pieces
from tests.support.placed import pack_pieces, relayout_pieces, unpack_pieces
from tests.support.simt.sparse import sparse_bytes
from tests.support.tiled_cases import TYPES, drawn_pair, expected_buffer, logical_array


@pytest.fixture
def looked_up():
    with few_pieces():
        yield


def is_looked_up(pieces):
    return [type(piece.move) for piece in pieces] == [LookupMove]


def drawn(executor, rng):
    """A random pair; of 4-byte elements if kernels are compiled on the host."""
    return drawn_pair(rng, 4 if executor.name == "simt" else rng.choice(tuple(TYPES)))


def test_relayout_turns_one_reference_buffer_into_the_other(executor, looked_up):
    rng, seen = random.Random("looked up"), 0
    for number in range(400):
        source, target = drawn(executor, rng)
        if not is_looked_up(relayout_pieces(source, target)):
            continue
        seen += 1
        if executor.name == "simt":
            executor.backend.runtime.order = number % 3
        buffer = source_buffer(executor, expected_buffer(source))
        out, memory = guarded(executor, target.dtype, target.buffer_size)
        gl.relayout(buffer, source, target, out=out)
        assert executor.host(out).tobytes() == expected_buffer(target).tobytes(), (source, target)
        assert guards_intact(executor, memory, 0, target.nbytes), (source, target)
    assert seen > 300


def test_pack_takes_any_strides_and_unpack_writes_any_strides(executor, looked_up):
    rng, seen = random.Random("strides"), 0
    for number in range(200):
        shape, _ = drawn(executor, rng)
        steps = [(1, 2, -1)[(number + dim) % 3] for dim in range(shape.rank)]
        whole = np.ones(
            [size * abs(step) for size, step in zip(shape.dimensions, steps)], shape.dtype, order="CF"[number % 2]
        )
        part = (..., *(slice(None, None, step) for step in steps))
        whole[part] = logical_array(shape)
        around = executor.array(whole)
        strided = around[part]
        seen += is_looked_up(pack_pieces(strided.strides, shape)) + is_looked_up(unpack_pieces(shape, strided.strides))
        out, memory = guarded(executor, shape.dtype, shape.buffer_size)
        gl.pack(strided, shape, out=out)
        assert executor.host(out).tobytes() == expected_buffer(shape).tobytes(), shape
        assert guards_intact(executor, memory, 0, shape.nbytes), shape
        strided[...] = 0
        gl.unpack(out, shape, out=strided)
        assert executor.host(around).tobytes() == whole.tobytes(), shape  # the bytes between are unchanged
        assert executor.host(gl.unpack(out, shape)).tobytes() == logical_array(shape).tobytes(), shape
    assert seen > 200


def test_bytes_between_the_elements_of_an_array_stay(executor, looked_up):
    shape = gl.parse_shape("s32[5,7]{1,0:T(2,3)}")
    room = executor.array(np.full((10, 21), -1, np.int32))
    gl.unpack(executor.array(expected_buffer(shape)), shape, out=room[9::-2, 1::3])
    assert executor.host(room[9::-2, 1::3]).tobytes() == logical_array(shape).tobytes()
    assert (executor.host(room) == -1).sum() == 210 - 35


def test_elements_at_any_address_on_the_cpu(looked_up):
    """Strides that are not multiples of an element, packing and unpacking."""
    shape = gl.parse_shape("s32[5,7]{0,1:T(3,2)}")
    records = np.zeros((5, 7), np.dtype([("flag", "u1"), ("value", "<i4")]))
    records["value"] = logical_array(shape)
    packed = gl.pack(records["value"], shape)
    assert packed.tobytes() == expected_buffer(shape).tobytes()
    records["value"] = 0
    gl.unpack(packed, shape, out=records["value"])
    assert records["value"].tobytes() == logical_array(shape).tobytes() and not records["flag"].any()
    move = pack_pieces(records["value"].strides, shape)[0].move
    with pytest.raises(BufferError, match="source_stride 35 of the source is not a multiple of the element's 4 bytes"):
        kernel_plan(move)
    with pytest.raises(BufferError, match="target_stride 35 of the target is not a multiple of the element's 4 bytes"):
        kernel_plan(unpack_pieces(shape, records["value"].strides)[0].move)
    with pytest.raises(
        BufferError, match="target address is 2 past a multiple of 16: elements of 4 bytes must be aligned to 4"
    ):
        kernel_plan(unpack_pieces(shape, (28, 4))[0].move, 0, 2)


def test_strides_both_ways_that_reach_past_2_31_together(looked_up):
    """Rows step back by 1.45e9 bytes and columns forward by 0.7e9: no place is 2^31 from the first element, but the
    outermost places are 2.85e9 apart.
    """
    shape = gl.parse_shape("u8[2,3]{1,0:T(2,2)}")
    array = np.ndarray((2, 3), np.uint8, sparse_bytes(3 << 30), 1_450_000_000, (-1_450_000_000, 700_000_000))
    array[...] = np.arange(6).reshape(2, 3)
    assert is_looked_up(pack_pieces(array.strides, shape))
    assert gl.pack(array, shape).tolist() == [0, 1, 3, 4, 2, 0, 5, 0]


@pytest.mark.parametrize("name, bits", [("s32", 0), ("u4", 4), ("s1", 1), ("s4", 0)])
def test_blocks_and_threads(monkeypatch, looked_up, name, bits):
    """Small blocks do not share a byte, with any number of threads."""
    monkeypatch.setattr(lookup, "BLOCK", 69)
    monkeypatch.setattr(lookup, "SHARE", 500)
    packed = f"E({bits})" if bits else ""
    source = gl.parse_shape(f"{name}[37,53]{{1,0:T(5,7){packed}}}")
    target = source.with_layout(gl.parse_layout(f"{{0,1:T(3,2)L(5){packed}}}"))
    array = gl.unpack(gl.pack(np.arange(37 * 53).reshape(37, 53).astype(source.dtype), source), source)
    with few_pieces(1 << 16):
        wanted = gl.pack(array, target)
    assert is_looked_up(relayout_pieces(source, target))
    for threads in ("1", "3"):
        monkeypatch.setenv("GPULAYOUT_NUM_THREADS", threads)
        assert gl.relayout(gl.pack(array, source), source, target).tobytes() == wanted.tobytes()
        assert gl.unpack(wanted, target).tobytes() == array.tobytes()


@pytest.mark.parametrize("threads", ("1", "2", "7"))
@pytest.mark.parametrize(
    "source, target",
    [
        ("c128[1000,1001]{1,0:T(*,1000)}", "{0,1:T(*,999)}"),
        ("s4[1031,1021]{1,0:E(4)}", "{1,0:T(3,5)E(4)}"),
        ("s4[1031,1021]{1,0:E(4)}", "{0,1:E(4)}"),
        ("s4[1032,1024]{1,0:E(4)}", "{0,1:E(4)}"),
        ("u1[1031,1021]", "{0,1:E(1)}"),
        ("s16[101,103,107]{2,1,0:T(7)(3)(2)}", "{0,1,2:T(*,5)(3)(2)}"),
    ],
)
def test_scratch_arrays_of_all_threads_fit_into_4_megabytes(monkeypatch, source, target, threads):
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", threads)
    with few_pieces(50):
        plan = Plan(gl.parse_shape(source), gl.parse_shape(source).with_layout(target))
    buffer, out = (np.zeros(shape.buffer_length, shape.buffer_dtype) for shape in (plan.source, plan.target))
    plan(buffer, out=out)
    tracemalloc.start()
    try:
        plan(buffer, out=out)
        assert tracemalloc.get_traced_memory()[1] <= 4 << 20
    finally:
        tracemalloc.stop()


def test_many_small_pieces_are_looked_up_and_few_or_large_ones_are_not():
    """Tiles without common divisors cut 300 x 300 places into thousands of pieces, and larger tiles into tens."""
    plan = gl.plan("u8[300,300]{1,0:T(7,11)}", "{1,0:T(8,13)}")
    assert is_looked_up(plan.pieces) and (plan.bytes_read, plan.bytes_written) == (90000, plan.target.nbytes)
    assert len(gl.plan("u8[300,300]{1,0:T(70,110)}", "{1,0:T(80,130)}").pieces) > 10
    huge = gl.plan("u8[30000,30000]{1,0:T(700,1100)}", "{1,0:T(800,1300)}")
    assert not is_looked_up(huge.pieces) and len(huge.pieces) > 200


@pytest.mark.parametrize(
    "source, target, bits",
    [
        ("s4[32767,32767]{1,0:T(40000,40000)E(4)}", "{1,0:T(3,5)E(4)}", 32),
        ("s4[65537,65537]{1,0:T(3,5)E(4)}", "{1,0:T(3,7)E(4)}", 64),
        ("f64[300,1000000]{1,0:T(7,11)}", "{1,0:T(3,5)}", 64),
        ("f64[300,500]{1,0:T(7,11)}", "{1,0:T(3,5)}", 32),
    ],
)
def test_offsets_are_as_wide_as_both_sides_reach(source, target, bits):
    with few_pieces():
        source = gl.parse_shape(source)
        (piece,) = relayout_pieces(source, source.with_layout(gl.parse_layout(target)))
    assert piece.move.program.index_bits == bits


def test_explain_says_why():
    text = str(gl.plan("u8[300,300]{1,0:T(7,11)}", "{1,0:T(8,13)}").explain())
    assert "lookup (gpl_lookup in lookup.cu)" in text and "tiles cut the array into more than" in text
    text = str(gl.plan("u4[4,6]", "{1,0:T(2,3)E(4)}").explain())
    assert "a run of the target begins at place 3, inside a byte" in text


def test_layouts_with_too_many_numbers_are_refused():
    shape = gl.Shape("u8", (60,), gl.Layout((0,), tiles=[(3,), (2,)] * 40))
    with few_pieces(), pytest.raises(gl.LayoutError, match="is the limit"):
        relayout_pieces(shape.with_layout(None), shape)
