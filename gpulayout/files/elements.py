"""The elements of an open file, read or written in parts: of an array, of a buffer, or of a tensor of a model.

No byte of a file is mapped.  A file that is mapped kills the process if it becomes shorter; here that is an error with
numbers.  Any thread reads and writes at any offset: `os.preadv` and `os.pwritev` take it as an argument.  Where they
are missing, as on Windows, an open file has one offset, and threads take turns.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from gpulayout.cpu import native
from gpulayout.files.errors import FileError, Note, named, warn
from gpulayout.files.new_file import new_file_of_size
from gpulayout.files.npy import MAGIC, Header, check_size, header_bytes, is_npy_name, native_header, parse_header
from gpulayout.files.other_formats import refuse_other_format
from gpulayout.files.plain_bytes import NOTHING_SAID, PlainBytes
from gpulayout.files.standard_streams import File, input_name, opened, status_of, write_standard_output
from gpulayout.layout.checks import counted
from gpulayout.layout.shape import Shape

BEGINNING = 8  # bytes that say which format a file has
PAGE = mmap.PAGESIZE  # what a file system reads in order to change a part of it
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


NO_TAILS = Tails(memoryview(bytearray()), False, False)


@dataclass(frozen=True)
class Elements:
    """The elements of an open file.  Threads may read and write them at the same time.

    header   what they are; byte `start` of `header.nbytes` is byte `offset + start` of the file
    stream   the file, or None for a pipe
    memory   the bytes of all elements if they come from a pipe or go to one; otherwise empty
    """

    header: Header
    offset: int
    stream: BinaryIO | None = field(repr=False)
    memory: Bytes = field(default_factory=lambda: NO_BYTES, repr=False)

    @property
    def streams(self) -> tuple[BinaryIO, ...]:
        """The file, if there is one."""
        return () if self.stream is None else (self.stream,)

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` with the bytes of the elements from byte `start` on."""
        if self.stream is None:
            part[:] = self.memory[start : start + len(part)].data
            return
        if read_at(self.stream, part, self.offset + start, self.header.name) < len(part):
            needs = f"but {self.header.needed} needs {self.offset + self.header.nbytes}"
            raise became_shorter(self.stream, self.header.name, needs)

    def write_from(self, part: memoryview, start: int) -> None:
        """Write the bytes of the elements from byte `start` on."""
        if self.stream is None:
            self.memory.data[start : start + len(part)] = part
            return
        write_at(self.stream, part, self.offset + start, self.header.name)

    # The native engine moves runs without Python's lock.  Those that it cannot move are for the two methods above,
    # which also say what is wrong with them.

    def read_runs(self, memory: memoryview, starts: np.ndarray, length: int, around: int = -1) -> None:
        """Fill `memory` with runs of one length, which begin at these bytes of the elements.

        around   a descriptor of the file around the page cache, or -1
        """
        done = moved_by_engine("read_runs", self.stream, around, memory, starts + self.offset, length)
        for number, start in enumerate(starts[done:].tolist(), done):
            self.read_into(memory[number * length : (number + 1) * length], start)

    def write_runs(self, memory: memoryview, starts: np.ndarray, length: int, tails: Tails = NO_TAILS) -> None:
        """Write runs, as `read_runs` reads them.  `tails` are those of these runs."""
        done = moved_by_engine("write_runs", self.stream, memory, starts + self.offset, length, *tails)
        for number, start in enumerate(starts[done:].tolist(), done):
            run, tail = memory[number * length : (number + 1) * length], tails.memory[number * PAGE :]
            before = (self.offset + start) % PAGE if tails.has else 0
            end = length - ((self.offset + start + length) % PAGE if tails.keeps else 0)
            self.write_from(memoryview(bytes(tail[:before]) + run[:end]) if before else run[:end], start - before)
            tail[: length - end] = run[end:]


# ---- a file that is read ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_source(file: File, shape: Shape | None = None, plain: PlainBytes = NOTHING_SAID) -> Iterator[Elements]:
    """The elements of a file, open inside the `with`.  A pipe is read to its end, which is checked too.

    shape   of the buffer in the file; None if the file must say itself what it holds

    With a shape, a file is plain bytes too if neither its name ends in .npy nor its first bytes are those of .npy.
    `FileError` names the file if it has another size than its header or `shape` says, and as in `read_header`.
    """
    name, skipped = input_name(file), plain.offset
    with opened(file) as stream:
        is_plain = shape is not None and (plain.raw or _is_plain(file, stream))
        if shape is not None and is_plain:
            header = buffer_header(name, shape, skipped, plain.byte_order or sys.byteorder)
        else:
            _check_has_own_header(name, plain, shape)
            needed = "--raw" if shape else "gpulayout relayout --from SHAPE"
            header = native_header(parse_header(name, stream, f"; plain bytes need {needed}"))
        own = plain.strict if is_plain else None
        check_size(header, stream, skipped, strict=own)
        if status_of(stream):
            yield Elements(header, stream.tell() + skipped, stream)
        else:
            _skip(header, stream, skipped)
            yield Elements(header, 0, None, _read_all(header, stream, strict=own))


