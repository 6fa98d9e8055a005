"""How many places the caches of a CPU keep at once.  Addresses a power of two apart fall into the same few sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.moves.move import Axis

LINE_BYTES, PAGE_BYTES = 64, 4096
LONGEST_RUN, LEADING = 1024, 256  # places that `places_kept` looks at: of a whole run, and of a longer one


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

    Looks at no more than LEADING places of a run of more than LONGEST_RUN.

    Rows of f32[96,3600] are 225 lines apart.  96 of them use all 64 sets of the first-level cache, 2 ways at most.
    Rows of f32[64,12544] are 784 lines apart and use 4 sets, which hold 32 of the 64.

    >>> places_kept([Axis(96, 96, 14400, 4)], FIRST_CACHE), places_kept([Axis(64, 64, 50176, 4)], FIRST_CACHE)
    (96, 32)
    """
    most = LEADING if math.prod(axis.bound for axis in run) > LONGEST_RUN else LONGEST_RUN
    offsets = np.zeros(1, np.int64)
    for axis in run:
        steps = np.arange(min(axis.bound, most)) * axis.source_stride
        offsets = np.add.outer(steps, offsets).reshape(-1)[:most]
    return min(_first_evicting(offsets, cache) for cache in caches)


def _first_evicting(offsets: np.ndarray, cache: Cache) -> int:
    """The first place whose unit needs one way too many of its set; their number if there is none."""
    held: dict[int, int] = {}
    seen = set()
    for place, unit in enumerate((offsets // cache.unit).tolist()):
        if unit not in seen:
            seen.add(unit)
            member = unit % cache.sets
            held[member] = held.get(member, 0) + 1
            if held[member] > cache.ways:
                return place
    return len(offsets)
