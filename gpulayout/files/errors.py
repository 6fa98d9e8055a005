"""The error of a file that cannot be read or written as asked, and how to tell users what is no error."""

from __future__ import annotations

import warnings
from collections.abc import Callable

Note = Callable[[str], None]  # gets one sentence about a file


class FileError(ValueError):
    """A file is not what a move needs, or must not be written; the message begins with the file's name."""


def warn(text: str) -> None:
    """A note as a Python warning: what happens to notes unless the caller prints them itself."""
    warnings.warn(text, UserWarning, stacklevel=2)
