"""A region: loops over a part of an array, and numbers that are linear in these loops.

Such a number is called a row.  It is a coordinate, a digit of a linear index or a place in memory:

    row = (start, step of loop 0, step of loop 1, ...)         start + step0 * i0 + step1 * i1 + ...,  0 <= i < extent

Tiles divide rows: index `e` is in tile `e // 8`, at position `e % 8`.  Neither is linear along a loop of 20, so the
loop is split into two regions: 2 whole tiles, with loops (2, 8), quotient (0, 1, 0) and remainder (0, 0, 1); and the
last 4 coordinates, with one loop, quotient (2, 0) and remainder (0, 1).  Cutting an array at the tiles of both layouts
gives a few regions, and in each of them both layouts are plain strides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpulayout.layout.digits import Digit, StrideTable

Row = tuple[int, ...]


class Region(NamedTuple):
    """Extents of the loops, the rows, and the logical dimensions that each loop covers, minor first."""

    extents: tuple[int, ...]
    rows: tuple[Row, ...]
    dimensions: tuple[tuple[int, ...], ...]

    def loops(self) -> list[tuple[int, Row, tuple[int, ...]]]:
        """Extent, steps in every row, and dimensions of each loop, in the order of the last row."""
        loops = zip(self.extents, list(zip(*self.rows))[1:], self.dimensions)
        return sorted(loops, key=lambda loop: (abs(loop[1][-1]), loop[0]))

    def part(self, loop: int, first: int, last: int) -> Region:
        """The region from coordinate `first` of a loop up to, not including, `last`."""
        extents = (*self.extents[:loop], last - first, *self.extents[loop + 1 :])
        rows = self.rows if not first else tuple([(row[0] + first * row[loop + 1], *row[1:]) for row in self.rows])
        return Region(extents, rows, self.dimensions)

    def split(self, loop: int, size: int) -> Region:
        """The same region with a loop of n * size coordinates as two loops: n outside, `size` inside."""
        extents = (*self.extents[:loop], self.extents[loop] // size, size, *self.extents[loop + 1 :])
        rows = tuple([(*row[: loop + 1], row[loop + 1] * size, *row[loop + 1 :]) for row in self.rows])
        return Region(extents, rows, (*self.dimensions[: loop + 1], *self.dimensions[loop:]))


def region(extents: Sequence[int]) -> Region:
    """A whole array.  The rows are its coordinates; loops of one coordinate are left out.

    >>> region((3, 1, 2)).rows
    ((0, 1, 0), (0, 0, 0), (0, 0, 1))
    """
    loops = [dim for dim, extent in enumerate(extents) if extent != 1]
    rows = tuple((0, *(int(loop == dim) for loop in loops)) for dim in range(len(extents)))
    return Region(tuple(extents[dim] for dim in loops), rows, tuple((dim,) for dim in loops))


def plus(row: Row, other: Row, factor: int) -> Row:
    """row + other * factor."""
    return tuple([step + factor * more for step, more in zip(row, other)])


def fused(whole: Region) -> Region:
    """The same region in fewer loops: two merge when one steps exactly over the other in every row.  Loops of one
    coordinate are dropped.
    """
    starts, *columns = zip(*whole.rows)
    loops = [loop for loop in zip(whole.extents, columns, whole.dimensions) if loop[0] != 1]
    has_merged = True
    while has_merged:
        has_merged = False
        for upper, lower in itertools.permutations(range(len(loops)), 2):
            extent, steps, dimensions = loops[lower]
            if loops[upper][1] == tuple([step * extent for step in steps]):
                loops[lower] = extent * loops[upper][0], steps, dimensions + loops[upper][2]
                del loops[upper]
                has_merged = True
                break
    extents = tuple([extent for extent, _, _ in loops])
    rows = tuple(zip(starts, *[steps for _, steps, _ in loops]))
    return Region(extents, rows, tuple([dimensions for _, _, dimensions in loops]))


def cut_at_multiples(whole: Region, number: int, size: int) -> Iterator[Region]:
    """Regions that together make up the whole; in each, row `number` has a linear quotient and remainder by `size`."""
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        smaller = _cut_once(part, number, size)
        if smaller:
            waiting += reversed(smaller)
        else:
            yield part


def _cut_once(whole: Region, number: int, size: int) -> tuple[Region, ...]:
    """One step of `cut`: the region in two, or with a loop split; () if its row divides evenly already.

    A row divides evenly when the steps that are not multiples of `size` never cross from one tile into the next:
    16 i + j for i < 5, j < 8 and size 8 has the quotient 2 i and the remainder j.  Otherwise the loop of the longest
    such step is split:

        into whole tiles and the rest  20 coordinates and size 8: 2 x 8, and 4;  steps of 6 and size 8: 4 are 3 tiles
        at the end of the first tile   from 5 on and size 8: 3 coordinates come first
    """
    row = whole.rows[number]
    steps = [(step, loop) for loop, step in enumerate(row[1:]) if step % size and whole.extents[loop] > 1]
    start = row[0] % size
    reach = sum([step * (whole.extents[loop] - 1) for step, loop in steps])
    if start + reach < size:
        return ()
    step, loop = max(steps)
    extent = whole.extents[loop]
    within = reach - step * (extent - 1)  # reach of the other loops
    period = size // math.gcd(size, step)
    if extent > period and (start < step or within or size % step):
        ahead = extent - extent % period
        tiles = whole.part(loop, 0, ahead).split(loop, period)
        return (tiles,) if ahead == extent else (tiles, whole.part(loop, ahead, extent))
    # the coordinates that stay in the first tile, or the one that crosses its end
    ahead = max((size - 1 - start - within) // step + 1, 1)
    return whole.part(loop, 0, ahead), whole.part(loop, ahead, extent)


def split_below(whole: Region, number: int, size: int) -> Iterator[tuple[Region, bool]]:
    """Regions that together make up the whole, each with whether row `number` is below `size`: everywhere in the region
    or nowhere.  Steps must not be negative.
    """
    start, *steps = whole.rows[number]
    reach = sum([step * (extent - 1) for step, extent in zip(steps, whole.extents)])
    if start + reach < size or start >= size:
        yield whole, start < size
        return
    step, loop = max((step, loop) for loop, step in enumerate(steps) if whole.extents[loop] > 1)
    within = reach - step * (whole.extents[loop] - 1)  # reach of the other loops
    # the coordinates that are entirely below, or the one that is partly below
    ahead = max((size - 1 - start - within) // step + 1, 1)
    yield from split_below(whole.part(loop, 0, ahead), number, size)
    yield from split_below(whole.part(loop, ahead, whole.extents[loop]), number, size)


def divided(row: Row, size: int) -> tuple[Row, Row]:
    """Quotient and remainder of a row in a region from `cut`."""
    if size == 1:
        return row, (0,) * len(row)
    start, *steps = row
    outer = [0 if step % size else step // size for step in steps]
    return (start // size, *outer), (start % size, *[step if step % size else 0 for step in steps])


# ---- regions of a move, read from the stride tables of its two sides ----------------------------------
#
# From coordinates to a place, a table works value by value: each value is cut at the steps of its digits, and each
# digit moves from the row of its value to the row of the linear index, times its stride.  f32[20,256]{1,0:T(8,128)} has
# the digits i // 8 * 2048, i % 8 * 128, j // 128 * 1024 and j % 128.  Cuts of i by 8 give 2 whole tiles, where
# i = 8 a + b with a < 2 and b < 8, and a region of the last 4 rows.  Cuts of j by 128 give j = 128 c + d.  In the whole
# tiles, with a row-major array as the other side:
#
#     rows            the other side's place         value 0      value 1        linear index
#     at first        256 (8 a + b) + 128 c + d      8 a + b      128 c + d      0
#     digit i // 8    the same                       b            128 c + d      2048 a
#     digit i % 8     the same                       0            128 c + d      2048 a + 128 b
#     digit j // 128  the same                       0            d              2048 a + 128 b + 1024 c
#     digit j % 128   the same                       0            0              2048 a + 128 b + 1024 c + d
#
# A digit with step 1 that is a whole value needs no cut, so the rows of a strided array are ready before the first.
#
# From a place to coordinates, a table has a loop for every digit, and each coordinate is a sum over these loops.  The
# loops are cut where a coordinate, or a number of the table, exceeds its size: the rest is padding, tail included.


class SideTable(NamedTuple):
    """One side of a move: its stride table, and the bytes or slots that a place takes.

    box   for each dimension the first coordinate that moves, and one past the last; None for all of them
    """

    table: StrideTable
    unit: int
    box: tuple[tuple[int, int], ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the array that moves."""
        return self.table.dimensions if self.box is None else tuple([last - first for first, last in self.box])

    def rows_before_cuts(self, coordinates: Sequence[Row], length: int) -> tuple[Row, ...]:
        """A row of `length` for every value of the table, and one for the linear index, with all digits moved that
        need no cut.

        f32[2,3]{0,1} ends with (0, 0, i + 2 j), and f32[20,256]{1,0:T(8,128)} still has (i, j, 0).  A number waits for
        the values that it consists of: in f32[6]{0:T(3)(2)}, index % 3 is one, and known after a cut of the index by 3.
        """
        nothing = (0,) * length
        if self.box is not None:  # coordinates of the whole array
            coordinates = [(row[0] + first, *row[1:]) for row, (first, _) in zip(coordinates, self.box)]
        rows = [*coordinates, *[nothing] * (len(self.table.numbers) + 1)]
        incomplete = set()  # numbers, and the linear index, that digits are missing from
        for value, shares in enumerate(self.table.shares):
            if value in incomplete or any(share.step > 1 for share in shares):
                incomplete |= {share.into for share in shares}
                continue
            for share in shares:
                rows[share.into] = plus(rows[share.into], rows[value], share.stride)
            rows[value] = nothing
        return tuple(rows)

    def with_places(self, parts: Iterable[Region], first: int) -> Iterator[Region]:
        """The regions with the place in memory as last row, behind their first rows.

        Of the given rows, the `first` ones are kept; the others come from `rows_before_cuts`.
        """
        for value, shares in enumerate(self.table.shares):
            for share in shares:
                parts = _digit_moved(parts, first + value, first + share.into, share.step, share.stride)
        for part in parts:
            yield part._replace(rows=(*part.rows[:first], self.place(part.rows[-1])))

    def place(self, linear: Row) -> Row:
        """The place in memory of a linear index."""
        return tuple([self.unit * step for step in linear])


