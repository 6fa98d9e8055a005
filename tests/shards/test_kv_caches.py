"""Caches of keys and values: the orders of docs/kv-caches.md, and sequences that go from pool to pool."""

import itertools
import re

import numpy as np
import pytest

import gpulayout as gl
from tests.support.kv_caches import ORDERS, TEXT, Pool, cut_heads, joined_runs, page_names

PAGE = page_names()


def new_pool(order, page, sizes, dtype, rng):
    """A pool with more blocks than a sequence of these sizes takes, and its page table."""
    needed = -(-sizes[1] // page)
    blocks = needed + int(rng.integers(1, 4))
    pool = Pool(order, page, blocks, sizes, dtype, rng.permutation(blocks)[:needed])
    return pool, PAGE.page_table(order, pool.ids, blocks, sizes[0], sizes[2])


@pytest.mark.parametrize("order", ORDERS)
def test_a_sequence_lies_in_a_pool_as_layout_and_table_say(order):
    rng = np.random.default_rng(0)
    for sizes in itertools.product((1, 2, 3), (1, 4, 5, 8), (1, 2, 3), (1, 2, 4)):
        for page in (1, 2, 4):
            pool, table = new_pool(order, page, sizes, np.int32, rng)
            values = rng.permutation(np.prod(sizes)).astype(np.int32).reshape(sizes)
            packed = gl.pack(values, PAGE.in_pages(order, page, sizes[2], sizes[3]))
            pool.pages()[table.reshape(-1)] = packed.reshape(-1, pool.page_size)
            np.testing.assert_array_equal(pool.read(), values)
            assert pool.untouched()


@pytest.mark.parametrize("order", ORDERS)
def test_full_pages_are_those_of_the_catalogue(order):
    rng = np.random.default_rng(1)
    for layers, blocks, page, heads, content in [(2, 3, 4, 2, 8), (1, 1, 2, 3, 4), (3, 2, 16, 1, 6)]:
        values = rng.integers(0, 99, (layers, blocks, page, heads, content)).astype(np.float16)
        ours = gl.pack(values.reshape(layers, -1, heads, content), PAGE.in_pages(order, page, heads, content))
        theirs = gl.pack(values.transpose(0, 1, 3, 2, 4), f"vllm:{order}(dtype=f16)")
        np.testing.assert_array_equal(ours, theirs)


# What the page says of other engines, and the order in which NumPy puts the axes l b n h two d.
OTHERS = {
    "l s h (two=2 d) -> two l s h d": (4, 0, 1, 2, 3, 5),
    "l s h (two=2 d) -> two s l h d": (4, 1, 2, 0, 3, 5),
    "l (b n=64) h (two=2 d) -> two b l n h d": (4, 1, 0, 2, 3, 5),
    "l (b n=64) h (two=2 d) -> two b h n l d": (4, 1, 3, 2, 0, 5),
    "l (b n=64) h (two=2 d) -> l b two n h d": (0, 1, 4, 2, 3, 5),
    "l (b n=64) h (two=2 d) -> l b two h n d": (0, 1, 4, 3, 2, 5),
}


@pytest.mark.parametrize("pattern", OTHERS)
def test_patterns_of_other_engines(pattern):
    assert f" | `{pattern}` |" in TEXT
    values = np.random.default_rng(2).integers(0, 99, (3, 192, 2, 8)).astype(np.float16)
    axes = values.reshape(3, 3, 64, 2, 2, 4)
    np.testing.assert_array_equal(gl.pack(values, pattern), axes.transpose(OTHERS[pattern]).reshape(-1))


def sharding(order, page, sizes, dtype, ranks, before=0, after=0):
    """The heads of a sequence over the ranks of an engine."""
    layout = PAGE.in_pages(order, page, sizes[2] // ranks, sizes[3])
    text = f"{dtype}[{','.join(map(str, sizes))}]"
    return gl.Sharding(text, cut_heads(sizes[2], ranks, before, after), layout)


CASES = [((2, 8), (4, 2), 19), ((4, 2), (1, 4), 8), ((3, 3), (2, 2), 7)]  # pages, ranks, tokens


class Handover:
    """A sequence in the pools of an engine, and pools of another engine with room for it."""

    def __init__(self, orders, pages, ranks, tokens):
        rng = np.random.default_rng(3)
        sizes = 2, tokens, 4, 3
        values = rng.integers(0, 2**15, sizes).astype(np.int16)
        self.parts = [np.split(values, count, axis=2) for count in ranks]
        self.sides = [
            [new_pool(order, page, part.shape, np.int16, rng) for part in parts]
            for order, page, parts in zip(orders, pages, self.parts)
        ]
        for (pool, _), part in zip(self.sides[0], self.parts[0]):
            pool.write(part)
        self.exchange = gl.exchange(
            *[sharding(order, page, sizes, "s16", count) for order, page, count in zip(orders, pages, ranks)]
        )

    def check(self):
        for (pool, _), part in zip(self.sides[1], self.parts[1]):
            np.testing.assert_array_equal(pool.read(), part)
            assert pool.untouched()

    def expected_runs(self, source, target):
        """The runs from rank to rank, by NumPy."""
        before, after = (4 // len(side) for side in self.sides)
        first, last = max(source * before, target * after), min((source + 1) * before, (target + 1) * after)
        if first >= last:
            return np.empty((0, 3), np.int64)
        pools = self.sides[0][source][0], self.sides[1][target][0]
        firsts = source * before, target * after
        return joined_runs(*[pool.bytes_of(slice(first - at, last - at)) for pool, at in zip(pools, firsts)], 2)


@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, ORDERS)], ids="-".join)
def test_a_sequence_goes_from_pool_to_pool(orders):
    """Every pair of orders, with other sizes of pages and numbers of ranks, against pools of NumPy."""
    for case in CASES:
        handover = Handover(orders, *case)
        buffers = [pool.pages()[table.reshape(-1)].reshape(-1) for pool, table in handover.sides[0]]
        for (pool, table), arrived in zip(handover.sides[1], handover.exchange.move(buffers)):
            pool.pages()[table.reshape(-1)] = arrived.reshape(-1, pool.page_size)
        handover.check()


