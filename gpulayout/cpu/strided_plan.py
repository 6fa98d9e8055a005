"""How NumPy executes a move: one strided copy, cut into parts where the caches of a CPU need it.

NumPy copies in the order of the target, one element at a time.  Five things make that slow, and each has a remedy:

- Contiguous runs are short.  A run of up to 512 bytes can move as one element of that size: f32[1024,512,16] with its
  first two dimensions exchanged moves as [1024,512] elements of 64 bytes.
- The minor axes differ.  Cache blocks are copied, some of them through a scratch array; see `cache_blocks`.
- The elements of short records have 1 or 2 bytes, on either side.  Arithmetic copies them faster; see `short_records`.
- There is padding.  A separate pass would fetch it and write it back again, so it is filled chunk by chunk too.
- There is padding between a few channels (3 planes to RGB in 4 bytes).  Channels are then copied one by one, in chunks
  that stay in the cache until all channels are written.

Threads share large moves: cache blocks, or parts along one axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

from gpulayout.cpu.cache_blocks import Way, best_way
from gpulayout.cpu.short_records import ShortRecords, short_records
from gpulayout.cpu.strided_copy import Fill, StridedPlan
from gpulayout.moves.kinds import AnyMove, Piece, Pieces
from gpulayout.moves.move import Axis, Move, StridedPlaces

SMALL_BYTES = 1 << 16  # for smaller moves the remedies cost more than they save
LONGEST_ELEMENT = 512  # the most bytes of a run that moves as one element
FILL_WHOLE_BYTES = 1024  # with fewer bytes per run of padding, filling everything is faster than filling the runs
RECORD_BYTES = 32  # records of up to this many bytes are written channel by channel
CHUNK_BYTES = 3 << 19  # bytes of the target in a chunk
SHORT_RUN = 64  # pixels; from this many on, a loop over pixels beats one over channels
NEAR_BYTES = 256  # neighbours less than this apart share pages and often lines
SHARE_TIME = 125e3  # nanoseconds of work that justify a thread; docs/performance.md has the figures
FILL_TIME, CHANNEL_TIME = 0.05, 0.1  # nanoseconds for a byte: of padding, and of elements that go channel by channel


def strided_plan_of(move: Move, threads: int = 1) -> StridedPlan:
    """The plan of a move for NumPy.  Any plan gives the same bytes; this one is fast."""
    by_channels = _goes_by_channels(move)
    records = short_records(move.itemsize, _axes(move)) if move.bytes_read > SMALL_BYTES else None
    way, time = _way_of(move, threads, by_channels or records is not None)
    axes = way.axes
    elements = StridedPlaces(
        tuple(axis.bound for axis in reversed(axes)),
        tuple(axis.source_stride for axis in reversed(axes)),
        0,
        tuple(axis.target_stride for axis in reversed(axes)),
    )
    return StridedPlan(
        move,
        threads,
        way.itemsize,
        elements,
        by_channels,
        records,
        () if way.is_whole else way.block[::-1],
        way.scratch[::-1],
        *_WorkUnits.of(move, way, by_channels, records, time),
        *_fills(move),
    )


def _way_of(move: Move, threads: int, by_channels: bool) -> tuple[Way, float]:
    """The way to copy the elements, and the nanoseconds for them and the padding with one thread."""
    axes = _axes(move)
    whole = Way(move.itemsize, axes, tuple(axis.bound for axis in axes), ())
    padding = (move.bytes_written - move.bytes_read) * FILL_TIME
    if not axes or not move.bytes_read or move.bytes_read < SMALL_BYTES:
        return whole, padding
    if by_channels:
        return whole, padding + move.bytes_read * CHANNEL_TIME
    sizes = [(move.itemsize, axes), *_long_elements(move, axes)]
    way, time = best_way(sizes, threads)
    return way, time + padding


def _goes_by_channels(move: Move) -> bool:
    """Whether the target consists of short records with padding between them, whose channels are far apart in the
    source, or near each other too.

    Without padding, cache blocks that leave the channels out do the same.
    """
    axes = _axes(move)
    if not move.is_padded or move.bytes_read <= SMALL_BYTES or len(axes) < 2 or axes[0].target_stride != move.itemsize:
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
    """The axes with more than one element, minor first."""
    return tuple(axis for axis in move.axes if axis.bound != 1)


def _long_elements(move: Move, axes: tuple[Axis, ...]) -> Iterator[tuple[int, Sequence[Axis]]]:
    """(bytes of an element, axes minor first) with the minor axis as part of the element, if that is possible."""
    minor, others = axes[0], axes[1:]
    size = minor.bound * move.itemsize
    if others and minor.source_stride == minor.target_stride == move.itemsize and size <= LONGEST_ELEMENT:
        yield size, others


class _WorkUnits(NamedTuple):
    """How the work is counted: fields of `StridedPlan`, with `places` for its `count`."""

    cut: int
    fill_cut: int
    chunk: int
    places: int
    share: int

    @staticmethod
    def of(move: Move, way: Way, by_channels: bool, records: ShortRecords | None, time: float) -> _WorkUnits:
        axes = way.axes
        if not axes:
            return _WorkUnits(0, 0, 0, 0, 0)
        if not way.is_whole:
            count = math.prod(-(-axis.bound // step) for axis, step in zip(axes, way.block))
            return _WorkUnits(0, 0, 0, count, _share(count, time))
        weight = max(move.bytes_read, move.bytes_written)
        chunked = weight > CHUNK_BYTES and (by_channels or records is not None or move.is_padded)
        fine = CHUNK_BYTES if chunked else weight // 64
        # Never the channels: there are at most RECORD_BYTES of them, and at least SHORT_RUN pixels.
        channels = len(axes) - 1 - records.axis if records else None
        cuts = [k for k in range(len(axes)) if k != channels]
        k = next((k for k in reversed(cuts) if axes[k].bound * fine >= weight), max(cuts, key=lambda k: axes[k].bound))
        count = axes[k].extent
        return _WorkUnits(
            len(axes) - 1 - k,
            len(move.axes) - 1 - move.axes.index(axes[k]),
            max(CHUNK_BYTES * count // weight, 1) if chunked else 0,
            count,
            _share(count, time),
        )


def _share(count: int, time: float) -> int:
    """How many of `count` parts, which together take `time` nanoseconds, justify a thread; 0 without work for two."""
    return math.ceil(SHARE_TIME * count / time) if time >= 2 * SHARE_TIME else 0


def _fills(move: Move) -> tuple[tuple[Fill, ...], bool]:
    """Where padding is written, and whether everything is filled before the copy.

    Filling everything is faster when the padding consists of many short runs.
    """
    padding, whole = move.padding_places, _are_scattered([move], [Piece(move)])
    if whole:
        padding = (
            StridedPlaces(
                tuple(axis.extent for axis in reversed(move.axes)), (), 0, move.element_places.target_strides
            ),
        )
    return tuple(Fill(places, _fill_share(move, places)) for places in padding), whole


def host_pieces(pieces: Pieces) -> Pieces:
    """The pieces in the order in which NumPy executes them.

    If the padding is many short runs, one fill of the whole target comes first and replaces all other fills.
    """
    fills = [piece.move for piece in pieces if _is_fill(piece.move)]
    if not fills or len(pieces) == 1 or not _are_scattered(fills, pieces):
        return pieces
    move = fills[0]
    last = max(piece.target_offset + piece.move.target_span[1] for piece in pieces)
    everything = Move((Axis(last // move.itemsize, 0, 0, move.itemsize),), move.itemsize, move.pad, ((),))
    return (Piece(everything), *(piece for piece in pieces if not _is_fill(piece.move)))


def _is_fill(move: AnyMove) -> TypeGuard[Move]:
    """Whether a move writes only padding, in whole bytes.  In a partial byte, the other bits must stay 0."""
    return isinstance(move, Move) and not move.element_count


def _are_scattered(fills: Sequence[Move], pieces: Sequence[Piece]) -> bool:
    """Whether filling the whole target, which `pieces` write, is faster than the short runs of padding of `fills`.

    Runs of one place between long runs of elements do not count: NumPy fills them in one strided loop.
    """
    runs = sum(
        math.prod(places.shape[:-1])
        for move in fills
        for places in move.padding_places
        if places.shape[-1] > 1 or move.axes[0].extent * move.itemsize <= RECORD_BYTES
    )
    return runs > 1 and sum(piece.move.bytes_written for piece in pieces) < FILL_WHOLE_BYTES * runs


def _fill_share(move: Move, padding: StridedPlaces) -> int:
    return _share(padding.shape[0], math.prod(padding.shape) * move.itemsize * FILL_TIME)
