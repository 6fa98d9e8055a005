"""Errors that the user can fix become one line on stderr and exit code 1.  All others keep their traceback."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import IO, Any

import click

from gpulayout.api.backends import BackendUnavailable
from gpulayout.cpu.thread_count import BadThreadCount
from gpulayout.files.errors import FileError
from gpulayout.layout.errors import LayoutError


class Failure(click.ClickException):
    """The job failed: `gpulayout: error: MESSAGE` on stderr, exit code 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"gpulayout: error: {printable(self.message)}", err=True)


def print_note(text: str) -> None:
    """Say on stderr what is no error."""
    click.echo(f"gpulayout: note: {printable(text)}", err=True)


@contextlib.contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Turn errors of the library and the operating system into a `Failure`."""
    try:
        yield
    except BrokenPipeError:  # an OSError, but the reader of the message is gone
        raise
    except FileError as error:  # one of them is an OSError as well
        raise Failure(f"{error}{error.advice}") from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise Failure(f"{where}{error.strerror or error}") from error
    except MemoryError as error:
        raise Failure(f"not enough memory: {error}" if str(error) else "not enough memory") from error
    except (LayoutError, IndexError, BufferError, BackendUnavailable, BadThreadCount) as error:
        raise Failure(with_options(str(error))) from error


@contextlib.contextmanager
def type_errors_in_one_line() -> Iterator[None]:
    """The same for TypeErrors about element types: elsewhere a TypeError is a fault of this program."""
    try:
        yield
    except TypeError as error:
        raise Failure(with_options(str(error))) from error


def with_options(text: str) -> str:
    """A message with options of the command line instead of keywords: dtype='f32' becomes --dtype f32.

    >>> with_options("max_bytes '8' is too small for dtype='f32', block=2")
    '--memory 8 is too small for --dtype f32, --block 2'
    """
    text = re.sub(r"\bmax_bytes '([^']*)'", r"--memory \1", text)
    text = re.sub(r"\bassume=\{r('.*?)': '(.*?')\}", r"--assume \1=\2", text)
    return re.sub(r"\b(dtype|block)=('?)(\w+)\2", r"--\1 \3", text)


def printable(text: str) -> str:
    r"""One line without control characters: a file name may hold them, and a terminal would obey.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
