"""How axes with names are cut into pieces, so that every chunk of an array can be transposed alone.

An axis that is made of several names, as "(h w)" is, has chunks that are boxes of them if its names are, major to
minor: any number in single indices, then one in pieces of any size, and the rest whole.  Rows of an image are chunks of
(h w) for h in pieces and w whole; pieces of its rows are, for h in single indices and w in pieces.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from gpulayout.dask.slabs import Chunks, Sizes

Group = Sequence[str]  # the names that one axis is made of, major to minor
Pieces = Mapping[str, Sizes]  # for every name, the sizes of its pieces


def pieces_of_axis(sizes: Sizes, chunks: Sizes) -> Chunks:
    """The pieces of the names of an axis in these chunks; in chunks that are no larger, if these are not boxes.

    >>> pieces_of_axis((4, 6), (12, 6, 6)), pieces_of_axis((2, 6), (2, 4, 2, 4))
    (((2, 1, 1), (6,)), ((1, 1), (2, 4)))
    >>> pieces_of_axis((4, 6), (13, 11)), pieces_of_axis((4, 6), (5, 5, 5, 5, 4))
    (((2, 2), (6,)), ((1, 1, 1, 1), (3, 3)))
    """
    if len(sizes) == 1:
        return (chunks,)
    if not math.prod(sizes):
        return tuple((size,) for size in sizes)
    found: list[Sizes] = []
    lengths, rest = tuple(length for length in chunks if length), math.prod(sizes)
    for size in sizes:
        rest //= size  # elements of one index
        part = len(lengths) // size
        if len(lengths) == 1:
            found.append((size,))
        elif not any(length % rest for length in lengths):
            found.append(tuple(length // rest for length in lengths))
            lengths = (rest,)
        elif lengths == lengths[:part] * size:
            found.append((1,) * size)
            lengths = lengths[:part]
        else:
            largest = max(lengths)
            found.append(cut((size,), max(largest // rest, 1)))
            lengths = cut((rest,), largest)
    return tuple(found)


def cut(pieces: Sizes, most: int) -> Sizes:
    """The pieces, cut further where one is larger than `most`, into parts of about the same size.

    >>> cut((3, 8), 3)
    (3, 3, 3, 2)
    """
    found: list[int] = []
    for piece in pieces:
        parts = max(-(-piece // most), 1)
        found += [piece // parts + (number < piece % parts) for number in range(parts)]
    return tuple(found)


def are_boxes(pieces: Pieces, groups: Iterable[Group]) -> bool:
    """Whether every axis can be cut so: of two names of an axis the major one is in single indices, or the other whole.

    >>> are_boxes({"h": (2, 2), "w": (6,)}, ["hw"]), are_boxes({"h": (2, 2), "w": (6,)}, ["wh"])
    (True, False)
    """
    return all(
        _is_single(pieces[major]) or len(pieces[minor]) == 1
        for group in groups
        for major, minor in itertools.combinations(group, 2)
    )


def boxes_of(pieces: Pieces, groups: Sequence[Group], limit: int) -> dict[str, Sizes]:
    """Pieces that are boxes: minor names are made whole, then major ones are cut until a chunk has `limit` elements.

    >>> boxes_of({"h": (8, 8), "w": (3, 3)}, ["hw"], 1000), boxes_of({"h": (8, 8), "w": (3, 3)}, ["hw"], 24)
    ({'h': (8, 8), 'w': (6,)}, {'h': (4, 4, 4, 4), 'w': (6,)})
    """
    found = dict(pieces)
    for group in groups:
        for name in _after_single(found, group)[1:]:
            found[name] = (sum(found[name]),)
    while (largest := math.prod(max(sizes) for sizes in found.values())) > limit:
        leading = (name for group in groups for name in _after_single(found, group)[:1])
        name = max(leading, key=lambda name: max(found[name]))
        found[name] = cut(found[name], max(max(found[name]) * limit // largest, 1))
    return found


def chunks_of(pieces: Pieces, groups: Iterable[Group]) -> Chunks:
    """The chunks of axes whose names are in these pieces.

    >>> chunks_of({"h": (1, 1), "w": (2, 4), "c": (3,)}, ["hw", "c", ""])
    ((2, 4, 2, 4), (3,), (1,))
    """
    return tuple(tuple(map(math.prod, itertools.product(*(pieces[name] for name in group)))) for group in groups)


def _after_single(pieces: Pieces, group: Group) -> list[str]:
    """The names of an axis from the first one on that is not in single indices."""
    return list(itertools.dropwhile(lambda name: _is_single(pieces[name]), group))


def _is_single(sizes: Sizes) -> bool:
    return max(sizes) <= 1  # an empty piece is a chunk without elements in every box
