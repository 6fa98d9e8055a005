"""ci/gpu without a GPU: its parts and their limits, with stubs for the programs it calls.

`ci/gpu --rehearse` runs the programs themselves; `ci/test --all` calls it.
"""

import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.gpu import GPU_CASES
from benchmarks.cases.ttc import TTC_CASES
from gpulayout.choices.backends import gpu_problem
from tests.support.waiting import HANG, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "ci" / "gpu"
SANITIZERS = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)


def run_script(*arguments, meanwhile=lambda process: None, **environment):
    """What became of ci/gpu; `meanwhile` is called with its process."""
    # A shell cannot trap a signal that was ignored when it began, as in the background of a script that runs the tests.
    heeds = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", heeds, SCRIPT, *arguments],
        cwd=ROOT.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | {"GPULAYOUT_PYTHON": sys.executable} | environment,
    ) as process:
        try:
            meanwhile(process)
            output, errors = process.communicate(timeout=4 * HANG)
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


PYTHON_STUB = """#!/bin/sh
case "$*" in *gpu_summary*) exec {python} "$@";; "-c "*) exit;; *) echo "$*" >>{called};; esac
case "$*" in "-m pytest"*) {tests};; "-m benchmarks.counters"*) {counters};; esac
while [ $# -gt 0 ]; do
  case $1 in --json | --gpu-gate) echo "{{}}" >"$2";; esac
  shift
done
echo done
"""
SANITIZER_STUB = """#!/bin/sh
echo "sanitizer $*" >>{called}
case "$*" in *racecheck*) echo "RACECHECK SUMMARY: 1 hazard"; exit 9;; esac
"""


