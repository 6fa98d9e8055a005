"""The run that is judged by the CPU's goals: its list, what it compares and records, and the tables of figures that were made up."""
import json
import math
import os
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import goal_peers
from benchmarks.clock import WallClock
from benchmarks.contender import OURS, Contender, agreeing
from benchmarks.goal_cases import INDICES, PADDINGS, RELAYOUTS, REVERSAL
from benchmarks.goal_peers import COPY, JAX, TORCH, GoalPeers
from benchmarks.goal_report import tables
from benchmarks.goal_run import GoalRun, scratch_bytes
from benchmarks.goal_table import NAIVE, UNPLANNED_CALL, goals, ratio
from benchmarks.goals import PREPARED_CALL


def missing(name):
    raise ModuleNotFoundError(f"no {name}")


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No pauses, no peers that happen to be installed, and no setting of threads that survives."""
    monkeypatch.setattr(goal_peers, "QUIET", 0)
    monkeypatch.setattr(goal_peers, "importlib", types.SimpleNamespace(import_module=missing))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "2")


# ---- the list ----------------------------------------------------------------------------------------------

def test_the_list_is_27_relayouts_of_large_arrays():
    assert len(RELAYOUTS) == len({case.name for case in RELAYOUTS}) == 27
    sizes = [case.source.nbytes for case in RELAYOUTS]
    # 64 million bytes and more, but for NCHW to NHWC in f16: 51
    assert sorted(sizes)[0] == 2 * 32 * 64 * 112 * 112 and sorted(sizes)[1] >= 64e6 and max(sizes) == 2**29
    assert [case.name for case in RELAYOUTS if case.dimensions == (32,) * 5 and case.order == (4, 3, 2, 1, 0)] == [REVERSAL]
    assert sorted(case.source.itemsize for case in RELAYOUTS if case.group == "2-D") == [1, 1, 2, 2, 4, 4, 4, 8, 8, 16]


def test_padding_and_indices_are_those_of_the_goals():
    assert [(case.kind, case.group) for case in PADDINGS] == [
        ("pack", "long rows"), ("unpack", "long rows")] * 2 + [("pack", "channels"), ("unpack", "channels")]
    assert {(case.kind, len(case.dimensions), case.count) for case in INDICES} == {
        (kind, rank, 10**7) for kind in ("linearize", "delinearize") for rank in (3, 4, 6)}
    assert all(math.prod(case.dimensions) < 2**32 for case in INDICES)


# ---- a run -------------------------------------------------------------------------------------------------

def contenders_of(record):
    return {(run["contender"], run["output"], run["threads"]) for run in record["runs"]}


def test_a_run_of_tiny_arrays_fills_every_table(tmp_path, capsys):
    file = tmp_path / "goals.json"
    assert command.main(["--cpu-goals", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(file.read_text())
    assert [len(found[section]) for section in ("small", "relayout", "padding", "index")] == [5, 27, 6, 6]
    assert found["finished"] and not found["not_run"] and not found["peers_refused"] and found["peak_memory_bytes"] > 1e6
    assert contenders_of(found["relayout"][0]) == {(OURS, "warm", 1), (OURS, "warm", 2), (NAIVE, "warm", 1)}
    assert contenders_of(found["padding"][0]) == {
        (OURS, "warm", 1), (OURS, "warm", 2), ("numpy fill and assign", "warm", 1), (COPY, "copy", 1), (COPY, "copy", 2)}
    assert contenders_of(found["index"][0]) == {
        (OURS, output, count) for output in ("warm", "fresh") for count in (1, 2)} | {("numpy.unravel_index", "fresh", 1)}
    assert {(NAIVE, "call", 1), (PREPARED_CALL, "call", 1), (UNPLANNED_CALL, "call", 2)} <= contenders_of(found["small"][0])
    assert [entry["threads"] for entry in found["relayout"][0]["scratch"]] == [1, 2]
    assert "nothing is judged" in printed and "**missed" not in printed and "| met |" not in printed
    assert found["peers_missing"] == {name: f"ModuleNotFoundError: no {name}" for name in ("torch", "jax")}
    assert "- peer not there: torch: ModuleNotFoundError: no torch" in printed
    assert sum(line.startswith("| ---") for line in printed.splitlines()) == 5
    assert command.main(["--tables", str(file)]) == 0 and capsys.readouterr().out == printed


def test_the_number_of_threads_is_set_before_every_call_and_put_back_at_the_end(monkeypatch):
    seen = []
    monkeypatch.setattr("benchmarks.goal_run.scratch_bytes", lambda call: seen.append(os.environ["GPULAYOUT_NUM_THREADS"]) or 0)
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "3")
    assert GoalRun().counts == (1, 3)
    run = GoalRun(1, tiny=True, only="reversed", counts=(1, 2))
    found = run.all()
    assert seen == ["1", "2"] and os.environ["GPULAYOUT_NUM_THREADS"] == "3"
    assert [record["case"] for record in found["relayout"]] == [REVERSAL] and not found["padding"]
    contender = run.peers._ours([Contender(OURS, "warm", lambda i: os.environ["GPULAYOUT_NUM_THREADS"])], "warm")[0]
    contender.ready()
    assert contender.call(0) == "1"


def test_a_contender_is_made_ready_before_the_check_and_before_every_sample_outside_its_time(monkeypatch):
    happened = []
    monkeypatch.setattr("benchmarks.clock.time", types.SimpleNamespace(perf_counter=lambda: happened.append("clock") or 0.0))
    case = RELAYOUTS[0]
    given = np.arange(4)
    contender = Contender(NAIVE, "warm", lambda i: happened.append("call") or given.copy(), ready=lambda: happened.append("ready"))
    agreeing(np, case, [contender], [(given, np.zeros(4, int))])
    WallClock().sample(contender, 2)
    assert happened == ["ready", "call", "ready", "clock", "call", "call", "clock"]


def test_new_memory_is_written_once_before_it_counts():
    called, peers = [], GoalPeers((1, 2))
    for output in ("warm", "fresh"):
        contender = Contender(OURS, output, lambda i, output=output: called.append(output))
        for settled in (peers._with(contender, 2), goal_peers._alone(contender)):
            settled.ready()
    assert called == ["fresh", "fresh"]


def test_a_case_that_fails_leaves_the_others(monkeypatch, capsys):
    measure = GoalRun._padding
    monkeypatch.setattr(GoalRun, "_padding", lambda self, case: 1 / 0 if case.kind == "pack" else measure(self, case))
    assert command.main(["--cpu-goals", "--quick", "--rounds", "1", "--only", "planes in 4"]) == 1
    printed = capsys.readouterr().out
    assert "- not run: pack f32 3 planes in 4, 32x3x512x512: ZeroDivisionError: division by zero" in printed
    assert "| unpack f32 3 planes in 4, 32x3x512x512 |" in printed


def test_a_result_that_differs_fails_the_case(monkeypatch):
    monkeypatch.setattr("benchmarks.contender.gl.pack", lambda given, shape, out=None: out)
    found = GoalRun(1, tiny=True, only="planes in 4").all()
    assert [(entry["case"], entry["failed"]) for entry in found["not_run"]] == [("pack f32 3 planes in 4, 32x3x512x512", True)]
    assert "gives another result" in found["not_run"][0]["reason"]


def test_a_small_call_that_writes_something_else_fails_the_case(monkeypatch):
    monkeypatch.setattr("benchmarks.numpy_side.gl.relayout", lambda buffer, source, target, out: out)
    found = GoalRun(1, tiny=True, only="16x16").all()
    assert [entry["reason"] for entry in found["not_run"]] == [
        f"AssertionError: f32 16x16: {UNPLANNED_CALL} gives another result than numpy.copyto"] and not found["small"]


def test_nothing_starts_after_the_time_limit():
    found = GoalRun(1, tiny=True, time_limit=-1).all()
    assert len(found["not_run"]) == 44 and {entry["reason"] for entry in found["not_run"]} == {"the time limit was reached"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_copy_in_parts_copies_everything(count):
    source, target = np.arange(1001, dtype=np.uint16).view("u1"), np.zeros(2002, np.uint8)
    GoalPeers((1, count))._copy(source, target, count)
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
    call = goal_peers._blocking(Contender(JAX, "fresh", lambda i: output, wait=lambda one: one.block_until_ready())).call
    output.values = np.zeros((2, 3))
    assert call(0) is output.values
    output.values = np.zeros((2, 3)).T
    with pytest.raises(ValueError, match="strides"):
        call(0)


def test_pytorch_is_told_the_number_of_threads():
    told = []
    peers = GoalPeers((1, 2))
    peers.torch = types.SimpleNamespace(set_num_threads=told.append)
    peers._with(Contender(TORCH, "warm", None), 2).ready()
    peers.set_threads(1)
    assert told == [2, 1]


# ---- the tables --------------------------------------------------------------------------------------------

def run_of(contender, output, threads, seconds):
    return {"contender": contender, "output": output, "threads": threads, "median_s": seconds, "best_s": seconds, "rounds": 3}


def relayout_of(case, naive, torch, jax, scratch=1e6, group="N-D", itemsize=4):
    """One second with one thread, half of one with two; `naive` and the others are the peers' times."""
    return {"case": case, "kind": "relayout", "group": group, "itemsize": itemsize, "rank": 2, "bytes_moved": 2e8,
            "scratch": [{"threads": 1, "bytes": 0}, {"threads": 2, "bytes": scratch}],
            "runs": [run_of(OURS, "warm", 1, 1.0), run_of(OURS, "warm", 2, 0.5), run_of(NAIVE, "warm", 1, naive),
                     run_of(TORCH, "warm", 1, torch), run_of(TORCH, "warm", 2, torch / 2), run_of(OURS, "fresh", 2, 2.0),
                     run_of(JAX, "fresh", 2, jax)]}


