"""Where the elements of a shape lie, in row-major logical order, and whether two shapes agree on it.

Take the logical elements in row-major order and list the place of each: shapes with the same list describe the same
bytes.  `element_loops` writes the list as nested loops, (extent, stride) pairs, major first, as few as possible: an
untiled shape has one loop per dimension, tiles add loops, and neighbours that continue each other are joined.  Equal
lists have equal pairs:

    f32[2,3,4]{2,1,0}      ((24, 1),)
    f32[2,3,4]{0,1,2}      ((2, 1), (3, 2), (4, 6))
    f32[6,4]{1,0}          ((24, 1),)
    f32[4,6]{1,0:T(2,3)}   ((2, 12), (2, 3), (2, 6), (3, 1))      two tiles of 2 rows, two of 3 columns

Some tilings are not nested loops: rows of 6 in tiles of 4, where the last tile has fewer elements; a sub-tile that
leaves gaps inside its tile; joined dimensions with a cut where neither size divides the other.  Their places are
compared one by one, but only as many as needed.

Places repeat: after `period` elements along a dimension every place has moved by the same distance, whatever the other
coordinates are.  With T(4)(3), element i + 4 lies 6 places after element i.  So two shapes whose periods divide L agree
along a dimension if they agree from 0 to L: the difference of their places repeats every L elements and has not grown
after the first L.  T(4)(3) against T(4)(3)(1) takes 5 comparisons, for any number of elements.

Shapes with different dimensions, such as f32[3,4] and f32[6,2], are walked in row-major order, in runs of dimensions
that hold the same elements: here all 12 are one run.  Without `*` in a tile the place is a sum with one term per
dimension, so runs are compared one after the other with all other coordinates 0.  With `*` all combinations of
coordinates are compared.

If that would take more than 2^24 comparisons, about a second, only shapes of equal dimensions, order, widths and
tiles count as the same.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.layout.digits import StrideTable
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table

CHUNK = 1 << 14  # elements compared together
MOST = 1 << 24  # elements to compare; beyond it none are compared
Loops = tuple[tuple[int, int], ...]
Parts = list[tuple[int, int]]  # (step, stride) of digits


class DimensionRun(NamedTuple):
    """Dimensions of two shapes that hold the same elements, and how many of these to compare."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    extent: int


def same_buffer(source: Shape, target: Shape) -> bool:
    """True when a buffer of `source` is, byte for byte, a buffer of `target`, with elements in row-major order.

    False when the element counts, the buffer sizes, the bit orders or the pad values differ.  Two shapes without
    elements are the same bytes if their buffers have the same size.  Element types may differ.

    >>> from gpulayout import parse_shape
    >>> same_buffer(parse_shape("f32[16,128]{1,0:T(8,128)}"), parse_shape("s32[2048]"))
    True
    """
    if source.element_count != target.element_count or source.buffer_size != target.buffer_size:
        return False
    storage, wanted = (
        (shape.bits_per_element, shape.layout.bit_order, shape.layout.split_configs) for shape in (source, target)
    )
    if storage != wanted:
        return False
    has_padding = source.buffer_size != source.element_count
    if has_padding and source.padding_bytes != target.padding_bytes:
        return False
    if source.is_zero_element_array:
        return True
    loops = element_loops(source), element_loops(target)
    return loops[0] == loops[1] if None not in loops else same_places(source, target)


