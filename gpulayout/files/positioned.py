"""Reading and writing at a place of an open file, from any thread.

`os.preadv` and `os.pwritev` take the place as an argument.  Where they are missing, as on Windows, an open file has one
place, and threads take turns.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

CHUNK = 1 << 24  # bytes in one call of the system, so that a signal does not wait for more
_turn = threading.Lock()


def read_at(stream: BinaryIO, part: memoryview, place: int, name: str) -> int:
    """Fill `part` with the bytes from byte `place` of a file on.

    Returns how many there are, which is fewer than asked for only if the file ends.  An OSError has the name.
    """
    done = 0
    with _named(name):
        while done < len(part) and (count := _read(stream, part[done : done + CHUNK], place + done)):
            done += count
    return done


def write_at(stream: BinaryIO, part: memoryview, place: int, name: str) -> None:
    """Write all of `part` from byte `place` of a file on.  An OSError has the name."""
    done = 0
    with _named(name):
        while done < len(part):
            done += _write(stream, part[done : done + CHUNK], place + done)


def _read(stream: BinaryIO, part: memoryview, place: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(stream.fileno(), [part], place)
    with _turn:
        os.lseek(stream.fileno(), place, os.SEEK_SET)
        found = os.read(stream.fileno(), len(part))
    part[: len(found)] = found
    return len(found)


def _write(stream: BinaryIO, part: memoryview, place: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(stream.fileno(), [part], place)
    with _turn:
        os.lseek(stream.fileno(), place, os.SEEK_SET)
        return os.write(stream.fileno(), part)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error
