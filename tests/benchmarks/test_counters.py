"""benchmarks/counters.py reads what ncu prints; without ncu."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from benchmarks import counters
from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.gpu import GPU_CASES
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.peers.arrays import array_contenders
from benchmarks.peers.inputs import input_and_output
from tests.support.waiting import wait_until

NAMES = ["f32 8192x8192", "u8 odd"]
HEAD = ["ID", "Process ID", "Kernel Name", *counters.METRICS.values()]


def printed(*launches, counts, metrics=HEAD):
    """What a run under ncu prints: (kernel, figures by short name) for each launch."""
    rows = [metrics, ["", "", "", *["ns"] * (len(metrics) - 3)]]
    for number, (kernel, figures) in enumerate(launches):
        named = {counters.METRICS[short]: text for short, text in figures.items()}
        rows.append([str(number), "77", f"{kernel}(Gpl)", *(named.get(metric, "1") for metric in metrics[3:])])
    lines = ["==PROF== Connected to process 77", *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    return "\n".join(lines), f"{counters.LAUNCHES}{json.dumps(counts)}\n"


@pytest.fixture
def ncu(monkeypatch):
    """Answers in turn; the commands that were run."""

    def answering(*answers):
        commands, left = [], list(answers)

        def run(command, seconds):
            commands.append(command)
            return left.pop(0)

        monkeypatch.setattr(counters, "run", run)
        return commands

    return answering


def test_each_case_has_its_longest_launch(ncu):
    ncu(printed(("a", {"ns": "1,024"}), ("b", {"ns": "900"}), ("c", {"ns": "2,000.5"}), counts=[2, 1]))
    rows, _ = counters.counted("ncu", NAMES, 60, quick=False)
    assert {name: row["Kernel Name"] for name, row in rows.items()} == {NAMES[0]: "a(Gpl)", NAMES[1]: "c(Gpl)"}


def test_a_case_without_a_launch_takes_no_other_cases_row(ncu):
    ncu(printed(("c", {}), counts=[0, 1]))
    rows, _ = counters.counted("ncu", NAMES, 60, quick=False)
    assert list(rows) == [NAMES[1]]


def test_rows_that_are_not_those_of_the_launches_are_not_guessed_at(ncu):
    ncu(printed(("a", {}), ("b", {}), ("c", {}), counts=[1, 1]))
    assert counters.counted("ncu", NAMES, 60, quick=False)[0] == {}


def test_a_metric_that_this_ncu_does_not_know_is_left_out(ncu):
    metric = counters.METRICS["l2_hit_%"]
    refusal = (f"==ERROR== Failed to find metric {metric}", "")
    commands = ncu(refusal, printed(("a", {}), ("b", {}), counts=[1, 1], metrics=[m for m in HEAD if m != metric]))
    rows, _ = counters.counted("ncu", NAMES, 60, quick=False)
    asked = [command[command.index("--metrics") + 1].split(",") for command in commands]
    assert metric in asked[0] and asked[1] == [name for name in asked[0] if name != metric]
    assert "l2 hits nan%" in "\n".join(counters.table(rows, {}))


def test_another_error_ends_it_and_is_shown(ncu):
    commands = ncu(("==ERROR== no permission", ""))
    assert counters.counted("ncu", NAMES, 60, quick=False) == ({}, ["==ERROR== no permission"])
    assert len(commands) == 1


def called(monkeypatch, *arguments):
    """The exit status of the command; ncu lies where `which` says."""
    monkeypatch.setattr("sys.argv", ["counters", *map(str, arguments)])
    return counters.main()


def test_a_machine_without_ncu_leaves_the_counters_out(monkeypatch, capsys):
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    monkeypatch.setattr(counters.glob, "glob", lambda pattern: [])
    assert called(monkeypatch) == counters.LEFT_OUT and capsys.readouterr().out == "ncu is not installed\n"


@pytest.mark.parametrize("said, status", [("==ERROR== ERR_NVGPUCTRPERM - no permission", 77), ("==ERROR== broken", 1)])
def test_a_driver_that_keeps_its_counters_from_users_leaves_them_out(monkeypatch, ncu, tmp_path, capsys, said, status):
    monkeypatch.setattr(counters.shutil, "which", lambda name: "ncu")
    ncu((said, ""))
    assert called(monkeypatch, "--json", tmp_path / "counters.json") == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert ("ERR_NVGPUCTRPERM" in last) == (status == 77)
    found = json.loads((tmp_path / "counters.json").read_text())
    assert found["said"] == [said] and {"commit", "cpu", "packages"} <= found["machine"].keys()


@pytest.mark.parametrize("text", [None, "{", "[]", '{"cases": 3}', '{"cases": [{}]}'])
def test_a_recorded_run_that_is_none_is_named(monkeypatch, tmp_path, capsys, text):
    run = tmp_path / "run.json"
    if text:
        run.write_text(text)
    with pytest.raises(SystemExit) as ended:
        called(monkeypatch, "--from", run)
    assert ended.value.code == 2 and f"--from {run} is no recorded run: " in capsys.readouterr().err


def test_a_name_that_no_case_has_is_refused_before_ncu_starts(monkeypatch, ncu, capsys):
    commands = ncu()
    with pytest.raises(SystemExit) as ended:
        called(monkeypatch, "--cases", "f32 8192x8192", "f32 8192x8191")
    assert ended.value.code == 2 and not commands
    assert "no case is named 'f32 8192x8191': " in capsys.readouterr().err


@pytest.mark.parametrize("quick", [False, True])
def test_the_cases_of_all_lists_are_found_by_name(quick):
    known = counters.cases(quick)
    for listed in (GPU_CASES, CONVERT_CASES, TTC_CASES):
        for case in listed:
            found = known[case.name]
            assert (found.kind, found.source.element_type) == (case.kind, case.source.element_type)
            assert not quick or case.bytes_moved < 1 << 20 or found.bytes_moved < case.bytes_moved
    for case in TTC_CASES:  # those that stand in two lists are the same move
        assert quick or (known[case.name].source, known[case.name].target) == (case.source, case.target)


@pytest.mark.parametrize("name", ["f32 8192x8192", "s8 to f16, a scale for 128, 8192", "f64 7264,7264 order 1 0"])
def test_a_case_of_any_list_runs_as_a_launch_of_this_library(name):
    case = counters.cases(quick=True)[name]
    ours = array_contenders(np, case, [input_and_output(np, case, 0)])[0]
    ours.call(0)
    assert ours.is_ours and ours.output == "warm"


def tool(tmp_path, text):
    """A program in place of ncu."""
    path = tmp_path / "ncu"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_ncu_that_hangs_ends_with_what_it_started(tmp_path):
    pids = tmp_path / "pids"
    ncu = tool(tmp_path, f"sleep 1000 & echo $! >{pids}; wait")
    with pytest.raises(subprocess.TimeoutExpired):
        counters.run([ncu], 3)
    wait_until(lambda: not pathlib.Path("/proc", pids.read_text().strip(), "cmdline").exists() or is_gone(pids))


def is_gone(pids):
    """Killed, though nobody waited for it."""
    return pathlib.Path("/proc", pids.read_text().strip(), "cmdline").read_bytes() == b""


def test_its_time_is_said(monkeypatch):
    def late(command, seconds):
        raise subprocess.TimeoutExpired(command, seconds)

    monkeypatch.setattr(counters, "run", late)
    assert counters.counted("ncu", NAMES, 60, quick=False) == ({}, ["ncu took longer than 60 s"])


@pytest.mark.parametrize("text", [r"printf '\\377\\376'", "exit 1", "echo 'launches of each case: hello'"])
def test_what_is_no_table_gives_no_rows(tmp_path, text):
    assert counters.counted(tool(tmp_path, text), NAMES, 60, quick=False)[0] == {}


def test_an_ncu_that_does_not_start_is_named(tmp_path):
    (tmp_path / "ncu").write_text("no program")
    rows, said = counters.counted(str(tmp_path / "ncu"), NAMES, 60, quick=False)
    assert rows == {} and said[0].startswith("ncu does not start: ")


def test_a_row_without_a_time_is_none(ncu):
    ncu(printed(("a", {"ns": "n/a"}), ("b", {}), counts=[1, 1]))
    assert list(counters.counted("ncu", NAMES, 60, quick=False)[0]) == [NAMES[1]]


def test_the_table_compares_traffic_with_what_must_move(ncu):
    figures = {"ns": "2,000", "dram_read": "600,000", "dram_write": "500,000", "stall long_scoreboard": "7.5"}
    ncu(printed(("gpl_tile", figures), counts=[1]))
    rows, _ = counters.counted("ncu", NAMES[:1], 60, quick=False)
    text = "\n".join(counters.table(rows, {NAMES[0]: 1_000_000}))
    assert text.startswith("f32 8192x8192: gpl_tile, 2 us,")
    assert "(x1.10)" in text and "stalls: long_scoreboard 7.5" in text


def record(name, family, fraction, group="transpose", kind="relayout"):
    runs = [{"contender": "gpulayout", "output": "warm", "threads": 1, "fraction_of_copy": fraction}]
    return {"case": name, "family": family, "group": group, "kind": kind, "runs": runs}


def test_the_slowest_case_of_each_family_is_taken():
    found = {
        "cases": [
            record("a", "tile", 0.5),
            record("b", "tile", 0.4),
            record("c", "copy", 0.3),
            record("d", "rows", 0.9),
            record("e", "gather", 0.1, group="tiny"),
        ]
    }
    assert counters.worst(found, 2) == ["c", "b"] and counters.worst({}, 5) == []


def test_conversions_and_the_long_list_are_among_the_slowest():
    found = {
        "cases": [record("a", "rows", 0.5), record("twice", "tile", 0.4)],
        "ttc": [record("t", "tile", 0.6, group="TTC"), record("twice", "tile", 0.3, group="TTC")],
        "arithmetic": [record("x", "rows", 0.1, kind="convert"), record("y", "rows", 0.2, kind="convert")],
    }
    assert counters.worst(found, 5) == ["x", "twice", "a"]
