"""The benchmarks under pytest-benchmark: results are checked first, and records name the unit of comparison.

ci/test runs them all.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks import machine
from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments):
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").glob("bench_*.py"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        *files,
        "--quick",
        "-q",
        "-m",
        "not gpu",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *arguments,
    ]
    # this may be a worker of xdist
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG, env=outside)


@pytest.mark.parametrize(
    ("call", "only"), [("linearize", "linearize and rank and not convert"), ("relayout_many", "mixed")]
)
def test_a_wrong_result_fails_a_benchmark(call, only, tmp_path, monkeypatch):
    """The library is replaced by one that writes zeros."""
    (tmp_path / "broken_library.py").write_text(
        f"import gpulayout as gl\nright = gl.{call}\n"
        f"def wrong(*args, **more):\n    found = right(*args, **more)\n"
        f"    (found[0] if isinstance(found, (list, tuple)) else found)[...] = 0\n"
        f"    return found\ngl.{call} = wrong\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    done = run("--benchmark-disable", "-p", "broken_library", "-k", only)
    assert done.returncode == 1 and (
        "gives a different result from numpy" in done.stdout or "assert all" in done.stdout
    ), done.stdout


def test_a_recorded_benchmark_says_what_it_is_compared_by(tmp_path):
    file = tmp_path / "recorded.json"
    done = run(
        "-k",
        "linearize and rank and 3 and int32 and not 6 and not convert and not delinearize",
        f"--benchmark-json={file}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())["benchmarks"]
    assert [(one["group"], one["extra_info"]["contender"]) for one in found] == [
        ("linearize rank 3 int32, warm output", "gpulayout"),
        ("linearize rank 3 int32, fresh output", "gpulayout"),
        ("linearize rank 3 int32, fresh output", "numpy.ravel_multi_index"),
    ]
    for one in found:
        assert (
            one["extra_info"]["backend"] == "numpy"
            and one["extra_info"]["fraction_of_copy"] > 0
            and one["stats"]["rounds"] == 5
        )


# ---- the commit of a record ------------------------------------------------------------------------------------------

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")


@pytest.fixture
def commit_in(tmp_path, monkeypatch):
    """commit_in(folder): what a record made there says, in a repository with one commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.delenv("GPULAYOUT_COMMIT", raising=False)
    for each in ("init -q", "commit -q --allow-empty -m one"):
        subprocess.run([*GIT, *each.split()], cwd=tmp_path, check=True)

    def commit(folder):
        (tmp_path / folder).mkdir(parents=True)
        monkeypatch.setattr(machine, "__file__", str(tmp_path / folder / "machine.py"))
        return machine._commit()

    return commit


def test_a_record_names_the_commit_of_its_checkout(commit_in, monkeypatch):
    assert re.fullmatch("[0-9a-f]{12}", commit_in("benchmarks"))
    monkeypatch.setenv("GPULAYOUT_COMMIT", "abc")
    assert machine._commit() == "abc"


def test_a_copy_inside_another_repository_has_not_that_ones_commit(commit_in):
    assert commit_in("copy/benchmarks") == "unknown"
