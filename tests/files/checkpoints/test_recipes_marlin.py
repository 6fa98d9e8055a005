"""Small checkpoints that the owners of GPTQ, AWQ and Marlin made with their own code: every byte of what follows.

`tests/data/recipes/marlin/owners.json` says whose function made which file.
"""

import hashlib
import json
import pathlib
import re

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


def test_rules_lay_compressed_tensors_out_as_vllm_does(tmp_path):
    (right,) = OWNERS["laid_out"]
    rules = {
        r"(.*)\.weight_packed": r"from=u4; n k -> k n; marlin:weights; name=\1.weights",
        r"(.*)\.weight_scale": r"n g -> g n; marlin:scales; name=\1.scales",
        r".*\.weight_shape": "drop",
    }
    gl.relayout_file(FOLDER / right["file"], tmp_path / "new.safetensors", tensors=rules)
    for name, array in arrays(tmp_path / "new.safetensors").items():
        assert {"shape": list(array.shape), "sha256": sha256(array)} == right[name.rsplit(".", 1)[1]]


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
