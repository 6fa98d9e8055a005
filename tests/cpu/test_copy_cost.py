"""The model of a copy counts lines as caches do, and the planner takes the way that it finds fastest."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulayout.cpu import cache_blocks
from gpulayout.cpu.cache_blocks import best_way, scratch_strides
from gpulayout.cpu.caches import LINE_BYTES, Cache, Caches, machine_caches
from gpulayout.cpu.copy_cost import copy_cost, fetched, share_of, touched
from gpulayout.moves.move import Axis
from tests.support.machine import machine
from tests.support.processors import PROCESSORS

SMALL = Caches(Cache(4, 2), Cache(16, 4), Cache(64, 4))


def axes_of(extents, order, itemsize, gap=0):
    """The axes of a relayout, minor first in the target: the dimensions of a dense source in another order."""
    strides, step = [], itemsize
    for extent in reversed(extents):
        strides.insert(0, step)
        step = step * extent + gap
    axes, step = [], itemsize
    for dim in reversed(order):
        axes.append(Axis(extents[dim], extents[dim], strides[dim], step))
        step *= extents[dim]
    return axes


def lines_of(loops, side):
    """The lines that loops touch in one array, by walking them."""
    places = itertools.product(*(range(loop[0]) for loop in loops))
    return {sum(k * loop[side] for k, loop in zip(place, loops)) // LINE_BYTES for place in places}


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from((4, 64, 128, 192, 320, 1024, 4096)), st.integers(1, 9)), max_size=3),
)
def test_touched_lines_are_those_of_a_walk(steps):
    steps = sorted(dict(steps).items())
    lines, runs, run, _ = touched(steps, 4)
    real = len(lines_of([(count, step, 0) for step, count in steps], 1))
    # Runs that overlap, as 9 steps of 64 bytes do with some of 128, count once in the walk.
    assert real <= lines + 0.5 * runs and (
        lines <= 2 * real or any(a * n > b for (a, n), (b, _) in zip(steps, steps[1:]))
    )
    assert run >= 4 and runs >= 1


@pytest.mark.parametrize(
    ("step", "sets"),
    [(64, 64), (128, 32), (192, 64), (1024, 4), (4096, 1), (16384, 1), (4160, 64), (8191 * 8, 64)],
)
def test_lines_share_the_sets_that_their_distance_leaves(step, sets):
    cache = Cache(64, 8)
    lines = {k * step // LINE_BYTES for k in range(640)}
    assert len({line % 64 for line in lines}) == sets  # what the model should know
    counted = touched([(step, 640)], 4)
    assert share_of(counted, cache) == pytest.approx(counted[0] / (8 * sets), rel=0.01)


class Simulated:
    """A set-associative cache that evicts what was used least recently."""

    def __init__(self, cache):
        self.cache, self.held, self.fetched = cache, [[] for _ in range(cache.sets)], 0

    def access(self, line):
        held = self.held[line % self.cache.sets]
        if line in held:
            held.remove(line)
        else:
            self.fetched += 1
            del held[: len(held) - self.cache.ways + 1]
        held.append(line)


@pytest.mark.parametrize(
    ("extents", "order", "block"),
    [
        ((64, 64), (1, 0), None),  # rows 256 bytes apart: in 1 of 4 sets, in 4 of 16, in 16 of 64
        ((64, 80), (1, 0), None),
        ((64, 80), (1, 0), (4, 16)),
        ((64, 80), (1, 0), (16, 16)),
        ((6, 20, 24), (0, 2, 1), None),
        ((8, 16, 32), (1, 2, 0), (8, 8, 4)),
    ],
)
def test_fetched_lines_are_those_of_simulated_caches(extents, order, block):
    """Within a factor of two: 16 lines in 16 ways fit, if no line of the target comes between."""
    axes = axes_of(extents, order, 4)
    block = block or tuple(axis.bound for axis in axes)
    loops = [(size, axis.source_stride, axis.target_stride) for axis, size in zip(axes, block)]
    loops += [
        (axis.bound // size, axis.source_stride * size, axis.target_stride * size) for axis, size in zip(axes, block)
    ]
    loops = [loop for loop in loops if loop[0] > 1]
    moved = 2 * 4 * math.prod(extents)
    assert moved > SMALL.third.nbytes  # else a part of the arrays is there from before
    caches = [Simulated(cache) for cache in SMALL]
    for place in itertools.product(*(range(loop[0]) for loop in reversed(loops))):
        source, target = (
            sum(k * loop[side] for k, loop in zip(reversed(place), loops)) // LINE_BYTES for side in (1, 2)
        )
        for cache in caches:
            cache.access(source)
            cache.access(target + 10_007)  # the target lies elsewhere
    for found, cache in zip(fetched(4, loops, moved, SMALL), caches):
        assert 0.5 * cache.fetched <= sum(found) <= 2 * cache.fetched


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_way_is_faster_than_the_chosen_one(data):
    """Bounds save the planner from looking at every way in full; they never change its choice."""
    rank = data.draw(st.integers(2, 4))
    extents = data.draw(st.lists(st.sampled_from((2, 3, 7, 16, 60, 256, 1000)), min_size=rank, max_size=rank))
    order = data.draw(st.permutations(range(rank)))
    itemsize = data.draw(st.sampled_from((1, 2, 4, 8, 16)))
    axes = axes_of(extents, order, itemsize)
    with machine.like(PROCESSORS[data.draw(st.sampled_from(sorted(PROCESSORS)))]):
        check_choice(itemsize, axes, machine_caches())


def check_choice(itemsize, axes, caches):
    ways = list(cache_blocks.ways_to_copy(itemsize, axes, 2))
    costs = [copy_cost(*way, caches) for way in ways]
    for way, cost in zip(ways, costs):
        for part in (0.2, 0.7, 1.1):
            limited = copy_cost(*way, caches, part * cost)
            assert limited == cost or part * cost <= limited <= cost * (1 + 1e-9)
    way, time = best_way([(itemsize, axes)], 2)
    assert time == min(cost * each.risk for cost, each in zip(costs, ways))
    assert way in ways


@settings(max_examples=100, deadline=None)
@given(
    extents=st.lists(st.integers(2, 300), min_size=2, max_size=3),
    itemsize=st.sampled_from((1, 4, 16)),
    through=st.booleans(),
    data=st.data(),
)
def test_larger_caches_never_make_a_copy_slower(extents, itemsize, through, data):
    axes = axes_of(extents, data.draw(st.permutations(range(len(extents)))), itemsize)
    block = [min(axis.bound, data.draw(st.integers(1, 64))) for axis in axes]
    order = sorted(range(len(axes)), key=lambda k: axes[k].source_stride)
    scratch = scratch_strides(itemsize, axes, order, block) if through else ()
    small = Caches(Cache(64, 4), Cache(512, 8), Cache(4096, 8))
    large = Caches(*(Cache(cache.sets, 2 * cache.ways) for cache in small))
    costs = [copy_cost(itemsize, axes, block, scratch, caches) for caches in (small, large)]
    assert 0 < costs[1] <= costs[0] * 1.01  # a run that ends in the middle of a line counts half a line
