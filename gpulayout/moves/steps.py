"""The steps of a relayout in place: each says which moves it makes, in which order, and what workspace it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move, coalesce
from gpulayout.moves.texts import tile_text


class Copy(NamedTuple):
    """One move between the buffer and the workspace, or within one of them; offsets in bytes."""

    move: Move
    from_workspace: bool
    source_offset: int
    to_workspace: bool
    target_offset: int


Loops = tuple[tuple[int, int, int], ...]  # count, and bytes of a step on either side, major first


@dataclass(frozen=True)
class Slabs:
    """Slab by slab: read into the workspace, and written back in another order, maybe to another place.

    loops        over the slabs, with the steps between places that are read and between those that are written
    read, write  to and from the workspace
    backwards    the last slab comes first: slabs move away from the beginning of the buffer
    offset       of the first slab
    """

    loops: Loops
    read: Move
    write: Move
    backwards: bool = False
    offset: int = 0

    def __str__(self) -> str:
        first = ", the last one first" if self.backwards and self.count > 1 else ""
        return f"{counted(self.count, 'slab')} of {counted(self.workspace, 'byte')}, each put in another order{first}"

    @property
    def count(self) -> int:
        return math.prod(count for count, _, _ in self.loops)

    @property
    def workspace(self) -> int:
        return self.read.bytes_written

    @property
    def bytes_moved(self) -> int:
        return 2 * self.count * self.read.bytes_read

    def copies(self) -> Iterator[Copy]:
        """The moves, in order."""
        turn = -1 if self.backwards else 1
        for place in itertools.product(*(range(count)[::turn] for count, _, _ in self.loops)):
            read, write = (
                self.offset + sum(number * loop[side] for number, loop in zip(place, self.loops)) for side in (1, 2)
            )
            yield Copy(self.read, False, read, True, 0)
            yield Copy(self.write, True, 0, False, write)


@dataclass(frozen=True)
class Swaps:
    """Parts of the array change places in pairs.  The two strides of an axis are those of another one, exchanged.

    axes       of the whole array
    sizes      of a part along each axis; the last part may be smaller
    partners   the number of the other axis; an axis with equal strides is its own
    """

    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    partners: tuple[int, ...]
    itemsize: int

    def __str__(self) -> str:
        return f"swaps of parts of up to {tile_text(self.sizes[::-1])}, {counted(self.workspace, 'byte')}"

    @property
    def workspace(self) -> int:
        return math.prod(self.sizes) * self.itemsize

    @property
    def bytes_moved(self) -> int:
        return 2 * math.prod(axis.extent for axis in self.axes) * self.itemsize

    def copies(self) -> Iterator[Copy]:
        """The moves, in order."""
        corners = itertools.product(*(range(0, axis.extent, size) for axis, size in zip(self.axes, self.sizes)))
        for corner in corners:
            here = sum(start * axis.source_stride for start, axis in zip(corner, self.axes))
            there = sum(start * axis.target_stride for start, axis in zip(corner, self.axes))
            if here > there:
                continue
            part = [
                resized(axis, min(size, axis.extent - start))
                for axis, size, start in zip(self.axes, self.sizes, corner)
            ]
            read, write = through_workspace(part, self.itemsize)
            yield Copy(read, False, here, True, 0)
            if here < there:
                other = [resized(axis, part[partner].extent) for axis, partner in zip(self.axes, self.partners)]
                yield Copy(move_of(other, self.itemsize), False, there, False, here)
            yield Copy(write, True, 0, False, there)


@dataclass(frozen=True)
class Blocks:
    """Equal blocks of consecutive bytes, moved along the cycles of their permutation.

    axes    extents, and strides in bytes of the blocks before and after
    block   one block
    """

    axes: tuple[Axis, ...]
    block: Move

    def __str__(self) -> str:
        return f"{counted(self.block_count, 'block')} of {counted(self.workspace, 'byte')}, moved along cycles"

    @property
    def workspace(self) -> int:
        return self.block.bytes_read

    @property
    def block_count(self) -> int:
        return math.prod(axis.extent for axis in self.axes)

    @property
    def bytes_moved(self) -> int:
        return 2 * self.block_count * self.block.bytes_read

    def copies(self) -> Iterator[Copy]:
        """The moves, in order.  One bit for each block says whether it has moved."""
        size = self.block.bytes_read
        before = [(axis.extent, axis.source_stride // size, axis.target_stride // size) for axis in self.axes]
        moved = bytearray(-(-self.block_count // 8))
        for first in range(self.block_count):
            if moved[first >> 3] >> (first & 7) & 1:
                continue
            place, source = first, _source(before, first)
            if source == first:
                continue
            yield Copy(self.block, False, first * size, True, 0)
            while source != first:
                yield Copy(self.block, False, source * size, False, place * size)
                moved[source >> 3] |= 1 << (source & 7)
                place, source = source, _source(before, source)
            yield Copy(self.block, True, 0, False, place * size)


def _source(axes: Iterable[tuple[int, int, int]], place: int) -> int:
    """The number, before, of the block that comes to a place."""
    return sum(place // after % extent * before for extent, before, after in axes)


@dataclass(frozen=True)
class Kept:
    """Elements that wait in the workspace while the others move.

    move     to the workspace, or back
    back     True for the way back
    offset   in the buffer
    kept     where they begin in the workspace
    """

    move: Move
    back: bool
    offset: int
    kept: int

    def __str__(self) -> str:
        return f"{counted(self.move.bytes_read, 'byte')} {'back from' if self.back else 'to'} the workspace"

    @property
    def workspace(self) -> int:
        return self.kept + self.move.bytes_read

    @property
    def bytes_moved(self) -> int:
        return self.move.bytes_read

    def copies(self) -> Iterator[Copy]:
        """The only move."""
        if self.back:
            yield Copy(self.move, True, self.kept, False, self.offset)
        else:
            yield Copy(self.move, False, self.offset, True, self.kept)


Step = Slabs | Swaps | Blocks | Kept
Steps = tuple[Step, ...]


# ---- moves ---------------------------------------------------------------------------------------------------------


def move_of(axes: Sequence[Axis], itemsize: int) -> Move:
    """The move along these axes, in any order."""
    order = sorted((axis for axis in axes if axis.extent > 1), key=lambda axis: axis.target_stride)
    joined, made_of = coalesce(order)
    return Move(joined, itemsize, bytes(itemsize), made_of)


def through_workspace(axes: Iterable[Axis], itemsize: int) -> tuple[Move, Move]:
    """The same move as two: into consecutive bytes of the workspace, in the order of the source, and from there."""
    read, write, step = [], [], itemsize
    for axis in sorted(axes, key=lambda axis: axis.source_stride):
        read.append(axis._replace(target_stride=step))
        write.append(axis._replace(source_stride=step))
        step *= axis.extent
    return move_of(read, itemsize), move_of(write, itemsize)


def resized(axis: Axis, extent: int) -> Axis:
    """The axis with another number of elements, none of them padding."""
    return axis._replace(extent=extent, bound=extent)
