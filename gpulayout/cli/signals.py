"""Signals that end a command: exit code, and one line on stderr that says which file is missing.

SIGINT (Ctrl-C) exits with 130, SIGTERM with 143, SIGHUP with 129: 128 + the number, as shells have it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import click

from gpulayout.cli.failures import printable
from gpulayout.files.standard_streams import File

ENDINGS = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))


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
