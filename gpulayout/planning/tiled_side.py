"""Boxes of a move, read from the stride tables of its two sides.

A table tells a place from coordinates, one value after the other: a value is cut at the steps of its digits, and each digit goes
into the sum it belongs to.  f32[20,256]{1,0:T(8,128)} reads the rows (i, j) of a box, cuts i by 8 and j by 128, and adds up
i // 8 * 2048 + j // 128 * 1024 + i % 8 * 128 + j % 128: the place.  An array with strides cuts nothing.

The other way round a table has a loop for every digit, and each coordinate is a sum over the loops.  Where a coordinate, or a number
of the table, gets past its size the loops are cut: what lies beyond is padding, the tail included.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpulayout.model.digits import Digit, StrideTable
from gpulayout.model.shape import Shape
from gpulayout.model.stride_table import stride_table
from gpulayout.planning.affine_box import Box, Row, box, cut, divided, fused, plus, split_below


class Side(NamedTuple):
    """One side of a move: its table, and how many units of memory a place has, in bytes or slots."""

    table: StrideTable
    unit: int

    def started(self, coordinates: Sequence[Row], length: int) -> tuple[Row, ...]:
        """Rows of all values and of the place, after all that can be done without a division; a value that is done with is 0."""
        rows = [*coordinates, *[(0,) * length] * (len(self.table.numbers) + 1)]
        waiting = set()
        for value, shares in enumerate(self.table.shares):
            if value in waiting or any(share.step > 1 for share in shares):
                waiting |= {share.into for share in shares}
                continue
            for share in shares:
                rows[share.into] = plus(rows[share.into], rows[value], share.stride)
            rows[value] = (0,) * length
        return tuple(rows)

    def places(self, boxes: Iterable[Box], carried: int) -> Iterator[Box]:
        """The boxes with the place in memory as the last row, after the `carried` first rows, which stay; the others are as started."""
        for value, shares in enumerate(self.table.shares):
            for share in shares:
                boxes = _taken(boxes, carried + value, carried + share.into, share.step, share.stride)
        for whole in boxes:
            yield whole.with_rows((*whole.rows[:carried], self.place(whole.rows[-1])))

    def place(self, linear: Row) -> Row:
        """The place in memory of a linear index."""
        return tuple([self.unit * step for step in linear])


def shape_side(shape: Shape, unit: int) -> Side:
    """A buffer of `shape`, a place of which has so many units: bytes of an element, or 1."""
    return Side(stride_table(shape), unit)


def array_side(dimensions: tuple[int, ...], strides: Sequence[int]) -> Side:
    """A logical array with these strides."""
    digits = (Digit(dim, 1, size, stride) for dim, (size, stride) in enumerate(zip(dimensions, strides)))
    return Side(StrideTable(tuple(digits), dimensions, 0), 1)


def regions(source: Side, target: Side) -> Iterator[tuple[Box, bool]]:
    """Boxes of all places of a buffer, the target, and whether they hold elements; rows are the place in the source, and in the target.

    The loops of the target's digits need no cut for the target itself.  But where a number joins coordinates, these would have to be
    taken out of it and put together again: there the loops are those of the array.
    """
    rank, is_separable = len(target.table.dimensions), target.table.is_separable
    if not is_separable:
        yield from ((part, True) for part in element_boxes(source, target))
    for part, is_element in _all_places(target.table):
        place = target.place(part.rows[0])
        if not is_element:
            yield fused(Box(part.extents, ((0,) * len(place), place), ((),) * len(part.extents))), False
        elif is_separable:
            whole = fused(part.with_rows((place, *source.started(part.rows[1:1 + rank], len(place)))))
            yield from ((fused(found.with_rows(found.rows[::-1])), True) for found in source.places((whole,), 1))


def element_boxes(source: Side, target: Side) -> Iterator[Box]:
    """Boxes of all elements of an array, each with two rows: the place in the source, and in the target."""
    if 0 in source.table.dimensions:
        return
    whole = box(source.table.dimensions)
    waiting = target.started(whole.rows, 1 + len(whole.extents))
    whole = fused(whole.with_rows((*waiting, *source.started(whole.rows, 1 + len(whole.extents)))))
    for part in source.places((whole,), len(waiting)):
        yield from target.places((fused(part.with_rows((part.rows[-1], *part.rows[:-1]))),), 1)


def _taken(boxes: Iterable[Box], row: int, into: int, step: int, factor: int) -> Iterator[Box]:
    """The boxes with the quotient of a row by `step`, times `factor`, added to another row; the remainder is left."""
    for whole in boxes:
        if not any(whole.rows[row]):
            yield whole
            continue
        for part in cut(whole, row, step) if step > 1 else (whole,):
            extents, rows, dimensions = part
            outer, inner = divided(rows[row], step)
            rows = list(rows)
            rows[row], rows[into] = inner, plus(rows[into], outer, factor)
            yield Box(extents, tuple(rows), dimensions)


def _all_places(table: StrideTable) -> Iterator[tuple[Box, bool]]:
    """Boxes of all places, with the place and all values as rows, and whether they hold elements."""
    loops = [digit for digit in table.digits if digit.extent != 1]
    rows = [(0, *[digit.stride for digit in loops]),
            *[(0, *[digit.step * (digit.dim == value) for digit in loops]) for value in range(len(table.sizes))]]
    whole = Box(tuple([digit.extent for digit in loops]), tuple(rows), tuple([_dimensions(digit, table) for digit in loops]))
    if table.buffer_size:
        for part, is_place in split_below(whole, 0, table.buffer_size):             # the tail may end inside of a turn of the last digit
            if is_place and 0 in table.dimensions:
                yield part, False
            elif is_place:
                yield from _taken_apart(part, table, _checked_first(table))


def _checked_first(table: StrideTable) -> list[int]:
    """All values in an order that makes few boxes: before each value the numbers that it is a part of, which are cut for it.

    What is always 0 comes first, its padding is the largest; then the coordinates, the one with the most major digit first.
    """
    rank, found = len(table.dimensions), []
    empty = (number for number, digits in enumerate(table.numbers, rank) if not digits)
    dims = (digit.dim for digits in (table.digits, *table.numbers) for digit in reversed(digits) if digit.dim < rank)
    for last in dict.fromkeys((*empty, *dims)):
        needed = {last}
        for number, digits in enumerate(table.numbers, rank):
            if any(digit.dim in needed for digit in digits):
                needed.add(number)
        found += [*sorted(needed.difference(found, [last]), reverse=True), last]
    return found


def _taken_apart(whole: Box, table: StrideTable, values: Sequence[int]) -> Iterator[tuple[Box, bool]]:
    """The box in parts that hold elements or padding, one value after the other; a number goes into the values it is made of."""
    if not values:
        yield whole, True
        return
    value, *others = values
    for part, is_inside in split_below(whole, value + 1, table.reaches[value]):
        if not is_inside:
            yield part, False
            continue
        parts: Iterable[Box] = (part,)
        number = value - len(table.dimensions)
        for digit in reversed(table.numbers[number]) if number >= 0 else ():
            parts = _taken(parts, value + 1, digit.dim + 1, digit.stride, digit.step)
        for smaller in parts:
            yield from _taken_apart(smaller, table, others)


def _dimensions(digit: Digit, table: StrideTable) -> tuple[int, ...]:
    """The logical dimensions that a digit is made of, minor first."""
    rank = len(table.dimensions)
    if digit.dim < rank:
        return (digit.dim,)
    return tuple(dict.fromkeys(dim for part in table.numbers[digit.dim - rank] for dim in _dimensions(part, table)))
