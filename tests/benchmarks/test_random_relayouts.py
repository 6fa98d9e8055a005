"""The benchmark of random relayouts draws what it says, and finds who is faster."""

import json
import math

import numpy as np
import pytest

from benchmarks import random_relayouts
from benchmarks.random_relayouts import LEAST, MOST, STEPS, Case, View, drawn, drawn_views, summary


def test_a_seed_gives_the_same_relayouts_of_every_kind():
    cases = drawn(3, 300)
    assert cases == drawn(3, 300) and cases[:50] == drawn(3, 50) and cases != drawn(4, 300)
    assert {case.element_type for case in cases} == {*random_relayouts.ELEMENT_TYPES}
    assert {len(case.dimensions) for case in cases} == {*range(2, 8)}
    assert all(LEAST <= case.source.nbytes <= MOST for case in cases)
    assert all(sorted(case.order) == [*range(len(case.dimensions))] != [*case.order] for case in cases)
    assert {math.floor(math.log2(case.source.nbytes / LEAST)) for case in cases} == {*range(8)}


def test_a_seed_gives_the_same_views_of_every_kind():
    views = drawn_views(3, 300)
    assert views == drawn_views(3, 300) and views[:50] == drawn_views(3, 50) and views != drawn_views(4, 300)
    assert {len(view.dimensions) for view in views} == {*range(1, 5)}
    assert {step for view in views for step in view.steps} == {*STEPS}
    assert all({*view.steps} != {1} for view in views)


def test_a_case_is_named_by_its_layouts():
    assert str(Case("f32", (2, 3, 4), (2, 0, 1))) == "f32[2,3,4]{2,1,0} to {1,0,2}"
    assert str(View("u8", (2, 3), (-1, 0), (1, 0))) == "u8[2,3]{1,0} [::-1, repeated] in the order (1, 0)"


def test_views_read_what_their_name_says():
    pytest.importorskip("torch")
    calls = View("f64", (2, 3, 2), (2, 0, 1), (2, 0, 1)).calls()
    assert {*calls} == {"", "numpy", "torch"}
    for call, written in calls.values():
        call()
        assert written.view(np.int64).tolist() == [[[0] * 3, [4] * 3], [[1] * 3, [5] * 3]]
    assert {*View("u8", (2, 3), (-1, 1), (0, 1)).calls()} == {"", "numpy"}


def test_the_summary_lists_the_cases_behind():
    records = [
        {"case": name, "threads": 2, "ms": ours, "torch_ms": theirs}
        for name, ours, theirs in (("a", 1.0, 2.0), ("b", 1.0, 0.5), ("c", 1.0, 1.5))
    ]
    first, *behind = summary(records)
    assert (
        "3 cases, threads: 2; the time of torch over ours" in first
        and "median 1.50" in first
        and "below 0.95: 1" in first
    )
    assert behind == ["  0.50  b"]
    records[0]["numpy_ms"] = 0.25
    assert summary(records)[1:] == ["  0.25  a", "  0.50  b"]


def test_a_small_run_writes_its_figures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(random_relayouts, "MOST", 3e6)
    monkeypatch.setattr(random_relayouts, "LEAST_SAMPLE", 0.0)
    monkeypatch.setattr(random_relayouts, "WARM_UP", 0.0)
    out = tmp_path / "random.json"
    assert random_relayouts.main(["7", "--count", "3", "--threads", "1", "--rounds", "1", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["seed"] == 7 and len(found["relayouts"]) == 3 and found["machine"]["packages"]["numpy"]
    assert all(record["ms"] > 0 and record["torch_ms"] > 0 for record in found["relayouts"])
    assert "3 cases, threads: 1" in capsys.readouterr().out
    monkeypatch.setattr(random_relayouts, "MOST_OF_VIEW", 2e6)
    assert (
        random_relayouts.main(["7", "--views", "--count", "9", "--threads", "1", "--rounds", "1", "--json", str(out)])
        == 0
    )
    assert len(json.loads(out.read_text())["views"]) == 9
    assert "9 cases, threads: 1; the time of numpy or torch over ours" in capsys.readouterr().out


def test_casts_have_two_types_and_are_the_same_for_the_same_seed():
    cases = random_relayouts.drawn_casts(3, 40)
    assert cases == random_relayouts.drawn_casts(3, 40) and len(cases) == 40
    assert all(case.element_type != case.result_type for case in cases)
    assert {case.result_type for case in cases} == {*random_relayouts.CAST_TYPES}


def test_a_run_of_casts_compares_both_ways(tmp_path, capsys, monkeypatch):
    for name, value in (("LEAST_SAMPLE", 0.0), ("WARM_UP", 0.0), ("MOST_OF_VIEW", 2e6)):
        monkeypatch.setattr(random_relayouts, name, value)
    out = tmp_path / "casts.json"
    words = ["7", "--casts", "--count", "9", "--threads", "1", "--rounds", "1", "--json", str(out)]
    assert random_relayouts.main(words) == 0
    assert "the time of two passes over ours" in capsys.readouterr().out
    records = json.loads(out.read_text())["casts"]
    assert len(records) >= 1 and all(record["ms"] > 0 and record["two passes_ms"] > 0 for record in records)


def test_views_and_casts_are_not_run_together(capsys):
    with pytest.raises(SystemExit):
        random_relayouts.main(["7", "--views", "--casts"])
    assert "two benchmarks" in capsys.readouterr().err
