"""Forked processes: whatever the parent is doing at that moment, a child can use the library."""
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def printed_by(program: str) -> list[str]:
    environment = {**os.environ, "GPULAYOUT_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, env=environment)
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
        release.wait(30)

def compute():
    sys.settrace(hold)
    gl.Shape("f32", (2, 3)).{name}

threading.Thread(target=compute).start()
assert begun.wait(30)
child = os.fork()
if not child:
    signal.alarm(20)                                     # ends a child that waits
    gl.Shape("f32", (5, 7)).{name}
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
release.set()
""") == ["0"]
