"""Standard input and output as files of bytes: what `-` stands for.

The text "-" is a standard stream.  Path("-") is a file of that name, which people write as ./-.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from gpulayout.files.errors import FileError, named
from gpulayout.files.folders import refuse_folder

File = Path | Literal["-"]


def input_name(file: File) -> str:
    """What messages call a file that is read."""
    return "standard input" if file == "-" else str(file)


def output_name(file: File) -> str:
    """What messages call a file that is written."""
    return "standard output" if file == "-" else str(file)


def names_stream(path: Path, number: int) -> bool:
    """True for the names of standard input (0) and output (1) in the file system, such as /dev/stdout."""
    return str(path) in (f"/dev/{('stdin', 'stdout')[number]}", f"/dev/fd/{number}", f"/proc/self/fd/{number}")


def standard_input() -> BinaryIO:
    """The bytes of standard input; `FileError` if it is closed."""
    if sys.stdin is None:
        raise FileError("standard input is closed")
    return sys.stdin.buffer


@contextlib.contextmanager
def opened(file: File) -> Iterator[BinaryIO]:
    """A regular file or standard input, open for reading; `FileError` for a terminal, which has no bytes to read."""
    if isinstance(file, Path):
        status = os.stat(file)  # opening a pipe would wait for a writer
        refuse_folder(file)
        if not stat.S_ISREG(status.st_mode):
            advice = "; write - for standard input" if names_stream(file, 0) else ""
            raise FileError(f"{file}: not a regular file", advice)
        with open(file, "rb") as stream:
            yield stream
        return
    if standard_input().isatty():
        raise FileError("standard input is a terminal: redirect a file to it, or a pipe")
    yield standard_input()


def status_of(stream: BinaryIO) -> os.stat_result | None:
    """The status of an open file if it is a regular one, with offsets to read at; None for pipes."""
    try:
        status = os.fstat(stream.fileno())
    except io.UnsupportedOperation:  # a stream of this process
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def standard_output_is_closed() -> bool:
    """True when the caller has closed standard output."""
    return sys.stdout is None or sys.stdout.closed


def check_standard_output_open() -> None:
    """`FileError` when standard output is closed."""
    if standard_output_is_closed():
        raise FileError("standard output is closed")


def check_standard_output() -> None:
    """`FileError` when standard output is closed, or a terminal, which would show the bytes and obey some of them."""
    check_standard_output_open()
    if sys.stdout.isatty():
        raise FileError("standard output is a terminal: redirect it to a file or a pipe")


def write_standard_output(*parts: bytes | memoryview) -> None:
    """Write all bytes and flush them; an OSError names standard output, and `FileError` says that it is closed."""
    check_standard_output_open()
    stream = sys.stdout.buffer
    with named("standard output"):
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[stream.write(rest) :]  # with PYTHONUNBUFFERED it may write less than all
        stream.flush()
