"""Plans a packed move for NumPy: chunks of the target that fit the cache, one element per byte of a scratch array.

A chunk is a range of slots whose length is a multiple of 8, so that no two chunks share a byte of the target.  It is
read in parts of one shift each; see `packed_stretches`.  If short axes of odd size would give too many parts, each slot
is looked up by its number.
"""

from __future__ import annotations

import math

from gpulayout.cpu.packed_run import PackedPlan
from gpulayout.cpu.packed_stretches import periods
from gpulayout.cpu.threads import SCRATCH_BYTES
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.packed_turn import Turn, turned

# Slots.  Threads wait for each other before and after each of NumPy's operations, which on a smaller chunk would take
# little longer than the waiting.
CHUNK, LOOKED_UP_CHUNK = 1 << 20, 1 << 16
MOST_SLOTS = 15 << 17  # of the chunks of all threads: at 2 bytes of scratch arrays each, just below 4 MB
LEAST_TURNED = 1 << 14  # slots; for fewer, the calls for a cache block cost more than they save
MOST_ROWS = 16  # of a block; with more rows, the calls cost more than they save
TURNED_RUN, TURNED_BYTES = 256, 1 << 19  # blocks along the source, and scratch bytes, of a cache block
LEAST_PART = 2000  # elements that can be looked up in the time of one part


def packed_plan_of(move: PackedMove, threads: int = 1) -> PackedPlan:
    """The plan of a packed move for NumPy, for at most `threads` threads.  Their scratch arrays together take at most
    4 MB.
    """
    alone = _plan_for(move, 1)
    threads = min(threads, alone.chunk_count)
    return _plan_for(move, threads) if threads > 1 else alone


def _plan_for(move: PackedMove, threads: int) -> PackedPlan:
    turn = next(filter(None, (turned(move, bits) for bits in (64, 32, 16, 8) if bits // move.bits <= MOST_ROWS)), None)
    if turn and move.slots >= LEAST_TURNED:
        block = _turned_cache_block(turn, threads)
        return PackedPlan(move, threads, math.prod(block) * turn.side**2, False, False, turn, block)
    in_place = move.target_bits == 8 and move.is_dense
    count = math.prod(min(period, axis.bound) for period, axis in zip(periods(move), move.axes))
    if count > 4 and count * LEAST_PART > min(move.element_count, CHUNK):
        return PackedPlan(move, threads, _part(LOOKED_UP_CHUNK, threads), True, in_place)
    return PackedPlan(move, threads, _part(CHUNK, threads), False, in_place)


def _part(chunk: int, threads: int) -> int:
    """The slots of a chunk, so that the chunks of all threads fit.  Whole bytes for any element width."""
    return max(min(chunk, MOST_SLOTS // threads) // 8, 1) * 8


def _turned_cache_block(turn: Turn, threads: int) -> tuple[int, ...]:
    """The blocks of a cache block along each axis: first long runs along the source, then along the target."""
    most = max(min(TURNED_BYTES, SCRATCH_BYTES // threads) // (turn.side + 1) // turn.unit_bytes, 1)
    minor, found, *others = (axis.extent for axis in turn.axes)
    along_source = min(found, TURNED_RUN, most)
    along_target = min(minor, most // along_source)
    sizes = [along_target, min(found, most // along_target)]
    for extent in others:
        sizes.append(max(min(extent, most // math.prod(sizes)), 1))
    return tuple(sizes)
