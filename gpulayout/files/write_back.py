"""Linux's request to begin to write a file to the disk, without waiting."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import BinaryIO

SYNC_FILE_RANGE_WRITE = 2


def start_write_back(stream: BinaryIO) -> None:
    """Begin to write to the disk what has been written to a file.  It does nothing where the system cannot.

    Otherwise gigabytes may be left for the end, which no signal interrupts.
    """
    sync_file_range = _sync_file_range()
    if sync_file_range:
        sync_file_range(stream.fileno(), 0, 0, SYNC_FILE_RANGE_WRITE)  # 0, 0: all of the file


@functools.cache
def _sync_file_range() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    with contextlib.suppress(AttributeError, OSError):
        found = ctypes.CDLL(None).sync_file_range
        found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        return found
    return None
