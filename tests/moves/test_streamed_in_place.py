"""Blocks that move in place one after the other: none writes on one that has not been read."""

import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import Piece
from gpulayout.moves.steps import move_of
from gpulayout.moves.streamed_in_place import Streamed, StreamedBlock, streamed
from tests.support.placed import relayout_pieces
from tests.support.tiled_cases import drawn_layout


def block(source, target):
    """A block of bytes that moves from one interval to another: the first bytes, if the target has fewer."""
    (start, end), (first, last) = source, target
    common = min(end - start, last - first)
    move = move_of([Axis(common, common, 1, 1)], 1)
    return StreamedBlock((Piece(move),), start, end - start, first, last - first)


def intervals(rng, count, most):
    """So many intervals behind each other, with gaps; the first one begins at 0 and is the longest."""
    found, end = [], 0
    for number in range(count):
        start = end + (rng.choice((0, 0, 1, 5)) if number else 0)
        end = start + (most if not number else rng.randint(1, most))
        found.append((start, end))
    return found


def ends(blocks):
    return max(end for each in blocks for end in (each.source_end, each.target_end))


def moved(step, memory):
    """The memory after all copies; each copy has read all before it writes."""
    memory, workspace = memory.copy(), np.full(step.workspace, -1)
    for copy in step.copies():
        (read, written) = (workspace if inside else memory for inside in (copy.from_workspace, copy.to_workspace))
        size = copy.move.element_count
        assert copy.source_offset + size <= len(read) and copy.target_offset + size <= len(written)
        written[copy.target_offset : copy.target_offset + size] = read[copy.source_offset :][:size].copy()
    return memory


@pytest.mark.parametrize("seed", range(200))
def test_no_block_writes_on_one_that_has_not_been_read(seed):
    """Lengths and gaps at random: blocks move up in one place, and down in another."""
    rng = random.Random(seed)
    count = rng.randint(1, 12)
    source, target = (intervals(rng, count, rng.randint(1, 9)) for _ in range(2))
    blocks = [block(*pair) for pair in zip(source, target)]
    step = Streamed(tuple(blocks))
    assert sorted(step.order()) == list(range(count))
    before = np.arange(ends(blocks))
    after = moved(step, before)
    for (start, end), (first, last) in zip(source, target):
        common = min(end - start, last - first)
        assert after[first : first + common].tolist() == before[start : start + common].tolist(), blocks


@pytest.mark.parametrize("seed", range(60))
def test_blocks_are_in_the_order_of_both_sides(seed):
    """Of random layouts: runs that follow one another on either side, and together are all of the target."""
    rng = random.Random(seed)
    sizes = [rng.choice((2, 3, 4, 6, 8, 12)) for _ in range(rng.randint(1, 4))]
    source, target = (gl.Shape("u8", sizes, drawn_layout(rng, sizes)) for _ in range(2))
    if rng.random() < 0.7:  # of the same order, so that there is something to cut
        target = target.with_layout(target.layout.replace(minor_to_major=source.layout.minor_to_major))
    step, least = streamed(source, target, 1 << 20, 1)
    assert step.workspace == least
    ends = [0, 0]
    for each in sorted(step.blocks, key=lambda block: block.target_offset):
        assert each.target_offset == ends[1]
        ends[1] = each.target_end
        if each.source_bytes:
            assert each.source_offset >= ends[0]
            ends[0] = each.source_end
    assert ends[0] <= source.nbytes and ends[1] == target.nbytes
    assert [each.target_offset for each in step.blocks] == sorted(each.target_offset for each in step.blocks)


@pytest.mark.parametrize("seed", range(60))
def test_every_block_is_the_one_of_the_grid(seed):
    """Of a kind only one is cut out of the grid; the others differ in their places."""
    rng = random.Random(seed)
    kind, bits = rng.choice((("u8", 0), ("u4", 4), ("u2", 2), ("f32", 0)))
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
    sides = []
    for _ in range(2):
        layout = gl.Layout(
            tuple(reversed(range(len(sizes)))),
            padded_dimensions=[size + rng.choice((0, 0, 1, 6)) for size in sizes],
            element_size_in_bits=rng.choice((0, bits)),
            tail_padding_alignment=rng.choice((1, 16)),
        )
        sides.append(gl.Shape(kind, sizes, layout))
    step, _ = streamed(*sides, 1 << 20, rng.choice((1, 4, 16)))
    for number, each in enumerate(step.blocks):
        shapes = step.blocks.grid.block(number)
        assert each.pieces == relayout_pieces(shapes.source, shapes.target)
        assert each.source_bytes == shapes.source_runs.nbytes and each[3:] == shapes.target_runs[:2]
        assert not each.source_bytes or each.source_offset == shapes.source_runs.offset


def test_padding_alone_comes_last():
    read, empty = block((4, 8), (8, 12)), StreamedBlock((), 0, 0, 0, 8)
    assert list(Streamed((block((0, 4), (0, 4)), empty, read)).order()) == [0, 2, 1]


@pytest.mark.parametrize(
    "source, target, order",
    [
        ("u4[8,2]", "{1,0:E(4)}", "forwards"),
        ("u4[8,2]{1,0:E(4)}", "{1,0}", "backwards"),
        ("f32[8,2]", "{1,0:PD(8,3)}", "backwards"),
        ("f32[8,2]{1,0:PD(8,3)}", "{1,0}", "forwards"),
    ],
)
def test_the_order_follows_from_which_side_is_longer(source, target, order):
    plan = gl.plan(source, target)
    limit = 4 if plan.source.itemsize == 1 else 8
    step, _ = streamed(plan.source, plan.target, limit, limit)
    numbers = list(range(step.count))
    assert step.count > 1 and list(step.order()) == (numbers if order == "forwards" else numbers[::-1])
    assert (", the last one first" in str(step)) == (order == "backwards")


@pytest.mark.parametrize(
    "source, target, least",
    [
        ("u8[32,64]", "{1,0:T(16,48)}", 16 * 64),  # rows of a tile
        ("u8[3,32,64]", "{2,1,0:T(16,48)}", 16 * 64),  # whatever is around them
        ("u8[3,30,64]", "{2,1,0:T(16,48)}", 16 * 64),
        ("u4[32,64]", "{1,0:E(4)}", 1),
        ("u4[3,3]", "{1,0:E(4)}", 3),  # two rows of 3 elements are 3 bytes
        ("f32[6,5]", "{1,0:PD(6,8)}", 4),
        ("u8[32,64]{0,1}", "{1,0:T(16,48)}", 32 * 64),  # nothing in common
        ("u8[16,64]", "{1,0:T(16,48)}", 16 * 64),  # one row of tiles
    ],
)
def test_the_smallest_workspace(source, target, least):
    plan = gl.plan(source, target)
    for limit in (0, least - 1):
        assert streamed(plan.source, plan.target, limit, 1 << 20) == (None, least)
    step, _ = streamed(plan.source, plan.target, least, 1 << 20)
    assert step.workspace == least


@pytest.mark.parametrize("enough", [1, 100, 1000, 5000, 1 << 20])
def test_blocks_are_as_large_as_gains_something(enough):
    plan = gl.plan("u8[64,100]", "{1,0:T(8,128)}")
    step, least = streamed(plan.source, plan.target, 1 << 20, enough)
    assert least <= max(enough, 800) and step.workspace == least
    assert step.workspace + 800 > min(enough, 6400)
