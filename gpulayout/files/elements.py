"""The elements of an open file, read or written in parts: of an array, of a buffer, or of a tensor of a model.

No byte of a file is mapped.  A file that is mapped kills the process if it becomes shorter; here that is an error with
numbers.  Any thread reads and writes at any place: `os.preadv` and `os.pwritev` take it as an argument.  Where they are
missing, as on Windows, an open file has one place, and threads take turns.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from gpulayout.cpu import native
from gpulayout.files.errors import FileError, Note, named, warn
from gpulayout.files.new_file import new_file_of_size
from gpulayout.files.npy import MAGIC, Header, check_native, check_size, header_bytes, is_npy_name, parse_header
from gpulayout.files.other_formats import refuse_other_format
from gpulayout.files.standard_streams import File, input_name, opened, status_of, write_standard_output
from gpulayout.layout.checks import counted
from gpulayout.layout.shape import Shape

BEGINNING = 8  # bytes that say which format a file has
CHUNK = 1 << 24  # bytes in one call of the system, so that a signal does not wait for more
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
NO_BYTES: Bytes = np.empty(0, np.uint8)
_turn = threading.Lock()


class Tails(NamedTuple):
    """What lies behind the last page boundary of each run: it waits for the block that continues the run.

    memory        a page for each run
    has, keeps    whether runs begin with such a tail, and whether they leave one
    """

    memory: memoryview
    has: bool
    keeps: bool


@dataclass(frozen=True)
class Elements:
    """The elements of an open file.  Threads may read and write them at the same time.

    header   what they are; byte `start` of `header.nbytes` is byte `offset + start` of the file
    stream   the file, or None for a pipe
    memory   the bytes of all elements if they come from a pipe or go to one; otherwise empty
    parts    of equal size, which stand in a file in reverse order
    """

    header: Header
    offset: int
    stream: BinaryIO | None = field(repr=False)
    memory: Bytes = field(default_factory=lambda: NO_BYTES, repr=False)
    parts: int = 1

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` with the bytes of the elements from byte `start` on."""
        if self.stream is None:
            part[:] = self.memory[start : start + len(part)].data
            return
        if self.parts > 1:
            for begin, end, place in _mirrored(start, len(part), self.header.nbytes, self.parts):
                replace(self, parts=1).read_into(part[begin:end], place)
            return
        found = read_at(self.stream, part, self.offset + start, self.header.name)
        if found < len(part):
            size = os.fstat(self.stream.fileno()).st_size
            raise FileError(
                f"{self.header.name}: the file has become shorter while it was read: it has {counted(size, 'byte')}, "
                f"but {self.header.needed} needs {self.offset + self.header.nbytes}"
            )

    def write_from(self, part: memoryview, start: int) -> None:
        """Write the bytes of the elements from byte `start` on."""
        if self.stream is None:
            self.memory.data[start : start + len(part)] = part
        elif self.parts > 1:
            for begin, end, place in _mirrored(start, len(part), self.header.nbytes, self.parts):
                replace(self, parts=1).write_from(part[begin:end], place)
        else:
            write_at(self.stream, part, self.offset + start, self.header.name)

    # The native engine moves many runs without Python's lock.  The others are for the two methods above, which also say
    # what is wrong with them.

    def read_runs(self, memory: memoryview, starts: np.ndarray, length: int, around: int = -1) -> int:
        """Fill `memory` with the first of many runs, as far as the native engine can.  Returns how many it read.

        around   a descriptor of the file around the page cache, or -1
        """
        engine = native.module()
        if self.stream is None or engine is None or self.parts > 1:  # a run may lie in several parts
            return 0
        done: int = engine.read_runs(self.stream.fileno(), around, memory, starts + self.offset, length)
        return done

    def write_runs(self, memory: memoryview, starts: np.ndarray, length: int, tails: Tails) -> int:
        """Write the first of many runs, as `read_runs` reads them.  `tails` are those of these runs."""
        engine = native.module()
        if self.stream is None or engine is None or self.parts > 1:
            return 0
        done: int = engine.write_runs(self.stream.fileno(), memory, starts + self.offset, length, *tails)
        return done


