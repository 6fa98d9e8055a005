"""BF16 to FP8 in blocks, and to Marlin of 4 bits: the bytes of the owners' code and of the law, and the new config."""

import json

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.layout.errors import LayoutError
from tests.support.model_files import contents
from tests.support.recipe_vectors import (
    FILES,
    as_bf16,
    as_float,
    even_bf16,
    said,
    save_folder,
    small_bf16,
    wide_numbers,
)
from tests.support.weight_formats import marlin_scales, marlin_words

LAYER = "model.layers.0"
SLIME = [each for each in FILES["slime_fp8"]["vectors"] if each["block"] == [128, 128]]


def new_tensors(folder):
    """What a new model has, as a vector says it."""
    return {
        name: said(np.frombuffer(data, np.uint8).reshape(*shape, -1), dtype) | {"shape": list(shape)}
        for name, (dtype, shape, data) in contents(folder / "model.safetensors").items()
    }


@pytest.mark.parametrize(
    "vector",
    [each for each in FILES["slime_fp8"]["vectors"] if each["block"] == [128, 128]],
    ids=lambda each: each["input"],
)
def test_fp8_has_the_bytes_that_slime_s_code_makes(vector, tmp_path):
    name = f"{LAYER}.mlp.up_proj.weight"
    others = {
        "lm_head.weight": ("BF16", small_bf16((8, 4))),
        f"{LAYER}.mlp.gate.weight": ("BF16", small_bf16((4, 8), 1)),
        f"{LAYER}.mlp.up_proj.bias": ("BF16", small_bf16((8,), 2)),
        "model.norm.weight": ("BF16", small_bf16((8,), 3)),
    }
    numbers = wide_numbers(vector["input"])
    save_folder(tmp_path / "old", {name: ("BF16", numbers), **others}, {"hidden_size": 8})
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="bf16-to-fp8-blocks")
    found = new_tensors(tmp_path / "new")
    scales = found.pop(f"{name}_scale_inv")
    if vector["input"] != "zeros_small_and_large":  # a block of zeros has any scale but 0
        assert scales == vector["scale"]
    assert found == {name: vector["weight"], **{other: said(array, dtype) for other, (dtype, array) in others.items()}}
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    assert config["quantization_config"] == {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head", f"{LAYER}.mlp.gate"],
    }


@pytest.mark.parametrize("shape", [(64, 128), (192, 256), (256, 384)])
def test_marlin_has_the_codes_and_scales_of_the_law(shape, tmp_path):
    rows, columns = shape
    numbers = even_bf16(shape, 1)
    numbers[0, :128] = 0
    numbers[1, :3] = as_bf16(np.float32([7.5, 0.5, -1.5]))  # ties, if these are the greatest
    if columns == 128:
        columns, numbers = 256, np.concatenate([numbers, numbers], 1)
    name = f"{LAYER}.self_attn.q_proj"
    save_folder(tmp_path / "old", {f"{name}.weight": ("BF16", numbers)}, {"torch_dtype": "bfloat16"})
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="bf16-to-marlin-u4")
    groups = as_float(numbers).reshape(rows, -1, 128)
    scales = (np.abs(groups).max(2) / np.float32(7.5)).astype(np.float16)
    scales[scales == 0] = 1
    codes = np.clip(np.rint(groups / scales[..., None].astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    codes = codes.reshape(rows, columns).T
    assert new_tensors(tmp_path / "new") == {
        f"{name}.B": said(marlin_words(codes), "I32"),
        f"{name}.s": said(marlin_scales(scales.T), "F16"),
    }
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    assert config["torch_dtype"] == "float16" and config["quantization_config"]["is_marlin_format"] is True


@pytest.mark.parametrize("recipe", ["bf16-to-fp8-blocks", "bf16-to-marlin-u4"])
def test_a_model_that_is_quantised_already_is_refused(recipe, tmp_path):
    tensors = {f"{LAYER}.mlp.up_proj.weight": ("BF16", even_bf16((256, 256)))}
    save_folder(tmp_path / "old", tensors, {"quantization_config": {"quant_method": "fp8"}})
    with pytest.raises(LayoutError, match="is for a model without it: it is quantised already"):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe=recipe)
    (tmp_path / "old" / "config.json").write_text("{}")
    (tmp_path / "fp8").mkdir()
    gl.relayout_file(tmp_path / "old", tmp_path / "fp8", recipe="bf16-to-fp8-blocks")
    (tmp_path / "fp8" / "config.json").unlink()  # what the tensors show, where no config does
    with pytest.raises(LayoutError, match="fits no tensor|has no rule for tensor .*_scale_inv"):
        gl.relayout_file(tmp_path / "fp8", tmp_path / "new", recipe=recipe)


def test_one_group_of_marlin_is_refused(tmp_path):
    tensors = {f"{LAYER}.mlp.up_proj.weight": ("BF16", even_bf16((64, 128)))}
    save_folder(tmp_path / "old", tensors, {})
    with pytest.raises(LayoutError, match="groups is 1, and scales of whole columns are marlin:channel_scales"):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="bf16-to-marlin-u4")


def folder_of(tmp_path, tensors, **config):
    save_folder(tmp_path / "old", {name: ("BF16", even_bf16(shape)) for name, shape in tensors.items()}, config)
    return tmp_path / "old"


def modules_that_stay(folder):
    return json.loads((folder / "config.json").read_text())["quantization_config"]["modules_to_not_convert"]


def test_the_config_lists_all_that_is_not_quantised(tmp_path):
    """Also what a rule of one's own changes, stacked experts, vision towers, and the last layer of tied embeddings."""
    up, tower = f"{LAYER}.mlp.up_proj", "visual.blocks.0.mlp.up_proj"
    tensors = {
        f"{up}.weight": (256, 128),
        f"{LAYER}.mlp.down_proj.weight": (128, 256),
        f"{LAYER}.mlp.experts.gate_up_proj": (2, 8, 4),
        f"{LAYER}.mlp.router.weight": (4, 8),
        "model.embed_tokens.weight": (8, 4),
        f"{tower}.weight": (128, 128),
        "a.bias": (8,),
    }
    old = folder_of(tmp_path, tensors, tie_word_embeddings=True)
    rules = {rf"{LAYER}.mlp.down_proj.weight": "scale=2", ".*router.*": "o i -> i o"}
    gl.relayout_file(old, tmp_path / "new", recipe="bf16-to-fp8-blocks", tensors=rules)
    stay = {
        f"{LAYER}.mlp.down_proj",
        f"{LAYER}.mlp.experts",
        f"{LAYER}.mlp.router",
        "model.embed_tokens",
        tower,
        "lm_head",
    }
    assert {*modules_that_stay(tmp_path / "new")} == stay
    gl.relayout_file(old, tmp_path / "f16", recipe="bf16-to-fp8-blocks", dtype="f16")
    assert {*modules_that_stay(tmp_path / "f16")} == stay - {f"{LAYER}.mlp.down_proj"}


@pytest.mark.parametrize("other", ["block_sparse_moe.experts.0.w1", "mlp.gate", "self_attn.q_proj.lora_A"])
def test_marlin_refuses_models_with_other_matrices(other, tmp_path):
    old = folder_of(tmp_path, {f"{LAYER}.mlp.up_proj.weight": (256, 256), f"{LAYER}.{other}.weight": (64, 256)})
    with pytest.raises(LayoutError, match=f"has no rule for tensor '{LAYER}.{other}.weight'"):
        gl.relayout_file(old, tmp_path / "new", recipe="bf16-to-marlin-u4")
