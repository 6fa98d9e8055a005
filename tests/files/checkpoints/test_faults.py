"""What goes wrong while a model is written: a new file is whole or absent, and only SIGKILL leaves anything else."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints import model_move
from gpulayout.files.errors import FileError
from tests.support.effort import ALL
from tests.support.model_files import contents, model
from tests.support.slow_command import ENVIRONMENT, SLOW
from tests.support.waiting import HANG, wait_for

SIZES = {f"layer.{number}": ("F32", (500, 300 + number)) for number in range(8)}
RULES = {r"layer\.[0-3]": "a b -> b a"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in.safetensors").write_bytes(model(SIZES, None))
    return tmp_path


def relayout(folder, **options):
    return gl.relayout_file(folder / "in.safetensors", folder / "out.safetensors", tensors=RULES, **options)


def check(folder):
    """The new file is what it should be."""
    before, after = contents(folder / "in.safetensors"), contents(folder / "out.safetensors")
    for name, (dtype, shape, data) in before.items():
        array = np.frombuffer(data, np.uint32).reshape(shape)
        turned = np.ascontiguousarray(array.T) if re.fullmatch(next(iter(RULES)), name) else array
        assert after[name] == (dtype, turned.shape, turned.tobytes())


def test_progress_ends_with_all_bytes(folder):
    seen = []
    done = relayout(folder, progress=lambda *each: seen.append(each))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written
    check(folder)


@pytest.mark.parametrize("cut", [0, 7, 100, 400_000, 3_000_000, 4_800_000])
def test_an_input_that_becomes_shorter_is_an_error_and_leaves_nothing(folder, monkeypatch, cut):
    begin, is_cut = model_move.move_jobs, threading.Event()

    def cut_first(*given, **options):
        os.truncate(folder / "in.safetensors", cut)
        is_cut.set()
        begin(*given, **options)

    class LateCopies(model_move.RunThreads):
        """Copies, which have a thread of their own, begin when the file has been cut."""

        def begin(self, work):
            return super().begin(lambda: wait_for(is_cut) or work())

    before = threading.active_count()
    monkeypatch.setattr(model_move, "move_jobs", cut_first)
    monkeypatch.setattr(model_move, "RunThreads", LateCopies)
    with pytest.raises(FileError, match="become shorter while it was read"):
        relayout(folder)
    assert os.listdir(folder) == ["in.safetensors"] and threading.active_count() <= before


def test_copies_go_through_memory_where_the_system_cannot_do_it(folder, monkeypatch):
    def cannot(*given):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "copy_file_range", cannot, raising=False)
    relayout(folder)
    check(folder)
    monkeypatch.delattr(os, "copy_file_range")
    relayout(folder, overwrite=True)
    check(folder)


def test_copies_that_the_system_cuts_short_go_on(folder, monkeypatch):
    whole = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, size, *places: whole(a, b, min(size, 1000), *places))
    relayout(folder)
    check(folder)


@pytest.mark.parametrize("name", ["copy_file_range", "pwritev", "posix_fallocate"])
def test_a_full_disk_is_an_error_that_names_the_new_file(folder, monkeypatch, numpy_alone, name):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, name, full)
    with pytest.raises(OSError, match="No space left") as caught:
        relayout(folder)
    assert caught.value.errno == errno.ENOSPC and os.listdir(folder) == ["in.safetensors"]


def test_an_exception_of_progress_ends_the_call(folder):
    def stop(done, total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        relayout(folder, progress=stop)
    assert os.listdir(folder) == ["in.safetensors"] and threading.active_count() == before


def command(folder):
    """The command, slowed down so that a signal finds it at work."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            SLOW,
            "relayout",
            "in.safetensors",
            "out.safetensors",
            "--tensor",
            "layer.[0-3]=a b -> b a",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


@pytest.mark.one_in(3)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", range(20 if ALL else 4))
def test_a_signal_leaves_the_whole_file_or_none(folder, number, moment):
    with command(folder) as process:
        process.stdout.read(len("begins\n"))
        time.sleep(0.02 + 0.03 * moment * (1 if ALL else 5))
        process.send_signal(number)
        _, errors = process.communicate(timeout=HANG)
    left = sorted(set(os.listdir(folder)) - {"in.safetensors"})
    if "out.safetensors" in left:
        check(folder)
        left.remove("out.safetensors")
    elif number != signal.SIGKILL:
        assert process.returncode == 128 + number and b"stopped by" in errors and errors.count(b"\n") == 1
    if number != signal.SIGKILL:
        assert left == [], errors
        return
    assert all(name.startswith("out.safetensors.gpulayout-partial-") for name in left)
    if left:  # the next run says so, and is not disturbed
        again = subprocess.run(
            [sys.executable, "-m", "gpulayout", "relayout", "in.safetensors", "out.safetensors"]
            + ["--tensor", "layer.[0-3]=a b -> b a"],
            cwd=folder,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=HANG,
        )
        assert again.returncode == 0 and left[0] in again.stderr
        check(folder)
