"""Exceptions, signals and other moves in the middle of a large move: no thread writes afterwards, and processes end.

GPULAYOUT_TEST_INTERRUPTS is the number of signals, and of processes, that are tried.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import HANG

COUNT = os.environ.get("GPULAYOUT_TEST_INTERRUPTS", "24")

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("job", ("exceptions", "nested", "signals", "exits"))
def test_no_thread_writes_after_a_call_is_over(job):
    """Runs in another process, so that a hang ends with its time limit."""
    count = [COUNT] if job in ("signals", "exits") else []
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.interruptions", job, *count],
        capture_output=True,
        text=True,
        timeout=HANG + int(COUNT),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_thread_that_was_interrupted_while_it_started_does_not_keep_the_process():
    program = """
import _thread, threading
import numpy as np, gpulayout as gl
from gpulayout.cpu import threads

def interrupted(start):
    def then_raise(*arguments):
        start(*arguments)
        raise KeyboardInterrupt
    return then_raise

threading.Thread.start = interrupted(threading.Thread.start)
threads.start_new_thread = interrupted(_thread.start_new_thread)
array = np.arange(1 << 20, dtype="f4")
try:
    gl.relayout(array, "f32[1024,1024]", "{0,1}")
except KeyboardInterrupt:
    print("interrupted")
threads.start_new_thread = _thread.start_new_thread
print((gl.relayout(array, "f32[1024,1024]", "{0,1}") == array.reshape(1024, 1024).T.reshape(-1)).all())
"""
    environment = {**os.environ, "GPULAYOUT_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG, env=environment
    )
    assert done.stdout.split() == ["interrupted", "True"], done.stderr
