"""Lists of runs: of boxes within buffers, of nests of loops, their numbers before they are listed, and their memory."""

import itertools
import random
import tracemalloc

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
from tests.support.run_cases import applied, check_order, cut_runs, expected_runs, random_pair

CHUNKS = 25


def check_box(source, target, at, rng):
    """The runs of a box are the bytes that unpack and pack move with at=; False if it has no list of runs."""
    box = box_of(at, source)
    made = request(Placement.part_of(source, box), Placement.part_of(target, box))
    try:
        listed = run_list(made.pieces, source, target)
    except gl.LayoutError as error:
        assert source.is_packed or target.is_packed or "tiles cut it" in str(error)
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
        pieces = (Piece(Move(axes, length, b"\0" * length, ((),) * len(axes)), 5, 7),)
        listed = run_list(pieces, shape, shape)
        wanted = one_by_one(given)
        assert listed.array().tolist() == wanted and listed.count == len(wanted) == given.copies - pairs_within(given)
        assert listed.shortest == min(run[2] for run in wanted)
        longest = rng.randrange(1, 3 * length + 1)
        cut = run_list(pieces, shape, shape, longest=longest)
        assert cut.array().tolist() == cut_runs(np.array(wanted), longest).tolist() and cut.count == len(cut.array())


def test_copies_one_behind_the_other_that_go_on_are_one_run():
    """Two loops of 2,000 bytes, of which the second begins where the first ends."""
    moves = [Move((Axis(2000, 2000, step, 1),), 1, b"\0", ((0,),)) for step in (3, 2)]
    shape = gl.Shape("u8", (9999,))
    for begin, goes_on in ((5998, 1), (5999, 0)):
        listed = run_list((Piece(moves[0]), Piece(moves[1], begin, 2000)), shape, shape)
        runs = listed.array()
        check_order(runs)
        assert listed.count == len(runs) == 4000 - goes_on and runs[1999].tolist() == [5997, 1999, 1 + goes_on]


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


LISTS = {
    "one loop": ("f32[300,310]", "{0,1}"),
    "pairs": ("u8[61,159,2,2]", "{2,3,1,0}"),
    "tiles with remainders": ("u8[203,509]", "{0,1:T(8,128)}"),
    "tiles of 7 and 4": ("u8[201,201]{1,0:T(7,3)}", "{1,0:T(4,5)}"),
    "rows with a pitch": ("u8[60000,16]", "{1,0:PD(60000,24)}"),
}


LONG = [
    *LISTS.values(),
    ("u8[5,203,1009]", "{2,1,0:T(8,128)}"),
    ("u8[40,53,109]", "{0,2,1:T(8,128)}"),
    ("s16[7,300,130]{2,1,0:T(8,128)}", "{2,1,0:T(16,128)}"),
    ("s16[7,300,130]{2,1,0:T(8,128)}", "{1,2,0:T(16,128)(2,1)}"),
    ("u8[3,1500,2,2,4]", "{4,2,3,1,0:PD(3,1501,2,2,5)}"),
    ("u8[3,1500,2,2]", "{2,3,1,0}"),
    ("u8[1500,3,2,2]{3,2,1,0:PD(1500,3,2,3)}", "{2,3,0,1}"),
    ("f32[3,101,97]{2,1,0:T(3,7)}", "{2,1,0:T(4,8)}"),
]


@pytest.mark.parametrize("pair", LONG, ids=" to ".join)
def test_long_lists_are_those_of_an_index_buffer(pair):
    plan = gl.plan(*pair)
    wanted = expected_runs(plan)
    listed = plan.run_list()
    assert np.array_equal(listed.array(), wanted)
    assert (listed.count, listed.nbytes, listed.shortest) == (len(wanted), wanted[:, 2].sum(), wanted[:, 2].min())
    parts = [*listed.parts(9999)]
    assert np.array_equal(np.concatenate(parts), wanted) and {len(part) for part in parts[:-1]} <= {9999}
    cut = plan.run_list(longest=6, align=4)
    assert np.array_equal(cut.array(), np.concatenate([*cut.parts(7000)])) and cut.count == len(cut.array())
    assert np.array_equal(cut.array()[:500], cut_runs(wanted[:500], 6, 4)[:500])


@pytest.mark.parametrize("name", LISTS)
def test_a_list_takes_24_bytes_a_run_and_a_megabyte(name):
    plan = gl.plan(*LISTS[name])
    count = plan.run_list().count
    assert count > 15000 and plan.pieces
    for listed in (
        plan.runs,
        plan.runs,
        lambda: plan.fills().runs,
        lambda: [len(part) for part in plan.runs(max_runs=99)],
    ):  # the first for what is made once
        tracemalloc.start()
        try:
            found = listed()
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 24 * len(found) + (1 << 20), (name, most, len(found))


def test_pages_are_listed_in_bounded_memory_too():
    rng = np.random.default_rng(3)
    plan = gl.plan("bf16[8192,8,8]{2,1,0:T(16,1,8)}", "bf16[8192,8,8]")
    tables = rng.permutation(600)[:512], rng.permutation(300)[:128]
    listed = plan.run_list(pages=tables)
    assert listed.count == 65536  # which also makes what is made once
    tracemalloc.start()
    try:
        count = sum(len(part) for part in listed.parts(1000))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == listed.count and most < 1 << 20


