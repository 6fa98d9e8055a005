"""Interrupt the threads of the CPU backend everywhere, and check that no thread still writes.

    python -m tests.support.interruptions exceptions     an exception after every instruction of `threads.py`
    python -m tests.support.interruptions nested         another large move after every instruction, as from a handler
    python -m tests.support.interruptions signals 2000   real signals at random moments of real moves
    python -m tests.support.interruptions exits 200      processes interrupted in their first large move; they must end

Each prints what it did, and exits with 1 when a thread touched an array after its call was over.  To find a hang, run
it under a time limit.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType

import numpy as np

import gpulayout as gl
from gpulayout.cpu import threads
from tests.support.waiting import wait_until

PARTS = 3


class Interrupt(BaseException):
    """The exception that arrives from outside."""


class Late(Exception):
    """A thread was at work after its call was over."""


# -------------------------------------------------------------------------------------------- at every instruction


class Watched:
    """Work in three parts that run at the same time, unless the call is interrupted before; notes threads that come
    late.
    """

    def __init__(self, slow: str) -> None:
        self.slow, self.over = slow, False
        self.caller = threading.get_ident()
        self.begun: list[int] = []
        self.inside: list[int] = []
        self.done: list[int] = []
        self.late: list[int] = []

    def work(self, first: int, last: int) -> None:
        self.inside.append(first)
        try:
            self._enter(first, last)
            if (self.slow == "caller") == (first == 0):
                time.sleep(0.002)
        finally:
            if self.over:
                self.late.append(first)
            self.done.extend(range(first, last))
            self.inside.remove(first)

    def _enter(self, first: int, last: int) -> None:
        if self.over:
            self.late.append(first)
        self.begun.extend(range(first, last))  # all at once where the threads rest
        wait_until(lambda: len(self.begun) == PARTS or self._caller_leaves())

    def _caller_leaves(self) -> bool:
        """Whether the caller begins no part any more: it was interrupted, and waits for those who did."""
        frame = sys._current_frames().get(self.caller)
        while frame and (frame.f_code.co_filename, frame.f_code.co_name) != (threads.__file__, "close"):
            frame = frame.f_back
        return self.over or frame is not None

    def run(self) -> None:
        try:
            threads.share(self.work, PARTS, 1)
        finally:
            self.over = True
            self.left = list(self.inside)


class Quit:
    """An invitation that ends the thread which reads it."""

    def help(self) -> None:
        raise SystemExit


def at_instruction(number: int, act: Callable[[], None], run: Callable[[], None]) -> str | None:
    """Run, and act once in this thread before the given instruction of `threads.py`.

    Returns where that was, or None when there are fewer instructions.
    """
    left, place = number, None

    def trace(frame: FrameType, event: str, argument: object) -> Callable | None:
        nonlocal left, place
        if frame.f_code.co_filename != threads.__file__ or place:
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "line", "return"):
            if not left:
                place = f"{frame.f_code.co_name}:{frame.f_lineno}"
                sys.settrace(None)
                act()
            left -= 1
        return trace

    kept = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(kept)
    return place


def interrupt() -> None:
    raise Interrupt


def move_on_the_side() -> None:
    parts = []
    threads.share(lambda first, last: parts.append(first), PARTS, 1)
    if sorted(parts) != list(range(PARTS)):
        raise Late(f"a nested call did parts {parts}")


def everywhere(act: Callable[[], None], fresh: bool, slow: str) -> Counter:
    """Act before every instruction in turn.  With `fresh`, threads are started anew each time."""
    places: Counter = Counter()
    seen = []
    for number in range(100_000):
        if fresh:
            threads.process_crew = threads.Crew()
        watched = Watched(slow)
        seen.append(watched)
        try:
            place = at_instruction(number, act, watched.run)
        except Interrupt as error:
            place = innermost(error)
        else:
            if sorted(watched.done) != list(range(PARTS)):
                raise Late(f"{place}: did parts {watched.done}")
        if watched.left:
            raise Late(f"{place}: parts {watched.left} were under way when the call was over")
        if place is None:
            break
        if fresh:
            for _ in range(2 * PARTS):
                threads.process_crew.invitations.put(Quit())
        places[place.partition(":")[0]] += 1
    time.sleep(0.05)
    late = [watched.late for watched in seen if watched.late]
    if late:
        raise Late(f"parts {late} were begun or ended after their calls were over")
    Watched(slow).run()  # the next call is right
    return places


def innermost(error: BaseException) -> str:
    """The last line of `threads.py` in a traceback."""
    place, trace = "outside", error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == threads.__file__:
            place = f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def every_instruction(act: Callable[[], None]) -> None:
    for slow in ("caller", "guests"):
        for fresh in (False, True):
            places = everywhere(act, fresh, slow)
            print(f"slow {slow}, {'new' if fresh else 'idle'} threads: {places.total()} instructions,", dict(places))


# ------------------------------------------------------------------------------------------------ signals

SIZES = ((600, 700), (1024, 1024), (2048, 1536), (16, 3, 512, 128))


class Alarm:
    """Signals at a random moment, whose handler raises up to `times` times, but only inside the call."""

    def __init__(self) -> None:
        self.times = 0
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        while frame and frame.f_code is not Alarm.interrupts.__code__:
            frame = frame.f_back
        if frame and self.times:
            self.times -= 1
            raise Interrupt

    def interrupts(self, run: Callable[[], None], delay: float, times: int) -> bool:
        self.times = times
        try:
            signal.setitimer(signal.ITIMER_REAL, delay, 0.0003)
            run()
        except Interrupt:
            return True
        finally:
            self.times = 0
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


def signals(wanted: int, seed: int) -> None:
    """Moves interrupted at random, the target's bytes compared when the call is over and 50 ms later."""
    draw, alarm = random.Random(seed), Alarm()
    interrupted = 0
    while interrupted < wanted:
        dimensions = draw.choice(SIZES)
        source = gl.Shape("f32", dimensions)
        target = source.with_layout(gl.Layout(tuple(draw.sample(range(source.rank), source.rank))))
        array = np.arange(source.element_count, dtype=np.float32)
        out = np.zeros_like(array)
        start = time.perf_counter()
        wanted_bytes = gl.relayout(array, source, target)
        delay = draw.uniform(1e-5, 1.2 * (time.perf_counter() - start))
        try:
            cut_short = alarm.interrupts(
                lambda: gl.relayout(array, source, target, out=out), delay, draw.choice((1, 1, 2, 3))
            )
        except Interrupt:  # it arrived in the lines around the call
            cut_short = True
        if cut_short:
            interrupted += 1
            before = hashlib.sha256(out).digest()
            time.sleep(0.05)
            if hashlib.sha256(out).digest() != before:
                raise Late(f"{source} to {target}: bytes arrived after the call was over")
        elif not np.array_equal(out, wanted_bytes):
            raise Late(f"{source} to {target}: wrong bytes")
    print(f"{interrupted} of {interrupted} interrupted moves wrote nothing after they were over")


