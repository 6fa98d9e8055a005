"""Small checkpoints that the owners of GPTQ, AWQ and Marlin made with their own code: every byte of what follows.

`tests/data/recipes/marlin/owners.json` says whose function made which file.
"""

import hashlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.header import DTYPES
from tests.support.model_files import NEEDS_SAFETENSORS, judged
from tests.support.weight_formats import AWQ, dequantised, groups, marlin_scales, marlin_words, marlin_zeros

pytestmark = NEEDS_SAFETENSORS

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "data" / "recipes" / "marlin"
OWNERS = json.loads((FOLDER / "owners.json").read_text(encoding="utf-8"))
ONE_ROW = "1 n -> n; marlin:channel_scales; as=F16[1,n]"  # where one group is all of K
GPTQ = {
    r"(.*)\.qweight": r"from=gptq:qweight(dtype=u4); marlin:weights; name=\1.B",
    r".*\.(qzeros|g_idx)": "drop",
}
AWQ_RULES = {
    r".*\.qweight": "from=awq:qweight; marlin:weights",
    r".*\.qzeros": "from=awq:qzeros; marlin:zero_points",
}
GPTQ_FOLDERS = ["gptq", "gptq-channel", "gptq-v2"]
AWQ_FOLDERS = ["awq", "awq-64"]


def arrays(path):
    """The tensors of a file, as the format's own library finds them."""
    return {
        name: np.frombuffer(data, DTYPES[dtype].dtype).reshape(shape)
        for name, (dtype, shape, data) in judged(path.read_bytes()).items()
    }


def layer_of(path):
    """The tensors of the one layer of a file, by the last part of their names."""
    return {name.rsplit(".", 1)[1]: array for name, array in arrays(path).items() if "_proj" in name}


def check(path, right):
    """The file has the same tensors as the owner's, byte by byte."""
    assert judged(path.read_bytes()) == judged(right.read_bytes())


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def nibbles_of(packed, order=range(8)):
    """Codes of int32 words along the last axis; `order` says which neighbour stands in each place."""
    parts = packed.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return parts[..., np.argsort(list(order))].reshape(*packed.shape[:-1], -1).astype(np.uint8)


def gptq_codes(tensors, layer):
    """Codes (K, N), scales, and zero points of a layer of GPTQ, version 2."""
    q = nibbles_of(tensors[f"{layer}.qweight"].T).T
    return q, tensors[f"{layer}.scales"], nibbles_of(tensors[f"{layer}.qzeros"])


def awq_codes(tensors, layer):
    q = nibbles_of(tensors[f"{layer}.qweight"], AWQ)
    return q, tensors[f"{layer}.scales"], nibbles_of(tensors[f"{layer}.qzeros"], AWQ)


def channel_scales(s):
    """Marlin's order of one row: in 32 columns, the pairs that one thread takes of each block of 8."""
    return s.reshape(-1, 4, 4, 2).swapaxes(1, 2).reshape(s.shape)


def layers(tensors):
    return sorted({name.rsplit(".", 1)[0] for name in tensors if name.endswith(".scales")})


def test_each_file_is_as_its_owner_made_it():
    assert {each["file"] for each in OWNERS["files"]} == {
        path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.safetensors")
    }
    for each in OWNERS["files"]:
        assert hashlib.sha256((FOLDER / each["file"]).read_bytes()).hexdigest() == each["sha256"], each["file"]


@pytest.mark.parametrize("folder", GPTQ_FOLDERS)
def test_the_model_in_numpy_is_the_owners_marlin(folder):
    tensors, right = (arrays(FOLDER / folder / f"{each}.safetensors") for each in ("model", "marlin"))
    for layer in layers(tensors):
        q, s, z = gptq_codes(tensors, layer)
        assert (z == (8 if folder == "gptq-v2" else 7)).all()
        assert np.array_equal(marlin_words(q), right[f"{layer}.B"])
        assert np.array_equal(channel_scales(s) if len(s) == 1 else marlin_scales(s), right[f"{layer}.s"])


