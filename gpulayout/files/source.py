"""A file of elements that is open to be read in parts, and checked before.  No byte of it is mapped.

A file that is mapped kills the process if it becomes shorter.  Here that is an error with numbers.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np

from gpulayout.cpu import native
from gpulayout.files.errors import FileError
from gpulayout.files.npy import MAGIC, Header, check_native, check_size, is_npy_name, parse_header
from gpulayout.files.other_formats import refuse_other_format
from gpulayout.files.positioned import read_at
from gpulayout.files.standard_streams import File, input_name, opened, status_of
from gpulayout.layout.checks import counted
from gpulayout.layout.shape import Shape

BEGINNING = 8  # bytes that say which format a file has
CHUNK = 1 << 24  # bytes read from a pipe at a time
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass(frozen=True)
class Source:
    """The elements of an open file.

    header   what they are; byte `start` of `header.nbytes` is byte `offset + start` of the file
    stream   the file, or None for a pipe
    memory   the bytes of all elements if they come from a pipe; otherwise empty
    """

    header: Header
    offset: int
    stream: BinaryIO | None = field(repr=False)
    memory: Bytes = field(repr=False)

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` with the bytes of the elements from byte `start` on.  Threads may call it at the same time."""
        if self.stream is None:
            part[:] = self.memory[start : start + len(part)].data
            return
        place = self.offset + start
        found = read_at(self.stream, part, place, self.header.name)
        if found < len(part):
            size = os.fstat(self.stream.fileno()).st_size
            raise FileError(
                f"{self.header.name}: the file has become shorter while it was read: it has {counted(size, 'byte')}, "
                f"but {self.header.needed} needs {self.offset + self.header.nbytes}"
            )

    def read_runs(self, memory: memoryview, starts: np.ndarray, length: int, around: int = -1) -> int:
        """Fill `memory` with the first of many runs, as far as the native engine can.  Returns how many it read.

        It reads without Python's lock.  The others are for `read_into`, which also says what is wrong with them.

        around   a descriptor of the file around the page cache, or -1
        """
        engine = native.module()
        if self.stream is None or engine is None:
            return 0
        done: int = engine.read_runs(self.stream.fileno(), around, memory, starts + self.offset, length)
        return done


@contextlib.contextmanager
def open_source(file: File, shape: Shape | None = None, *, raw: bool = False) -> Iterator[Source]:
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
            header = Header(name, shape.buffer_dtype, (shape.buffer_length,), False, f"a buffer of {shape}")
        else:
            needed = "--raw" if shape else "gpulayout relayout --from SHAPE"
            header = parse_header(name, stream, f"; plain bytes need {needed}")
            check_native(header)
        check_size(header, stream)
        if status_of(stream):
            yield Source(header, stream.tell(), stream, np.empty(0, np.uint8))
        else:
            yield Source(header, 0, None, _read_all(header, stream))


def source_in_memory(elements: Bytes, shape: Shape) -> Source:
    """A buffer of a shape that is in memory already."""
    return Source(Header("the gl.Array", shape.buffer_dtype, (shape.buffer_length,), False), 0, None, elements)


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
