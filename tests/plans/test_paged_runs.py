"""`plan.runs(pages=)`: page tables as an MMU has them, against a model in NumPy that gathers and scatters pages."""

import itertools
import random
import re
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
import gpulayout.moves.pieces
from gpulayout.moves import listing, paged_turns
from gpulayout.moves.copies import CopyNest, Loop, NestedCopies
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.run_cut import UNCUT
from gpulayout.moves.run_list import RunList
from gpulayout.moves.run_stream import PageTable, RunStream
from gpulayout.moves.run_turns import FoundRuns
from tests.support.effort import examples
from tests.support.run_cases import applied, check_order, cut_runs, filled, random_pair

CHUNKS = 25


def random_table(rng, shape, *, once):
    """A table for the buffer, or None, and the bytes of its pool."""
    counts = [count for count in range(1, 40) if shape.nbytes % count == 0]
    if rng.random() < 0.2 or not shape.nbytes:
        return None, shape.nbytes
    count = rng.choice(counts)
    pool = count + rng.choice((0, 1, 5))
    table = rng.sample(range(pool), count) if once else [rng.randrange(pool) for _ in range(count)]
    if rng.random() < 0.3:
        table.sort()
    table = np.array(table, rng.choice(("i8", "u8", "i4", "u2", ">i4")))
    return table.reshape(rng.choice(((-1,), (1, -1), (-1, 1)))), pool * (shape.nbytes // count)


def places(shape, table):
    """Where each byte of a buffer lies in its pool."""
    virtual = np.arange(shape.nbytes)
    if table is None:
        return virtual
    size = shape.nbytes // table.size
    return table.reshape(-1).astype(np.int64)[virtual // size] * size + virtual % size


def check(source, target, rng):
    plan = gl.plan(source, target)
    tables, pools = zip(random_table(rng, source, once=False), random_table(rng, target, once=True))
    try:
        runs = plan.runs(pages=tables)
    except gl.LayoutError as error:
        assert source.is_packed or target.is_packed, error
        return False
    check_order(runs)
    numbers = np.random.default_rng(rng.randrange(99))
    pool, out = numbers.integers(0, 256, pools[0], np.uint8), np.zeros(pools[1], np.uint8)
    if not source.is_packed and source.element_type.bits < 8:
        pool &= (1 << source.element_type.bits) - 1
    buffer = pool[places(source, tables[0])].view(source.buffer_dtype)
    wanted = np.zeros(pools[1], np.uint8)
    wanted[places(target, tables[1])] = gl.relayout(buffer, source, target).view(np.uint8)
    written = applied(runs, pool, out)
    try:
        fills = plan.fills(pages=tables)
        check_order(fills.runs)
        filled(fills, out, written)
        assert written.sum() == target.nbytes and out.tobytes() == wanted.tobytes()
    except gl.LayoutError as error:
        assert "cut padding elements" in str(error)
        assert written.sum() == plan.run_list().nbytes and (out[written] == wanted[written]).all()
    listed = plan.run_list(pages=tables, longest=9, align=4)
    wanted = cut_runs(runs, 9, 4)
    assert np.array_equal(listed.array(), wanted) and listed.count == len(wanted)
    assert np.array_equal(np.concatenate([wanted[:0], *listed.parts(5)]), wanted)
    return True


@pytest.mark.one_in(5)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_runs_of_pages_are_those_of_the_pools(chunk):
    count = examples(2000 // CHUNKS)
    listed = [check(*random_pair(f"pages {chunk} {number}"), random.Random(number)) for number in range(count)]
    assert sum(listed) > count // 2


@pytest.fixture
def made_of_turns(monkeypatch):
    """The lists that are made of turns.  Each is also found window by window, and has to be the same."""
    made, turns = [], listing.paged_turns

    def compared(nests, cut, *tables):
        found = turns(nests, cut, *tables)
        if found is not None:
            slow = RunList(FoundRuns(RunStream(NestedCopies(nests), *tables), cut))
            fast = RunList(found)
            made.append(fast)
            assert np.array_equal(fast.array(), slow.array())
            assert np.array_equal(fast.filled((1, 2)), slow.array()[:, 1:])
            facts = [(each.count, each.nbytes, each.shortest, each.shortest_at) for each in (fast, slow)]
            assert facts[0] == facts[1] and np.array_equal(np.concatenate([*fast.parts(7)]), slow.array())
        return found

    monkeypatch.setattr(listing, "paged_turns", compared)
    return made


@pytest.mark.parametrize("least", [1, 2, 5])
def test_runs_of_pages_that_are_alike(monkeypatch, made_of_turns, least):
    """The same where few runs are turns enough."""
    monkeypatch.setattr(paged_turns, "LEAST", least)
    for number in range(examples(500)):
        source, target = random_pair(f"alike {number}")
        check(source, target, random.Random(number))
    assert len(made_of_turns) > examples(500) // 20


@pytest.mark.parametrize("tokens", [512, 500, 16])
@pytest.mark.parametrize("target", ["{2,1,0}", "{2,1,0:T(64,1,8)}", "{2,0,1}"])
def test_runs_that_go_on_from_page_to_page(made_of_turns, tokens, target):
    """Pages with heads first become tokens first: the last head of a page goes on in the next page's first token."""
    rng, full = random.Random(tokens), -(-tokens // 64)
    source, target = (f"u16[{tokens},3,8]{layout}" for layout in ("{2,1,0:T(16,1,8)}", target))
    counts = [-(-tokens // 16), full if "T(" in target else 1]
    for number in range(12):
        tables = []
        for count in counts:
            table = list(range(2, count + 2))
            for _ in range(number // 3):  # a few pages lie elsewhere
                one, other = rng.randrange(count), rng.randrange(count)
                table[one], table[other] = table[other], table[one]
            tables.append(table)
        assert gl.plan(source, target).run_list(pages=tables).nbytes == tokens * 48
    assert target != "{2,1,0}" or len(made_of_turns) == 12


def test_turns_that_reach_into_another_page_are_none(monkeypatch):
    """16 bytes, every second one of the source from byte 8 on, in pages of 32: the last four are in the next page."""
    monkeypatch.setattr(paged_turns, "LEAST", 2)
    table = PageTable(np.array([4, 1]), 32)
    for begin, is_turn in ((0, True), (1, True), (2, False), (8, False)):
        nest = CopyNest(begin, 0, 1, (Loop(16, 2, 1),))
        assert (paged_turns.paged_turns([nest], UNCUT, table, None) is not None) == is_turn


def test_runs_of_look_ups(monkeypatch, plans_anew):
    """Plans may have two loops at most here; else only arrays of many tiles are looked up.  Pages may cut elements."""
    monkeypatch.setattr(gpulayout.moves.pieces, "LEAST_PIECES", 2)
    monkeypatch.setattr(gpulayout.moves.pieces, "MOST_PIECES", 2)
    looked_up = 0
    for number in range(examples(400)):
        source, target = random_pair(f"look-ups {number}")
        is_looked_up = isinstance(gl.plan(source, target).move, LookupMove)
        looked_up += check(source, target, random.Random(number)) and is_looked_up
    assert looked_up > 10


def test_long_lists_of_fills_in_pages():
    """Rows of 17 bytes and a pad of 7, in pages of 15 rows, at random places of their pool."""
    plan, table = gl.plan("u8[60000,17]", "{1,0:PD(60000,24)}"), np.random.default_rng(4).permutation(5000)[:4000]
    begins = np.sort(table)[:, None] * 360 + np.arange(15) * 24
    for pages in ((None, table), (None, table.astype(np.int16))):
        assert plan.fills(pages=pages).runs.tolist() == [[begin + 17, 7] for begin in begins.ravel().tolist()]
    assert np.array_equal(plan.runs(pages=(None, table))[:, 1], begins.ravel())
    assert plan.fills(pages=(None, table), longest=4).runs[:3].tolist() == [
        [begins[0, 0] + 17, 4],
        [begins[0, 0] + 21, 3],
        [begins[0, 1] + 17, 4],
    ]


@pytest.mark.parametrize("tokens", [4, 16, 64])
@pytest.mark.parametrize("orders", ["NN", "HN", "NH", "HH"])
def test_blocks_of_a_cache_become_larger_blocks_of_another_order(tokens, orders):
    """2048 tokens in pages of 4, 16 or 64 to pages of 16; within a page the heads are major (H), or the tokens (N)."""
    rng, sizes = np.random.default_rng(tokens), (tokens, 16)
    tables = [rng.permutation(700)[: 2048 // size] for size in sizes]
    cache = rng.integers(0, 2**16, (2048, 3, 8), np.uint16)  # token, head, number in the head
    pools = []
    for table, size, order in zip(tables, sizes, orders):
        pages = cache.reshape(-1, size, 3, 8)
        pages = pages.transpose(0, 2, 1, 3) if order == "H" else pages
        pools.append(np.zeros((700, *pages.shape[1:]), np.uint16))
        pools[-1][table] = pages
    sides = [
        "u16[2048,3,8]{2,1,0%s}" % (f":T({size},1,8)" if order == "H" else "") for size, order in zip(sizes, orders)
    ]
    out = np.zeros(pools[1].nbytes, np.uint8)
    applied(gl.plan(*sides).runs(pages=tables), pools[0].reshape(-1).view(np.uint8), out)
    assert out.tobytes() == pools[1].tobytes()


HOLDS_ITSELF: list = []
HOLDS_ITSELF.append(HOLDS_ITSELF)
TABLE = "pages: the table of the {} u8\\[4,8\\]\\{{1,0\\}}"


@pytest.mark.parametrize(
    "pages, words",
    [
        (7, "pages 7 is not a pair: it must be"),
        ([1, 2, 3], "is not a pair: it must be"),
        (([0, 1, 2], None), TABLE.format("source") + " has 3 entries, which do not divide 32 bytes"),
        ((None, np.zeros((0, 2), int)), TABLE.format("target") + " is empty: it needs an entry for each page of 32 b"),
        ((None, [[5, 2], [2, 5]]), TABLE.format("target") + " has page 2 twice, as entries 1 and 2: each page is writ"),
        ((None, [5, 5, 2, 2]), " has page 5 twice, as entries 0 and 1: each page is written once"),
        (([0, -1], None), TABLE.format("source") + ": entry 1 is -1, which is negative: leave out pages that are not"),
        (
            (None, [2**59, 2**59 - 1]),
            TABLE.format("target") + f": entry 0 is {2**59}, which is past 2\\^63 bytes, at 16",
        ),
        (
            (None, np.array([2**63, 0], np.uint64)),
            f"entry 0 is {2**63}, which is past 2\\^63 bytes, at 16 bytes a page",
        ),
        (([1, 2**70], None), f"entry 1 is {2**70}, which is past 2\\^63 bytes"),
        (([1.0, 2.0], None), TABLE.format("source") + ": entry 0 is 1.0, a float: it must be an integer"),
        (([0, True], None), ": entry 1 is True, a bool: it must be an integer"),
        (([[0], [1, 2]], None), "entry 0 is \\[0\\], a list: it must be an integer"),
        ((HOLDS_ITSELF, None), ": entry 0 is .*, a list: it must be an integer"),
        ((np.zeros(2), None), "is of dtype float64: it must be integers, one for each page"),
        ((np.zeros(2, bool), None), "is of dtype bool: it must be integers, one for each page"),
        ((np.array([1, 2], object), None), "is of dtype object: it must be integers, one for each page"),
        ((np.ma.array([1, 2], mask=[0, 1]), None), "is a masked array: it must be integers, one for each page"),
        (("01", None), "is of dtype <U2: it must be integers, one for each page"),
        ((None, {0: 1}), "is of dtype object: it must be integers, one for each page"),
    ],
)
@pytest.mark.parametrize("call", ["runs", "run_list", "fills"])
def test_tables_that_are_none(call, pages, words):
    with pytest.raises(gl.LayoutError, match=words):
        getattr(gl.plan("u8[4,8]", "{1,0}"), call)(pages=pages)


def test_the_last_page_below_the_limit():
    last = 2**59 - 2
    runs = gl.plan("u8[4,8]", "{1,0}").runs(pages=([last, last], [0, last]))
    assert runs.tolist() == [[16 * last, 0, 16], [16 * last, 16 * last, 16]]


def test_the_first_page_whose_end_is_past_the_limit():
    plan = gl.plan("u8[4,8]", "{1,0}")
    last = 2**59 - 2
    assert plan.runs(pages=([last, 0], None))[0].tolist() == [16 * last, 0, 16]
    for pages in (([last + 1, 0], None), (None, [last + 1, 0])):
        with pytest.raises(
            gl.LayoutError, match=f"entry 0 is {last + 1}, which is past 2\\^63 bytes, at 16 bytes a page"
        ):
            plan.runs(pages=pages)


def test_parts_are_full_where_pages_cut_one_run_into_many():
    table = [5, 3, 1, 7, 0, 2, 6, 4]
    for pages in ((table, None), (None, table)):
        parts = [*gl.plan("u8[64]", "{0}").runs(max_runs=6, pages=pages)]
        assert [len(part) for part in parts] == [6, 2]
        assert np.concatenate(parts).tolist() == gl.plan("u8[64]", "{0}").runs(pages=pages).tolist()


def test_parts_of_one_run_in_many_pages_take_little_memory():
    plan, count = gl.plan(f"u8[{1 << 20}]", "{0}"), 1 << 18
    table = np.arange(count)[::-1].copy()
    tracemalloc.start()
    try:
        listed = sum(len(part) for part in plan.runs(max_runs=1000, pages=(table, None)))
        most = tracemalloc.get_traced_memory()[1] - 8 * count  # its own copy of the table
    finally:
        tracemalloc.stop()
    assert listed == count and most < 3 << 20


def test_pages_that_are_neighbours_on_both_sides_are_one_run():
    plan = gl.plan("u8[8,4]", "{1,0}")
    assert plan.runs(pages=([4, 5, 1, 2], [7, 8, 0, 1])).tolist() == [[4 * 2, 0, 16], [4 * 8, 56, 16]]
    assert plan.runs(pages=([4, 5], None)).tolist() == [[64, 0, 32]] == plan.runs(pages=([[4], [5]], [0])).tolist()


def test_an_array_without_bytes_has_no_pages():
    for pages in (([], []), ([1, 2], [3, 3 - 1]), (None, [9])):
        assert gl.plan("f32[0,3]", "{0,1}").runs(pages=pages).shape == (0, 3)


def test_pages_that_cut_padding_elements():
    plan = gl.plan("s16[3]", "{0:PD(9)PV(5)}")
    assert plan.fills(pages=(None, [1, 0, 2])).runs.tolist() == [[0, 6], [12, 6]]
    assert len(plan.runs(pages=(None, [1, 0]))) == 1
    with pytest.raises(gl.LayoutError, match=r"^pages of 9 bytes cut padding elements of 2 bytes in s16\[3\]"):
        plan.fills(pages=(None, [1, 0]))


def test_page_bytes_are_those_of_the_tables():
    plan = gl.plan("u8[4,8]", "{1,0}")
    for source, target in itertools.product((1, 2, 4, 8), repeat=2):
        tables = np.arange(source), np.arange(target)
        np.testing.assert_array_equal(
            plan.runs(pages=tables, page_bytes=(32 // source, f"{32 // target}B")), plan.runs(pages=tables)
        )
        for wrong in ((source, 32 // target), (32 // source, target)):
            if wrong != (32 // source, 32 // target):
                with pytest.raises(gl.LayoutError, match=r"has \d entr(y|ies) for 32 bytes, which are no pages of"):
                    plan.runs(pages=tables, page_bytes=wrong)
    assert len(plan.fills(pages=(None, [3, 1]), page_bytes=(None, 16)).runs) == 0


@pytest.mark.parametrize(
    ("pages", "page_bytes", "words"),
    [
        (([7, 3], None), (8, None), "has 2 entries for 32 bytes, which are no pages of 8 bytes: it needs 4 entries"),
        (([7, 3], None), (5, None), "which are no pages of 5 bytes: its layout has no such pages"),
        (([7, 3], None), (0, None), "page_bytes 0 is less than 1 byte"),
        (([7, 3], None), 16, "page_bytes 16 is not a pair: it must be (source_bytes, target_bytes), None for a side"),
        (None, (16, 16), "page_bytes (16, 16) needs pages=: it says how large these are"),
    ],
)
def test_page_bytes_that_are_none(pages, page_bytes, words):
    for call in (gl.plan("u8[4,8]", "{1,0}").runs, gl.plan("u8[4,8]", "{1,0}").run_list):
        with pytest.raises(gl.LayoutError, match=re.escape(words)):
            call(pages=pages, page_bytes=page_bytes)
