"""Tensors of scales that rules measure: what new files hold, what is refused, and what is read and left behind."""

import json
import os

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints import measured_tensors
from gpulayout.files.errors import FileError
from tests.support.command_line import run
from tests.support.gguf_files import gguf_model
from tests.support.model_cases import Case, file_of, problems, read_result, relayout
from tests.support.model_files import NEEDS_SAFETENSORS, entry, raw

pytestmark = NEEDS_SAFETENSORS
BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(5)
A = RANDOM.normal(size=(6, 8)).astype(np.float32)
B = (RANDOM.normal(size=(5, 7)) * 9).astype(BF16)
C = RANDOM.normal(size=(4, 6, 8)).astype(np.float16)
ZERO = np.arange(6, dtype=np.int8).reshape(3, 2)
HEADS = RANDOM.normal(size=(12, 4)).astype(np.float32)
F8 = {"scale": "absmax/448", "block": [2, 4], "dtype": "f8e4m3fn", "scale_name": "{name}_s"}
S8 = {"scale": "absmax/127", "dtype": "s8", "scale_name": "{name}_s"}
HEADS_OF = {"to": "(three=3 h) i -> three h i"}
WHOLE = {key: value for key, value in F8.items() if key != "block"}
CASES = {
    "one weight": ([{"w": A}], {"w": F8}),
    "blocks that are cut at the end": ([{"w": B}], {"w": F8}),
    "one scale for a tensor, a single number": ([{"w": A, "v": B}], {"[wv]": WHOLE}),
    "one scale for a row": ([{"w": A}], {"w": {**S8, "block": [1, 8]}}),
    "a block larger than the tensor": ([{"w": A}], {"w": {**F8, "block": 1000}}),
    "a zero point": ([{"w": A}], {"w": {**S8, "zero_point": 3, "scale": "absmax/7.5"}}),
    "an own type of scales, of which the rounded ones divide": ([{"w": A}], {"w": {**F8, "scale_dtype": "bf16"}}),
    "all other types, but not that of scales": ([{"w": A, "v": B}], {"w": {**F8, "dtype": "f32"}}, "f16"),
    "all other types, but not that of scales with a rule": (
        [{"w": A}],
        {"w": {**F8, "dtype": "f32"}, "w_s": {"to": "a b -> b a"}},
        "f16",
    ),
    "a zero point of the file": ([{"w": A, "z": ZERO}], {"w": {**S8, "block": [2, 4], "zero_point": "z"}}),
    "a zero point that is quantised itself": (
        [{"w": A, "z": A[::2, ::4] * 9}],
        {
            "w": {**S8, "block": [2, 4], "zero_point": "z"},
            "z": {**S8, "block": 2, "zero_point": 1, "scale": "absmax/7"},
        },
    ),
    "scales that are stored in another order": (
        [{"w": A}],
        {"w": {**F8, "to": "n k -> k n"}, "w_s": {"to": "a b -> b a"}},
    ),
    "scales in another layout": ([{"w": A}], {"w": F8, "w_s": {"to": "{0,1:T(2,4)}"}}),
    "scales with other names": (
        [{"a.w": A, "b.w": B}],
        {r"(.)\.w": {**F8, "scale_name": r"\1.s"}, r"(.)\.s": {"name": r"s.\1"}},
    ),
    "scales that are left out": ([{"w": A}], {"w": F8, ".*_s": {"drop": True}}),
    "weights that are left out, which gives their scales": ([{"w": A}], {"w": {**S8, "block": 2, "drop": True}}),
    "a join of weights, and of scales": (
        [{"q": A, "k": A[:2] * 3, "v": A[:3] * 7}],
        {
            "q": {**F8, "join": "q,k,v", "along": 0, "name": "qkv"},
            "q_s": {"join": "q_s,k_s,v_s", "along": 0, "name": "qkv_s"},
        },
    ),
    "a join along the other axis": (
        [{"q": A, "k": A[:, :4] * 3}],
        {"q": {**F8, "join": "q,k", "along": 1, "name": "qk"}, "q_s": {"join": "q_s,k_s", "along": -1, "name": "qk_s"}},
    ),
    "weights in turns": (
        [{"q": A, "k": A * 3}],
        {"q": {**F8, "block": [1, 8], "join": "q,k", "along": 0, "interleave": True, "name": "qk"}},
    ),
    "a stack of joins": (
        [{f"{n}.{w}": C[n] * (n + 1) for n in range(4) for w in ("w1", "w3")}],
        {
            r"(\d)\.w1": {**F8, "join": r"\1.w1,\1.w3", "along": 0, "stack": "w13"},
            r"(\d)\.w1_s": {"join": r"\1.w1_s,\1.w3_s", "along": 0, "stack": "w13_s"},
        },
    ),
    "a share": ([{"w": A}], {"w": {**F8, "shard": "1/3", "along": 0}, "w_s": {"shard": "1/3", "along": 0}}),
    "a share of one block": ([{"w": A}], {"w": {**F8, "block": [4, 8], "shard": "1/2", "along": 1}}),
    "pieces": ([{"w": A[:2]}, {"w": A[2:] * 5}], {"w": {**F8, "along": 0}, "w_s": {"along": 0}}),
    "pieces whose scales are left out": (
        [{"w": A[:2]}, {"w": A[2:]}],
        {"w": {**F8, "along": 0}, "w_s": {"drop": True}},
    ),
    "a tensor that two files have": ([{"w": A, "v": B}, {"w": A}], {"w": F8}),
    "shards": ([[{"w": A}, {"v": B, "z": B}, {"u": C}]], {"[wv]": F8}),
    "experts in one tensor": ([{"w": C}], {"w": {**F8, "block": [1, 4, 4]}}),
    "a split into the indices of an axis": (
        [{"w": C}],
        {"w": {**F8, "block": [1, 4, 4], "split": "{number}.w"}, "w_s": {"split": "{number}.w_s"}},
    ),
    "a split along an axis": (
        [{"w": A}],
        {"w": {**F8, "split": "q,k,v", "along": 0}, "w_s": {"split": "q_s,k_s,v_s", "along": 0}},
    ),
    "heads inside of an axis": (
        [{"w": HEADS}],
        {"w": {**F8, **HEADS_OF, "split": "q,k,v"}, "w_s": {**HEADS_OF, "split": "qs,ks,vs"}},
    ),
    "bits that are floats": ([{"w": A.view(np.uint32)}], {"w": {**F8, "from": "f32"}}),
    "a sibling of another tensor, whatever its own rule says": (
        [{"w": A, "v": A}],
        {"w": F8, "w_s": {"to": "a b -> b a"}, "v": {"scale": "w_s", "block": [2, 4], "dtype": "f32"}},
    ),
    "scales that are powers of two": ([{"w": A}], {"w": {**F8, "scale_dtype": "F8_E8M0"}}),
    "a share of no rows": ([{"w": A[:0]}], {"w": {**F8, "shard": "0/2", "along": 0}}),
    "no elements": ([{"w": A[:0], "v": A[:, :0]}], {"[wv]": F8}),
    "a single number": ([{"w": A[0, 0]}], {"w": WHOLE}),
    "one dimension": ([{"w": A[0]}], {"w": {**F8, "block": 3}}),
    "zeros": ([{"w": A * 0}], {"w": F8}),
}