def moved_of(case, kind, group, runs):
    return {"case": case, "kind": kind, "group": group, "itemsize": 4, "rank": 3, "bytes_moved": 1e8, "runs": runs}


@pytest.fixture
def made_up():
    """A run on a processor that does not exist."""
    padding = [run_of(OURS, "warm", 1, 1.0), run_of(OURS, "warm", 2, 0.8), run_of("numpy.copyto", "warm", 1, 1.2),
               run_of(COPY, "copy", 1, 0.9), run_of(COPY, "copy", 2, 0.6)]
    slow = [run_of(OURS, "warm", 1, 9.0), run_of(OURS, "warm", 2, 9.0), *padding[2:]]
    index = [run_of(OURS, "warm", 1, 1.0), run_of(OURS, "warm", 2, 0.5), run_of(OURS, "fresh", 1, 2.0), run_of(OURS, "fresh", 2, 1.0),
             run_of("numpy.unravel_index", "fresh", 1, 3.5)]
    calls = [run_of(NAIVE, "call", 1, 1e-6)] + [run_of(call, "call", count, us * 1e-6) for count in (1, 2)
                                                for call, us in ((PREPARED_CALL, 4.5), (UNPLANNED_CALL, 8.0))]
    return {"machine": {"cpu": "Imaginary 1", "cores": 2, "python": "3", "packages": {"numpy": "2", "cupy-cuda13x": "9"}, "commit": "abc",
                        "date": "2026-01-01T00:00:00"},
            "counts": [1, 2], "rounds": 3, "quick": False, "only": "", "finished": True, "seconds": 9.0,
            "peak_memory_bytes": 2.5e9, "listed": {"relayout": 3, "small": 1, "padding": 3, "index": 1},
            "relayout": [relayout_of("f32 a", 5.0, 0.9, 3.0, group="2-D"), relayout_of("u8 b", 4.0, 2.0, 4.0, group="2-D", itemsize=1),
                         relayout_of(REVERSAL, 0.9, 2.5, 1.9, scratch=5e6)],
            "padding": [moved_of("pack x", "pack", "long rows", padding), moved_of("pack y", "pack", "channels", padding),
                        moved_of("unpack y", "unpack", "channels", slow)],
            "index": [moved_of("delinearize", "delinearize", "index", index)],
            "small": [moved_of("tiny", "relayout", "small", calls)],
            "not_run": [{"section": "index", "case": "linearize", "reason": "needs 9 MiB", "failed": False}],
            "peers_refused": [{"case": "c", "peer": "p", "reason": "r"}], "peers_missing": {"xyz": "not installed"}}


