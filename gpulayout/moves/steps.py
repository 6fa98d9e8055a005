"""The steps of a relayout in place: each says which moves it makes, in which order, and what workspace it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move, coalesce
from gpulayout.moves.texts import tile_text

MOST_LISTED = 1 << 17  # blocks, whose numbers take a megabyte


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
    at_once      how many slabs the workspace holds, for as many threads; 1 if slabs move to other places
    """

    loops: Loops
    read: Move
    write: Move
    backwards: bool = False
    offset: int = 0
    at_once: int = 1

    def __str__(self) -> str:
        first = ", the last one first" if self.backwards and self.count > 1 else ""
        return f"{counted(self.count, 'slab')} of {counted(self.part_bytes, 'byte')}, each put in another order{first}"

    @property
    def count(self) -> int:
        return math.prod(count for count, _, _ in self.loops)

    @property
    def part_bytes(self) -> int:
        """Bytes of a slab."""
        return self.read.bytes_written

    @property
    def workspace(self) -> int:
        return self.at_once * self.part_bytes

    @property
    def bytes_moved(self) -> int:
        return 2 * self.count * self.part_bytes

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The moves, in order; or those of every so manieth slab, whose workspace begins at 0 too."""
        turn = -1 if self.backwards else 1
        places = itertools.product(*(range(count)[::turn] for count, _, _ in self.loops))
        for place in itertools.islice(places, first, None, every):
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
    at_once    how many parts the workspace holds, for as many threads
    """

    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    partners: tuple[int, ...]
    itemsize: int
    at_once: int = 1

    def __str__(self) -> str:
        return f"swaps of parts of up to {tile_text(self.sizes[::-1])}, {counted(self.part_bytes, 'byte')}"

    @property
    def part_bytes(self) -> int:
        """Bytes of the largest part."""
        return math.prod(self.sizes) * self.itemsize

    @property
    def workspace(self) -> int:
        return self.at_once * self.part_bytes

    @property
    def bytes_moved(self) -> int:
        return 2 * math.prod(axis.extent for axis in self.axes) * self.itemsize

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The moves, in order; or those of every so manieth part, whose workspace begins at 0 too."""
        corners = itertools.product(*(range(0, axis.extent, size) for axis, size in zip(self.axes, self.sizes)))
        for corner in itertools.islice(corners, first, None, every):
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
    at_once: ClassVar = 1

    def __str__(self) -> str:
        return f"{counted(self.count, 'block')} of {counted(self.part_bytes, 'byte')}, moved along cycles"

    @property
    def count(self) -> int:
        return math.prod(axis.extent for axis in self.axes)

    @property
    def part_bytes(self) -> int:
        """Bytes of a block."""
        return self.block.bytes_read

    @property
    def workspace(self) -> int:
        return self.part_bytes

    @property
    def bytes_moved(self) -> int:
        return 2 * self.count * self.part_bytes

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The moves, in order; they cannot be shared out."""
        size = self.part_bytes
        for source, target in self.numbers():
            yield Copy(self.block, source is None, (source or 0) * size, target is None, (target or 0) * size)

    def numbers(self) -> Iterator[tuple[int | None, int | None]]:
        """From which place each block moves to which, in order; None is the workspace.

        One bit for each block says whether it has moved, and up to 2^17 blocks have a table of where they come from.
        """
        source_of = self._sources()
        moved = bytearray(-(-self.count // 8))
        for first in range(self.count):
            if moved[first >> 3] >> (first & 7) & 1:
                continue
            place, source = first, source_of(first)
            if source == first:
                continue
            yield first, None
            while source != first:
                yield source, place
                moved[source >> 3] |= 1 << (source & 7)
                place, source = source, source_of(source)
            yield None, place

    def _sources(self) -> Callable[[int], int]:
        """A function of a place: the block that comes to it."""
        size = self.part_bytes
        axes = [(axis.extent, axis.source_stride // size, axis.target_stride // size) for axis in self.axes]
        if self.count <= MOST_LISTED:
            places, found = np.arange(self.count), np.zeros(self.count, np.int64)
            for extent, before, after in axes:
                found += places // after % extent * before
            return found.data.__getitem__
        return lambda place: sum(place // after % extent * before for extent, before, after in axes)


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
    at_once: ClassVar = 1

    def __str__(self) -> str:
        return f"{counted(self.move.bytes_read, 'byte')} {'back from' if self.back else 'to'} the workspace"

    @property
    def part_bytes(self) -> int:
        """Bytes of what is kept."""
        return self.move.bytes_read

    @property
    def workspace(self) -> int:
        return self.kept + self.part_bytes

    @property
    def bytes_moved(self) -> int:
        return self.part_bytes

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
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
