"""The errors of files that cannot be read or written as asked, and notes about what is no error."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

from gpulayout.layout.errors import shown_as

Note = Callable[[str], None]  # gets one sentence about a file


@shown_as(ValueError)
class FileError(ValueError):
    """A file is not what a move needs, or must not be written.  The message begins with the file's name.

    advice   goes on where the message ends, with options of the command line: "; --overwrite replaces it"
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.advice = advice


@shown_as(FileExistsError)
class OutputExistsError(FileError, FileExistsError):
    """The name of a new file is taken."""


_KEYWORDS = (
    ("gpulayout relayout --from SHAPE", "source=SHAPE"),
    ("--from SHAPE", "source=SHAPE"),
    ("--to '", "target='"),
    ("--raw", "raw=True"),
    ("--no-strict", "strict=False"),
    ("--overwrite", "overwrite=True"),
    ("--ranks 2", "ranks=2"),
    ("--ranks 4:1", "ranks=(4, 1)"),
    ("--ranks 4:2", "ranks=(4, 2)"),
)


def advice_in_python(advice: str) -> str:
    """The advice with keywords in place of options; nothing if it names others, or commands.

    >>> advice_in_python("; --overwrite replaces it"), advice_in_python("; gpulayout pack reads an N-d array")
    ('; overwrite=True replaces it', '')
    """
    for option, keyword in _KEYWORDS:
        advice = advice.replace(option, keyword)
    return "" if "--" in advice or "gpulayout " in advice or "standard input" in advice else advice


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """An OSError inside the `with` gets the name of a file."""
    try:
        yield
    except OSError as error:  # its number also makes the class, such as BrokenPipeError
        raise OSError(error.errno, error.strerror, name) from error


def warn(text: str) -> None:
    """A note as a Python warning: what happens to notes unless the caller prints them itself."""
    warnings.warn(text, UserWarning, stacklevel=2)
