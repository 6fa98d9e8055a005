"""Parts of joins and stacks: those that lie differently, those with rules of their own, and those with numbers."""

import os

import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_cases import file_of, read_result

A = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def relayout(folder, model, rules, notes=None, **options):
    """The tensors of the result: bytes by name."""
    metadata = {f"gpulayout:{name}": text for name, text in (notes or {}).items()}
    (folder / "in.safetensors").write_bytes(file_of(model, metadata))
    gl.relayout_file(folder / "in.safetensors", folder / "out.safetensors", tensors=rules, **options)
    return {name: data for name, (_, _, data) in read_result(folder / "out.safetensors")[0].items()}


@pytest.mark.parametrize(
    "one, other",
    [
        ("f32[3,4]{0,1:T(3,2)}", "f32[3,4]{1,0:T(3,2)}"),
        ("f32[2,3,4]{0,1,2}", "f32[2,3,4]{1,0,2}"),
        ("u4[2,8]{1,0:E(4)}", "u4[2,8]{1,0}"),
        ("u4[2,8]{1,0:E(4)}", "u4[2,8]{1,0:E(4,big)}"),
    ],
)
@pytest.mark.parametrize("rule", ["stack=x", "join=x.0,x.1; along=0; name=x"])
def test_parts_that_lie_differently_do_not_go_together(tmp_path, one, other, rule):
    model = {f"x.{number}": np.zeros(gl.parse_shape(text).nbytes, np.uint8) for number, text in enumerate((one, other))}
    match = r"x\.(\d)" if rule.startswith("stack") else r"x\.0"
    with pytest.raises(gl.LayoutError, match="do not go together: they are |neither cut nor joined"):
        relayout(tmp_path, model, {match: rule}, {"x.0": one, "x.1": other})
    assert not (tmp_path / "out.safetensors").exists()


def test_the_numbers_of_every_part_are_what_the_rule_of_their_join_makes_of_them(tmp_path):
    scales = {f"{name}.scale": A[:, :1] * number for number, name in enumerate("qkv", 1)}
    model = {f"{name}.weight": A for name in "qkv"} | scales
    rules = {
        r"(.)\.weight": r"scale=\1.scale",
        r"q\.scale": "join=q.scale,k.scale,v.scale; along=0; scale=10; name=scale",
    }
    result = relayout(tmp_path, model, rules)
    assert result["scale"] == np.concatenate([10 * each for each in scales.values()]).tobytes()
    for name in "qkv":
        assert result[f"{name}.weight"] == (A * scales[f"{name}.scale"] * 10).tobytes()


def test_numbers_of_axes_in_reverse_order_are_refused(tmp_path):
    model = {"w": np.ones((4, 2, 3), np.float32), "s": A}
    with pytest.raises(gl.LayoutError, match="tensor 's' has numbers that others need, and .* reverses axes"):
        relayout(tmp_path, model, {"w": "scale=s", "s": "a b -> b 1 a; flip=b; drop"})


