"""The steps of a relayout in place, as plain values.  `in_place` chooses them, and backends execute them.

`StepInPlace` says what all of them have.  One more kind of step, for sides with padding or packed elements, is in
`streamed_in_place`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move, coalesce
from gpulayout.moves.pieces import AnyMove

MOST_LISTED = 1 << 17  # blocks, whose numbers take a megabyte


class Copy(NamedTuple):
    """One move between the buffer and the workspace, or within one of them; offsets in bytes."""

    move: AnyMove
    from_workspace: bool
    source_offset: int
    to_workspace: bool
    target_offset: int


class StepInPlace(ABC):
    """What every step has; most read and write each of their parts once, through the workspace.

    kind                its name in `InPlace.as_json`
    count, part_bytes   how many slabs, parts or blocks there are, and the bytes of one
    at_once             so many of its moves can go on at once, each with `part_bytes` of the workspace
    bitmap_bytes        host memory beside the workspace
    """

    kind: ClassVar[str]
    count: Any
    part_bytes: Any
    at_once: int = 1
    bitmap_bytes: Any = 0

    @property
    def workspace(self) -> int:
        """Bytes that it takes.  The workspace begins anew with every step, except for what is kept."""
        return self.at_once * int(self.part_bytes)

    @property
    def bytes_moved(self) -> int:
        """Bytes of the buffer that are read or written."""
        return int(2 * self.count * self.part_bytes)

    @abstractmethod
    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """Its moves, in order: those of every `every`-th slab or part, from number `first`."""


Steps = tuple[StepInPlace, ...]

Loops = tuple[tuple[int, int, int], ...]  # count, and bytes of a step on either side, major first


@dataclass(frozen=True)
class SlabReorders(StepInPlace):
    """Slab by slab: read into the workspace, and written back in another order.

    count        of the slabs, one behind the other
    read, write  to and from the workspace
    offset       of the first slab
    at_once      how many slabs the workspace holds, for as many threads
    """

    count: int
    read: Move
    write: Move
    offset: int = 0
    at_once: int = 1
    kind: ClassVar = "slabs"

    def __str__(self) -> str:
        return f"{counted(self.count, 'slab')} of {counted(self.part_bytes, 'byte')}, each put in another order"

    @property
    def part_bytes(self) -> int:
        return self.read.bytes_written

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """For each slab: a read into the workspace, and a write to the place where it was."""
        for number in range(first, self.count, every):
            offset = self.offset + number * self.part_bytes
            yield Copy(self.read, False, offset, True, 0)
            yield Copy(self.write, True, 0, False, offset)


@dataclass(frozen=True)
class Chain(StepInPlace):
    """Slab by slab, each put in another order on its way to the place that the one before has left.

    The first slab waits in the workspace, and takes the place of the last one.  Slabs 0 to 3 become 1, 2, 3, 0.

    loops        over the slabs, major first: count, and bytes of a step on the side that is read and that is written
    direct       from place to place
    read, write  to and from the workspace
    backwards    the last slab comes first: 0 to 3 become 3, 0, 1, 2
    """

    loops: Loops
    direct: Move
    read: Move
    write: Move
    backwards: bool
    kind: ClassVar = "chain"

    def __str__(self) -> str:
        first = ", the last one first" if self.backwards else ""
        return f"{counted(self.count, 'slab')} of {counted(self.part_bytes, 'byte')}, each to the place before{first}"

    @property
    def count(self) -> int:
        return math.prod(count for count, _, _ in self.loops)

    @property
    def part_bytes(self) -> int:
        return self.read.bytes_written

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The first slab to the workspace; each of the others to the place that its predecessor left; the first slab to
        the place that the last one left.
        """
        turn, left = -1 if self.backwards else 1, -1
        for slab in itertools.product(*(range(count)[::turn] for count, _, _ in self.loops)):
            read, write = (sum(number * loop[side] for number, loop in zip(slab, self.loops)) for side in (1, 2))
            if left < 0:
                yield Copy(self.read, False, read, True, 0)
            else:
                yield Copy(self.direct, False, read, False, left)
            left = write
        yield Copy(self.write, True, 0, False, left)


