"""How much memory a move may take: as text such as 512M, and by default a quarter of what is free."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import SupportsIndex

from gpulayout.layout.checks import UNITS, byte_count, value_text
from gpulayout.layout.errors import LayoutError

SHARE = 4  # of free memory, one part
UNKNOWN = 1 << 30  # bytes taken as free where the system does not say
REST = 64 << 20  # bytes for Python, NumPy and some page cache; measured: 48 MB without the last
MOST_BLOCK = 1 << 30  # bytes; longer runs gain nothing, and a signal would wait longer
MEMINFO = Path("/proc/meminfo")
OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
# Where version 2 and version 1 of Linux's control groups have their limits: folder, limit, use, and what of the use is
# page cache that can go.
VERSIONS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def as_bytes(value: SupportsIndex | str) -> int:
    """A number of bytes of 1 or more, as `byte_count` reads it.

    >>> as_bytes("0.3K"), as_bytes(4096)
    (307, 4096)
    """
    nbytes = byte_count("max_bytes", value)
    if nbytes < 1:
        raise LayoutError(f"max_bytes {value_text(value)} is not a number of bytes such as 128M or 1.5G")
    return nbytes


def memory_text(nbytes: int) -> str:
    """A number of bytes as people read it.

    >>> memory_text(384 << 20), memory_text(1500)
    ('384 MiB', '1500 bytes')
    """
    for unit in ("G", "M", "K"):
        if nbytes >= 10 * UNITS[unit] or (nbytes >= UNITS[unit] and nbytes % UNITS[unit] == 0):
            return f"{nbytes // UNITS[unit]} {unit}iB"
    return f"{nbytes} bytes"


def block_limit(max_bytes: SupportsIndex | str | None) -> int:
    """Bytes for the two buffers of a block; `max_bytes` None takes a quarter of what is free.

    Three quarters of the memory, but 64 MB less than all of it, so that the whole process keeps to it from 96 MB on.
    Below, a quarter.

    >>> [memory_text(block_limit(text)) for text in ("512M", "128M", "64M")]
    ['384 MiB', '64 MiB', '16 MiB']
    """
    limit = free_memory() // SHARE if max_bytes is None else as_bytes(max_bytes)
    return max(min(limit * 3 // 4, max(limit - REST, limit // 4), MOST_BLOCK), 1)


def free_memory() -> int:
    """Bytes that this process can still take, by the system and by the limits of its control groups."""
    return min(_left(), default=UNKNOWN)


def _left() -> Iterator[int]:
    """What the system has left, and each group that this process is in."""
    with contextlib.suppress(OSError):
        yield from (kib << 10 for kib in _values(MEMINFO, "MemAvailable:"))
    for folder, limit, use, cache in VERSIONS:
        for group in _groups(folder):
            with contextlib.suppress(OSError, ValueError):  # the group has no limit, or is not shown in a container
                most = int((group / limit).read_text())
                kept = sum(_values(group / "memory.stat", cache))
                yield max(most - int((group / use).read_text()) + kept, 0)


def _groups(controller: str) -> Iterator[Path]:
    """The group of this process and those around it; in a container the outermost may be all that is shown."""
    with contextlib.suppress(OSError):
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                group = Path(path.lstrip("/"))
                yield from (GROUPS / controller / each for each in (group, *group.parents))


def _values(file: Path, name: str) -> list[int]:
    """The numbers after a name in a file of lines."""
    lines = (line.split() for line in file.read_text().splitlines())
    return [int(words[1]) for words in lines if words[0] == name]
