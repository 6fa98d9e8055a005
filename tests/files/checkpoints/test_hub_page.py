"""Every command of docs/hub-to-engine.md, one after the other, on small models; and its table of recipes."""

import json
import pathlib
import re
import shlex

import ml_dtypes
import numpy as np
import pytest

from gpulayout.files.checkpoints.recipes import read_recipe, recipes
from tests.support.command_line import run
from tests.support.gguf_files import gguf_model, u32, words
from tests.support.model_files import contents
from tests.support.recipe_cases import awq_layer
from tests.support.recipe_vectors import block_scales, even_bf16, fp8_codes, save_folder

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "hub-to-engine.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(text) for text in re.findall(r"^    gpulayout (relayout .+)", PAGE, flags=re.MULTILINE)]
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64}
LLAMA = {"model_type": "llama", **SIZES}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}


def projections():
    """The weights of two layers: their names, and outputs by inputs."""
    rows = {
        "self_attn.q": 256,
        "self_attn.k": 128,
        "self_attn.v": 128,
        "self_attn.o": 256,
        "mlp.gate": 512,
        "mlp.up": 512,
    }
    shapes = {name: (size, 256) for name, size in rows.items()} | {"mlp.down": (256, 512)}
    return {f"model.layers.{n}.{name}_proj.weight": shape for n in range(2) for name, shape in shapes.items()}


def others():
    shapes = {"model.embed_tokens.weight": (64, 256), "lm_head.weight": (64, 256), "model.norm.weight": (256,)}
    shapes |= {
        f"model.layers.{n}.{name}_layernorm.weight": (256,) for n in range(2) for name in ("input", "post_attention")
    }
    return {name: ("BF16", even_bf16(shape, number)) for number, (name, shape) in enumerate(shapes.items())}


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.o_proj": "attn_output",
    "self_attn": "attn",
    "mlp": "ffn",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "_proj": "",
}


