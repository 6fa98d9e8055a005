"""The benchmark of reloaded weights checks every way, and records what it says, with small tensors."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import gpulayout as gl  # noqa: E402
from benchmarks import reload_side  # noqa: E402
from benchmarks.cases.reload import RELOAD_CASES, ReloadCase, quick  # noqa: E402
from benchmarks.peers import owners_by_hand  # noqa: E402


def test_a_small_run_is_checked_timed_and_recorded(tmp_path, capsys):
    file = tmp_path / "reload.json"
    threads = torch.get_num_threads()
    reload_side.main(["--quick", "--rounds", "1", "--threads", "1", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [each["name"] for each in found["results"]] == [case.name for case in RELOAD_CASES]
    assert found["quick"] and found["device"] == "cpu" and torch.get_num_threads() == threads
    for each in found["results"]:
        assert {"plain copy", "pack, out=", "copy_", "pack_", "unpack_", "by hand"} <= each["seconds"].keys()
        assert all(seconds > 0 for seconds in each["seconds"].values())
        assert each["peak_bytes"].keys() == each["seconds"].keys() and each["bytes"] <= 1 << 20
    shown = capsys.readouterr().out
    assert all(shown.count(case.name) == 3 for case in RELOAD_CASES)  # as it begins, and in both tables


def test_a_way_that_writes_other_bytes_is_an_error(monkeypatch):
    monkeypatch.setattr(owners_by_hand, "marlin_scales", lambda scales: scales)
    with pytest.raises(RuntimeError, match="Marlin scales, experts: by hand gives wrong bytes"):
        reload_side.main(["--quick", "--rounds", "1", "--only", "marlin scales"])


@pytest.mark.parametrize("case", [quick(case) for case in RELOAD_CASES], ids=lambda case: case.name)
def test_the_way_by_hand_gives_the_bytes_of_the_catalogue(case):
    numbers = torch.from_numpy(np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8))
    shape = gl.parse_shape(case.words if case.source else case.layout)
    given, function = numbers[: shape.nbytes], getattr(owners_by_hand, case.by_hand[0])
    plain = given.view(reload_side.DTYPES[case.dtype]).reshape(sizes_of_checkpoint(case))
    packed = gl.relayout(given, case.words, case.layout) if case.source else gl.pack(plain, case.layout)
    assert function(plain, *case.by_hand[1:]).reshape(-1).view(torch.uint8).equal(packed.view(torch.uint8))


def sizes_of_checkpoint(case):
    """8 codes in a word, along K of GPTQ and along N of AWQ."""
    *front, rows, columns = case.sizes
    words = {"g": (*front, rows // 8, columns), "a": (*front, rows, columns // 8), "": case.sizes}
    return words[case.source[:1]]


def test_block_scales_and_columns_by_hand_are_padded_as_the_catalogue_says():
    scales = torch.arange(200 * 10, dtype=torch.float32).reshape(200, 10)
    as_bytes = scales.to(torch.uint8)
    assert owners_by_hand.block_scales(as_bytes).equal(gl.pack(as_bytes, "cublas:block_scales"))
    odd = scales[:199]
    assert owners_by_hand.deepgemm_scales(odd).reshape(-1).equal(gl.pack(odd, "deepgemm:scales"))


def test_the_whole_run_is_about_a_gigabyte_and_every_way_by_hand_is_there():
    taken = sum(gl.parse_shape(case.layout).nbytes for case in RELOAD_CASES)
    assert 0.8e9 < taken < 1.2e9
    assert all(isinstance(case, ReloadCase) and hasattr(owners_by_hand, case.by_hand[0]) for case in RELOAD_CASES)
