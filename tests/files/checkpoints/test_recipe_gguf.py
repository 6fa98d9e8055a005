"""The recipe gguf-to-llama: names as the package gguf has them, and every number of every type of tensor."""

import re

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.header import DTYPES
from gpulayout.files.errors import FileError
from tests.support.command_line import failure, run
from tests.support.gguf_files import gguf_model, q4_0, q8_0, u32, values, words
from tests.support.model_files import contents, model

HEADS, KV_HEADS, HEAD, HIDDEN, MIDDLE, WORDS = 4, 2, 8, 64, 96, 40
KEYS = [
    words("general.architecture", "llama"),
    u32("llama.attention.head_count", HEADS),
    u32("llama.attention.head_count_kv", KV_HEADS),
]
ROWS = {"q": (HEADS * HEAD, HIDDEN), "k": (KV_HEADS * HEAD, HIDDEN), "v": (KV_HEADS * HEAD, HIDDEN)}
SHAPES = {  # of one layer: the name in the GGUF file, that of transformers, and the sizes
    **{f"attn_{each}": (f"self_attn.{each}_proj", shape) for each, shape in ROWS.items()},
    "attn_output": ("self_attn.o_proj", (HIDDEN, HEADS * HEAD)),
    "ffn_gate": ("mlp.gate_proj", (MIDDLE, HIDDEN)),
    "ffn_up": ("mlp.up_proj", (MIDDLE, HIDDEN)),
    "ffn_down": ("mlp.down_proj", (HIDDEN, MIDDLE)),
    "attn_norm": ("input_layernorm", (HIDDEN,)),
    "ffn_norm": ("post_attention_layernorm", (HIDDEN,)),
}
KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0")
PLAIN = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


def turned(array, heads):
    """The rows as a GGUF file has them, one by one: rows j and j + half of a head become its rows 2 j and 2 j + 1."""
    half, turned = array.shape[0] // heads // 2, np.empty_like(array)
    for head in range(heads):
        for row in range(half):
            for which in range(2):
                turned[(head * half + row) * 2 + which] = array[(head * 2 + which) * half + row]
    return turned


