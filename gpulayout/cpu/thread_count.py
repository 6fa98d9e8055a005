"""How many threads share a large move: what the code chose, else GPULAYOUT_NUM_THREADS, else one for each core."""

from __future__ import annotations

import os

from gpulayout.layout.choice import Choices

VARIABLE = "GPULAYOUT_NUM_THREADS"
MOST_THREADS = 1024  # the largest number that may be chosen

choices: Choices[int | None] = Choices("threads")


class BadThreadCount(ValueError):
    """GPULAYOUT_NUM_THREADS is not a number of threads."""


def thread_count() -> int:
    """How many threads share a large move.  BadThreadCount when GPULAYOUT_NUM_THREADS counts and is not a number."""
    return _chosen() or _wanted() or _usable_cores()


def reason_of_count() -> str:
    """Where the number of `thread_count` comes from.  Raises as it does."""
    if _chosen():
        return "chosen by use_threads"
    return f"chosen by {VARIABLE}" if _wanted() else "the cores that this process may use"


def _chosen() -> int | None:
    choice = choices.current()
    return choice.value if choice else None


def _wanted() -> int | None:
    """The number in GPULAYOUT_NUM_THREADS."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.strip().isdecimal() and len(wanted) <= 20 and 1 <= int(wanted) <= MOST_THREADS):
        raise BadThreadCount(f"{VARIABLE} is {wanted[:40]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(wanted)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
