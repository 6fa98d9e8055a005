"""The data caches of the processor, as Linux describes them; elsewhere those of a common server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

LINE_BYTES = 64  # of every x86 processor and most others
FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}


class Caches(NamedTuple):
    """Bytes of the first-level data cache, and of the caches behind it."""

    first: int
    second: int
    third: int


# An AMD EPYC of 2020 to 2023.  An error of a factor of two in one of them changes little.
DEFAULT = Caches(32 << 10, 1 << 20, 32 << 20)


@functools.cache
def machine_caches() -> Caches:
    """The caches of this machine; a level that the system does not describe is that of DEFAULT."""
    return described_caches(FOLDER)


def described_caches(folder: Path) -> Caches:
    """The caches that a folder like /sys/devices/system/cpu/cpu0/cache describes.

    A machine without a third level copies from memory what its second level does not hold, so there the third is as
    small as the second.
    """
    levels = dict(filter(None, map(_described, sorted(folder.glob("index*")))))
    second = levels.get(2, DEFAULT.second)
    return Caches(levels.get(1, DEFAULT.first), second, levels.get(3, second if 2 in levels else DEFAULT.third))


def _described(entry: Path) -> tuple[int, int] | None:
    """(level, bytes) of one entry; None if it holds instructions, or makes no sense."""
    try:
        level, kind, size = ((entry / name).read_text().strip() for name in ("level", "type", "size"))
        count = int(size.rstrip("KM")) * _UNITS.get(size[-1:], 1)
        return (int(level), count) if kind in ("Data", "Unified") and count >= LINE_BYTES else None
    except (OSError, ValueError):
        return None
