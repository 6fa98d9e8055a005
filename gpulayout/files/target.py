"""A new file of elements, to be written in parts: a .npy file or plain bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.files.errors import Note, warn
from gpulayout.files.linux_files import forget_content
from gpulayout.files.new_file import new_file
from gpulayout.files.npy import Header, header_bytes
from gpulayout.files.positioned import write_at
from gpulayout.files.source import Bytes
from gpulayout.files.standard_streams import File, write_standard_output


class Tails(NamedTuple):
    """What lies behind the last page boundary of each run: it waits for the block that continues the run.

    memory        a page for each run
    has, keeps    whether runs begin with such a tail, and whether they leave one
    """

    memory: memoryview
    has: bool
    keeps: bool


@dataclass(frozen=True)
class Target:
    """The elements of a new file.

    header   what they are; byte `start` of `header.nbytes` is byte `offset + start` of the file
    stream   the file, or None for standard output
    memory   the bytes of all elements if they go to standard output; otherwise empty
    """

    header: Header
    offset: int
    stream: BinaryIO | None = field(repr=False)
    memory: Bytes = field(repr=False)

    def write_from(self, part: memoryview, start: int) -> None:
        """Write the bytes of the elements from byte `start` on.  Threads may call it at the same time."""
        if self.stream is None:
            self.memory.data[start : start + len(part)] = part
        else:
            write_at(self.stream, part, self.offset + start, self.header.name)

    def write_runs(self, memory: memoryview, starts: np.ndarray, length: int, tails: Tails) -> int:
        """Write the first of many runs, as `Source.read_runs` reads them.  `tails` are those of these runs."""
        engine = native.module()
        if self.stream is None or engine is None:
            return 0
        done: int = engine.write_runs(self.stream.fileno(), memory, starts + self.offset, length, *tails)
        return done


@contextlib.contextmanager
def new_target(file: File, header: Header, *, plain: bool, overwrite: bool, note: Note = warn) -> Iterator[Target]:
    """A new .npy file, or one of `plain` bytes, whose elements are written inside the `with`.

    The space on the disk is reserved before.  A file appears when the block ends without an error, see `new_file`;
    standard output gets its bytes then.
    """
    beginning = b"" if plain else header_bytes(header)
    if not isinstance(file, Path):
        target = Target(header, 0, None, np.empty(header.nbytes, np.uint8))
        yield target
        write_standard_output(beginning, target.memory.data)
        return
    with new_file(file, overwrite=overwrite, note=note) as stream:
        stream.write(beginning)
        stream.flush()
        reserve_space(stream, len(beginning) + header.nbytes)
        try:
            yield Target(header, len(beginning), stream, np.empty(0, np.uint8))
        except BaseException:
            forget_content(stream)
            raise


def reserve_space(stream: BinaryIO, size: int) -> None:
    """Take the space now, so that a full disk is an error before the work and not after it."""
    if size and hasattr(os, "posix_fallocate"):  # which refuses to reserve nothing
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        os.ftruncate(stream.fileno(), size)
