"""Models of GGUF files become safetensors files: values, cuts and joins, by a model in NumPy and by gguf's own code."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.checkpoints.header import DTYPES, read_contents
from gpulayout.files.errors import FileError
from tests.support.gguf_files import gguf_model, mxfp4, q4_0, q4_1, q8_0, u32, values, words
from tests.support.model_files import NEEDS_SAFETENSORS, contents

pytestmark = NEEDS_SAFETENSORS
SHAPES = [(32,), (1, 32), (3, 64), (2, 3, 96), (2, 1, 2, 32), (0, 32), (2, 0)]
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F64": np.float64, "I8": np.int8}
RULES = {"Q4_0": "zero_point=8; scale={name}_scale; block=32; dtype=f32; C", "Q8_0": "scale={name}_scale; dtype=f32"}
MORE_RULES = {
    "Q4_1": "C; scale={name}_step; shift={name}_min; dtype=f32",
    "MXFP4": "C; scale={name}_scale; dtype=f32",
}


def relayout(folder, file, rules=None, **options):
    """The arrays of the new file, and its metadata."""
    (folder / "in.gguf").write_bytes(file)
    gl.relayout_file(folder / "in.gguf", folder / "out.safetensors", tensors=rules or {}, overwrite=True, **options)
    with open(folder / "out.safetensors", "rb") as stream:
        metadata = read_contents("out", stream).metadata
    found = contents(folder / "out.safetensors").items()  # the library has no F8_E8M0 for NumPy
    return {
        name: np.frombuffer(data, DTYPES[dtype].dtype).reshape(sizes) for name, (dtype, sizes, data) in found
    }, metadata


def quantised(kind, shape, seed=0):
    """Codes and scales, and the bytes of their blocks.  Scales are also 0, not normal, infinite and NaN."""
    rng = np.random.default_rng(seed)
    low, high = {"Q4_0": (0, 16), "Q8_0": (-128, 128)}[kind]
    codes = rng.integers(low, high, shape, np.int16)
    scales = rng.standard_normal((*shape[:-1], shape[-1] // 32)).astype(np.float16)
    odd = [0.0, -0.0, 6e-8, 65504.0, np.inf, np.nan]
    scales.reshape(-1)[: len(odd)] = odd[: scales.size]
    return codes, scales, {"Q4_0": q4_0, "Q8_0": q8_0}[kind](codes, scales)


def nibbles(packed):
    """The codes of Q4_0 in the new file, in order."""
    blocks = packed.reshape(*packed.shape[:-1], packed.shape[-1] // 16, 16)
    return np.stack([blocks & 15, blocks >> 4], -2).reshape(*packed.shape[:-1], 2 * packed.shape[-1])


def same(one, other):
    """True for equal bytes, but that any NaN is like any other."""
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("shape", [(), *SHAPES], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_arrays_are_as_they_are(tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(-100, 100, shape).astype(FLOATS[dtype])
    found, metadata = relayout(tmp_path, gguf_model({"a.weight": (dtype, shape, array.tobytes())}))
    assert same(found["a.weight"], array) and metadata == {}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_become_codes_and_scales(tmp_path, shape):
    for kind in ("Q4_0", "Q8_0"):
        codes, scales, data = quantised(kind, shape)
        found, metadata = relayout(tmp_path, gguf_model({"w": (kind, shape, data), "w_": ("F32", (1,), b"1234")}))
        assert {*found} == {"w", "w_scale", "w_"}
        assert same(found["w_scale"].view(np.uint16), scales.view(np.uint16))
        if kind == "Q8_0":
            assert same(found["w"], codes.astype(np.int8)) and metadata == {}
        else:
            assert np.array_equal(nibbles(found["w"]), codes)
            assert metadata == {"gpulayout:w": f"gguf:q4_0[{','.join(map(str, shape))}]"}
            gl.relayout_file(tmp_path / "in.gguf", tmp_path / "back.safetensors", unpack=True, overwrite=True)
            from safetensors.numpy import load_file

            assert np.array_equal(load_file(tmp_path / "back.safetensors")["w"], codes)


@pytest.mark.parametrize("kind, zero", [("Q4_0", 8), ("Q8_0", 0)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_codes_and_scales_become_values(tmp_path, kind, zero, shape):
    codes, scales, data = quantised(kind, shape)
    file = gguf_model({"w": (kind, shape, data)})
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = values(codes, scales, zero)
        found, _ = relayout(tmp_path, file, {"w": RULES[kind], "w_scale": "drop"})
        assert {*found} == {"w"} and same(found["w"], wanted)
        found, _ = relayout(tmp_path, file, {"w": RULES[kind].replace("f32", "bf16"), "w_scale": "drop"})
        assert same(found["w"], wanted.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("shape", [(1, 32), (5, 64), (3, 2, 96)], ids=str)
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "MXFP4", "F16", "BF16", "F32"])
def test_values_are_those_of_the_package_gguf(tmp_path, kind, shape):
    gguf = pytest.importorskip("gguf")
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 100
    number = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(tmp_path / "own.gguf", "llama")
    writer.add_tensor("blk.0.w", gguf.quants.quantize(array, number), raw_dtype=number)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b\n", "ä"])
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    (tensor,) = gguf.GGUFReader(tmp_path / "own.gguf").tensors
    wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
    rules = {r"blk\.0\.w": (RULES | MORE_RULES).get(kind, "dtype=f32"), ".*_(scale|step|min)": "drop"}
    found, metadata = relayout(tmp_path, (tmp_path / "own.gguf").read_bytes(), rules, allow_unmatched=True)
    assert found["blk.0.w"].tobytes() == wanted.tobytes() and found["blk.0.w"].shape == shape
    assert metadata == {"gguf.general.architecture": "llama"}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_with_a_least_number(tmp_path, shape):
    codes, scales, _ = quantised("Q4_0", shape)
    least = scales[..., ::-1]
    file = gguf_model({"w": ("Q4_1", shape, q4_1(codes, scales, least))})
    found, metadata = relayout(tmp_path, file)
    assert np.array_equal(nibbles(found["w"]), codes) and [*metadata] == ["gpulayout:w"]
    assert found["w_step"].tobytes() == scales.tobytes() and found["w_min"].tobytes() == least.tobytes()
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = values(codes, scales, 0) + np.repeat(least, 32, -1).astype(np.float32)
    found, _ = relayout(tmp_path, file, {"w": MORE_RULES["Q4_1"], "w_.*": "drop"})
    assert same(found["w"], wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_of_mxfp4(tmp_path, shape):
    codes, _, _ = quantised("Q4_0", shape)
    scales = np.random.default_rng(2).integers(0, 255, (*shape[:-1], shape[-1] // 32), np.uint8)
    scales.reshape(-1)[:4] = [0, 1, 2, 254][: scales.size]
    file = gguf_model({"w": ("MXFP4", shape, mxfp4(codes, scales))})
    numbers = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn)[..., : shape[-1]]
    found, metadata = relayout(tmp_path, file)
    assert metadata == {"gpulayout:w": f"gguf:mxfp4[{','.join(map(str, shape))}]"}
    assert found["w_scale"].view(np.uint8).tobytes() == scales.tobytes()
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float32) * np.ldexp(1.0, np.repeat(scales, 32, -1).astype(int) - 127).astype("f4")
    found, _ = relayout(tmp_path, file, {"w": MORE_RULES["MXFP4"], "w_scale": "drop"})
    assert same(found["w"], wanted)
    if len(shape) == 2:  # neighbours share a byte, as in other files of MXFP4
        found, _ = relayout(tmp_path, file, {"w": "n k -> n k; as=U8[n,k/2]", "w_scale": "drop"})
        assert np.array_equal(found["w"], codes[:, ::2] | codes[:, 1::2] << 4)


def test_codes_become_those_of_marlin_with_scales_of_groups(tmp_path):
    codes, scales, data = quantised("Q4_0", (128, 256))
    rules = {"w": "n k -> k n; marlin:weights", "w_scale": "n g -> g n; marlin:scales"}
    found, _ = relayout(tmp_path, gguf_model({"w": ("Q4_0", (128, 256), data)}), rules)
    weights = np.asarray(gl.pack(codes.T.astype(ml_dtypes.uint4), "marlin:weights"))
    assert found["w"].tobytes() == weights.tobytes() and found["w"].shape == (16, 256)
    own = np.asarray(gl.pack(np.ascontiguousarray(scales.T), "marlin:scales"))
    assert found["w_scale"].tobytes() == own.tobytes() and found["w_scale"].shape == (8, 128)


# ---- cuts and joins --------------------------------------------------------------------------------------------------


def parts(kind, shapes):
    """Tensors w0, w1, ... of a file, and the values of each."""
    tensors, arrays = {}, []
    for number, shape in enumerate(shapes):
        codes, scales, data = quantised(kind, shape, seed=number + 1)
        scales = np.nan_to_num(scales, posinf=1)
        tensors[f"w{number}"] = (kind, shape, {"Q4_0": q4_0, "Q8_0": q8_0}[kind](codes, scales))
        arrays.append(values(codes, scales, 8 if kind == "Q4_0" else 0))
    return tensors, arrays


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("axis", range(3))
def test_joined_along_every_axis(tmp_path, kind, axis):
    shapes = [[2, 3, 64] for _ in range(3)]
    shapes[1][axis] *= 2
    tensors, arrays = parts(kind, map(tuple, shapes))
    rule = RULES[kind] + f"; join=w0,w1,w2; along={axis}; name=all"
    found, _ = relayout(tmp_path, gguf_model(tensors), {"w0": rule, ".*_scale": "drop"})
    assert same(found["all"], np.concatenate(arrays, axis))
    both = {
        "w0": f"join=w0,w1,w2; along={axis}; name=all",
        "w0_scale": f"join=w0_scale,w1_scale,w2_scale; along={axis}; name=w0_scale",
    }
    found, _ = relayout(tmp_path, gguf_model(tensors), both)
    codes = nibbles(found["all"]) if kind == "Q4_0" else found["all"]
    assert same(values(codes, found["w0_scale"], 8 if kind == "Q4_0" else 0), np.concatenate(arrays, axis))


@pytest.mark.parametrize("kind", RULES)
def test_stacked_and_in_turns(tmp_path, kind):
    tensors, arrays = parts(kind, [(2, 64)] * 3)
    rules = {r"w(\d)": RULES[kind] + "; stack=all", ".*_scale": "drop"}
    assert same(relayout(tmp_path, gguf_model(tensors), rules)[0]["all"], np.stack(arrays))
    rules = {"w0": RULES[kind] + "; join=w0,w1,w2; along=0; interleave; name=all", ".*_scale": "drop"}
    assert same(relayout(tmp_path, gguf_model(tensors), rules)[0]["all"], np.stack(arrays, 1).reshape(6, 64))


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("axis", range(3))
def test_cut_along_every_axis(tmp_path, kind, axis):
    tensors, (array,) = parts(kind, [(4, 2, 128)])
    count = array.shape[axis] // 32 if axis == 2 else array.shape[axis]
    for number in range(count):
        rules = {"w0": RULES[kind] + f"; shard={number}/{count}; along={axis}", ".*_scale": "drop"}
        wanted = np.split(array, count, axis)[number]
        assert same(relayout(tmp_path, gguf_model(tensors), rules)[0]["w0"], np.ascontiguousarray(wanted))
    names = [f"p{number}" for number in range(count)]
    rules = {"w0": RULES[kind] + f"; split={','.join(names)}; along={axis}", ".*_scale": "drop"}
    found, _ = relayout(tmp_path, gguf_model(tensors), rules)
    assert all(same(found[name], np.ascontiguousarray(part)) for name, part in zip(names, np.split(array, count, axis)))


def test_a_cut_within_a_block_is_refused_before_anything_moves(tmp_path):
    for kind, problem in (
        ("Q8_0", "in blocks of 32 bytes: a cut lies within a block"),
        ("Q4_0", "multiples of 32 only"),
    ):
        tensors, _ = parts(kind, [(4, 96)])
        for dry_run in (False, True):
            with pytest.raises(gl.LayoutError, match=f"tensor 'w0' .*{problem}"):
                relayout(tmp_path, gguf_model(tensors), {"w0": "shard=0/2; along=1"}, dry_run=dry_run)
        assert not (tmp_path / "out.safetensors").exists()
    tensors, _ = parts("Q8_0", [(4, 64)])
    for rule in (
        "n (b=4 d) -> n b d; shard=0/2; along=d",
        "n k -> k n; split=a,b,c; along=1; sizes=24,16,24",
        "split=a,b; along=1; interleave",
        "split=a,b,c; along=1; sizes=24,16,24",  # b alone is in two blocks
        "split=a,b,c; along=1; sizes=16,32,16",  # it is as long as a block
    ):
        for dry_run in (False, True):
            with pytest.raises(gl.LayoutError, match="within a block"):
                relayout(tmp_path, gguf_model(tensors), {"w0": rule}, dry_run=dry_run)


def test_a_cut_of_all_blocks_at_one_place(tmp_path):
    tensors, (array,) = parts("Q8_0", [(4, 96)])
    for number in range(4):
        rules = {"w0": f"n (b d=32) -> n b d; shard={number}/4; along=d", "w0_scale": "drop"}
        found, _ = relayout(tmp_path, gguf_model(tensors), rules)
        codes, _, _ = quantised("Q8_0", (4, 96), seed=1)
        assert np.array_equal(found["w0"], codes.reshape(4, 3, 32)[..., 8 * number : 8 * number + 8])


@pytest.mark.parametrize("kind", RULES)
def test_groups_of_columns_that_a_pattern_splits(tmp_path, kind):
    tensors, (array,) = parts(kind, [(2, 96)])
    for number in range(3):
        rule = RULES[kind].removesuffix("; C") + f"; n (g j=32) -> g n j; shard={number}/3; along=g"
        found, _ = relayout(tmp_path, gguf_model(tensors), {"w0": rule, ".*_scale": "drop"})
        assert same(found["w0"], array[None, :, 32 * number : 32 * number + 32].copy())


@pytest.mark.parametrize("kind", RULES)
def test_rows_that_a_pattern_splits(tmp_path, kind):
    """As llama.cpp's q and k: the halves of each head's rows take turns.  The first axis of the pattern can be cut."""
    tensors, (array,) = parts(kind, [(3 * 4 * 2, 64)])
    wanted = array.reshape(3, 4, 2, 64).swapaxes(1, 2)
    rule = RULES[kind].removesuffix("; C") + "; (h=3 d two=2) k -> (h two d) k"
    found, _ = relayout(tmp_path, gguf_model(tensors), {"w0": rule, ".*_scale": "drop"})
    assert same(found["w0"], wanted.reshape(24, 64))
    for number in range(3):
        own = {"w0": rule + f"; shard={number}/3; along=h", ".*_scale": "drop"}
        found, _ = relayout(tmp_path, gguf_model(tensors), own)
        assert same(found["w0"], wanted[number].reshape(8, 64))
    if kind == "Q4_0":
        with pytest.raises(gl.LayoutError, match="can be neither cut nor joined along axis d"):
            relayout(tmp_path, gguf_model(tensors), {"w0": rule + "; shard=0/2; along=d", ".*_scale": "drop"})


def test_several_files_are_pieces_of_one_tensor(tmp_path):
    tensors, arrays = parts("Q8_0", [(2, 64), (3, 64)])
    for number in range(2):
        own = {"w": tensors[f"w{number}"]}
        (tmp_path / f"{number}.gguf").write_bytes(gguf_model(own))
    rules = {"w": RULES["Q8_0"] + "; along=0", "w_scale": "along=0"}
    gl.relayout_file([tmp_path / "0.gguf", tmp_path / "1.gguf"], tmp_path / "out.safetensors", tensors=rules)
    from safetensors.numpy import load_file

    assert same(load_file(tmp_path / "out.safetensors")["w"], np.concatenate(arrays))


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(["Q4_0", "Q8_0"]),
    shape=st.lists(st.integers(1, 5), max_size=3),
    blocks=st.integers(1, 4),
    alignment=st.sampled_from([32, 64, 256]),
    seed=st.integers(0, 1000),
    turn=st.booleans(),
    memory=st.sampled_from([None, 1 << 16]),
)
def test_any_shape(tmp_path_factory, kind, shape, blocks, alignment, seed, turn, memory):
    shape = (*shape, 32 * blocks)
    codes, scales, data = quantised(kind, shape, seed)
    scales = np.nan_to_num(scales, posinf=1)
    data = {"Q4_0": q4_0, "Q8_0": q8_0}[kind](codes, scales)
    names = "a b c d".split()[: len(shape)]
    rule, order = RULES[kind], range(len(shape))
    if turn:
        order = range(len(shape))[::-1]
        rule = f"{' '.join(names)} -> {' '.join(names[::-1])}; {rule.removesuffix('; C')}"
    file = gguf_model({"ä": ("F32", (), b"abcd"), "w/ü": (kind, shape, data)}, alignment=alignment)
    found, _ = relayout(tmp_path_factory.mktemp("any"), file, {"w/ü": rule, ".*_scale": "drop"}, max_bytes=memory)
    assert same(found["w/ü"], np.ascontiguousarray(values(codes, scales, 8 * (kind == "Q4_0")).transpose(order)))


# ---- what cannot be read, and what else a file has -------------------------------------------------------------------


def test_other_types_are_listed_and_can_be_left_out(tmp_path):
    tensors = {"a.w": ("Q6_K", (2, 256), bytes(420)), "b": ("F32", (1,), b"1234"), "c": ("Q5_0", (32,), bytes(22))}
    file = gguf_model(tensors)
    found, _ = relayout(tmp_path, file, {r"a\.w|c": "drop"})
    assert [*found] == ["b"]
    for rules in (
        {},
        {r"a\.w": "name=z"},
        {r"a\.w": "b c -> c b"},
        {".*": "keep"},
        {r"a\.w": "from=u8; drop", "c": "keep"},
    ):
        for dry_run in (False, True):
            with pytest.raises(gl.LayoutError) as caught:
                relayout(tmp_path, file, rules, dry_run=dry_run)
            message = str(caught.value)
            assert re.search(
                r"tensor '(a\.w|c)' is (Q6_K\[2,256\]|Q5_0\[32\]), blocks that gpulayout cannot read", message
            )
            assert re.search(r"'(a\\\.w|c)=drop'", message) and "gguf.quants.dequantize(" in message
    with pytest.raises(gl.LayoutError, match="is Q6_K"):
        relayout(tmp_path, file, {"b": "scale=a.w", r"a\.w|c": "drop"})
    with pytest.raises(gl.LayoutError, match="is Q6_K"):
        relayout(tmp_path, file, dtype="bf16")


def test_the_line_of_python_that_the_error_has_works(tmp_path, monkeypatch):
    gguf = pytest.importorskip("gguf")
    import safetensors.numpy

    monkeypatch.chdir(tmp_path)
    array = np.random.default_rng(0).integers(0, 255, (2, 210), np.uint8)
    array[:, 208:] = np.ones((2, 1), np.float16).view(np.uint8)
    with pytest.raises(gl.LayoutError) as caught:
        relayout(tmp_path, gguf_model({"a": ("Q6_K", (2, 256), array.tobytes())}))
    line = str(caught.value).partition("arrays of all: ")[2]
    eval(line, {"safetensors": safetensors, "gguf": gguf, "FILE": "in.gguf"})
    found = safetensors.numpy.load_file("model.safetensors")["a"]
    assert same(found, gguf.quants.dequantize(array, gguf.GGMLQuantizationType.Q6_K))


def test_numbers_and_short_texts_become_metadata(tmp_path):
    keys = [
        words("general.architecture", "llama"),
        u32("llama.attention.head_count", 8),
        words("long", "x" * 201),
        words("tokenizer.ggml.model", "gpt2"),
        words("general.name", "Ä"),
    ]
    file = gguf_model({"a": ("F32", (1,), b"1234")}, keys)
    assert relayout(tmp_path, file)[1] == {
        "gguf.general.architecture": "llama",
        "gguf.llama.attention.head_count": "8",
        "gguf.general.name": "Ä",
    }


# ---- files of one model ----------------------------------------------------------------------------------------------


def split(folder, count, *, numbers=None, counts=None, names=None, stem="m"):
    """Parts of a model, each with a tensor of its own."""
    for number in range(count):
        keys = [
            u32("split.no", numbers[number] if numbers else number),
            u32("split.count", counts[number] if counts else count),
        ]
        name = names[number] if names else f"w{number}"
        file = gguf_model({name: ("F32", (1,), bytes([number] * 4))}, keys)
        (folder / f"{stem}-{number + 1:05}-of-{count:05}.gguf").write_bytes(file)
    return folder / f"{stem}-00001-of-{count:05}.gguf"


def test_the_first_part_reads_all(tmp_path):
    from safetensors import safe_open

    gl.relayout_file(split(tmp_path, 3), tmp_path / "out.safetensors", tensors={})
    with safe_open(tmp_path / "out.safetensors", "np") as stream:
        assert {name: stream.get_tensor(name).tobytes()[0] for name in stream.keys()} == {"w0": 0, "w1": 1, "w2": 2}
        assert stream.metadata() == {}


def test_parts_that_do_not_belong_together(tmp_path):
    first = split(tmp_path, 3)
    for name, problem in [
        ("m-00002-of-00003.gguf", "this is part 2 of 3: write the first one, m-00001-of-00003.gguf"),
        ("m-00000-of-00003.gguf", "this is part 0 of 3"),
        ("m-00000-of-00000.gguf", "this is part 0 of 0"),
    ]:
        with pytest.raises(FileError, match=problem):
            gl.relayout_file(tmp_path / name, tmp_path / "out.safetensors", tensors={})
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(FileError, match="part 1 of 3, and part 2 is not beside it"):
        gl.relayout_file(first, tmp_path / "out.safetensors", tensors={})
    for changed, problem in [
        ({"numbers": [0, 1, 1]}, "says that it is part 2 of 3, and its name part 3 of 3"),
        ({"counts": [3, 3, 4]}, "says that it is part 3 of 4, and its name part 3 of 3"),
        ({"names": ["a", "b", "a"]}, "tensor 'a' is in x-00001-of-00003.gguf too"),
    ]:
        with pytest.raises(FileError, match=problem):
            gl.relayout_file(split(tmp_path, 3, stem="x", **changed), tmp_path / "out.safetensors", tensors={})
    (tmp_path / "alone.gguf").write_bytes((tmp_path / "m-00003-of-00003.gguf").read_bytes())
    with pytest.raises(FileError, match="says that it is part 3 of 3, and its name part 1 of 1"):
        gl.relayout_file(tmp_path / "alone.gguf", tmp_path / "out.safetensors", tensors={})
    assert not (tmp_path / "out.safetensors").exists()


def test_all_short_orders_of_tensors_in_a_file(tmp_path):
    """Neighbours are copied together where both are neighbours in the new file, but never the blocks."""
    for kinds in itertools.product(["F32", "Q8_0", "F16"], repeat=3):
        tensors, wanted = {}, {}
        for number, kind in enumerate(kinds):
            name = f"w{number}"
            if kind == "Q8_0":
                codes, scales, data = quantised(kind, (2, 32), number)
                wanted |= {name: codes.astype(np.int8), name + "_scale": scales}
            else:
                wanted[name] = np.arange(8, dtype=FLOATS[kind]) + number
                data = wanted[name].tobytes()
            tensors[name] = (kind, (2, 32) if kind == "Q8_0" else (8,), data)
        found, _ = relayout(tmp_path, gguf_model(tensors))
        assert {*found} == {*wanted} and all(found[name].tobytes() == each.tobytes() for name, each in wanted.items())


def test_expected_numbers_are_looked_for_in_blocks(tmp_path):
    scales = np.ones((40, 2), np.float16)
    codes = np.full((40, 64), 7, np.int8)
    file = gguf_model({"w": ("Q8_0", codes.shape, q8_0(codes, scales))})
    relayout(tmp_path, file, {"w": "expect=7; keep", "w_scale": "expect=1; keep"})
    codes[30, 33] = 6
    with pytest.raises(gl.LayoutError, match=r"the element at \(30, 33\) is 6, but"):
        relayout(tmp_path, gguf_model({"w": ("Q8_0", codes.shape, q8_0(codes, scales))}), {"w": "expect=7; keep"})


def test_torch_does_not_load_blocks(tmp_path):
    torch = pytest.importorskip("torch")
    (tmp_path / "in.gguf").write_bytes(gguf_model({"weight": ("F32", (1, 1), b"1234")}))
    for assign in (False, True):
        with pytest.raises(FileError, match="in.gguf: gpulayout relayout makes a safetensors file of GGUF"):
            gl.torch.load_packed(tmp_path / "in.gguf", torch.nn.Linear(1, 1, bias=False), assign=assign)