def regions(sources: Sequence[SideTable], target: SideTable) -> Iterator[tuple[Region, bool]]:
    """Regions of all places of the target, a buffer, each with whether it holds elements.

    The rows are the places in each of the sources, then in the target.  The loops follow the target's digits, which
    need no cuts for the target; but if a number of its table joins several coordinates, elements are cut from loops
    over the array.
    """
    rank, is_separable = len(target.table.dimensions), target.table.is_separable
    if not is_separable:
        yield from ((part, True) for part in element_regions(sources, target))
    for part, is_element in _all_places(target.table):
        linear, *values = part.rows
        place = target.place(linear)
        if not is_element:
            no_sources = ((0,) * len(place),) * len(sources)
            yield fused(Region(part.extents, (*no_sources, place), ((),) * len(part.extents))), False
        elif is_separable:
            for cut in _with_places_of_all(sources, part, values[:rank], (place,)):
                yield fused(cut), True


def element_regions(sources: Sequence[SideTable], target: SideTable) -> Iterator[Region]:
    """Regions of all elements of an array.  The rows are the places in each of the sources, then in the target."""
    if 0 in target.sizes:
        return
    whole = region(target.sizes)
    # The target's rows wait behind, while those of the sources become places.
    target_rows = target.rows_before_cuts(whole.rows, 1 + len(whole.extents))
    for part in _with_places_of_all(sources, whole, whole.rows, target_rows):
        yield from target.with_places((fused(part),), len(sources))


