"""A relayout in blocks: boxes of the logical array, each a smaller relayout that takes bounded memory.

Both sides cut the array into the same boxes.  A box of the source is a few long runs if it covers many coordinates of
the source's minor dimensions; one of the target, if it covers the target's.  Memory bounds the product:

    f32[39000,39001]{1,0} to {0,1} in 384 MB    boxes of 6500 x 6501: 169 MB on each side, runs of 26 KB on both

`box_grid` finds the longest runs that both sides can have.  Where they are too short, two passes through a scratch file
move longer ones.  The scratch file has one more layout, whose tiles are what a slab of the source and a slab of the
target have in common:

    f32[39000,39001]{1,0}  to  {1,0:T(1148,1148)}    slabs of 1148 rows: one run of 179 MB on both sides
    {1,0:T(1148,1148)}     to  {0,1}                 slabs of 1148 columns: runs of 5.3 MB (a tile), and one of 179 MB

Elements may change on the way.  The scratch file then has the narrower of the two types, so that they change in one
pass only.

Two passes read and write everything twice.  This is the external transposition of Aggarwal and Vitter, "The
input/output complexity of sorting and related problems" (1988), with tiles as long as memory allows.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpulayout.layout.errors import LayoutError, shown_as
from gpulayout.layout.frozen import cached_property
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.tile import Tile
from gpulayout.moves.boxes import Boxes, Interval, boxes, line_shape, rounded
from gpulayout.moves.move import check_same_dimensions, check_storable
from gpulayout.moves.runs import Runs

SHORT_RUN = 1 << 15  # bytes; shorter runs cost more than reading and writing everything twice


class BlockShapes(NamedTuple):
    """A block: the shapes of its own two buffers, and where these bytes lie in the large buffers.

    box   the coordinates of its elements in the large array; () for a fill of the tail, which has none
    """

    source: Shape
    target: Shape
    source_runs: Runs
    target_runs: Runs
    box: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class BoxGrid:
    """A relayout cut into a grid of boxes over the logical array.

    source, target   the two sides
    whole_target     the target with its tail, which is filled after the boxes
    sizes            coordinates of a box in every dimension; the last box of a dimension may have fewer
    max_bytes        the limit for a block
    """

    source: Boxes
    target: Boxes
    whole_target: Shape
    sizes: tuple[int, ...]
    max_bytes: int

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Boxes along every dimension."""
        return tuple(-(-width // size) for width, size in zip(self.target.widths, self.sizes))

    @cached_property
    def box_count(self) -> int:
        return math.prod(self.counts)

    @cached_property
    def block_count(self) -> int:
        """The number of blocks: boxes, then fills of the tail."""
        first, last = self._tail
        return self.box_count + -(-(last - first) // self._tail_step)

    @property
    def _tail_step(self) -> int:
        """Places of the tail that a block fills: whole bytes."""
        bits = self.whole_target.bits_per_element
        return max(self.max_bytes * 8 // max(bits, 8) * max(8 // bits, 1), 1)

    @property
    def _tail(self) -> Interval:
        """Places of the target after the last box.  If that ends inside a byte, it is filled to the end of the byte."""
        ended = self.target.table.buffer_size if self.box_count else 0
        per_byte = 8 // self.whole_target.bits_per_element if self.whole_target.is_packed else 1
        return min(-(-ended // per_byte) * per_byte, self.whole_target.buffer_size), self.whole_target.buffer_size

    def box(self, number: int) -> tuple[Interval, ...]:
        """The coordinates of a box.  Boxes that follow one another in the target have consecutive numbers."""
        intervals = [(0, 0)] * len(self.sizes)
        for dim in self.target.shape.layout.minor_to_major:
            number, coordinate = divmod(number, self.counts[dim])
            first = coordinate * self.sizes[dim]
            intervals[dim] = first, min(first + self.sizes[dim], self.target.widths[dim])
        return tuple(intervals)

    def block(self, number: int) -> BlockShapes:
        """One of the blocks."""
        if number >= self.box_count:
            return self._fill(number - self.box_count)
        box = self.box(number)
        read = self.read_box(box)
        is_last = number + 1 == self.box_count
        tail = self._tail[0] - self.target.table.buffer_size if is_last else 0
        source, target = self.source.part(read), self.target.part(box, tail=tail)
        elements = tuple([(first, first + size) for (first, _), size in zip(box, target.dimensions)])
        return BlockShapes(source, target, self.source.runs(read), self.target.runs(box), elements)

    def read_box(self, box: Sequence[Interval]) -> tuple[Interval, ...]:
        """What a box reads: up to the end of the elements; a box that begins at 0 also reads padding that is kept."""
        return tuple(self._read_along(dim, *interval) for dim, interval in enumerate(box))

    def _read_along(self, dim: int, first: int, last: int) -> Interval:
        size = self.source.shape.dimensions[dim]
        if first >= size:
            return 0, 0
        if last < size:
            return first, last
        return first, self.source.end_of(dim) if first else self.source.widths[dim]

    def _fill(self, number: int) -> BlockShapes:
        """A block of the tail."""
        first, last = self._tail
        first += number * self._tail_step
        places = min(self._tail_step, last - first)
        target = line_shape(self.whole_target, 0, places)
        read = self.source.shape
        nothing = Layout((0,), element_size_in_bits=read.layout.element_size_in_bits)
        empty = Shape(read.element_type, (0,), nothing)
        bits = target.bits_per_element
        return BlockShapes(empty, target, Runs(0, 0), Runs(first * bits // 8, target.nbytes))

    @property
    def source_run_bytes(self) -> int:
        """Bytes of a run in the source, in the first block; 0 without blocks."""
        return self.block(0).source_runs.length if self.block_count else 0

    @property
    def target_run_bytes(self) -> int:
        """Bytes of a run in the target, in the first block; 0 without blocks."""
        return self.block(0).target_runs.length if self.block_count else 0

    @cached_property
    def block_bytes(self) -> int:
        """Bytes of the largest block's two buffers."""
        return self.most_bytes(source=True, target=True)

    def most_bytes(self, source: bool, target: bool) -> int:
        """The most bytes of a block's buffers, of one side or of both."""
        first, last = self._tail
        tail = -(-min(self._tail_step, last - first) * self.whole_target.bits_per_element // 8) if target else 0
        if not self.box_count:
            return tail
        box = self.box(0)
        boxes = self.source.nbytes(self.read_box(box)) * source + self.target.nbytes(box) * target
        return max(boxes, tail)

    @cached_property
    def bytes_read(self) -> int:
        """Bytes of all source runs: elements, and the padding between them that is cheaper to read than to skip."""
        if not self.source.shape.element_count:
            return 0
        extents = self.source.extents([(0, width) for width in self.source.widths])
        for dim, lead in enumerate(self.source.leads):
            if lead:  # one box begins where the one before it ends, so only the end of the last one matters
                size = self.sizes[dim]
                first = (self.source.shape.dimensions[dim] - 1) // size * size
                extents[lead.position] = lead.values(self._read_along(dim, first, first + size)[1])
        return -(-math.prod(extents) * self.source.shape.bits_per_element // 8)


@shown_as(LayoutError)
class NoSmallerBlock(LayoutError):
    """No block takes so few bytes.

    max_bytes   the limit of a block, which may be a share of what a caller wrote
    needs       what the message says after it: the move, and the smallest block
    """

    def __init__(self, max_bytes: int, needs: str):
        super().__init__(f"max_bytes {max_bytes} is too small {needs}")
        self.max_bytes, self.needs = max_bytes, needs


@functools.lru_cache(maxsize=64)  # a model has thousands of tensors of a few shapes
def box_grid(source: Shape, target: Shape, max_bytes: int) -> BoxGrid:
    """The relayout in blocks whose two buffers have at most `max_bytes` together, with runs as long as possible.

    LayoutError when the shapes have other dimensions, or when even the smallest block is larger.
    """
    check_same_dimensions(source, target)
    check_storable(source)
    check_storable(target)
    reading, writing = boxes(source, reads=True), boxes(target)
    least = tuple(_least(reading, writing, dim) for dim in range(source.rank))

    def limited(length: int, other: int) -> BoxGrid:
        """With runs of these lengths, in the source and in the target."""
        wanted = zip(least, map(min, reading.sizes_for(length), source.dimensions), writing.sizes_for(other))
        sizes = [rounded(max(unit, read, written), unit) for unit, read, written in wanted]
        within = tuple([min(size, max(width, 1)) for size, width in zip(sizes, writing.widths)])
        return BoxGrid(reading, writing, target, within, max_bytes)

    whole = limited(max_bytes, max_bytes)
    if whole.block_bytes <= max_bytes:  # what the search would end with, 90 steps earlier
        return _balanced(whole, least)
    smallest = limited(1, 1)
    if smallest.block_bytes > max_bytes:
        raise NoSmallerBlock(
            max_bytes,
            f"to relayout {source} to {target}: the smallest block, of "
            f"{'x'.join(map(str, smallest.sizes)) or '1'} coordinates, takes {smallest.block_bytes} bytes",
        )
    both = _longest(lambda length: limited(length, length).block_bytes <= max_bytes, max_bytes)
    written = _longest(lambda length: limited(both, length).block_bytes <= max_bytes, max_bytes)
    read = _longest(lambda length: limited(length, written).block_bytes <= max_bytes, max_bytes)
    return _balanced(limited(read, written), least)


def _least(reading: Boxes, writing: Boxes, dim: int) -> int:
    """The smallest box along a dimension: a multiple of what both sides need, at most up to the end of the elements.

    Behind the elements only the target is cut.
    """
    unit = writing.align[dim]
    elements = max(rounded(reading.shape.dimensions[dim], unit), unit)
    return min(math.lcm(reading.align[dim], unit), elements, max(writing.widths[dim], 1))


def _longest(fits: Callable[[int], bool], most: int) -> int:
    """The largest length up to `most` that fits; 1 fits."""
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _balanced(grid: BoxGrid, least: Sequence[int]) -> BoxGrid:
    """The same number of blocks, of about equal sizes."""
    sizes = tuple(
        min(rounded(-(-max(width, 1) // max(count, 1)), unit), size)
        for width, count, unit, size in zip(grid.target.widths, grid.counts, least, grid.sizes)
    )
    return replace(grid, sizes=sizes)


# ---- two passes ------------------------------------------------------------------------------------------------


def passes(source: Shape, target: Shape, max_bytes: int) -> tuple[tuple[Shape, Shape], ...]:
    """The source and the target of one pass or of two: two if their runs are at least twice as long.

    LayoutError when neither has blocks that small.
    """
    shortest, refused = 0, None
    try:
        one = box_grid(source, target, max_bytes)
        shortest = min(one.source_run_bytes, one.target_run_bytes)
        if shortest >= SHORT_RUN or one.block_count < 2:
            return ((source, target),)
    except LayoutError as error:
        refused = error
    scratch = scratch_shape(source, target, max(max_bytes, 1), packed=refused is None)
    if scratch is not None:
        two = (source, scratch), (scratch, target)
        with contextlib.suppress(LayoutError):  # tiles that both sides have in common may be larger than those of one
            grids = [box_grid(*sides, max_bytes) for sides in two]
            if min(min(grid.source_run_bytes, grid.target_run_bytes) for grid in grids) >= 2 * shortest:
                return two
    if refused:
        raise refused
    return ((source, target),)


def scratch_shape(source: Shape, target: Shape, max_bytes: int, *, packed: bool = True) -> Shape | None:
    """The layout of a scratch file that both a slab of the source and a slab of the target are long runs of.

    A slab is what memory holds of consecutive bytes.  The tiles of the scratch file are the boxes that two slabs have
    in common.  None for an array without elements.

    Of two element types it has the narrower one, or else the source's.

    packed   elements are packed as on the sides.  Otherwise they take whole bytes, and a dimension that one side never
             cuts can be cut by the other: u4[5,5]{1,0:E(4)} to {0,1:E(4)} goes by pairs of rows, then pairs of columns
    """
    if not source.element_count or not source.rank:
        return None
    sides = boxes(source, reads=True), boxes(target)
    narrow = min(source, target, key=lambda side: side.bits_per_element if packed else side.itemsize)
    bits = narrow.bits_per_element if packed else 8 * narrow.itemsize
    slabs = [_slab(side, max_bytes, bits) for side in sides]
    tile = []
    for dim, size in enumerate(source.dimensions):
        unit = math.lcm(*(side.align[dim] for side in sides if packed or side.leads[dim]))
        unit = math.lcm(unit, 8 // min(bits, 8)) if dim == source.layout.minor_to_major[0] else unit
        wanted = min(size, *(slab[dim] for slab in slabs))
        parts = -(-size // max(wanted // unit * unit, unit))
        tile.append(rounded(-(-size // parts), unit))
    order = source.layout.minor_to_major
    layout = Layout(
        order,
        tiles=(Tile(tuple(tile[dim] for dim in reversed(order))),),
        element_size_in_bits=bits if bits < 8 else 0,
        bit_order=narrow.layout.bit_order if packed else "little",
    )
    return Shape(narrow.element_type, source.dimensions, layout)


def _slab(side: Boxes, max_bytes: int, bits: int) -> tuple[int, ...]:
    """The sizes of the largest box that is one run and leaves room for its copy in tiles that do not divide it.

    bits   of an element of the copy
    """
    own = side.shape.bits_per_element
    most = max(max_bytes * 15 * own // (16 * (own + bits)), 1)

    def fits(length: int) -> bool:
        return side.nbytes([(0, min(size, width)) for size, width in zip(side.sizes_for(length), side.widths)]) <= most

    return side.sizes_for(_longest(fits, most))