@pytest.mark.parametrize("folder", AWQ_FOLDERS)
def test_the_model_in_numpy_is_vllms_marlin_of_awq(folder):
    tensors, right = (arrays(FOLDER / folder / f"{each}.safetensors") for each in ("model", "marlin"))
    for layer in layers(tensors):
        q, s, z = awq_codes(tensors, layer)
        assert np.array_equal(marlin_words(q), right[f"{layer}.qweight"])
        assert np.array_equal(channel_scales(s) if len(s) == 1 else marlin_scales(s), right[f"{layer}.scales"])
        assert np.array_equal(marlin_zeros(z), right[f"{layer}.qzeros"])  # the same order with one row


def scale_rules(tensors, name):
    """A rule for the scales of each layer, which are in another order where there is one row of them."""
    return {
        rf"({re.escape(layer)})\.scales": (ONE_ROW if len(tensors[f"{layer}.scales"]) == 1 else "marlin:scales") + name
        for layer in layers(tensors)
    }


@pytest.mark.parametrize("memory", [None, "64K"])
@pytest.mark.parametrize("folder", GPTQ_FOLDERS)
def test_rules_lay_gptq_out_as_the_owners_do(folder, memory, tmp_path):
    old, new = FOLDER / folder / "model.safetensors", tmp_path / "new.safetensors"
    gl.relayout_file(old, new, tensors=GPTQ | scale_rules(arrays(old), r"; name=\1.s"), max_bytes=memory)
    check(new, FOLDER / folder / "marlin.safetensors")


@pytest.mark.parametrize("folder", AWQ_FOLDERS)
def test_rules_lay_awq_out_as_vllm_does(folder, tmp_path):
    old, new = FOLDER / folder / "model.safetensors", tmp_path / "new.safetensors"
    gl.relayout_file(old, new, tensors=AWQ_RULES | scale_rules(arrays(old), ""))
    check(new, FOLDER / folder / "marlin.safetensors")


COMPRESSED = {
    "vLLM": {
        r"(.*)\.weight_packed": r"from=u4; n k -> k n; marlin:weights; name=\1.weights",
        r"(.*)\.weight_scale": r"n g -> g n; marlin:scales; name=\1.scales",
        r".*\.weight_shape": "drop",
    },
    "compressed-tensors": {
        r"(.*)\.weight_packed": r"from=u4; scale=\1.weight_scale; block=128; zero_point=8; dtype=bf16; name=\1.weight",
        r".*\.weight_(scale|shape)": "drop",
    },
}


@pytest.mark.parametrize("right", OWNERS["compressed"], ids=lambda right: right["owner"])
def test_rules_make_of_compressed_tensors_what_the_owners_make(right, tmp_path):
    gl.relayout_file(FOLDER / right["file"], tmp_path / "new.safetensors", tensors=COMPRESSED[right["owner"]])
    made = layer_of(tmp_path / "new.safetensors")
    assert {name: {"shape": list(array.shape), "sha256": sha256(array)} for name, array in made.items()} == right[
        "made"
    ]


