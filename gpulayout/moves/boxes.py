"""Boxes of a layout: parts of a buffer that are buffers of smaller shapes with the same layout.

A box is an interval of coordinates in every dimension.  If the intervals begin where tiles begin, the box has the
digits of the whole shape, and only the most major digit of each dimension is shorter:

    f32[32,512]{1,0:T(8,128)}          digits, minor first: 128 columns, 8 rows, 4 tiles across, 4 tiles down
    rows 8 to 24, columns 128 to 512   128 columns, 8 rows, 3 tiles across, 2 tiles down: f32[16,384]{1,0:T(8,128)}

The strides of the whole shape give the places of the box in the large buffer: 2 runs of 3 tiles, 4 tiles apart.
`align` holds the coordinates where a dimension may be cut: the multiples of a number, here 8 and 128.  Packed elements
add a rule: runs begin and end between bytes.  A dimension that no cut leaves intact is never cut: in rows of 5 elements
of 4 bits, every second row begins inside a byte, so only rows are cut, in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.layout.digits import StrideTable, table_of
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.runs import Runs, runs_of

Interval = tuple[int, int]  # coordinates: the first, and one past the last
PRIME = 2**89 - 1
MOST_GAP = 1 << 16  # bytes of padding between rows that are read rather than skipped: about what a seek costs


def rounded(number: int, unit: int) -> int:
    """The next multiple of a unit; 0 for a unit of 0.

    >>> rounded(9, 8), rounded(16, 8)
    (16, 16)
    """
    return -(-number // unit) * unit if unit else 0


def part_shape(shape: Shape, box: Sequence[Interval]) -> Shape:
    """A box as a shape of its own in the same layout; padding at the end of a dimension belongs to what reaches it.

    >>> print(part_shape(Shape("f32", (6, 5), "{1,0:PD(8,8)}"), ((2, 6), (0, 4))))
    f32[4,4]{1,0:PD(6,4)}
    """
    if all(interval == (0, size) for interval, size in zip(box, shape.dimensions)):
        return shape
    layout = shape.layout.replace(split_configs=())
    if layout.padded_dimensions is not None:
        ends = [
            width if last == size else last
            for (_, last), size, width in zip(box, shape.dimensions, layout.padded_dimensions)
        ]
        layout = layout.replace(padded_dimensions=tuple([end - first for end, (first, _) in zip(ends, box)]))
    return Shape(shape.element_type, tuple([last - first for first, last in box]), layout)


def line_shape(shape: Shape, size: int, places: int) -> Shape:
    """So many elements and the padding behind them as a line of places, each stored as in a shape.

    >>> print(line_shape(Shape("u4", (8, 6), "{0,1:E(4)}"), 3, 8))
    u4[3]{0:PD(8)E(4)}
    """
    kept = shape.layout
    line = Layout(
        (0,),
        padded_dimensions=(places,),
        padding_value=kept.padding_value,
        element_size_in_bits=kept.element_size_in_bits,
        bit_order=kept.bit_order,
    )
    return Shape(shape.element_type, (size,), line)


class Lead(NamedTuple):
    """How the coordinate of a dimension reaches its most major digit.

    position   of the digit, minor first
    path       (step, stride) of one digit of each number on the way to the linear index; the last is the digit itself
    align      cuts at multiples of it leave all other digits as they are
    width      of the dimension
    extent     of the digit: its values for the whole width, and for what tiles add at its end
    """

    position: int
    path: tuple[tuple[int, int], ...]
    align: int
    width: int
    extent: int

    def values(self, coordinates: int) -> int:
        """How many values the digit has for the first so many coordinates: a multiple of `align`, or the width."""
        if coordinates >= self.width:
            return self.extent
        for step, stride in self.path[:-1]:
            coordinates = -(-coordinates // step) * stride
        return -(-coordinates // self.path[-1][0])

    def places(self, coordinate: int) -> int:
        """Where a multiple of `align` begins, in places."""
        for step, stride in self.path:
            coordinate = coordinate // step * stride
        return coordinate

    def coordinates(self, values: int) -> int:
        """The fewest coordinates that give the digit so many values."""
        values *= self.path[-1][0]
        for step, stride in reversed(self.path[:-1]):
            values = -(-values // stride) * step
        return values


@dataclass(frozen=True)
class Boxes:
    """A shape that is cut into boxes.

    shape    the shape, without its tail
    widths   coordinates of each dimension; boxes may reach so far
    leads    of each dimension that may be cut; None for the others
    """

    shape: Shape
    table: StrideTable
    widths: tuple[int, ...]
    leads: tuple[Lead | None, ...]

    def end_of(self, dim: int) -> int:
        """The first coordinate where a dimension may be cut after its last element."""
        return min(rounded(self.shape.dimensions[dim], self.align[dim]), self.widths[dim])

    @property
    def align(self) -> tuple[int, ...]:
        """For each dimension, the number whose multiples are coordinates where it may be cut; its width for never."""
        return tuple(lead.align if lead else max(width, 1) for lead, width in zip(self.leads, self.widths))

    def extents(self, box: Sequence[Interval]) -> list[int]:
        """Values of every digit in a box, minor first."""
        extents = [digit.extent for digit in self.table.digits]
        for lead, (first, last) in zip(self.leads, box):
            if lead:
                extents[lead.position] = lead.values(last) - lead.values(first)
        return extents

    def nbytes(self, box: Sequence[Interval]) -> int:
        """Bytes of a box."""
        if any(first >= last for first, last in box):
            return 0
        return -(-math.prod(self.extents(box)) * self.shape.bits_per_element // 8)

    def runs(self, box: Sequence[Interval]) -> Runs:
        """Where the bytes of a box lie in the whole buffer."""
        if not self.nbytes(box):
            return Runs(0, 0)
        offset = sum(lead.places(first) for lead, (first, _) in zip(self.leads, box) if lead and first)
        levels = zip(self.extents(box), (digit.stride for digit in self.table.digits))
        return runs_of(levels, offset, self.shape.bits_per_element)

    def part(self, box: Sequence[Interval], *, tail: int = 0) -> Shape:
        """The shape of a box, with as much tail as given, in places.  Beyond the dimensions it has only padding."""
        sizes = tuple([max(min(last, size) - first, 0) for (first, last), size in zip(box, self.shape.dimensions)])
        widths = tuple([last - first for first, last in box])
        layout = self.shape.layout
        if layout.padded_dimensions is not None:
            layout = layout.replace(padded_dimensions=widths)
        if tail:
            layout = layout.replace(tail_padding_alignment=math.prod(self.extents(box)) + tail)
        return Shape(self.shape.element_type, sizes, layout)

    def sizes_for(self, nbytes: int) -> tuple[int, ...]:
        """Sizes of the smallest box whose runs have at least so many bytes, or are all the bytes there are.

        Dimensions that need not be cut for it, and those that are never cut, have at least their alignment.
        """
        sizes = list(self.align)
        leads = {lead.position: (dim, lead) for dim, lead in enumerate(self.leads) if lead}
        wanted, length = -(-nbytes * 8 // self.shape.bits_per_element), 1
        for position, digit in enumerate(self.table.digits):
            if position not in leads:
                length *= max(digit.extent, 1)
                continue
            dim, lead = leads[position]
            coordinates = lead.coordinates(max(-(-wanted // length), 1))
            sizes[dim] = min(rounded(coordinates, lead.align), self.widths[dim])
            if sizes[dim] < self.widths[dim] or lead.values(sizes[dim]) < lead.extent:
                break
            length *= max(digit.extent, 1)
        return tuple(sizes)


def boxes(shape: Shape, *, reads: bool = False) -> Boxes:
    """Where a shape may be cut.

    reads   boxes are only read: padding at the end of a dimension is left out, unless it is so short that runs with it
            are better than many short ones
    """
    shape = shape.with_layout(shape.layout.replace(tail_padding_alignment=1, split_configs=()))
    table = stride_table(shape)
    per_byte = 8 // shape.bits_per_element if shape.is_packed else 1
    needs = _needs(table, per_byte)
    leads = [
        _lead(table, dim, width, needs) if width > 1 else None for dim, width in enumerate(shape.buffer_dimensions)
    ]
    whole = Boxes(shape, table, shape.buffer_dimensions, tuple(leads))
    kept = [lead if lead and _stays(whole, dim, lead) else None for dim, lead in enumerate(leads)]
    widths = list(shape.buffer_dimensions)
    if reads:
        for dim, lead in enumerate(kept):
            if lead:
                end, stride = whole.end_of(dim), table.digits[lead.position].stride
                gap = (lead.extent - lead.values(end)) * stride * shape.bits_per_element // 8
                if lead.position + 1 == len(table.digits) or gap > MOST_GAP:
                    widths[dim] = end
    return Boxes(shape, table, tuple(widths), tuple(kept))


def _needs(table: StrideTable, per_byte: int) -> list[int]:
    """For every digit, what a cut of its values must be a multiple of; 0 if it must stay whole.

    Of packed elements, the last digit whose stride is not whole bytes and all digits below it are in one run.
    """
    strides = [digit.stride for digit in table.digits]
    last = max((position for position, stride in enumerate(strides) if stride % per_byte), default=-1)
    return [
        1 if position > last else 0 if position < last else per_byte // math.gcd(stride, per_byte)
        for position, stride in enumerate(strides)
    ]


def _lead(table: StrideTable, dim: int, width: int, needs: Sequence[int]) -> Lead | None:
    """The way of a dimension to its most major digit; None if the dimension is never cut."""
    value, position, path = dim, -1, list[tuple[int, int]]()
    sums = (*table.numbers, table.digits)
    while value < len(table.dimensions) + len(table.numbers):
        shares = [
            (digit.step, into, at)
            for into, digits in enumerate(sums)
            for at, digit in enumerate(digits)
            if digit.dim == value
        ]
        if not shares:
            return None
        step, into, position = max(shares)
        path.append((step, sums[into][position].stride))
        value = len(table.dimensions) + into
    align = needs[position]
    for step, stride in [(path[-1][0], 1), *reversed(path[:-1])]:
        align = step * (align // math.gcd(align, stride))
    if not align:
        return None
    return Lead(position, tuple(path), align, width, table.digits[position].extent)


def _stays(whole: Boxes, dim: int, lead: Lead) -> bool:
    """Whether a box that is any multiple of `align` wide has the digits of the whole, but for the most major of `dim`.

    It has others if a tile is longer than the dimension, so that its digit does not show: T(4)(2,2) cuts 7 elements by
    8, which is 1 tile.  Or if `*` joins digits again: T(8)(*,5) rounds a box of 5 up to 8.  Or if a tile holds a whole
    dimension that `*` joins to a more major one: T(*,6) on rows of 6.

    The test is a multiple by a prime that is larger than all tiles: a tile that divides it divides every multiple.
    """
    if lead.align >= whole.widths[dim]:
        return False
    width, layout = lead.align * PRIME, whole.shape.layout
    extents = whole.extents([(0, width) for width in whole.widths])
    extents[lead.position] = lead.places(width) // whole.table.digits[lead.position].stride
    widths = [*whole.widths[:dim], width, *whole.widths[dim + 1 :]]
    digits = table_of(whole.shape.dimensions, widths, layout.major_to_minor, layout.tiles).digits
    return [digit[:3] for digit in digits if digit.extent != 1] == [
        (digit.dim, digit.step, extent) for digit, extent in zip(whole.table.digits, extents) if extent != 1
    ]
