"""`plan.runs`, `plan.run_list` and `plan.fills`: the bytes that they name are those that the plan moves."""

import itertools
import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.box_cases import random_buffer
from tests.support.effort import examples
from tests.support.run_cases import applied, check_order, cut_runs, filled, random_pair

CHUNKS = 25


def check(source, target, rng):
    """All laws of the lists of one plan; False where it has none."""
    plan = gl.plan(source, target)
    try:
        listed, fills = plan.run_list(), plan.fills()
    except gl.LayoutError as error:
        assert source.is_packed or target.is_packed, error
        return False
    runs = listed.array()
    check_order(runs)
    check_order(fills.runs)
    assert (listed.count, listed.nbytes) == (len(runs), runs[:, 2].sum())
    assert listed.shortest == (runs[:, 2].min() if len(runs) else 0)
    buffer = random_buffer(np.random.default_rng(rng.randrange(99)), source)
    out = np.zeros(target.nbytes, np.uint8)
    written = applied(runs, buffer.view(np.uint8), out)
    filled(fills, out, written)
    assert written.all()
    assert out.tobytes() == gl.relayout(buffer, source, target).tobytes()
    for most in (1, 3, len(runs) + 1):
        parts = [*plan.runs(max_runs=most)]
        assert [len(part) for part in parts[:-1]] == [most] * (len(parts) - 1)
        assert np.array_equal(np.concatenate([np.empty((0, 3), np.int64), *parts]), runs)
    check_cuts(plan, runs, rng)
    return True


def check_cuts(plan, runs, rng):
    align = rng.choice((1, 2, 3, 4, 8, 16))
    longest = align + rng.choice((0, 1, 2, 5, 64))
    cut = plan.run_list(longest=longest, align=align)
    wanted = cut_runs(runs, longest, align)
    assert np.array_equal(cut.array(), wanted)
    assert (cut.count, cut.shortest) == (len(wanted), wanted[:, 2].min() if len(wanted) else 0)
    assert np.array_equal(np.concatenate([wanted[:0], *cut.parts(7)]), wanted)
    if len(wanted):
        assert plan.run_list(longest=longest, align=align, least=cut.shortest).count == cut.count
        begin, into, count = min(wanted.tolist(), key=lambda run: run[2])
        with pytest.raises(gl.LayoutError, match=f"has {count} bytes? at source byte {begin}, target byte {into}: "):
            plan.runs(longest=longest, align=align, least=cut.shortest + 1)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_runs_and_fills_write_the_bytes_that_the_plan_writes(chunk):
    count = examples(5000 // CHUNKS)
    listed = [check(*random_pair(f"{chunk} {number}"), random.Random(number)) for number in range(count)]
    assert sum(listed) > count // 2


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (5,), (2, 3), (3, 0), (2, 2, 2), (1, 4, 2), (2, 1, 2, 3)])
def test_every_order_of_a_small_array(sizes):
    orders = [gl.Layout(order) for order in itertools.permutations(range(len(sizes)))]
    for source, target in itertools.product(orders, repeat=2):
        assert check(gl.Shape("u8", sizes, source), gl.Shape("u8", sizes, target), random.Random(1))


def test_one_run_where_nothing_moves():
    plan = gl.plan("f32[70,90]", "{1,0}")
    assert plan.runs().tolist() == [[0, 0, 25200]] and plan.fills().runs.shape == (0, 2)
