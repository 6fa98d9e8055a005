"""The threads that carry out large moves on the CPU: NumPy lets others run while it copies and computes.

`GPULAYOUT_NUM_THREADS` says how many take part, the caller's own included; by default as many as this process may use
cores.  They are started by the first call that is large enough for them, never at import, and belong to one process: a
forked child starts its own.

An exception can reach a caller between any two instructions: Ctrl-C, or whatever a signal's handler raises.  A signal's
handler and a `__del__` can also call `share` between any two instructions.  So nothing here holds a lock that a caller
waits for, and each step of a caller is one atomic operation or can be done twice:

- A thread enters the list `inside` before it takes a part, and leaves it when it has none left.
- A caller that goes, for whatever reason, first empties the list of parts and then waits for all who are inside.  A thread
  that enters later finds no part and touches nothing.
- A handler may also fork.  In the child no other thread is left, so the call waits for none and does all the work itself.
"""

from __future__ import annotations

import os
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from queue import SimpleQueue

VARIABLE = "GPULAYOUT_NUM_THREADS"
MOST_THREADS = 1024  # that anyone may ask for


class BadThreadCount(ValueError):
    """GPULAYOUT_NUM_THREADS holds no number of threads."""


def thread_count() -> int:
    """How many threads take part in a large move.  BadThreadCount when GPULAYOUT_NUM_THREADS is not a whole number of 1
    or more.
    """
    return wanted_threads() or _usable_cores()


def wanted_threads() -> int | None:
    """The number in GPULAYOUT_NUM_THREADS, or None.  BadThreadCount as `thread_count` raises it."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.strip().isdecimal() and len(wanted) <= 20 and 1 <= int(wanted) <= MOST_THREADS):
        raise BadThreadCount(f"{VARIABLE} is {wanted[:40]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(wanted)


def share(work: Callable[[int, int], None], count: int, least: int, threads: int | None = None) -> None:
    """Do work(first, last) for parts that make up 0..count-1, in as many threads as get at least `least` items each; a
    `least` of 0 leaves all to the caller.  `threads` is how many there are; None asks `thread_count`, if the work is
    enough for two.

    Returns when all of it is done.  The caller does the first part, and every part that no thread has begun by then, so
    callers never wait for each other.  After an error no further part is begun.  It is raised when no thread is at work
    any more, and so is an exception that reaches the caller from outside; further ones wait until then.
    """
    parts = count // least if least else 1
    if threads is None:
        threads = thread_count() if parts > 1 else 1
    parts = min(parts, threads)
    if parts < 2:
        work(0, count)
        return
    ends = [count * part // parts for part in range(parts + 1)]
    crew = _crew
    call = _Call(work, list(zip(ends, ends[1:]))[::-1], crew)
    try:
        try:
            crew.invite(call, parts - 1, threads - 1)
            call.take_parts()
        finally:
            call.close()
    finally:
        call.close()  # once more, for an exception that arrived on the way into or out of the first
    if call.error is not None:
        error, call.error = call.error, None  # an error that its own traceback leads to would keep the arrays alive
        raise error
    if crew.is_lost:
        work(0, count)


class _Call:
    """The parts of one call of `share` that nobody has begun, and the threads that are at work on others."""

    def __init__(self, work: Callable[[int, int], None], parts: list[tuple[int, int]], crew: _Crew) -> None:
        self.work = work
        self.crew = crew
        self.waiting = parts  # the next one last
        self.inside: list[LockType] = []  # one lock for each thread at work, which holds it until it is done
        self.error: BaseException | None = None  # to keep one needs no memory, of which there may be none

    def take_parts(self) -> None:
        """Do one part after the other until none is left."""
        while True:
            try:
                part = self.waiting.pop()
            except IndexError:
                return
            self.work(*part)

    def help(self) -> None:
        """What another thread does."""
        busy = allocate_lock()
        busy.acquire()
        self.crew.busy.append(busy)
        self.inside.append(busy)
        try:
            self.take_parts()
        except BaseException as error:  # the caller raises it when nobody writes any more
            self.error = error
            self.waiting.clear()
        finally:
            self.inside.remove(busy)
            busy.release()
            self.crew.busy.remove(busy)

    def close(self) -> None:
        """Let nobody begin a part, wait for those who have, and then raise what arrived meanwhile.  May be called
        again.
        """
        late = []
        while True:
            try:
                self.waiting.clear()
                for busy in list(self.inside):
                    if self.crew.is_lost:
                        break
                    busy.acquire()
                self.work = _nothing  # an invitation that nobody has read yet keeps no arrays alive
                break
            except BaseException as error:
                late.append(error)
        if late:
            raise late.pop()


def _nothing(first: int, last: int) -> None:
    """The work of a call that has ended."""


class _Crew:
    """The threads of this process, and the calls they are invited to."""

    def __init__(self) -> None:
        self.seats: dict[int, object] = {}  # which thread has which number
        self.invitations: SimpleQueue[_Call] = SimpleQueue()
        self.busy: list[LockType] = []  # the locks of all threads at work, for whichever call
        self.is_lost = False  # in a forked child: these threads stayed with the parent

    def lose(self) -> None:
        """Say so to the calls under way, also to one that waits for a lock at this moment."""
        self.is_lost = True
        for busy in self.busy:
            if busy.locked():
                busy.release()

    def invite(self, call: _Call, guests: int, size: int) -> None:
        """Let other threads take part, out of a crew of `size`.  None come when Python is shutting down."""
        if self._start(size):
            # they pile up while all threads are busy
            for _ in range(min(guests, MOST_THREADS - self.invitations.qsize())):
                self.invitations.put(call)

    def _start(self, size: int) -> bool:
        """Whether there are threads: `size` or more, unless no more can be started.

        A thread takes its seat itself.  Two callers may start one for the same seat, and the second finds it taken.
        """
        if len(self.seats) < size:
            for seat in range(size):
                if seat not in self.seats:
                    try:
                        # Not threading.Thread: its start takes a lock, where a handler that starts one would wait for
                        # ever.
                        start_new_thread(self._serve, (seat,))
                    except RuntimeError:
                        return bool(self.seats)
        return True

    def _serve(self, seat: int) -> None:
        thread = object()
        if self.is_lost or self.seats.setdefault(seat, thread) is not thread:
            return
        try:
            while True:
                self.invitations.get().help()  # no name for the call: a waiting thread would keep its arrays alive
        finally:
            del self.seats[seat]


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_crew = _Crew()


def _forget_threads() -> None:
    """In a forked child: the threads stayed with the parent."""
    global _crew
    lost, _crew = _crew, _Crew()
    lost.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
