"""A box: loops over a part of an array, and numbers that grow evenly with every loop.

A row is a number that belongs to each coordinate of the box, such as an index, a digit of a linear index or a place in memory:

    row = (start, step of loop 0, step of loop 1, ...)         start + step0 * i0 + step1 * i1 + ...,  0 <= i < extent

Tiles divide rows: place `e // 8` of the tile, `e % 8` within it.  Neither grows evenly along a loop of 20, so the loop is
split: 20 coordinates are 2 whole tiles, a box of loops (2, 8) with quotient (0, 1, 0) and remainder (0, 0, 1), and a rest
of 4, a box of one loop with quotient (2, 0) and remainder (0, 1).  Divided by what two layouts ask for, one tile after the
other, an array falls into few boxes, and in each of them both layouts are plain strides.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Row = tuple[int, ...]


class Box(NamedTuple):
    """Extents of the loops, the rows, and which logical dimensions each loop is made of, minor first."""

    extents: tuple[int, ...]
    rows: tuple[Row, ...]
    dimensions: tuple[tuple[int, ...], ...]

    def with_rows(self, rows: Sequence[Row]) -> Box:
        return self._replace(rows=tuple(rows))

    def part(self, loop: int, first: int, last: int) -> Box:
        """The box from one coordinate of a loop up to, not including, another."""
        extents = (*self.extents[:loop], last - first, *self.extents[loop + 1:])
        rows = self.rows if not first else tuple([(row[0] + first * row[loop + 1], *row[1:]) for row in self.rows])
        return Box(extents, rows, self.dimensions)

    def split(self, loop: int, size: int) -> Box:
        """The same box with a loop of n * size coordinates as two: n, and within it `size`."""
        extents = (*self.extents[:loop], self.extents[loop] // size, size, *self.extents[loop + 1:])
        rows = tuple([(*row[:loop + 1], row[loop + 1] * size, *row[loop + 1:]) for row in self.rows])
        return Box(extents, rows, (*self.dimensions[:loop + 1], *self.dimensions[loop:]))


def box(extents: Sequence[int], starts: Sequence[int] = ()) -> Box:
    """A box of an array, one row per dimension: its coordinate, from `starts` on.  Loops of one coordinate are left out.

    >>> box((3, 1, 2)).rows
    ((0, 1, 0), (0, 0, 0), (0, 0, 1))
    """
    loops = [dim for dim, extent in enumerate(extents) if extent != 1]
    starts = starts or (0,) * len(extents)
    rows = tuple((start, *(int(loop == dim) for loop in loops)) for dim, start in enumerate(starts))
    return Box(tuple(extents[dim] for dim in loops), rows, tuple((dim,) for dim in loops))


def plus(row: Row, other: Row, factor: int) -> Row:
    """One row plus another one, times a factor."""
    return tuple([step + factor * more for step, more in zip(row, other)])


def fused(whole: Box) -> Box:
    """The same box in fewer loops: a loop that steps exactly over another one in every row joins it; those of one coordinate go."""
    starts, *columns = zip(*whole.rows)
    loops = [loop for loop in zip(whole.extents, columns, whole.dimensions) if loop[0] != 1]
    found = True
    while found:
        found = False
        for upper, lower in itertools.permutations(range(len(loops)), 2):
            extent, steps, dimensions = loops[lower]
            if loops[upper][1] == tuple([step * extent for step in steps]):
                loops[lower] = extent * loops[upper][0], steps, dimensions + loops[upper][2]
                del loops[upper]
                found = True
                break
    extents, columns, dimensions = zip(*loops) if loops else ((), (), ())
    return Box(extents, tuple(zip(starts, *columns)), dimensions)


def cut(whole: Box, number: int, size: int) -> Iterator[Box]:
    """Boxes that together are the whole, in each of which row `number`, divided by `size`, grows evenly."""
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        smaller = _cut_once(part, number, size)
        if smaller:
            waiting += reversed(smaller)
        else:
            yield part


def _cut_once(whole: Box, number: int, size: int) -> tuple[Box, ...]:
    """The box in two, or with a loop split, on the way to rows that divide evenly; nothing when this one does.

    It does when the steps that are not multiples of `size` never lead from one tile into the next: 16 i + j for i < 5, j < 8
    and size 8 has the quotient 2 i and the remainder j.  Else the loop of the longest such step is split:

        whole tiles   20 coordinates and size 8: 2 x 8, and a rest of 4;  steps of 6 and size 8: every 4 of them are 3 tiles
        a head        that starts within a tile: from 5 on and size 8, 3 coordinates come first
        by a cut      what is left of a tile is cut off
    """
    row = whole.rows[number]
    steps = [(step, loop) for loop, step in enumerate(row[1:]) if step % size and whole.extents[loop] > 1]
    start = row[0] % size
    reach = sum([step * (whole.extents[loop] - 1) for step, loop in steps])
    if start + reach < size:
        return ()
    step, loop = max(steps)
    extent = whole.extents[loop]
    within = reach - step * (extent - 1)                            # of the other loops
    period = size // math.gcd(size, step)
    if extent > period and (start < step or within or size % step):
        ahead = extent - extent % period
        tiles = whole.part(loop, 0, ahead).split(loop, period)
        return (tiles,) if ahead == extent else (tiles, whole.part(loop, ahead, extent))
    ahead = max((size - 1 - start - within) // step + 1, 1)         # coordinates that stay in the first tile, or one that does not
    return whole.part(loop, 0, ahead), whole.part(loop, ahead, extent)


def split_below(whole: Box, number: int, size: int) -> Iterator[tuple[Box, bool]]:
    """Boxes that together are the whole, and whether row `number` is below `size` in them, everywhere or nowhere; no step is negative."""
    start, *steps = whole.rows[number]
    reach = sum([step * (extent - 1) for step, extent in zip(steps, whole.extents)])
    if start + reach < size or start >= size:
        yield whole, start < size
        return
    step, loop = max((step, loop) for loop, step in enumerate(steps) if whole.extents[loop] > 1)
    within = reach - step * (whole.extents[loop] - 1)                # of the other loops
    ahead = max((size - 1 - start - within) // step + 1, 1)          # coordinates that are all below, or one that is not
    yield from split_below(whole.part(loop, 0, ahead), number, size)
    yield from split_below(whole.part(loop, ahead, whole.extents[loop]), number, size)


def divided(row: Row, size: int) -> tuple[Row, Row]:
    """Quotient and remainder of a row that `cut` made even."""
    if size == 1:
        return row, (0,) * len(row)
    start, *steps = row
    outer = [0 if step % size else step // size for step in steps]
    return (start // size, *outer), (start % size, *[step if step % size else 0 for step in steps])