def exits(wanted: int, seed: int) -> None:
    """Forked processes that get SIGINT or SIGTERM in their first large move; each must end, with the status of the
    exception.
    """
    draw, longest, statuses = random.Random(seed), 0.0, Counter()
    for _ in range(wanted):
        number = draw.choice((signal.SIGINT, signal.SIGTERM))
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            first_large_move(writing)
            sys.exit(0)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        time.sleep(draw.uniform(0, 0.008))
        os.kill(child, number)
        start = time.perf_counter()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        longest = max(longest, time.perf_counter() - start)
        statuses["interrupted" if status == 3 else "not interrupted"] += 1
        if status not in (0, 3, -number):  # Python's own handlers are gone when it has almost ended
            raise Late(f"a process ended with status {status}")
    print(f"{wanted} processes ended, the slowest {longest:.2f} s after its signal:", dict(statuses))


def first_large_move(ready: int) -> None:
    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(3)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    array = np.zeros(1 << 20, np.float32)
    os.write(ready, b".")
    gl.relayout(array, "f32[1024,1024]", "{0,1}")


def main(arguments: list[str]) -> None:
    os.environ[threads.VARIABLE] = str(PARTS)
    threads.PAUSES = threads.process_crew.pause, _ = 0.0, 0.0  # threads never rest
    job, *numbers = arguments or ["help"]
    count, seed = (*map(int, numbers), *(100, 1)[len(numbers) :])
    if job == "exceptions":
        every_instruction(interrupt)
    elif job == "nested":
        every_instruction(move_on_the_side)
    elif job == "signals":
        signals(count, seed)
    elif job == "exits":
        exits(count, seed)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
