"""Blocks and passes as users call them: limits, lengths of runs, laziness, executors and errors."""

import itertools
import math
import pickle

import numpy as np
import pytest

import gpulayout as gl
from tests.support.block_cases import buffer_of, check
from tests.support.executors import source_buffer

MILLION = "f32[100000,100000]", "{0,1}"


@pytest.mark.parametrize("memory", [1 << 20, 3 << 20, 64 << 20, 384 << 20, 1 << 30])
@pytest.mark.parametrize("name, itemsize", [("u8", 1), ("f32", 4), ("c128", 16)])
def test_runs_of_a_transpose_follow_the_square_root_law(memory, name, itemsize):
    blocks = gl.plan(f"{name}[390011,390001]", "{0,1}").blocks(memory)
    law = math.sqrt(memory * itemsize / 2)
    assert 0.93 * law < blocks.source_run_bytes < 1.05 * law and 0.93 * law < blocks.target_run_bytes < 1.05 * law
    assert 0.9 * memory < blocks.block_bytes <= memory


def test_blocks_are_a_sequence():
    blocks = gl.plan("f32[20,30]", "{0,1}").blocks(500)
    every = list(blocks)
    assert len(every) == len(blocks) > 10 and blocks.max_bytes == 500 and blocks.plan == gl.plan("f32[20,30]", "{0,1}")
    assert (
        blocks[-1] == every[-1] == blocks[len(blocks) - 1] == blocks[np.int64(-1)] and blocks[-len(blocks)] == every[0]
    )
    assert blocks[2:9:3] == every[2:9:3] and blocks[::-1] == every[::-1] and blocks[5:5] == []
    assert every[3] in blocks and list(reversed(blocks)) == every[::-1]
    for number in (len(blocks), -len(blocks) - 1):
        with pytest.raises(IndexError):
            blocks[number]
    with pytest.raises(TypeError):
        blocks[1.0]


