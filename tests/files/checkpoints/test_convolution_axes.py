"""Where the axes of a convolution's weight go, stated here and not by a framework: plain, transposed, and back."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, run

TORCH = np.arange(4 * 5 * 2 * 3, dtype=np.float32).reshape(4, 5, 2, 3)  # of a transposed one: in, out, height, width
FLAX = TORCH.transpose(2, 3, 0, 1)[::-1, ::-1]  # height, width, in, out, and flipped
KERAS = TORCH.transpose(2, 3, 1, 0)  # height, width, out, in
MLX = TORCH.transpose(1, 2, 3, 0)  # out, height, width, in
TRANSPOSED = [
    ("torch-to-mlx", "up.weight", TORCH, "up.weight", MLX),
    ("torch-to-flax", "up.weight", TORCH, "params.up.kernel", FLAX),
    ("torch-to-keras", "up.weight", TORCH, "up/kernel", KERAS),
    ("mlx-to-torch", "up.weight", MLX, "up.weight", TORCH),
    ("flax-to-torch", "params.up.kernel", FLAX, "up.weight", TORCH),
    ("keras-to-torch", "up/kernel", KERAS, "up.weight", TORCH),
]


@pytest.fixture
def safetensors():
    return pytest.importorskip("safetensors.numpy")


@pytest.fixture
def file(safetensors, tmp_path):
    def save(tensors, metadata=None):
        tensors = {name: np.ascontiguousarray(each) for name, each in tensors.items()}
        safetensors.save_file(tensors, tmp_path / "a.safetensors", metadata=metadata)
        return tmp_path / "a.safetensors", tmp_path / "b.safetensors"

    return save


@pytest.mark.parametrize("rules, name, given, new_name, expected", TRANSPOSED, ids=[each[0] for each in TRANSPOSED])
def test_a_transposed_convolution_is_refused_or_turned_as_one(
    safetensors, file, rules, name, given, new_name, expected
):
    before, after = file({name: given})
    said = failure("relayout", before, after, "--map", rules)
    assert "cannot tell what 1 tensor is" in said and "conv_transpose" in said and not after.exists()
    run("relayout", before, after, "--map", rules, "--assume", ".*=conv_transpose")
    found = safetensors.load_file(after)
    assert [*found] == [new_name] and np.array_equal(found[new_name], expected)


def test_a_file_of_mlx_goes_to_torch_and_is_not_turned_twice(safetensors, file, tmp_path):
    weight = np.random.default_rng(0).standard_normal((8, 3, 2, 4)).astype(np.float32)  # out, height, width, in
    before, after = file({"conv.weight": weight}, {"format": "mlx"})
    run("relayout", before, after, "--map", "mlx-to-torch")
    assert np.array_equal(safetensors.load_file(after)["conv.weight"], weight.transpose(0, 3, 1, 2))
    with pytest.raises(gl.LayoutError, match="its metadata says format mlx"):
        gl.relayout_file(before, tmp_path / "c.safetensors", tensors="torch-to-mlx")
    run("relayout", after, tmp_path / "c.safetensors", "--map", "torch-to-mlx")
    assert np.array_equal(safetensors.load_file(tmp_path / "c.safetensors")["conv.weight"], weight)
