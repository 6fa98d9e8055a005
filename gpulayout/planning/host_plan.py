"""How NumPy carries a move out: one strided copy, cut up where the caches of a CPU ask for it.

NumPy copies in the order of the target, an element at a time.  Two things make that slow, and each has its remedy:

- Runs that stay together on both sides are short.  A run of up to 512 bytes moves as one element of that many bytes:
  f32[1024,512,16] with its first two dimensions exchanged moves as [1024,512] elements of 64 bytes.
- The minor axes differ.  Then the elements of a run in the target come from as many cache lines of the source, and their
  neighbours in these lines are wanted only when the next run is written.  If the first cache has lost the lines by
  then, each is fetched again for each of its elements.  Tiles of 256 x 256 elements are read along the source into a small
  scratch array, and written along the target from there: each line is fetched once.

NumPy's innermost loop is over the minor axis of the target.  With few channels there (3 planes to RGB) the loop ends before
it has begun, so one channel after the other is copied, in pieces of many pixels.

Large moves are shared by threads: tile by tile, or cut along one axis.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.model import checks
from gpulayout.planning.move import Axis, Block, Move

SMALL_BYTES = 1 << 16        # up to here the remedies cost more than they save
LONGEST_ELEMENT = 512        # bytes of a run that is moved as one element
TILE_RUN = 256               # elements of a tile along the source and along the target
NEAR_BYTES = 256             # source elements less than this apart are fetched ahead of their use by the CPU itself
FILL_WHOLE_BYTES = 1024      # with less than this per run of padding, filling everything takes less time than the runs
SECOND_CACHE_BYTES = 1 << 20  # elements of 4 bytes NEAR_BYTES apart are fetched soon enough from there
CHANNELS = 16                # up to so many, minor on one side, may be copied one after the other
PIXELS = 1 << 15             # of a piece then
SHARE_BYTES = 1 << 19        # read, from which on a thread is worth its start
LINE_BYTES, CACHE_LINES, CACHE_SETS = 64, 512, 64          # the first data cache of today's CPUs


@dataclass(frozen=True)
class HostPlan:
    """One copy, and fills of padding.

    itemsize       bytes of an element as NumPy moves it: several of the caller's where they stay together
    block          all elements as one strided copy, axes major first
    tile           extents of the boxes that are copied one after the other; None copies all at once
    scratch        whether boxes go through a scratch array
    cut            the axis of the block along which threads share a copy without tiles
    share          the least number of boxes, or of places along `cut`, for a thread
    source_order   the axes of the block, the most major in the source first
    back_again     the permutation that undoes `source_order`
    fills          the places that get the padding value
    fills_first    the fills cover elements too; else they come after the copy, while new memory is still in the cache
    """

    itemsize: int
    block: Block
    tile: tuple[int, ...] | None
    scratch: bool
    cut: int
    share: int
    source_order: tuple[int, ...]
    back_again: tuple[int, ...]
    fills: tuple[Block, ...]
    fills_first: bool


    @property
    def pieces(self) -> int:
        """What threads share: tiles, or places along `cut`."""
        if not self.tile:
            return self.block.shape[self.cut]
        return math.prod(-(-size // step) for size, step in zip(self.block.shape, self.tile))


@functools.lru_cache(maxsize=4096)
def host_plan(move: Move) -> HostPlan:
    """What NumPy does for a move; any plan gives the same bytes, and this one is quick."""
    itemsize, axes = _long_elements(move)
    order = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    tile = _channel_tile(move, itemsize, axes, order)
    scratch = not tile and _needs_tiles(move, itemsize, axes, order)
    if scratch:
        tile = _tile(axes, order)
    cut, share = _shares(move, axes, tile)
    block = Block(tuple(axis.bound for axis in reversed(axes)), tuple(axis.source_stride for axis in reversed(axes)), 0,
                  tuple(axis.target_stride for axis in reversed(axes)))
    source_order = tuple(len(axes) - 1 - k for k in reversed(order))
    whole = _is_scattered(move)
    everything = Block(tuple(axis.extent for axis in reversed(move.axes)), (), 0, move.block.target_strides)
    fills = (everything,) if whole else move.padding_slabs
    return HostPlan(itemsize, block, tile and tile[::-1], scratch, cut, share, source_order, checks.inverse(source_order), fills, whole)


def _long_elements(move: Move) -> tuple[int, tuple[Axis, ...]]:
    """(bytes of an element, axes of more than one element, minor first), the minor axis taken into the element if it fits."""
    axes = tuple(axis for axis in move.axes if axis.bound != 1)
    if len(axes) > 1 and move.bytes_read > SMALL_BYTES:
        minor = axes[0]
        if minor.source_stride == minor.target_stride == move.itemsize and minor.bound * move.itemsize <= LONGEST_ELEMENT:
            return minor.bound * move.itemsize, axes[1:]
    return move.itemsize, axes


def _channel_tile(move: Move, itemsize: int, axes: Sequence[Axis], order: Sequence[int]) -> tuple[int, ...] | None:
    """One channel of many pixels, minor first, where the channels are minor in the target or many enough in the source.

    NumPy does well with up to 5 channels that are minor in the source, and with some wide ones in the target.
    """
    if move.bytes_read <= SMALL_BYTES or itemsize > 8 or len(axes) < 2 or order[0] == 0:
        return None
    into = axes[0].bound <= (CHANNELS if itemsize < 4 else 4)
    out_of = 5 < axes[order[0]].bound <= CHANNELS
    channel, pixel = (0, order[0]) if into else (order[0], 0)
    dense = abs(axes[channel].target_stride if into else axes[channel].source_stride) == itemsize
    if not (into or out_of) or not dense or axes[pixel].bound < 64 * CHANNELS:
        return None
    return tuple(min(PIXELS, axis.bound) if k == pixel else 1 for k, axis in enumerate(axes))


def _shares(move: Move, axes: Sequence[Axis], tile: tuple[int, ...] | None) -> tuple[int, int]:
    """The axis to cut for threads, and the least number of pieces of one, along it or of tiles."""
    if not axes:
        return 0, 1
    if tile:
        return 0, math.ceil(SHARE_BYTES / (move.bytes_read * math.prod(tile) / move.element_count))
    k = next((k for k in reversed(range(len(axes))) if axes[k].bound >= 64), max(range(len(axes)), key=lambda k: axes[k].bound))
    return len(axes) - 1 - k, math.ceil(SHARE_BYTES * axes[k].bound / max(move.bytes_read, 1))


def most_threads(move: Move) -> int:
    """How many threads a move is worth, if there are so many."""
    plan = host_plan(move)
    if not plan.block.shape or (move.bytes_read < 2 * SHARE_BYTES and not plan.tile):
        return 1
    return max(plan.pieces // plan.share, 1)


def _needs_tiles(move: Move, itemsize: int, axes: Sequence[Axis], order: Sequence[int]) -> bool:
    """Whether the lines that a run of the target touches are lost before the next run wants them again.

    Lines whose distance is a multiple of many lines share the few sets of the cache they can be in: with 4096 bytes from
    one to the next all meet in one set, which holds 8 of the 512 lines.
    """
    if move.bytes_read <= SMALL_BYTES or itemsize > 16 or not axes or order[0] == 0:
        return False
    step = abs(axes[0].source_stride)
    run = math.prod(axis.bound for axis in axes[:order[0]])
    if step < NEAR_BYTES or (step == NEAR_BYTES and itemsize >= 4 and run * step <= SECOND_CACHE_BYTES):
        return False
    lines, rest = divmod(step, LINE_BYTES)
    held = CACHE_LINES if rest else CACHE_LINES // math.gcd(lines, CACHE_SETS)
    return run > held


def _tile(axes: Sequence[Axis], source_order: Sequence[int]) -> tuple[int, ...]:
    """Extents, minor first: at least TILE_RUN elements along the target and along the source, over several axes if need be,
    then more along the source until the tile is worth a call of NumPy."""
    tile = [1] * len(axes)
    for order in (range(len(axes)), source_order):
        covered = 1
        for k in order:
            tile[k] = max(tile[k], min(axes[k].bound, math.ceil(TILE_RUN / covered)))
            covered *= tile[k]
            if covered >= TILE_RUN:
                break
    for k in source_order:
        elements = math.prod(tile)
        if elements < TILE_RUN**2:
            tile[k] = min(axes[k].bound, tile[k] * math.ceil(TILE_RUN**2 / elements))
    return tuple(tile)


def _is_scattered(move: Move) -> bool:
    """Whether the padding lies in so many short runs that filling the whole target takes less time.

    Runs of one place do not count: NumPy fills them in one loop with a stride.
    """
    runs = sum(math.prod(slab.shape[:-1]) for slab in move.padding_slabs if slab.shape[-1] > 1)
    return runs > 1 and move.bytes_written < FILL_WHOLE_BYTES * runs
