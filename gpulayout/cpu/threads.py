"""The threads that share large moves on the CPU.  NumPy releases the GIL while it copies and computes.

`GPULAYOUT_NUM_THREADS` sets how many take part, the calling thread included; the default is the number of cores that
this process may use.  The first call that is large enough starts them, never an import.  They belong to one process: a
forked child starts its own.

An exception can reach a caller between any two instructions: Ctrl-C, or one that a signal handler raises.  A signal
handler or a `__del__` can also call `share` between any two instructions.  So nothing here holds a lock that a caller
waits for, and each step of a caller is one atomic operation or can be done twice:

- A thread enters the list `inside` before it takes a part, and leaves it when no part is left.
- A caller that leaves, for any reason, first empties the list of parts and then waits for all threads that are inside.
  A thread that enters later finds no part and touches nothing.
- A handler may also fork.  The child has no other threads, so the call waits for none and does all the work itself.
"""

from __future__ import annotations

import os
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from queue import SimpleQueue

VARIABLE = "GPULAYOUT_NUM_THREADS"
MOST_THREADS = 1024  # the largest number that GPULAYOUT_NUM_THREADS may hold


class BadThreadCount(ValueError):
    """GPULAYOUT_NUM_THREADS is not a number of threads."""


def thread_count() -> int:
    """How many threads share a large move.  BadThreadCount when GPULAYOUT_NUM_THREADS is not a number of threads."""
    return wanted_threads() or _usable_cores()


def wanted_threads() -> int | None:
    """The number in GPULAYOUT_NUM_THREADS, or None.  Raises as `thread_count` does."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.strip().isdecimal() and len(wanted) <= 20 and 1 <= int(wanted) <= MOST_THREADS):
        raise BadThreadCount(f"{VARIABLE} is {wanted[:40]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(wanted)


def share(work: Callable[[int, int], None], count: int, least: int, threads: int | None = None) -> None:
    """Call work(first, last) for parts that make up 0..count-1, in several threads.

    least     the fewest items for a thread; 0 leaves all of them to the caller
    threads   number of threads; None asks `thread_count`, if there is work for two

    Returns when everything is done.  The caller does the first part, then every part that no thread has begun, so
    callers never wait for each other.  After an error no further part begins.  The error is raised once no thread is
    working, as is an exception that reaches the caller from outside; later exceptions wait until then.
    """
    parts = count // least if least else 1
    if threads is None:
        threads = thread_count() if parts > 1 else 1
    parts = min(parts, threads)
    if parts < 2:
        work(0, count)
        return
    ends = [count * part // parts for part in range(parts + 1)]
    crew = process_crew
    call = _Call(work, list(zip(ends, ends[1:]))[::-1], crew)
    try:
        try:
            crew.invite(call, parts - 1, threads - 1)
            call.take_parts()
        finally:
            call.close()
    finally:
        call.close()  # again, in case an exception arrived on the way into or out of the first call
    if call.error is not None:
        error, call.error = call.error, None  # the traceback refers to `call`: a cycle would keep the arrays alive
        raise error
    if crew.is_lost:
        work(0, count)


class _Call:
    """One call of `share`: the parts that no thread has begun, and the threads working on other parts."""

    def __init__(self, work: Callable[[int, int], None], parts: list[tuple[int, int]], crew: Crew) -> None:
        self.work = work
        self.crew = crew
        self.waiting = parts  # the next one last
        self.inside: list[LockType] = []  # one lock per thread at work, which holds it until it is done
        self.error: BaseException | None = None  # one attribute: storing an error must not need memory

    def take_parts(self) -> None:
        """Do parts until none is left."""
        while True:
            try:
                part = self.waiting.pop()
            except IndexError:
                return
            self.work(*part)

    def help(self) -> None:
        """Take parts on another thread."""
        busy = allocate_lock()
        busy.acquire()
        self.crew.busy.append(busy)
        self.inside.append(busy)
        try:
            self.take_parts()
        except BaseException as error:  # the caller raises it once no thread is writing
            self.error = error
            self.waiting.clear()
        finally:
            self.inside.remove(busy)
            busy.release()
            self.crew.busy.remove(busy)

    def close(self) -> None:
        """Stop threads from beginning a part, wait for those at work, then raise what arrived meanwhile.  Can be called
        twice.
        """
        late = []
        while True:
            try:
                self.waiting.clear()
                for busy in list(self.inside):
                    if self.crew.is_lost:
                        break
                    busy.acquire()
                self.work = _nothing  # an unread invitation must not keep arrays alive
                break
            except BaseException as error:
                late.append(error)
        if late:
            raise late.pop()


def _nothing(first: int, last: int) -> None:
    """The work of a call that is over."""


class Crew:
    """The threads of this process, and the calls that they are invited to."""

    def __init__(self) -> None:
        self.seats: dict[int, object] = {}  # thread by number
        self.invitations: SimpleQueue[_Call] = SimpleQueue()
        self.busy: list[LockType] = []  # the locks of all threads at work, for any call
        self.is_lost = False  # true in a forked child: the threads stayed with the parent

    def lose(self) -> None:
        """Tell the calls under way that the threads are gone, including a call that waits for a lock now."""
        self.is_lost = True
        for busy in self.busy:
            if busy.locked():
                busy.release()

    def invite(self, call: _Call, guests: int, size: int) -> None:
        """Invite other threads, out of a crew of `size`.  None come while Python shuts down."""
        if self._start(size):
            # Invitations pile up while all threads are busy.
            for _ in range(min(guests, MOST_THREADS - self.invitations.qsize())):
                self.invitations.put(call)

    def _start(self, size: int) -> bool:
        """Start threads up to `size`, as far as the system allows; return whether there are any.

        A thread takes its seat itself.  When two callers start a thread for the same seat, the second finds it taken.
        """
        if len(self.seats) < size:
            for seat in range(size):
                if seat not in self.seats:
                    try:
                        # Not threading.Thread: its start takes a lock, on which a signal handler that also starts a
                        # thread would wait forever.
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
                self.invitations.get().help()  # a variable for the call would keep its arrays alive while waiting
        finally:
            del self.seats[seat]


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


process_crew = Crew()  # the crew of this process


def _forget_threads() -> None:
    """In a forked child: start a new crew, because the threads stayed with the parent."""
    global process_crew
    lost, process_crew = process_crew, Crew()
    lost.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
