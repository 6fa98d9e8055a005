"""Judges of the catalogue: the owners' functions on the CPU, and bytes that the owners' code wrote.

`tests/data/catalogue` holds hashes of what an owner's unmodified code made of `payload`, with its commit and licence.
"""

import ast
import functools
import json
import pathlib
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.tensors import tensor_of
from tests.support.catalogue_cases import payload, random_call, sha256, stored_bytes, values_for

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data" / "catalogue"
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
VECTORS = [vector for file in FILES.values() for vector in file.get("vectors", ())]
LAYOUTS = [text for file in FILES.values() for text in file.get("layouts", ())]  # as an owner's compiler prints them
KEYS = {"entry", "sizes", "choices", "dtype", "function", "nbytes", "sha256", "first"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_vectors_says_where_they_come_from(name):
    file = FILES[name]
    assert file["repository"].startswith("https://") and file["licence"] and file["owner"]
    assert len(file["commit"]) == 40 or file["commit"][0].isdigit(), "a commit, or the version of a package"
    assert all(vector.keys() == KEYS for vector in file.get("vectors", ()))
    assert file.get("vectors") or (file["layouts"] and file["function"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['entry']}{vector['sizes']}")
def test_packed_bytes_are_those_of_the_owner_s_code(vector):
    shape = gl.catalogue.find(vector["entry"])(*vector["sizes"], dtype=vector["dtype"], **vector["choices"])
    stored = stored_bytes(shape)
    assert (len(stored), stored[:24].hex(), sha256(stored)) == (vector["nbytes"], vector["first"], vector["sha256"])


def test_layouts_are_those_that_xla_compiles_for_a_tpu():
    for text in LAYOUTS:
        shape = gl.parse_shape(text)
        entry = gl.catalogue.xla_tpu.vector if shape.rank == 1 else gl.catalogue.xla_tpu.matrix
        assert str(entry(*shape.dimensions, dtype=shape.element_type)) == text
    types = {gl.parse_shape(text).element_type for text in LAYOUTS}
    assert types == {*gl.catalogue.xla_tpu.matrix.types} and len(LAYOUTS) > 1000


# ---- functions of packages: of an array of the shape's dimensions, the bytes that it stores --------------------


@functools.cache
def torch_to_blocked():
    """The copy of torchao's function in torch, without the rest of its file, which imports CUDA's packages."""
    import torch

    path = pathlib.Path(torch.__file__).parent / "_vendor" / "quack" / "mx_utils.py"
    if not path.is_file():
        pytest.skip(f"this torch has no {path.name}")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {"torch": torch}
    wanted = [node for node in tree.body if getattr(node, "name", "") in ("to_blocked", "ceil_div", "_ceil_div")]
    exec(compile(ast.Module(wanted, []), str(path), "exec"), names)
    return names["to_blocked"]


def block_scales(values):
    import torch

    return torch_to_blocked()(torch.from_numpy(values.view(np.uint8))).numpy().tobytes()


def sparse_metadata(values):
    """torch's PyTorch version of CUTLASS's reorder_meta gives the place of each word."""
    import torch
    from torch.sparse import _semi_structured_conversions as conversions

    words = torch.from_numpy(values.view(f"i{values.itemsize}"))
    places = conversions._calculate_meta_reordering_scatter_offsets(*words.shape, words.dtype, "cpu")
    return words.reshape(-1).new_zeros(len(places)).scatter_(0, places, words.reshape(-1)).numpy().tobytes()


def gguf_codes(values, kind, scale, zero, one):
    """gguf says of each half byte of a block which column it is: one of them has the code `one`, the others `zero`."""
    import gguf

    blocks = np.zeros((32, len(scale) + 16), np.uint8)
    blocks[:, : len(scale)] = np.frombuffer(scale, np.uint8)
    blocks[:, len(scale) :] = zero | zero << 4
    for place in range(32):
        blocks[place, len(scale) + place // 2] ^= (one ^ zero) << place % 2 * 4
    columns = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind]).argmax(1)
    codes = values.view(np.uint8).reshape(-1, 32)[:, columns]
    return (codes[:, ::2] | codes[:, 1::2] << 4).tobytes()


def q4_0(values):
    return gguf_codes(values, "Q4_0", np.float16(1).tobytes(), 8, 9)


def mxfp4(values):
    return gguf_codes(values, "MXFP4", bytes([127]), 0, 1)


# By entry: the package, and what its function stores.
PACKAGES = {
    "cublas:block_scales": ("torch", block_scales),
    "cutlass:sparse_metadata": ("torch", sparse_metadata),
    "gguf:mxfp4": ("gguf", mxfp4),
    "gguf:q4_0": ("gguf", q4_0),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_packed_bytes_are_those_of_the_owner_s_package(name):
    package, function = PACKAGES[name]
    pytest.importorskip(package)
    entry, rng, judged = gl.catalogue.find(name), random.Random(name), []
    while len(judged) < 16 or {shape.element_type for shape in judged} != set(entry.types):
        _, _, choices, shape = random_call(entry, rng)
        if shape.rank == len(entry.sizes):  # the owner's functions take one array
            assert stored_bytes(shape) == function(values_for(shape), **choices), shape
            judged.append(shape)


def test_torch_packs_int4_here_as_the_vectors_say():
    """The vectors are of each instruction set; a machine has one of them."""
    torch = pytest.importorskip("torch")
    isa = {"AVX512": "avx512", "AVX2": "avx2", "DEFAULT": "default"}.get(torch.backends.cpu.get_cpu_capability())
    if isa is None:
        pytest.skip("torch has another instruction set here")
    for sizes in ((64, 2), (64, 34), (192, 48), (320, 128)):
        shape = gl.catalogue.torchao.int4_cpu(*sizes, isa=isa)
        words = torch.from_numpy(values_for(shape).view(np.uint8).astype(np.int32))
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(words, 1)
        assert stored_bytes(shape) == packed.contiguous().numpy().tobytes(), shape
        tensor = tensor_of(gl.catalogue.torchao.int4_cpu, shape, {"isa": isa})
        assert tensor == (gl.ElementType.of(packed.dtype), tuple(packed.shape))


def test_every_entry_has_the_judge_that_it_names():
    judged = {"package": set(PACKAGES), "vectors": {vector["entry"] for vector in VECTORS}}
    judged["vectors"] |= {"xla_tpu:matrix", "xla_tpu:vector"}
    for entry in gl.catalogue.entries():
        assert entry.judge == "formula" or entry.name in judged[entry.judge], entry.name
        assert entry.confirmed or not any(entry.name in names for names in judged.values()), "it is confirmed"


def test_what_holds_without_a_choice_is_judged():
    """An entry whose choices change its layout could have vectors of the other choices alone."""
    for entry in gl.catalogue.entries():
        usual = {choice.name: choice.values[0] for choice in entry.choices}
        own = [vector["choices"] for vector in VECTORS if vector["entry"] == entry.name]
        assert not (own and usual) or usual in [usual | choices for choices in own], entry.name


def test_a_vector_tells_one_layout_from_another():
    assert payload(5, 4).tolist() == [0, 9, 3, 13, 7]
    scales = gl.catalogue.cublas.block_scales(40, 8)
    assert stored_bytes(scales) != stored_bytes(scales.with_layout("{1,0:PD(128,8)}"))
