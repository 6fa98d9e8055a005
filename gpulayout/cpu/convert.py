"""Moves with arithmetic on the CPU: cache block by cache block, each converted while it is in the caches.

Elements change place in the narrower type.  If that is the source's, a block is converted along the target, and what it
reads there is first gathered; else it is converted along the source, and what comes out is then scattered.  Where both
run along the same axis, the arithmetic reads the source and writes the target itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.cache_blocks import Recipe, block_sizes
from gpulayout.cpu.casts import ElementConversion
from gpulayout.cpu.grids import Box, Grid, boxes_of, grids_of
from gpulayout.cpu.strided_plan import SHARE_TIME
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.texts import tile_text

BLOCK = 1 << 14  # elements of a block, about; its scratch arrays stay in the second-level cache
ELEMENT_TIME = 0.5  # nanoseconds for an element, about
SHORT_AXIS = 64  # a parameter that steps along a shorter minor axis is spread over the block


class ConvertPlan(NamedTuple):
    """How a move with arithmetic is cut into blocks.

    order        the axes in the order of the conversion, major first
    block        sizes of a block in this order
    gathered     the elements are gathered into a scratch array first
    scattered    the results are scattered from a scratch array
    share        the fewest blocks for a thread; 0 uses no threads
    parameters   of a call: the arrays that the steps take
    """

    move: ConvertMove
    threads: int
    order: tuple[int, ...]
    block: tuple[int, ...]
    gathered: bool
    scattered: bool
    share: int
    parameters: Sequence[np.ndarray] = ()

    @property
    def block_count(self) -> int:
        return math.prod(-(-self.move.axes[k].extent // size) for k, size in zip(self.order, self.block))

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.block_count // self.share, 1), MOST_THREADS) if self.share else 1

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        move = self.move
        if not move.element_count:
            return
        axes = [move.axes[k] for k in self.order]
        shape = tuple([axis.extent for axis in axes])
        sides = (
            (source, move.arithmetic.source, source_offset, [axis.source_stride for axis in axes]),
            (target, move.arithmetic.target, target_offset, [axis.target_stride for axis in axes]),
        )
        views = [
            strided_view(memory, storage(element_type), shape, offset, tuple(strides))
            for memory, element_type, offset, strides in sides
        ]
        for parameter, offset, strides in zip(self.parameters, move.parameter_offsets, move.parameter_strides):
            size = parameter.itemsize
            steps = tuple([strides[k] * size for k in self.order])
            views.append(strided_view(parameter, parameter.dtype, shape, offset * size, steps))
        grids = grids_of(views, self.block)
        if self._spreads_parameters:
            grids = [_with_spread_parameters(grid) for grid in grids]
        is_same = np.may_share_memory(source, target)  # a block of a move in place is read before it is written
        work = functools.partial(
            _convert_blocks,
            _conversion(move.arithmetic),
            grids,
            boxes_of(grids),
            storage(move.arithmetic.source) if self.gathered or is_same else None,
            storage(move.arithmetic.target) if self.scattered else None,
            self._spreads_parameters,
        )
        share(work, self.block_count, self.share, self.threads)

    @property
    def _spreads_parameters(self) -> bool:
        """Whether a parameter steps along a short minor axis, over which NumPy's inner loops would be short."""
        if not self.order or self.block[-1] >= SHORT_AXIS:
            return False
        return any(strides[self.order[-1]] for strides in self.move.parameter_strides)

    def describe(self) -> str:
        """The plan in words."""
        move = self.move
        way = "gathered, then " * self.gathered + "converted" + ", then scattered" * self.scattered
        text = f"{move.arithmetic.form} in blocks of {tile_text(self.block)}, {way}"
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "arithmetic": self.move.arithmetic.form,
            "cache_block": self.block[::-1],
            "gathered": self.gathered,
            "scattered": self.scattered,
            "threads": self.most_threads,
        }


def convert_plan_of(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    axes = move.axes
    by_source = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    minor_agrees = by_source[:1] in ([], [0])
    is_wide = move.arithmetic.source.itemsize > move.arithmetic.target.itemsize
    block = _block_of(move, by_source, minor_agrees)
    order = tuple(reversed(by_source if is_wide and not minor_agrees else range(len(axes))))
    count = math.prod(-(-axis.extent // size) for axis, size in zip(axes, block))
    time = move.element_count * ELEMENT_TIME
    return ConvertPlan(
        move,
        threads,
        order,
        tuple([block[k] for k in order]),
        not minor_agrees and not is_wide,
        not minor_agrees and is_wide,
        math.ceil(SHARE_TIME * count / time) if time >= 2 * SHARE_TIME else 0,
    )


def _block_of(move: ConvertMove, by_source: Sequence[int], minor_agrees: bool) -> tuple[int, ...]:
    """Sizes of a block, axes as in the move: about BLOCK elements, equally many along both sides if these differ."""
    axes, whole = move.axes, tuple([axis.extent for axis in move.axes])
    if math.prod(whole) <= BLOCK:
        return whole
    if minor_agrees:
        return block_sizes(axes, by_source, Recipe(BLOCK, 1))
    side = math.isqrt(BLOCK)
    while True:  # sides that share axes give smaller blocks
        found = block_sizes(axes, by_source, Recipe(side, side))
        if 2 * math.prod(found) > BLOCK:
            return found
        side *= 2


_conversion = functools.lru_cache(maxsize=256)(ElementConversion)


@functools.cache
def storage(element_type: ElementType) -> np.dtype[Any]:
    """The dtype in which the arithmetic reads and writes elements: unsigned integers for types that NumPy lacks."""
    return element_type.carrier if element_type.is_extended else element_type.dtype


def _with_spread_parameters(grid: Grid) -> Grid:
    """The grid with a value for each element of a block in parameters that are the same for all blocks."""
    source, target, *parameters = grid.arrays
    count, spread = len(grid.counts), []
    for parameter in parameters:
        if not any(parameter.strides[:count]):
            block = np.ascontiguousarray(parameter[(0,) * count])
            parameter = np.broadcast_to(block, parameter.shape)
        spread.append(parameter)
    return grid._replace(arrays=(source, target, *spread))


def _convert_blocks(
    conversion: ElementConversion,
    grids: Sequence[Grid],
    boxes: Sequence[Box],
    gathered: np.dtype[Any] | None,
    scattered: np.dtype[Any] | None,
    spreads: bool,
    first: int,
    last: int,
) -> None:
    """Convert some blocks.

    gathered, scattered   dtypes of scratch arrays, if they are needed
    spreads               parameters get a value for each element of a block
    """
    reading = [None if gathered is None else np.empty(grid.sizes, gathered) for grid in grids]
    writing = [None if scattered is None else np.empty(grid.sizes, scattered) for grid in grids]
    with np.errstate(all="ignore"):  # the law says what becomes of nan, infinity and numbers out of range
        for k, at in boxes[first:last]:
            values, result, *parameters = [array[at + (...,)] for array in grids[k].arrays]
            if spreads:
                parameters = [np.ascontiguousarray(parameter) for parameter in parameters]
            scratch, found = reading[k], writing[k]
            if scratch is not None:
                scratch[...] = values
                values = scratch
            if found is None:
                conversion.convert(values, parameters, result)
            else:
                conversion.convert(values, parameters, found)
                result[...] = found
