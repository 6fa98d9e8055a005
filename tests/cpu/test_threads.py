"""Threads of the CPU backend: started late, shared by all callers, and replaced in forked children."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import run, threads
from tests.support.crews import SoloCrew, refuse
from tests.support.waiting import HANG, wait_for, wait_until

MATRIX = gl.Shape("f32", (1031, 1033))
TURNED = MATRIX.with_layout(gl.Layout((0, 1)))


def moved_right() -> bool:
    array = np.arange(MATRIX.element_count, dtype=np.float32)
    return np.array_equal(gl.relayout(array, MATRIX, TURNED), array.reshape(1031, 1033).T.reshape(-1))


def in_a_new_process(text: str) -> str:
    environment = {**os.environ, threads.VARIABLE: "3"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=HANG)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def sharing_ends():
    """Runs first, in a process that can be killed: threads that never end would hang the other tests."""
    done = in_a_new_process(
        """
import time
from gpulayout.cpu import run, threads
threads.PAUSES = threads.process_crew.pause, _ = 0.0, 0.0    # work that sleeps looks like a loss
parts = []
def work(first, last):
    parts.append((first, last))
    time.sleep(first / 500)                  # the first thread to finish finds no part left, while others work
for _ in range(50):
    threads.share(work, 3, 1)
