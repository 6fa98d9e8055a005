"""Standard streams that the caller has closed, as `>&-` does in a shell.

Their descriptors 0, 1 and 2 are free then, and the next files that open would get them: whatever prints to standard
output or error, also from C, would print into those files.  So they are taken first.
"""

from __future__ import annotations

import io
import os
import sys

from gpulayout.cli.failures import Failure


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that is closed: what a command prints fails, instead of being lost."""

    closed = True

    def write(self, text: str) -> int:
        raise Failure("standard output is closed")

    def flush(self) -> None:
        """Nothing waits to be written."""

    def isatty(self) -> bool:
        return False


def take_closed_streams() -> None:
    """Take the free ones of descriptors 0, 1 and 2.

    Printing fails if standard output is closed, and messages are lost if standard error is.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # click would print usage errors to standard output
