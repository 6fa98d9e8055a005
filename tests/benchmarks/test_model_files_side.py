"""The benchmarks of model files and of the catalogue measure what they say, with small arrays."""

import os

import pytest

import gpulayout as gl
from benchmarks import catalogue_side, joined_models_side, model_files_side, recipes_side


def test_every_contender_writes_the_same_tensors_and_is_timed(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    monkeypatch.setattr(model_files_side, "SIDE", 64)
    monkeypatch.setattr(model_files_side.os, "sync", lambda: None)  # other programs may have much to write
    monkeypatch.setattr(model_files_side, "CACHES", tmp_path / "none")
    found = model_files_side.measured(tmp_path, 2, 512, 1)
    names = ["cp", "gpulayout", "gpulayout --memory 512M", "torch loop", "numpy loop"]
    assert [each["name"] for each in found["results"]] == names and {each["cache"] for each in found["results"]} == {
        "warm"
    }
    assert all(each["seconds"] > 0 and each["peak_resident"] > 0 for each in found["results"])
    assert len(model_files_side.table(found)) == 7 and os.listdir(tmp_path) == []


def test_the_owners_functions_store_the_bytes_of_the_entries():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    try:
        found = catalogue_side.measured(1)
    finally:
        gl.use_threads(None)
        torch.set_num_threads(threads)
    is_known = torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    entries = [
        "cublas:block_scales",
        "cublas:block_scales",
        "cutlass:sparse_metadata",
        *["torchao:int4_cpu"] * is_known,
    ]
    assert [each["entry"] for each in found["results"]] == entries
    assert all(min(each["owner_ms"], each["ours_ms"]) > 0 for each in found["results"])


def test_joins_stacks_and_cuts_are_timed_beside_loops_that_write_the_same(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.delitem(joined_models_side.LOOPS, "torch loop")  # to import torch takes longer than all else
    for name, size in (("HIDDEN", 32), ("INNER", 40), ("EXPERTS", 3)):
        monkeypatch.setattr(joined_models_side, name, size)
    monkeypatch.setattr(model_files_side.os, "sync", lambda: None)  # other programs may have much to write
    monkeypatch.setattr(model_files_side, "CACHES", tmp_path / "none")
    found = joined_models_side.measured(tmp_path, 2, 512, 1)
    whole, half = found["tasks"]
    assert whole["task"] == "joined" and 1.5 < whole["bytes"] / half["bytes"] < 2.5
    for task in found["tasks"]:
        names = ["cp", "gpulayout", "gpulayout --memory 512M", "numpy loop"]
        assert [each["name"] for each in task["results"]] == names and len(model_files_side.table(task)) == 6
    assert os.listdir(tmp_path) == []


def test_recipes_are_measured_on_small_models(monkeypatch, tmp_path):
    pytest.importorskip("safetensors")
    sizes = {"HIDDEN": 256, "INNER": 256, "HEADS": 4, "KV_HEADS": 2, "VOCABULARY": 64}
    for name, size in sizes.items():
        monkeypatch.setattr(recipes_side, name, size)
    monkeypatch.setattr(recipes_side, "TASKS", [task for task in recipes_side.TASKS if task[0].startswith("llama")])
    monkeypatch.setattr(model_files_side.os, "sync", lambda: None)  # other programs may have much to write
    monkeypatch.setattr(model_files_side, "CACHES", tmp_path / "none")
    found = recipes_side.measured(tmp_path, 1, 512, 1)
    assert [task["task"] for task in found["tasks"]] == ["llama-tp(ranks=2)", "llama-from-tp"]
    assert {each["name"] for each in found["tasks"][0]["results"]} == {"cp", "gpulayout", "gpulayout --memory 512M"}
    assert [*tmp_path.iterdir()] == []