print(len(parts))
"""
    )
    assert done.split() == ["150"]


def test_several_threads_take_part(three_threads):
    together = threading.Barrier(3, timeout=HANG)  # opens only when three threads are inside at once
    names = set()

    def work(first, last):
        together.wait()
        names.add(threading.current_thread().name)

    threads.share(work, 3, 1)
    assert len(names) == 3 and threading.current_thread().name in names


@pytest.mark.parametrize("broken", (0, 1, 2))
def test_an_error_of_any_part_is_raised_when_no_thread_is_at_work(three_threads, broken):
    """All three parts begin before one fails, and the others take longer."""
    together, done = threading.Barrier(3, timeout=HANG), []

    def work(first, last):
        together.wait()
        if first == broken:
            raise KeyError(first)
        time.sleep(0.05)
        done.append(first)

    with pytest.raises(KeyError, match=str(broken)):
        threads.share(work, 3, 1)
    assert sorted(done) == [part for part in range(3) if part != broken]


def test_after_an_error_no_portion_begins(three_threads, monkeypatch):
    monkeypatch.setattr(threads, "process_crew", SoloCrew())
    begun = []

    def work(first, last):
        begun.append(first)
        raise KeyError(first)

    with pytest.raises(KeyError):
        threads.share(work, 3, 1)
    assert begun == [0]


def test_a_thread_at_work_begins_no_further_portion_after_an_error_of_the_caller(three_threads, monkeypatch):
    calls = []

    class OneGuest(threads.Crew):
        def invite(self, call, guests, size):
            calls.append(call)
            super().invite(call, 1, 1)

    monkeypatch.setattr(threads, "process_crew", OneGuest())
    caller, at_work, begun = threading.get_ident(), threading.Event(), []

    def work(first, last):
        begun.append(first)
        if threading.get_ident() == caller:
            wait_for(at_work)
            raise KeyError(first)
        at_work.set()
        wait_until(lambda: not calls[0].waiting)  # one portion is left until the caller's error

    with pytest.raises(KeyError):
        threads.share(work, 3, 1)
    assert len(begun) == 2


def test_callers_do_not_wait_for_each_other(three_threads):
    """While every thread of the crew is blocked, a caller does its work alone."""
    release, held = threading.Event(), threading.Semaphore(0)

    def hold(first, last):
        held.release()
        wait_for(release)

    holders = [threading.Thread(target=threads.share, args=(hold, 3, 1)) for _ in range(2)]
    for holder in holders:
        holder.start()
    try:
        for _ in range(4):  # both callers and both threads of the crew
            assert held.acquire(timeout=HANG)
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


def test_a_thread_that_comes_late_finds_nothing_to_do(monkeypatch, three_threads):
    """If no thread can be started, an invitation waits until a busy thread reads it."""
    crew = threads.process_crew
    busy, release = threading.Event(), threading.Event()

    def hold(first, last):
        if threading.current_thread() is holder:
            wait_for(busy)
        else:
            busy.set()
            wait_for(release)

    monkeypatch.setenv(threads.VARIABLE, "2")
    holder = threading.Thread(target=threads.share, args=(hold, 2, 1))
    holder.start()
    seen = []
    try:
        wait_for(busy)  # the only thread of the crew is at work
        monkeypatch.setenv(threads.VARIABLE, "3")
        with monkeypatch.context() as patch:
            patch.setattr(threads, "start_new_thread", refuse)
            threads.share(lambda first, last: seen.append((first, last)), 3, 1)
        assert sorted(seen) == [(0, 1), (1, 2), (2, 3)]
        assert crew.invitations.qsize() == 2
    finally:
        release.set()
        holder.join()
    wait_until(crew.invitations.empty)
    threads.share(lambda first, last: None, 2, 1)  # by now the thread is done with earlier invitations
    assert len(seen) == 3


def test_invitations_do_not_pile_up(monkeypatch, three_threads):
    """There are at most MOST_THREADS, however many calls come while all threads are busy."""
    crew = threads.Crew()
    monkeypatch.setattr(threads, "process_crew", crew)
    begun, release = threading.Semaphore(0), threading.Event()

    def hold(first, last):
        begun.release()
        wait_for(release)

    holder = threading.Thread(target=threads.share, args=(hold, 3, 1))
    holder.start()
    try:
        for _ in range(3):
            assert begun.acquire(timeout=HANG)
        for _ in range(threads.MOST_THREADS):
            threads.share(lambda first, last: None, 3, 1)
        assert crew.invitations.qsize() == threads.MOST_THREADS
    finally:
        release.set()
        holder.join()


def test_callers_that_start_threads_at_once_start_no_more_than_needed(monkeypatch, three_threads):
    """A thread that finds its seat taken ends, so an idle crew has one thread per seat."""
    crew, serving, left = threads.Crew(), [], []
    monkeypatch.setattr(threads, "process_crew", crew)
    start = threads.start_new_thread

    def start_two(function, arguments):  # as when two callers find the same seat free
        def serve(seat):
            serving.append(seat)
            function(seat)
            left.append(seat)

        start(serve, arguments)
        return start(serve, arguments)

    monkeypatch.setattr(threads, "start_new_thread", start_two)
    threads.share(lambda first, last: None, 3, 1)
    wait_until(lambda: sorted(serving) == [0, 0, 1, 1] and sorted(left) == [0, 1])
    assert sorted(crew.seats) == [0, 1]


def test_an_idle_thread_keeps_no_array_alive(monkeypatch, three_threads):
    monkeypatch.setattr(threads, "process_crew", threads.Crew())
    together = threading.Barrier(3, timeout=HANG)

    class Array:
        def fill(self, first, last):
            together.wait()

    array = Array()
    gone = weakref.ref(array)
    threads.share(array.fill, 3, 1)
    del array
    wait_until(lambda: gone() is None)


def test_the_number_of_threads_is_read_once(monkeypatch):
    """It may change between two reads."""
    numbers, parts = iter((3, 1, 1, 1, 1)), []
    monkeypatch.setattr(threads, "process_crew", threads.Crew())
    monkeypatch.setattr(threads, "thread_count", lambda: next(numbers))
    threads.share(lambda first, last: parts.append(first), 3, 1)
    assert sorted(parts) == [0, 1, 2]


@pytest.mark.parametrize(
    "source, target, options, asked",
    [
        ("f32[1000,1200]", "{0,1}", {}, 1),
        ("f32[1000,1200]", "{0,1:PD(1024,1280)}", {}, 1),
        ("f32[3000,1200]", "{1,0:PD(3072,1280)}", {}, 1),
        ("f32[1000,1200]{1,0:T(900,1100)}", "{0,1:T(8,128)}", {}, 1),
        ("s4[1200,1000]{1,0:E(4)}", "{0,1:E(4)}", {}, 1),
        ("s4[1031,1021]{1,0:E(4)}", "{1,0:T(3,5)E(4)}", {}, 1),
        ("f32[16,16]", "{0,1}", {}, 0),
        ("f32[30,43]{1,0:T(7,8)}", "{0,1}", {}, 0),
        ("s4[12,10]{1,0:E(4)}", "{0,1:E(4)}", {}, 0),
        ("s4[31,21]{1,0:E(4)}", "{1,0:T(3,5)E(4)}", {}, 0),
        ("u8[1000,1200]", "{1,0}", {"dtype": "f32"}, 1),
        ("u8[1000,1200]", "{0,1}", {"dtype": "f32", "scale": 2.0}, 1),
        ("f32[1000,1200]", "{0,1:T(8,128)}", {"dtype": "s8", "scale": np.ones(1200), "zero_point": 1}, 1),
        ("u8[16,16]", "{0,1}", {"dtype": "f32", "scale": 2.0}, 0),
    ],
)
def test_a_call_reads_the_number_of_threads_once_if_it_is_worth_two(monkeypatch, source, target, options, asked):
    plan, counts = gl.plan(source, target, **options), []
    buffer = np.zeros(plan.source.buffer_length, plan.source.buffer_dtype)
    monkeypatch.setattr(run, "thread_count", lambda: counts.append(1) or 2)
    monkeypatch.setattr(threads, "thread_count", lambda: pytest.fail("read again"))
    for _ in range(2):
        counts.clear()
        plan(buffer)
        assert len(counts) == asked
    if options:
        return
    counts.clear()
    gl.relayout_many([(buffer, plan.source, plan.target)] * 3)
    assert len(counts) == 1


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to a thread on this system")
def test_interrupts_wait_until_no_thread_writes(three_threads):
    """Ctrl-C, twice, while the caller waits for the others."""
    begun, given, over = threading.Event(), threading.Event(), threading.Event()
    interrupts, ended = threading.Semaphore(0), []

    def interrupted(number, frame):
        interrupts.release()
        raise KeyboardInterrupt

    def work(first, last):
        if first == 0:  # the caller's own part
            wait_for(begun)
            given.set()
            return
        begun.set()
        wait_for(given)
        for _ in range(2):
            time.sleep(0.05)  # by now the caller is done with the interrupt before
            wait_until(lambda: over.is_set() or function_of(threading.main_thread()) == "close")
            if over.is_set():
                return
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert interrupts.acquire(timeout=HANG)
        time.sleep(0.1)  # long enough for a caller that does not wait
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
    """The name of the Python function that a thread executes."""
    return sys._current_frames()[thread.ident].f_code.co_name


def test_many_moves_write_nothing_when_the_number_is_wrong(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "many")
    out = np.full(4, 7, np.float32)
    with pytest.raises(threads.BadThreadCount):
        gl.relayout_many([(np.zeros(4, np.float32), "f32[2,2]", "{0,1}")], out=[out])
    assert (out == 7).all()


def test_moves_in_pieces_write_nothing_when_the_number_is_wrong(monkeypatch):
    """One thread copies the first piece, of 100 elements; the last piece fills 16 MB."""
    monkeypatch.setenv(threads.VARIABLE, "many")
    plan = gl.plan("u8[10,10]", "{1,0:PD(4000,4000)T(8,8)}")
    out = np.full(plan.target.buffer_size, 7, np.uint8)
    assert len(plan.pieces) > 1
    with pytest.raises(threads.BadThreadCount):
        plan(np.zeros(100, np.uint8), out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("value", ("0", "-1", "1.5", "two", "99999", "\u0663", "9" * 5000))
def test_a_wrong_number_raises_before_a_byte_is_written(monkeypatch, value):
    monkeypatch.setenv(threads.VARIABLE, value)
    out = np.full(MATRIX.element_count, 7, np.float32)
    with pytest.raises(ValueError, match="GPULAYOUT_NUM_THREADS"):
        gl.relayout(np.zeros(MATRIX.element_count, np.float32), MATRIX, TURNED, out=out)
    assert (out == 7).all()


@pytest.mark.machine
def test_the_number_is_that_of_the_variable_or_the_cores_of_this_process(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "5")
    assert threads.thread_count() == 5
    monkeypatch.setenv(threads.VARIABLE, "")
    assert 1 <= threads.thread_count() <= os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        assert threads.thread_count() == len(os.sched_getaffinity(0))


PRELUDE = """
import os, threading, numpy as np, gpulayout as gl
from _thread import _count as started
from gpulayout.cpu import run, threads
from tests.cpu.test_threads import moved_right
threads.PAUSES = threads.process_crew.pause, _ = 0.0, 0.0