def judged(found):
    return {goal.what: (*(None if figure is None else (round(figure.value, 3), figure.case) for figure in goal.found), goal.verdict)
            for goal in goals(found)}


def test_every_goal_is_judged_by_its_own_figures(made_up):
    assert judged(made_up) == {
        "never below 0.95": ((0.9, REVERSAL), (1.8, REVERSAL), "**missed** with one thread"),
        "geometric mean at least 2.2 with one thread, 3.8 with two": ((2.621, ""), (5.241, ""), "met"),         # of 5, 4 and 0.9
        "2-D of 4 bytes and more at least 3": ((5.0, "f32 a"), (10.0, "f32 a"), "met"),
        "2-D of 1 and 2 bytes at least 4": ((4.0, "u8 b"), (8.0, "u8 b"), "met"),
        "reversal of 32^5 at least 10": ((0.9, REVERSAL), (1.8, REVERSAL), "**missed**"),
        "geometric mean at least 1.3 with one thread, 1.75 with two": ((1.651, ""), (1.651, ""), "**missed** with all threads"),
        "no case below 0.8 with two": ((0.9, "f32 a"), (0.9, "f32 a"), "met"),
        "never below 1.0": (None, (0.95, REVERSAL), "**missed**"),
        "geometric mean at least 1.5": (None, (1.418, ""), "**missed**"),                                        # of 1.5, 2 and 0.95
        "pack and unpack with long rows at least 0.85": ((0.9, "pack x"), (0.75, "pack x"), "**missed** with all threads"),
        "channels-last 3 to 4 at least 0.45": ((0.9, "pack y"), (0.75, "pack y"), "met"),
        "warm output at least 3.0": ((3.5, "delinearize"), (7.0, "delinearize"), "met"),
        "new output at least 2.0": ((1.75, "delinearize"), (3.5, "delinearize"), "**missed** with one thread"),
        "warm output at least 1.7": (None, None, "not measured"),
        "new output at least 1.3": (None, None, "not measured"),
        "planned call with `out=` at most 3": ((3.5, "tiny"), (3.5, "tiny"), "**missed**"),
        "`gl.relayout` at most 8": ((7.0, "tiny"), (7.0, "tiny"), "met"),
        "at most 4": ((0.0, "u8 b"), (5.0, REVERSAL), "**missed** with all threads"),
    }


