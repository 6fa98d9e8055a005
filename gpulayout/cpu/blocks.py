"""How NumPy executes a move: block by block.  It runs what no faster engine does, by one rule without a model.

NumPy copies in the order of the target, one element at a time.  If source and target run along different axes, each
element of a target run comes from another line of the source.  A block takes so few elements along the target that
these lines stay in the caches until all of their elements are copied.  It is long along the source, over several axes
where they are short.  Threads share the blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayout.cpu.threads import MOST_THREADS, share
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.texts import tile_text

SHARE_BYTES = 1 << 20  # the fewest bytes, on the side with more of them, that justify another thread

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
        """The most threads that speed the move up."""
        return min(max(self.block_count // max(self.least, 1), 1), MOST_THREADS)

    def share(self, write: Callable[[Box], None]) -> None:
        """Call `write` for each block, in several threads."""
        boxes = boxes_of(self.extents, self.block)

        def work(first: int, last: int) -> None:
            for box in boxes[first:last]:
                write(box)

        share(work, len(boxes), self.least, self.threads)

    def describe(self) -> str:
        """The plan in words."""
        return "one block" if self.block == self.extents else f"cache blocks of {tile_text(self.block)}"

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
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
