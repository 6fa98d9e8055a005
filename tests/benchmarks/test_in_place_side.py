"""The benchmark of relayouts in place measures what it says, with small arrays."""

import json
import os

import gpulayout as gl
from benchmarks import in_place_side
from gpulayout.cpu.threads import VARIABLE


def test_a_small_run_is_checked_timed_and_recorded(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(VARIABLE, "2")
    monkeypatch.setattr(
        in_place_side, "CASES", {"coprime": ("f32[601,603]", "{0,1}"), "tall": ("u8[90001,3]", "{0,1}")}
    )
    file = tmp_path / "in_place.json"
    in_place_side.main(["--rounds", "1", "--json", str(file), "--cases", "coprime", "tall"])
    found = json.loads(file.read_text())["results"]
    assert [(each["name"], each["threads"]) for each in found] == [
        ("coprime", 1),
        ("coprime", 2),
        ("tall", 1),
        ("tall", 2),
    ]
    assert all(seconds > 0 for each in found for seconds in each["seconds"].values())
    assert all(each["workspace"] <= 1 << 20 and each["bytes_moved"] >= 2 * each["bytes"] for each in found)
    assert len(capsys.readouterr().out.splitlines()) == 6 and os.environ[VARIABLE] == "2"


def test_every_case_can_be_done_in_place():
    for pair in in_place_side.CASES.values():
        plan = gl.plan(*pair)
        assert plan.in_place().workspace <= plan.source.nbytes // 20
