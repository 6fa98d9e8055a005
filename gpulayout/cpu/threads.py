"""The threads that share large moves on the CPU.  NumPy releases the GIL while it copies and computes.

`thread_count` says how many take part, the calling thread included: what the code chose, else GPULAYOUT_NUM_THREADS,
else one for each core.  The first call that is large enough starts them, never an import.  They belong to one process:
a forked child starts its own.

Threads claim small portions of the work, so one that has no core delays a call by the portion that it is doing, not by
its share of everything.  Still, on a busy machine a second thread can take time instead of saving it: a caller that
waits for the GIL, or for a portion, loses its core to another process for some milliseconds.  Alone, it would have done
the others' work itself.  So when a caller has waited for longer than the others have worked, the calls that follow do
without them for a while.

An exception can reach a caller between any two instructions: Ctrl-C, or one that a signal handler raises.  A signal
handler or a `__del__` can also call `share` between any two instructions.  So nothing here holds a lock that a caller
waits for, and each step of a caller is one atomic operation or can be done twice:

- A thread enters the list `inside` before it claims a portion, and leaves it when no portion is left.
- A caller that leaves, for any reason, first empties the queue of portions and then waits for all threads that are
  inside.  A thread that enters later finds no portion and touches nothing.
- A handler may also fork.  The child has no other threads, so the call waits for none and does all the work itself.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter, thread_time

from gpulayout.layout.choice import Choices
from gpulayout.layout.errors import shown_as

Work = Callable[[int, int], None]
VARIABLE = "GPULAYOUT_NUM_THREADS"
MOST_THREADS = 1024  # the largest number that may be chosen
SCRATCH_BYTES = 4 << 20  # of the scratch arrays of all threads together
PORTIONS = 4  # for each thread, if they are large enough
LOSS = 0.0002  # seconds that a caller may wait for nothing; less does not justify a rest
HAS_CLOCK = hasattr(time, "CLOCK_THREAD_CPUTIME_ID")  # of a thread's own time; that of Windows has steps of 16 ms
PAUSES = 0.02, 1.0  # the shortest and the longest time without help, in seconds

choices: Choices[int | None] = Choices("threads")


@shown_as(ValueError)
class BadThreadCount(ValueError):
    """GPULAYOUT_NUM_THREADS is not a number of threads."""


def thread_count() -> int:
    """How many threads share a large move.  BadThreadCount when GPULAYOUT_NUM_THREADS counts and is not a number."""
    return _count_and_reason()[0]


def reason_of_count() -> str:
    """Where the number of `thread_count` comes from.  Raises as it does."""
    return _count_and_reason()[1]


def _count_and_reason() -> tuple[int, str]:
    choice = choices.current()
    if choice and choice.value:
        return choice.value, "chosen by use_threads"
    if not (wanted := os.environ.get(VARIABLE)):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return cores or 1, "the cores that this process may use"
    if not (wanted.isascii() and wanted.strip().isdecimal() and len(wanted) <= 20 and 1 <= int(wanted) <= MOST_THREADS):
        raise BadThreadCount(f"{VARIABLE} is {wanted[:40]!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(wanted), f"chosen by {VARIABLE}"


# ---- sharing -------------------------------------------------------------------------------------------------------


def share(work: Work, count: int, least: int, threads: int | None = None) -> None:
    """Call work(first, last) for portions that make up 0..count-1, in several threads.

    least     the fewest items of a portion; 0 leaves all of them to the caller
    threads   number of threads; None asks `thread_count`, if there are two portions

    Returns when everything is done.  Threads claim portions while there are any: the caller from the front, the others
    from the back, so callers never wait for a portion that no thread has begun, or for each other.  After an error no
    further portion begins.  The error is raised once no thread is working, as is an exception that reaches the caller
    from outside; later exceptions wait until then.
    """
    most = count // least if least else 1
    if threads is None:
        threads = thread_count() if most > 1 else 1
    crew = process_crew
    if min(most, threads) < 2 or crew.rests():
        work(0, count)
        return
    call = _SharedCall(work, _portions(count, least, threads), crew)
    begin, begin_work = perf_counter(), thread_time()
    try:
        try:
            crew.invite(call, min(most, threads) - 1, threads - 1)
            call.lead()
        finally:
            call.close()
    finally:
        call.close()  # again, in case an exception arrived on the way into or out of the first call
    if call.error is not None:
        error, call.error = call.error, None  # the traceback refers to `call`: a cycle would keep the arrays alive
        raise error
    if crew.is_lost:
        work(0, count)
    elif HAS_CLOCK:
        waited = perf_counter() - begin - (thread_time() - begin_work)
        crew.judge(waited - sum(call.helped))


def share_chunks(work: Work, count: int, size: int, threads: int) -> None:
    """Call work(begin, end) for chunks of `size` items, of which the last may have fewer, as `share` does."""

    def do(first: int, last: int) -> None:
        for begin in range(first * size, min(last * size, count), size):
            work(begin, min(begin + size, count))

    share(do, -(-count // size), 1, threads)


def _portions(count: int, least: int, threads: int) -> deque[tuple[int, int]]:
    """The portions of 0..count-1.  They get smaller towards the middle, where threads meet: each takes half of what is
    left for it, so that all end at about the same time.

    32 items for 2 threads, at least one each:  0-7 8-11 12-13 14-15 | 16-17 18-19 20-23 24-31
    """
    front: list[tuple[int, int]] = []
    back: list[tuple[int, int]] = []
    first, last = 0, count
    while len(front) < PORTIONS - 1 and (size := (last - first) // (2 * threads)) >= 2 * least:
        front.append((first, first + size))
        first += size
        for _ in range(threads - 1):
            back.append((last - size, last))
            last -= size
    number = min((last - first) // least, threads)
    ends = [first + (last - first) * portion // number for portion in range(number + 1)]
    return deque([*front, *zip(ends, ends[1:]), *reversed(back)])


class _SharedCall:
    """One call of `share`: the portions that no thread has begun, and the threads working on other portions."""

    def __init__(self, work: Work, portions: deque[tuple[int, int]], crew: Crew) -> None:
        self.work, self.crew = work, crew
        self.waiting = portions
        self.inside: list[LockType] = []  # one lock per thread at work, which holds it until it is done
        self.helped: list[float] = []  # seconds that other threads have worked
        self.error: BaseException | None = None  # one attribute: storing an error must not need memory

    def lead(self) -> None:
        """Do portions until none is left."""
        while True:
            try:
                portion = self.waiting.popleft()
            except IndexError:
                return
            self.work(*portion)

    def help(self) -> None:
        """Do portions on another thread."""
        if not self.waiting:
            return
        busy = allocate_lock()
        busy.acquire()
        self.crew.busy.append(busy)
        self.inside.append(busy)
        try:
            begin = thread_time()
            while True:
                try:
                    portion = self.waiting.pop()
                except IndexError:
                    break
                self.work(*portion)
            self.helped.append(thread_time() - begin)
        except BaseException as error:  # the caller raises it once no thread is writing
            self.error = error
            self.waiting.clear()
        finally:
            self.inside.remove(busy)
            busy.release()
            self.crew.busy.remove(busy)

    def close(self) -> None:
        """Stop threads from beginning a portion, wait for those at work, then raise what arrived meanwhile.  Can be
        called twice.
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
        self.invitations: SimpleQueue[_SharedCall] = SimpleQueue()
        self.busy: list[LockType] = []  # the locks of all threads at work, for any call
        self.is_lost = False  # true in a forked child: the threads stayed with the parent
        self.pause = PAUSES[0]  # seconds that the threads rest after the next loss
        self.back = 0.0  # when they are back

    def lose(self) -> None:
        """Tell the calls under way that the threads are gone, including a call that waits for a lock now."""
        self.is_lost = True
        for busy in self.busy:
            if busy.locked():
                busy.release()

    def rests(self) -> bool:
        """Whether calls do without these threads at the moment."""
        return perf_counter() < self.back

    def judge(self, loss: float) -> None:
        """Rest after a call that took `loss` seconds longer than without these threads: each time four times as long.
        A call without a loss halves the time.
        """
        if loss > LOSS:
            self.back = perf_counter() + self.pause
            self.pause = min(4 * self.pause, PAUSES[1])
        else:
            self.pause = max(self.pause / 2, PAUSES[0])

    def invite(self, call: _SharedCall, guests: int, size: int) -> None:
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


process_crew = Crew()  # the crew of this process


def _forget_threads() -> None:
    """In a forked child: start a new crew, because the threads stayed with the parent."""
    global process_crew
    lost, process_crew = process_crew, Crew()
    lost.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
