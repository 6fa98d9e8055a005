"""Moves with arithmetic in NumPy: block by block, so that the temporary arrays of its arithmetic stay in a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpulayout.cpu.blocks import BlockPlan, Box, block_sizes
from gpulayout.cpu.casts import convert_elements
from gpulayout.cpu.float_mode import default_float_mode
from gpulayout.cpu.views import strided_view
from gpulayout.moves.convert_move import ConvertMove

BLOCK = 1 << 16  # elements; threads wait for each other before and after each of NumPy's operations on a block
ALONG_TARGET = 1 << 9  # elements of a block along the target; the rest is along the source


@dataclass(frozen=True)
class ConvertPlan(BlockPlan):
    """The plan of a move with arithmetic."""

    move: ConvertMove

    def execute(
        self,
        source: np.ndarray,
        source_offset: int,
        target: np.ndarray,
        target_offset: int,
        parameters: Sequence[np.ndarray] = (),
    ) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        move, types, axes = self.move, self.move.arithmetic, self.move.axes[::-1]
        strides = tuple([axis.source_stride for axis in axes]), tuple([axis.target_stride for axis in axes])
        views = [
            strided_view(source, types.source.carrier, self.extents, source_offset, strides[0]),
            strided_view(target, types.target.carrier, self.extents, target_offset, strides[1]),
        ]
        for array, offset, steps in zip(parameters, move.parameter_offsets, move.parameter_strides):
            steps = tuple([step * array.itemsize for step in reversed(steps)])
            views.append(np.ndarray(self.extents, array.dtype, array, offset * array.itemsize, steps))

        def write(box: Box) -> None:
            values, result, *others = [view[box + (...,)] for view in views]  # arrays, also without dimensions
            # The law says what becomes of nan, infinity and numbers out of range: no call warns of them.
            with default_float_mode(), np.errstate(all="ignore"):
                convert_elements(types, values, others, result)

        self.share(write)

    def describe(self) -> str:
        """The plan in words."""
        return f"{self.move.arithmetic.form} in {super().describe()}"


def numpy_convert_plan(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    return ConvertPlan(move, threads, block_sizes(move.axes, ALONG_TARGET, BLOCK)[::-1])
