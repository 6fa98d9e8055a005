"""The errors of files that cannot be read or written as asked, and notes about what is no error."""

from __future__ import annotations

import warnings
from collections.abc import Callable

Note = Callable[[str], None]  # gets one sentence about a file


class FileError(ValueError):
    """A file is not what a move needs, or must not be written.  The message begins with the file's name.

    advice   goes on where the message ends, with options of the command line, which is the only one to show it:
             "; --overwrite replaces it"
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.advice = advice


class OutputExistsError(FileError, FileExistsError):
    """The name of a new file is taken."""


def warn(text: str) -> None:
    """A note as a Python warning: what happens to notes unless the caller prints them itself."""
    warnings.warn(text, UserWarning, stacklevel=2)
