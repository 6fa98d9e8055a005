"""What Linux does with open files and Python does not offer.  Elsewhere these functions do nothing."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

OFFSET = ctypes.c_int64
SYNC_FILE_RANGE_WRITE = 2
FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE = 1, 16
MOST_ASKED = 1 << 34  # bytes of a file; an answer takes a byte for each page, here 4 MB


def start_write_back(stream: BinaryIO) -> None:
    """Begin to write to the disk what has been written to a file, without waiting.

    Otherwise gigabytes may be left for the end, which no signal interrupts.
    """
    _call("sync_file_range", ctypes.c_int, OFFSET, OFFSET, ctypes.c_uint)(
        stream.fileno(), 0, 0, SYNC_FILE_RANGE_WRITE
    )  # 0, 0: all of the file


def read_ahead(stream: BinaryIO, begin: int, count: int) -> None:
    """Begin to read bytes of a file into the system's page cache, without waiting."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(stream.fileno(), begin, count, os.POSIX_FADV_WILLNEED)


def forget_content(stream: BinaryIO) -> None:
    """Make a file quick to delete, which loses its bytes.

    ext4 keeps ranges that were written apart from those that were only reserved.  A file of 6 GB whose half was written
    in runs of 24 KB is then thousands of pieces, which take far longer to delete than one.
    """
    size = os.fstat(stream.fileno()).st_size
    if size:
        mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE
        _call("fallocate", ctypes.c_int, ctypes.c_int, OFFSET, OFFSET)(stream.fileno(), mode, 0, size)


def open_around_cache(stream: BinaryIO) -> int:
    """Another descriptor of a file, which reads whole pages from the disk without the system's page cache.

    -1 where there is none, and for a file that is mostly in memory already.
    """
    try:
        if hasattr(os, "O_DIRECT") and not _is_cached(stream):
            return os.open(f"/proc/self/fd/{stream.fileno()}", os.O_DIRECT | os.O_RDONLY)
    except (OSError, ValueError):  # of a file system that has no such way or no maps, and of a file that became shorter
        pass
    return -1


def _is_cached(stream: BinaryIO) -> bool:
    """True if most pages of a file, or of its beginning, are in memory, or nobody may know."""
    size = min(os.fstat(stream.fileno()).st_size, MOST_ASKED)
    if not size:
        return True
    ask = _call("mincore", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    resident = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as pages:  # of which none is read
        mapped = np.frombuffer(pages, np.uint8)
        failed = ask(mapped.ctypes.data, size, resident.ctypes.data)
        del mapped  # it would keep the map open
    return bool(failed or 2 * np.count_nonzero(resident & 1) > resident.size)


@functools.cache
def _call(name: str, *types: type[ctypes._SimpleCData[int]]) -> Callable[..., int]:
    """A function of the C library; one that does nothing where there is none."""
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is None:
        return lambda *_: -1
    function.argtypes = types  # type: ignore[attr-defined]  # of a function of ctypes
    return function