@pytest.mark.parametrize(
    "keywords, words",
    [
        ({"longest": 0}, "longest 0 is less than 1 byte"),
        ({"longest": 1.5}, "longest 1.5 is not an integer: it is a float"),
        ({"longest": "4 kilo"}, "longest '4 kilo' is not a number of bytes such as 128M or 1.5G"),
        ({"align": 4}, "align 4 needs longest=: it says where runs are cut that are longer"),
        ({"align": "4\n"}, r"align '4\\n' needs longest=: it says where runs are cut that are longer"),
        ({"longest": 3, "align": 4}, "longest 3 is less than align 4: a run between two cuts has at least 4 bytes"),
        ({"longest": 3, "align": -1}, "align -1 is less than 1 byte"),
        ({"least": True}, "least True is not an integer: it is a bool"),
        ({"max_runs": 0}, "max_runs 0 is less than 1: each array has at least one run"),
        ({"max_runs": "5"}, "max_runs '5' is not an integer: it is a str"),
    ],
)
def test_keywords_that_mean_nothing(keywords, words):
    with pytest.raises(gl.LayoutError, match=f"^{words}$"):
        gl.plan("f32[2,3]", "{0,1}").runs(**keywords)


@pytest.mark.parametrize("max_runs", [2**40, 2**63, 10**40])
def test_parts_of_more_runs_than_there_are_take_no_more_memory(max_runs):
    (part,) = gl.plan("f32[2,3]", "{0,1}").runs(max_runs=max_runs)
    assert part.tolist() == gl.plan("f32[2,3]", "{0,1}").runs().tolist()


FOUR_BITS = "no list of runs: elements of 4 bits"


@pytest.mark.parametrize(
    "pair, options, words",
    [
        (("f32[2,3]", "{0,1}"), {"dtype": "bf16"}, "no list of runs: cast changes elements on the way; list the runs"),
        (("f32[0,3]", "{0,1}"), {"dtype": "bf16"}, "no list of runs: cast changes elements on the way; list the runs"),
        (("s4[2,3]{1,0:E(4)}", "{0,1:E(4)}"), {}, f"{FOUR_BITS} begin or end inside bytes; call the plan instead"),
        (("s4[2,4]{1,0:E(4)}", "{1,0}"), {}, f"{FOUR_BITS} become elements of 8 bits; call the plan instead"),
        (("s4[2,4]{1,0:E(4)}", "{1,0:E(4,big)}"), {}, "runs: the bits of each byte change their order; call the plan"),
    ],
)
@pytest.mark.parametrize("call", ["runs", "run_list", "fills"])
def test_moves_that_are_no_copies(call, pair, options, words):
    with pytest.raises(gl.LayoutError, match=words):
        getattr(gl.plan(*pair, **options), call)()


def test_packed_elements_of_whole_bytes():
    plan = gl.plan("s4[2,4]{1,0:E(4)}", "{1,0:PD(3,8)PV(3)E(4)}")
    assert plan.runs().tolist() == [[0, 0, 2], [2, 4, 2]]
    assert plan.fills().runs.tolist() == [[2, 2], [6, 6]] and plan.fills().value == b"\x33"
    with pytest.raises(gl.LayoutError, match="no list of fills: padding of 4 bits ends inside the last byte; call the"):
        gl.plan("s4[0]{0:E(4)}", "{0:PD(3)PV(3)E(4)}").fills()


def test_fills_are_cut_between_padding_elements():
    plan = gl.plan("f32[8]", "{0:PD(13)PV(1)}")
    assert plan.fills().runs.tolist() == [[32, 20]] and plan.fills().value == np.float32(1).tobytes()
    assert plan.fills(longest=15).runs.tolist() == [[32, 12], [44, 8]]
    assert plan.fills(longest=13, align=3).runs.tolist() == [[32, 4], [36, 12], [48, 4]]
    with pytest.raises(
        gl.LayoutError, match="^longest 11 would cut padding elements of 4 bytes: it must be at least 12$"
    ):
        plan.fills(longest=11, align=3)
    with pytest.raises(
        gl.LayoutError, match="^least 21 is more than the shortest run of f32.* 20 bytes at source byte 32"
    ):
        plan.fills(least=21)


HIGHEST = 2**63 - 1


def test_buffers_of_2_to_the_63_bytes():
    whole = gl.plan(f"u8[{HIGHEST}]", "{0}")
    assert whole.runs().tolist() == [[0, 0, HIGHEST]] == whole.runs(longest=2**70, align=2**66).tolist()
    assert whole.runs(longest=2**62, align=2**61).tolist() == [[0, 0, 2**62], [2**62, 2**62, 2**62 - 1]]
    each = whole.run_list(longest=1)
    assert each.count == each.nbytes == HIGHEST and next(each.parts(2)).tolist() == [[0, 0, 1], [1, 1, 1]]
    rows = gl.plan(f"u8[2,{2**61 - 8}]", f"{{1,0:PD(4,{2**61 - 1})}}")
    assert rows.fills().runs.tolist() == [[2**61 - 8, 7], [2**62 - 9, 2**62 + 5]]
    with pytest.raises(
        MemoryError, match="^a list of 9223372036854775807 runs takes .* bytes: list them in parts, with"
    ):
        each.array()