def made(kind, shape, seed):
    """What transformers has, what a GGUF file has before q and k are turned: codes and scales, or the array."""
    rng = np.random.default_rng(seed)
    if kind in PLAIN or len(shape) == 1:
        array = rng.standard_normal(shape).astype(PLAIN.get(kind, np.float32))
        return array, (array,)
    scales = rng.standard_normal((*shape[:-1], shape[-1] // 32)).astype(np.float16)
    codes = rng.integers(0, 16, shape) if kind == "Q4_0" else rng.integers(-128, 128, shape)
    return values(codes, scales, 8 if kind == "Q4_0" else 0).astype(ml_dtypes.bfloat16), (codes, scales)


def llama(kind, *, layers=2, tied=False, biased=False, keys=KEYS, more=None):
    """A GGUF file, and the tensors that transformers has."""
    names = {"token_embd": ("model.embed_tokens", (WORDS, HIDDEN)), "output_norm": ("model.norm", (HIDDEN,))}
    names |= {} if tied else {"output": ("lm_head", (WORDS, HIDDEN))}
    for layer in range(layers):
        names |= {f"blk.{layer}.{own}": (f"model.layers.{layer}.{name}", size) for own, (name, size) in SHAPES.items()}
    stored, wanted = {}, {}
    for seed, (own, (name, shape)) in enumerate(names.items()):
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(own.rpartition(".")[2])
        parts = [("weight", KINDS[seed % len(KINDS)] if kind == "mixed" else kind, shape)]
        if biased and "attn_" in own and len(shape) == 2:
            parts.append(("bias", "F32", shape[:1]))
        for part, type_, sizes in parts:
            array, raw = made(type_, sizes, seed)
            wanted[f"{name}.{part}"] = array
            raw = [each if heads is None else turned(each, heads) for each in raw]
            real = type_ if len(raw) == 2 or type_ in PLAIN else "F32"
            data = {"Q4_0": q4_0, "Q8_0": q8_0}[real](*raw) if len(raw) == 2 else raw[0].tobytes()
            stored[f"{own}.{part}"] = (real, sizes, data)
    return gguf_model(stored | (more or {}), keys), wanted


def relayout(folder, file, recipe="gguf-to-llama", **options):
    (folder / "in.gguf").write_bytes(file)
    gl.relayout_file(folder / "in.gguf", folder / "out.safetensors", recipe=recipe, overwrite=True, **options)
    found = contents(folder / "out.safetensors").items()
    return {name: np.frombuffer(data, DTYPES[dtype].dtype).reshape(sizes) for name, (dtype, sizes, data) in found}


def check(found, wanted):
    assert {*found} == {*wanted}
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize("tied, biased", [(False, False), (True, True)])
def test_every_number_is_under_the_name_of_transformers(tmp_path, kind, tied, biased):
    file, wanted = llama(kind, tied=tied, biased=biased, more={"rope_freqs.weight": ("F32", (4,), bytes(16))})
    check(relayout(tmp_path, file), wanted)


def test_names_are_those_of_the_package_gguf():
    gguf = pytest.importorskip("gguf")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 3)
    _, wanted = llama("F32", layers=3, biased=True)
    for own, name in own_names(layers=3).items():
        assert names.get_name(name, try_suffixes=(".weight", ".bias")) == own
    assert {*own_names(layers=3).values()} == {*wanted}


def own_names(layers):
    """The name in the file of every tensor of transformers, by the recipe itself."""
    from gpulayout.files.checkpoints.recipes import recipes

    renamings = recipes()["gguf-to-llama"].content["rename"]
    file, _ = llama("F32", layers=layers, biased=True)
    stored = re.findall(rb"(?:token_embd|output|output_norm|blk\.\d+\.\w+)\.(?:weight|bias)", file)
    names = {}
    for own in (each.decode() for each in stored):
        name = own
        for match, text in renamings:
            name = re.sub(match, text, name)
        names[own] = name
    return names


def test_the_numbers_of_heads_come_from_the_file_the_caller_or_config_json(tmp_path):
    keys = [words("general.architecture", "llama")]
    file, wanted = llama("Q4_0", layers=1, keys=keys)
    with pytest.raises(gl.LayoutError, match=r"needs heads, which is gguf\.llama\.attention\.head_count or num_att"):
        relayout(tmp_path, file)
    check(relayout(tmp_path, file, f"gguf-to-llama(heads={HEADS},kv_heads={KV_HEADS})"), wanted)
    (tmp_path / "config.json").write_text(f'{{"num_attention_heads": {HEADS}, "num_key_value_heads": {KV_HEADS}}}')
    check(relayout(tmp_path, file), wanted)
    same, wanted = llama("F16", layers=1, keys=[*keys, u32("llama.attention.head_count", HEADS)])
    with pytest.raises(AssertionError):  # k has 2 heads, which only config.json says now
        check(relayout(tmp_path, same, f"gguf-to-llama(kv_heads={HEADS})"), wanted)
    check(relayout(tmp_path, same), wanted)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"keys": [words("general.architecture", "qwen2")]}, 'the GGUF file: gguf.general.architecture is "qwen2"'),
        ({"keys": [u32("llama.attention.head_count", 4)]}, "the GGUF file has no gguf.general.architecture"),
        ({"keys": [*KEYS[:1], u32("llama.attention.head_count", 3)]}, "axis 0 of size 32 is not 3 x d x 2"),
        ({"more": {"blk.0.ffn_gate_exps.weight": ("F32", (1, 1, 1), b"1234")}}, "'blk.0.ffn_gate_exps.weight'"),
        (
            {"more": {"output.weight": ("Q6_K", (256,), bytes(210))}, "tied": True},
            r"'output.weight' is Q6_K\[256\]: this recipe reads .* hold Q6_K too: take the F16, BF16 or Q8_0 file",
        ),
        (
            {"more": {"blk.1.attn_v.weight": ("Q4_1", (32,), bytes(20))}},
            r"'blk.1.attn_v.weight_step' is F16\[1\]: a part of Q4_1, which this recipe does not read: take the F16",
        ),
        (
            {"more": {"blk.1.attn_v.weight": ("MXFP4", (32,), bytes(17))}},
            r"'blk.1.attn_v.weight_scale' is F8_E8M0\[1\]: this recipe reads F32",
        ),
    ],
)
def test_other_models_are_refused(tmp_path, change, problem):
    file, _ = llama("F32", layers=1, **change)
    with pytest.raises(gl.LayoutError, match=problem):
        relayout(tmp_path, file)
    assert not (tmp_path / "out.safetensors").exists()


