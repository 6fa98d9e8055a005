"""How NumPy carries out a move that looks every place up: in blocks whose numbers and elements fit the cache."""
from __future__ import annotations

import functools
from typing import NamedTuple

from gpulayout.planning.host_tiles import SCRATCH_BYTES
from gpulayout.planning.lookup_move import LookupMove

BLOCK = 1 << 16              # places, as long as what all threads hold together fits SCRATCH_BYTES
SHARE = 1 << 18              # places from which on another thread is worth its start


class HostLookup(NamedTuple):
    """Places in a block, a multiple of 8, so that no two blocks share a byte; how many blocks; and the least for a thread."""

    block: int
    count: int
    share: int


@functools.lru_cache(maxsize=4096)
def host_lookup(move: LookupMove, threads: int = 1) -> HostLookup:
    """The plan of a look-up for NumPy, with up to so many threads."""
    threads = max(min(threads, move.place_count // SHARE), 1)
    place_bytes = move.program.index_bits // 8 * (move.program.slots + 10) + 2 * move.itemsize
    block = max(min(BLOCK, SCRATCH_BYTES // threads // place_bytes) // 8, 1) * 8
    count = -(-move.place_count // block)
    return HostLookup(block, count, -(-count // threads))
