"""benchmarks/counters.py reads what ncu prints; without ncu."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from benchmarks import counters

NAMES = ["f32 8192x8192", "u8 odd"]
HEAD = ["ID", "Process ID", "Kernel Name", *counters.METRICS.values()]


def printed(*launches, counts, metrics=HEAD):
    """What a run under ncu prints: (kernel, figures by short name) for each launch."""
    rows = [metrics, ["", "", "", *["ns"] * (len(metrics) - 3)]]
    for number, (kernel, figures) in enumerate(launches):
        named = {counters.METRICS[short]: text for short, text in figures.items()}
        rows.append([str(number), "77", f"{kernel}(Gpl)", *(named.get(metric, "1") for metric in metrics[3:])])
    lines = ["==PROF== Connected to process 77", *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    return SimpleNamespace(stdout="\n".join(lines), stderr=f"{counters.LAUNCHES}{json.dumps(counts)}\n", returncode=0)


@pytest.fixture
def ncu(monkeypatch):
    """Answers in turn; the commands that were run."""

    def answering(*answers):
        commands, left = [], list(answers)

        def run(command, **_):
            commands.append(command)
            return left.pop(0)

        monkeypatch.setattr(counters.subprocess, "run", run)
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
    refusal = SimpleNamespace(stdout=f"==ERROR== Failed to find metric {metric}", stderr="", returncode=1)
    commands = ncu(refusal, printed(("a", {}), ("b", {}), counts=[1, 1], metrics=[m for m in HEAD if m != metric]))
    rows, _ = counters.counted("ncu", NAMES, 60, quick=False)
    asked = [command[command.index("--metrics") + 1].split(",") for command in commands]
    assert metric in asked[0] and asked[1] == [name for name in asked[0] if name != metric]
    assert "l2 hits nan%" in "\n".join(counters.table(rows, {}))


def test_another_error_ends_it_and_is_shown(ncu):
    commands = ncu(SimpleNamespace(stdout="==ERROR== no permission", stderr="", returncode=1))
    assert counters.counted("ncu", NAMES, 60, quick=False) == ({}, ["==ERROR== no permission"])
    assert len(commands) == 1


def test_an_ncu_that_hangs_is_ended(monkeypatch):
    def run(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(counters.subprocess, "run", run)
    rows, said = counters.counted("ncu", NAMES, 60, quick=False)
    assert rows == {} and said[0].startswith("ncu took longer than ")


def test_the_table_compares_traffic_with_what_must_move(ncu):
    figures = {"ns": "2,000", "dram_read": "600,000", "dram_write": "500,000", "stall long_scoreboard": "7.5"}
    ncu(printed(("gpl_tile", figures), counts=[1]))
    rows, _ = counters.counted("ncu", NAMES[:1], 60, quick=False)
    text = "\n".join(counters.table(rows, {NAMES[0]: 1_000_000}))
    assert text.startswith("f32 8192x8192: gpl_tile, 2 us,")
    assert "(x1.10)" in text and "stalls: long_scoreboard 7.5" in text


def test_the_slowest_case_of_each_family_is_taken():
    def record(name, family, fraction, group="transpose"):
        runs = [{"contender": "gpulayout", "output": "warm", "threads": 1, "fraction_of_copy": fraction}]
        return {"case": name, "family": family, "group": group, "runs": runs}

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