def _mirrored(start: int, count: int, nbytes: int, parts: int) -> Iterator[tuple[int, int, int]]:
    """Bytes `start` to `start + count - 1` of parts in reverse order, in stretches: begin and end among these bytes,
    and the place in the file.

    >>> [*_mirrored(1, 4, 9, 3)]  # of the parts 678 345 012
    [(0, 2, 7), (2, 4, 3)]
    """
    size = nbytes // parts
    place = start
    while place < start + count:
        part, inside = divmod(place, size)
        end = min((part + 1) * size, start + count)
        yield place - start, end - start, (parts - 1 - part) * size + inside
        place = end


# ---- a file that is read ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_source(file: File, shape: Shape | None = None, *, raw: bool = False) -> Iterator[Elements]:
    """The elements of a file, open inside the `with`.  A pipe is read to its end, which is checked too.

    shape   of the buffer in the file; None if the file must say itself what it holds
    raw     the file is plain bytes, whatever its name and its first bytes are

    With a shape, a file is plain bytes too if neither its name ends in .npy nor its first bytes are those of .npy.
    `FileError` names the file if it has another size than its header or `shape` says, for big-endian
    numbers, and as in `read_header`.
    """
    name = input_name(file)
    with opened(file) as stream:
        if shape is not None and (raw or _is_plain(file, stream)):
            header = buffer_header(name, shape)
        else:
            needed = "--raw" if shape else "gpulayout relayout --from SHAPE"
            header = parse_header(name, stream, f"; plain bytes need {needed}")
            check_native(header)
        check_size(header, stream)
        if status_of(stream):
            yield Elements(header, stream.tell(), stream)
        else:
            yield Elements(header, 0, None, _read_all(header, stream))


def buffer_header(name: str, shape: Shape) -> Header:
    """What the bytes of a buffer of a shape are."""
    return Header(name, shape.buffer_dtype, (shape.buffer_length,), False, f"a buffer of {shape}")


def _is_plain(file: File, stream: BinaryIO) -> bool:
    """True when a file is a buffer without a header: nothing says that it is a .npy file, or another library's."""
    if is_npy_name(file):
        return False
    beginning = stream.read(BEGINNING)
    stream.seek(0)
    refuse_other_format(str(file), beginning)
    return not beginning.startswith(MAGIC)


def _read_all(header: Header, stream: BinaryIO) -> Bytes:
    """The bytes of all elements from a pipe."""
    if header.nbytes > sys.maxsize:
        raise FileError(f"{header.name}: {header.needed} needs {header.nbytes} bytes, more than memory can hold")
    elements: Bytes = np.empty(header.nbytes, np.uint8)
    memory, place = elements.data, 0
    while place < header.nbytes and (read := cast(io.BufferedIOBase, stream).readinto(memory[place : place + CHUNK])):
        place += read
    if place < header.nbytes or stream.read(1):
        found = f"only {counted(place, 'byte')}" if place < header.nbytes else f"more than {counted(place, 'byte')}"
        raise FileError(f"{header.name}: there are {found} of elements, but {header.needed} needs {header.nbytes}")
    return elements


# ---- a file that is written ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def new_target(file: File, header: Header, *, plain: bool, overwrite: bool, note: Note = warn) -> Iterator[Elements]:
    """A new .npy file, or one of `plain` bytes, whose elements are written inside the `with`.

    A file appears when the block ends without an error, see `new_file`; standard output gets its bytes then.
    """
    beginning = b"" if plain else header_bytes(header)
    if not isinstance(file, Path):
        target = Elements(header, 0, None, np.empty(header.nbytes, np.uint8))
        yield target
        write_standard_output(beginning, target.memory.data)
        return
    with new_file_of_size(file, beginning, len(beginning) + header.nbytes, overwrite=overwrite, note=note) as stream:
        yield Elements(header, len(beginning), stream)


# ---- at a place of a file --------------------------------------------------------------------------------------------


def read_at(stream: BinaryIO, part: memoryview, place: int, name: str) -> int:
    """Fill `part` with the bytes from byte `place` of a file on.

    Returns how many there are, which is fewer than asked for only if the file ends.  An OSError has the name.
    """
    done = 0
    with named(name):
        while done < len(part) and (count := _read(stream, part[done : done + CHUNK], place + done)):
            done += count
    return done


def write_at(stream: BinaryIO, part: memoryview, place: int, name: str) -> None:
    """Write all of `part` from byte `place` of a file on.  An OSError has the name."""
    done = 0
    with named(name):
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
