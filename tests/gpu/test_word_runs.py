"""Boxes of words: they fit shared memory, keep the phases of the source there, and no word belongs to two runs."""

import itertools
import math

import numpy as np
import pytest

from gpulayout.gpu import cost_model
from gpulayout.gpu.kernel_numbers import RUN_DIGITS, WORD, WORD_CUT, WORD_SHARED_BYTES
from gpulayout.gpu.many_axes import word_runs
from gpulayout.gpu.many_axes.shared_box import boxes, cut_axes
from gpulayout.gpu.many_axes.warp_lanes import UNCUT
from gpulayout.gpu.many_axes.word_runs import best_words, table_sizes
from tests.support.kernel_cases import backwards, move_of, transposed

MOVES = {
    "3^18": ((3,) * 18, backwards(18)),
    "3^9": ((3,) * 9, backwards(9)),
    "5^8": ((5,) * 8, backwards(8)),
    "7^6": ((7,) * 6, backwards(6)),
    "images": ((1000, 5, 7, 7), (0, 2, 3, 1)),
    "50 channels": ((100, 50, 7, 7), (0, 2, 3, 1)),
}


def elements_of(move, width):
    return [
        axis._replace(source_stride=axis.source_stride // width, target_stride=axis.target_stride // width)
        for axis in move.axes
    ]


def places(walk, numbers):
    """Where the coordinates of some pieces are in shared memory."""
    found = np.zeros(1, int)
    for k in numbers:
        found = (found + np.arange(walk.pieces[k].size)[:, None] * walk.steps[k]).ravel()
    return found


CASES = list(itertools.product((1, 2), MOVES))


@pytest.mark.parametrize("width, name", CASES)
def test_a_box_of_words_fits_and_holds_every_element_once(width, name):
    axes = elements_of(transposed(width, *MOVES[name]), width)
    walk = best_words(axes, width, 32)
    box = walk.box
    assert math.prod(piece.size for piece in walk.pieces) == box.elements == math.prod(box.sizes)
    assert sum(table_sizes(walk, 8)) + walk.span * width <= WORD_SHARED_BYTES
    assert len(walk.pieces) <= RUN_DIGITS
    found = places(walk, range(len(walk.pieces)))
    assert len(set(found.tolist())) == box.elements and found.min() == 0 and found.max() + WORD - 1 < walk.span


@pytest.mark.parametrize("width, name", CASES)
def test_words_of_the_source_are_words_of_shared_memory_and_of_one_run(width, name):
    axes = elements_of(transposed(width, *MOVES[name]), width)
    walk = best_words(axes, width, 32)
    assert all((step - piece.strides[0]) % WORD == 0 for piece, step in zip(walk.pieces, walk.steps))
    assert places(walk, walk.runs[0]).tolist() == list(range(walk.length(0)))
    starts = np.sort(places(walk, walk.others(0)))
    for phase in range(WORD):  # of the box
        first = (starts + phase) // WORD
        assert (first[:-1] + walk.words(0) <= first[1:]).all()
        assert (starts + phase + walk.length(0) <= (first + walk.words(0)) * WORD).all()


@pytest.mark.parametrize("width, name", CASES)
def test_an_uneven_axis_is_along_the_run_or_numbers_the_runs_last(width, name):
    axes = elements_of(transposed(width, *MOVES[name]), width)
    walk = best_words(axes, width, 32)
    box = walk.box
    uneven = [k for k in cut_axes(axes, box) if axes[k].extent % box.sizes[k]]
    for side in (0, 1):
        numbers = [walk.pieces[k].axis for k in walk.others(side) if walk.pieces[k].uneven != UNCUT]
        assert len(numbers) <= 1 and numbers == [walk.pieces[k].axis for k in walk.others(side)[-1:]][: len(numbers)]
        along = [walk.pieces[k].axis for k in walk.runs[side] if walk.pieces[k].uneven != UNCUT]
        assert sorted(numbers + along) == sorted(uneven)


def test_padded_axes_and_larger_elements_get_no_box_of_words():
    axes = move_of(1, [(5, 4, 49, 1), (49, 49, 1, 5), (40, 40, 245, 245)]).axes
    assert best_words(axes, 1, 32) is None
    assert best_words(elements_of(transposed(4, *MOVES["3^9"]), 4), 4, 32) is None


def test_boxes_are_ranked_by_the_constants_of_the_cost_model():
    for name in ("TURN", "STEP", "SLOTS", "RUN"):
        assert getattr(word_runs, name) == getattr(cost_model, name)
    assert WORD_CUT == cost_model.CUT


def test_a_run_that_is_written_is_worth_more_than_one_that_is_read():
    """5^9 in boxes of one size: 25 runs of 125 elements are cut less often than 125 of 25."""
    axes = elements_of(transposed(1, (5,) * 9, backwards(9)), 1)
    box = next(box for box in boxes(axes, 1, 20_000) if sorted(box.sizes) == [1] * 3 + [5] * 6)
    by_runs = {(walk.length(0), walk.length(1)): walk.cost(1) for walk in word_runs.walks(axes, box)}
    assert by_runs[25, 125] < by_runs[125, 25] and by_runs[125, 125] == min(by_runs.values())