def test_the_tables_name_the_machine_mark_losses_and_say_what_is_not_there(made_up):
    lines = tables(made_up)
    assert lines[0] == ("Imaginary 1, 2 cores, 2 threads at most; Python 3, numpy 2; commit abc, 2026-01-01; medians of 3 rounds, 9 s, "
                        "at most 2.5 GB")
    naive = [line for line in lines if line.startswith("| `np.copyto(dst")]
    assert naive == [f"| `np.copyto(dst, src.transpose(p))`, 3 cases | never below 0.95 | 0.90 ({REVERSAL}) | 1.80 ({REVERSAL}) | "
                     "**missed** with one thread |"]
    assert "|  | geometric mean at least 2.2 with one thread, 3.8 with two | 2.62 | 5.24 | met |" in lines
    assert f"| {REVERSAL} | 200.0 | 1000.0 | 500.0 | **0.90** | 1.80 | 2.50 | 2.50 | **0.95** | 5.0 |" in lines
    assert "| pack x | 100.0 | 1000.0 | 800.0 | 0.90 | 0.75 | 1.12 | 1.20 | 1.50 | numpy.copyto |" in lines
    assert "| delinearize | numpy.unravel_index | 1000.0 | 500.0 | 2000.0 | 1000.0 | 3.50 | 7.00 | 1.75 | 3.50 |" in lines
    assert "| tiny | 1.00 | 3.50 | 3.50 | 7.00 | 7.00 |" in lines
    assert lines[-3:] == ["- peer not there: xyz: not installed", "- peer refused: p on c: r", "- not run: linearize: needs 9 MiB"]


def test_a_part_of_the_list_says_how_much_it_is(made_up):
    text = "\n".join(tables(made_up | {"relayout": made_up["relayout"][:1], "only": "a", "finished": False}))
    assert "`np.copyto(dst, src.transpose(p))`, 1 of 3 cases" in text and 'only cases with "a"; not finished' in text


def test_without_peers_their_lines_are_not_measured(made_up):
    for record in made_up["relayout"]:
        record["runs"] = record["runs"][:3]
    verdicts = judged(made_up)
    assert verdicts["never below 1.0"] == (None, None, "not measured")
    assert verdicts["no case below 0.8 with two"] == (None, None, "not measured")
    assert verdicts["never below 0.95"][0] == (0.9, REVERSAL)


def test_tiny_arrays_are_not_judged(made_up):
    text = "\n".join(tables(made_up | {"quick": True}))
    assert "**missed" not in text and "| met |" not in text


def test_a_ratio_is_the_peers_time_over_ours_with_as_many_threads(made_up):
    record = made_up["relayout"][0]
    assert ratio(record, TORCH, "warm", 1) == 0.9 and ratio(record, TORCH, "warm", 2) == 0.9
    assert ratio(record, NAIVE, "warm", 2, peer_threads=1) == 10.0 and ratio(record, "nobody", "warm", 1) is None
