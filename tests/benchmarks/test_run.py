"""What a run of the benchmarks measures and in which order, what it leaves out when time is short, and which peers
it refuses.
"""

import json
import os
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import run as run_module
from benchmarks.cases.build import permute, transpose
from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.cpu import CPU_CASES, SMALL_CASES
from benchmarks.cases.gpu import GPU_CASES
from benchmarks.cases.select import quick
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.clock import Effort, EventClock, Samples, WallClock, take_turns
from benchmarks.goals_side import GoalsSide
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.arrays import array_contenders
from benchmarks.peers.contender import OURS, Contender, Prepared, Refused, for_sweep, reason_of
from benchmarks.peers.inputs import input_and_output
from benchmarks.peers.stages import Stage
from benchmarks.run import Run

CASES = [transpose(f"f32 {n}x{n}", "f32", n, n) for n in (4, 8, 16)]
SWEEP = [permute("f32 2,3,4 order 0 2 1", "f32", (2, 3, 4), (1, 0, 2))]


class Side:
    """A side with its own clock: preparing a case takes a second, in a later stage `compiling` seconds."""

    name, statistic, with_peers, notes = "numpy", "median", False, {}
    left_out, missing = {"tiles": "not yet"}, {"elsewhere": "not installed"}
    effort = full_effort = Effort(3, 1e-3, (1, 2))

    def __init__(self, monkeypatch, compiling=10.0):
        self.now, self.compiling, self.prepared, self.efforts, self.closed = 0.0, compiling, [], [], 0
        self.cases = {"small": [], "cases": CASES, "ttc": SWEEP}
        self.stages = [Stage("ready"), Stage("slow")]
        monkeypatch.setattr(run_module, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def why_not(self, case):
        return None

    def prepare(self, section, case, stage=0):
        self.now += self.compiling if stage else 1.0
        self.prepared.append((section, case.name, stage))
        peer = Contender("slow peer" if stage else "peer", "warm", lambda i: None)
        copies = [] if stage else [Contender(name, "copy", lambda i: None) for name in ("copy", "slow copy")]
        return Prepared([*copies, Contender(OURS, "warm", lambda i: None), peer], [])

    def take(self, contenders, effort):
        self.efforts.append(effort)
        seconds = {"copy": 0.9, "slow copy": 1.5, OURS: 1.0, "peer": 2.0, "slow peer": 0.5}
        return [Samples((seconds[contender.name],) * 3, "median") for contender in contenders]

    def release(self):
        pass

    def close(self):
        self.closed += 1


def run_all(side, time_limit=1000, **options):
    return Run(side, time_limit=time_limit, **options).all()


def not_run(found):
    return [(entry["case"], entry["reason"], entry["failed"]) for entry in found["not_run"]]


def test_rows_come_before_peers_that_compile(monkeypatch):
    side = Side(monkeypatch)
    found = run_all(side)
    names = [case.name for case in CASES]
    assert side.prepared == [
        *(("cases", name, 0) for name in names),
        ("ttc", SWEEP[0].name, 0),
        *(("cases", name, 1) for name in names),
    ]
    first = found["cases"][0]
    assert [(run["contender"], run.get("against"), run.get("fraction_of_copy")) for run in first["runs"]] == [
        ("copy", None, None),
        ("slow copy", None, None),
        (OURS, None, 0.9),
        ("peer", 2.0, 0.45),
        ("slow peer", 0.5, 1.8),
    ]
    assert found["finished"] and not found["not_run"] and not found["peers_not_timed"] and side.closed == 1
    assert found["left_out"] == {"tiles": "not yet"} and found["peers_missing"] == {"elsewhere": "not installed"}


def test_a_stage_whose_peers_do_not_know_the_work_is_not_timed(monkeypatch):
    side = Side(monkeypatch)
    prepare = side.prepare
    side.prepare = lambda section, case, stage: (
        Prepared([Contender(OURS, "warm", None)], []) if stage else prepare(section, case, stage)
    )
    found = run_all(side)
    assert (
        len(side.efforts) == 4
        and [len(record["runs"]) for record in found["cases"]] == [4, 4, 4]
        and not found["peers_refused"]
    )


def test_small_calls_take_more_rounds(monkeypatch):
    side = Side(monkeypatch)
    side.cases = {"small": CASES, "cases": [], "ttc": SWEEP}
    run_all(side)
    assert side.efforts == 3 * [Effort(12, 5e-3, (1000, 5000))] + [side.effort]
    assert (
        Run(side, tiny=True).effort == Effort(3, 1e-3, (1, 3), (10, 20), 1 << 12)
        and Run(side, rounds=2).effort.rounds == 2
    )


def test_a_full_run_goes_on_with_the_long_list(monkeypatch):
    side = Side(monkeypatch)
    found = run_all(side, full=True)
    assert side.prepared[-1] == ("ttc", SWEEP[0].name, 1) and found["ttc"][0]["runs"][-1]["contender"] == "slow peer"


def test_a_time_limit_costs_peers_before_rows(monkeypatch):
    # Four rows take 4 seconds, the first two cases of the stage 20; the third would end after 34.
    found = run_all(Side(monkeypatch), time_limit=30)
    assert len(found["cases"]) == 3 and len(found["ttc"]) == 1
    assert found["peers_not_timed"] == {"slow": ["f32 16x16"]}
    assert [len(record["runs"]) for record in found["cases"]] == [5, 5, 4]


def test_rows_that_the_time_limit_leaves_out_are_named(monkeypatch):
    found = run_all(Side(monkeypatch), time_limit=1.5)
    assert [record["case"] for record in found["cases"]] == ["f32 4x4", "f32 8x8"]
    assert not_run(found) == [
        ("f32 16x16", "the time limit was reached", False),
        (SWEEP[0].name, "the time limit was reached", False),
    ]


@pytest.mark.parametrize(("reason", "failed"), [("too large", False), ("ZeroDivisionError: division by zero", True)])
def test_a_case_that_does_not_fit_or_fails_leaves_the_others(reason, failed, monkeypatch):
    side = Side(monkeypatch)
    why_not, prepare = side.why_not, side.prepare
    side.why_not = lambda case: "too large" if case is CASES[1] and not failed else why_not(case)
    side.prepare = lambda section, case, stage: (
        1 / 0 if case is CASES[1] and not stage else prepare(section, case, stage)
    )
    found = run_all(side)
    assert not_run(found) == [("f32 8x8", reason, failed)]
    assert [record["case"] for record in found["cases"]] == ["f32 4x4", "f32 16x16"]


def test_a_stage_that_fails_leaves_the_row(monkeypatch):
    side = Side(monkeypatch)
    prepare = side.prepare
    side.prepare = lambda section, case, stage: 1 / 0 if stage else prepare(section, case, stage)
    found = run_all(side)
    assert len(found["cases"]) == 3 and not found["not_run"]
    assert found["peers_refused"][0] == {
        "case": "f32 4x4",
        "peer": "slow",
        "reason": "ZeroDivisionError: division by zero",
    }


def test_figures_are_in_the_file_while_the_run_goes_on(monkeypatch, tmp_path):
    side, file, seen = Side(monkeypatch), tmp_path / "figures.json", []
    release = side.release
    side.release = lambda: (release(), seen.append(json.loads(file.read_text()) if file.exists() else None))
    found = run_all(side, file=file)
    assert any(half and not half["finished"] and half["cases"] for half in seen)
    assert json.loads(file.read_text()) == json.loads(json.dumps(found)) and list(tmp_path.iterdir()) == [file]


# ---- the wanted cases --------------------------------------------------------------------------------------

LISTS = {
    "--backend numpy": [*SMALL_CASES, *CPU_CASES, *CONVERT_CASES],
    "--backend numpy --ttc": [*SMALL_CASES, *CPU_CASES, *TTC_CASES, *CONVERT_CASES],
    "--cpu-goals": [case for cases in GoalsSide.cases.values() for case in cases],
}


@pytest.mark.parametrize("options", LISTS)
@pytest.mark.parametrize("text", ["zzz", "f32  ", "F32 32^5 REVERSE "])
def test_a_name_that_no_case_has_is_a_usage_error(text, options, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--quick", "--only", text, "--json", str(tmp_path / "figures.json"), *options.split()])
    printed = capsys.readouterr()
    assert caught.value.code == 2 and printed.out == "" and os.listdir(tmp_path) == []
    message = printed.err.split("error: ")[1]
    assert message.startswith(f"--only {text!r}: none of the ") and "some of the names: 'f32 256, copy', '" in message
    shown = message.split("some of the names: ")[1].strip().strip("'").split("', '")
    every = {case.name for case in LISTS[options]}
    assert 4 <= len(shown) <= 8 and set(shown) <= every and f" {len(every)} cases " in message


@pytest.mark.parametrize("options", LISTS)
def test_letter_case_of_a_wanted_name_does_not_matter(options, capsys):
    for text in ("f16 8x8", "F16 8X8"):
        assert command.main(["--quick", "--rounds", "1", "--only", text, *options.split()]) == 0
        printed = capsys.readouterr().out
        assert "\nf16 8x8x8, quick: " in printed and "\nf32 16x16, quick: " not in printed


@pytest.mark.parametrize("option", ["--json", "--tables"])
def test_a_dash_is_not_a_file_name(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        command.main(["--quick", "--only", "f16 8x8x8", option, "-"])
    assert (
        caught.value.code == 2 and "write './-' for a file named '-'" in capsys.readouterr().err and os.listdir() == []
    )


def test_a_case_that_fails_gives_the_exit_status_1(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.peers.arrays.gl.relayout", lambda *buffers, out: out)
    assert command.main(["--backend", "numpy", "--quick", "--rounds", "1", "--only", "16x16"]) == 1
    assert "- not run: f32 16x16: AssertionError: " in capsys.readouterr().out


# ---- peers that agree --------------------------------------------------------------------------------------------


@pytest.fixture
def prepared():
    case = transpose("f32 5x7", "f32", 5, 7)
    pairs = [input_and_output(np, case, seed=1)]
    return case, array_contenders(np, case, pairs), pairs


def test_a_peer_that_gives_other_bytes_or_raises_is_refused(prepared):
    case, contenders, pairs = prepared
    wrong = Contender("wrong", "fresh", lambda i: pairs[0][0])
    lazy = Contender("lazy", "warm", lambda i: pairs[0][1])  # writes nothing: the output was overwritten before
    broken = Contender("broken", "fresh", lambda i: 1 / 0)
    kept, refused = agreeing(np, case, [*contenders, wrong, lazy, broken], pairs)
    assert kept == contenders
    assert refused == [
        Refused("wrong", "gives a different result from numpy.copyto"),
        Refused("lazy", "gives a different result from numpy.copyto"),
        Refused("broken", "ZeroDivisionError: division by zero"),
    ]


@pytest.mark.parametrize(
    ("call", "error"), [(lambda i: np.zeros(35, np.float32), AssertionError), (lambda i: 1 / 0, ZeroDivisionError)]
)
def test_this_library_must_give_what_the_peers_give(prepared, call, error):
    case, contenders, pairs = prepared
    with pytest.raises(error):
        agreeing(np, case, [*contenders, Contender(OURS, "warm", call)], pairs)


def test_when_the_first_peer_fails_the_next_one_is_the_reference(prepared):
    case, contenders, pairs = prepared
    broken = Contender("broken", "fresh", lambda i: 1 / 0)
    assert agreeing(np, case, [broken, *contenders], pairs) == (
        contenders,
        [Refused("broken", "ZeroDivisionError: division by zero")],
    )
    with pytest.raises(AssertionError, match="no peer at all"):
        agreeing(np, case, [broken, contenders[0]], pairs)


def test_an_output_that_is_still_being_made_is_awaited(prepared):
    case, contenders, pairs = prepared
    out = np.zeros((7, 5), np.float32)
    slow = Contender("slow", "fresh", lambda i: out, wait=lambda output: np.copyto(output, pairs[0][0].T))
    assert slow in agreeing(np, case, [*contenders, slow], pairs)[0]


def test_the_sweep_keeps_ours_and_the_last_peer(prepared):
    _, contenders, _ = prepared
    last = Contender("torch copy_", "warm", None)
    assert [contender.name for contender in for_sweep([*contenders, last, Contender("other", "fresh", None)])] == [
        OURS,
        "torch copy_",
    ]


@pytest.mark.parametrize("group", ["strided", "padding", "index", "2-D", "packed"])
def test_ours_and_plain_code_agree_on_every_kind(group):
    for case in [case for case in quick(GPU_CASES) if case.group == group]:
        pairs = [input_and_output(np, case, seed=1)]
        kept, refused = agreeing(np, case, array_contenders(np, case, pairs), pairs)
        assert len(kept) >= 3 and not refused, case.name


# ---- clocks ------------------------------------------------------------------------------------------------


def test_a_sample_has_as_many_calls_as_fill_its_time():
    durations, asked = {"quick": 1e-4, "slow": 1.0}, []

    class Clock:
        def sample(self, contender, calls):
            asked.append((contender.name, calls))
            return durations[contender.name]

    contenders = [Contender(name, "warm", None) for name in durations]
    samples = take_turns(contenders, lambda _: Clock(), Effort(3, 1e-2, (2, 50)), "median")
    assert [len(sample.seconds) for sample in samples] == [3, 3]
    assert (
        sorted(asked[4:]) == [("quick", 50)] * 3 + [("slow", 2)] * 3
        and asked[:4] == [("quick", 1)] * 2 + [("slow", 1)] * 2
    )


def test_events_are_recorded_after_the_lead_and_only_around_the_calls():
    happened = []

    class Event:
        def record(self, stream):
            happened.append("event")

        def synchronize(self):
            pass

    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(Event=Event, get_elapsed_time=lambda begin, end: 6.0))
    clock = EventClock(
        cupy, types.SimpleNamespace(synchronize=lambda: None), lambda calls: happened.append(f"lead of {calls}")
    )
    assert clock.sample(Contender("c", "warm", lambda i: happened.append(i)), 3) == pytest.approx(2e-3)
    assert happened == ["lead of 3", "event", 0, 1, 2, "event"]


def test_wall_time_waits_for_the_last_output():
    happened = []
    clock = WallClock(lambda: happened.append("synchronize"))
    clock.sample(Contender("c", "fresh", lambda i: happened.append(i) or f"output {i}", wait=happened.append), 2)
    assert happened == ["synchronize", 0, 1, "output 1", "synchronize"]


def test_reasons_are_one_line():
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"
    assert reason_of(ValueError()) == "ValueError: no message"
