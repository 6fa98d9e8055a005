"""Folders that recipes make, in models whose parameters are those of the kernel: loaded as they are, and reloaded."""

import json

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from tests.torch.test_files_of_rules import floats, same, words  # noqa: E402

K, N, GROUP, LAYERS = 256, 256, 128, 2
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True}
SHAPES = {  # as Marlin's kernels take them
    "qweight": ((K // 16, 2 * N), torch.int32),
    "B": ((K // 16, 2 * N), torch.int32),
    "qzeros": ((K // GROUP, N // 8), torch.int32),
    "scales": ((K // GROUP, N), torch.float16),
    "s": ((K // GROUP, N), torch.float16),
}


def awq(seed):
    """A checkpoint of AWQ."""
    return {
        f"layers.{layer}.up_proj.{name}": tensor
        for layer in range(LAYERS)
        for name, tensor in {
            "qweight": words(K, N // 8, seed=seed + layer),
            "qzeros": words(K // GROUP, N // 8, seed=seed + layer),
            "scales": floats(K // GROUP, N, seed=seed + layer),
        }.items()
    }


def gptq(seed):
    """A checkpoint of GPTQ, symmetric."""
    return {
        f"layers.{layer}.up_proj.{name}": tensor
        for layer in range(LAYERS)
        for name, tensor in {
            "qweight": words(K // 8, N, seed=seed + layer),
            "qzeros": torch.full((K // GROUP, N // 8), 0x77777777, dtype=torch.int32),
            "scales": floats(K // GROUP, N, seed=seed + layer),
            "g_idx": torch.arange(K, dtype=torch.int32) // GROUP,
        }.items()
    }


def bf16(seed):
    """A checkpoint that is not quantised."""
    return {f"layers.{n}.up_proj.weight": floats(N, K, dtype=torch.bfloat16, seed=seed + n) for n in range(LAYERS)}


def folder(path, tensors, config):
    """A folder as a hub has it, with a shard for each layer."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    files = {}
    for layer in range(LAYERS):
        own = {name: tensor for name, tensor in tensors.items() if name.startswith(f"layers.{layer}.")}
        files |= dict.fromkeys(own, f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors")
        safetensors.save_file(own, path / f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors")
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return path


def served(*names, device="cpu"):
    """A model of layers whose linear weights have these parameters."""
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList(torch.nn.Module() for _ in range(LAYERS))
    for layer in model.layers:
        layer.up_proj = torch.nn.Module()
        for name in names:
            sizes, dtype = SHAPES[name]
            data = torch.empty(sizes, dtype=dtype, device=device)
            layer.up_proj.register_parameter(name, torch.nn.Parameter(data, requires_grad=False))
    return model


@pytest.mark.parametrize(
    "recipe, make, config, names",
    [
        ("awq-to-marlin", awq, AWQ, {"qweight": "qweight", "qzeros": "qzeros", "scales": "scales"}),
        ("gptq-to-marlin", gptq, GPTQ, {"qweight": "B", "scales": "s"}),
    ],
)
def test_a_folder_loads_and_new_weights_come_as_the_checkpoint_has_them(tmp_path, recipe, make, config, names):
    old = folder(tmp_path / "old", make(0), {"quantization_config": config})
    new, other = tmp_path / "new", tmp_path / "other"
    gl.relayout_file(old, new, recipe=recipe)
    gl.relayout_file(folder(tmp_path / "next", make(50), {"quantization_config": config}), other, recipe=recipe)
    started, loaded, expected = served(*names.values(), device="meta"), served(*names.values()), served(*names.values())
    gl.torch.load_packed(new, started, assign=True)
    gl.torch.load_packed(new, loaded)
    gl.torch.load_packed(other, expected)
    for model in (started, loaded):
        for seed in (0, 50):
            checkpoint = {
                f"{name.rpartition('.')[0]}.{names[name.rpartition('.')[2]]}": tensor
                for name, tensor in make(seed).items()
                if name.rpartition(".")[2] in names
            }
            if seed:
                gl.torch.load_state_dict(model, checkpoint)
                assert all(torch.equal(a.data, b.data) for a, b in zip(model.parameters(), expected.parameters()))
            found = gl.torch.state_dict(model)
            assert found.keys() == checkpoint.keys() and all(same(found[name], checkpoint[name]) for name in found)


def test_weights_that_a_recipe_quantised_are_quantised_again_in_place(tmp_path):
    """With the scales of the new weights, as the recipe finds them, the bytes are those that it makes of them."""
    models = []
    for seed in (0, 50):
        old = folder(tmp_path / f"old{seed}", bf16(seed), {"model_type": "llama"})
        gl.relayout_file(old, tmp_path / f"new{seed}", recipe="bf16-to-marlin-u4")
        models.append(served("B", "s"))
        gl.torch.load_packed(tmp_path / f"new{seed}", models[-1])
    model, expected = models
    for number, layer in enumerate(model.layers):
        weight = bf16(50)[f"layers.{number}.up_proj.weight"]
        scales = (weight.float().view(N, -1, GROUP).abs().amax(2) / np.float32(7.5)).half()
        gl.torch.copy_(layer.up_proj.s, scales)
        gl.torch.copy_(layer.up_proj.B, weight, scale=scales, zero_point=8, block=(1, GROUP))
        for name in ("B", "s"):
            assert same(getattr(layer.up_proj, name).data, getattr(expected.layers[number].up_proj, name).data)
