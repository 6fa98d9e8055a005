"""The comparison with Dask's own transposition, on a small array."""

import json

import pytest

pytest.importorskip("distributed")
from benchmarks import dask_side  # noqa: E402
from tests.support.effort import ALL  # noqa: E402


@pytest.mark.skipif(not ALL, reason="9 s for a cluster; GPULAYOUT_TEST_ALL=1 runs it")
def test_a_small_run_compares_the_results_and_writes_its_record(tmp_path, capsys):
    file = tmp_path / "dask.json"
    small = ["--megabytes", "4", "--chunk-megabytes", "1", "--rounds", "1", "--terabytes", "1"]
    dask_side.main([*small, "--write", str(file)])
    found = json.loads(file.read_text())
    assert found == json.loads(capsys.readouterr().out)
    measured = found["measured"]
    assert measured["bytes"] == 4 << 20 and measured["chunk_bytes"] == 1 << 20
    assert all(measured[name].keys() == {"gpulayout", "dask"} for name in ("seconds", "peak_bytes_per_worker"))
    for side in ("gpulayout", "dask"):
        assert len(measured["all_seconds"][side]) == 1 and measured["peak_bytes_per_worker"][side] > 1 << 20
    for plan in found["simulated"]:
        assert min(plan["chunks"]) > 1 and plan["bytes_of_a_piece"] * plan["pieces"] >= plan["bytes"]
        assert 0 < plan["least_network_bytes"] <= plan["network_bytes"] < plan["bytes"] <= 10**12


def test_chunks_are_dealt_out_in_equal_parts():
    assert dask_side.owned([5, 5, 5, 2], 2) == [10, 7] and dask_side.owned([5, 1], 3) == [5, 1, 0]