def relayout_with_map(folder, names, own, joins):
    """The new tensors for rules of one's own before a map that joins tensors."""
    rule = "[[tensor]]\nmatch = '{}'\njoin = '{}'\nalong = 0\nname = '{}'\n"
    (folder / "map.toml").write_text("".join(rule.format(*each) for each in joins))
    result = relayout(folder, dict.fromkeys(names, A), [own, folder / "map.toml"])
    return {name: len(data) // A.nbytes for name, data in result.items()}


PAIRS = [(r"(.)\.k", r"\1.k,\1.v", r"\1.kv")]


def test_a_join_of_a_map_whose_first_part_is_taken_leaves_the_others(tmp_path):
    names = [f"{layer}.{part}" for layer in "ab" for part in "qkv"]
    own = {r"a\.q": "join=a.q,a.k; along=0; name=a.qk"}
    assert relayout_with_map(tmp_path, names, own, PAIRS) == {"a.qk": 2, "a.v": 1, "b.q": 1, "b.kv": 2}


def test_a_rule_of_ones_own_for_a_part_of_a_map_is_not_ignored(tmp_path):
    names = ["a.k", "a.v", "b.v"]
    with pytest.raises(gl.LayoutError, match="tensor 'a.v' is a part of rule 1 of .*, and the rule .* fits it too"):
        relayout_with_map(tmp_path, names, {r".\.v": "scale=2"}, PAIRS)


PADDED = {"aiter:scales(dtype=u8)": (300, 8), "triton:hopper_scales(dtype=u8,warps=2)": (100, 3)}


def packed_as(array, entry):
    return np.frombuffer(gl.pack(array, entry).tobytes(), np.uint8)


@pytest.mark.parametrize("entry", PADDED)
def test_the_last_piece_of_a_padded_tensor_has_its_padding(tmp_path, entry):
    rows, columns = PADDED[entry]
    array = np.arange(rows * columns, dtype=np.uint32).astype(np.uint8).reshape(rows, columns)
    notes = {"x": f"{entry}[{rows},{columns}]"}
    multiple = 256 if rows == 300 else 64
    for first in (0, multiple, rows):
        rules = {"x": f"split=y,z; along=0; sizes={first},{rows - first}; to=C"}
        (tmp_path / "out.safetensors").unlink(missing_ok=True)
        result = relayout(tmp_path, {"x": packed_as(array, entry)}, rules, notes)
        assert result["y"] + result["z"] == array.tobytes()


@pytest.mark.parametrize("entry", PADDED)
def test_padding_cannot_be_inside_of_a_join(tmp_path, entry):
    """300 rows are stored as 512, but 600 as 768; 200 as 256, and 400 as 512, which have the bytes of both parts."""
    for rows in (PADDED[entry][0], PADDED[entry][0] * 2 // 3):
        part = packed_as(np.ones((rows, PADDED[entry][1]), np.uint8), entry)
        notes = dict.fromkeys("xy", f"{entry}[{rows},{PADDED[entry][1]}]")
        with pytest.raises(gl.LayoutError, match="can be joined along axis 0 at multiples of"):
            relayout(tmp_path, {"x": part, "y": part}, {"x": "join=x,y; along=0; name=z; to=C"}, notes)


@pytest.mark.parametrize("entry, axis", [("marlin:scales", 1), ("torchao:int4_cpu", 0)])
def test_blocks_cannot_take_turns(tmp_path, entry, axis):
    shape = gl.parse_shape(f"{entry}[64,128]")
    part = np.zeros(shape.nbytes, np.uint8)
    notes = dict.fromkeys("xy", f"{entry}[64,128]")
    with pytest.raises(gl.LayoutError, match=f"several elements along axis {axis}: it cannot take turns"):
        rule = f"join=x,y; along={axis}; interleave; name=z"
        relayout(tmp_path, {"x": part, "y": part}, {"x": rule}, notes)


@pytest.mark.parametrize("before, after", [("bf16", "f16"), ("f16", "bf16")])
@pytest.mark.parametrize("by_rule", [True, False])
def test_the_type_changes_of_a_tensor_in_an_entry_of_several_types(tmp_path, before, after, by_rule):
    entry = f"marlin:scales(dtype={before})"
    words = np.asarray(gl.pack(np.ones((16, 64), gl.parse_shape(f"{before}[1]").dtype), entry)).reshape(16, 64)
    rules, options = ({"x": f"dtype={after}"}, {}) if by_rule else (None, {"dtype": after})
    relayout(tmp_path, {"x": words}, rules, {"x": f"{entry}[16,64]"}, **options)
    notes = read_result(tmp_path / "out.safetensors")[1]
    assert str(gl.parse_shape(notes["x"])) == str(gl.parse_shape(f"marlin:scales(dtype={after})[16,64]"))


def test_a_single_number_is_one_of_its_own_bytes_only(tmp_path):
    with pytest.raises(gl.LayoutError, match="as 'F16': the 4 bytes of .* write the dimensions, as in F16.2."):
        relayout(tmp_path, {"x": np.ones((), np.float32)}, {"x": "as=F16"})


@pytest.mark.parametrize("second", ["a.safetensors", "link.safetensors", "soft.safetensors", "../folder/a.safetensors"])
def test_a_file_is_no_two_inputs(tmp_path, second):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.safetensors").write_bytes(file_of({"x": A}))
    os.link(folder / "a.safetensors", folder / "link.safetensors")
    os.symlink("a.safetensors", folder / "soft.safetensors")
    with pytest.raises(gl.LayoutError, match="given twice: several|are the same file: several inputs"):
        inputs = [folder / "a.safetensors", folder / second]
        gl.relayout_file(inputs, folder / "out.safetensors", tensors={"x": "along=0"})


@pytest.mark.parametrize("entry, part", [("gptq:qweight(dtype=u8)", "has no dtype bf16"), ("awq:qweight", "bits")])
def test_a_layout_that_is_not_for_the_new_type_is_named_with_what_to_write(tmp_path, entry, part):
    shape = gl.parse_shape(f"{entry}[64,64]")
    model, notes = {"x": np.ones(shape.nbytes, np.uint8), "s": A[:1, :1]}, {"x": f"{entry}[64,64]"}
    with pytest.raises(gl.LayoutError, match=rf"{part}.* write C in the rule 'x', .*\(scale is tensor 's'\)$"):
        relayout(tmp_path, model, {"x": "scale=s; dtype=bf16"}, notes)
    result = relayout(tmp_path, model, {"x": "C; scale=s; dtype=bf16"}, notes)
    assert len(result["x"]) == 2 * 64 * 64
    with pytest.raises(gl.LayoutError, match="scale of shape .* does not fit") as raised:
        relayout(tmp_path, model, {"x": "scale=1,2,3; dtype=bf16"}, notes, overwrite=True)
    assert "write C" not in str(raised.value)


def test_tensors_that_lie_alike_keep_the_entries_of_their_notes(tmp_path):
    texts = ["awq:qweight[32,64]", str(gl.parse_shape("awq:qweight[32,64]"))]
    model = {f"x{number}": np.ones(32 * 32, np.uint8) for number in range(2)}
    relayout(tmp_path, model, {"x.": "dtype=u4; scale=1"}, {f"x{n}": text for n, text in enumerate(texts)})
    assert read_result(tmp_path / "out.safetensors")[1] == {f"x{number}": text for number, text in enumerate(texts)}


@pytest.mark.parametrize(
    "rule", ["join=q,k; along=0; interleave; name=x", "a (d=2 n) -> n a d; join=q,k; along=n; name=x"]
)
def test_parts_in_several_files_take_turns_more_often_than_runs_can_be_listed(tmp_path, rule):
    rows, random = 1 << 19, np.random.default_rng(0)
    parts = [{name: random.integers(0, 256, (rows, 2), np.uint8) for name in "qk"} for _ in range(2)]
    if "interleave" in rule:  # the parts end in other rows of the two files
        whole = {name: np.concatenate([each[name] for each in parts]) for name in "qk"}
        parts = [{"q": whole["q"][:3], "k": whole["k"][:-5]}, {"q": whole["q"][3:], "k": whole["k"][-5:]}]
        wanted = np.stack([whole["q"], whole["k"]], 1)
    else:
        wanted = np.concatenate([each[name].reshape(rows, 2, 1) for name in "qk" for each in parts], 2).transpose(
            2, 0, 1
        )
    for number, each in enumerate(parts):
        (tmp_path / f"{number}.safetensors").write_bytes(file_of(each))
    inputs = [tmp_path / f"{number}.safetensors" for number in range(2)]
    gl.relayout_file(inputs, tmp_path / "out.safetensors", tensors={"q": rule})
    assert read_result(tmp_path / "out.safetensors")[0]["x"][2] == wanted.tobytes()


@pytest.mark.parametrize("second", ["f32[2,4]{0,1}", None])
def test_notes_that_differ_are_named_with_what_to_do(tmp_path, second):
    for number, (array, note) in enumerate([(A, "f32[3,4]{0,1}"), (A[:2], second)]):
        data = array if note is None else np.frombuffer(array.tobytes("F"), np.uint8)
        metadata = {} if note is None else {"gpulayout:x": note}
        (tmp_path / f"{number}.safetensors").write_bytes(file_of({"x": data}, metadata))
    said = (
        f"'f32[3,4]{{0,1}}' in .*0.safetensors and {'none' if second is None else repr(second)} in .*: gpulayout unpack"
    )
    inputs = [tmp_path / f"{number}.safetensors" for number in range(2)]
    with pytest.raises(gl.LayoutError, match=said.replace("[", r"\[").replace("{", r"\{")):
        gl.relayout_file(inputs, tmp_path / "out.safetensors", tensors={"x": "along=0"})


def test_a_name_in_as_that_differs_from_an_axis_in_its_case_is_not_bound_to_another(tmp_path):
    with pytest.raises(gl.LayoutError, match="has the name 'K': the names are k, n"):
        relayout(tmp_path, {"x": A}, {"x": "k n -> n k; as=U8[K*4,N]"})
    relayout(tmp_path, {"x": A}, {"x": "k n -> n k; as=U8[n*4,k]"})