def buffer_header(name: str, shape: Shape, skipped: int = 0, byte_order: str = sys.byteorder) -> Header:
    """What the bytes of a buffer of a shape are, after those of a header that are skipped."""
    needed = f"a buffer of {shape}" + f" behind a header of {counted(skipped, 'byte')}" * bool(skipped)
    swapped = byte_order != sys.byteorder and shape.buffer_dtype.itemsize > 1
    return Header(name, shape.buffer_dtype, (shape.buffer_length,), False, needed, swapped)


def _check_has_own_header(name: str, plain: PlainBytes, shape: Shape | None) -> None:
    """`FileError` for what is said of plain bytes, if the header of the file says it."""
    for said, is_said, what in (
        (f"offset {plain.offset}", plain.offset, "where its elements begin"),
        (f"byte order {plain.byte_order}", plain.byte_order, "the byte order of its elements"),
    ):
        if is_said and shape is None:
            raise FileError(
                f"{name}: {said} is for a buffer in plain bytes, whose shape is missing", "; give --from SHAPE"
            )
        if is_said:
            raise FileError(
                f"{name}: {said} is for plain bytes, but this is read as a .npy file, whose header says {what}",
                "; --raw reads plain bytes",
            )


def _is_plain(file: File, stream: BinaryIO) -> bool:
    """True when a file is a buffer without a header: nothing says that it is a .npy file, or another library's."""
    if is_npy_name(file):
        return False
    beginning = stream.read(BEGINNING)
    stream.seek(0)
    refuse_other_format(str(file), beginning)
    return not beginning.startswith(MAGIC)


def _skip(header: Header, stream: BinaryIO, count: int) -> None:
    """Read and discard `count` bytes of a pipe."""
    left = count
    while left:
        some = len(stream.read(min(left, CHUNK)))
        if not some:
            ends = counted(count - left, "byte")
            raise FileError(f"{header.name}: it ends after {ends}, but offset {count} skips more")
        left -= some


def _read_all(header: Header, stream: BinaryIO, *, strict: bool | None) -> Bytes:
    """Read all elements from a pipe.  It is read to its end, so that its writer does not get a broken pipe.

    strict   as in `check_size`
    """
    if header.nbytes > sys.maxsize:
        raise FileError(f"{header.name}: {header.needed} needs {header.nbytes} bytes, more than memory can hold")
    elements: Bytes = np.empty(header.nbytes, np.uint8)
    memory, done = elements.data, 0
    while done < header.nbytes and (count := cast(io.BufferedIOBase, stream).readinto(memory[done : done + CHUNK])):
        done += count
    there_are = f"{'only' if done < header.nbytes else 'more than'} {counted(done, 'byte')}"
    problem = f"{header.name}: there are {there_are} of elements, but {header.needed} needs {header.nbytes}"
    if done < header.nbytes:
        raise FileError(problem)
    while rest := len(stream.read(CHUNK)):
        if strict is not False:
            left = f": {'at least ' * (rest == CHUNK)}{counted(rest, 'byte')} would be left over"
            advice = f"; --no-strict ignores {'it' if rest == 1 else 'them'}"
            raise FileError(problem + left, "" if strict is None else advice)
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


# ---- at an offset of a file ------------------------------------------------------------------------------------------


def read_at(stream: BinaryIO, part: memoryview, offset: int, name: str) -> int:
    """Fill `part` with the bytes from byte `offset` of a file on.

    Returns how many there are, which is fewer than asked for only if the file ends.  An OSError has the name.
    """
    done = 0
    with named(name):
        while done < len(part) and (count := _read(stream, part[done : done + CHUNK], offset + done)):
            done += count
    return done


def write_at(stream: BinaryIO, part: memoryview, offset: int, name: str) -> None:
    """Write all of `part` from byte `offset` of a file on.  An OSError has the name."""
    done = 0
    with named(name):
        while done < len(part):
            done += _write(stream, part[done : done + CHUNK], offset + done)


def moved_by_engine(call: str, stream: BinaryIO | None, *arguments: Any) -> int:
    """How many of the first runs the native engine moves: none of a pipe."""
    engine = native.module()
    if stream is None or engine is None:
        return 0
    done: int = getattr(engine, call)(stream.fileno(), *arguments)
    return done


def became_shorter(stream: BinaryIO, name: str, then: str) -> FileError:
    """The error for a file that ends before all of its bytes are read; `then` says which are missing."""
    size = counted(os.fstat(stream.fileno()).st_size, "byte")
    return FileError(f"{name}: the file has become shorter while it was read: it has {size}, {then}")


def _read(stream: BinaryIO, part: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(stream.fileno(), [part], offset)
    with _turn:
        os.lseek(stream.fileno(), offset, os.SEEK_SET)
        content = os.read(stream.fileno(), len(part))
    part[: len(content)] = content
    return len(content)


def _write(stream: BinaryIO, part: memoryview, offset: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(stream.fileno(), [part], offset)
    with _turn:
        os.lseek(stream.fileno(), offset, os.SEEK_SET)
        return os.write(stream.fileno(), part)
