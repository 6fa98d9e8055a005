"""How NumPy executes a move: block by block.  It runs what no faster engine does, by a few rules without a model.

NumPy copies in the order of the target, one element at a time.  So:

- A run of neighbours on both sides moves as one element: f32[1024,512,16] with its first two dimensions exchanged moves
  as [1024,512] elements of 64 bytes.
- If source and target run along different axes, each element of a target run comes from another line of the source.  A
  block takes so few elements along the target that these lines stay in the caches until all of their elements are
  copied.  It is long along the source, over several axes where they are short.
- If the target then consists of short records, a block leaves their axis out.  NumPy's innermost loop runs along the
  next one: planes to RGB go channel by channel.
- All else is copied in the order of the target, in chunks.

Each block is one assignment.  It fills its own padding just before, while its lines are in the caches.  Threads share
the blocks.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.cached import cached_property
from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move, StridedPlaces
from gpulayout.moves.texts import tile_text

SMALL_BYTES = 1 << 18  # a second-level cache holds both sides of smaller moves, so blocks would save nothing
LONGEST_ELEMENT = 512  # the most bytes of a run that moves as one element; NumPy copies longer rows fast as they are
# Elements of a block along the target.  Rows of the source a power of two apart share few sets of a cache, which hold
# hardly more lines than this.
TARGET_RUN = 16
BLOCK_BYTES = 1 << 17  # of a block on each side: much more work than a call of NumPy, less than a second-level cache
RECORD_BYTES = 32  # the most bytes of a short record
CHUNK_BYTES = 3 << 19  # of a chunk on each side
SHARE_BYTES = 1 << 20  # the fewest bytes that justify another thread

Box = tuple[slice, ...]


@dataclass(frozen=True)
class StridedPlan:
    """How a move is cut into blocks.

    move      the move to execute
    threads   number of threads
    itemsize  bytes of an element as NumPy moves it: one element of the move, or a run of them along the minor axis
    block     sizes of a block in places of the target, major first
    """

    move: Move
    threads: int
    itemsize: int
    block: tuple[int, ...]

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Places along each axis of the move, major first."""
        return tuple([axis.extent for axis in reversed(self.move.axes)])

    @cached_property
    def elements(self) -> StridedPlaces:
        """All elements as NumPy moves them: without the minor axis if that is a part of them."""
        places, count = self.move.element_places, len(self.extents) - (self.itemsize > self.move.itemsize)
        return places._replace(
            shape=places.shape[:count],
            source_strides=places.source_strides[:count],
            target_strides=places.target_strides[:count],
        )

    @cached_property
    def block_count(self) -> int:
        """Number of blocks."""
        return math.prod([-(-extent // max(size, 1)) for extent, size in zip(self.extents, self.block)])

    @cached_property
    def least(self) -> int:
        """The fewest blocks that justify another thread."""
        return -(-self.block_count * SHARE_BYTES // max(self.move.bytes_written, 1))

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.block_count // max(self.least, 1), 1), MOST_THREADS)

    @cached_property
    def _words(self) -> tuple[np.dtype, np.dtype, np.generic]:
        """The dtype of an element as NumPy moves it, that of the move's elements, and the pad."""
        word = word_of(self.move.itemsize)
        return word_of(self.itemsize), word, np.frombuffer(self.move.pad, word)[0]

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        elements, (element, word, _) = self.elements, self._words
        reading = strided_view(source, element, elements.shape, source_offset, elements.source_strides)
        writing = strided_view(target, element, elements.shape, target_offset, elements.target_strides)
        if self.block == self.extents and not self.move.is_padded:
            writing[...] = reading  # a small move would feel the calls below
            return
        places = strided_view(target, word, self.extents, target_offset, self.move.element_places.target_strides)
        boxes = boxes_of(self.extents, self.block)
        work = functools.partial(self._write, reading, writing, places, boxes)
        share(work, len(boxes), self.least, self.threads)

    def _write(
        self,
        reading: np.ndarray,
        writing: np.ndarray,
        places: np.ndarray,
        boxes: Sequence[Box],
        first: int,
        last: int,
    ) -> None:
        """Write some blocks."""
        for box in boxes[first:last]:
            if self.move.is_padded:
                self._fill(places, box)
            box = box[: writing.ndim]
            writing[box] = reading[box]  # a slice ends with the elements

    def _fill(self, places: np.ndarray, box: Box) -> None:
        """Write the padding of a block.

        3 x 5 places with 2 x 3 elements: the third row, and the last two columns.
        """
        for k, (part, bound) in enumerate(zip(box, self.move.element_places.shape)):
            if part.stop > bound:
                places[(*box[:k], slice(max(part.start, bound), part.stop), *box[k + 1 :])] = self._words[2]

    def describe(self) -> str:
        """The plan in words."""
        if self.block == self.extents:
            text = f"one np.copyto over {counted(len(self.elements.shape), 'axis')}"
        else:
            text = f"cache blocks of {tile_text(self.block)}"
        text += ", padding filled first" if self.move.is_padded else ""
        text += f", runs of {self.itemsize} bytes as one element" if self.itemsize > self.move.itemsize else ""
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values.  The copy can have fewer axes and larger elements than the move."""
        names = "extent", "source_stride", "target_stride"
        axes = zip(self.elements.shape, self.elements.source_strides, self.elements.target_strides)
        return {
            "element_bytes": self.itemsize,
            "axes": [dict(zip(names, axis)) for axis in axes][::-1],
            "cache_block": self.block[::-1] if self.block != self.extents else None,
            "threads": self.most_threads,
        }


def strided_plan_of(move: Move, threads: int = 1) -> StridedPlan:
    """The plan of a move for NumPy.  Any plan gives the same bytes; this one is decently fast."""
    itemsize = _element_bytes(move)
    block = _block_of(move, itemsize) if move.bytes_written > SMALL_BYTES else [axis.extent for axis in move.axes]
    return StridedPlan(move, threads, itemsize, tuple(block[::-1]))


def _element_bytes(move: Move) -> int:
    """Bytes of an element as NumPy moves it."""
    if len(move.axes) > 1:
        minor = move.axes[0]
        run = minor.bound * move.itemsize
        if minor.source_stride == minor.target_stride == move.itemsize < run <= LONGEST_ELEMENT:
            return run
    return move.itemsize


def _block_of(move: Move, itemsize: int) -> list[int]:
    """The sizes of a block, minor first."""
    block = [move.axes[0].extent] if itemsize > move.itemsize else []
    rest = move.axes[len(block) :]
    width = move.itemsize * math.prod(block)  # bytes for each place along the other axes
    if _is_turned(rest) and rest[0].extent * width <= RECORD_BYTES:
        block.append(1)
        width *= rest[0].extent  # the lines of records stay in a cache until all their places are written
        rest = rest[1:]
    turned = _is_turned(rest)
    most = (BLOCK_BYTES if turned else CHUNK_BYTES) // width
    by_source = sorted(range(len(rest)), key=lambda k: (not rest[k].source_stride, abs(rest[k].source_stride)))
    return [*block, *block_sizes([axis.extent for axis in rest], by_source, TARGET_RUN if turned else most, most)]


def _is_turned(axes: Sequence[Axis]) -> bool:
    """Whether the source runs along another axis than the target.  It does not run along one that repeats it."""
    steps = [abs(axis.source_stride) for axis in axes if axis.bound > 1]
    return any(0 < step < steps[0] for step in steps)


def block_sizes(extents: Sequence[int], by_source: Iterable[int], along_target: int, most: int) -> tuple[int, ...]:
    """The sizes of a block of up to `along_target` elements along the target, then up to `most` along the source.

    extents    of the axes, minor first in the target
    by_source  their indices, minor first in the source

    A block covers several axes where they are short.  Of 3 planes of 1000 x 1000 to pixels, one of 16 elements along
    the target and 12000 in all takes the channels of 5 pixels, then all 1000 pixels of 4 rows.  Blocks along an axis
    are about equally long.

    >>> block_sizes([3, 1000, 1000], [1, 2, 0], 16, 12000)
    (3, 1000, 4)
    """
    block = [1] * len(extents)
    for order, limit in ((range(len(extents)), along_target), (by_source, most)):
        for k in order:
            block[k] = max(block[k], min(extents[k], limit * block[k] // math.prod(block)))
    return tuple([-(-extent // -(-extent // size)) for extent, size in zip(extents, block)])


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
