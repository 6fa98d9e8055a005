"""Axes with names in pieces: the chunks of an axis are boxes of its names, whatever they were before."""

import itertools
import math

import pytest

pytest.importorskip("dask.array")

from gpulayout.dask.transposing import are_boxes, boxes_of, chunks_of, pieces_of_axis  # noqa: E402


def compositions(total):
    """All ways to cut `total`."""
    for cuts in itertools.product((False, True), repeat=max(total - 1, 0)):
        ends = [0, *(place for place, is_cut in enumerate(cuts, 1) if is_cut), total]
        yield tuple(end - start for start, end in itertools.pairwise(ends))


def boxes(sizes):
    """All pieces of an axis that are boxes, by their definition: single indices, one name in pieces, the rest whole."""
    for at, size in enumerate(sizes):
        for pieces in compositions(size):
            yield (*((1,) * major for major in sizes[:at]), pieces, *((minor,) for minor in sizes[at + 1 :]))


@pytest.mark.parametrize("sizes", [(12,), (2, 6), (4, 3), (2, 3, 2), (1, 12), (12, 1), (3, 1, 4), (1, 1), ()])
def test_the_names_of_an_axis_in_any_chunks(sizes):
    group = "abc"[: len(sizes)]
    kept = {chunks_of(dict(zip(group, pieces)), [group])[0] for pieces in boxes(sizes)} or {(1,)}
    for chunks in compositions(math.prod(sizes)):
        pieces = dict(zip(group, pieces_of_axis(sizes, chunks)))
        assert tuple(map(sum, pieces.values())) == sizes and are_boxes(pieces, [group])
        (found,) = chunks_of(pieces, [group])
        assert found == chunks if chunks in kept else max(found) <= max(chunks)


@pytest.mark.parametrize("group", ["ab", "ba", "abc", "bca"])
@pytest.mark.parametrize("limit", [1, 2, 5, 7, 100])
def test_pieces_become_boxes_of_bounded_size(group, limit):
    sizes = {"a": 3, "b": 4, "c": 2}
    for found in itertools.product(*(compositions(sizes[name]) for name in "abc")):
        pieces = dict(zip("abc", found))
        groups = [group, *(name for name in "abc" if name not in group)]
        new = boxes_of(pieces, groups, limit)
        assert {name: sum(new[name]) for name in new} == sizes and are_boxes(new, groups)
        assert math.prod(map(max, new.values())) <= limit
        if are_boxes(pieces, groups) and math.prod(map(max, pieces.values())) <= limit:
            assert new == pieces


def test_empty_pieces_and_empty_axes():
    assert pieces_of_axis((3, 0), (0,)) == ((3,), (0,))
    assert pieces_of_axis((2, 3), (0, 3, 0, 3)) == ((1, 1), (3,))
    assert pieces_of_axis((6,), (0, 3, 0, 3)) == ((0, 3, 0, 3),)
    pieces = {"a": (1, 0, 1), "b": (40, 2)}
    assert boxes_of(pieces, ["ab"], 10) == {"a": (1, 0, 1), "b": (10, 10, 10, 10, 2)}
    assert chunks_of(pieces, ["ab"]) == ((40, 2, 0, 0, 40, 2),)
