"""Files for each rank of tensor parallelism: those that vLLM saves, back again, and what is refused.

`tests/data/recipes/vllm_sharded_state.json` has hashes of every tensor that vLLM saved of the same models.
"""

import hashlib
import json
import shutil

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.errors import FileError
from gpulayout.layout.errors import LayoutError
from tests.support.command_line import run
from tests.support.model_files import contents, entry, raw
from tests.support.recipe_vectors import FILES, as_bf16, as_float, even_bf16, save_folder, small_bf16

MODELS = {each["model"]: each for each in FILES["vllm_sharded_state"]["models"]}
SCALES = ("k", "v", "q", "prob")


def rank_file(folder, rank, part=0):
    return folder / f"model-rank-{rank}-part-{part}.safetensors"


def source_tensors(model):
    shapes = sorted(MODELS[model]["source"].items())
    return {name: ("BF16", small_bf16(shape, number)) for number, (name, shape) in enumerate(shapes)}


@pytest.fixture
def model_folder(tmp_path):
    """Makes the folder of a model; with fields of its config changed."""

    def make(model, **config):
        save_folder(tmp_path / "old", source_tensors(model), {**MODELS[model]["config"], **config})
        return tmp_path / "old"

    return make


def hashes(path):
    return {
        name: [dtype, list(shape), hashlib.sha256(data).hexdigest()[:32]]
        for name, (dtype, shape, data) in contents(path).items()
    }


@pytest.mark.parametrize("model", MODELS)
def test_each_rank_gets_the_tensors_that_vllm_saves(model, model_folder, tmp_path):
    folder = model_folder(model)
    for ranks, files in MODELS[model]["files"].items():
        gl.relayout_file(folder, tmp_path / ranks, recipe=f"llama-tp(ranks={ranks})")
        assert [hashes(rank_file(tmp_path / ranks, rank)) for rank in range(len(files))] == files
        assert (tmp_path / ranks / "config.json").read_bytes() == (folder / "config.json").read_bytes()
        names = {"config.json", "tokenizer.json", *(rank_file(folder, rank).name for rank in range(int(ranks)))}
        assert {each.name for each in (tmp_path / ranks).iterdir()} == names


def test_without_scales_the_files_are_those_of_other_engines(model_folder, tmp_path):
    gl.relayout_file(model_folder("llama"), tmp_path / "new", recipe="llama-tp(ranks=2, scales=0)")
    for rank, right in enumerate(MODELS["llama"]["files"]["2"]):
        want = {name: each for name, each in right.items() if not name.endswith("_scale")}
        assert hashes(rank_file(tmp_path / "new", rank)) == want and len(want) == len(right) - 2 * len(SCALES)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "llama-tied"])
