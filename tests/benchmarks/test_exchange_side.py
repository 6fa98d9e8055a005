"""The comparison of exchanges with DTensor and Dask, on a small array."""

import json
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("dask")
from benchmarks import exchange_side  # noqa: E402
from tests.support.effort import ALL  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory at its peak is read from /proc")


@pytest.mark.skipif(not ALL, reason="60 s for 14 processes with PyTorch; GPULAYOUT_TEST_ALL=1 runs it")
def test_a_small_run_compares_the_results_and_writes_its_record(tmp_path, capsys):
    file = tmp_path / "exchange.json"
    exchange_side.main(["--size", "96", "--rounds", "1", "--json", str(file)])
    found, shown = json.loads(file.read_text()), capsys.readouterr().out
    assert [case["case"] for case in found["cases"]][:-1] == [case[0] for case in exchange_side.CASES]
    for case in found["cases"]:
        assert case["case"] in shown and len(case["results"]) >= 4
        assert all(result["seconds"] > 0 <= result["peak"] for result in case["results"].values())


def test_what_runs_in_one_process(monkeypatch):
    monkeypatch.setattr(exchange_side, "_on_ranks", lambda *_: {"gpulayout": {"seconds": 0.5, "peak": 0}})
    found = exchange_side.measured(64, 1)
    assert {"Dask's rechunk", "copy"} < found["cases"][-1]["results"].keys()
    for each in found["lists"]:
        assert 900_000 < each["runs"] < 1_100_000 and each["bytes_a_run"] < 25.2
    text = exchange_side.lines(found)
    assert "| rows to all, 2 ranks | gpulayout | 500.0 | 1.00 | 0 |" in text
