"""How many places the caches of a CPU keep at once.  Addresses a power of two apart fall into the same few sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.moves.move import Axis

LINE_BYTES, PAGE_BYTES = 64, 4096
MOST_PLACES = 1024  # the most that `places_kept` returns


class Cache(NamedTuple):
    """A set-associative cache of lines or pages of `unit` bytes; each of its `sets` holds `ways` of them."""

    unit: int
    sets: int
    ways: int

    def keeping(self, part: int) -> Cache:
        """The same cache, when other data takes all but one in `part` of its ways."""
        return self._replace(ways=self.ways // part)


# 32 KB and 1 MB, as in AMD's Zen 2 to 4; larger ones have more ways.  Second-level TLBs have 12 to 24 ways.
FIRST_CACHE = Cache(LINE_BYTES, 64, 8)
SECOND_CACHE = Cache(LINE_BYTES, 2048, 8)
TLB = Cache(PAGE_BYTES, 128, 16)


def places_kept(run: Sequence[Axis], *caches: Cache) -> int:
    """How many places of the source, the first of a run along the target, can be read again and again from all caches.

    Rows of f32[96,3600] are 225 lines apart.  96 of them use all 64 sets of the first-level cache, 2 ways at most.
    Rows of f32[64,12544] are 784 lines apart and use 4 sets, which hold 32 of the 64.

    >>> places_kept([Axis(96, 96, 14400, 4)], FIRST_CACHE), places_kept([Axis(64, 64, 50176, 4)], FIRST_CACHE)
    (96, 32)
    """
    offsets = np.zeros(1, np.int64)
    for axis in run:
        steps = np.arange(min(axis.bound, MOST_PLACES)) * axis.source_stride
        offsets = np.add.outer(steps, offsets).reshape(-1)[:MOST_PLACES]
    return min(_first_evicting(offsets, cache) for cache in caches)


def _first_evicting(offsets: np.ndarray, cache: Cache) -> int:
    """The first place whose unit needs one way too many of its set; their number if there is none."""
    _, firsts = np.unique(offsets // cache.unit, return_index=True)
    firsts = np.sort(firsts)  # the places that are the first in their unit
    members = offsets[firsts] // cache.unit % cache.sets
    order = np.argsort(members, kind="stable")
    starts = np.searchsorted(members[order], np.arange(cache.sets))
    evicting = order[np.arange(len(order)) - starts[members[order]] >= cache.ways]
    return int(firsts[evicting].min()) if len(evicting) else len(offsets)
