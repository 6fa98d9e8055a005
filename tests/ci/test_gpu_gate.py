"""The pytest plugin of ci/gpu: a test that was skipped because there is no GPU fails the run."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]

GATED = """
import pytest

def test_runs(): pass

@pytest.mark.skip(reason="no g++")
def test_skipped_for_another_reason(): pass

@pytest.mark.gpu
def test_needs_a_gpu():
    if {skip}: pytest.skip("not here")

def test_says_so():
    if {skip}: pytest.skip("no working CUDA device: none")

@pytest.mark.skip(reason="a GPU works here, so nothing falls back")
def test_of_a_missing_gpu(): pass
"""


def run_gated(folder, text, *options):
    """The result and the gate's JSON of a separate pytest session over one test file."""
    (folder / "test_gated.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.support.gpu_gate",
            "-p",
            "no:cacheprovider",
            "--gpu-gate",
            folder / "found.json",
            "--rootdir",
            folder,
            "-c",
            folder / "pytest.ini",
            *options,
            folder,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    return done, json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize(("skip", "status"), [(True, 1), (False, 0)])
def test_the_gpu_gate_fails_when_a_test_was_skipped_for_want_of_a_gpu(tmp_path, skip, status):
    done, result = run_gated(tmp_path, GATED.format(skip=skip))
    assert done.returncode == status, done.stdout + done.stderr
    assert len(result["skipped_for_want_of_a_gpu"]) == (2 if skip else 0)
    assert result["gpu_passed"] == (0 if skip else 1)


def test_a_library_that_the_machine_lacks_does_not_count_and_is_noted(tmp_path):
    text = "\n@pytest.mark.gpu\ndef test_needs_torch():\n    pytest.skip(\"could not import 'torch': none\")\n"
    done, result = run_gated(tmp_path, GATED.format(skip=False) + text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(result["skipped_for_want_of_a_library"].values()) == ["could not import 'torch': none"]


LOSES_THE_DEVICE = """
import sys, types, pytest

class CUDARuntimeError(RuntimeError): pass

def refuse(): raise CUDARuntimeError("an illegal memory access was encountered")

@pytest.mark.gpu
def test_a_loses_the_device():
    runtime = types.SimpleNamespace(deviceSynchronize=refuse, CUDARuntimeError=CUDARuntimeError)
    sys.modules["cupy"] = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    sys.modules["gpulayout.gpu.cupy_runtime"] = types.ModuleType("cupy_runtime")
    assert False, "wrong bytes"

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(3))
def test_b_needs_the_device(number):
    assert "cupy" not in sys.modules
"""


def test_a_kernel_that_loses_the_device_costs_one_test(tmp_path):
    """The worker names it and ends itself: the tests after it run in a new process, on a device that works."""
    pytest.importorskip("xdist")
    done, result = run_gated(tmp_path, LOSES_THE_DEVICE, "-n", "1", "--max-worker-restart", "3")
    assert done.returncode == 1 and result["outcomes"] == {"failed": 1, "passed": 3}, done.stdout + done.stderr
    assert [name.rpartition("::")[2] for name in result["failed"]] == ["test_a_loses_the_device"]
    assert "test_a_loses_the_device lost the device:" in done.stderr and "wrong bytes" in done.stderr


@pytest.mark.parametrize(("present", "status"), [(1, 0), (0, 1)])
def test_the_gpu_gate_lets_a_machine_with_one_gpu_pass(tmp_path, present, status):
    skip = f"\n    from tests.support.gpu_gate import needs_devices\n    pytest.skip(needs_devices(2, {present}))\n"
    done, result = run_gated(tmp_path, GATED.format(skip=False) + "\n@pytest.mark.gpu\ndef test_needs_two():" + skip)
    assert done.returncode == status, done.stdout + done.stderr
    more, none = result["skipped_for_want_of_more_gpus"], result["skipped_for_want_of_a_gpu"]
    assert list((more if present else none).values()) == [
        f"needs 2 CUDA devices, there {'is 1' if present else 'are 0'}"
    ]
    assert not (none if present else more)


ENDED = """
import os, signal, time
import pytest

def test_first_in_the_file(): time.sleep(60)

@pytest.mark.gpu
def test_that_needs_a_gpu(): pass

@pytest.mark.gpu
def test_that_is_ended(): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)
"""


def test_the_gpu_gate_runs_first_what_needs_a_gpu_and_writes_what_it_found_when_it_is_ended(tmp_path):
    done, result = run_gated(tmp_path, ENDED)
    assert done.returncode not in (0, -signal.SIGTERM), done.stdout
    assert result["gpu_passed"] == 1 and result["outcomes"] == {"passed": 1}
    assert result["problem"] == "the tests were ended before all had run"


def test_the_gpu_gate_fails_when_nothing_needed_a_gpu(tmp_path):
    done, result = run_gated(tmp_path, "def test_runs(): pass")
    assert done.returncode == 1 and result["problem"] == "no test marked gpu has passed"
