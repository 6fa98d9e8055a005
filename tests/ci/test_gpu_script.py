"""ci/gpu without a GPU: its parts and their limits, with stubs for the programs it calls.

`ci/gpu --rehearse` runs the programs themselves; `ci/test --all` calls it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.gpu import GPU_CASES
from benchmarks.cases.ttc import TTC_CASES
from gpulayout.api.backends import gpu_problem
from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "ci" / "gpu"


def run_script(*arguments, **environment):
    return subprocess.run(
        [SCRIPT, *arguments],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        timeout=4 * HANG,
        env=os.environ | {"GPULAYOUT_PYTHON": sys.executable} | environment,
    )


PYTHON_STUB = """#!/bin/sh
case "$*" in *gpu_summary*) exec {python} "$@";; "-c "*) exit;; *) echo "$*" >>{called};; esac
case "$*" in "-m pytest"*) {tests};; esac
echo done
"""
SANITIZER_STUB = """#!/bin/sh
echo "sanitizer $*" >>{called}
case "$*" in *racecheck*) echo "RACECHECK SUMMARY: 1 hazard"; exit 9;; esac
"""


@pytest.fixture
def stubs(tmp_path):
    """run(*arguments, tests=":") -> (result, parts, what was called), on a machine where a GPU seems to work, the
    tests are this shell command, and a race is found.
    """
    called = tmp_path / "called"

    def run(*arguments, tests=":"):
        for name, text in (("python", PYTHON_STUB), ("compute-sanitizer", SANITIZER_STUB)):
            (tmp_path / name).write_text(text.format(python=sys.executable, called=called, tests=tests))
            (tmp_path / name).chmod(0o755)
        done = run_script(
            *arguments,
            OUT=str(tmp_path / "out"),
            GPULAYOUT_PYTHON=str(tmp_path / "python"),
            PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        )
        return (
            done,
            json.loads((tmp_path / "out" / "summary.json").read_text())["parts"],
            called.read_text().splitlines(),
        )

    return run


def test_a_whole_run_goes_through_all_parts_though_one_fails(stubs):
    done, parts, called = stubs()
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("FAILED")
    found = {part["name"]: part for part in parts}
    assert {name: (part["limit"], part["status"]) for name, part in found.items() if name != "benchmarks"} == {
        "tests": (150, 0),
        "launches": (90, 0),
        "memcheck": (90, 0),
        "racecheck": (90, 9),
        "initcheck": (90, 0),
    }
    race = found["racecheck"]
    assert race["result"] == "failed (9)" and race["remark"] == "RACECHECK SUMMARY: 1 hazard"
    assert parts[-1]["name"] == "benchmarks" and 480 < parts[-1]["limit"] <= 510
    (suite,) = (line for line in called if line.startswith("-m pytest -p tests.support.gpu_gate --gpu-gate "))
    assert " -m gpu" in suite and "--deselect" not in suite
    assert called.count("-m tests.support.small_launches --backend cupy") == 1
    assert {re.sub(r"/\S*/python", "python", line) for line in called if line.startswith("sanitizer")} == {
        f"sanitizer --tool {tool} --error-exitcode 9 python -m tests.support.small_launches --backend cupy"
        for tool in ("memcheck", "racecheck", "initcheck")
    }
    assert called[-1].startswith("-m benchmarks --backend cupy --json ")
    assert called[-1].endswith(f" --time-limit {parts[-1]['limit'] - 30}")
    assert len(called) == 6


def test_the_first_run_on_a_device_counts_too_and_the_second_tries_other_numbers(stubs):
    _, parts, called = stubs("--first")
    assert [part["name"] for part in parts][-2:] == ["benchmarks", "counters"] and len(parts) == 7
    assert called[-1].startswith("-m benchmarks.counters --json ")
    _, parts, _ = stubs("--second")
    assert [part["name"] for part in parts] == ["numbers", "benchmarks", "counters"]


@pytest.mark.parametrize("arguments, every", [((), "1"), (("--quick",), "")])
def test_a_device_runs_every_case_and_a_quick_run_some(stubs, monkeypatch, arguments, every):
    monkeypatch.delenv("GPULAYOUT_TEST_EVERY_CASE", raising=False)
    done, *_ = stubs("--part", "tests", *arguments, tests='echo "every case: $GPULAYOUT_TEST_EVERY_CASE."')
    assert f"every case: {every}." in done.stdout.splitlines()


def test_a_part_of_its_own_has_the_time_of_all(stubs):
    _, parts, called = stubs("--part", "benchmarks", "--full", "--seconds", "570")
    assert (
        [part["name"] for part in parts] == ["benchmarks"]
        and 550 < parts[0]["limit"] <= 560
        and called[-1].endswith(" --full")
    )
    _, parts, _ = stubs("--part", "sanitizers")
    assert parts[0]["name"] == "launches" and {part["name"] for part in parts[1:]} == {
        "memcheck",
        "racecheck",
        "initcheck",
    }
    assert all(part["limit"] > 490 for part in parts)


def test_a_part_that_takes_too_long_is_ended_and_the_table_still_comes(stubs):
    done, (part,), _ = stubs("--part", "tests", "--seconds", "12", tests="exec sleep 1000")
    assert done.returncode == 1 and (part["result"], part["remark"]) == ("out of time", "no result was written")
    assert done.stdout.splitlines()[-1].startswith("FAILED") and "no benchmark figures" not in done.stdout


def test_a_quick_run_is_tiny_everywhere(stubs):
    _, parts, called = stubs("--first", "--quick", "--seconds", "800")
    (suite,) = (line for line in called if line.startswith("-m pytest "))
    assert "--deselect=tests/moves/test_tiled.py::" in suite
    assert [line for line in called if "-m benchmarks" in line] == [
        line for line in called if "-m benchmarks" in line and " --quick" in line
    ]
    assert all(part["limit"] > 700 for part in parts)  # of a slow machine


@pytest.mark.skipif(gpu_problem() is None, reason="a GPU works here, so the script would begin")
def test_without_a_gpu_the_script_says_so_and_stops(tmp_path):
    done = run_script(OUT=str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("ci/gpu: no GPU to test on: ")
    assert "ci/gpu --rehearse" in done.stderr and not (tmp_path / "summary.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--part"],
        ["--part", "all"],
        ["--seconds", "x"],
        ["--fast"],
        ["--first", "--part", "tests"],
        ["--rehearse", "--first"],
    ],
)
def test_wrong_usage(arguments):
    done = run_script(*arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: ci/gpu")


def test_the_limits_of_a_whole_run_leave_time_for_benchmarks():
    text = SCRIPT.read_text()
    total, tests, launches, sanitizer = (
        int(re.search(pattern, text).group(1))
        for pattern in (
            r'"\$\{seconds:=(\d+)\}" ;; esac',
            r"part tests \"\$\(limit (\d+)\)",
            r"part launches \"\$\(limit (\d+)\)\" \"\$python\" -m tests.support.small_launches --backend cupy",
            r"part \"\$tool\" \"\$\(limit (\d+)\)\"",
        )
    )
    assert total < 9 * 60 and total - max(tests, launches + sanitizer) >= 110


def seconds_for(case, fractions, rounds, sample_seconds, most):
    """A generous estimate for contenders at these fractions of 4.3 TB/s: samples, what comes before them, and the
    check.
    """
    found = 0.05 + 30 * case.bytes_allocated / 4.3e12
    for fraction in fractions:
        once = (case.bytes_moved / 4.3e12 + 2e-6) / fraction
        calls = min(max(int(sample_seconds / once), 1), most)
        found += 2 * once + rounds * (calls * once + calls * 40e-6 + 2e-4)
    return found


def test_the_rows_fit_into_what_the_slowest_tests_leave():
    # Two ceilings, ours twice, CuPy twice, PyTorch twice; in the long list ours and PyTorch's copy_.  Compiling and
    # importing take 25.
    rows = sum(seconds_for(case, (1, 1, 0.7, 0.7, 0.07, 0.07, 0.15, 0.15), 5, 8e-3, 50) for case in GPU_CASES)
    sweep = sum(seconds_for(case, (1, 1, 0.7, 0.2), 5, 8e-3, 50) for case in TTC_CASES)
    # Then the conversions, which the host does too for the check, at 0.2 GB/s.
    converted = sum(
        seconds_for(case, (1, 1, 0.3, 0.3, 0.15, 0.5, 0.15, 0.1), 5, 8e-3, 50) + case.bytes_moved / 2e8
        for case in CONVERT_CASES
    )
    assert 25 + rows + sweep + converted < 110
