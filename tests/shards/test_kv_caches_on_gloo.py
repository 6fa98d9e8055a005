"""A sequence from 4 ranks that prefill to 2 that decode, in 6 processes: other pages, orders and elements."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.gloo_ranks import Ranks
from tests.support.kv_caches import ORDERS, Pool, cut_heads, page_names

pytest.importorskip("torch")
SIZES = 2, 500, 8, 8  # layers, tokens, heads, content
PAGES = 16, 64


def values_of_all():
    return np.random.default_rng(5).integers(-3, 4, SIZES).astype(np.float16)


def exchange_of(orders, kept, options):
    page = page_names()
    text = f"[{','.join(map(str, SIZES))}]"
    prefill, decode = (
        page.in_pages(order, tokens, 8 // count, 8) for order, tokens, count in zip(orders, PAGES, (4, 2))
    )
    source = gl.Sharding("f16" + text, cut_heads(8, 4, after=2), prefill)
    return gl.exchange(source, gl.Sharding(kept + text, cut_heads(8, 2, before=4), decode), **options)


def pool_of(rank, orders, dtype):
    """The pool of a rank, and its page table."""
    decodes = rank >= 4
    order, page = orders[decodes], PAGES[decodes]
    sizes = (*SIZES[:2], 4 if decodes else 2, SIZES[3])
    needed = -(-SIZES[1] // page)
    ids = np.random.default_rng(rank).permutation(needed + 9)[:needed]
    table = page_names().page_table(order, ids, needed + 9, sizes[0], sizes[2])
    return Pool(order, page, needed + 9, sizes, dtype, ids), table


def hand_over_on_rank(cases):
    """What each rank does; of a rank that decodes, for each case whether its pool holds its heads and nothing else."""
    import torch
    import torch.distributed as dist

    rank, found = dist.get_rank(), []
    for orders, kept, options in cases:
        pool, table = pool_of(rank, orders, np.uint8 if rank >= 4 and kept == "f8e4m3fn" else np.float16)
        pages, places = torch.from_numpy(pool.pages()), torch.from_numpy(table)
        exchange = exchange_of(orders, kept, options)
        if rank < 4:
            pool.write(values_of_all()[:, :, 2 * rank : 2 * rank + 2])
            page_names().hand_over(exchange, pages, places, None, None)
        else:
            page_names().hand_over(exchange, None, None, pages, places)
            found.append((bool((pool.read() == expected_values(rank, kept, options)).all()), pool.untouched()))
    return found


def expected_values(rank, kept, options):
    """The heads of a rank that decodes; e4m3 as its bytes."""
    values = values_of_all()
    if kept == "f8e4m3fn":
        values = (values.astype(np.float32) * options["scale"]).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return values[:, :, 4 * (rank - 4) : 4 * (rank - 3)]


@pytest.fixture(scope="module")
def ranks():
    with Ranks() as started:
        yield started


def test_from_four_ranks_to_two(ranks):
    pairs = [("LBHNC", "LBNHC"), *list(itertools.product(ORDERS, ORDERS))[9::14]]
    scales = 2.0 ** np.arange(-8, 8, dtype=np.float32).reshape(2, 1, 8, 1)  # of layers and heads
    cases = [
        (pair, "f8e4m3fn", {"dtype": "f8e4m3fn", "scale": scale}) for pair, scale in zip(pairs, (0.125, scales, 0.125))
    ]
    cases.append((pairs[0], "f16", {}))
    found = ranks.values(6, hand_over_on_rank, cases)
    assert found == [[]] * 4 + [[(True, True)] * len(cases)] * 2
