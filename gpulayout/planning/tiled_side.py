"""One side of a move as what it does to coordinates: order them, cut them by tiles, and add up strides.

f32[20,256]{1,0:T(8,128)} reads the rows (i, j) of a box, cuts them into (i // 8, j // 128, i % 8, j % 128), and adds these
up with the strides (2048, 1024, 128, 1): the place.  A strided array cuts nothing and has its own strides.
"""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpulayout.model import tiling
from gpulayout.model.shape import Shape
from gpulayout.planning.affine_box import Box, Row, box, combined, cut, divided


class Side(NamedTuple):
    """order      dimensions whose coordinates are read, most major first
    cuts       what each tile does to the list of numbers, as `tiling.steps` says it
    strides    of the numbers in the end, in any unit
    """

    order: tuple[int, ...]
    cuts: tuple[tiling.Step, ...]
    strides: tuple[int, ...]

    def started(self, coordinates: Sequence[Row]) -> list[Row]:
        """The rows of coordinates after all that can be done before the first division; without any division, the place."""
        rows = [coordinates[dim] for dim in self.order]
        if self.cuts:
            return self._prepared(rows, 0)
        return [combined(rows, self.strides) or (0,)]

    def places(self, boxes: Iterable[Box], carried: int, at: int = 0) -> Iterator[Box]:
        """The boxes with the place in memory as the last row, after the `carried` first rows, which stay.

        boxes   their further rows are prepared for the division number `at`
        """
        if not self.cuts:
            yield from boxes
        elif at < len(self.cuts):
            found = itertools.chain.from_iterable(self._divided(whole, carried, at) for whole in boxes)
            yield from self.places(found, carried, at + 1)
        else:
            for whole in boxes:
                yield whole.with_rows((*whole.rows[:carried], combined(whole.rows[carried:], self.strides)))

    def _divided(self, whole: Box, carried: int, at: int) -> Iterator[Box]:
        sizes = self.cuts[at].tile
        first = len(whole.rows) - len(sizes)
        parts: Iterable[Box] = (whole,)
        for number, size in enumerate(sizes):
            parts = itertools.chain.from_iterable(map(functools.partial(cut, number=first + number, size=size), parts))
        for part in parts:
            pairs = [divided(row, size) for row, size in zip(part.rows[first:], sizes)]
            rows = [*part.rows[carried:first], *(outer for outer, _ in pairs), *(inner for _, inner in pairs)]
            yield part.with_rows((*part.rows[:carried], *self._prepared(rows, at + 1)))

    def _prepared(self, rows: list[Row], at: int) -> list[Row]:
        """The rows ready for the division number `at`: sizes of 1 in front, combined dimensions merged."""
        if at == len(self.cuts):
            return rows
        step = self.cuts[at]
        rows = [(0,) * (len(rows[0]) if rows else 1)] * step.front + rows
        first = len(rows) - sum(map(len, step.groups))
        taken = iter(rows[first:])
        return rows[:first] + [combined([next(taken) for _ in group], _row_major(group)) for group in step.groups]


def shape_side(shape: Shape, unit: int) -> Side:
    """A buffer of `shape`, its places counted in `unit`s: bytes of an element, or 1."""
    cuts, sizes = tiling.steps(shape.physical_widths, shape.layout.tiles)
    return Side(shape.layout.major_to_minor, cuts, tuple(unit * stride for stride in _row_major(sizes)))


def array_side(strides: Sequence[int]) -> Side:
    """A logical array with these strides."""
    return Side(tuple(range(len(strides))), (), tuple(strides))


def padding_boxes(shape: Shape, unit: int) -> Iterator[Box]:
    """Boxes of all places without an element, each place once; their only row is the place, counted in `unit`s.

    Sizes grow at three points, and what is new there is padding: from the dimensions to the padded dimensions, at every tile
    to a multiple of its size, and at the tail.  For u8[9]{0:PD(10)T(8)L(32)} that is 1 place, 6 up to two tiles, 16 more.
    """
    side = shape_side(shape, unit)
    sizes = list(shape.physical_widths)
    inside = [shape.dimensions[dim] for dim in shape.layout.major_to_minor]
    physical = side._replace(order=tuple(range(len(sizes))))
    for slab in _slabs(inside, sizes):
        yield from physical.places((slab.with_rows(physical.started(slab.rows)),), 0)
    for at, step in enumerate(side.cuts):
        sizes = [1] * step.front + sizes
        head = sizes[:len(sizes) - sum(map(len, step.groups))]
        inside = [math.prod(group) for group in step.groups]
        grown = [-(-size // tile) * tile for size, tile in zip(inside, step.tile)]
        yield from side.places(_slabs(head + inside, head + grown), 0, at)
        sizes = head + [size // tile for size, tile in zip(grown, step.tile)] + list(step.tile)
    places = math.prod(sizes)
    if shape.buffer_size > places:
        yield Box((shape.buffer_size - places,), ((places * unit, unit),), ((),))


def _slabs(inside: Sequence[int], outside: Sequence[int]) -> Iterator[Box]:
    """What the larger sizes have and the smaller ones do not: beyond each size in turn, more major ones kept inside."""
    for number, (size, grown) in enumerate(zip(inside, outside)):
        extents = (*inside[:number], grown - size, *outside[number + 1:])
        if math.prod(extents):
            slab = box(extents, [size * (k == number) for k in range(len(extents))])
            yield slab._replace(dimensions=((),) * len(slab.extents))          # numbers of cut sizes are none of dimensions


def _row_major(sizes: Sequence[int]) -> list[int]:
    """Strides of row-major sizes, most major first."""
    return [math.prod(sizes[number + 1:]) for number in range(len(sizes))]