@pytest.fixture
def stubs(tmp_path):
    """run(*arguments, tests=":", counters=":", sanitizer=SANITIZER_STUB, **environment) -> (result, parts, what was
    called), on a machine where a GPU seems to work, the tests and the counters are these shell commands, and a race is
    found.
    """
    called = tmp_path / "called"

    def run(*arguments, tests=":", counters=":", sanitizer=SANITIZER_STUB, **environment):
        for name, text in {"python": PYTHON_STUB, "compute-sanitizer": sanitizer}.items():
            if text:
                made = text.format(python=sys.executable, called=called, tests=tests, counters=counters)
                (tmp_path / name).write_text(made)
                (tmp_path / name).chmod(0o755)
        done = run_script(
            *arguments,
            OUT=str(tmp_path / "out"),
            GPULAYOUT_PYTHON=str(tmp_path / "python"),
            PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            **environment,
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
        "tests": (200, 0),
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
    assert 270 < parts[-2]["limit"] <= 290  # of 360 s, 70 for the counters
    _, parts, _ = stubs("--second")
    assert [part["name"] for part in parts] == ["numbers", "benchmarks", "counters"] and 270 < parts[1]["limit"] <= 290


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
    """The results of an earlier run stay."""
    for name in ("log.txt", "benchmarks.json"):
        (tmp_path / name).write_text("an earlier run's")
    done = run_script(OUT=str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("ci/gpu: no GPU to test on: ")
    assert "ci/gpu --rehearse" in done.stderr and not (tmp_path / "summary.json").exists()
    assert all(file.read_text() == "an earlier run's" for file in tmp_path.iterdir())


def test_a_part_replaces_its_own_results_and_the_counters_take_the_benchmarks_beside_them(stubs, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("tests", "benchmarks", "counters", "summary"):
        (tmp_path / "out" / f"{name}.json").write_text("{}")
    _, _, called = stubs("--part", "counters")
    assert called[-1].endswith(f" --from {tmp_path}/out/benchmarks.json")
    kept = {file.name for file in (tmp_path / "out").glob("*.json")}
    assert kept == {"tests.json", "benchmarks.json", "counters.json", "summary.json"}
    stubs()
    assert {file.name for file in (tmp_path / "out").glob("*.json")} == kept - {"counters.json"}


@pytest.mark.skipif(bool(SANITIZERS), reason=f"this machine has {SANITIZERS}")
def test_what_the_machine_lacks_is_left_out_and_fails_nothing(stubs):
    done, parts, _ = stubs("--part", "sanitizers", sanitizer=None)
    assert done.returncode == 0 and [part["result"] for part in parts] == ["passed", *["left out"] * 3]
    assert "PASSED without memcheck, racecheck, initcheck: " in done.stdout.splitlines()[-1]
    done, parts, _ = stubs("--part", "counters", counters="echo ncu is not installed; exit 77")
    assert done.returncode == 0 and parts[0]["remark"] == "ncu is not installed"


def test_a_part_that_ends_well_without_its_results_has_failed(stubs):
    done, (part,), _ = stubs("--part", "counters", counters="exit 0")
    assert done.returncode == 1 and part["remark"] == "it ended well and wrote no counters.json"


@pytest.mark.parametrize("text", [r"a 10%%\ra 20%%", r"a\f\342\200\250b", r"caf\351", "x" * 99 + r"\303\251", r"a\tb"])
def test_any_last_line_of_a_part_stands_in_the_table(stubs, text):
    done, (part,), _ = stubs("--part", "counters", counters=f"printf '{text}'; exit 1")
    assert done.returncode == 1 and part["result"] == "failed (1)" and part["remark"].isascii()
    assert part["remark"][:1] == text[0]


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("arguments", [("--part", "tests"), ("--first",)])
def test_a_signal_ends_what_runs_and_the_table_still_comes(stubs, tmp_path, number, status, arguments):
    """As the terminal sends it: to the script alone, for `timeout` has a process group of its own."""
    running = tmp_path / "running"
    tests = f"echo $$ >{running}; exec sleep 1000"
    ended = []

    def interrupt(process):
        wait_until(running.exists)
        wait_until(lambda: running.read_text().strip())
        ended.append(int(running.read_text()))
        process.send_signal(number)

    done, parts, called = stubs(*arguments, tests=tests, meanwhile=interrupt)
    assert done.returncode == status and "ci/gpu: stopping" in done.stderr
    assert "tests" in [part["name"] for part in parts] and done.stdout.splitlines()[-1].startswith("FAILED")
    assert not any("-m benchmarks" in line for line in called)
    wait_until(lambda: not _is_there(ended[0]))  # what has lost its parent waits for the system's first process


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_benchmarks_with_little_time_end_before_they_are_ended(stubs):
    _, (part,), called = stubs("--part", "benchmarks", "--seconds", "20")
    assert 5 <= part["limit"] <= 10 and called[-1].endswith(f" --time-limit {part['limit'] // 3}")


def test_the_time_of_the_installation_does_not_count(stubs):
    _, (part,), _ = stubs("--part", "benchmarks", SECONDS="5000")  # bash counts on from here
    assert part["limit"] > 400


@pytest.mark.parametrize(
    "arguments",
    [
        "--first --second",
        "--first --part tests",
        "--part tests --full",
        "--part tests --part counters",
        "--part benchmarks --all-tests",
        "--second --all-tests",
        "--rehearse --first",
        "--rehearse --quick",
        "--part nonsense",
        "--part",
        "--seconds 0",
        "--seconds abc",
        "nonsense",
    ],
)
def test_options_that_mean_nothing_together_are_refused_before_anything_happens(tmp_path, arguments):
    done = run_script(*arguments.split(), OUT=str(tmp_path / "out"))
    assert done.returncode == 2 and done.stderr.startswith("usage: ci/gpu ") and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_printed_and_nothing_else_happens(tmp_path, option):
    done = run_script(option, OUT=str(tmp_path / "out"))
    assert done.returncode == 0 and not (tmp_path / "out").exists()
    assert "ci/gpu --first " in done.stdout and "set -euo" not in done.stdout


def test_a_machine_s_cupy_without_the_packages_of_the_tests_is_not_the_end(tmp_path):
    """ci/venv installs them then."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "gpu").write_text(SCRIPT.read_text())
    (tmp_path / "ci" / "venv").write_text('#!/bin/sh\necho "venv $*" >>$CALLED\nexit 1\n')
    (tmp_path / "python").write_text("#!/bin/sh\n")  # imports CuPy
    for file in ("ci/gpu", "ci/venv", "python"):
        (tmp_path / file).chmod(0o755)
    environment = os.environ | {"PYTHON": str(tmp_path / "python"), "CALLED": str(tmp_path / "called")}
    done = subprocess.run([tmp_path / "ci" / "gpu"], env=environment, capture_output=True, timeout=HANG)
    assert done.returncode == 1 and (tmp_path / "called").read_text().split("\n")[:2] == ["venv --machine", "venv "]


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
