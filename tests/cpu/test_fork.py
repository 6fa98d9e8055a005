"""Forked processes: a child can use the library, whatever the parent does at the time of the fork."""

import os
import subprocess
import sys

import pytest

from tests.support.waiting import HANG

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def printed_by(program: str) -> list[str]:
    environment = {**os.environ, "GPULAYOUT_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=HANG, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", ("strides", "buffer_dtype", "physical_dimensions"))
def test_a_child_does_not_wait_for_a_property_that_another_thread_computes(name):
    assert printed_by(f"""
import os, signal, sys, threading
import gpulayout as gl

begun, release = threading.Event(), threading.Event()

def hold(frame, event, argument):
    if frame.f_code.co_name == {name!r}:
        begun.set()
        release.wait({HANG})

def compute():
    sys.settrace(hold)
    gl.Shape("f32", (2, 3)).{name}

threading.Thread(target=compute).start()
assert begun.wait({HANG})
child = os.fork()
if not child:
    signal.alarm({HANG})                                   # ends a child that waits
    gl.Shape("f32", (5, 7)).{name}
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
release.set()
""") == ["0"]


@pytest.mark.parametrize("leave", ("return", "raise SystemExit(3)"))
@pytest.mark.parametrize("waits", (False, True))
def test_a_child_that_a_handler_forks_in_the_middle_of_a_move_ends_that_move_alone(leave, waits):
    """The fork happens while other threads work: in the caller's own part, or while it waits for the others."""
    assert printed_by(f"""
import os, signal, sys, threading, time
from gpulayout.cpu import threads

together, parent, caller = threading.Barrier(3, timeout={HANG}), os.getpid(), threading.main_thread()
parts, children = [], []

def fork(number, frame):
    children.append(os.fork())
    if not children[-1]:
        signal.alarm({HANG})                               # ends a child that waits
        {leave}

def waiting():
    return sys._current_frames()[caller.ident].f_code.co_name == "close"

def work(first, last):
    parts.extend(range(first, last))
    if os.getpid() != parent:
        return
    together.wait()
    if threading.current_thread() is caller:
        if not {waits}:
            signal.raise_signal(signal.SIGUSR1)
    else:
        while not (waiting() if {waits} else children):
            time.sleep(0.001)
        if {waits} and token.acquire(blocking=False):
            time.sleep(0.05)                             # the caller waits for a lock by now
            signal.pthread_kill(caller.ident, signal.SIGUSR1)
            while not children:
                time.sleep(0.001)

token = threading.Lock()
signal.signal(signal.SIGUSR1, fork)
threads.share(work, 3, 1)
if os.getpid() != parent:
    os._exit(3 if sorted(parts[3:]) == [0, 1, 2] else 4)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]), sorted(parts))
""") == ["3", "[0,", "1,", "2]"]
