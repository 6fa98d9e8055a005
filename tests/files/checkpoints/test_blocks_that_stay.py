"""Blocks whose bytes only change places are written from the buffers that they were read into."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import route
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS


@pytest.mark.parametrize(
    "max_bytes", [None, 1 << 20, 1 << 18]
)  # one block, and several with one pair of buffers or two
@pytest.mark.parametrize("tensors", [1, 3])
def test_a_cut_in_one_block_and_in_several(tmp_path, monkeypatch, max_bytes, tensors):
    from safetensors.numpy import load_file, save_file

    monkeypatch.setattr(route, "LEAST_RUN", 0)
    random = np.random.default_rng(0)
    model = {f"w{each}": random.integers(0, 256, (4096, 512 + 64 * each), np.uint8) for each in range(tensors)}
    save_file(model, tmp_path / "a.safetensors")
    rules = {r"w\d": "shard=1/2 along=1"}
    gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors=rules, max_bytes=max_bytes)
    found = load_file(tmp_path / "b.safetensors")
    for name, array in model.items():
        assert np.array_equal(found[name], array[:, array.shape[1] // 2 :]), name
