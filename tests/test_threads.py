"""Threads of the CPU backend: started late, shared by all callers, forgotten by forked children, and never in the way."""
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.backends import threads

MATRIX = gl.Shape("f32", (1031, 1033))
TURNED = MATRIX.with_layout(gl.Layout((0, 1)))


def moved_right() -> bool:
    array = np.arange(MATRIX.element_count, dtype=np.float32)
    return np.array_equal(gl.relayout(array, MATRIX, TURNED), array.reshape(1031, 1033).T.reshape(-1))


def in_a_new_process(text: str, seconds: float = 120) -> str:
    environment = {**os.environ, threads.VARIABLE: "3"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def sharing_ends():
    """Threads that never end cannot be stopped, and no test here would say so; a process can be killed, so one goes first."""
    done = in_a_new_process("""
import time
from gpulayout.backends import threads
parts = []
def work(first, last):
    parts.append((first, last))
    time.sleep(first / 500)                  # who is done first finds nothing left to do, while others are at work
for _ in range(50):
    threads.share(work, 3, 1)
threads._pool.shutdown(wait=True)
print(len(parts))
""", 30)
    assert done.split() == ["150"]


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "3")


@pytest.mark.parametrize("least, count", [(1, 0), (1, 1), (1, 2), (1, 7), (5, 14), (5, 15), (100, 99), (100, 1000)])
def test_parts_cover_everything_once(three_threads, least, count):
    seen, parts = [], []

    def work(first, last):
        parts.append((first, last))
        seen.extend(range(first, last))

    threads.share(work, count, least)
    assert sorted(seen) == list(range(count))
    assert 1 <= len(parts) <= 3 and all(last - first >= least for first, last in parts) or len(parts) == 1


def test_several_threads_take_part(three_threads):
    together = threading.Barrier(3, timeout=30)              # passes only when three are inside at once
    names = set()

    def work(first, last):
        together.wait()
        names.add(threading.current_thread().name)

    threads.share(work, 3, 1)
    assert len(names) == 3 and threading.current_thread().name in names


@pytest.mark.parametrize("broken", (0, 1, 2))
def test_an_error_of_any_part_is_raised_when_all_are_done(three_threads, broken):
    done = []

    def work(first, last):
        if first == broken:
            raise KeyError(first)
        done.append(first)

    with pytest.raises(KeyError):
        threads.share(work, 3, 1)
    assert sorted(done) == [part for part in range(3) if part != broken]


def test_callers_do_not_wait_for_each_other(three_threads):
    """Even when every thread of the pool is held up, a caller does its work alone."""
    release, held = threading.Event(), threading.Semaphore(0)

    def hold(first, last):
        held.release()
        release.wait(30)

    holders = [threading.Thread(target=threads.share, args=(hold, 3, 1)) for _ in range(2)]
    for holder in holders:
        holder.start()
    try:
        for _ in range(4):                   # both callers and both threads of the pool
            assert held.acquire(timeout=30)
        assert moved_right()
    finally:
        release.set()
        for holder in holders:
            holder.join()