def save_gguf(folder, tensors):
    """A Llama as llama.cpp stores it: other names, and the halves of each head of q and k take turns."""
    stored = {}
    for name, (dtype, array) in tensors.items():
        heads = {"q": 4, "k": 2}.get(name[-len("q_proj.weight")])
        if "_proj" in name and heads:
            array = array.reshape(heads, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        for old, new in GGUF_NAMES.items():
            name = name.replace(old, new)
        stored[re.sub(r"(attn|ffn)\.", r"\1_", name)] = (dtype, array.shape, array.tobytes())
    keys = [words("general.architecture", "llama"), u32("llama.attention.head_count", 4)]
    folder.mkdir()
    (folder / "llama.gguf").write_bytes(gguf_model(stored, [*keys, u32("llama.attention.head_count_kv", 2)]))
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "tokenizer.json").write_text("{}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The models that the page begins with, and all that its commands make of them."""
    folder = tmp_path_factory.mktemp("hub")
    plain = {name: ("BF16", even_bf16(shape, 9 + n)) for n, (name, shape) in enumerate(projections().items())}
    save_folder(folder / "Llama", plain | others(), {**LLAMA, "torch_dtype": "bfloat16"})
    coded = {name: ("F8_E4M3", fp8_codes(shape)) for name, shape in projections().items()}
    coded |= {
        f"{name}_scale_inv": ("F32", block_scales((n // 128, k // 128))) for name, (n, k) in projections().items()
    }
    save_folder(folder / "DeepSeek-FP8", coded | others(), {**LLAMA, "quantization_config": FP8})
    layer, *_ = awq_layer(np.random.default_rng(0))
    layer = {name: ("F16" if array.dtype == np.float16 else "I32", array) for name, array in layer.items()}
    save_folder(folder / "Llama-AWQ", layer, {**LLAMA, "quantization_config": AWQ})
    save_gguf(folder / "Llama-GGUF", plain | others())
    for _, old, new, *options in COMMANDS:
        run("relayout", folder / old, folder / new, *options)
    return folder


def tensors(folder):
    return contents(folder / "model.safetensors")


def test_each_command_makes_a_whole_folder(folder):
    made = {new for _, _, new, *_ in COMMANDS}
    assert len(COMMANDS) == len(made) >= 8
    for name in made:
        assert {"config.json", "tokenizer.json"} < {each.name for each in (folder / name).iterdir()}


def test_fp8_becomes_plain_numbers(folder):
    old, new = tensors(folder / "DeepSeek-FP8"), tensors(folder / "DeepSeek-BF16")
    assert new.keys() == {name for name in old if not name.endswith("_scale_inv")}
    for name, (n, k) in projections().items():
        scales = np.frombuffer(old[f"{name}_scale_inv"][2], np.float32).reshape(n // 128, k // 128)
        codes = np.frombuffer(old[name][2], ml_dtypes.float8_e4m3fn).reshape(n, k).astype(np.float32)
        right = (codes * np.repeat(np.repeat(scales, 128, 0), 128, 1)).astype(ml_dtypes.bfloat16)
        assert new[name] == ("BF16", (n, k), right.tobytes())
    assert json.loads((folder / "DeepSeek-BF16" / "config.json").read_text()) == LLAMA


def test_a_gguf_file_becomes_the_model_of_transformers(folder):
    assert tensors(folder / "Llama-of-GGUF") == tensors(folder / "Llama")
    assert json.loads((folder / "Llama-of-GGUF" / "config.json").read_text()) == LLAMA


def test_ranks_become_the_model_that_they_were_made_of(folder):
    assert tensors(folder / "Llama-again") == tensors(folder / "Llama")
    names = sorted(each.name for each in (folder / "Llama-2-ranks").glob("*.safetensors"))
    assert names == [f"model-rank-{rank}-part-0.safetensors" for rank in (0, 1)]


def test_other_ranks_are_those_that_the_model_would_give(folder, tmp_path):
    run("relayout", folder / "Llama", tmp_path / "new", "--recipe", "llama-tp(ranks=4)")
    for rank in range(4):
        name = f"model-rank-{rank}-part-0.safetensors"
        assert (folder / "Llama-4-ranks" / name).read_bytes() == (tmp_path / "new" / name).read_bytes()


@pytest.mark.parametrize("name, layers", [("Llama-FP8", 2), ("Llama-FP8-but-one", 1)])
def test_what_stays_is_listed(folder, name, layers):
    found = tensors(folder / name)
    config = json.loads((folder / name / "config.json").read_text())["quantization_config"]
    kept = {each.removesuffix(".weight") for each in found if found[each][0] == "BF16" and len(found[each][1]) == 2}
    assert {*config["modules_to_not_convert"]} == kept
    assert sum(each.endswith("_scale_inv") for each in found) == 7 * layers
    assert all((f"{each}_scale_inv" in found) == (found[each][0] == "F8_E4M3") for each in projections())


def test_the_table_of_the_page_has_every_recipe(folder):
    rows = re.findall(
        r"^\| `([\w-]+)(?:\(.*\))?` \|.*\| (.+) \|$", PAGE.partition("**Which one")[0], flags=re.MULTILINE
    )
    known = recipes()
    assert sorted(name for name, _ in rows) == sorted(known)
    for name, engines in rows:
        for engine in {each.engine for each in known[name].readers}:
            short = {"Text Generation Inference": "TGI", "GPTQModel": "AutoGPTQ"}.get(engine, engine)
            assert short in engines or engines == "all"


def test_the_recipe_of_ones_own_on_the_page_is_one(tmp_path):
    (text,) = re.findall(r"^    (# FP8 with one scale.*?)^\| key", PAGE, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "my.toml").write_text(re.sub("^    ", "", text, flags=re.MULTILINE))
    recipe = read_recipe(tmp_path / "my.toml")
    assert recipe.summary == "FP8 with one scale for each row, to BF16." and len(recipe.content["tensor"]) == 2
