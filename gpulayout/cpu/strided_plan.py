"""Ordinary moves by NumPy: each block is one assignment, which fills its padding just before.

Two things are faster than a plain copy of elements in blocks:

- A run of neighbours on both sides moves as one element: f32[1024,512,16] with its first two dimensions exchanged moves
  as [1024,512] elements of 64 bytes.
- If the target consists of short records, a block leaves their axis out.  NumPy's innermost loop runs along the next
  one: planes to RGB go channel by channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.cpu.blocks import BlockPlan, Box, block_sizes, source_order
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move

LONGEST_ELEMENT = 512  # the most bytes of a run that moves as one element; NumPy copies longer rows fast as they are
# Elements of a block along the target.  Rows of the source a power of two apart share few sets of a cache, which hold
# hardly more lines than this.
TARGET_RUN = 16
BLOCK_BYTES = 1 << 17  # of a block on each side: much more work than a call of NumPy, less than a second-level cache
RECORD_BYTES = 32  # the most bytes of a short record


@dataclass(frozen=True)
class StridedPlan(BlockPlan):
    """The plan of a move.

    itemsize   bytes of an element as NumPy moves it: one element of the move, or a run of them along the minor axis
    """

    move: Move
    itemsize: int

    @property
    def elements(self) -> tuple[Axis, ...]:
        """The axes of elements as NumPy moves them, major first: without the minor one if that is part of them."""
        return self.move.axes[self.itemsize > self.move.itemsize :][::-1]

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
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
        """The plan in words."""
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
    """The plan of a move for NumPy.  Any plan gives the same bytes; this one is decently fast."""
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