def test_moves_from_many_threads_at_once_are_right(three_threads):
    results = []
    callers = [threading.Thread(target=lambda: results.append(moved_right())) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [True] * 8


def test_a_thread_that_comes_late_finds_nothing_to_do(three_threads, monkeypatch):
    """Where no thread can be started, what was submitted stays in a queue until a busy thread looks there."""
    monkeypatch.setattr(threads, "_pool", None)
    monkeypatch.setattr(threads, "_size", 0)
    busy, release = threading.Event(), threading.Event()

    def hold(first, last):
        if first:
            busy.set()
            release.wait(30)

    threads.share(lambda first, last: None, 2, 1)                        # a thread of the pool is there
    holder = threading.Thread(target=threads.share, args=(hold, 2, 1))
    holder.start()
    assert busy.wait(30)                                                 # and has something to do

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    seen = []
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            threads.share(lambda first, last: seen.append((first, last)), 3, 1)
        assert sorted(seen) == [(0, 1), (1, 2), (2, 3)]
    finally:
        release.set()
        holder.join()
    threads._pool.shutdown(wait=True)                                    # whatever was queued has run
    assert len(seen) == 3


def test_the_number_of_threads_is_asked_once(monkeypatch):
    """Another thread may change it meanwhile."""
    numbers, parts = iter((3, 1, 1, 1, 1)), []
    monkeypatch.setattr(threads, "_pool", None)
    monkeypatch.setattr(threads, "_size", 0)
    monkeypatch.setattr(threads, "thread_count", lambda: next(numbers))
    threads.share(lambda first, last: parts.append(first), 6, 1)
    assert sorted(parts) == [0, 2, 4]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to a thread here")
def test_interrupts_wait_until_nobody_writes(three_threads):
    """Ctrl-C, twice, while the caller waits for the others."""
    begun, given, over = threading.Event(), threading.Event(), threading.Event()
    interrupts, ended = threading.Semaphore(0), []

    def interrupted(number, frame):
        interrupts.release()
        raise KeyboardInterrupt

    def work(first, last):
        if first == 0:                                       # the caller's own part
            assert begun.wait(30)
            given.set()
            return
        begun.set()
        assert given.wait(30)
        for _ in range(2):
            time.sleep(0.05)                                 # the caller is done with the interrupt before
            wait_until(lambda: over.is_set() or function_of(threading.main_thread()) == "wait")
            if over.is_set():
                return
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert interrupts.acquire(timeout=30)
        time.sleep(0.1)                                      # long enough for a caller that does not wait
        ended.append(first)

    kept = signal.signal(signal.SIGINT, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.share(work, 2, 1)
        assert ended == [1]
    finally:
        over.set()
        signal.signal(signal.SIGINT, kept)


def function_of(thread: threading.Thread) -> str:
    """The name of the Python function that a thread is in."""
    return sys._current_frames()[thread.ident].f_code.co_name


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_many_moves_write_nothing_when_the_number_is_wrong(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "many")
    out = np.full(4, 7, np.float32)
    with pytest.raises(threads.BadThreadCount):
        gl.relayout_many([(np.zeros(4, np.float32), "f32[2,2]", "{0,1}")], out=[out])
    assert (out == 7).all()


def test_moves_in_pieces_write_nothing_when_the_number_is_wrong(monkeypatch):
    """The first piece is 100 elements, which one thread copies; the last fills 16 MB."""
    monkeypatch.setenv(threads.VARIABLE, "many")
    plan = gl.plan("u8[10,10]", "{1,0:PD(4000,4000)T(8,8)}")
    out = np.full(plan.target.buffer_size, 7, np.uint8)
    assert len(plan.pieces) > 1
    with pytest.raises(threads.BadThreadCount):
        plan(np.zeros(100, np.uint8), out)
    assert (out == 7).all()


@pytest.mark.parametrize("value", ("0", "-1", "1.5", "two", "99999", "\u0663", "9" * 5000))
def test_a_wrong_number_is_refused_before_a_byte_is_written(monkeypatch, value):
    monkeypatch.setenv(threads.VARIABLE, value)
    out = np.full(MATRIX.element_count, 7, np.float32)
    with pytest.raises(ValueError, match="GPULAYOUT_NUM_THREADS"):
        gl.relayout(np.zeros(MATRIX.element_count, np.float32), MATRIX, TURNED, out=out)
    assert (out == 7).all()


def test_the_number_is_what_is_asked_for_or_the_cores_of_this_process(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "5")
    assert threads.thread_count() == 5
    monkeypatch.setenv(threads.VARIABLE, "")
    assert 1 <= threads.thread_count() <= os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        assert threads.thread_count() == len(os.sched_getaffinity(0))


PRELUDE = """
import os, threading, numpy as np, gpulayout as gl
from tests.test_threads import moved_right
"""


def test_threads_start_with_the_first_large_move_and_not_before():
    printed = in_a_new_process(PRELUDE + """
print(threading.active_count())
gl.relayout(np.zeros(64, np.float32), "f32[8,8]", "f32[8,8]{0,1}")
print(threading.active_count())
print(moved_right(), threading.active_count() > 1)
""")
    assert printed.split() == ["1", "1", "True", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_threads_of_its_own():
    """Also when the fork happens while the parent is at work, and holds the lock that guards the pool."""
    printed = in_a_new_process(PRELUDE + """
import warnings
from gpulayout.backends import threads
warnings.simplefilter("ignore")              # Python warns of forks in processes with threads
assert moved_right()
for held in (False, True):
    if held:
        threads._starting.acquire()
    child = os.fork()
    if child == 0:
        os._exit(0 if moved_right() and threading.active_count() > 1 else 1)
    if held:
        threads._starting.release()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(moved_right())
""")
    assert printed.split() == ["0", "0", "True"]


def test_moves_while_python_shuts_down_are_carried_out_alone():
    printed = in_a_new_process(PRELUDE + """
import atexit
assert moved_right()
atexit.register(lambda: print(moved_right()))
""")
    assert printed.split() == ["True"]
