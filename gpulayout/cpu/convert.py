"""Moves with arithmetic in NumPy: block by block, so that the temporary arrays of its arithmetic stay in a cache."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.casts import convert_elements
from gpulayout.cpu.float_mode import default_float_mode
from gpulayout.cpu.strided_plan import Box, block_sizes, boxes_of
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.texts import tile_text

BLOCK = 1 << 16  # elements; threads wait for each other before and after each of NumPy's operations on a block
ALONG_TARGET = 1 << 9  # elements of a block along the target; the rest is along the source
SHARE = 1 << 18  # the fewest elements that justify another thread


class ConvertPlan(NamedTuple):
    """How a move with arithmetic is cut into blocks.

    block        sizes of a block, major first in the target
    parameters   of a call: the arrays that the steps take
    """

    move: ConvertMove
    threads: int
    block: tuple[int, ...]
    parameters: Sequence[np.ndarray] = ()

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return math.prod(-(-axis.extent // size) for axis, size in zip(reversed(self.move.axes), self.block))

    @property
    def least(self) -> int:
        """The fewest blocks that justify another thread."""
        return -(-self.block_count * SHARE // max(self.move.element_count, 1))

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.block_count // max(self.least, 1), 1), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        if not self.move.element_count:
            return
        views = self._views(source, source_offset, target, target_offset)
        boxes = boxes_of(views[0].shape, self.block)
        work = functools.partial(_convert_blocks, self.move.arithmetic, views, boxes)
        share(work, self.block_count, self.least, self.threads)

    def _views(
        self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int
    ) -> list[np.ndarray]:
        """The elements on both sides, and those of the parameters, as arrays of one shape."""
        move, types, axes = self.move, self.move.arithmetic, self.move.axes[::-1]
        shape = tuple([axis.extent for axis in axes])
        reading, writing = tuple([axis.source_stride for axis in axes]), tuple([axis.target_stride for axis in axes])
        views = [
            strided_view(source, storage(types.source), shape, source_offset, reading),
            strided_view(target, storage(types.target), shape, target_offset, writing),
        ]
        for parameter, offset, strides in zip(self.parameters, move.parameter_offsets, move.parameter_strides):
            steps = tuple([stride * parameter.itemsize for stride in strides[::-1]])
            views.append(np.ndarray(shape, parameter.dtype, parameter, offset * parameter.itemsize, steps))
        return views

    def describe(self) -> str:
        """The plan in words."""
        text = f"{self.move.arithmetic.form} in blocks of {tile_text(self.block)}"
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "arithmetic": self.move.arithmetic.form,
            "cache_block": self.block[::-1],
            "threads": self.most_threads,
        }


def numpy_convert_plan(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    by_source = sorted(range(len(move.axes)), key=lambda k: abs(move.axes[k].source_stride))
    block = block_sizes([axis.extent for axis in move.axes], by_source, ALONG_TARGET, BLOCK)
    return ConvertPlan(move, threads, block[::-1])


@functools.cache
def storage(element_type: ElementType) -> np.dtype[Any]:
    """The dtype in which the arithmetic reads and writes elements: unsigned integers for types that NumPy lacks."""
    return element_type.carrier if element_type.is_extended else element_type.dtype


def _convert_blocks(
    arithmetic: Arithmetic, views: Sequence[np.ndarray], boxes: Sequence[Box], first: int, last: int
) -> None:
    # The law says what becomes of nan, infinity and numbers out of range: no call warns of them.
    with default_float_mode(), np.errstate(all="ignore"):
        for box in boxes[first:last]:
            values, result, *parameters = [view[box + (...,)] for view in views]
            convert_elements(arithmetic, values, parameters, result)
