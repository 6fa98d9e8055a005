"""Numbers of one dimension for a square weight: which axis they are along, a rule has to say."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS


def relayout(folder, tensors, rules):
    from safetensors.numpy import load_file, save_file

    save_file(tensors, folder / "a.safetensors")
    gl.relayout_file(folder / "a.safetensors", folder / "b.safetensors", tensors=rules)
    return load_file(folder / "b.safetensors")


@pytest.mark.parametrize("pattern, axis", [("n -> n 1", 0), ("n -> 1 n", 1)])
def test_a_pattern_says_which_axis(tmp_path, pattern, axis):
    weight, scale = np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(1, 5, dtype=np.float32)
    tensors = {"w": weight, "w_scale": scale}
    with pytest.raises(
        gl.LayoutError, match=r"scale is tensor 'w_scale' of shape \(4,\), which may be along axis 0 or 1"
    ):
        relayout(tmp_path, tensors, {"w": "scale={name}_scale"})
    assert not (tmp_path / "b.safetensors").exists()
    found = relayout(tmp_path, tensors, {"w": "scale={name}_scale", "w_scale": f"{pattern}; drop"})
    assert found["w"].tolist() == (weight * np.expand_dims(scale, 1 - axis)).tolist()


def test_what_fits_one_axis_alone_broadcasts_as_everywhere(tmp_path):
    weight, scale = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    assert relayout(tmp_path, {"w": weight, "s": scale}, {"w": "scale=s"})["w"].tolist() == [[0, 1, 2, 3]] * 3
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(gl.LayoutError, match=r"\(scale is tensor 's', whose own rule may have a pattern: n -> n 1\)"):
        relayout(tmp_path, {"w": weight, "s": scale[:3]}, {"w": "scale=s"})
