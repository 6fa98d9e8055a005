"""`use_threads`: what may be chosen, for which calls it holds, and where `show_config` says it comes from."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import threads
from tests.support.waiting import HANG


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.setattr(threads.choices, "statements", [])
    monkeypatch.delenv(threads.VARIABLE, raising=False)


def printed_by(program):
    """The lines that a Python program prints, where the environment sets 3 threads."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, threads.VARIABLE: "3"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def number():
    return gl.show_config("dicts")["threads"]


def reason():
    return gl.show_config("dicts")["threads_reason"]


def test_a_statement_holds_until_the_next_one_and_a_block_until_its_end():
    default = number()
    gl.use_threads(3)
    with gl.use_threads(5) as five:
        with gl.use_threads(np.int64(7)):
            assert number() == 7
        assert number() == 5
        with five:  # a choice can be entered again
            assert number() == 5
        assert number() == 5
    assert number() == 3
    gl.use_threads(None)
    assert number() == default


def test_a_block_ends_with_an_exception_too():
    default = number()
    with pytest.raises(KeyError), gl.use_threads(5):
        raise KeyError
    assert number() == default


def test_none_in_a_block_is_the_default_there(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "6")
    gl.use_threads(3)
    with gl.use_threads(5), gl.use_threads(None):
        assert number() == 6
    assert number() == 3


def test_a_statement_holds_in_all_threads_and_a_block_in_its_own():
    seen = []

    def look():
        seen.append(number())

    gl.use_threads(3)
    with gl.use_threads(5):
        other = threading.Thread(target=look)
        other.start()
        other.join()
    assert seen == [3]


def test_the_choice_goes_before_the_environment_and_its_errors(monkeypatch):
    assert reason() == "the cores that this process may use"
    monkeypatch.setenv(threads.VARIABLE, "6")
    assert (number(), reason()) == (6, "chosen by GPULAYOUT_NUM_THREADS")
    with gl.use_threads(2):
        assert (number(), reason()) == (2, "chosen by use_threads")
        monkeypatch.setenv(threads.VARIABLE, "many")
        assert number() == 2
    assert "'many'" in number() and "threads_reason" not in gl.show_config("dicts")


@pytest.mark.parametrize("count", [0, -1, 1025, 10**30])
def test_numbers_out_of_range_are_refused(count):
    default = number()
    with pytest.raises(ValueError) as caught:
        gl.use_threads(count)
    assert str(caught.value) == f"threads {count} is not from 1 to 1024; None is the default"
    assert number() == default


@pytest.mark.parametrize(("count", "kind"), [(1.0, "a float"), (True, "a bool"), ("2", "a str"), ([1], "a list")])
def test_what_is_no_whole_number_is_refused(count, kind):
    default = number()
    with pytest.raises(TypeError) as caught:
        gl.use_threads(count)
    assert str(caught.value) == f"threads {count!r} is not an integer: it is {kind}"
    assert number() == default


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_choice_holds_in_a_forked_process():
    printed = printed_by("""
import os, gpulayout as gl
from gpulayout.cpu.threads import thread_count

def in_a_child():
    child = os.fork()
    if not child:
        os._exit(thread_count())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

gl.use_threads(4)
with gl.use_threads(1):
    print(in_a_child())
print(in_a_child())
""")
    assert printed == ["1", "4"]


@pytest.mark.parametrize("target", ["f32[1031,1033]{0,1}", "f32[1031,1033]{0,1:T(8,128)}"])
def test_every_number_gives_the_same_bytes(target):
    array = np.arange(1031 * 1033, dtype=np.float32)
    found = set()
    for count in (1, 2, 3, 64, 1024):
        with gl.use_threads(count):
            found.add(gl.relayout(array, "f32[1031,1033]", target).tobytes())
    assert len(found) == 1


LOADER = """
import os, numpy as np, torch, gpulayout as gl
from _thread import _count as started

array = np.arange(1 << 20, dtype=np.float32)

def moved_right():
    moved = gl.relayout(array, "f32[1024,1024]", "{0,1}")
    return bool((moved == array.reshape(1024, 1024).T.reshape(-1)).all())

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, number):
        before = started()
        return moved_right(), gl.show_config("dicts")["threads"], started() - before

def one_thread(worker):
    gl.use_threads(1)

assert moved_right()                                     # the main process has threads by now
loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, worker_init_fn=INIT, multiprocessing_context="fork")
for row in loader:
    print(*(int(value) for value in row))
print(gl.show_config("dicts")["threads"])
"""


@pytest.mark.one_in(2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(("init", "row"), [("one_thread", "1 1 0"), ("None", "1 3 2")])
def test_workers_of_a_data_loader_have_their_own_number_and_threads(init, row, numpy_alone):
    """Each row: right bytes, the number of threads, and how many of them the worker had to start."""
    pytest.importorskip("torch")
    assert printed_by(LOADER.replace("INIT", init)) == [row, row, "3"]
