"""Boxes of the many-axes tile: they fit shared memory, both walks visit every element once, without bank conflicts."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest

from gpulayout.gpu.kernel_numbers import BOX_ENTRY_BYTES, BOX_FACTORS, BOX_SHARED_BYTES, BOX_STEPS, LANES
from gpulayout.gpu.many_axes import plan as many_axes_plan
from gpulayout.gpu.many_axes.neighbours import neighbours
from gpulayout.gpu.many_axes.plan import best_box, boxes_of_a_block
from gpulayout.gpu.many_axes.shared_box import MAX_BOX_AXES, BoxLoops, SharedBox, boxes, cut_axes, runs
from gpulayout.gpu.many_axes.warp_lanes import MAX_CHECK_BITS, UNCUT, box_side, check_bits, factor_count
from gpulayout.gpu.tile import flexible_tile, shared_elements
from gpulayout.moves.move import Axis
from tests.support.kernel_cases import Case, backwards, many_axes, move_of, transposed
from tests.support.kernel_runs import written
from tests.support.random_moves import drawn


def elements_of(move, width):
    """The move's axes in elements."""
    return [
        axis._replace(source_stride=axis.source_stride // width, target_stride=axis.target_stride // width)
        for axis in move.axes
    ]


def moves():
    for width in (1, 2, 4, 8, 16):
        for dimensions, order in (
            ((2,) * 24, backwards(24)),
            ((3,) * 15, backwards(15)),
            ((8,) * 6, (5, 0, 4, 1, 3, 2)),
            ((8,) * 4, backwards(4)),
            ((15,) * 6, (3, 5, 4, 1, 2, 0)),
            ((100_000, 3, 3), (0, 2, 1)),
            ((1000, 5, 7, 7), (0, 2, 3, 1)),
            ((7, 5, 6, 3, 9, 11), (4, 0, 5, 2, 3, 1)),
            ((5, 300, 4), (2, 1, 0)),
        ):
            axes = elements_of(transposed(width, dimensions, order), width)
            yield pytest.param(axes, width, id=f"{width} bytes, {dimensions[:6]} {order[:6]}")


ALL_MOVES = list(moves())


def numbers(digits):
    """(offset in memory, place in shared memory) for every number that these digits represent."""
    offsets, places = np.zeros(1, int), np.zeros(1, int)
    for digit in digits:
        coordinates = np.arange(digit.size)[:, None]
        offsets = (offsets + coordinates * digit.stride).ravel()
        places = (places + coordinates * digit.step).ravel()
    return offsets, places


def met(walk):
    """{(offset in memory, place in shared memory)} of the elements that a walk visits, each once, as in the kernel."""
    lanes, rows = numbers(walk.lanes), numbers(walk.rows)
    assert len(lanes[0]) == walk.lane_count and len(rows[0]) == walk.row_count
    found = []
    for first, last, count in ((0, walk.full, walk.lane_count), (walk.full, walk.row_count, walk.last_lanes)):
        offsets, places = (row[first:last, None] + lane[:count] for row, lane in zip(rows, lanes))
        for number, apart in enumerate(walk.apart):
            found += zip((offsets.ravel() + number).tolist(), (places.ravel() + apart).tolist())
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("axes, width", ALL_MOVES)
def test_a_box_fits_the_limits_of_the_kernel(axes, width):
    walks = best_box(axes, width, (0, 0))
    box = walks.box
    taken = [k for k, size in enumerate(box.sizes) if size > 1]
    assert sorted(box.read) == sorted(box.write) == taken and len(taken) <= MAX_BOX_AXES
    assert sum(box.sizes[k] < axes[k].extent for k in taken) <= 2
    assert all(size <= axis.extent for size, axis in zip(box.sizes, axes))
    assert (box.source_run, box.target_run) == runs(axes, box.sizes)
    assert min(box.source_run, box.target_run) * width >= 45 and box.elements >= 256
    assert walks.entries * BOX_ENTRY_BYTES + walks.span * width <= BOX_SHARED_BYTES
    assert factor_count(walks.read) + factor_count(walks.write) <= BOX_FACTORS
    for walk in (walks.read, walks.write):
        assert check_bits(walk) <= MAX_CHECK_BITS
        assert 0 < walk.last_lanes <= walk.lane_count <= LANES and 0 < walk.full <= walk.row_count


@pytest.mark.parametrize("axes, width", ALL_MOVES)
def test_both_walks_visit_every_element_once_and_at_the_same_place(axes, width):
    walks = best_box(axes, width, (0, 0))
    box = walks.box
    coordinates = list(itertools.product(*map(range, box.sizes)))
    places = [sum(map(math.prod, zip(each, walks.steps))) for each in coordinates]
    assert len(set(places)) == len(places) and 0 == min(places) <= max(places) < walks.span
    for walk, strides in (
        (walks.read, [axis.source_stride for axis in axes]),
        (walks.write, [axis.target_stride for axis in axes]),
    ):
        assert met(walk) == {
            (sum(map(math.prod, zip(each, strides))), place) for each, place in zip(coordinates, places)
        }


@pytest.mark.parametrize("axes, width", ALL_MOVES)
def test_lanes_of_no_row_share_a_bank(axes, width):
    """Checks every row, not only the first, and every element of a word.

    Transposed squares of 3 x 3 are an exception for 8 and 16 bytes, where 16 and 8 lanes are served together: parts of
    9 and of 7 lanes that fill all banks on one side share a bank on the other, with every step that was tried.  So is
    a whole array of 12,000 bytes that is one box: it leaves no room for spaces, and smaller boxes cost more.
    """
    walks = best_box(axes, width, (0, 0))
    box = walks.box
    word, served = max(4 // width, 1), 128 // max(width, 4)
    for walk, pieces in ((walks.read, (0,)), (walks.write, walks.write.apart)):
        lanes, rows = numbers(walk.lanes)[1], numbers(walk.rows)[1]
        degrees = []
        for row, apart, first in itertools.product(rows, pieces, range(0, len(lanes), served)):
            banks = np.unique((row + apart + lanes[first : first + served]) // word) % served
            degrees.append(np.bincount(banks).max())
        squares = width >= 8 and [axis.extent for axis in axes] == [3, 3, 100_000]
        full = box.elements * width == 12_000 and all(size == axis.extent for size, axis in zip(box.sizes, axes))
        assert np.mean(degrees) <= (1.5 if squares else 2 if full else 1.10), (walk, np.mean(degrees))


def test_moves_that_are_too_small_or_have_no_contiguous_axis_get_no_box():
    assert not list(boxes(elements_of(transposed(4, (5, 7, 7), (2, 1, 0)), 4), 4))
    assert not list(boxes(move_of(1, [(100, 100, 2, 1), (100, 100, 200, 100)]).axes, 1))
    assert not list(boxes(move_of(1, [(100, 100, 100, 2), (100, 100, 1, 200)]).axes, 1))


def test_small_elements_are_moved_in_words_where_runs_are_whole_words():
    for width, dimensions, phases, pieces in (
        (1, (2,) * 22, (0, 0), (4, 4)),
        (2, (8,) * 6, (0, 0), (2, 2)),
        (1, (3,) * 18, (0, 0), (1, 1)),
        (1, (2,) * 22, (2, 0), (1, 4)),
        (1, (2,) * 22, (0, 2), (4, 1)),
        (4, (2,) * 22, (0, 0), (1, 1)),
    ):
        axes = elements_of(transposed(width, dimensions, backwards(len(dimensions))), width)
        walks = best_box(axes, width, phases)
        assert (len(walks.read.apart), len(walks.write.apart)) == pieces, (width, dimensions, phases)


def walks_of(case):
    """(walk, places of the tile along the two axes that may be cut) of both sides; nothing if the case has no box."""
    axes, width = case.plan.axes, case.plan.element_bytes
    found = best_box(axes, width, (case.source_phase, case.target_phase))
    if found:
        tile = [found.box.sizes[k] for k in cut_axes(axes, found.box)]
        yield from ((walk, tile) for walk in (found.read, found.write))


def summed(part, number):
    """The place of a lane or row, as the kernel adds it up."""
    high, low = divmod(number, part.low)
    return tuple(a + b for a, b in zip(part.factors[low], part.factors[part.low + high]))


def digits_of(digits, number):
    for digit in digits:
        number, coordinate = divmod(number, digit.size)
        yield digit, coordinate


BOUNDED = [
    *many_axes(1),
    *many_axes(4),
    *(drawn("many axes", width, number) for width in (1, 2, 4, 16) for number in range(30)),
]


def test_the_sum_of_two_factors_is_the_place_of_a_lane_or_row():
    for walk, tile in itertools.chain.from_iterable(map(walks_of, BOUNDED)):
        _, *parts = box_side(walk, tile, 4)
        for part, digits in zip(parts, (walk.lanes, walk.rows)):
            offsets, places = numbers(digits)
            found = [summed(part, number)[:2] for number in range(len(offsets))]
            assert found == list(zip(offsets.tolist(), (4 * places).tolist())), (walk, part)


def test_a_lane_of_a_row_is_inside_if_it_is_below_all_bounds():
    """For boxes that end anywhere along the two axes that may be cut, every lane of every 7th row."""
    seen = set()
    for walk, tile in itertools.chain.from_iterable(map(walks_of, BOUNDED)):
        side, *parts = box_side(walk, tile, 4)
        for left in ((tile[0], tile[1]), (max(tile[0] // 2, 1), tile[1]), (1, max(tile[1] - 4, 1))):
            limits = side.limits + sum((min(a, b) - 1) * scale for a, b, scale in zip(left, tile, side.scales))
            for row, lane in itertools.product(range(0, walk.row_count, 7), range(walk.lane_count)):
                own = limits - summed(parts[0], lane)[2]
                inside = (
                    own & side.guards == side.guards and own - summed(parts[1], row)[2] & side.guards == side.guards
                )
                places = {}
                for digit, coordinate in (*digits_of(walk.lanes, lane), *digits_of(walk.rows, row)):
                    if digit.bound is not None:
                        end = digit.bound if digit.cut == UNCUT else min(left[digit.cut], tile[digit.cut])
                        place, _ = places.get(digit.axis, (0, 0))
                        places[digit.axis] = place + coordinate * digit.unit, end
                wanted = all(place < end for place, end in places.values())
                assert inside == wanted, (walk, left, row, lane)
                seen.add((inside, len(places)))
    assert {(True, 0), (True, 1), (False, 1), (True, 2), (False, 2)} <= seen


def test_a_block_moves_several_boxes_only_if_many_blocks_remain():
    """What is left counts the blocks."""
    axes = [Axis(2, 2, 64, 3), Axis(6, 5, 7, 9), Axis(3, 3, -100, 50), Axis(640, 640, 1000, 600)]
    left, steps = boxes_of_a_block(axes, 2 * 6 * 3 * 640)
    assert steps == [(160_000 * i, 96_000 * i) for i in range(4)]
    assert left == [*axes[:3], Axis(160, 160, 1000, 600)]
    with mock.patch.object(many_axes_plan, "FAR_BOXES", 0):  # the first coordinates of the first axes
        left, steps = boxes_of_a_block(axes, 2 * 6 * 3 * 640)
        assert steps == [(0, 0), (64, 3), (1000, 600), (1064, 603)]
        assert left == [axes[1], axes[2], Axis(320, 320, 2000, 1200)]
    assert boxes_of_a_block(axes[:3], 3 * 640) == (axes[:2], [(0, 0), (-100, 50), (-200, 100)])
    assert boxes_of_a_block(axes[2:], 2 * 640 - 1) == (axes[2:], [(0, 0)])


@pytest.mark.parametrize("far", (0, 1))
@pytest.mark.parametrize("total", (640, 2000, 10**6))
def test_the_boxes_of_all_blocks_are_all_boxes(far, total):
    for extents in itertools.product((1, 2, 3, 4, 6), repeat=3):
        axes = [Axis(extent, extent, 10**k, -(7**k)) for k, extent in enumerate(extents, 1)]
        with mock.patch.object(many_axes_plan, "FAR_BOXES", far):
            left, steps = boxes_of_a_block(axes, total)
        assert len(steps) <= BOX_STEPS

        def offsets(loops, first):
            places = itertools.product(*(range(axis.extent) for axis in loops))
            return sorted(
                (
                    a + sum(i * axis.source_stride for i, axis in zip(place, loops)),
                    b + sum(i * axis.target_stride for i, axis in zip(place, loops)),
                )
                for place in places
                for a, b in first
            )

        assert offsets(left, steps) == offsets(axes, [(0, 0)])


def loops_of(cut, outer):
    """Loops over boxes: two axes with the size of their pieces, and others."""
    axes, tile = zip(*cut)
    return BoxLoops(
        SharedBox((), (), (), 1, 1, 1),
        list(axes),
        tuple(-(-axis.extent // size) for axis, size in cut),
        tile,
        outer,
    )


def test_neighbours_follow_each_other_in_the_target():
    """Pieces of a cut axis may be neighbours too, unless one of them is not whole."""
    far, near = (Axis(640, 640, 7, 5000), 1), (Axis(12, 12, 100, 4), 3)
    left, steps = neighbours(loops_of([far, near], [Axis(2, 2, 9, 900)]), 4)
    assert steps == [(0, 0), (300, 12), (600, 24), (900, 36)]
    assert (left.counts, left.tile, left.outer, left.boxes) == ((640, 1), (1, 1), [Axis(2, 2, 9, 900)], 1280)
    for rest in (Axis(11, 11, 100, 4), Axis(12, 11, 100, 4)):
        left, steps = neighbours(loops_of([far, (rest, 3)], [Axis(2, 2, 9, 900)]), 4)
        assert steps == [(0, 0), (9, 900), (7, 5000), (16, 5900)] and left.cut[1] == rest and left.counts == (320, 4)
    assert neighbours(loops_of([far, near], []), 1) == (loops_of([far, near], []), [(0, 0)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("width", (1, 2, 4, 8, 16))
def test_blocks_of_neighbours_write_the_reference_bytes(width):
    with mock.patch.object(many_axes_plan, "BOX_ALONG_TARGET", 1):
        for case in many_axes(width):
            if case.blocks == 1:
                assert written(case) == case.expected(), case.name


@pytest.mark.parametrize("width, boxes_of_each", ((1, 2), (4, 4), (16, 4)))
def test_blocks_of_a_large_move_have_several_boxes(width, boxes_of_each):
    """2^24 elements reversed, in boxes of 8 KB."""
    plan = Case("boxes", transposed(width, (2,) * 24, backwards(24))).plan
    assert math.prod(plan.grid) * boxes_of_each * math.prod(plan.tile) == 2**24


@pytest.mark.parametrize("width", (1, 2))
def test_a_tile_of_two_axes_that_ends_inside_a_word_leaves_a_place_in_shared_memory(width):
    """Words write past the last element, into that place."""
    words, cut_off = 4 // width, 0
    for short, steps, piece in itertools.product(
        range(1, 140), ((1, 1), (1, words), (words, 1), (words, words)), (1, words)
    ):
        for extents in ((short, 10**6), (10**6, short), *((short, other) for other in range(60, 130))):
            found = flexible_tile(width, *extents, steps, piece)
            if found and found[0] * found[1] % words:
                assert found[1] * found[2] < shared_elements(width), extents
                cut_off += 1
    assert cut_off > 100


def test_words_are_whole_or_single_elements():
    """Also when runs in the target are half a word long."""
    axes = [(2, 2, 64, 1), (8, 8, 8, 4), (8, 8, 1, 32), (2, 2, 128, 256)]
    for width, wanted in ((1, 1), (2, 4)):
        plan = Case("half words", move_of(width, axes)).plan
        assert plan.file == "tile_nd.cu" and dict(plan.macros)["GPL_WRITE_BYTES"] == wanted