@pytest.mark.parametrize("pair", [("u8[12,30]{1,0}", "{0,1}"), ("u8[30,12]{0,1}", "{1,0}")])
def test_blocks_continue_one_another_in_the_target(pair):
    """The first run of each block begins where that of the one before ended, until a row is complete."""
    blocks = gl.plan(*pair).blocks(40)
    ends = [block.target_runs.offset + block.target_runs.length for block in blocks]
    continued = sum(end == block.target_runs.offset for end, block in zip(ends, blocks[1:]))
    rows = -(-12 // blocks.target_run_bytes)
    assert rows > 1 and continued >= len(blocks) * (rows - 1) // rows - 1


@pytest.mark.parametrize("memory", [1 << 10, 1 << 16, 1 << 20, 3 << 20])
def test_blocks_are_of_equal_size(memory):
    blocks = gl.plan("f32[1000,999]", "{0,1}").blocks(memory)
    rows, columns = blocks[0].plan.source.dimensions
    down, across = -(-1000 // rows), -(-999 // columns)
    assert len(blocks) == down * across and (rows, columns) == (-(-1000 // down), -(-999 // across))


def test_tiles_behind_the_elements_need_not_agree():
    """Tiles of 7 and of 8 agree at 56, but the elements end with the second tile of each: 14 and 16 bytes."""
    pair = gl.parse_shape("u8[10]{0:T(7)}"), gl.parse_shape("u8[10]{0:PD(1000)T(8)}")
    assert check(*pair, 30).block_bytes == 30


@pytest.mark.parametrize("limit", [0, -1, -(2**70)])
def test_too_small_limits_name_the_smallest(limit):
    with pytest.raises(gl.LayoutError) as error:
        gl.plan("f32[32,512]", "{0,1:T(8,128)}").blocks(limit)
    assert str(error.value) == (
        f"max_bytes {limit} is too small to relayout f32[32,512]{{1,0}} to f32[32,512]{{0,1:T(8,128)}}: the smallest "
        "block, of 32x8 coordinates, takes 5120 bytes"
    )


@pytest.mark.parametrize("call", ["blocks", "passes", "explain"])
@pytest.mark.parametrize("limit, shown", [(1.5, "1.5"), (True, "True"), ([1], "\\[1\\]")])
def test_limits_are_bytes_or_text(call, limit, shown):
    plan = gl.plan("f32[2,3]", "{0,1}")
    with pytest.raises(TypeError, match=f"^max_bytes {shown} is not an integer"):
        plan.explain(max_bytes=limit) if call == "explain" else getattr(plan, call)(limit)


@pytest.mark.parametrize("limit", [48, np.int64(48), 2**70])
def test_a_large_limit_gives_one_block_that_is_the_plan(limit):
    plan = gl.plan("f32[2,3]", "{0,1}")
    (block,) = plan.blocks(limit)
    assert block.plan == plan and plan.blocks(limit).block_bytes == 48 and plan.passes(limit) == (plan,)
    assert (block.source_runs, block.target_runs) == ((0, 24, ()), (0, 24, ()))


@pytest.mark.parametrize("text", ["f32[]", "f32[]{:T(4)}", "f32[]{:L(9)}", "f32[1]"])
def test_one_element(text):
    assert check(gl.parse_shape("f32[]" if "[]" in text else "f32[1]"), gl.parse_shape(text), 64).bytes_read == 4


@pytest.mark.parametrize("text", ["f32[0]", "f32[3,0,2]{0,1,2}", "f32[0]{0:L(5)}", "f32[0,2]{0,1:PD(5,2)PV(1)}"])
def test_no_elements(text):
    target = gl.parse_shape(text)
    blocks = check(target.with_layout(None), target, 8)
    assert blocks.bytes_read == 0 and blocks.source_run_bytes == 0 and (len(blocks) > 0) == (target.nbytes > 0)
    assert gl.plan(target.with_layout(None), target).passes(8) == (blocks.plan,)


def test_a_tile_is_never_cut():
    """Even where most of it is padding."""
    with pytest.raises(gl.LayoutError, match="the smallest block, of 10 coordinates, takes 1099511627786 bytes$"):
        gl.plan("u8[10]", f"{{0:T({2**40})}}").blocks(1 << 20)


@pytest.mark.parametrize("layout", [f"PD({2**40})PV(7)", f"PV(7)L({2**40})"])
def test_huge_padding_is_written_in_bounded_blocks(layout):
    blocks = gl.plan("u8[10]", f"{{0:{layout}}}").blocks(1 << 20)
    assert blocks.bytes_read == 10 and blocks.bytes_written == 2**40 and 2**20 <= len(blocks) < 2**21
    end = 0
    for block in itertools.islice(blocks, 3):
        assert block.target_runs.offset == end and block.target_runs.run_count == 1
        end += block.target_runs.nbytes
        assert 0 < block.target_runs.nbytes + block.source_runs.nbytes <= 1 << 20
    assert blocks[-1].target_runs.offset + blocks[-1].target_runs.nbytes == 2**40
    assert not blocks[-1].source_runs.run_count and blocks[1].plan.target.layout.padding_value == 7


@pytest.mark.parametrize("name, itemsize", [("u8", 1), ("f32", 4)])
@pytest.mark.parametrize("more, is_read", [(0, True), (1, False)])
def test_padding_between_rows_is_read_up_to_64_kb(name, itemsize, more, is_read):
    """Rows of 10 elements, then padding of 64 KB, or of one element more."""
    width = 10 + (1 << 16) // itemsize + more
    blocks = gl.plan(f"{name}[50,10]{{1,0:PD(60,{width})}}", "{0,1}").blocks(1 << 30)
    assert blocks.bytes_read == 50 * (width if is_read else 10) * itemsize
    assert blocks[0].source_runs.run_count == (1 if is_read else 50)


@pytest.mark.parametrize("rows", [2**31 + 1, 2**33 + 3])
def test_arrays_past_32_bits(rows):
    """The last block ends with both buffers, and its first element is where the definition says."""
    blocks = gl.plan(f"u8[{rows},5]", "{0,1}").blocks(1 << 24)
    last = blocks[-1]
    assert blocks.bytes_read == blocks.bytes_written == 5 * rows
    for runs in last.source_runs, last.target_runs:
        assert runs.starts()[-1] + runs.length == 5 * rows
    part = last.plan.source.dimensions
    row, column = rows - part[0], 5 - part[1]
    assert last.source_runs.offset == row * 5 + column and last.target_runs.offset == column * rows + row


def test_a_million_blocks_are_made_as_they_are_read():
    blocks = gl.plan(*MILLION).blocks(1 << 15)
    assert len(blocks) > 10**6 and repr(blocks).startswith(f"<{len(blocks)} blocks of plan('f32[100000,100000]")
    assert len(blocks[:2]) == 2 and blocks[10**6].plan.source.nbytes <= 1 << 14
    assert len(pickle.dumps(blocks)) < 1000


def test_blocks_are_pickled():
    blocks = gl.plan("f32[20,30]", "{0,1:T(4,8)}").blocks(3000)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(blocks, protocol))
        assert list(copy) == list(blocks) and copy.block_bytes == blocks.block_bytes
        assert pickle.loads(pickle.dumps(blocks[1], protocol)) == blocks[1]


@pytest.mark.parametrize(
    "pair", [("f32[37,29]", "{0,1:PD(40,29)PV(2)T(4,8)L(100)}"), ("s4[17,9]{1,0:E(4)}", "{0,1:E(4)}")]
)
def test_the_plan_of_a_block_runs_on_every_executor(executor, pair):
    plan = gl.plan(*pair)
    buffer, found = buffer_of(plan.source), np.full(plan.target.nbytes, 0xA5, np.uint8)
    for block in plan.blocks(max(plan.source.nbytes // 3, 160)):
        part = np.ascontiguousarray(block.source_runs.of(buffer)).reshape(-1).view(block.plan.source.buffer_dtype)
        written = block.target_runs.of(found)
        moved = executor.host(block.plan(source_buffer(executor, part)))
        written[...] = moved.view(np.uint8).reshape(written.shape)
    assert found.tolist() == buffer_of(plan.target).tolist()


def test_a_block_runs_between_memory_maps(tmp_path):
    plan = gl.plan("f32[100,70]", "{0,1}")
    buffer_of(plan.source).tofile(tmp_path / "in")
    buffer = np.memmap(tmp_path / "in", np.float32, "r")
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=(7000,))
    for block in plan.blocks(4096):
        block(buffer, out=out)
    assert (tmp_path / "out").read_bytes() == buffer_of(plan.target).tobytes()


@pytest.mark.parametrize(
    "role, buffers", [("buffer", ([0] * 6, np.empty(6, "f4"))), ("out", (np.empty(6, "f4"), None))]
)
def test_blocks_take_numpy_arrays(role, buffers):
    (block,) = gl.plan("f32[2,3]", "{0,1}").blocks(99)
    with pytest.raises(BufferError, match=f"^{role} is a .*: a block reads and writes 1-D contiguous NumPy arrays$"):
        block(buffers[0], out=buffers[1])


@pytest.mark.parametrize(
    "buffer, out", [(np.empty((2, 3), "f4"), 6), (np.empty(12, "f4")[::2], 6), (np.empty(5, "f4"), 6)]
)
def test_short_or_strided_buffers_are_refused(buffer, out):
    written = np.zeros(out, "f4")
    for block in gl.plan("f32[2,3]", "{0,1}").blocks(99):
        with pytest.raises(BufferError):
            block(buffer, out=written)
        with pytest.raises(BufferError):
            block(np.ones(6, "f4"), out=buffer)
    assert not written.any()


# ---- two passes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [16 << 20, 64 << 20])
@pytest.mark.parametrize("pair", [("f32[39000,39001]", "{0,1}"), ("bf16[300,400,500,60]", "{0,1,2,3}")])
def test_two_passes_have_longer_runs(pair, memory):
    plan = gl.plan(*pair)
    one, passes = plan.blocks(memory), plan.passes(memory)
    assert len(passes) == 2 and passes[0].source == plan.source and passes[1].target == plan.target
    assert passes[0].target == passes[1].source
    shortest = min(one.source_run_bytes, one.target_run_bytes)
    for each in passes:
        blocks = each.blocks(memory)
        assert blocks.block_bytes <= memory
        assert min(blocks.source_run_bytes, blocks.target_run_bytes) >= 2 * shortest


def test_a_scratch_file_is_dense_but_for_its_last_tiles():
    """A dimension of n elements in tiles of t has less than t more."""
    scratch = gl.plan("f32[39000,39001]", "{0,1}").passes(64 << 20)[0].target
    (tile,) = scratch.layout.tiles
    assert scratch.dimensions == (39000, 39001) and scratch.buffer_size == math.prod(
        -(-size // length) * length for size, length in zip(scratch.dimensions, tile)
    )
    assert scratch.nbytes < 1.01 * 4 * 39000 * 39001


def test_long_runs_need_one_pass():
    for pair, memory in ((("f32[39000,39001]", "{0,1}"), 1 << 30), (("f32[1000,8,128]", "{2,1,0:T(8,128)}"), 1 << 20)):
        plan = gl.plan(*pair)
        assert plan.passes(memory) == (plan,)


@pytest.mark.parametrize("limit", [1 << 18, 1 << 19, 15 << 16])
def test_packed_elements_pass_through_tiles_of_whole_bytes(limit):
    """Even if only the target is packed, and its rows may be cut anywhere."""
    passes = gl.plan("u1[6008,60016]{1,0}", "{0,1:E(1)}").passes(limit)
    (tile,) = passes[0].target.layout.tiles
    assert len(passes) == 2 and tuple(tile)[-1] % 8 == 0


def test_one_pass_where_two_have_no_longer_runs():
    plan = gl.plan("f32[40,41]", "{0,1}")
    assert plan.blocks(40).target_run_bytes == 8 and plan.passes(40) == (plan,)


def test_one_pass_where_common_tiles_do_not_fit():
    plan = gl.plan("f32[20,30,40,10,20,8]{5,4,3,2,1,0:T(8,128)}", "{0,1,2,3,4,5:T(8,128)}")
    assert plan.passes(8 << 20) == (plan,) and "passes" not in plan.explain(max_bytes=8 << 20)


def test_explain_says_how_a_limit_cuts():
    plan = gl.plan("f32[39000,39001]", "{0,1}")
    blocks, text = plan.blocks(64 << 20), plan.explain(max_bytes=64 << 20)
    one, two = (2 * plan.source.nbytes + passes for passes in (0, 2 * plan.passes(64 << 20)[0].target.nbytes))
    assert text.startswith(plan.explain() + "\n  blocks   ") and "blocks  " not in plan.explain()
    scratch = plan.passes(64 << 20)[0].target
    for line in (
        f"  blocks   {len(blocks)} blocks of at most {blocks.block_bytes} bytes, source and target together",
        f"    files  {blocks.bytes_read} bytes read, {blocks.bytes_written} written",
        f"  passes   two, through {scratch.nbytes} bytes of scratch, {scratch}:",
        f"    files  {two} bytes read and written, instead of {one} in one pass",
    ):
        assert line in text


@pytest.mark.parametrize("name", ["u1", "s2", "u4"])
@pytest.mark.parametrize("sizes", [(301, 303), (131, 9, 133)])
def test_packed_rows_that_end_inside_a_byte_take_two_passes(name, sizes):
    """No block takes less than everything, but each side can be cut along with a scratch layout of whole bytes."""
    order = ",".join(map(str, range(len(sizes))))
    source = gl.parse_shape(f"{name}[{','.join(map(str, sizes))}]{{{order[::-1]}:E({name[1]})}}")
    plan = gl.plan(source, f"{{{order}:E({name[1]})}}")
    whole = plan.source.nbytes + plan.target.nbytes
    with pytest.raises(gl.LayoutError, match=f"{whole} bytes"):
        plan.blocks(whole - 1)
    buffer = np.random.default_rng(0).integers(0, 256, source.nbytes, np.uint8)
    wanted = plan(buffer)
    for limit in (whole // 2, whole * 3 // 4, whole - 1):
        first, second = plan.passes(limit)
        assert first.target == second.source and not first.target.is_packed
        scratch, out = np.empty(first.target.buffer_length, first.target.buffer_dtype), np.empty_like(wanted)
        for block in first.blocks(limit):
            block(buffer, out=scratch)
        for block in second.blocks(limit):
            block(scratch, out=out)
        np.testing.assert_array_equal(out, wanted)
    assert f"none in one pass: {limit} bytes are too few to relayout" in plan.explain(max_bytes=limit)
    with pytest.raises(gl.LayoutError, match=f"{whole} bytes"):
        plan.passes(2)


@pytest.mark.parametrize("text", ["f32[4,6]", "f32[8,8]"])  # blocks of one run and of several
def test_a_block_refuses_other_elements_and_its_own_memory(text):
    plan = gl.plan(text, "{0,1}")
    buffer, out = np.zeros(plan.source.buffer_length, np.float32), np.zeros(plan.target.buffer_length, np.float32)
    block = plan.blocks(32)[0]
    with pytest.raises(TypeError, match="buffer has dtype int32, but .* needs float32"):
        block(buffer.view(np.int32), out=out)
    with pytest.raises(TypeError, match="out has dtype float64"):
        block(buffer, out=out.astype(np.float64))
    with pytest.raises(BufferError, match="out shares memory with buffer"):
        block(buffer, out=buffer)
    block(buffer.view(np.uint8), out=out.view(np.uint8))


@pytest.mark.parametrize("text", ["f32[4,6]", "f32[8,8]"])  # blocks of one run and of several
def test_a_block_refuses_a_read_only_target(text):
    plan = gl.plan(text, "{0,1}")
    buffer, out = np.zeros(plan.source.buffer_length, np.float32), np.zeros(plan.target.buffer_length, np.float32)
    out.flags.writeable = False
    with pytest.raises(BufferError, match="out is read-only"):
        plan.blocks(32)[0](buffer, out=out)
