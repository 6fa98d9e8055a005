"""The comparison of exchanges with DTensor and Dask, on a small array, and of lists of runs."""

import json

import numpy as np
import pytest

import gpulayout as gl
from benchmarks import exchange_side, run_lists
from tests.support.effort import ALL


@pytest.mark.skipif(not ALL, reason="15 s for processes that import PyTorch and Dask; GPULAYOUT_TEST_ALL=1 runs it")
def test_a_small_run_compares_the_results_and_writes_its_record(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("distributed")
    file = tmp_path / "exchange.json"
    exchange_side.main(["--megabytes", "1", "--rounds", "2", "--runs", "2000", "--write", str(file)])
    found = json.loads(file.read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert [each["work"] for each in found["exchanges"]] == [work.name for work in exchange_side.WORKS]
    for each in found["exchanges"]:
        names = {"exchange", "exchange, out=", "dtensor", "copy", "dask"}
        names -= {"dask"} if "every rank" in each["work"] else set()
        names |= {"all_to_all_single by hand"} if each["work"] == "rows to columns" else set()
        assert names == each["seconds"].keys() == each["peak_bytes_per_process"].keys() == each["times_as_long"].keys()
        assert each["times_as_long"]["exchange"] == 1 and all(len(times) == 2 for times in each["all_seconds"].values())
        assert each["bytes"] > each["bytes_that_travel"] > 0 or "every rank" in each["work"]
    assert len(found["lists"]) == 4


@pytest.mark.parametrize("work", exchange_side.WORKS, ids=lambda work: work.name)
def test_each_work_gives_every_rank_its_part_of_the_array(work):
    side = exchange_side.sides(1, 3, work)
    assert side % 3 == work.more
    exchange = exchange_side.exchange_of(work, side, 3)
    whole = exchange_side.numbers(slice(0, side), slice(0, side))
    boxes = [[exchange_side.box_of(each, rank) for rank in range(3)] for each in (exchange.source, exchange.target)]
    given = [exchange_side.numbers(*box).reshape(-1) for box in boxes[0]]
    for box, found in zip(boxes[1], exchange.move(given)):
        assert np.array_equal(gl.unpack(found, gl.Shape("f32", whole[box].shape, work.layout)), whole[box])


def test_what_others_do_better_is_listed():
    seconds = {"exchange": 2.0, "dtensor": 1.0, "dask": 3.0}
    memory = {"exchange": 20, "dtensor": 30, "dask": 10}
    found = exchange_side.losses([{"work": "rows", "seconds": seconds, "peak_bytes_per_process": memory}])
    assert found == ["rows: dtensor 1 seconds, exchange 2", "rows: dask 10 bytes, exchange 20"]


def test_lists_of_runs_are_compared_and_measured():
    found = run_lists.measured_lists(2000, 2)
    *known, pages = [each["runs"] for each in found]
    assert known == [2000, 2000, 1904 - 16] and 1500 < pages <= 1536  # some runs join where tiles or pages meet
    for each in found:
        assert each["bytes"] == 24 * each["runs"] <= each["peak_bytes"] and len(each["all_seconds"]["list"]) == 2
    assert {*found[0]["seconds"]} == {"list", "filled", "by hand"}