@pytest.mark.parametrize("way", ["mapping", "text", "map"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_model_says(tmp_path, name, way):
    inputs, rules, *dtype = CASES[name]
    to_index = isinstance(inputs[0], list)
    assert problems(tmp_path, Case(inputs, rules, way, to_index, *(dtype or [None]), None)) == []


JOIN = {**F8, "join": "q,k", "along": 0, "name": "qk"}


@pytest.mark.parametrize(
    "inputs, rules, message",
    [
        (
            [{"w": A.astype(np.int32)}],
            {"w": F8},
            "'w', I32.6,8.: scale=absmax/448 is for f16, bf16, f32, f64, not for s32",
        ),
        (
            [{"w": C}],
            {"w": {**F8, "block": 128}},
            "block=128 does not say whether the first of 3 .* such as block=1,128,128",
        ),
        ([{"w": A}], {"w": {**F8, "block": [1, 2, 3]}}, "'w', F32.6,8.: block .* has 3 numbers"),
        ([{"w": A}], {"w": {**F8, "block": 0}}, "'w', F32.6,8.: block 0 has 0 for dimension 0"),
        (
            [{"w": A, "w_s": B}],
            {"w": F8},
            "scale_name '{name}_s' is 'w_s' for tensor 'w', and the file has a tensor of this",
        ),
        (
            [{"w": A, "v": B}],
            {"[wv]": {**F8, "scale_name": "s"}},
            "is 's' for tensor 'w' and for tensor 'v': write {name}",
        ),
        (
            [{"q": A, "k": A}],
            {"(q)": {**JOIN, "scale_name": r"\1_s"}},
            "is 'q_s' for tensor 'q' and for tensor 'k': write",
        ),
        (
            [{"w": A}],
            {"w": F8, "w_s": {"dtype": "f16"}},
            "'w' are divided by it as it is measured: .* write scale_dtype=",
        ),
        ([{"w": A}], {"w": F8, "w_s": {"scale": 2}}, "changes the elements of tensor 'w_s', but those of tensor 'w'"),
        (
            [{"w": A[:2]}, {"w": A[2:]}],
            {"w": {**F8, "along": 0}},
            "'w_s' is measured from each of 2 pieces of tensor 'w'",
        ),
        (
            [{"w": A[:3]}, {"w": A[3:]}],
            {"w": {**F8, "along": 0}},
            "cuts or joins within a block of 2, so that blocks have 1",
        ),
        (
            [{"q": A[:, :6], "k": A}],
            {"q": {**JOIN, "along": 1}},
            "along=1 cuts or joins within a block of 4, so that blocks have 2",
        ),
        ([{"q": A[:3], "k": A}], {"q": JOIN}, "along=0 cuts or joins within a block of 2, so that blocks have 1"),
        (
            [{"w": A}],
            {"w": {**F8, "block": [4, 4], "shard": "1/2", "along": 0}},
            "within a block of 4, so that blocks have 1",
        ),
        ([{"w": A}], {"w": F8, "w_s": {"shard": "0/4", "along": 0}}, "3 .* 4"),
        ([{"w": A}], {"w": {**F8, "divide": False}}, "leave out divide=false"),
        ([{"w": A}], {"w": {**F8, "mean": 1}}, "'w', F32.6,8."),
        (
            [{"w": A}],
            {"w": {**F8, "scale_dtype": "f8e5m2"}},
            "scale_dtype 'f8e5m2' is not one of f16, bf16, f32, f64, f8e8m0fnu",
        ),
        ([{"w": A}], {"w": {**F8, "scale_name": 7}}, "scale 'absmax/448' has no name in scale_name=7"),
        ([{"w": A}], {"w": {**F8, "scale_name": "*_s"}}, "has no name in scale_name='[*]_s'"),
        ([{"w": A}], {"w": {**F8, "scale": 2}}, "scale_name is for scale=absmax/NUMBER, which measures the scale"),
        (
            [{"w": A}],
            {"w": {**F8, "scale": "absmax:448"}},
            "scale 'absmax:448' is not absmax/NUMBER, such as absmax/448",
        ),
        (
            [{"w": A}],
            {"w": F8, "w_s": {"expect": 1, "name": "s"}},
            "expect is for tensors of the file, and tensor 'w_s'",
        ),
        ([{"w": A}], {"w": F8, "w_S": {"drop": True}}, "'w_S' fits no tensor"),
        (
            [{"w": A, "w_scale": B}],
            {"w": {**F8, "scale_name": "__metadata__"}},
            "the format keeps that name for itself",
        ),
    ],
)
def test_what_is_refused_before_anything_is_measured(tmp_path, monkeypatch, inputs, rules, message):
    monkeypatch.delattr(measured_tensors, "scales_of")
    with pytest.raises((gl.LayoutError, TypeError), match=message):
        relayout(tmp_path, Case(inputs, rules, "mapping", False, None, None))
    assert os.listdir(tmp_path / "out") == []


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of({"w": A, "v": B, "rest": C}))
    return path


def test_a_dry_run_reads_nothing(file, monkeypatch):
    monkeypatch.delattr(measured_tensors, "scales_of")
    monkeypatch.delattr(measured_tensors, "scratch_file")
    done = gl.relayout_file(file, file.with_name("b.safetensors"), tensors={"[wv]": F8, "w_s": "drop"}, dry_run=True)
    rows = {each.name: (each.new_name, each.before, each.after, each.measured) for each in done.tensors}
    assert rows == {
        "rest": ("rest", "F16[4,6,8]", "F16[4,6,8]", False),
        "w": ("w", "F32[6,8]", "F8_E4M3[6,8]", False),
        "w_s": (None, "F32[3,2]", "F32[3,2]", True),
        "v": ("v", "BF16[5,7]", "F8_E4M3[5,7]", False),
        "v_s": ("v_s", "F32[3,2]", "F32[3,2]", True),
    }
    assert os.listdir(file.parent) == ["a.safetensors"]


def test_a_dry_run_reads_no_zero_point_that_needs_scales(file, monkeypatch):
    """Others are read, and must be in the range of their type."""
    monkeypatch.delattr(measured_tensors, "scales_of")
    file.write_bytes(file_of({"w": A, "z": A[::2, ::4], "v": A, "v_z": ZERO.astype(np.int32) * 50}))
    rule = {**S8, "block": [2, 4], "zero_point": "z"}
    rules = {"w": rule, "z": {**S8, "block": 2, "zero_point": 1}}
    gl.relayout_file(file, file.with_name("b.safetensors"), tensors=rules, dry_run=True)
    with pytest.raises(gl.LayoutError, match="zero_point 250 is outside the range of s8"):
        gl.relayout_file(
            file, file.with_name("b.safetensors"), tensors={"v": {**rule, "zero_point": "v_z"}}, dry_run=True
        )


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("rules", [{"w": F8}, {"w": {**F8, "drop": True}}, {"w": F8, "w_s": {"drop": True}}])
def test_a_tensor_with_no_number_leaves_nothing(file, value, rules):
    wrong = A.copy()
    wrong[4, 5] = value
    file.write_bytes(file_of({"w": wrong}))
    with pytest.raises(
        gl.LayoutError, match=r"tensor 'w', F32.6,8.: element .4, 5. is .*, of which scale=absmax/448 makes no"
    ):
        gl.relayout_file(file, file.with_name("b.safetensors"), tensors=rules)
    assert os.listdir(file.parent) == ["a.safetensors"]


def test_a_tensor_that_rules_do_not_measure_may_hold_anything(file):
    file.write_bytes(file_of({"w": A, "v": A * np.nan}))
    gl.relayout_file(file, file.with_name("b.safetensors"), tensors={"w": F8})


def test_progress_counts_what_is_read_to_measure(file):
    seen = []
    done = gl.relayout_file(
        file, file.with_name("b.safetensors"), tensors={"[wv]": F8}, progress=lambda *each: seen.append(each)
    )
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written
    scales = 2 * 3 * 2 * 4
    assert done.bytes_read == 2 * (A.nbytes + B.nbytes) + C.nbytes + scales
    assert done.bytes_written == A.size + B.size + C.nbytes + scales


@pytest.mark.parametrize("after", [0, 400, 900])
def test_an_exception_leaves_nothing(file, after):
    def stop(done, total):
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gl.relayout_file(file, file.with_name("b.safetensors"), tensors={"[wv]": F8}, progress=stop)
    assert os.listdir(file.parent) == ["a.safetensors"]


def test_a_file_that_becomes_shorter_is_an_error(file, monkeypatch):
    measure = measured_tensors.scales_of

    def cut_first(*given):
        os.truncate(file, file.stat().st_size - C.nbytes - 1)  # within v
        return measure(*given)

    monkeypatch.setattr(measured_tensors, "scales_of", cut_first)
    with pytest.raises(FileError, match="become shorter while it was read"):
        gl.relayout_file(file, file.with_name("b.safetensors"), tensors={"v": F8})
    assert os.listdir(file.parent) == ["a.safetensors"]


def test_each_part_that_is_read_is_small(file, monkeypatch):
    """Also of a tensor that is larger than the limit, of which each byte is read twice: to measure, and to move."""
    large = RANDOM.normal(size=(3000, 500)).astype(np.float32)
    file.write_bytes(file_of({"w": large}))
    parts, read = [], measured_tensors.read_tensor
    monkeypatch.setattr(measured_tensors, "read_tensor", lambda *given: parts.append(given[2]) or read(*given))
    rules = {"w": {**F8, "block": 128}}
    gl.relayout_file(file, file.with_name("b.safetensors"), tensors=rules, max_bytes="256K")
    assert sum(parts) == large.nbytes and max(parts) <= 1 << 16
    found, _ = read_result(file.with_name("b.safetensors"))
    whole = file.with_name("c.safetensors")
    gl.relayout_file(file, whole, tensors=rules)
    assert found == read_result(whole)[0]


def test_the_scales_go_to_the_shard_of_their_weight(tmp_path):
    case = Case([[{"w": A}, {"v": B, "z": B}, {"u": C}]], {"[wv]": F8}, "mapping", True, None, None)
    places = json.loads(relayout(tmp_path, case).read_text())["weight_map"]
    assert places["w_s"] == places["w"] != places["v"] == places["v_s"]


def test_a_rule_that_measures_is_not_for_scales(file):
    """Else there would be scales of scales without end."""
    done = gl.relayout_file(file, file.with_name("b.safetensors"), tensors={".*": WHOLE})
    assert {each.name: each.after for each in done.tensors if each.measured} == dict.fromkeys(
        ("rest_s", "w_s", "v_s"), "F32[]"
    )


def test_the_command_says_what_is_measured(file, tmp_path):
    command = ["relayout", file, tmp_path / "b.safetensors"]
    command += ["--tensor", "[wv]=scale=absmax/448; block=2; dtype=f8e4m3fn; scale_name={name}_s"]
    rows = {line.split()[0]: line.split()[-1] for line in run(*command, "--dry-run").output.splitlines() if line}
    assert {name: rows[name] for name in ("w", "w_s", "v", "v_s", "rest")} == {
        "w": "moved", "w_s": "measured", "v": "moved", "v_s": "measured", "rest": "copied",
    }  # fmt: skip
    told = run(*command).output
    assert "5 tensors: 2 moved, 2 measured, 1 copied" in told and "used by arithmetic" not in told
    told = run(*command, "--tensor", ".*_s=drop", "--overwrite").output
    assert "5 tensors: 2 moved, 1 copied, 2 left out" in told


def test_a_strict_map_needs_a_rule_for_scales(file, tmp_path):
    rules = tmp_path / "rules.toml"
    text = "strict = true\n[[tensor]]\nmatch = 'rest'\nkeep = true\n" + "[[tensor]]\nmatch = '[wv]'\nscale = 'absmax'\n"
    text += "scale_name = '{name}.scale'\nscale_dtype = 'f16'\nblock = 2\ndtype = 's8'\n"
    rules.write_text(text)
    with pytest.raises(gl.LayoutError, match="has no rule for tensor 'w.scale', F16.3,4.: add one of your own"):
        gl.relayout_file(file, tmp_path / "b.safetensors", tensors=rules)
    rules.write_text(text + "[[tensor]]\nmatch = '.*scale'\nto = 'n g -> g n'\n")
    done = gl.relayout_file(file, tmp_path / "b.safetensors", tensors=rules)
    assert {each.after for each in done.tensors if each.measured} == {"F16[4,3]"}


def test_types_are_named_as_the_format_or_numpy_does(file):
    out = file.with_name("b.safetensors")
    for dtype in ("F16", "f16", np.float16, np.dtype("float16"), "float16"):
        done = gl.relayout_file(file, out, tensors={"w": {**F8, "scale_dtype": dtype}}, dry_run=True)
        assert [each.after for each in done.tensors if each.measured] == ["F16[3,2]"]


def test_weights_of_a_gguf_file(tmp_path):
    (tmp_path / "a.gguf").write_bytes(gguf_model({"blk.0.up.weight": ("F16", C[0].shape, C[0].tobytes())}))
    rules = {r"(.*)\.weight": {**F8, "scale_name": r"\1.weight_scale"}}
    gl.relayout_file(tmp_path / "a.gguf", tmp_path / "b.safetensors", tensors=rules)
    (tmp_path / "c.safetensors").write_bytes(file_of({"blk.0.up.weight": C[0]}))
    gl.relayout_file(tmp_path / "c.safetensors", tmp_path / "d.safetensors", tensors=rules)
    assert read_result(tmp_path / "b.safetensors")[0] == read_result(tmp_path / "d.safetensors")[0]


@pytest.mark.parametrize("shape", [[0], [0, 1 << 62], [1 << 62, 0], [1 << 40, 0, 1 << 22], [0] * 60])
def test_sizes_that_a_hostile_header_may_have(tmp_path, shape):
    header = {"w": entry("F32", shape, 0, 0)}
    (tmp_path / "a.safetensors").write_bytes(raw(header))
    for block in (None, [1] * len(shape), [3] * len(shape)):
        rule = {"scale": "absmax", "scale_name": "s", "dtype": "s8"} | ({} if block is None else {"block": block})
        try:
            gl.relayout_file(
                tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={"w": rule}, overwrite=True
            )
        except gl.LayoutError as error:
            assert "w" in str(error)


RANKS = r"""# A part of the quantised weights for each rank.
from = 'a model'
to = 'parts'
output = 'rank${rank}.safetensors'

[values]
ranks = ['2']

[[tensor]]
match = 'w'
scale = 'absmax/448'
block = [1, 4]
dtype = 'f8e4m3fn'
scale_name = '{name}_s'
shard = '${rank}/${ranks}'
along = 0

[[tensor]]
match = 'w_s'
shard = '${rank}/${ranks}'
along = 0
"""


def test_several_new_files_share_what_is_measured(file, tmp_path, monkeypatch):
    (tmp_path / "ranks.toml").write_text(RANKS)
    measured, measure, seen = [], measured_tensors.scales_of, []
    monkeypatch.setattr(measured_tensors, "scales_of", lambda *given: measured.append(given) or measure(*given))
    done = gl.relayout_file(
        file, tmp_path / "new", recipe=tmp_path / "ranks.toml", progress=lambda *each: seen.append(each)
    )
    assert len(measured) == 1 and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written
    for rank in range(2):
        wanted = {"w": {**F8, "block": [1, 4], "shard": f"{rank}/2 along=0"}, "w_s": {"shard": f"{rank}/2 along=0"}}
        one = tmp_path / f"{rank}.safetensors"
        gl.relayout_file(file, one, tensors=wanted)
        assert read_result(tmp_path / "new" / f"rank{rank}.safetensors")[0] == read_result(one)[0]


def test_an_error_names_its_tensor_once(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    weight = np.ones((4, 4), np.float32)
    weight[1, 2] = np.nan
    safetensors.save_file({"a.weight": weight}, tmp_path / "a.safetensors")
    rule = "scale=absmax/448; block=2; dtype=f8e4m3fn; scale_name={name}_scale"
    with pytest.raises(gl.LayoutError) as caught:
        gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={".*weight": rule})
    assert str(caught.value).count("tensor 'a.weight', F32[4,4]") == 1 and "(1, 2)" in str(caught.value)
