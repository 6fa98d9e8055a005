"""The threads that carry out large moves on the CPU: NumPy lets others run while it copies and computes.

`GPULAYOUT_NUM_THREADS` says how many take part, the caller's own included; by default as many as this process may use
cores.  They are started by the first call that is large enough for them, never at import, and belong to one process: a
forked child starts its own.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gpulayout.planning.host_plan import MOST_THREADS

VARIABLE = "GPULAYOUT_NUM_THREADS"

_pool: ThreadPoolExecutor | None = None
_size = 0
_starting = threading.Lock()


class BadThreadCount(ValueError):
    """GPULAYOUT_NUM_THREADS holds no number of threads."""


def thread_count() -> int:
    """How many threads take part in a large move.  BadThreadCount when GPULAYOUT_NUM_THREADS is not a whole number of 1 or more."""
    return wanted_threads() or _usable_cores()


def wanted_threads() -> int | None:
    """The number in GPULAYOUT_NUM_THREADS, or None.  BadThreadCount as `thread_count` raises it."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.strip().isdecimal() and len(wanted) <= 20 and 1 <= int(wanted) <= MOST_THREADS):
        raise BadThreadCount(f"{VARIABLE} is {wanted[:40]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(wanted)


def share(work: Callable[[int, int], None], count: int, least: int) -> None:
    """Do work(first, last) for parts that make up 0..count-1, in as many threads as get at least `least` items each;
    a `least` of 0 leaves all to the caller.

    Returns when all of it is done; an error of any part is raised.  The caller does the first part, and every part that no
    thread has begun by then, so that callers never wait for each other.  Threads take parts from the caller's list, so one
    that comes late finds nothing to do.
    """
    threads = thread_count() if 0 < 2 * least <= count else 1
    parts = min(count // least, threads) if threads > 1 else 1
    if parts < 2:
        work(0, count)
        return
    ends = [count * part // parts for part in range(parts + 1)]
    waiting, left = list(zip(ends, ends[1:]))[::-1], parts
    errors: list[BaseException] = []
    lock, finished = threading.Lock(), threading.Event()

    def take() -> None:
        nonlocal left
        while True:
            with lock:
                if not waiting:                      # also a submission that failed, but is found in the queue later
                    return
                part = waiting.pop()
            try:
                work(*part)
            except BaseException as error:           # kept until nobody writes any more
                errors.append(error)
            with lock:
                left -= 1
                if not left:
                    finished.set()

    for _ in range(parts - 1):
        _submit(take, threads - 1)
    take()
    while not finished.is_set():
        try:
            finished.wait()
        except BaseException as error:               # Ctrl-C: the others still write
            errors.append(error)
    if errors:
        raise errors[0]


def _submit(work: Callable[[], None], size: int) -> None:
    """Let another thread take part, if there can be one: there is none when Python is shutting down."""
    global _pool, _size
    try:
        with _starting:
            if _size < size:                         # an executor does not grow; the old one finishes what it has
                _pool, _size = ThreadPoolExecutor(size, "gpulayout"), size
            _pool.submit(work)
    except RuntimeError:
        pass


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forget_threads() -> None:
    """In a forked child: the threads stayed with the parent, and its lock may be held for ever."""
    global _pool, _size, _starting
    _pool, _size, _starting = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