@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, ORDERS)], ids="-".join)
def test_runs_go_from_pool_to_pool(orders):
    """The same by addresses: the list is that of NumPy, row by row, and its bytes are all that is written."""
    for case in CASES:
        handover = Handover(orders, *case)
        (senders, receivers), move = handover.sides, handover.exchange
        for (source, (pool, table)), (target, (new, new_table)) in itertools.product(
            enumerate(senders), enumerate(receivers)
        ):
            sizes = pool.page_size * 2, new.page_size * 2
            runs = move.runs(source, target, pages=(table, new_table), page_bytes=sizes)
            np.testing.assert_array_equal(runs, handover.expected_runs(source, target))
            before, after = (side.memory.reshape(-1).view(np.uint8) for side in (pool, new))
            for here, there, size in runs:
                after[there : there + size] = before[here : here + size]
        handover.check()


@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, ORDERS)], ids="-".join)
def test_a_prefix_that_is_there_stays(orders):
    """Chunks of a sequence, which begin and end inside pages, against pools of NumPy."""
    rng = np.random.default_rng(7)
    for first, last in ((12, 21), (0, 5), (5, 6), (8, 16)):
        sizes, held = (2, last, 2, 3), (slice(None), slice(0, first))
        values = rng.integers(0, 2**15, sizes).astype(np.int16)
        sides = [new_pool(order, page, sizes, np.int16, rng) for order, page in zip(orders, (4, 8))]
        layouts = [PAGE.in_pages(order, page, 2, 3) for order, page in zip(orders, (4, 8))]
        (pool, table), (new, new_table) = sides
        pool.write(values)
        new.write(np.concatenate([values[held], np.full_like(values[:, first:], -1)], axis=1))
        shape = f"s16[{','.join(map(str, sizes))}]"
        move = gl.exchange(gl.Sharding(shape, [..., held], layouts), gl.Sharding(shape, [None, ...], layouts))
        runs = move.runs(0, 1, pages=(table, new_table))
        assert runs[:, 2].sum() == values[:, first:].nbytes
        before, after = (side.memory.reshape(-1).view(np.uint8) for side in (pool, new))
        for here, there, size in runs:
            after[there : there + size] = before[here : here + size]
        np.testing.assert_array_equal(new.read(), values)
        assert new.untouched()


