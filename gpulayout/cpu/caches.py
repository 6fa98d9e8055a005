"""The data caches of the processor, as Linux describes them; elsewhere those of a common server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

LINE_BYTES = 64  # of every x86 processor and most others; the model of a copy needs no other size
FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}


class Cache(NamedTuple):
    """A set-associative cache of lines of LINE_BYTES; each of its `sets` holds `ways` of them."""

    sets: int
    ways: int

    @property
    def nbytes(self) -> int:
        return self.sets * self.ways * LINE_BYTES


class Caches(NamedTuple):
    """The first-level data cache, and the caches behind it."""

    first: Cache
    second: Cache
    third: Cache


# 32 KB, 1 MB and 32 MB: an AMD EPYC of 2020 to 2023.  An error of a factor of two in one of them changes few plans.
DEFAULT = Caches(Cache(64, 8), Cache(1024, 16), Cache(32768, 16))


@functools.cache
def machine_caches() -> Caches:
    """The caches of this machine; a level that the system does not describe is that of DEFAULT."""
    return described_caches(FOLDER)


def described_caches(folder: Path) -> Caches:
    """The caches that a folder like /sys/devices/system/cpu/cpu0/cache describes.

    A machine without a third level copies from memory what its second level does not hold, so there the third is as
    small as the second.
    """
    found = dict(filter(None, map(_described, sorted(folder.glob("index*")))))
    if not found:
        return DEFAULT
    first, second = found.get(1, DEFAULT.first), found.get(2, DEFAULT.second)
    return Caches(first, second, found.get(3, second if 2 in found else DEFAULT.third))


def _described(entry: Path) -> tuple[int, Cache] | None:
    """(level, cache) of one entry; None if it holds instructions, or makes no sense."""
    try:
        level, kind, size, ways = (
            (entry / name).read_text().strip() for name in ("level", "type", "size", "ways_of_associativity")
        )
        if kind not in ("Data", "Unified"):
            return None
        lines = int(size.rstrip("KM")) * _UNITS.get(size[-1:], 1) // LINE_BYTES
        # A fully associative cache has 0 ways in some descriptions.
        count = int(ways) or lines
        return (int(level), Cache(lines // count, count)) if lines >= count > 0 else None
    except (OSError, ValueError):
        return None
