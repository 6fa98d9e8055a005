"""What goes wrong while tensors of several files are joined, stacked and cut: a new file is whole or absent."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.errors import FileError
from tests.support.effort import ALL
from tests.support.model_cases import file_of
from tests.support.model_files import contents
from tests.support.model_oracle import differences, new_model
from tests.support.random_tensors import random_array
from tests.support.slow_command import ENVIRONMENT, SLOW
from tests.support.waiting import HANG

INPUTS = ["one.safetensors", "two.safetensors"]
RULES = {
    r"turned": "along=0; a b -> b a",
    r"(\w)\.gate": r"join=\1.gate,\1.up; along=0; name=\1.both",
    r"expert\.(\d+)": "stack=experts; e o i -> e i o",
    r"half": "shard=1/2 along=1",
    r"fused": r"split=q,k,v; along=0",
}


@pytest.fixture(scope="module")
def models():
    random = np.random.default_rng(0)

    def array(*shape):
        return random_array(random, "F32", shape)

    one = {"turned": array(700, 300), "a.gate": array(200, 500), "a.up": array(100, 500), "half": array(400, 300)}
    two = {"turned": array(100, 300), "a.gate": array(100, 500), "a.up": array(600, 500), "half": array(400, 300)}
    one |= {"fused": array(600, 300), "same": array(500)}
    two |= {"fused": array(600, 300), "same": one["same"]}
    one |= {f"expert.{number}": array(100, 300) for number in range(5, 0, -1)}
    two |= {"expert.0": array(100, 300)}
    return [one, two]


@pytest.fixture
def folder(tmp_path, models):
    for name, model in zip(INPUTS, models):
        (tmp_path / name).write_bytes(file_of(model))
    return tmp_path


def relayout(folder, **options):
    return gl.relayout_file([folder / name for name in INPUTS], folder / "out.safetensors", tensors=RULES, **options)


def check(folder, models):
    """The new file is what it should be."""
    assert differences(contents(folder / "out.safetensors"), {}, new_model(models, RULES)) == []


def test_progress_ends_with_all_bytes(folder, models):
    seen = []
    done = relayout(folder, progress=lambda *each: seen.append(each))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written
    check(folder, models)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("left", [0, 100, 400_000])
def test_an_input_that_becomes_shorter_is_an_error_and_leaves_nothing(folder, name, left):
    """It is cut as soon as something is moved."""

    def cut(done, total):
        os.truncate(folder / name, left)

    try:
        relayout(folder, progress=cut)
    except FileError as error:
        assert "become shorter while it was read" in str(error) and name in str(error)
        assert sorted(os.listdir(folder)) == INPUTS
    else:  # all was read before
        assert sorted(os.listdir(folder)) == sorted([*INPUTS, "out.safetensors"])


@pytest.mark.parametrize("name", ["copy_file_range", "pwritev", "posix_fallocate"])
def test_a_full_disk_is_an_error_that_names_the_new_file(folder, monkeypatch, numpy_alone, name):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, name, full)
    with pytest.raises(OSError, match="No space left") as caught:
        relayout(folder)
    assert caught.value.errno == errno.ENOSPC and sorted(os.listdir(folder)) == INPUTS


def test_an_exception_of_progress_ends_the_call(folder):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        relayout(folder, progress=stop)
    assert sorted(os.listdir(folder)) == INPUTS


def arguments():
    return [
        "relayout",
        *INPUTS,
        "out.safetensors",
        *[word for each in RULES.items() for word in ("--tensor", "=".join(each))],
    ]


@pytest.mark.one_in(3)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", range(20 if ALL else 4))
def test_a_signal_leaves_the_whole_file_or_none(folder, models, number, moment):
    command = [sys.executable, "-c", SLOW, *arguments()]
    with subprocess.Popen(command, cwd=folder, stdout=-1, stderr=-1, env=ENVIRONMENT) as process:
        process.stdout.read(len("begins\n"))
        time.sleep(0.02 + 0.03 * moment * (1 if ALL else 5))
        process.send_signal(number)
        _, errors = process.communicate(timeout=HANG)
    left = sorted({*os.listdir(folder)} - {*INPUTS})
    if "out.safetensors" in left:
        check(folder, models)
        left.remove("out.safetensors")
    elif number != signal.SIGKILL:
        assert process.returncode == 128 + number and b"stopped by" in errors and errors.count(b"\n") == 1
    if number != signal.SIGKILL:
        assert left == [], errors
        return
    assert all(name.startswith("out.safetensors.gpulayout-partial-") for name in left)
    if left:  # the next run says so, and is not disturbed
        again = [sys.executable, "-m", "gpulayout", *arguments()]
        done = subprocess.run(again, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, timeout=HANG)
        assert done.returncode == 0 and left[0] in done.stderr
        check(folder, models)
