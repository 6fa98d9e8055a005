"""Files larger than the memory that may be used: the options, the progress, and what signals leave behind."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.support.command_line import run
from tests.support.waiting import HANG


@pytest.fixture(scope="module")
def values():
    return np.arange(2500 * 2401, dtype=np.uint32).reshape(2500, 2401)


@pytest.fixture
def folder(tmp_path, values):
    np.save(tmp_path / "in.npy", values)
    return tmp_path


def command(folder, *arguments, code=0):
    """Run `gpulayout relayout` in a folder, from in.npy to out.npy in Fortran order."""
    with contextlib.chdir(folder):
        return run("relayout", "in.npy", "out.npy", "--to", "F", *arguments, code=code)


def check(folder, values):
    found = np.load(folder / "out.npy")
    assert found.flags.f_contiguous and np.array_equal(found, values)


def test_the_report_says_how_the_move_was_cut(folder, values):
    done = command(folder, "--memory", "12M")
    assert re.search(r"^one pass in \d+ blocks of at most \d+ bytes, runs of \d+ bytes read and of ", done.stdout, re.M)
    assert not done.stderr
    check(folder, values)


def test_two_passes_through_a_scratch_file(folder, values):
    done = command(folder, "--memory", "6M", "--scratch", ".", "--json")
    found = json.loads(done.stdout)["passes"]
    assert len(found) == 2 and all(each["block_bytes"] <= 3 << 19 for each in found)
    assert sorted(os.listdir(folder)) == ["in.npy", "out.npy"]
    check(folder, values)


def test_a_dry_run_says_how_the_move_would_be_cut(folder):
    done = command(folder, "--memory", "6M", "--dry-run")
    assert re.search(r"^  blocks   \d+ blocks of at most", done.stdout, re.M) and "passes   two" in done.stdout
    assert os.listdir(folder) == ["in.npy"]


@pytest.mark.parametrize("size", ["many", "0", "1.5", ""])
def test_a_size_that_is_none_is_a_usage_error(folder, size):
    done = command(folder, "--memory", size, code=2)
    assert "is not a number of bytes such as 128M or 1.5G" in done.stderr


def test_a_scratch_folder_must_exist(folder):
    assert "nowhere" in command(folder, "--scratch", "nowhere", code=2).stderr


# ---- progress ------------------------------------------------------------------------------------------------------

SLOW = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)        # the tests themselves may run under nohup
from gpulayout.plans.plan import Plan
from gpulayout.cli.main import main

move, blocks = Plan.__call__, []

def slow_move(self, *arguments, **options):
    blocks.append(self)
    time.sleep({stay} if len(blocks) > 5 else 0.2)      # after a second, the bar is there
    return move(self, *arguments, **options)

Plan.__call__ = slow_move
main()
"""


def slow_command(folder, *arguments, stay=0.2):
    """A command that takes 0.2 seconds more for every block, from the sixth on `stay` seconds."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    options = ["--to", "F", "--memory", "24M", *arguments]
    return {
        "args": [sys.executable, "-c", SLOW.format(stay=stay), "relayout", "in.npy", "out.npy", *options],
        "cwd": folder,
        "env": {**os.environ, "PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "100"},
    }


def test_json_comes_with_lines_of_progress_on_stderr(folder, values):
    done = subprocess.run(**slow_command(folder, "--json"), capture_output=True, text=True, timeout=HANG)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines and all(line["total_bytes"] == 2 * values.nbytes for line in lines)
    assert 0 < lines[0]["done_bytes"] < 2 * values.nbytes
    assert json.loads(done.stdout)["passes"][0]["bytes_written"] == values.nbytes


def in_a_terminal(folder, *arguments, until=None):
    """(exit code, what a slow command prints) when stderr is a terminal; Ctrl-C once the text `until` appears."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, theirs = pty.openpty()
    command = slow_command(folder, *arguments, stay=HANG if until else 0.2)
    with subprocess.Popen(**command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO, when the other side has ended
            while part := os.read(ours, 1 << 16):
                shown += part
                if until is not None and until in shown:
                    until = process.send_signal(signal.SIGINT)
    os.close(ours)
    return process.returncode, shown.decode()


def test_a_terminal_shows_a_bar_with_bytes_rate_and_time_left(folder, values):
    code, shown = in_a_terminal(folder)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert code == 0 and re.search(r"\d+% +\d+\.\d/48\.0 MB +\d+\.\d MB/s +\d:\d\d:\d\d", shown), shown
    check(folder, values)


def test_quiet_shows_no_bar(folder, values):
    assert in_a_terminal(folder, "--quiet") == (0, "")
    check(folder, values)


def test_ctrl_c_clears_the_bar_and_says_what_is_missing(folder):
    code, shown = in_a_terminal(folder, until=b"MB/s")
    erase_line = "\x1b[2K"
    assert shown.endswith(f"{erase_line}gpulayout: stopped by SIGINT: out.npy was not written\r\n")
    assert code == 130 and os.listdir(folder) == ["in.npy"]


# ---- signals -------------------------------------------------------------------------------------------------------

TIMES = 20 if os.environ.get("GPULAYOUT_TEST_INTERRUPTS") else 2  # a long run: ci/test --all


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs the signals of Unix")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_signal_at_a_random_moment_leaves_the_whole_file_or_none(folder, values, number):
    """Only SIGKILL may leave something more: a file whose name says that it is unfinished."""
    moments = random.Random(number)
    for _ in range(TIMES):
        with subprocess.Popen(
            **slow_command(folder, "--quiet", "--scratch", "."), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            time.sleep(moments.uniform(0.05, 1.6))
            process.send_signal(getattr(signal, number))
            process.communicate(timeout=HANG)
        left = set(os.listdir(folder)) - {"in.npy", "out.npy"}
        assert all(number == "SIGKILL" and name.startswith("out.npy.gpulayout-partial-") for name in left), left
        if (folder / "out.npy").exists():
            check(folder, values)
        for name in left | ({"out.npy"} & set(os.listdir(folder))):
            os.unlink(folder / name)


# ---- memory limited by the system ----------------------------------------------------------------------------------

LIMITED = """
import resource, sys
import gpulayout.cli.main as command
import threading
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + {more}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
threading.stack_size(1 << 18)
command.main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_AS and /proc")
def test_a_move_needs_no_more_memory_than_it_may_use(tmp_path):
    """The array is 100 MB; the process gets 48 MB more than it has after its imports, for --memory 16M."""
    shape = (5000, 5001)
    source = np.lib.format.open_memmap(tmp_path / "in.npy", "w+", np.uint32, shape)
    source.reshape(-1)[:: 1 << 10] = np.arange(-(-source.size // (1 << 10)))
    source.flush()
    options = ["relayout", "in.npy", "out.npy", "--to", "F", "--memory", "16M"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(more=48 << 20), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG,
        env={
            **os.environ,
            "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            "GPULAYOUT_NUM_THREADS": "2",  # each has a stack
            "MALLOC_ARENA_MAX": "1",  # an arena of a thread takes 64 MB of addresses, without memory
        },
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert found.shape == shape and np.array_equal(found[:, 4321], source[:, 4321])
    assert np.array_equal(found[1234], source[1234])
