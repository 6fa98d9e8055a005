"""How far long work is: a bar on a terminal, a line now and then in a log, lines of JSON for programs.  On stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SOON = 0.5  # seconds; what ends before shows no bar
BETWEEN_BARS = 0.05  # seconds; to draw takes longer than to move a small tensor
BETWEEN_JSON = 1.0  # seconds between two lines
BETWEEN_LOG = 30.0
LONG = 1 << 30  # bytes read and written; a log says at once that so long a move has begun


class LongWork:
    """What to call with the bytes done and all bytes, and before, with how far the preparations are."""

    def __call__(self, done: int, total: int) -> None:
        """So many bytes were read and written."""
        self.stage("", done, total)

    def stage(self, what: str, done: int, total: int) -> None:
        """So many of all things that are read or planned: `what` is such as "headers read", and "" for bytes moved."""


@contextlib.contextmanager
def shown_progress(*, quiet: bool, as_json: bool) -> Iterator[LongWork]:
    """What to call inside the `with`.  The bar is gone when the block ends."""
    if as_json:
        yield _Lines(BETWEEN_JSON, _json_line)
    elif quiet:
        yield LongWork()
    elif not sys.stderr.isatty():
        yield _Lines(BETWEEN_LOG, _log_line, at_once=LONG)
    else:
        bar = _LateBar()
        try:
            yield bar
        finally:
            bar.stop()


class _Lines(LongWork):
    """A line every so many seconds, and one with the first report of a move of `at_once` bytes or more."""

    def __init__(
        self, between: float, line: Callable[[str, int, int, float], str], *, at_once: float = math.inf
    ) -> None:
        self.between, self.line, self.at_once = between, line, at_once
        self.begin = self.last = time.monotonic()

    def stage(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last >= self.between or not what and total >= self.at_once:
            self.last = now
            if not what:
                self.at_once = math.inf
            with contextlib.suppress(OSError):  # a log that is full or gone does not end the move
                click.echo(self.line(what, done, total, now - self.begin), err=True)


def _json_line(what: str, done: int, total: int, seconds: float) -> str:
    """Such as {"done_bytes": 1048576, "total_bytes": 12168312000, "seconds": 1.0}.

    Of a stage, such as {"stage": "headers read", "done": 12, "total": 60, "seconds": 1.0}.
    """
    counts = {"stage": what, "done": done, "total": total} if what else {"done_bytes": done, "total_bytes": total}
    return json.dumps({**counts, "seconds": round(seconds, 1)})


def _log_line(what: str, done: int, total: int, seconds: float) -> str:
    """Such as gpulayout: 10%, 1216831200 of 12168312000 bytes read and written, 30 s.

    Of a stage, such as gpulayout: 12 of 60 headers read, 30 s.
    """
    part = "" if what else f"{done / max(total, 1):.0%}, "
    return f"gpulayout: {part}{done} of {total} {what or 'bytes read and written'}, {seconds:.0f} s"


class _LateBar(LongWork):
    """A bar with bytes, rate and time left, once it is clear that it takes a while; before it, one of the stage."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.drawn = -math.inf
        self.what = ""
        self.bar: Bar | None = None

    def stage(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self.what:
            self.stop()
        elif now - self.drawn < BETWEEN_BARS and done < total:
            return
        self.what = what
        if self.bar is None and now - self.begin >= SOON:
            self.bar = new_bar(what)
            self.bar.add_task(what, total=total)
            self.bar.start()
        if self.bar is not None:
            self.drawn = now
            self.bar.update(self.bar.task_ids[0], completed=done, refresh=True)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        self.bar = None


def new_bar(what: str) -> Bar:
    """A bar for the bytes of a move, or for the things of a stage."""
    from rich import progress  # only here: most commands show no bar, and importing it is slow
    from rich.console import Console

    numbers = (
        (progress.MofNCompleteColumn(), progress.TextColumn("{task.description}"))
        if what
        else (progress.TaskProgressColumn(), progress.DownloadColumn(), progress.TransferSpeedColumn())
    )
    return progress.Progress(
        progress.BarColumn(),
        *numbers,
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # a refresh with every report needs no thread
    )