def _with_places_of_all(
    sides: Sequence[SideTable], whole: Region, coordinates: Sequence[Row], others: Sequence[Row]
) -> Iterator[Region]:
    """Regions whose rows are the places in each of the sides, then the other rows."""
    groups = [side.rows_before_cuts(coordinates, 1 + len(whole.extents)) for side in sides]
    parts: Iterable[Region] = (fused(whole._replace(rows=(*others, *itertools.chain.from_iterable(groups)))),)
    first = len(others) + sum(map(len, groups))
    for side, group in zip(reversed(sides), reversed(groups)):
        first += 1 - len(group)  # the rows before this side's, with the places of the sides after it in front
        placed = side.with_places(parts, first - 1)
        parts = (part._replace(rows=(part.rows[-1], *part.rows[:-1])) for part in placed)
    yield from parts


def _digit_moved(parts: Iterable[Region], row: int, into: int, step: int, factor: int) -> Iterator[Region]:
    """The regions after a digit moves from one row to another: row `row` keeps its remainder by `step`, and its
    quotient, times `factor`, is added to row `into`.

    i < 20 with step 8 and factor 2048 gives 2 x 8 places with the rows b and 2048 a, and 4 places with i and 2 * 2048.
    """
    for whole in parts:
        if not any(whole.rows[row]):  # 0 everywhere: both are 0
            yield whole
            continue
        for part in cut_at_multiples(whole, row, step) if step > 1 else (whole,):
            rows = list(part.rows)
            quotient, remainder = divided(rows[row], step)
            rows[row], rows[into] = remainder, plus(rows[into], quotient, factor)
            yield Region(part.extents, tuple(rows), part.dimensions)