@dataclass(frozen=True)
class Swaps(StepInPlace):
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
    kind: ClassVar = "swaps"

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.sizes[::-1]))
        return f"{counted(self.count, 'part')} of up to {sizes} elements, {counted(self.part_bytes, 'byte')}, in pairs"

    @property
    def count(self) -> int:
        return math.prod(-(-axis.extent // size) for axis, size in zip(self.axes, self.sizes))

    @property
    def part_bytes(self) -> int:
        return math.prod(self.sizes) * self.itemsize

    @property
    def bytes_moved(self) -> int:
        return 2 * math.prod(axis.extent for axis in self.axes) * self.itemsize

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """For each pair of parts: the first one to the workspace, the second to the first's place, the first from the
        workspace to the second's.  A part that is its own partner goes through the workspace and back.
        """
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
class BlockCycles(StepInPlace):
    """Equal blocks of consecutive bytes, moved along the cycles of their permutation.

    axes    extents, and strides in bytes of the blocks before and after
    block   one block
    ahead   blocks by which chains shift all places, before and after: number `ahead` is at place 0
    """

    axes: tuple[Axis, ...]
    block: Move
    ahead: tuple[int, int] = (0, 0)
    kind: ClassVar = "blocks"

    def __str__(self) -> str:
        return f"{counted(self.count, 'block')} of {counted(self.part_bytes, 'byte')}, moved along cycles"

    @property
    def count(self) -> int:
        return math.prod(axis.extent for axis in self.axes)

    @property
    def part_bytes(self) -> int:
        return self.block.bytes_read

    @property
    def bitmap_bytes(self) -> int:
        """One bit for each block says whether it has moved."""
        return -(-self.count // 8)

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The moves of `numbers` with offsets in bytes: for each cycle of the permutation its first block to the
        workspace, every other block to its target, and the first one to the place left at last.
        """
        size = self.part_bytes
        for source, target in self.numbers():
            yield Copy(self.block, source is None, (source or 0) * size, target is None, (target or 0) * size)

    def numbers(self) -> Iterator[tuple[int | None, int | None]]:
        """From which place each block moves to which, in order; None is the workspace.

        Up to 2^17 blocks have a table of where they come from.
        """
        source_of = self._sources()
        moved = bytearray(self.bitmap_bytes)
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
        """A function of a place: the place of the block that comes to it."""
        size, count, (before, after) = self.part_bytes, self.count, self.ahead
        axes = [(axis.extent, axis.source_stride // size, axis.target_stride // size) for axis in self.axes]

        def source_of(place: Any) -> Any:
            number = (place + after) % count
            return (sum(number // step % extent * stride for extent, stride, step in axes) - before) % count

        return source_of(np.arange(count)).data.__getitem__ if count <= MOST_LISTED else source_of


@dataclass(frozen=True)
class Leftover(StepInPlace):
    """Elements that wait in the workspace while the others move.

    move     to the workspace, or back
    back     True for the way back
    offset   in the buffer
    kept     the byte of the workspace where they begin
    """

    move: Move
    back: bool
    offset: int
    kept: int
    count = 1
    kind: ClassVar = "kept"

    def __str__(self) -> str:
        return f"{counted(self.move.bytes_read, 'byte')} {'back from' if self.back else 'to'} the workspace"

    @property
    def part_bytes(self) -> int:
        return self.move.bytes_read

    @property
    def workspace(self) -> int:
        return self.kept + self.part_bytes

    @property
    def bytes_moved(self) -> int:
        return self.part_bytes

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The one move, in either direction."""
        if self.back:
            yield Copy(self.move, True, self.kept, False, self.offset)
        else:
            yield Copy(self.move, False, self.offset, True, self.kept)


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
