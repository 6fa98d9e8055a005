"""Two requests about open files that Linux answers and Python does not offer.  Elsewhere they do nothing."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from typing import BinaryIO

OFFSET = ctypes.c_int64
SYNC_FILE_RANGE_WRITE = 2
FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE = 1, 16


def start_write_back(stream: BinaryIO) -> None:
    """Begin to write to the disk what has been written to a file, without waiting.

    Otherwise gigabytes may be left for the end, which no signal interrupts.
    """
    _call("sync_file_range", ctypes.c_int, OFFSET, OFFSET, ctypes.c_uint)(
        stream.fileno(), 0, 0, SYNC_FILE_RANGE_WRITE
    )  # 0, 0: all of the file


def forget_content(stream: BinaryIO) -> None:
    """Make a file quick to delete, which loses its bytes.

    ext4 keeps places that were written apart from those that were only reserved.  A file of 6 GB whose half was written
    in runs of 24 KB is then thousands of pieces, which take far longer to delete than one.
    """
    size = os.fstat(stream.fileno()).st_size
    if size:
        mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE
        _call("fallocate", ctypes.c_int, ctypes.c_int, OFFSET, OFFSET)(stream.fileno(), mode, 0, size)


@functools.cache
def _call(name: str, *types: type[ctypes._SimpleCData[int]]) -> Callable[..., int]:
    """A function of the C library; one that does nothing where there is none."""
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if found is None:
        return lambda *_: -1
    found.argtypes = types  # type: ignore[attr-defined]  # of a function of ctypes
    return found
