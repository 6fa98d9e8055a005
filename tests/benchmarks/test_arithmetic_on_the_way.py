"""The benchmark of conversions checks, times and judges what it says, with tiny arrays."""

import json

import numpy as np
import pytest

from benchmarks import arithmetic_on_the_way
from benchmarks.arithmetic_on_the_way import Peers, agreeing, main, table
from benchmarks.cases.arithmetic import CAST_ALONE, CHAIN, OPENCV, RELAYOUT, conversions
from benchmarks.peers.arithmetic import Way, prepared, result_of
from benchmarks.peers.contender import OURS

CASES = {case.name: case.quick() for case in conversions()}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No warming up."""
    monkeypatch.setattr(arithmetic_on_the_way, "WARM_UP", 0.0)
    monkeypatch.setattr(arithmetic_on_the_way, "LEAST_SAMPLE", 0.0)


def image():
    return prepared(CASES["u8 HWC to f32 CHW, 1 x 224x224"])


def test_a_small_run_writes_figures_goals_and_absent_peers(tmp_path, capsys):
    out = tmp_path / "arithmetic.json"
    left_out = ["torch", "cv2", "torch.compile"]
    assert main(["--quick", "--rounds", "1", "--threads", "1", "--without", *left_out, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert [each["case"] for each in found["results"]] == [case.name for case in CASES.values()]
    assert set(found["absent"]) == {*left_out} and found["machine"]["packages"]["numpy"]
    for each in found["results"]:
        assert not each["left_out"] and all(seconds > 0 for seconds in each["median_s"].values())
        by_name = {goal["goal"]: goal for goal in each["goals"]}
        assert by_name[f"{RELAYOUT}, warm"]["ratio"] > 0
        assert all(goal["met"] is None for name, goal in by_name.items() if name.startswith((CHAIN, OPENCV)))
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(CASES) + 1 + len(left_out)


@pytest.mark.filterwarnings("ignore:torch.quantize_per:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_every_way_of_pytorch_gives_the_result(name):
    pytest.importorskip("torch")
    work, peers = prepared(CASES[name]), Peers(["cv2", "torch.compile"])
    peers.set_threads(1)
    kept, differences, refused = agreeing(work, peers.ways(work))
    assert not refused and len(kept) >= 6 and all(each < 0.05 or each == 1 for each in differences.values())


def test_another_result_is_refused_and_ours_fails():
    work = image()
    wrong, rounded = result_of(work) + 1, np.nextafter(result_of(work), np.float32(9))
    kept, differences, refused = agreeing(
        work,
        iter(
            [
                Way("wrong", "fresh", lambda: wrong),
                Way("rounded", "fresh", lambda: rounded),
                Way("rounded and says so", "fresh", lambda: rounded, "up"),
                Way("short", "fresh", lambda: wrong[:, :1]),
            ]
        ),
    )
    assert [way.name for way in kept] == ["rounded and says so"] and 0 < differences[str(kept[0])] < 1e-6
    assert [*refused] == ["wrong, fresh", "rounded, fresh", "short, fresh"]
    with pytest.raises(AssertionError, match="differs from NumPy's result by up to"):
        agreeing(work, iter([Way(OURS, "fresh", lambda: rounded)]))


def test_the_table_marks_what_is_missed():
    def result(theirs, memory):
        return {
            "case": "a",
            "threads": 2,
            "median_s": {"numpy.copyto of one run, copy": 1e-3, f"{OURS}, warm": 2e-3, f"{OURS}, fresh": 2e-3},
            "bytes_beside_output": {"traced": memory, "resident": None},
            "goals": [
                {"goal": f"{CHAIN}, fresh", "wanted": 2, "ratio": theirs, "met": theirs >= 2},
                {"goal": f"{OPENCV}, fresh", "wanted": 3, "ratio": None, "met": None},
            ],
        }

    *_, good, bad, count = table([result(2.5, 1e6), result(1.5, 5e6)])
    assert f"{CHAIN}, fresh 2.50 (2)" in good and "**" not in good
    assert f"{CHAIN}, fresh **1.50** (2)" in bad and "**5.0**" in bad
    assert count == "4 goals: 1 met, 1 missed, 2 not measured"


def test_a_bound_is_a_goal_too():
    goals = arithmetic_on_the_way._goals
    case = CASES["f32 to f16, turned, 4096x4096"]
    medians = dict.fromkeys([f"{OURS}, warm", f"{RELAYOUT}, warm", f"{RELAYOUT}, fresh"], 1.0)
    for ours, met in ((2.0, True), (2.2, False)):
        times = medians | {f"{OURS}, fresh": ours, f"{CHAIN}, fresh": 1.5, f"{CAST_ALONE}, fresh": 2.0}
        assert [goal["met"] for goal in goals(case, times) if "or" in goal] == [met]
