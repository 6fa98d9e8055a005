"""The plugin's rule: a skipped test fails the run, unless it needs a package that the run can do without."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.standin

SKIPPED = """
import pytest
from gpulayout.choices import backends

@pytest.mark.gpu
def test_there_is_a_device(): assert backends.gpu_problem() is None

@pytest.mark.gpu
def test_that_is_skipped(): {skip}
"""


@pytest.mark.parametrize(
    "skip, status",
    [
        ("pass", 0),
        ("pytest.skip('no working CUDA device: cudaErrorNotSupported')", 1),
        ("pytest.skip('needs 3 CUDA devices')", 1),
        ("pytest.importorskip('torch_that_is_not_there')", 1),
        ("pytest.skip(\"could not import 'torch': No module named 'torch'\")", 0),
    ],
)
def test_only_packages_may_be_missing(tmp_path, skip, status):
    (tmp_path / "test_it.py").write_text(SKIPPED.format(skip=skip))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.support.standin.plugin",
            "-p",
            "no:cacheprovider",
            "-m",
            "gpu",
            "--rootdir",
            tmp_path,
            "-c",
            tmp_path / "pytest.ini",
            tmp_path,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert ("skipped tests that had to run" in done.stdout) == bool(status)


def test_the_stand_in_comes_before_cupy():
    done = subprocess.run(
        [sys.executable, "-c", "import cupy; from tests.support.standin import device; device.install()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1 and done.stderr.endswith("RuntimeError: CuPy is imported already\n")


def test_a_program_runs_on_the_stand_in(tmp_path):
    (tmp_path / "program.py").write_text("import sys, cupy\nprint(cupy.cuda.runtime.getDeviceCount(), sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.standin", tmp_path / "program.py", "one"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "2 ['one']\n", done.stderr
