"""How a buffer is cut into slabs: runs of whole tiles and whole bytes, each of them the buffer of a smaller shape.

A slab is a box that is one run.  f32[100,60]{1,0:T(8,128)} is cut into units of 8 rows, 1024 places each: four units
are the buffer of f32[32,60] in the same layout, and the thirteenth, the last one, is that of f32[4,60].  If one unit of
the most major dimension is too large, the next dimension is cut too: f32[4,1000,60]{2,1,0} into single indices of
dimension 0 and ranges of dimension 1.

The cuts of all dimensions together are a grid over the logical array, as the chunks of a Dask array are.  Slabs that
lie beyond the logical sizes hold only padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gpulayout.layout.frozen import cached_property
from gpulayout.layout.shape import Shape
from gpulayout.moves.boxes import boxes, rounded

Sizes = tuple[int, ...]
Chunks = tuple[Sizes, ...]  # for every dimension, the sizes of its pieces
Item = TypeVar("Item")


class Unit(NamedTuple):
    """Where one of the most major dimensions may be cut.

    size        elements along the dimension; every cut is a multiple of it
    length      places in the buffer
    is_single   False for several indices that share a byte: then no more minor dimension can be cut
    """

    dim: int
    size: int
    length: int
    is_single: bool


def units(shape: Shape) -> tuple[Unit, ...]:
    """The dimensions that may be cut, most major first.

    >>> from gpulayout import parse_shape
    >>> units(parse_shape("f32[100,60]{1,0:T(8,128)}"))
    (Unit(dim=0, size=8, length=1024, is_single=True),)
    >>> units(parse_shape("u4[5,3]{0,1:E(4)}"))
    (Unit(dim=1, size=2, length=10, is_single=False),)
    """
    whole = boxes(shape)
    leads = {lead.position: (dim, lead) for dim, lead in enumerate(whole.leads) if lead}
    units: list[Unit] = []
    for position in reversed(range(len(whole.table.digits))):
        if position in leads:
            dim, lead = leads[position]
            units.append(Unit(dim, lead.align, lead.places(lead.align), lead.values(lead.align) == 1))
        if whole.table.digits[position].extent != 1 and not (position in leads and units[-1].is_single):
            break
    return tuple(units)


@dataclass(frozen=True)
class Slabs:
    """The slabs of a shape's buffer.

    borders   for every dimension where it is cut, from 0 to its padded width
    """

    shape: Shape
    borders: Chunks

    @cached_property
    def chunks(self) -> Chunks:
        """For every dimension the logical sizes of its pieces, without those that are only padding."""
        return tuple(
            tuple(size for size in sizes if size) or (0,) for sizes in map(_sizes, self.borders, self.shape.bounds)
        )

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every slab, in the order of the buffer.  Slabs of the same sizes share one object."""
        whole, bounds = boxes(self.shape), self.shape.bounds
        tail = self.shape.buffer_size - whole.table.buffer_size
        shape_of: dict[tuple[tuple[int, int], ...], Shape] = {}  # by the logical size and the width of every dimension
        shapes = []
        in_order = list(self._in_order([list(itertools.pairwise(borders)) for borders in self.borders]))
        for box in in_order:
            sizes = tuple((max(min(end, size) - start, 0), end - start) for (start, end), size in zip(box, bounds))
            if sizes not in shape_of:
                shape_of[sizes] = whole.part(box)
            shapes.append(shape_of[sizes])
        return (*shapes[:-1], whole.part(in_order[-1], tail=tail)) if tail else tuple(shapes)

    @cached_property
    def blocks(self) -> tuple[Sizes | None, ...]:
        """For every slab, in the order of the buffer, its position in the grid of `chunks`; None if all is padding."""
        full = [len(sizes) if any(sizes) else 0 for sizes in self.chunks]
        return tuple(
            position if all(map(int.__lt__, position, full)) else None
            for position in self._in_order([range(len(borders) - 1) for borders in self.borders])
        )

    @property
    def lengths(self) -> Sizes:
        """The length of every slab as an array of the buffer's dtype: in elements, or in bytes when they are packed."""
        return tuple(slab.buffer_length for slab in self.shapes)

    @property
    def largest(self) -> int:
        """Bytes of the largest slab."""
        return max(slab.nbytes for slab in self.shapes)

    def in_order_of_memory(self) -> Slabs:
        """The same slabs, with the dimensions of the shape most major first."""
        order = self.shape.layout.major_to_minor
        return Slabs(self.shape.permute_dimensions(order), tuple(self.borders[dim] for dim in order))

    def _in_order(self, pieces: Sequence[Sequence[Item]]) -> Iterator[tuple[Item, ...]]:
        """One piece of every dimension, in the order of the slabs in the buffer."""
        order, position = self.shape.layout.major_to_minor, self.shape.layout.logical_to_physical()
        for cell in itertools.product(*(pieces[dim] for dim in order)):
            yield tuple(cell[number] for number in position)


