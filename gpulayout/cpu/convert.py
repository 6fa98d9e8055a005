"""Moves with arithmetic on the CPU: cache block by cache block, each converted while it is in the caches.

A block is converted along the target and written there.  If the target has the narrower type, and runs along another
axis than the source, a block is converted along the source, into a scratch array, and then scattered: elements change
place in the narrower type.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.cache_blocks import Recipe, block_sizes, scratch_bytes
from gpulayout.cpu.caches import LINE_BYTES, machine_caches
from gpulayout.cpu.casts import ElementConversion
from gpulayout.cpu.grids import Box, Grid, boxes_of, grids_of
from gpulayout.cpu.strided_plan import SHARE_TIME
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.texts import tile_text

# Bytes of a block on both sides and of all temporary arrays, in sizes of the second-level cache.  Smaller blocks would
# stay in it, but threads wait for each other before and after each of NumPy's operations.
CACHE_SHARE = 3
MOST_TEMPORARY = 1 << 17  # elements of a temporary array; malloc gives longer ones back to the system, each time
SHORT_SIDE = 128  # elements of a block along the side that is not converted along
ELEMENT_TIME = 0.5  # nanoseconds for an element, about
SHORT_AXIS = 64  # a parameter that steps along a shorter minor axis is spread over the block


class ConvertPlan(NamedTuple):
    """How a move with arithmetic is cut into blocks.

    order        the axes in the order of the conversion, major first
    block        sizes of a block in this order
    scatters     results go through a scratch array
    share        the fewest blocks for a thread; 0 uses no threads
    parameters   of a call: the arrays that the steps take
    """

    move: ConvertMove
    threads: int
    order: tuple[int, ...]
    block: tuple[int, ...]
    scatters: bool
    share: int
    parameters: Sequence[np.ndarray] = ()

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return math.prod(-(-self.move.axes[k].extent // size) for k, size in zip(self.order, self.block))

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.block_count // self.share, 1), MOST_THREADS) if self.share else 1

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        if not self.move.element_count:
            return
        views = self._views(source, source_offset, target, target_offset)
        grids = [Grid(tuple(views), (), self.block)] if self.block_count == 1 else grids_of(views, self.block)
        if self._spreads_parameters:
            grids = [_with_spread_parameters(grid) for grid in grids]
        is_same = np.may_share_memory(source, target)  # a block of a move in place is read before it is written
        work = functools.partial(
            _convert_blocks,
            conversion_of(self.move),
            grids,
            boxes_of(grids),
            storage(self.move.arithmetic.source) if is_same else None,
            storage(self.move.arithmetic.target) if self.scatters else None,
            self._spreads_parameters,
        )
        share(work, self.block_count, self.share, self.threads)

    def _views(
        self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int
    ) -> list[np.ndarray]:
        """The elements on both sides, and those of the parameters, as arrays of one shape."""
        move, types = self.move, self.move.arithmetic
        axes = [move.axes[k] for k in self.order]
        shape = tuple([axis.extent for axis in axes])
        reading, writing = tuple([axis.source_stride for axis in axes]), tuple([axis.target_stride for axis in axes])
        views = [
            strided_view(source, storage(types.source), shape, source_offset, reading),
            strided_view(target, storage(types.target), shape, target_offset, writing),
        ]
        for parameter, offset, strides in zip(self.parameters, move.parameter_offsets, move.parameter_strides):
            size = parameter.itemsize
            steps = tuple([strides[k] * size for k in self.order])
            views.append(np.ndarray(shape, parameter.dtype, parameter, offset * size, steps))
        return views

    @property
    def _spreads_parameters(self) -> bool:
        """Whether a parameter steps along a short minor axis, over which NumPy's inner loops would be short."""
        if not self.order or self.block[-1] >= SHORT_AXIS:
            return False
        return any(strides[self.order[-1]] for strides in self.move.parameter_strides)

    def describe(self) -> str:
        """The plan in words."""
        text = f"{self.move.arithmetic.form} in blocks of {tile_text(self.block)}"
        text += ", through a scratch array" * self.scatters
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "arithmetic": self.move.arithmetic.form,
            "cache_block": self.block[::-1],
            "scatters": self.scatters,
            "threads": self.most_threads,
        }


def convert_plan_of(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    axes = move.axes
    by_source = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    minor_agrees = by_source[:1] in ([], [0])
    scatters = not minor_agrees and move.arithmetic.source.itemsize > move.arithmetic.target.itemsize
    block = _block_of(move, by_source, minor_agrees, scatters)
    order = tuple(reversed(by_source if scatters else range(len(axes))))
    count = math.prod(-(-axis.extent // size) for axis, size in zip(axes, block))
    time = move.element_count * ELEMENT_TIME
    shared = math.ceil(SHARE_TIME * count / time) if time >= 2 * SHARE_TIME else 0
    return ConvertPlan(move, threads, order, tuple([block[k] for k in order]), scatters, shared)


def _block_of(move: ConvertMove, by_source: Sequence[int], minor_agrees: bool, scatters: bool) -> tuple[int, ...]:
    """Sizes of a block, axes as in the move: as many elements as fit the cache, equally many along both sides if these
    differ.
    """
    types = move.arithmetic
    element_bytes = types.source.itemsize + types.target.itemsize * (1 + scatters)
    element_bytes += conversion_of(move).temporary_bytes
    size = CACHE_SHARE * machine_caches().second.nbytes // element_bytes
    if conversion_of(move).temporary_bytes:
        size = min(size, MOST_TEMPORARY)
    whole = tuple([axis.extent for axis in move.axes])
    if math.prod(whole) <= size:
        return whole
    if minor_agrees:
        return block_sizes(move.axes, by_source, Recipe(size, 1))
    along_target, along_source = (SHORT_SIDE, size // SHORT_SIDE)[:: 1 if scatters else -1]
    while True:  # sides that share axes give smaller blocks
        found = block_sizes(move.axes, by_source, Recipe(along_target, along_source))
        if 2 * math.prod(found) > size:
            return found
        along_target, along_source = 2 * along_target, 2 * along_source


def conversion_of(move: ConvertMove) -> ElementConversion:
    """What converts the elements of a move."""
    return _conversion(move.arithmetic)


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

    gathered, scattered   dtypes of scratch arrays before and after, if they are needed
    spreads               parameters get a value for each element of a block
    """
    reading = [None if gathered is None else np.empty(grid.sizes, gathered) for grid in grids]
    writing = [None if scattered is None else _spaced(grid.sizes, scattered) for grid in grids]
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


def _spaced(sizes: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A scratch array whose rows begin an odd number of lines apart, so that a column uses all sets of a cache."""
    steps, step = [dtype.itemsize], dtype.itemsize * (sizes[-1] if sizes else 1)
    step = (-(-step // LINE_BYTES) | 1) * LINE_BYTES
    for size in reversed(sizes[1:-1]):
        steps.append(step)
        step *= size
    strides = tuple(reversed([*steps, step]))[-len(sizes) :] if sizes else ()
    memory = np.empty(scratch_bytes(dtype.itemsize, sizes, strides), np.uint8)
    return np.ndarray(sizes, dtype, memory, 0, strides)