def _all_places(table: StrideTable) -> Iterator[tuple[Region, bool]]:
    """Regions of all places, each with whether it holds elements; the rows are the place and all values."""
    loops = [digit for digit in table.digits if digit.extent != 1]
    rows = [
        (0, *[digit.stride for digit in loops]),
        *[(0, *[digit.step * (digit.dim == value) for digit in loops]) for value in range(len(table.sizes))],
    ]
    whole = Region(
        tuple([digit.extent for digit in loops]), tuple(rows), tuple([_dimensions(digit, table) for digit in loops])
    )
    if table.buffer_size:
        # the tail may end before the last digit wraps around
        for part, is_place in split_below(whole, 0, table.buffer_size):
            if is_place and 0 in table.dimensions:
                yield part, False
            elif is_place:
                yield from _elements_or_padding(part, table, _order_of_checks(table))


def _order_of_checks(table: StrideTable) -> list[int]:
    """All values in an order that gives few regions.  A value comes after the numbers that contain it, since these are
    cut for it.

    Numbers that are always 0 come first, because their padding is the largest.  Then come the coordinates, the one with
    the most major digit first.
    """
    rank = len(table.dimensions)
    order: list[int] = []
    empty = (number for number, digits in enumerate(table.numbers, rank) if not digits)
    dims = (digit.dim for digits in (table.digits, *table.numbers) for digit in reversed(digits) if digit.dim < rank)
    for last in dict.fromkeys((*empty, *dims)):
        needed = {last}
        for number, digits in enumerate(table.numbers, rank):
            if any(digit.dim in needed for digit in digits):
                needed.add(number)
        order += [*sorted(needed.difference(order, [last]), reverse=True), last]
    return order


def _elements_or_padding(whole: Region, table: StrideTable, values: Sequence[int]) -> Iterator[tuple[Region, bool]]:
    """The region in parts that hold either elements or padding.  Values are checked in the given order; a number is
    split into the values that it contains.

    The rows are those of `_all_places`: row `value + 1` is a value, and must be below its reach.
    """
    if not values:
        yield whole, True
        return
    value, *others = values
    number = value - len(table.dimensions)
    for part, is_inside in split_below(whole, value + 1, table.reaches[value]):
        if not is_inside:
            yield part, False
            continue
        parts: Iterable[Region] = (part,)
        if number >= 0 and not _is_full(table, number):
            for digit in reversed(table.numbers[number]):
                parts = _digit_moved(parts, value + 1, digit.dim + 1, digit.stride, digit.step)
        for smaller in parts:
            yield from _elements_or_padding(smaller, table, others)


def _is_full(table: StrideTable, number: int) -> bool:
    """True when all values of a number below its reach are elements: the dimensions it joins have no padding.

    Then the number need not be cut into its coordinates, which would give a region for every plane or row that begins
    inside a tile: u8[1000,1001,1003] under T(*,*,1024) has a million rows.
    """
    dimensions = table.dimensions
    return not table.is_separable and all(
        digit.dim < len(dimensions) and digit.step == 1 and digit.extent == dimensions[digit.dim]
        for digit in table.numbers[number]
    )


def _dimensions(digit: Digit, table: StrideTable) -> tuple[int, ...]:
    """The logical dimensions that a digit covers, minor first."""
    rank = len(table.dimensions)
    if digit.dim < rank:
        return (digit.dim,)
    return tuple(dict.fromkeys(dim for part in table.numbers[digit.dim - rank] for dim in _dimensions(part, table)))