def element_loops(shape: Shape) -> Loops | None:
    """The loops of a shape that has elements, as few as possible; None when its tiles are not nested loops.

    >>> from gpulayout import parse_shape
    >>> for tiled in ("f32[4,6]{1,0:T(2,3)}", "f32[6]{0:T(4)(2)}", "f32[6]{0:T(4)(3)}"):
    ...     print(element_loops(parse_shape(tiled)))
    ((2, 12), (2, 3), (2, 6), (3, 1))
    ((6, 1),)
    None
    """
    if not shape.is_tiled:
        return join(zip(shape.dimensions, shape.strides))
    table = stride_table(shape)
    loops: list[tuple[int, int]] = []
    for dim, size in enumerate(shape.dimensions):
        parts = _parts(table, dim)
        if parts is None:
            return None
        for step, stride in parts:
            if size % step == 0:
                loops.append((size // step, stride))
                size = step
            elif any(stride * below != lower * step for below, lower in parts if below < step):
                return None  # the last round of this loop is shorter than the others, and leaves a gap
    return join(loops)


def _parts(table: StrideTable, value: int) -> Parts | None:
    """Steps and strides of the digits of a value, most major first; None when a number joins it with another value.

    A digit of a digit is a digit of the value: c % 3 // 2 steps by 2.
    """
    parts: Parts = []
    for share in table.shares[value]:
        if share.into == len(table.sizes):
            parts.append((share.step, share.stride))
            continue
        inner = _parts(table, share.into) if len(table.numbers[share.into - len(table.dimensions)]) == 1 else None
        if inner is None:
            return None
        parts += [(share.step * step, stride) for step, stride in inner]
    return parts


def join(pairs: Iterable[tuple[int, int]]) -> Loops:
    """The fewest (extent, stride) pairs, major first: extents of 1 are dropped, neighbours that chain are joined."""
    joined: list[tuple[int, int]] = []
    for extent, stride in pairs:
        if extent == 1:
            continue
        if joined and joined[-1][1] == extent * stride:
            joined[-1] = (joined[-1][0] * extent, stride)
        else:
            joined.append((extent, stride))
    return tuple(joined)


def same_places(source: Shape, target: Shape) -> bool:
    """True when both put the k-th element in row-major logical order at the same place, for every k.

    Both must have the same number of elements.

    >>> from gpulayout import parse_shape
    >>> tiled = parse_shape("f32[9]{0:T(4)(3)}")
    >>> same_places(tiled, parse_shape("f32[9]{0:T(4)(3)(1)}")), same_places(tiled, parse_shape("f32[9]{0:T(4)}"))
    (True, False)
    """
    law, wanted = (
        (shape.dimensions, shape.layout.minor_to_major, shape.buffer_dimensions, shape.layout.tiles)
        for shape in (source, target)
    )
    if law == wanted:
        return True
    runs = list(_runs(source, target))
    extents = [run.extent for run in runs]
    if stride_table(source).is_separable and stride_table(target).is_separable:
        boxes = [[extent if other == run else 1 for other in range(len(runs))] for run, extent in enumerate(extents)]
    else:
        boxes = [extents]
    return sum(map(math.prod, boxes)) <= MOST and all(_agree(source, target, runs, box) for box in boxes)


def _runs(source: Shape, target: Shape) -> Iterator[DimensionRun]:
    """The shortest runs: for (2, 6, 5) and (3, 4, 5), dimensions 0 and 1 with 0 and 1, then 2 with 2."""
    ends = [
        {count: dim for dim, count in enumerate(itertools.accumulate(shape.dimensions, operator.mul, initial=1))}
        for shape in (source, target)
    ]
    for before, after in itertools.pairwise(sorted(ends[0].keys() & ends[1].keys())):
        here, there = (tuple(range(end[before], end[after])) for end in ends)
        repeated = math.lcm(period(source, here), period(target, there))
        yield DimensionRun(here, there, min(after // before, repeated + 1))


def period(shape: Shape, run: Sequence[int]) -> int:
    """The number of elements along a run of dimensions after which all places have moved by the same distance.

    By then the first dimension of the run has moved by `times`, and the others are back where they were.  The most
    major digit of a value must have moved by whole steps and the digits below it by whole rounds, so that these are
    back where they were too.  `times` grows from value to value.

    >>> from gpulayout import parse_shape
    >>> period(parse_shape("f32[90]{0:T(4)(3)}"), [0]), period(parse_shape("f32[9,7]{1,0:T(*,4)(3)}"), [0])
    (4, 4)
    """
    table, times = stride_table(shape), 1
    moved = [int(value == run[0]) for value in range(len(table.sizes) + 1)]
    for value, shares in enumerate(table.shares):
        if shares:
            first, *others = shares
            turn = math.lcm(first.step, *(share.step * share.extent for share in others))
            more = turn // math.gcd(moved[value], turn)
            times, moved = times * more, [more * by for by in moved]
            moved[first.into] += moved[value] // first.step * first.stride
    return times * math.prod(shape.dimensions[dim] for dim in run[1:])


def _agree(source: Shape, target: Shape, runs: Sequence[DimensionRun], box: Sequence[int]) -> bool:
    """True when the first elements of the runs, `box` of them in each, have the same places; stops at a difference."""
    tables = stride_table(source), stride_table(target)
    for coordinates in row_major_indices(box):
        here = tables[0].linear_of(_index(source, [run.source for run in runs], coordinates))
        if not np.array_equal(here, tables[1].linear_of(_index(target, [run.target for run in runs], coordinates))):
            return False
    return True


def _index(shape: Shape, runs: Sequence[Sequence[int]], coordinates: Sequence[np.ndarray]) -> list[np.ndarray | int]:
    """The logical index of elements given by their numbers in every run; dimensions in no run have size 1."""
    index: list[np.ndarray | int] = [0] * shape.rank
    for run, numbers in zip(runs, coordinates):
        for dim, coordinate in zip(run, np.unravel_index(numbers, [shape.dimensions[dim] for dim in run])):
            index[dim] = coordinate
    return index


def row_major_indices(dimensions: Sequence[int]) -> Iterator[list[np.ndarray]]:
    """All indices in row-major order, in chunks of one array per dimension."""
    count = math.prod(dimensions)
    for start in range(0, count, CHUNK):
        linear = np.arange(start, min(start + CHUNK, count))
        yield list(np.unravel_index(linear, dimensions)) if dimensions else []