def _sizes(borders: Sizes, size: int) -> Sizes:
    """How much of 0..size lies between neighbouring borders.

    >>> _sizes((0, 4, 8, 12), 6)
    (4, 2, 0)
    """
    return tuple(max(0, min(end, size) - start) for start, end in itertools.pairwise(borders))


def _steps(start: int, end: int, step: int) -> Sizes:
    """The borders from `start` to `end`."""
    return (*range(start, end, step), end) if end > start else (start,)


def _whole(shape: Shape) -> list[Sizes]:
    return [(0, width) for width in shape.buffer_dimensions]


def slabs_of_size(shape: Shape, limit: int) -> Slabs:
    """Slabs of at most `limit` bytes, as large as they can be; one unit of the last leading dimension may take more.

    The bytes are those of the buffer or, for packed elements, those of the larger logical array.

    >>> from gpulayout import parse_shape
    >>> [str(slab) for slab in slabs_of_size(parse_shape("f32[20,60]{1,0:T(8,128)}"), 10_000).shapes]
    ['f32[16,60]{1,0:T(8,128)}', 'f32[4,60]{1,0:T(8,128)}']
    >>> slabs_of_size(parse_shape("f32[2,1000,60]"), 120_000).borders
    ((0, 1, 2), (0, 500, 1000), (0, 60))
    """
    borders, leading = _whole(shape), units(shape) if shape.buffer_size else ()
    for unit, following in zip(leading, (*leading[1:], None)):
        fitting = limit // (unit.length * shape.itemsize)
        goes_deeper = fitting < 1 and unit.is_single and following is not None
        borders[unit.dim] = _steps(0, shape.buffer_dimensions[unit.dim], unit.size * max(fitting, 1))
        if not goes_deeper:
            break
    return Slabs(shape, tuple(borders))


def slabs_of_chunks(shape: Shape, chunks: Chunks, limit: int) -> Slabs | None:
    """The slabs whose logical arrays are these chunks, or None if they are not slabs.

    What is only padding is cut as `slabs_of_size` does.

    >>> from gpulayout import parse_shape
    >>> slabs_of_chunks(parse_shape("f32[20,60]{1,0:T(8,128)}"), ((8, 12), (60,)), 2**20).borders
    ((0, 8, 20), (0, 60))
    >>> slabs_of_chunks(parse_shape("f32[20,60]{1,0:T(8,128)}"), ((10, 10), (60,)), 2**20)
    """
    if any(0 in sizes for sizes in chunks):
        return None
    wanted = [(0, *itertools.accumulate(sizes)) for sizes in chunks]
    borders, cut = _whole(shape), set(range(shape.rank))
    for unit in units(shape):
        cut.discard(unit.dim)
        size, width = shape.bounds[unit.dim], shape.buffer_dimensions[unit.dim]
        if any(border % unit.size for border in wanted[unit.dim][1:-1]):
            return None
        deeper = unit.length * shape.itemsize > limit or any(len(chunks[dim]) > 1 for dim in cut)
        if deeper and unit.is_single and wanted[unit.dim] == _steps(0, size, unit.size):  # single units
            borders[unit.dim] = _steps(0, width, unit.size)
            continue
        most = unit.size * max(limit // (unit.length * shape.itemsize), 1)
        last = wanted[unit.dim][-2]
        end = min(width, last + max(rounded(size - last, unit.size), most))  # padding that fits joins the last slab
        borders[unit.dim] = (*wanted[unit.dim][:-1], *_steps(end, width, most))
        break
    whole = all(len(chunks[dim]) == 1 for dim in cut)
    return Slabs(shape, tuple(borders)) if whole else None


def slabs_of_lengths(shape: Shape, lengths: Sizes) -> Slabs | None:
    """The slabs with these lengths, cut along the most major dimension; None if there are none.

    >>> from gpulayout import parse_shape
    >>> slabs_of_lengths(parse_shape("f32[4,10]"), (20, 20)).borders
    ((0, 2, 4), (0, 10))
    >>> slabs_of_lengths(parse_shape("f32[4,10]"), (15, 25))
    """
    if len(lengths) == 1:
        return Slabs(shape, tuple(_whole(shape)))
    leading = units(shape)[:1]
    if not leading or 0 in lengths:
        return None
    unit, borders = leading[0], _whole(shape)
    ends = (0, *itertools.accumulate(lengths[:-1]))
    places = [end * 8 // shape.bits_per_element if shape.is_packed else end for end in ends]
    cuts, width = tuple(place // unit.length * unit.size for place in places), shape.buffer_dimensions[unit.dim]
    if cuts[-1] >= width or any(place % unit.length for place in places):
        return None
    borders[unit.dim] = (*cuts, width)
    return Slabs(shape, tuple(borders))