@pytest.mark.parametrize("order", ORDERS)
def test_runs_into_tensors_of_each_layer(order):
    """Tensors of keys and of values, each a rank of the target, whose pages are tokens."""
    rng = np.random.default_rng(6)
    sizes = layers, tokens, heads, content = 3, 7, 2, 4
    values = rng.integers(0, 2**15, sizes).astype(np.int16)
    pool, table = new_pool(order, 4, sizes, np.int16, rng)
    pool.write(values)
    boxes = [(slice(n, n + 1), ..., slice(part, part + 2)) for n in range(layers) for part in (0, 2)]
    move = gl.exchange(sharding(order, 4, sizes, "s16", 1), gl.Sharding(f"s16[{layers},{tokens},{heads},4]", boxes))
    slots = rng.permutation(12)[:tokens]
    before = pool.memory.reshape(-1).view(np.uint8)
    for rank, box in enumerate(boxes):
        tensor = np.full((12, heads, 2), -1, np.int16)
        after = tensor.reshape(-1).view(np.uint8)
        for here, there, size in move.runs(0, rank, pages=(table, slots)):
            after[there : there + size] = before[here : here + size]
        np.testing.assert_array_equal(tensor[slots], values[box[0], ..., box[-1]][0])
        assert (np.delete(tensor, slots, axis=0) == -1).all()


def test_tables_of_other_pages_are_refused_where_nothing_goes_too():
    boxes = cut_heads(4, 2, 0, 0)
    layout = PAGE.in_pages("LBHNC", 4, 2, 8)
    move = gl.exchange(
        gl.Sharding("f16[2,16,4,8]", boxes, layout), gl.Sharding("f16[2,16,4,8]", [None, *boxes], layout)
    )
    table = np.arange(8)
    assert len(move.runs(0, 1, pages=(table, table), page_bytes=(128, 128))) == 1
    for target in (1, 2):  # nothing goes from rank 0 to rank 2
        with pytest.raises(gl.LayoutError, match="has 4 entries for 1024 bytes, which are no pages of 128 bytes"):
            move.runs(0, target, pages=(table[:4], table), page_bytes=(128, 128))
    with pytest.raises(gl.LayoutError, match="a table of the target, where the rank holds nothing: write None"):
        move.runs(0, 0, pages=(table, table))
    with pytest.raises(gl.LayoutError, match="a table of the source, where the rank holds nothing: write None"):
        move.runs(2, 1, pages=(table, table))
    assert move.runs(0, 0, pages=(table, None)).shape == (0, 3)


def test_ranks_that_hold_the_same_head_share_the_work():
    """One head of MLA on four ranks that prefill and on four that decode."""
    layout = PAGE.in_pages("LBHNC", 4, 1, 8)
    held = gl.Sharding("f16[2,9,1,8]", [...] * 4 + [None] * 4, layout)
    wanted = gl.Sharding("f16[2,9,1,8]", [None] * 4 + [...] * 4, PAGE.in_pages("BLNHC", 8, 1, 8))
    messages = gl.exchange(held, wanted).messages
    assert [(message.source, message.target) for message in messages] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_the_numbers_of_runs_on_the_page():
    row = r"\| `(\w+)`, (\d+) tokens \| `(\w+)`, (\d+) tokens \| (\d+) \| (\d+) bytes"
    rows = re.findall(row, TEXT)
    assert len(rows) == 6
    for before, page, after, new_page, count, most in rows:
        runs = runs_of_the_page(before, int(page), after, int(new_page), 1000)
        assert (len(runs), np.median(runs[:, 2])) == (int(count), int(most))
    whole = runs_of_the_page("BHLNC", 64, "BHLNC", 64, 1024)
    assert whole[:, 2].tolist() == [2 << 20] * 16


def runs_of_the_page(before, page, after, new_page, tokens):
    """From rank 2 of 4 to the second of 2, a model of 32 layers with 8 heads of 128, whose pages lie anywhere."""
    rng = np.random.default_rng(4)
    sizes = 32, tokens, 8, 256
    tables = []
    for order, length, heads in ((before, page, 2), (after, new_page, 4)):
        needed = -(-tokens // length)
        tables.append(PAGE.page_table(order, 2 * rng.permutation(needed), 2 * needed, 32, heads))
    move = gl.exchange(sharding(before, page, sizes, "f16", 4), sharding(after, new_page, sizes, "f16", 2))
    return move.runs(2, 1, pages=tables)
