"""Lists of runs: of boxes within buffers, of nests of loops, their numbers before they are listed, and their memory."""

import itertools
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.moves.copies import Loop, nest, nests_of, pairs_within
from gpulayout.moves.listing import run_list
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.pieces import Piece
from gpulayout.moves.placement import Placement
from gpulayout.requests.index_keys import box_of
from gpulayout.running.request import request
from tests.support.box_cases import all_boxes, random_box, random_buffer
from tests.support.effort import examples
from tests.support.run_cases import applied, check_order, random_pair

CHUNKS = 25


def check_box(source, target, at, rng):
    """The runs of a box are the bytes that unpack and pack move with at=; False if it has no list of runs."""
    box = box_of(at, source)
    made = request(Placement.part_of(source, box), Placement.part_of(target, box))
    try:
        listed = run_list(made.pieces, source, target)
    except gl.LayoutError as error:
        assert source.is_packed or "tiles cut it" in str(error)
        return False
    runs = listed.array()
    check_order(runs)
    assert (listed.count, listed.nbytes) == (len(runs), runs[:, 2].sum())
    buffer, out = random_buffer(rng, source), random_buffer(rng, target)
    wanted = out.copy()
    gl.pack(gl.unpack(buffer, source, at=at), target, at=at, out=wanted)
    applied(runs, buffer.view(np.uint8), out.view(np.uint8))
    assert out.tobytes() == wanted.tobytes()
    return True


@pytest.mark.one_in(5)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_runs_of_a_box_are_what_pack_writes_there(chunk):
    rng, listed = np.random.default_rng(chunk), 0
    count = examples(3000 // CHUNKS)
    for number in range(count):
        source, target = random_pair(f"box {chunk} {number}")
        listed += check_box(source, target, random_box(rng, source.dimensions), rng)
    assert listed > count // 2


@pytest.mark.parametrize(
    "pair", [("u8[3,5]{1,0:T(2,3)}", "u8[3,5]{0,1:T(2)}"), ("s16[2,2,3]", "s16[2,2,3]{1,2,0:T(2)}")]
)
def test_every_box_of_a_small_array(pair):
    source, target = map(gl.parse_shape, pair)
    rng = np.random.default_rng(1)
    assert all(check_box(source, target, at, rng) for at in all_boxes(source.dimensions))


def one_by_one(given):
    """The copies of a nest from its loops, joined one by one, as rows."""
    found = []
    for digits in itertools.product(*[range(loop.times) for loop in reversed(given.loops)]):
        steps = list(zip(reversed(digits), given.loops))
        begins = [given[side] + sum(digit * loop[1 + side] for digit, loop in steps) for side in (0, 1)]
        found.append([*begins, given.length])
    found.sort(key=lambda run: run[1])
    joined = found[:1]
    for run in found[1:]:
        last = joined[-1]
        if [last[0] + last[2], last[1] + last[2]] == run[:2]:
            last[2] += run[2]
        else:
            joined.append(run)
    return joined


def random_loops(rng):
    """Loops with any strides in the source, and in the target such that no byte is written twice."""
    length, reach, loops = rng.choice((1, 2, 4)), 0, []
    reach = length
    for _ in range(rng.randrange(5)):
        count, step = rng.choice((2, 2, 3, 4)), reach + rng.choice((0, 0, 0, 1, 3))
        loops.append(Loop(count, rng.choice((length, step, length * rng.randrange(1, 9))), step))
        reach = (count - 1) * step + reach
    return length, loops


@pytest.mark.parametrize("seed", range(5))
def test_loops_are_listed_as_their_definition_says(seed):
    rng = random.Random(seed)
    shape = gl.Shape("u8", (9,))
    for _ in range(examples(400)):
        length, loops = random_loops(rng)
        given = nest(5, 7, length, loops)
        axes = tuple(Axis(loop.times, *loop) for loop in loops)
        listed = run_list((Piece(Move(axes, length, b"\0" * length, ((),) * len(axes)), 5, 7),), shape, shape)
        wanted = one_by_one(given)
        assert listed.array().tolist() == wanted and listed.count == len(wanted) == given.copies - pairs_within(given)
        assert listed.shortest == min(run[2] for run in wanted)


def test_a_loop_that_steps_back_in_the_target_is_taken_apart():
    """Rows of 2 bytes, 6 apart, in between one another: 3 loops of which the outer steps within the inner."""
    axes = Axis(3, 3, 2, 6), Axis(2, 2, 20, 8)
    move = Move(axes, 2, b"\0\0", ((0,), (1,)))
    assert len(nests_of([Piece(move)])) == 2
    shape = gl.Shape("u8", (40,))
    runs = run_list((Piece(move),), shape, shape).array()
    assert runs.tolist() == [[0, 0, 2], [2, 6, 2], [20, 8, 2], [4, 12, 2], [22, 14, 2], [24, 20, 2]]


@pytest.mark.parametrize(
    "pair, count",
    [
        (("f32[390000,390010]", "{0,1}"), 390000 * 390010),
        (("u8[3000000,100,2,2]", "{2,3,1,0}"), 3 * 300_000_000 + 1),
        (("u8[1000000007,1009,40]", "{2,1,0:T(8,128)}"), 1000000007 * 1009),
        (("f32[1000000,1003,300]", "{2,1,0:T(8,128)}"), 1000000 * 1003 * 3),
    ],
)
def test_numbers_of_endless_lists_come_at_once(pair, count):
    listed = gl.plan(*pair).run_list()
    assert listed.count == count
    first = next(listed.parts(1000))
    assert first.shape == (1000, 3)
    check_order(first)
