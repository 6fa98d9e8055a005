"""The run that is judged by the CPU's goals: its list, its contenders and their threads, and its records."""

import json
import os
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import goals_side
from benchmarks.cases.cpu_goals import INDICES, PADDINGS, RELAYOUTS, REVERSAL
from benchmarks.cases.curves import CURVES
from benchmarks.clock import WallClock
from benchmarks.curves_side import CurvesSide
from benchmarks.goals import JAX, NAIVE
from benchmarks.goals_side import GoalsSide, scratch_bytes
from benchmarks.numpy_side import NumpySide
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.contender import COPY, OURS, PREPARED_CALL, UNPLANNED_CALL, Contender
from benchmarks.peers.threaded_copy import ThreadedCopy
from benchmarks.run import Run


def missing(name, found):
    found[name] = f"no {name}"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No pauses, no peers that happen to be installed, and the number of threads restored afterwards.

    Nor garbage collections, one for each case: they visit all that a worker holds after thousands of other tests.
    """
    monkeypatch.setattr(goals_side, "QUIET", 0)
    monkeypatch.setattr(goals_side, "gc", types.SimpleNamespace(collect=int))
    monkeypatch.setattr("benchmarks.peers.stages.optional", missing)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "2")


def tiny(only, side=None, **options):
    return Run(side or GoalsSide((1, 2)), 1, only, tiny=True, **options).all()


def test_the_list_is_what_the_goals_were_set_for():
    sizes = sorted(case.source.nbytes for case in RELAYOUTS)
    assert len({case.name for case in RELAYOUTS}) == len(sizes) == 27
    # the first is NCHW to NHWC in f16
    assert sizes[0] == 2 * 32 * 64 * 112 * 112 and sizes[1] >= 64e6 and sizes[-1] == 2**29
    assert sorted(case.source.itemsize for case in RELAYOUTS if case.group == "2-D") == [1, 1, 2, 2, 4, 4, 4, 8, 8, 16]
    assert [case.dimensions for case in RELAYOUTS if case.name == REVERSAL] == [(32,) * 5]
    assert [(case.kind, case.group) for case in PADDINGS] == [("pack", "long rows"), ("unpack", "long rows")] * 2 + [
        ("pack", "channels"),
        ("unpack", "channels"),
    ]
    assert {(case.kind, len(case.dimensions), case.count) for case in INDICES} == {
        (kind, rank, 10**7) for kind in ("linearize", "delinearize") for rank in (3, 4, 6)
    }


def test_a_run_of_tiny_arrays_fills_every_table(tmp_path, capsys):
    file = tmp_path / "goals.json"
    assert command.main(["--cpu-goals", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    printed, progress = capsys.readouterr()
    found = json.loads(file.read_text())
    assert [len(found[section]) for section in ("small", "relayout", "padding", "index")] == [5, 27, 6, 6]
    assert (
        found["finished"] and not found["not_run"] and not found["peers_refused"] and found["peak_memory_bytes"] > 1e6
    )
    taking_part = {
        section: {(run["contender"], run["output"], run["threads"]) for run in found[section][0]["runs"]}
        for section in ("small", "relayout", "padding", "index")
    }
    both = {(OURS, "warm", 1), (OURS, "warm", 2)}
    assert taking_part == {
        "small": {(NAIVE, "call", 1)}
        | {
            (call, "call", count)
            for count in (1, 2)
            for call in (PREPARED_CALL, UNPLANNED_CALL, f"{OURS} relayout with texts")
        },
        "relayout": {*both, (NAIVE, "warm", 1), (COPY, "copy", 1), (COPY, "copy", 2)},
        "padding": {*both, ("numpy fill and assign", "warm", 1), (COPY, "copy", 1), (COPY, "copy", 2)},
        "index": {*both, (OURS, "fresh", 1), (OURS, "fresh", 2), ("numpy.unravel_index", "fresh", 1)},
    }
    assert [entry["threads"] for entry in found["relayout"][0]["scratch"]] == [1, 2]
    assert "nothing is judged" in printed and "**missed" not in printed and "|met\n" not in printed
    assert (
        "- peer missing: torch: no torch" in printed
        and sum(line.startswith("---") for line in printed.splitlines()) == 5
    )
    assert len(progress.splitlines()) == 45 and "f32 32^5 reversed: " in progress
    assert command.main(["--tables", str(file)]) == 0 and capsys.readouterr().out == printed


def test_the_number_of_threads_is_set_before_every_call_and_put_back_at_the_end(monkeypatch):
    seen = []
    monkeypatch.setattr(goals_side, "scratch_bytes", lambda call: seen.append(os.environ["GPULAYOUT_NUM_THREADS"]) or 0)
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "3")
    assert GoalsSide().counts == (1, 3)
    side = GoalsSide((1, 2))
    found = tiny("reversed", side)
    assert seen == ["1", "2"] and os.environ["GPULAYOUT_NUM_THREADS"] == "3"
    assert [record["case"] for record in found["relayout"]] == [REVERSAL] and not found["padding"]
    told = []
    side.torch = types.SimpleNamespace(set_num_threads=told.append)
    for contender in side._each([Contender(OURS, "warm", lambda i: seen.append(os.environ["GPULAYOUT_NUM_THREADS"]))]):
        contender.ready()
        contender.call(0)
    assert seen[2:] == ["1", "2"] and told == [1, 2]  # PyTorch is told too


def test_a_contender_is_made_ready_before_the_check_and_before_every_sample_outside_its_time(monkeypatch):
    happened, given = [], np.arange(4)
    monkeypatch.setattr(
        "benchmarks.clock.time", types.SimpleNamespace(perf_counter=lambda: happened.append("clock") or 0.0)
    )
    contender = Contender(
        NAIVE, "warm", lambda i: happened.append("call") or given.copy(), ready=lambda: happened.append("ready")
    )
    agreeing(np, RELAYOUTS[0], [contender], [(given, np.zeros(4, int))])
    WallClock().sample(contender, 2)
    assert happened == ["ready", "call", "ready", "clock", "call", "call", "clock"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds threads to cores")
def test_new_memory_is_written_on_each_core_before_it_counts(monkeypatch):
    usable, called = os.sched_getaffinity(0), []
    settled = [
        each
        for output in ("warm", "fresh")
        for contender in [Contender(OURS, output, lambda i, output=output: called.append((output, cores())))]
        for each in (*GoalsSide()._each([contender], [2]), goals_side._alone(contender))
    ]

    def cores():
        return os.sched_getaffinity(0)

    for each in settled:
        each.ready()
    once = [("fresh", usable), *(("fresh", {core}) for core in sorted(usable)[: goals_side.MOST_CORES])]
    assert called == 2 * once and cores() == usable
    monkeypatch.delattr(os, "sched_setaffinity")
    settled[-1].ready()
    assert called[len(2 * once) :] == once[:1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds threads to cores")
def test_a_call_that_fails_leaves_its_thread_all_cores():
    usable, answers = os.sched_getaffinity(0), iter([None])
    with pytest.raises(StopIteration):  # from the first call that is bound to a core
        goals_side._alone(Contender(OURS, "fresh", lambda i: next(answers))).ready()
    assert os.sched_getaffinity(0) == usable


@pytest.mark.parametrize(
    ("side", "only", "function", "wrong", "who"),
    [
        (GoalsSide, "planes in 4", "pack", lambda given, shape, out=None: out, f"{OURS} (warm)"),
        (GoalsSide, "16x16", "relayout", lambda buffer, source, target, out: out, f"{UNPLANNED_CALL} (call)"),
        (NumpySide, "16x16", "relayout", lambda buffer, source, target, out: out, f"{UNPLANNED_CALL} (call)"),
    ],
)
def test_a_result_that_differs_fails_the_case(side, only, function, wrong, who, monkeypatch):
    monkeypatch.setattr(f"benchmarks.peers.arrays.gl.{function}", wrong)
    found = tiny(only, side())
    (entry,) = found["not_run"]  # and the others go on
    assert (
        found["finished"]
        and entry["failed"]
        and f"{who} gives a different result from numpy" in entry["reason"]
        and not found["small"]
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_copy_in_parts_copies_everything(count):
    source, target = np.arange(1001, dtype=np.uint16).view("u1"), np.zeros(2002, np.uint8)
    ThreadedCopy()(source, target, count)
    assert np.array_equal(source, target)


def test_scratch_is_what_a_call_holds_beyond_its_output():
    def call():
        scratch = np.empty(3_000_000, np.uint8)
        return scratch[:1_000_000].copy()

    assert 3_000_000 <= scratch_bytes(call) < 3_010_000


def test_jax_must_give_the_order_that_is_compared():
    class Lazy:
        ready = False

        def block_until_ready(self):
            self.ready = True

        def __array__(self, dtype=None, copy=None):
            assert self.ready
            return self.values

    output = Lazy()
    call = goals_side._blocking(
        Contender(JAX, "fresh", lambda i: output, wait=lambda one: one.block_until_ready())
    ).call
    output.values = np.zeros((2, 3))
    assert call(0) is output.values
    output.values = np.zeros((2, 3)).T
    with pytest.raises(ValueError, match="strides"):
        call(0)


def test_the_curves_have_every_number_of_threads_and_a_plain_copy(tmp_path, capsys):
    assert CurvesSide((1, 2)).counts == (1, 2) and CurvesSide().counts == (1, 2)
    file = tmp_path / "curves.json"
    assert command.main(["--curves", "--backend", "numpy", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["finished"] and not found["not_run"] and found["machine"]["load"] >= 0
    assert {section: [record["case"] for record in found[section]] for section in CURVES} == {
        section: [case.name for case in cases] for section, cases in CURVES.items()
    }
    taking_part = {(run["contender"], run["output"], run["threads"]) for run in found["bytes"][0]["runs"]}
    ours = {(OURS, "warm", 1), (OURS, "warm", 2)}
    assert taking_part == {*ours, (NAIVE, "warm", 1), (COPY, "copy", 1), (COPY, "copy", 2)}
    printed = capsys.readouterr().out
    assert "|gpulayout, warm, with 2\n" in printed and "must reach" not in printed
    assert command.main(["--tables", str(file)]) == 0 and capsys.readouterr().out == printed
