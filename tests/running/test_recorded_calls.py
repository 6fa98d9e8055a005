"""The recorder of calls: two runs of the same code are equal, and a changed observation is reported."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

from tests.support import recorded_calls  # noqa: E402 - it needs both libraries


@pytest.fixture(autouse=True)
def nothing_traced(monkeypatch):
    """The first trace of PyTorch and of JAX takes seconds."""
    calls = recorded_calls.random_calls
    monkeypatch.setattr(calls, "COMPILED", 0)
    monkeypatch.setattr(calls, "TORCH_MODES", {"plain": 9, "no_grad": 1, "vmap": 1})
    monkeypatch.setattr(calls, "JAX_MODES", {"plain": 1})


def test_a_replay_is_equal_and_a_change_is_reported(tmp_path, capsys):
    name = str(tmp_path / "calls.jsonl")
    assert recorded_calls.main(["record", name, "--count", "150"]) == 0
    assert recorded_calls.main(["replay", name]) == 0
    assert "150 of 150 calls are equal" in capsys.readouterr().out
    with open(name) as file:
        lines = [json.loads(line) for line in file]
    changed = next(line for line in lines[1:] if line["verb"] == "pack" and "pieces" in line)
    changed["pieces"] = "other pieces"
    with open(name, "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    assert recorded_calls.main(["replay", name, "--only", "pack"]) == 1
    report = capsys.readouterr().out
    assert "1 differ" in report and changed["call"] in report and "recorded  other pieces" in report
