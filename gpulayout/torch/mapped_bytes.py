"""Bytes of a model's files as memory of tensors: mapped, so that none is read before it is used.

The maps are private.  What is written stays in memory, page by page, and never reaches the file.
"""

from __future__ import annotations

import heapq
import mmap
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gpulayout.files.checkpoints.opening import Shard
from gpulayout.files.elements import became_shorter
from gpulayout.files.errors import named

# By default Linux refuses a private map that is larger than memory.  This reserves none: only written pages take any.
_IS_USUAL = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
UNRESERVED: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if _IS_USUAL else 0)  # Python has it from 3.13 on


class FileSpan(NamedTuple):
    """Bytes of a file, and where the room behind them ends that their tensor may write too."""

    shard: Shard
    begin: int
    end: int


def map_end(shard: Shard) -> int:
    """Where a map of a file ends."""
    contents = shard.contents
    return contents.start + (contents.tensors[-1].end if contents.tensors else 0)


def mapped(spans: Sequence[FileSpan]) -> list[Any]:
    """A tensor of bytes over each span, with a storage of its own.  No two share memory.

    A tensor with room to be unpacked in reaches over the next ones of its file.  Those lie in another map of it.
    """
    maps: dict[Path, list[tuple[int, int, mmap.mmap]]] = {}  # a heap for each file, by the end of the last span
    made: dict[int, Any] = {}
    for number in sorted(range(len(spans)), key=lambda number: spans[number].begin):
        shard, begin, end = spans[number]
        kept = maps.setdefault(shard.path, [])
        room = heapq.heappop(kept)[-1] if kept and kept[0][0] <= begin else _map(shard)
        heapq.heappush(kept, (end, number, room))
        made[number] = torch.frombuffer(room, dtype=torch.uint8, count=end - begin, offset=begin)
    return [made[number] for number in range(len(spans))]


def _map(shard: Shard) -> mmap.mmap:
    with named(str(shard.path)):
        try:
            if sys.platform == "win32":
                return mmap.mmap(shard.stream.fileno(), map_end(shard), access=mmap.ACCESS_COPY)
            return mmap.mmap(shard.stream.fileno(), map_end(shard), mmap.MAP_PRIVATE | UNRESERVED)
        except ValueError:  # of Python, which looks at the size
            raise became_shorter(shard.stream, str(shard.path), f"and {map_end(shard)} are to be mapped") from None
