"""How far a long move is: a bar on a terminal, a line now and then in a log, lines of JSON for programs.  On stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from gpulayout.files.move import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SOON = 0.5  # seconds; what ends before shows no bar
BETWEEN_JSON = 1.0  # seconds between two lines
BETWEEN_LOG = 30.0
LONG = 1 << 30  # bytes read and written; a log says at once that so long a move has begun


@contextlib.contextmanager
def shown_progress(*, quiet: bool, as_json: bool) -> Iterator[Progress]:
    """What to call with the bytes done and all bytes, inside the `with`.  The bar is gone when the block ends."""
    if as_json:
        yield _Lines(BETWEEN_JSON, _json_line)
    elif quiet:
        yield _nothing
    elif not sys.stderr.isatty():
        yield _Lines(BETWEEN_LOG, _log_line, at_once=LONG)
    else:
        bar = _LateBar()
        try:
            yield bar
        finally:
            bar.stop()


def _nothing(done: int, total: int) -> None:
    """Show nothing."""


class _Lines:
    """A line every so many seconds, and one with the first report of a move of `at_once` bytes or more."""

    def __init__(self, between: float, line: Callable[[int, int, float], str], *, at_once: float = math.inf) -> None:
        self.between, self.line, self.at_once = between, line, at_once
        self.begin = self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last >= self.between or total >= self.at_once:
            self.last, self.at_once = now, math.inf
            with contextlib.suppress(OSError):  # a log that is full or gone does not end the move
                click.echo(self.line(done, total, now - self.begin), err=True)


def _json_line(done: int, total: int, seconds: float) -> str:
    """Such as {"done_bytes": 1048576, "total_bytes": 12168312000, "seconds": 1.0}."""
    return json.dumps({"done_bytes": done, "total_bytes": total, "seconds": round(seconds, 1)})


def _log_line(done: int, total: int, seconds: float) -> str:
    """Such as gpulayout: 10%, 1216831200 of 12168312000 bytes read and written, 30 s."""
    return f"gpulayout: {done / max(total, 1):.0%}, {done} of {total} bytes read and written, {seconds:.0f} s"


class _LateBar:
    """A bar with bytes, rate and time left, once it is clear that the move takes a while."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.bar: Bar | None = None

    def __call__(self, done: int, total: int) -> None:
        if self.bar is None and time.monotonic() - self.begin >= SOON:
            self.bar = _new_bar()
            self.bar.add_task("", total=total)
            self.bar.start()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, refresh=True)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _new_bar() -> Bar:
    from rich import progress  # only here: most commands show no bar, and importing it is slow
    from rich.console import Console

    return progress.Progress(
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # a refresh with every report needs no thread
    )
