"""How far a long move is, by a clock of the test.  Bars are tested in test_large_files.py, with a terminal."""

import json
import os
import sys

import numpy as np
import pytest

from gpulayout.cli import progress
from tests.support.command_line import run
from tests.support.model_files import model

TOTAL = 4_000_000


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows what the test sets, and goes on by `step` each time that it is read."""

    class Clock:
        now = step = 0.0

        def monotonic(self):
            self.now += self.step
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def reports(clock, seconds, **options):
    """A report every quarter of a second, in which as much is done as in any other."""
    clock.now = 1000.0
    with progress.shown_progress(**options) as report:
        for quarter in range(4 * seconds + 1):
            clock.now = 1000 + quarter / 4
            report(TOTAL * quarter // (4 * seconds), TOTAL)


def test_a_log_gets_a_line_every_30_seconds(clock, capsys):
    reports(clock, 100, quiet=False, as_json=False)
    assert capsys.readouterr() == (
        "",
        "gpulayout: 30%, 1200000 of 4000000 bytes read and written, 30 s\n"
        "gpulayout: 60%, 2400000 of 4000000 bytes read and written, 60 s\n"
        "gpulayout: 90%, 3600000 of 4000000 bytes read and written, 90 s\n",
    )


def test_a_log_gets_no_line_of_a_short_move(clock, capsys):
    reports(clock, 29, quiet=False, as_json=False)
    assert capsys.readouterr() == ("", "")


def test_a_log_says_at_once_that_a_long_move_has_begun(clock, capsys, monkeypatch):
    for long, begins in ((TOTAL, True), (TOTAL + 1, False)):
        monkeypatch.setattr(progress, "LONG", long)
        reports(clock, 40, quiet=False, as_json=False)
        first, *rest = capsys.readouterr().err.splitlines()
        if begins:
            assert first == "gpulayout: 0%, 0 of 4000000 bytes read and written, 0 s"
            first, *rest = rest
        assert first.startswith("gpulayout: 75%, 3000000 of") and not rest
    monkeypatch.setattr(progress, "LONG", TOTAL)
    reports(clock, 1, quiet=True, as_json=False)
    assert capsys.readouterr() == ("", "")


def test_json_has_its_own_line_every_second_and_no_other(clock, capsys):
    reports(clock, 100, quiet=False, as_json=True)
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in err.splitlines()]
    assert out == "" and lines == [
        {"done_bytes": TOTAL * second // 100, "total_bytes": TOTAL, "seconds": float(second)}
        for second in range(1, 101)
    ]


def stages(clock, **options):
    """Two stages of 10 and 20 seconds, and a second of moving."""
    clock.now = 1000.0
    with progress.shown_progress(**options) as report:
        for second in range(1, 11):
            clock.now += 1
            report.stage("headers read", second, 10)
        for second in range(1, 21):
            clock.now += 1
            report.stage("tensors planned", 5 * second, 100)
        clock.now += 1
        report(TOTAL, TOTAL)


def test_stages_before_a_move_are_shown_as_it_is(clock, capsys):
    stages(clock, quiet=False, as_json=False)
    assert capsys.readouterr() == ("", "gpulayout: 100 of 100 tensors planned, 30 s\n")
    stages(clock, quiet=False, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[11] == {"stage": "tensors planned", "done": 10, "total": 100, "seconds": 12.0}
    assert [line.get("stage") for line in lines] == ["headers read"] * 10 + ["tensors planned"] * 20 + [None]
    stages(clock, quiet=True, as_json=False)
    assert capsys.readouterr() == ("", "")


def test_a_bar_of_each_stage_is_drawn_now_and_then(clock, monkeypatch):
    """Drawing takes longer than moving a small tensor: 10,000 reports within a second are 21 drawings at most."""
    drawn, made = [], []

    class Bar:
        task_ids = [0]

        def __init__(self, what):
            made.append(what)

        def add_task(self, what, total):
            assert what == made[-1]

        def start(self):
            pass

        def stop(self):
            made.append("stopped")

        def update(self, task, completed, refresh):
            drawn.append((made[-1], completed))

    monkeypatch.setattr(progress, "new_bar", Bar)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    clock.now = 1000.0
    with progress.shown_progress(quiet=False, as_json=False) as report:
        clock.now += 1
        for number in range(10_000):
            clock.now += 0.0001
            report.stage("tensors planned", number + 1, 10_000)
        report(0, TOTAL)
        report(TOTAL, TOTAL)
    assert made == ["tensors planned", "stopped", "", "stopped"]
    assert 10 < len(drawn) <= 24 and drawn[-3:] == [("tensors planned", 10_000), ("", 0), ("", TOTAL)]


@pytest.mark.parametrize("command", ["relayout", "unpack"])
def test_a_model_says_how_far_it_is_from_the_start(command, clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = model({"a": ("F32", (2, 3)), "b": ("F32", (2, 3))}, None)
    (tmp_path / "model-1.safetensors").write_bytes(data)
    places = dict.fromkeys("ab", "model-1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (tmp_path / "out").mkdir()
    rules = ["--tensor", ".*={0,1}"]
    if command == "unpack":
        run("relayout", "model.safetensors.index.json", "out/model.safetensors.index.json", *rules)
        monkeypatch.chdir(tmp_path / "out")
        (tmp_path / "out/out").mkdir()
    clock.step = 40.0
    files = "model.safetensors.index.json", "out/model.safetensors.index.json"
    result = run(command, *files, *(rules if command == "relayout" else ()), "--json")
    found = [json.loads(line).get("stage") for line in result.stderr.splitlines()]
    assert result.exit_code == 0 and found[0] == "headers read"
    assert {"tensors planned", "headers made", None} <= {*found}
    assert ("tensors matched with rules" in found) == (command == "relayout")


def test_quiet_prints_nothing_however_long_it_takes(clock, capsys):
    reports(clock, 10_000, quiet=True, as_json=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_that_is_full_does_not_end_the_move(as_json, clock, monkeypatch):
    full = open("/dev/full", "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", full)
    reports(clock, 100, quiet=False, as_json=as_json)
    monkeypatch.undo()
    with pytest.raises(OSError):
        full.close()


@pytest.mark.parametrize("option", [None, "--quiet", "--json"])
def test_a_command_prints_them_between_its_blocks(option, clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.zeros((700, 900), np.float32))
    clock.step = 40.0
    result = run("relayout", "in.npy", "out.npy", "--to", "F", "--memory", "2M", *[option] * bool(option))
    lines = result.stderr.splitlines()
    if option == "--quiet":
        assert result.output == ""
    elif option == "--json":
        assert lines and all(json.loads(line)["total_bytes"] == 5_040_000 for line in lines)
    else:
        assert lines and all(
            line.startswith("gpulayout: ") and "of 5040000 bytes read and written, " in line for line in lines
        )