def test_the_way_back_gives_every_byte(model, ranks, model_folder, tmp_path):
    folder = model_folder(model)
    gl.relayout_file(folder, tmp_path / "ranks", recipe=f"llama-tp(ranks={ranks})")
    gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")
    assert contents(tmp_path / "back" / "model.safetensors") == contents(folder / "model.safetensors")
    assert sorted(each.name for each in (tmp_path / "back").iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip


def test_a_tied_head_becomes_the_embedding_again(model_folder, tmp_path):
    folder = model_folder("llama-tied")
    gl.relayout_file(folder, tmp_path / "ranks", recipe="llama-tp(ranks=1)")
    assert "model.embed_tokens.weight" not in contents(rank_file(tmp_path / "ranks", 0))
    gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")
    assert contents(tmp_path / "back" / "model.safetensors") == contents(folder / "model.safetensors")


def in_two_parts(folder, rank):
    """Each file of a rank in two, as vLLM saves large models."""
    tensors = contents(rank_file(folder, rank))
    for part, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        header, data = {}, b""
        for name in names:
            dtype, shape, own = tensors[name]
            header[name] = entry(dtype, list(shape), len(data), len(data) + len(own))
            data += own
        rank_file(folder, rank, part).write_bytes(raw(header, data))


def test_ranks_in_several_parts_are_read(model_folder, tmp_path):
    folder = model_folder("qwen2")
    gl.relayout_file(folder, tmp_path / "ranks", recipe="llama-tp(ranks=2)")
    in_two_parts(tmp_path / "ranks", 0)
    in_two_parts(tmp_path / "ranks", 1)
    gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")
    assert contents(tmp_path / "back" / "model.safetensors") == contents(folder / "model.safetensors")
    shutil.copy(rank_file(tmp_path / "ranks", 1, 0), rank_file(tmp_path / "ranks", 1, 2))
    with pytest.raises(FileError, match="part-2.safetensors: tensor '.*' is in model-rank-1-part-0.safetensors too"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "more", recipe="llama-from-tp")


@pytest.mark.parametrize("gone, problem", [((0, 0), "rank 0 is missing"), ((1, 0), "rank 1 is missing")])
def test_a_missing_rank_is_refused(gone, problem, model_folder, tmp_path):
    gl.relayout_file(model_folder("qwen2"), tmp_path / "ranks", recipe="llama-tp(ranks=4)")
    rank_file(tmp_path / "ranks", *gone).unlink()
    with pytest.raises(FileError, match=problem):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")


@pytest.mark.parametrize("vocab_size, gone, padded, ranks", [(100, 1, 128, 1), (64, None, 64, 2), (200, None, 256, 2)])
def test_a_missing_last_rank_and_another_vocabulary_are_refused(
    vocab_size, gone, padded, ranks, model_folder, tmp_path
):
    gl.relayout_file(model_folder("qwen2"), tmp_path / "ranks", recipe="llama-tp(ranks=2)")
    if gone is not None:
        rank_file(tmp_path / "ranks", gone).unlink()
    (tmp_path / "ranks" / "config.json").write_text(json.dumps({**MODELS["qwen2"]["config"], "vocab_size": vocab_size}))
    problem = (
        rf"model-rank-0.*'lm_head.weight' is BF16\[64,32\], and .* size {padded // ranks}: vocab_size {vocab_size} is "
        rf"padded to {padded}, and cut for {ranks} ranks, whose files were read: .* is a rank missing"
    )
    with pytest.raises(LayoutError, match=problem):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")


def test_other_heads_than_the_ranks_have_are_refused_on_the_way_back(model_folder, tmp_path):
    gl.relayout_file(model_folder("qwen2"), tmp_path / "ranks", recipe="llama-tp(ranks=2)")
    with pytest.raises(
        LayoutError, match=r"qkv_proj.* is BF16\[32\], .* size 48: 4 heads .* two times 4 .* of 8 \(head_d"
    ):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp(kv_heads=4)")


def with_head(folder, model, head, **config):
    """The folder of a model once more, with another lm_head, or without."""
    tensors = source_tensors(model) | {"lm_head.weight": ("BF16", head)}
    save_folder(
        folder,
        {name: each for name, each in tensors.items() if each[1] is not None},
        {**MODELS[model]["config"], **config},
    )
    return folder


def test_a_head_that_is_missing_and_not_tied_is_refused(tmp_path):
    for number, tied in enumerate((False, None)):
        folder = with_head(tmp_path / str(number), "llama", None, tie_word_embeddings=tied)
        with pytest.raises(
            LayoutError, match=r"no tensor has the name lm_head.weight: tie_word_embeddings is not true"
        ):
            gl.relayout_file(folder, tmp_path / "new", recipe="llama-tp(ranks=2)")
    gl.relayout_file(folder, tmp_path / "new", recipe="llama-tp(ranks=2,tied=1)")


def test_a_tied_head_that_is_there_must_be_the_embedding(tmp_path):
    embedding = source_tensors("llama-tied")["model.embed_tokens.weight"][1]
    for name, head in (("without", None), ("same", embedding)):
        folder = with_head(tmp_path / name, "llama-tied", head)
        gl.relayout_file(folder, tmp_path / f"{name}-2", recipe="llama-tp(ranks=2)")
    for rank in range(2):
        assert contents(rank_file(tmp_path / "same-2", rank)) == contents(rank_file(tmp_path / "without-2", rank))
    other = embedding.copy()
    other[-1, -1] ^= 1
    folder = with_head(tmp_path / "other", "llama-tied", other)
    with pytest.raises(LayoutError, match=r"'lm_head.weight' is .*'model.embed_tokens.weight', .* is not the same"):
        gl.relayout_file(folder, tmp_path / "new", recipe="llama-tp(ranks=2)")
    gl.relayout_file(folder, tmp_path / "dropped", recipe="llama-tp(ranks=2)", tensors={r"lm_head\.weight": "drop"})


def test_ranks_whose_head_contradicts_the_config_are_refused(model_folder, tmp_path):
    gl.relayout_file(model_folder("llama-tied"), tmp_path / "tied", recipe="llama-tp(ranks=1)")
    shutil.rmtree(tmp_path / "old")
    gl.relayout_file(model_folder("qwen2"), tmp_path / "untied", recipe="llama-tp(ranks=2)")
    with pytest.raises(
        LayoutError, match=r"no tensor has the name model.embed_tokens.weight: tie_word_embeddings is n"
    ):
        gl.relayout_file(tmp_path / "tied", tmp_path / "back", recipe="llama-from-tp(tied=0)")
    with pytest.raises(LayoutError, match=r"'model.embed_tokens.weight' is .*: tie_word_embeddings is true"):
        gl.relayout_file(tmp_path / "untied", tmp_path / "back", recipe="llama-from-tp(tied=1)")


def test_ranks_without_a_head_are_refused(model_folder, tmp_path):
    gl.relayout_file(model_folder("llama"), tmp_path / "ranks", recipe="llama-tp(ranks=1)")
    file = rank_file(tmp_path / "ranks", 0)
    gl.relayout_file(file, tmp_path / "x.safetensors", tensors={r"lm_head\.weight": "drop"})
    (tmp_path / "x.safetensors").replace(file)
    with pytest.raises(LayoutError, match=r"no tensor has the name lm_head.weight: each rank has it"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")


def test_the_list_of_recipes_says_for_people_what_is_refused():
    shown = " ".join(run("recipes", "llama-tp(ranks=2)").output.split())
    assert "refused HEADS heads (num_attention_heads) do not divide among 2 ranks" in shown
    assert "refused KV_HEADS heads of k and v" in shown and "//" not in shown.partition("refused")[2].partition("=")[0]
    assert "rows=heads * head_dim; why=HEADS heads" in shown


def test_a_missing_part_and_a_folder_without_ranks_are_refused(model_folder, tmp_path):
    folder = model_folder("qwen2")
    gl.relayout_file(folder, tmp_path / "ranks", recipe="llama-tp(ranks=1)")
    rank_file(tmp_path / "ranks", 0).rename(rank_file(tmp_path / "ranks", 0, 1))
    with pytest.raises(FileError, match="rank 0, part 0 is missing"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")
    with pytest.raises(FileError, match="no files of ranks, whose names are model-rank-"):
        gl.relayout_file(folder, tmp_path / "back", recipe="llama-from-tp")


@pytest.mark.parametrize(
    "model, ranks, config, problem",
    [
        ("llama", 3, {}, r"4 heads \(num_attention_heads\) do not divide among 3 ranks"),
        ("llama", 8, {}, r"4 heads \(num_attention_heads\) do not divide among 8 ranks"),
        ("llama", 0, {}, "ranks is 0, not a number from 1"),
        ("llama", 2, {"model_type": "mixtral"}, 'model_type is "mixtral"'),
        ("llama", 2, {"quantization_config": {"bits": 4}}, "a model without it"),
        ("llama", 2, {"vocab_size": 90}, r"BF16\[100,32\], and its first axis must have size 90: vocab_size is 90"),
        ("llama", 2, {"vocab_size": 128}, "axis must have size 128: vocab_size is 128"),
        ("llama", 2, {"head_dim": 7}, r"q_proj.weight' is BF16\[32,32\], and .* size 28: 4 heads .* of 7 \(head_dim"),
        (
            "llama",
            2,
            {"num_attention_heads": 2, "head_dim": 8},
            r"q_proj.weight' .* size 16: 2 heads \(num_attention_h",
        ),
        ("llama", 2, {"num_key_value_heads": 4}, r"k_proj.weight' is BF16\[16,32\], .* size 32: 4 heads of k and v"),
        ("llama", 2, {"num_key_value_heads": 1}, r"k_proj.weight' is BF16\[16,32\], .* size 8: 1 heads of k and v"),
        ("qwen3", 2, {"head_dim": None}, r"_proj.weight' .* size \d+: 4 heads .*hidden_size // num_attention_heads"),
        (
            "qwen3",
            1,
            {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8},
            r"_norm.weight' is BF16\[16\], .* size 8: head_dim, or hidden_size // num_attention_heads, is 8",
        ),
        ("llama", 2, {"num_attention_heads": None}, "num_attention_heads"),
    ],
)
def test_models_that_cannot_be_cut_are_refused(model, ranks, config, problem, model_folder, tmp_path):
    folder = model_folder(model, **config)
    with pytest.raises(LayoutError, match=problem):
        gl.relayout_file(folder, tmp_path / "new", recipe=f"llama-tp(ranks={ranks})")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kv_heads, ranks", [(4, 6), (3, 2), (2, 3)])
def test_ranks_that_do_not_divide_the_heads_of_k_and_v_are_refused(kv_heads, ranks, model_folder, tmp_path):
    """Nor the other way round, as vLLM asserts."""
    folder = model_folder("llama", num_attention_heads=6, num_key_value_heads=kv_heads)
    with pytest.raises(LayoutError, match=f"{kv_heads} heads of k and v .* neither divide among {ranks} ranks"):
        gl.relayout_file(folder, tmp_path / "new", recipe=f"llama-tp(ranks={ranks})")


def test_a_tensor_that_the_recipe_does_not_know_is_refused(model_folder, tmp_path):
    folder = model_folder("llama")
    tensors = source_tensors("llama") | {"model.layers.0.mlp.router.weight": ("BF16", small_bf16((2, 2)))}
    shutil.rmtree(folder)
    save_folder(folder, tensors, MODELS["llama"]["config"])
    with pytest.raises(LayoutError, match="router.weight"):
        gl.relayout_file(folder, tmp_path / "new", recipe="llama-tp(ranks=2)")


def test_shared_heads_and_scales_that_are_not_1_have_no_way_back(model_folder, tmp_path):
    folder = model_folder("llama")
    gl.relayout_file(folder, tmp_path / "four", recipe="llama-tp(ranks=4)")
    with pytest.raises(LayoutError, match="these are 4 ranks, which share 2 heads of k and v"):
        gl.relayout_file(tmp_path / "four", tmp_path / "back", recipe="llama-from-tp")
    gl.relayout_file(folder, tmp_path / "one", recipe="llama-tp(ranks=1)")
    file = rank_file(tmp_path / "one", 0)
    half, one = (np.float32(each).tobytes() for each in (0.5, 1))
    data = file.read_bytes()
    file.write_bytes(data.replace(one, half, 1))
    with pytest.raises(LayoutError, match=r"_scale.*0\.5"):
        gl.relayout_file(tmp_path / "one", tmp_path / "back", recipe="llama-from-tp")


def test_transformers_computes_the_same_after_the_way_there_and_back(tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    shapes = sorted(MODELS["llama"]["source"].items())
    tensors = {
        name: ("BF16", as_bf16(as_float(even_bf16(shape, number)) / 4)) for number, (name, shape) in enumerate(shapes)
    }
    save_folder(tmp_path / "old", tensors, MODELS["llama"]["config"])
    gl.relayout_file(tmp_path / "old", tmp_path / "ranks", recipe="llama-tp(ranks=2)")
    gl.relayout_file(tmp_path / "ranks", tmp_path / "back", recipe="llama-from-tp")

    def logits(folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="bfloat16").eval()
        with torch.no_grad():
            return model(torch.arange(1, 100, 7)[None]).logits

    assert torch.equal(logits(tmp_path / "old"), logits(tmp_path / "back"))
    assert json.loads((tmp_path / "back" / "config.json").read_text()) == MODELS["llama"]["config"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_other_ranks_are_those_that_vllm_saves(model, ranks, model_folder, tmp_path):
    """Also where the new ranks share heads of k and v; the way back from there is refused."""
    kv_heads = MODELS[model]["config"].get("num_key_value_heads", ranks)
    gl.relayout_file(model_folder(model), tmp_path / "old-ranks", recipe=f"llama-tp(ranks={ranks})")
    for new, files in MODELS[model]["files"].items():
        made = tmp_path / f"{new}-of-{ranks}"
        if ranks > kv_heads:
            with pytest.raises(LayoutError, match=f"these are {ranks} ranks, which share {kv_heads} heads of k and v"):
                gl.relayout_file(tmp_path / "old-ranks", made, recipe=f"llama-tp-to-tp(ranks={new})")
            assert not made.exists()
            continue
        gl.relayout_file(tmp_path / "old-ranks", made, recipe=f"llama-tp-to-tp(ranks={new})")
        assert [hashes(rank_file(made, rank)) for rank in range(len(files))] == files
        assert len([*made.iterdir()]) == len(files) + 2  # the config and the tokenizer


def test_a_missing_rank_and_norms_that_differ_are_refused_on_the_way_to_other_ranks(model_folder, tmp_path):
    gl.relayout_file(model_folder("qwen2"), tmp_path / "ranks", recipe="llama-tp(ranks=2)")
    data = rank_file(tmp_path / "ranks", 1).read_bytes()
    rank_file(tmp_path / "ranks", 1).unlink()
    with pytest.raises(LayoutError, match="are cut for 1 ranks, whose files were read: is a rank missing"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "new", recipe="llama-tp-to-tp(ranks=4, vocabulary=64)")
    with pytest.raises(LayoutError, match="cut for 1 ranks, whose files were read: .* is a rank missing"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "new", recipe="llama-tp-to-tp(ranks=4)")
    norm = contents(rank_file(tmp_path / "ranks", 0))["model.norm.weight"][2]
    at = data.rindex(norm)
    rank_file(tmp_path / "ranks", 1).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(LayoutError, match="model.norm.weight' is .* and not the same there"):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "new", recipe="llama-tp-to-tp(ranks=4)")
    assert not (tmp_path / "new").exists()
