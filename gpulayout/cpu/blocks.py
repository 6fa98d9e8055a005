"""How NumPy executes a move: block by block.  It runs what no faster engine does, by one rule without a model.

NumPy copies in the order of the target, one element at a time.  If source and target run along different axes, each
element of a target run comes from another line of the source.  A block takes so few elements along the target that
these lines stay in the caches until all of their elements are copied.  It is long along the source, over several axes
where they are short.  Threads share the blocks.

A block of an ordinary move is one assignment, which fills its padding just before.  Two things are faster than a plain
copy of elements in blocks:

- A run of neighbours on both sides moves as one element: f32[1024,512,16] with its first two dimensions exchanged moves
  as [1024,512] elements of 64 bytes.
- If the target consists of short records, a block leaves their axis out.  NumPy's innermost loop runs along the next
  one: planes to RGB go channel by channel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.cpu.threads import MOST_THREADS, share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.move import Axis, Move, tile_text

SHARE_BYTES = 1 << 20  # the fewest bytes, on the side with more of them, that justify another thread
LONGEST_ELEMENT = 512  # the most bytes of a run that moves as one element; NumPy copies longer rows fast as they are
# Elements of a block along the target.  Rows of the source a power of two apart share few sets of a cache, which hold
# hardly more lines than this.
TARGET_RUN = 16
BLOCK_BYTES = 1 << 17  # of a block on each side: much more work than a call of NumPy, less than a second-level cache
RECORD_BYTES = 32  # the most bytes of a short record

Box = tuple[slice, ...]


@dataclass(frozen=True)
class BlockPlan:
    """How a move is cut into blocks, for at most `threads` threads.

    block   sizes of a block in places of the target, major first
    """

    move: Move | ConvertMove
    threads: int
    block: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Places along each axis of the move, major first."""
        return tuple([axis.extent for axis in reversed(self.move.axes)])

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return math.prod([-(-extent // max(size, 1)) for extent, size in zip(self.extents, self.block)])

    @property
    def least(self) -> int:
        """The fewest blocks that justify another thread."""
        return -(-self.block_count * SHARE_BYTES // max(self.move.bytes_read, self.move.bytes_written, 1))

    @property
    def most_threads(self) -> int:
        return min(max(self.block_count // max(self.least, 1), 1), MOST_THREADS)

    def share(self, write: Callable[[Box], None]) -> None:
        """Call `write` for each block, in several threads."""
        boxes = boxes_of(self.extents, self.block)

        def work(first: int, last: int) -> None:
            for box in boxes[first:last]:
                write(box)

        share(work, len(boxes), self.least, self.threads)

    def describe(self) -> str:
        return "one block" if self.block == self.extents else f"cache blocks of {tile_text(self.block)}"

    def as_json(self) -> dict[str, Any]:
        block = self.block[::-1] if self.block != self.extents else None
        return {"cache_block": block, "threads": self.most_threads}


def block_sizes(axes: Sequence[Axis], along_target: int, most: int) -> tuple[int, ...]:
    """The sizes of a block, minor first: up to `along_target` elements along the target, then up to `most` along the
    source.

    A block covers several axes where they are short.  Of 3 planes of 1000 x 1000 to pixels, one of 16 elements along
    the target and 12000 in all takes the channels of 5 pixels, then all 1000 pixels of 4 rows.  Blocks along an axis
    are about equally long.

    >>> block_sizes([Axis(3, 3, 1000000, 1), Axis(1000, 1000, 1, 3), Axis(1000, 1000, 1000, 3000)], 16, 12000)
    (3, 1000, 4)
    """
    block = [1] * len(axes)
    for order, limit in ((range(len(axes)), along_target), (source_order(axes), most)):
        for k in order:
            block[k] = max(block[k], min(axes[k].extent, limit * block[k] // math.prod(block)))
    return tuple([-(-axis.extent // max(-(-axis.extent // size), 1)) for axis, size in zip(axes, block)])


def source_order(axes: Sequence[Axis]) -> list[int]:
    """The axes in the order of the source, its minor one first; those that repeat it are last."""
    return sorted(range(len(axes)), key=lambda k: (not axes[k].source_stride, abs(axes[k].source_stride)))


def boxes_of(extents: Sequence[int], block: Sequence[int]) -> list[Box]:
    """All blocks of an array, the last axis first.  Those at the end of an axis can be shorter.

    >>> boxes_of([5], [2])
    [(slice(0, 2, None),), (slice(2, 4, None),), (slice(4, 5, None),)]
    """
    cuts = [
        [slice(start, min(start + size, extent)) for start in range(0, extent, size)]
        for extent, size in zip(extents, block)
    ]
    return list(itertools.product(*cuts))


# ---- ordinary moves --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StridedPlan(BlockPlan):
    """The plan of an ordinary move.

    itemsize   bytes of an element as NumPy moves it: one element of the move, or a run of them along the minor axis
    """

    move: Move
    itemsize: int

    @property
    def elements(self) -> tuple[Axis, ...]:
        """The axes of elements as NumPy moves them, major first: without the minor one if that is part of them."""
        return self.move.axes[self.itemsize > self.move.itemsize :][::-1]

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        move, elements, word = self.move, self.elements, word_of(self.itemsize)
        bounds = tuple([axis.bound for axis in elements])
        strides = tuple([axis.target_stride for axis in reversed(move.axes)])
        reading = strided_view(source, word, bounds, source_offset, tuple([axis.source_stride for axis in elements]))
        writing = strided_view(target, word, bounds, target_offset, strides[: len(bounds)])
        if self.block == self.extents and not move.is_padded:
            writing[...] = reading  # a small move would feel the calls below
            return
        places = strided_view(target, word_of(move.itemsize), self.extents, target_offset, strides)
        pad = np.frombuffer(move.pad, places.dtype)[0]

        def write(box: Box) -> None:
            if any(part.stop > axis.bound for part, axis in zip(box, reversed(move.axes))):
                places[box] = pad
            box = box[: len(bounds)]
            writing[box] = reading[box]  # a slice ends with the elements

        self.share(write)

    def describe(self) -> str:
        is_whole = self.block == self.extents
        text = f"one np.copyto over {counted(len(self.elements), 'axis')}" if is_whole else super().describe()
        text += ", padding filled first" if self.move.is_padded else ""
        return text + (f", runs of {self.itemsize} bytes as one element" if self.itemsize > self.move.itemsize else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values.  The copy can have fewer axes and larger elements than the move."""
        names = "extent", "source_stride", "target_stride"
        axes = [dict(zip(names, axis[1:])) for axis in reversed(self.elements)]
        return {"element_bytes": self.itemsize, "axes": axes, **super().as_json()}


def strided_plan_of(move: Move, threads: int = 1) -> StridedPlan:
    """The plan of an ordinary move for NumPy.  Any plan gives the same bytes; this one is decently fast."""
    itemsize = width = move.itemsize
    minor: tuple[int, ...] = ()
    axes = move.axes
    if len(axes) > 1:
        run, record = axes[0].bound * itemsize, axes[0].extent * itemsize
        if axes[0].source_stride == axes[0].target_stride == itemsize < run <= LONGEST_ELEMENT:
            itemsize, width, minor, axes = run, record, (axes[0].extent,), axes[1:]
        elif record <= RECORD_BYTES and source_order(axes)[0] != 0 and move.bytes_written > BLOCK_BYTES:
            width, minor, axes = record, (1,), axes[1:]  # lines of records stay in a cache for all their places
    block = (*minor, *block_sizes(axes, TARGET_RUN, BLOCK_BYTES // width))
    return StridedPlan(move, threads, block[::-1], itemsize)