HIDDEN_SIZE = f'"hidden_size": {HIDDEN}'


@pytest.mark.parametrize("kind", ["BF16", "Q8_0"])
def test_a_config_that_contradicts_the_head_is_refused(tmp_path, kind):
    def says(text):
        (tmp_path / "config.json").write_text("{" + text + "}")

    tied, wanted = llama(kind, layers=1, tied=True)
    for text in ('"tie_word_embeddings": false', HIDDEN_SIZE):
        says(text)
        with pytest.raises(
            gl.LayoutError, match=r"no tensor has the name output.weight: .* is not true in config.json"
        ):
            relayout(tmp_path, tied)
    for text in ("", '"tie_word_embeddings": true'):
        says(text)
        check(relayout(tmp_path, tied), wanted)
    other, wanted = llama(kind, layers=1)
    for text in ("", HIDDEN_SIZE, '"tie_word_embeddings": false'):
        says(text)
        check(relayout(tmp_path, other), wanted)
    says('"tie_word_embeddings": true')
    with pytest.raises(gl.LayoutError, match=r"'output.weight.* 'token_embd.weight.* is not the same: tie_word_embed"):
        relayout(tmp_path, other)


def test_a_rule_of_the_callers_is_for_what_the_recipe_does_not_read(tmp_path):
    file, wanted = llama("F16", layers=1, tied=True, more={"output.weight": ("Q6_K", (256,), bytes(210))})
    check(relayout(tmp_path, file, tensors={r"output\.weight": "drop"}), wanted)


def test_a_gguf_file_is_not_for_the_other_recipes(tmp_path):
    file, _ = llama("F32", layers=1)
    with pytest.raises(
        gl.LayoutError, match="the GGUF file has no quantization_config.quant_method, and the recipe gptq"
    ):
        relayout(tmp_path, file, "gptq-to-marlin")


def test_a_folder_becomes_a_folder(tmp_path):
    file, wanted = llama("Q8_0", layers=1)
    (tmp_path / "in").mkdir()
    for name, data in (("x.gguf", file), ("config.json", b"{}"), ("tokenizer.json", b"[]")):
        (tmp_path / "in" / name).write_bytes(data)
    gl.relayout_file(tmp_path / "in", tmp_path / "out", recipe="gguf-to-llama")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert {*contents(tmp_path / "out/model.safetensors")} == {*wanted}
    (tmp_path / "in/y.gguf").write_bytes(file)
    with pytest.raises(FileError, match="this folder has 2 models: write one of them, such as .*x.gguf, .*y.gguf"):
        gl.relayout_file(tmp_path / "in", tmp_path / "out2", recipe="gguf-to-llama")
    (tmp_path / "in/y.gguf").rename(tmp_path / "in/y-00002-of-00002.gguf")
    gl.relayout_file(tmp_path / "in", tmp_path / "out2", recipe="gguf-to-llama")


def test_a_folder_whose_model_is_no_gguf_file_says_so(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(model({"a": ("F32", (2, 3))}, None))
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_attention_heads": 4}')
    said = f"{tmp_path / 'model.safetensors'}: this is not a GGUF file, and the recipe gguf-to-llama needs one"
    paths = tmp_path, tmp_path / "new", "--recipe", "gguf-to-llama"
    assert failure("relayout", *paths) == f"{said}, and no file beside it ends in .gguf"
    for name in ("x-00002-of-00002.gguf", "x-00001-of-00002.gguf"):
        (tmp_path / name).write_bytes(b"")
    assert failure("relayout", *paths) == f"{said}: write the file, {tmp_path / 'x-00001-of-00002.gguf'}"


def test_the_command_line(tmp_path):
    file, wanted = llama("Q8_0", layers=1)
    (tmp_path / "in.gguf").write_bytes(file)
    shown = run("relayout", str(tmp_path / "in.gguf"), str(tmp_path / "a.safetensors"), "--recipe", "gguf-to-llama")
    assert {*contents(tmp_path / "a.safetensors")} == {*wanted} and "read by transformers" in shown.output
