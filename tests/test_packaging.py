"""What is shipped, and that the scripts in ci/ work; ci/check_wheel builds and installs for real."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import gpulayout

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = sorted(path for folder in ("ci", ".ci") for path in (ROOT / folder).glob("*") if path.is_file() and not path.suffix)


def test_every_package_is_listed_for_the_wheel():
    section = (ROOT / "pyproject.toml").read_text().partition("packages = [")[2].partition("]")[0]
    listed = re.findall(r'"(gpulayout(?:\.\w+)*)"', section)
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gpulayout").rglob("__init__.py")}
    assert set(listed) == folders | {"gpulayout.kernels"}


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", gpulayout.__version__)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_executable_and_stop_at_errors(script):
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)


def run_script(*command, **environment):
    return subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, timeout=600,
                          env=os.environ | {"GPULAYOUT_PYTHON": sys.executable} | environment)


def test_the_gpu_script_runs_dry_and_writes_its_results(tmp_path):
    done = run_script(ROOT / "ci" / "gpu", "--dry-run", OUT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["passed"] and [part["name"] for part in summary["parts"]] == ["tests", "launches", "benchmarks"]
    assert json.loads((tmp_path / "tests.json").read_text())["outcomes"]["passed"] > 0
    figures = json.loads((tmp_path / "benchmarks.json").read_text())
    assert figures["cases"] and figures["small"] and not [entry for entry in figures["not_run"] if entry["failed"]]
    assert done.stdout.splitlines()[-1].startswith("PASSED")


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
"""


def run_gated(folder, text):
    """A pytest session of its own over one test file, with the gate; the gate's JSON too."""
    (folder / "test_gated.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "ci.gpu_gate", "-p", "no:cacheprovider", "--gpu-gate",
                           folder / "found.json", "--rootdir", folder, "-c", folder / "pytest.ini", folder],
                          cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done, json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize(("skip", "status"), [(True, 1), (False, 0)])
def test_the_gpu_gate_fails_when_a_test_was_skipped_for_want_of_a_gpu(tmp_path, skip, status):
    done, result = run_gated(tmp_path, GATED.format(skip=skip))
    assert done.returncode == status, done.stdout + done.stderr
    assert len(result["skipped_for_want_of_a_gpu"]) == (2 if skip else 0)
    assert result["gpu_passed"] == (0 if skip else 1)


@pytest.mark.parametrize(("present", "status"), [(1, 0), (0, 1)])
def test_the_gpu_gate_lets_a_machine_with_one_gpu_pass(tmp_path, present, status):
    skip = f"\n    from ci.gpu_gate import needs_devices\n    pytest.skip(needs_devices(2, {present}))\n"
    done, result = run_gated(tmp_path, GATED.format(skip=False) + "\n@pytest.mark.gpu\ndef test_needs_two():" + skip)
    assert done.returncode == status, done.stdout + done.stderr
    more, none = result["skipped_for_want_of_more_gpus"], result["skipped_for_want_of_a_gpu"]
    assert list((more if present else none).values()) == [f"needs 2 CUDA devices, there {'is 1' if present else 'are 0'}"]
    assert not (none if present else more)


def test_the_gpu_gate_fails_when_nothing_needed_a_gpu(tmp_path):
    done, result = run_gated(tmp_path, "def test_runs(): pass")
    assert done.returncode == 1 and result["problem"] == "no test marked gpu has passed"
