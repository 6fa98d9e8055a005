"""FP8 in blocks and MXFP4 to BF16: the bytes of the owners' code, and models that transformers loads.

`tests/data/recipes` has hashes of what DeepSeek's and transformers' own functions made of the same tensors.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.errors import FileError
from gpulayout.layout.errors import LayoutError
from tests.support.model_files import contents
from tests.support.recipe_vectors import (
    FILES,
    as_bf16,
    as_float,
    bits,
    block_scales,
    even_bf16,
    fp8_codes,
    mxfp4_scales,
    said,
    save_folder,
    small_bf16,
    wide_numbers,
)

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
EXPERTS = "model.layers.0.mlp.experts"


def grid(shape):
    return tuple(-(-size // 128) for size in shape)


def fp8_folder(folder, shape=(192, 320), **config):
    tensors = {
        "a.weight": ("F8_E4M3", fp8_codes(shape)),
        "a.weight_scale_inv": ("F32", block_scales(grid(shape))),
        "norm.weight": ("BF16", small_bf16((7,))),
    }
    save_folder(folder, tensors, {"hidden_size": shape[1], "quantization_config": {**FP8, **config}})


def mxfp4_tensors(experts, rows, groups, name=f"{EXPERTS}.gate_up_proj"):
    return {
        f"{name}_blocks": ("U8", bits((experts, rows, groups, 16), 8)),
        f"{name}_scales": ("U8", mxfp4_scales((experts, rows, groups))),
        f"{name}_bias": ("BF16", small_bf16((experts, rows))),
    }


def new_tensors(folder):
    """What a new model has, as a vector says it."""
    return {
        name: said(np.frombuffer(data, np.uint8).reshape(*shape, -1), dtype) | {"shape": list(shape)}
        for name, (dtype, shape, data) in contents(folder / "model.safetensors").items()
    }


@pytest.mark.parametrize("vector", FILES["deepseek_fp8"]["vectors"], ids=lambda vector: str(vector["shape"]))
def test_fp8_becomes_the_bytes_that_deepseek_s_code_makes(vector, tmp_path):
    fp8_folder(tmp_path / "old", vector["shape"])
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="fp8-blocks-to-bf16")
    norm = said(small_bf16((7,)), "BF16")
    assert new_tensors(tmp_path / "new") == {"a.weight": vector["weight"], "norm.weight": norm}
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {"hidden_size": vector["shape"][1]}
    assert (tmp_path / "new" / "tokenizer.json").exists()


@pytest.mark.parametrize("vector", FILES["transformers_mxfp4"]["vectors"], ids=lambda vector: str(vector["rows"]))
def test_mxfp4_becomes_the_bytes_that_transformers_makes(vector, tmp_path):
    sizes = vector["experts"], vector["rows"], vector["groups"]
    config = {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}
    save_folder(tmp_path / "old", mxfp4_tensors(*sizes), config)
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="mxfp4-to-bf16")
    bias = said(small_bf16(sizes[:2]), "BF16")
    name = f"{EXPERTS}.gate_up_proj"
    assert new_tensors(tmp_path / "new") == {name: vector["weight"], f"{name}_bias": bias}
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == {"model_type": "gpt_oss"}


@pytest.mark.parametrize("vector", FILES["slime_fp8"]["vectors"], ids=lambda each: f"{each['input']}{each['block']}")
def test_numbers_divided_by_their_greatest_over_448_are_the_codes_of_slime_s_code(vector):
    """Not those times 1 / scale, which differ in `ties`.  A block of zeros has any scale but 0."""
    numbers, (high, wide) = as_float(wide_numbers(vector["input"])), vector["block"]
    rows, columns = (-(-size // block) for size, block in zip(numbers.shape, vector["block"]))
    padded = np.zeros((rows * high, columns * wide), np.float32)
    padded[: numbers.shape[0], : numbers.shape[1]] = numbers
    blocks = padded.reshape(rows, high, columns, wide)
    scales = np.abs(blocks).max((1, 3), keepdims=True) / np.float32(448)
    scales[scales == 0] = as_float(as_bf16(np.float32([1e-12])))[0] / np.float32(448)
    codes = (blocks / scales).astype(ml_dtypes.float8_e4m3fn).reshape(padded.shape)
    codes = codes[: numbers.shape[0], : numbers.shape[1]]
    assert said(scales[:, 0, :, 0], "F32") == vector["scale"] and said(codes, "F8_E4M3") == vector["weight"]


@pytest.mark.parametrize(
    "config, problem",
    [
        (
            {"quant_method": "fbgemm_fp8"},
            'quant_method is "fbgemm_fp8", and the recipe fp8-blocks-to-bf16 is for "fp8"',
        ),
        ({"fmt": "e5m2"}, 'fmt is "e5m2"'),
        ({"weight_block_size": [64, 128]}, r"weight_block_size is \[64, 128\]"),
        ({"weight_block_size": None}, "has no quantization_config.weight_block_size, .* one scale for a tensor"),
        ({"activation_scheme": "static"}, 'activation_scheme is "static", .* scales of activations'),
    ],
)
def test_a_config_of_other_fp8_is_refused(config, problem, tmp_path):
    fp8_folder(tmp_path / "old", **config)
    with pytest.raises(LayoutError, match=problem):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="fp8-blocks-to-bf16")
    assert not (tmp_path / "new").exists()


def test_codes_without_scales_are_refused(tmp_path):
    tensors = {"a.weight": ("F8_E4M3", fp8_codes((128, 128))), "a.weight_scale": ("F32", block_scales((1,)))}
    save_folder(tmp_path / "old", tensors, {"quantization_config": FP8})
    with pytest.raises((LayoutError, FileError), match="a.weight_scale_inv"):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="fp8-blocks-to-bf16")
    assert not (tmp_path / "new").exists()


def test_scales_of_another_number_of_blocks_are_refused(tmp_path):
    tensors = {"a.weight": ("F8_E4M3", fp8_codes((192, 320))), "a.weight_scale_inv": ("F32", block_scales((2, 2)))}
    save_folder(tmp_path / "old", tensors, {"quantization_config": FP8})
    with pytest.raises(LayoutError, match=r"a\.weight"):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="fp8-blocks-to-bf16")


@pytest.mark.parametrize(
    "config, problem",
    [
        ({"model_type": "llama", "quantization_config": {"quant_method": "mxfp4"}}, 'model_type is "llama"'),
        ({"model_type": "gpt_oss"}, "has no quantization_config.quant_method"),
        ({"model_type": "gpt_oss", "quantization_config": {"quant_method": "fp8"}}, 'quant_method is "fp8"'),
    ],
)
def test_a_config_of_another_model_than_gpt_oss_is_refused(config, problem, tmp_path):
    save_folder(tmp_path / "old", mxfp4_tensors(2, 64, 1), config)
    with pytest.raises(LayoutError, match=problem):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="mxfp4-to-bf16")


# ---- transformers loads the results --------------------------------------------------------------------------------


def logits(folder, vocabulary, **options):
    """What a model in a folder says of a few tokens."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype="bfloat16", **options
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    with torch.no_grad():
        return model.eval()(torch.arange(1, vocabulary, 7)[None]).logits


