"""A signal ends a command, and nothing half-written is left."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from gpulayout.cli.failures import Stopped, says_what_is_missing
from tests.support.waiting import HANG

SIGNALLED = """
import os, signal, sys, time
from gpulayout.cli.main import main
from gpulayout.plans.plan import Plan

first, second, ignored = (int(number) for number in sys.argv[1:4])
sys.argv[1:] = ["relayout", *sys.argv[4:]]
move, unlink = Plan.__call__, os.unlink

def signalled_move(self, *arguments, **options):
    os.kill(os.getpid(), first)
    return move(self, *arguments, **options)

def signalled_unlink(*arguments, **options):
    if second:
        os.kill(os.getpid(), second)
    unlink(*arguments, **options)

Plan.__call__, os.unlink = signalled_move, signalled_unlink
signal.signal(signal.SIGINT, signal.default_int_handler)             # the tests themselves may run under nohup
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if ignored:
    signal.signal(first, signal.SIG_IGN)
main()
"""


def signalled(folder, first, second, ignored):
    """Run the command in a process that gets one signal while it moves elements and a second while it cleans up."""
    np.save(folder / "in.npy", np.zeros((3, 4), "u1"))
    return subprocess.run(
        [
            sys.executable,
            "-c",
            SIGNALLED,
            *(str(int(number)) for number in (first, second, ignored)),
            str(folder / "in.npy"),
            str(folder / "out.npy"),
            "--to",
            "{0,1}",
        ],
        capture_output=True,
        text=True,
        timeout=HANG,
    )


@pytest.mark.one_in(3)
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of Unix")
@pytest.mark.parametrize("second", ("SIGINT", "SIGTERM", "SIGHUP"))
@pytest.mark.parametrize("first", ("SIGINT", "SIGTERM", "SIGHUP"))
def test_a_second_signal_does_not_interrupt_the_removal_of_a_half_written_file(tmp_path, first, second):
    done = signalled(tmp_path, getattr(signal, first), getattr(signal, second), False)
    assert done.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}[first], done.stderr
    assert done.stderr == f"gpulayout: stopped by {first}: {tmp_path / 'out.npy'} was not written\n"
    assert os.listdir(tmp_path) == ["in.npy"]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("new", [False, True])
def test_the_message_says_whether_the_file_was_complete_when_the_signal_came(old, new, tmp_path, capsys):
    path, other = tmp_path / "out.npy", tmp_path / "other"
    if old:
        path.write_bytes(b"old")
    with pytest.raises(Stopped) as stopped, says_what_is_missing(path):
        if new:
            other.write_bytes(b"new")
            os.replace(other, path)
        raise Stopped(signal.SIGTERM)
    stopped.value.show()
    assert capsys.readouterr() == (
        "",
        f"gpulayout: stopped by SIGTERM: {path} {'is complete' if new else 'was not written'}\n",
    )


def test_standard_output_may_have_a_part_of_the_data():
    with pytest.raises(Stopped) as stopped, says_what_is_missing("-"):
        raise Stopped(signal.SIGINT)
    assert (stopped.value.code, stopped.value.left) == (130, "standard output is not complete")


@pytest.mark.one_in(2)
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of Unix")
@pytest.mark.parametrize("number", ("SIGINT", "SIGTERM", "SIGHUP"))
def test_a_signal_that_the_caller_ignores_ends_nothing(tmp_path, number):
    """As under nohup, or for a background job of a script."""
    done = signalled(tmp_path, getattr(signal, number), 0, True)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["in.npy", "out.npy"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of Unix")
@pytest.mark.parametrize("number", ("SIGUSR1", "SIGKILL"))
def test_other_signals_leave_an_unfinished_file_that_the_documented_command_finds(tmp_path, number):
    assert signalled(tmp_path, getattr(signal, number), 0, False).returncode == -getattr(signal, number)
    found = subprocess.run(["find", tmp_path, "-name", "*.gpulayout-partial-*"], capture_output=True, text=True)
    assert [os.path.basename(line) for line in found.stdout.splitlines()] == sorted(
        name for name in os.listdir(tmp_path) if name != "in.npy"
    )
    assert found.stdout.count("/out.npy.gpulayout-partial-") == 1
