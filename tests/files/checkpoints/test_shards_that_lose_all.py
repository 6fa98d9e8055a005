"""A shard whose tensors all go into those of others is no file of the new model."""

import json

import numpy as np

import gpulayout as gl
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS


def test_a_shard_whose_tensors_are_parts_of_others_is_not_written(tmp_path):
    from safetensors.numpy import load_file, save_file

    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    for name in "qkv":
        save_file({name: np.full((2, 2), ord(name), np.float32)}, old / f"{name}.safetensors")
    index = {"metadata": {}, "weight_map": {name: f"{name}.safetensors" for name in "qkv"}}
    (old / "model.safetensors.index.json").write_text(json.dumps(index))
    rules = {"q": "join=q,k; along=0; name=qk"}
    gl.relayout_file(old / "model.safetensors.index.json", new / "model.safetensors.index.json", tensors=rules)
    assert sorted(each.name for each in new.iterdir()) == [
        "model.safetensors.index.json",
        "q.safetensors",
        "v.safetensors",
    ]
    assert load_file(new / "q.safetensors")["qk"][:, 0].tolist() == [ord("q")] * 2 + [ord("k")] * 2