def in_time(found):  # what it gives once that is true: a new thread may get a core long after the call
    import time
    end = time.monotonic() + 300
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.001)
    return value
"""


def test_threads_start_with_the_first_large_move_and_not_before():
    printed = in_a_new_process(
        PRELUDE
        + """
print(started())
gl.relayout(np.zeros(64, np.float32), "f32[8,8]", "f32[8,8]{0,1}")
print(started())
print(moved_right(), in_time(lambda: started() == 2))
"""
    )
    assert printed.split() == ["0", "0", "True", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_starts_its_own_threads():
    """Even if all threads of the parent are at work at the time of the fork."""
    printed = in_a_new_process(
        PRELUDE
        + """
import warnings
warnings.simplefilter("ignore")              # Python warns of forks in processes with threads
together, release = threading.Barrier(4, timeout=300), threading.Event()

def hold(first, last):
    together.wait()
    release.wait(300)

def fork():
    child = os.fork()
    if child == 0:
        crew = threads.process_crew
        os._exit(0 if not crew.seats and moved_right() and in_time(lambda: crew.seats) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

assert moved_right()
fork()
holder = threading.Thread(target=threads.share, args=(hold, 3, 1))
holder.start()
together.wait()                              # three threads are at work
fork()
release.set()
holder.join()
print(moved_right())
"""
    )
    assert printed.split() == ["0", "0", "True"]


def test_moves_while_python_shuts_down_are_right():
    """In an exit handler, and while the interpreter clears its modules."""
    printed = in_a_new_process(
        PRELUDE
        + """
import atexit
assert moved_right()
atexit.register(lambda: print(moved_right()))
class Last:
    def __del__(self, share=threads.share, seen=[], print=print):
        share(lambda first, last: seen.append((first, last)), 3, 1)
        print(len(seen))
import builtins
builtins.last = Last()                       # outlives every module
"""
    )
    assert printed.split() == ["True", "3"]