def test_transformers_computes_with_the_new_model_what_it_does_with_fp8(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(vocab_size=64, head_dim=64, num_key_value_heads=2, **sizes)
    tensors = {}
    for number, (name, each) in enumerate(transformers.LlamaForCausalLM(config).state_dict().items()):
        shape = tuple(each.shape)
        if "proj" in name:
            codes = fp8_codes(shape)
            tensors[name] = "F8_E4M3", codes
            tensors[f"{name}_scale_inv"] = "F32", block_scales(grid(shape)) / 64
        else:
            tensors[name] = "BF16", even_bf16(shape, number)
    said = {**config.to_dict(), "architectures": ["LlamaForCausalLM"], "quantization_config": FP8}
    save_folder(tmp_path / "old", tensors, said)
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="fp8-blocks-to-bf16")
    whole = transformers.FineGrainedFP8Config(dequantize=True)
    assert torch.equal(logits(tmp_path / "old", 64, quantization_config=whole), logits(tmp_path / "new", 64))


def test_transformers_computes_with_the_new_gpt_oss_what_it_does_with_mxfp4(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = transformers.GptOssConfig(
        vocab_size=64, head_dim=32, num_key_value_heads=1, num_local_experts=2, num_experts_per_tok=1, **sizes
    )
    tensors = {}
    for number, (name, each) in enumerate(transformers.GptOssForCausalLM(config).state_dict().items()):
        shape = tuple(each.shape)
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, inputs, outputs = shape
            blocks = mxfp4_tensors(experts, outputs, inputs // 32, name)
            scales = bits((experts, outputs, inputs // 32), 2, number) + np.uint8(120)
            tensors |= {f"{name}_blocks": blocks[f"{name}_blocks"], f"{name}_scales": ("U8", scales)}
        else:
            tensors[name] = "BF16", as_bf16(as_float(even_bf16(shape, number)) / 4)
    mxfp4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    said = {**config.to_dict(), "architectures": ["GptOssForCausalLM"], "quantization_config": mxfp4}
    save_folder(tmp_path / "old", tensors, said)
    gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe="mxfp4-to-bf16")
    whole = transformers.Mxfp4Config(dequantize=True)
    assert torch.equal(logits(tmp_path / "old", 64, quantization_config=whole), logits(tmp_path / "new", 64))
