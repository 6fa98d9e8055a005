"""How NumPy carries a move out: one strided copy, cut up where the caches of a CPU ask for it.

NumPy copies in the order of the target, an element at a time.  What makes that slow has its remedy:

- Runs that stay together on both sides are short.  A run of up to 512 bytes moves as one element of that many bytes:
  f32[1024,512,16] with its first two dimensions exchanged moves as [1024,512] elements of 64 bytes.
- The minor axes differ.  Then cache blocks go through a scratch array; see `cache_blocks`.
- There are few channels, minor in the target (3 planes to RGB).  NumPy's innermost loop ends before it has begun, so one
  channel after the other is copied, in chunks that stay in the cache until all channels are there.
- There is padding.  Written on its own it is fetched and written back once more, so it is filled chunk by chunk as well.

Large moves are shared by threads: block by block, or cut along one axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from gpulayout.cpu.cache_blocks import NEAR_BYTES, cache_block_extents, needs_cache_blocks, scratch_strides
from gpulayout.cpu.strided_copy import Fill, HostPlan
from gpulayout.moves.kinds import AnyMove, Piece, Pieces
from gpulayout.moves.move import Axis, Move, Slab

SMALL_BYTES = 1 << 16  # up to here the remedies cost more than they save
LONGEST_ELEMENT = 512  # bytes of a run that is moved as one element
FILL_WHOLE_BYTES = 1024  # with less than this per run of padding, filling everything takes less time than the runs
RECORD_BYTES = 32  # records of up to so many are written one channel after the other
CHUNK_BYTES = 3 << 19  # of the target in a chunk
SHORT_RUN = 64  # of pixels, from which on a loop over them beats one over the channels
SHARE_BYTES = 1 << 19  # read or filled, from which on a thread is worth its start


def host_plan(move: Move, threads: int = 1) -> HostPlan:
    """What NumPy does for a move; any plan gives the same bytes, and this one is quick."""
    by_channels = _goes_by_channels(move)
    itemsize, axes = _long_elements(move, not by_channels)
    order = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    block: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()
    if not by_channels and move.bytes_read > SMALL_BYTES and needs_cache_blocks(itemsize, axes, order):
        block = cache_block_extents(itemsize, axes, order, threads)
        scratch = scratch_strides(itemsize, axes, order, block)[::-1]
    slab = Slab(
        tuple(axis.bound for axis in reversed(axes)),
        tuple(axis.source_stride for axis in reversed(axes)),
        0,
        tuple(axis.target_stride for axis in reversed(axes)),
    )
    return HostPlan(
        move,
        threads,
        itemsize,
        slab,
        by_channels,
        block[::-1],
        scratch,
        *_Cut.of(move, axes, block, by_channels),
        *_fills(move),
    )


def _goes_by_channels(move: Move) -> bool:
    """Whether the target is made of short records of channels that lie elsewhere in the source.

    Where they lie in records there as well, but of another length, records of 3 are still copied so: those of 3, 6 and
    12 bytes are slow as elements.
    """
    axes = _axes(move)
    if move.bytes_read <= SMALL_BYTES or len(axes) < 2 or axes[0].target_stride != move.itemsize:
        return False
    channel, pixel = axes[0], min(axes[1:], key=lambda axis: abs(axis.source_stride))
    together = abs(channel.source_stride) <= abs(pixel.source_stride)
    near = pixel.target_stride <= NEAR_BYTES and pixel.bound >= SHORT_RUN
    if together:
        return (
            near
            and channel.bound == 3
            and move.itemsize <= 4
            and channel.source_stride == move.itemsize
            and pixel.source_stride <= NEAR_BYTES
        )
    return near and channel.bound * move.itemsize <= RECORD_BYTES


def _axes(move: Move) -> tuple[Axis, ...]:
    """The axes along which elements lie, minor first."""
    return tuple(axis for axis in move.axes if axis.bound != 1)


def _long_elements(move: Move, allowed: bool) -> tuple[int, tuple[Axis, ...]]:
    """(bytes of an element, axes of more than one element, minor first), the minor axis taken into the element if it
    fits.
    """
    axes = _axes(move)
    if allowed and len(axes) > 1 and move.bytes_read > SMALL_BYTES:
        minor = axes[0]
        if (
            minor.source_stride == minor.target_stride == move.itemsize
            and minor.bound * move.itemsize <= LONGEST_ELEMENT
        ):
            return minor.bound * move.itemsize, axes[1:]
    return move.itemsize, axes


class _Cut(NamedTuple):
    """How the work is counted; the fields of HostPlan."""

    cut: int
    fill_cut: int
    chunk: int
    places: int
    share: int

    @staticmethod
    def of(move: Move, axes: Sequence[Axis], block: tuple[int, ...], by_channels: bool) -> _Cut:
        weight = max(move.bytes_read, move.bytes_written)
        if block:
            count = math.prod(-(-axis.bound // step) for axis, step in zip(axes, block))
            return _Cut(0, 0, 0, count, _share(count, weight))
        if not axes:
            return _Cut(0, 0, 0, 0, 0)
        chunked = weight > CHUNK_BYTES and (by_channels or move.is_padded)
        fine = CHUNK_BYTES if chunked else weight // 64
        # Never the channels: there are up to RECORD_BYTES of them, and SHORT_RUN pixels or more.
        k = next(
            (k for k in reversed(range(len(axes))) if axes[k].bound * fine >= weight),
            max(range(len(axes)), key=lambda k: axes[k].bound),
        )
        count = axes[k].extent
        return _Cut(
            len(axes) - 1 - k,
            len(move.axes) - 1 - move.axes.index(axes[k]),
            max(CHUNK_BYTES * count // weight, 1) if chunked else 0,
            count,
            _share(count, weight) if weight >= 2 * SHARE_BYTES else 0,
        )


def _share(count: int, weight: int) -> int:
    """The least number of `count` equal parts of `weight` bytes that is worth a thread."""
    return math.ceil(SHARE_BYTES * count / weight)


def _fills(move: Move) -> tuple[tuple[Fill, ...], bool]:
    """Where padding is written, and whether everything is filled before the copy.

    It is when the padding lies in so many short runs that it takes less time.
    """
    slabs, whole = move.padding_slabs, _are_scattered([move], [Piece(move)])
    if whole:
        slabs = (Slab(tuple(axis.extent for axis in reversed(move.axes)), (), 0, move.slab.target_strides),)
    return tuple(Fill(slab, _fill_share(move, slab)) for slab in slabs), whole


def host_pieces(pieces: Pieces) -> Pieces:
    """The pieces in the order in which NumPy does them.

    Where the padding lies in many short runs, the whole target is filled first and nothing after that.
    """
    fills = [piece.move for piece in pieces if _is_fill(piece.move)]
    if not fills or len(pieces) == 1 or not _are_scattered(fills, pieces):
        return pieces
    move = fills[0]
    last = max(piece.target_offset + piece.move.target_span[1] for piece in pieces)
    everything = Move((Axis(last // move.itemsize, 0, 0, move.itemsize),), move.itemsize, move.pad, ((),))
    return (Piece(everything), *(piece for piece in pieces if not _is_fill(piece.move)))


def _is_fill(move: AnyMove) -> TypeGuard[Move]:
    """Whether a move writes only padding, in whole bytes: in a half byte at the end, the other bits stay 0."""
    return isinstance(move, Move) and not move.element_count


def _are_scattered(fills: Sequence[Move], pieces: Sequence[Piece]) -> bool:
    """Whether the padding in some moves, of a target that is written by pieces, lies in so many short runs that filling
    everything takes less time.

    Runs of one place between long runs of elements do not count: NumPy fills them in one loop with a stride.
    """
    runs = sum(
        math.prod(slab.shape[:-1])
        for move in fills
        for slab in move.padding_slabs
        if slab.shape[-1] > 1 or move.axes[0].extent * move.itemsize <= RECORD_BYTES
    )
    return runs > 1 and sum(piece.move.bytes_written for piece in pieces) < FILL_WHOLE_BYTES * runs


def _fill_share(move: Move, slab: Slab) -> int:
    weight = math.prod(slab.shape) * move.itemsize
    return _share(slab.shape[0], weight) if weight >= 2 * SHARE_BYTES else 0
