"""How a command ends that cannot do its job: one line on stderr, and an exit code.

Errors that the user can fix exit with 1; all others keep their traceback.  Signals say which file is missing: SIGINT
(Ctrl-C) exits with 130, SIGTERM with 143, SIGHUP with 129, which is 128 + the number, as shells have it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import click

from gpulayout.choices.backends import BackendUnavailable
from gpulayout.cpu.native import BadNativeChoice
from gpulayout.cpu.threads import BadThreadCount
from gpulayout.files.errors import FileError
from gpulayout.files.standard_streams import File
from gpulayout.layout.errors import LayoutError

OF_THE_LIBRARY: tuple[type[Exception], ...] = (
    LayoutError,
    IndexError,
    BufferError,
    BackendUnavailable,
    BadThreadCount,
    BadNativeChoice,
)
ENDINGS = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))


class Failure(click.ClickException):
    """The job failed: `gpulayout: error: MESSAGE` on stderr, exit code 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"gpulayout: error: {printable(self.message)}", err=True)


def print_note(text: str) -> None:
    """Say on stderr what is no error."""
    click.echo(f"gpulayout: note: {printable(text)}", err=True)


@contextlib.contextmanager
def failures_in_one_line(*also: type[Exception]) -> Iterator[None]:
    """Turn errors of the library and the operating system into a `Failure`.

    also   such as TypeError where element types are checked: elsewhere it is a fault of this program
    """
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
    except OF_THE_LIBRARY + also as error:
        raise Failure(with_options(str(error))) from error


class Stopped(SystemExit):
    """A signal ends the command.

    left   what the command leaves undone or has done, for the message; "" if there is nothing to say
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name
        self.left = ""

    def show(self) -> None:
        """Say it in one line on stderr, if anybody can read it."""
        with contextlib.suppress(OSError):
            click.echo(f"gpulayout: stopped by {self.name}{self.left and f': {printable(self.left)}'}", err=True)


def stop_on_signals() -> None:
    """Let the signals that end a command raise `Stopped` in it, unless the caller ignores them."""
    for ending in ENDINGS:
        if signal.getsignal(ending) != signal.SIG_IGN:  # nohup and background jobs ignore some of them
            signal.signal(ending, _stop)


def _stop(number: int, frame: object) -> None:
    """Exit on a signal.  Unfinished files are removed on the way out, and no later signal interrupts that.

    Later signals get a handler that does nothing, not SIG_IGN: Python reports an error if a signal that has arrived is
    then set to SIG_IGN.
    """
    for ending in ENDINGS:
        signal.signal(ending, lambda *_: None)
    raise Stopped(number)


@contextlib.contextmanager
def says_what_is_missing(target: File) -> Iterator[None]:
    """If a signal ends the `with`, its message says whether the file `target` was written."""
    before = _identity(target)
    try:
        yield
    except Stopped as stopped:
        if not isinstance(target, Path):
            stopped.left = "standard output is not complete"
        else:  # a file appears when it is complete
            stopped.left = f"{target} {'was not written' if _identity(target) == before else 'is complete'}"
        raise


def _identity(file: File) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None if there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# ---- messages ------------------------------------------------------------------------------------------------


def with_options(text: str) -> str:
    """A message with options of the command line instead of keywords: dtype='f32' becomes --dtype f32.

    In what is said of a rule, and of a tensor of a model, which a rule changes, it becomes dtype=f32.

    >>> with_options("max_bytes '8' is too small for dtype='f32', block=2")
    '--memory 8 is too small for --dtype f32, --block 2'
    >>> with_options("tensor 'w', U8[2,4]: write dtype='f32', divide=True")
    "tensor 'w', U8[2,4]: write dtype=f32, divide"
    """
    written = _as_option
    if text.startswith(("tensor '", "the rule '")):
        written, text = _as_part, _CODES.sub(_CODES_IN_RULES, text)
    return _KEYWORD.sub(lambda match: _in_a_command(match, written), text)


_CODES = re.compile(r"write \w+\.view\(\w+\.float8_e8m0fnu\) if these are, or \w+\.astype\('f'\) if")
_CODES_IN_RULES = "write from=f8e8m0fnu in the rule of that tensor if these are, or dtype=f32 if"
# Keywords in messages, but not in brackets, where names of the catalogue have theirs; and quoted text, in which a
# user's own words stay as they are.
_KEYWORD = re.compile(
    r"\bmax_bytes '(?P<memory>[^']*)'|\bassume=\{r'(?P<regex>.*?)': '(?P<kind>.*?)'\}|"
    r"(?<!\()\b(?P<name>dtype|block|divide|saturate|byte_order)=(?P<quote>'?)(?P<value>\w+)(?P=quote)|"
    r"reshape it to \(.*?\)|(?<!\w)'(?:[^'\\]|\\.)*'"
)


def _in_a_command(match: re.Match[str], written: Callable[[str, str], str]) -> str:
    if match["memory"] is not None:
        return f"--memory {match['memory']}"
    if match["regex"] is not None:
        return f"--assume '{match['regex']}={match['kind']}'"
    if match["name"] is not None:
        return written(match["name"], match["value"])
    return "call gl.relayout_file with an array" if match[0].startswith("reshape") else match[0]


def _as_option(name: str, value: str) -> str:
    if name in ("divide", "saturate"):
        return "--divide" if name == "divide" else "--no-saturate"
    return f"--{name.replace('_', '-')} {value}"


def _as_part(name: str, value: str) -> str:
    return name if value == "True" else f"{name}={value}"


def printable(text: str) -> str:
    r"""One line without control characters: a file name may hold them, and a terminal would obey.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