@pytest.mark.parametrize("case", OWNERS["plain"], ids=lambda case: f"{case['folder']} {case['layer']}")
def test_rules_give_the_numbers_that_the_owners_compute(case, tmp_path):
    folder, layer = case["folder"], re.escape(case["layer"])
    of, shift = ("awq:{}", "") if folder.startswith("awq") else ("gptq:{}(dtype=u4)", "; dtype=u8; shift=1")
    rules = {
        rf"({layer})\.qweight": f"from={of.format('qweight')}; "
        r"scale=\1.scales; zero_point=\1.qzeros; k n -> n k; dtype=f16; name=\1.weight",
        rf"{layer}\.qzeros": f"from={of.format('qzeros')}{'' if folder == 'gptq-v2' else shift}; drop",
    }
    old = FOLDER / folder / "model.safetensors"
    gl.relayout_file(old, tmp_path / "new.safetensors", tensors=rules | {rf"{layer}\.(scales|g_idx)": "drop"})
    plain = arrays(tmp_path / "new.safetensors")[f"{case['layer']}.weight"]
    assert (list(plain.shape), plain.dtype, sha256(plain)) == (case["shape"], np.float16, case["sha256"])
    tensors = arrays(old)
    q, s, z = (awq_codes if folder.startswith("awq") else gptq_codes)(tensors, case["layer"])
    z = groups(z, len(q) // len(s)).astype(np.float32) + (folder in ("gptq", "gptq-channel"))
    assert np.array_equal(dequantised(q, groups(s, len(q) // len(s)), z, np.float16).T, plain)


ROUND = r"scale=absmax/7.5; block=1,128; zero_point=8; dtype=u4"
MARLIN_ROUND = {
    r"(.*_proj)\.weight": rf"{ROUND}; n k -> k n; marlin:weights; name=\1.B; scale_name=\1.s; scale_dtype=F16",
    r".*\.s": "n g -> g n; marlin:scales",
    r".*norm.*": "drop",
}
STORED_ROUND = {
    r"(.*_proj)\.weight": rf"{ROUND}; n k -> n k; {{1,0:E(4)}}; as=I32[n,k/8]; name=\1.weight_packed; "
    r"scale_name=\1.weight_scale; scale_dtype=BF16",
    r".*norm.*": "drop",
}


def marlin_codes(words):
    """Codes (K, N) of Marlin's words: where each one goes, the model says, 4 bits of its number at a time."""
    shape = words.shape[0] * 16, words.shape[1] // 2
    numbers = np.arange(shape[0] * shape[1]).reshape(shape)
    found = np.zeros(numbers.shape, np.int64)
    for bit in range(0, 16, 4):
        found += nibbles_of(marlin_words((numbers >> bit & 15).astype(np.uint8))).reshape(shape).astype(np.int64) << bit
    codes = np.empty(shape, np.uint8)
    codes.flat[found.ravel()] = nibbles_of(words).ravel()
    return codes


def is_rounded(weight, scales, codes, half_step):
    """Codes (N, K) are the nearest, half to even; next to the middle of two, within half a step, either of them."""
    exact = weight.astype(np.float64) / np.repeat(scales.astype(np.float64), 128, axis=1)
    nearest = np.clip(np.rint(exact) + 8, 0, 15)
    other = np.clip(2 * np.floor(exact) + 1 - np.rint(exact) + 8, 0, 15)
    middle = np.abs(exact - np.floor(exact) - 0.5) <= half_step
    return np.where(middle, (codes == nearest) | (codes == other), codes == nearest).all()


@pytest.mark.parametrize("owner", ["gptqmodel", "marlin"])
def test_rounding_to_marlin_is_that_of_the_owners(owner, tmp_path):
    """Marlin rounds the quotient to f16 first; GPTQModel divides by a scale in f32, halved if all is positive."""
    gl.relayout_file(FOLDER / "rtn" / "model.safetensors", tmp_path / "new.safetensors", tensors=MARLIN_ROUND)
    weight = layer_of(FOLDER / "rtn" / "model.safetensors")["weight"]
    made, right = layer_of(tmp_path / "new.safetensors"), layer_of(FOLDER / "rtn" / f"{owner}.safetensors")
    scales, owned = (marlin_scales(each["s"]).T for each in (made, right))  # the order is its own inverse
    codes, owned_codes = (marlin_codes(each["B"]).T for each in (made, right))
    rows = [row for row in range(len(weight)) if owner == "marlin" or weight[row].min() < 0]
    assert len(rows) == (64 if owner == "marlin" else 63) and np.array_equal(scales[rows], owned[rows])
    assert is_rounded(weight, scales, codes, half_step=0)
    near = (
        2.0**-9 if owner == "marlin" else 2.0**-8
    )  # half a step of f16 from 4 to 8; what it changes of a scale, 8 times
    assert is_rounded(weight[rows], scales[rows], owned_codes[rows], half_step=near)
    assert np.mean(codes[rows] == owned_codes[rows]) > 0.99


def test_rounding_to_compressed_tensors_is_the_owners(tmp_path):
    """The owner divides in bf16."""
    gl.relayout_file(FOLDER / "rtn" / "model.safetensors", tmp_path / "new.safetensors", tensors=STORED_ROUND)
    weight = layer_of(FOLDER / "rtn" / "model.safetensors")["weight"]
    made, right = layer_of(tmp_path / "new.safetensors"), layer_of(FOLDER / "rtn" / "compressed.safetensors")
    assert np.array_equal(made["weight_scale"], right["weight_scale"])
    codes, owned = (nibbles_of(each["weight_packed"]) for each in (made, right))
    assert is_rounded(weight, made["weight_scale"], codes, half_step=0)
    assert is_rounded(weight, made["weight_scale"], owned, half_step=2.0**-6)
    assert np.mean(codes == owned) > 0.98


def relayout_folder(folder, new, **rules):
    gl.relayout_file(FOLDER / folder, new, recipe=f"{folder.split('-')[0]}-to-marlin", **rules)


@pytest.mark.parametrize("folder", ["gptq-channel", "gptq-v2", "awq-64"])
def test_a_recipe_makes_what_the_owners_make(folder, tmp_path):
    relayout_folder(folder, tmp_path / "new")
    check(tmp_path / "new" / "model.safetensors", FOLDER / folder / "marlin.safetensors")
    old, new = (json.loads((path / "config.json").read_text()) for path in (FOLDER / folder, tmp_path / "new"))
    made = new.pop("quantization_config")
    assert old.pop("quantization_config") != made and new == old
    of_gptq = tmp_path / "new" / "quantize_config.json"  # AutoGPTQ reads this one
    assert (json.loads(of_gptq.read_text()) == made) if folder.startswith("gptq") else not of_gptq.exists()


@pytest.mark.parametrize("folder", ["gptq", "awq"])
def test_a_recipe_names_the_layer_that_has_one_group(folder, tmp_path):
    """K is 128, the size of a group: these scales are in the order of those of whole columns."""
    with pytest.raises(gl.LayoutError, match=r"down_proj\.scales.*marlin:channel_scales"):
        relayout_folder(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    name = r"; name=\1.s" if folder == "gptq" else ""
    relayout_folder(folder, tmp_path / "new", tensors={r"(.*down_proj)\.scales": ONE_ROW + name})
    check(tmp_path / "new" / "model.safetensors", FOLDER / folder / "marlin.safetensors")


@pytest.mark.parametrize(
    ("folder", "field", "value", "problem"),
    [
        (
            "gptq-v2",
            "checkpoint_format",
            "gptq",
            "qzeros",
        ),  # version 1 stores 7 for the zero point 8, version 2 stores 8
        ("gptq-channel", "checkpoint_format", "gptq_v2", "qzeros"),
        ("gptq-v2", "pack_dtype", "int16", "pack_dtype"),
        ("gptq-v2", "lm_head", True, "lm_head"),
        ("awq-64", "version", "gemv", "version"),
    ],
)
def test_a_config_that_says_something_else_is_refused(folder, field, value, problem, tmp_path):
    shutil.copytree(FOLDER / folder, tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    config["quantization_config"][field] = value
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    with pytest.raises(gl.LayoutError, match=problem):
        gl.relayout_file(tmp_path / "old", tmp_path / "new", recipe=f"{folder.split('-')[0]}-to-marlin")
    assert not (tmp_path / "new").exists()


def test_the_recipe_that_rounds_has_the_same_rules(tmp_path):
    old = FOLDER / "rtn"
    gl.relayout_file(old, tmp_path / "new", recipe="bf16-to-marlin-u4")
    gl.relayout_file(old / "model.safetensors", tmp_path / "rules.safetensors", tensors=MARLIN_ROUND)
    made, right = (layer_of(path) for path in (tmp_path / "new" / "model.safetensors", tmp_path / "rules.safetensors"))
    assert sorted(made) == ["B", "s"] and all(np.array_equal(made[name], right[name]) for name in made)
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    of_gptq = json.loads((tmp_path / "new" / "quantize_config.json").read_text())
    assert config["quantization_config"] == of_gptq and of_gptq["checkpoint_format"] == "marlin"
