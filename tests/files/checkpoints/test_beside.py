"""`beside=` in rules: the tensors that must stand beside others, and their sizes."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_files import NEEDS_SAFETENSORS
from tests.support.recipe_cases import awq_layer, gptq_layer
from tests.support.recipe_vectors import save_folder

pytestmark = NEEDS_SAFETENSORS
FROM = "from=gptq:qweight(dtype=u4); marlin:weights; beside="


def saved(folder, tensors, **config):
    kinds = {"float16": "F16", "int32": "I32"}
    save_folder(folder, {name: (kinds[str(each.dtype)], each) for name, each in tensors.items()}, config)
    return folder


@pytest.fixture
def layer(tmp_path):
    tensors, *_ = gptq_layer(np.random.default_rng(0), "up")  # 128 x 192, groups of 32
    return saved(tmp_path / "old", tensors)


@pytest.mark.parametrize(
    "text", [r"\1.scales[rows/32,columns]", r"\1.qzeros[rows/32,columns/8]", r"\1.scales[4,192]", "up.g_idx[rows]"]
)
def test_tensors_of_the_right_sizes_may_stand_beside(layer, tmp_path, text):
    done = gl.relayout_file(layer, tmp_path / "new", tensors={r"(.*)\.qweight": FROM + text})
    assert [each.moved for each in done.tensors] == [True, False, False, False]


@pytest.mark.parametrize(
    "text, problem",
    [
        (r"\1.scales[rows/64,columns]", r"tensor 'up.scales' has the sizes \(4, 192\), where .* wants \(2, 192\)"),
        (r"\1.scales[1,columns]", r"has the sizes \(4, 192\), where .* wants \(1, 192\)"),
        (r"\1.scales[columns]", r"wants \(192,\)"),
        (r"\1.scale[rows,columns]", "beside it there is no tensor 'up.scale'"),
        (r"\1.scales[rows/96,columns]", "rows/96 is 4/3 .*, not a whole number"),
        (r"\1.scales[k/32,n,m]", "does not suit it: the names are rows, columns; or write 2 names"),
        (r"\1.scales", "is not the name of a tensor and its sizes"),
        ("[1]", "is not the name of a tensor and its sizes"),
        (r"\2.scales[1]", "group"),
    ],
)
def test_other_sizes_are_errors_before_anything_is_written(layer, tmp_path, text, problem):
    with pytest.raises(gl.LayoutError, match=problem):
        gl.relayout_file(layer, tmp_path / "new", tensors={r"(.*)\.qweight": FROM + text})
    assert not (tmp_path / "new").exists()


def test_names_are_those_of_a_pattern_or_dimensions_in_order(layer, tmp_path):
    rules = {r"(.*)\.scales": {"to": "g n -> n g", "beside": [r"\1.g_idx[g*32]", r"\1.qzeros[g,n/8]"]}}
    gl.relayout_file(layer, tmp_path / "new", tensors=rules)
    rules = {r"(.*)\.scales": {"scale": 2, "beside": r"\1.qzeros[A,B/8]"}}
    gl.relayout_file(layer, tmp_path / "other", tensors=rules)
    with pytest.raises(gl.LayoutError, match="beside is 3, not a text or a list"):
        gl.relayout_file(layer, tmp_path / "bad", tensors={".*scales": {"scale": 2, "beside": 3}})


GPTQ = {"quant_method": "gptq", "bits": 4, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}


@pytest.mark.parametrize(
    "name, sizes",
    [("scales", (1, 256)), ("scales", (2, 128)), ("scales", (4, 256)), ("qzeros", (2, 16)), ("qzeros", (4, 32))],
)
def test_gptq_to_marlin_compares_the_groups_with_the_weights(name, sizes, tmp_path):
    tensors = {
        "up.qweight": np.zeros((32, 256), np.int32), "up.qzeros": np.full((2, 32), 0x77777777, np.int32),
        "up.scales": np.ones((2, 256), np.float16),
    }  # fmt: skip
    old = saved(tmp_path / "old", tensors, quantization_config={**GPTQ, "group_size": 128})
    gl.relayout_file(old, tmp_path / "new", recipe="gptq-to-marlin")
    tensors[f"up.{name}"] = np.full(sizes, tensors[f"up.{name}"].flat[0])
    old = saved(tmp_path / "other", tensors, quantization_config={**GPTQ, "group_size": 128})
    with pytest.raises(gl.LayoutError, match=f"beside it tensor 'up.{name}' has the sizes"):
        gl.relayout_file(old, tmp_path / "bad", recipe="gptq-to-marlin")


@pytest.mark.parametrize("group", [32, 64, 256])
def test_marlin_s_format_has_groups_of_128_or_whole_columns(group, tmp_path):
    tensors, *_ = gptq_layer(np.random.default_rng(0), "up")
    old = saved(tmp_path / "old", tensors, quantization_config={**GPTQ, "group_size": group})
    with pytest.raises(gl.LayoutError, match=f"group_size is {group}: Marlin's own format has groups of 128"):
        gl.relayout_file(old, tmp_path / "new", recipe="gptq-to-marlin")


def test_awq_to_marlin_knows_gptq_by_its_sizes(layer, tmp_path):
    """Also without a config.json: qweight of GPTQ would be read as that of another size."""
    (layer / "config.json").unlink()
    with pytest.raises(gl.LayoutError, match="tensor 'up.qweight' is .*rows/32 is 1/2 for rows=16"):
        gl.relayout_file(layer, tmp_path / "new", recipe="awq-to-marlin(group=32)")
    tensors, *_ = awq_layer(np.random.default_rng(0))
    old = saved(tmp_path / "awq", tensors)
    (old / "config.json").write_text("{}")
    (old / "quant_config.json").write_text('{"w_bit": 4, "q_group_size": 32, "zero_point": true, "version": "GEMM"}')
    gl.relayout_file(old, tmp_path / "new", recipe="awq-to-marlin")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 2), (2,), (256, 1), ()])
def test_scales_must_fill_the_blocks_that_a_rule_says(sizes, tmp_path):
    config = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    codes = np.ones((256, 256), np.uint8)
    for name, scale in (("right", (2, 2)), ("wrong", sizes)):
        tensors = {"a.weight": ("F8_E4M3", codes), "a.weight_scale_inv": ("F32", np.ones(scale, np.float32))}
        save_folder(tmp_path / name, tensors, {"quantization_config": config})
    gl.relayout_file(tmp_path / "right", tmp_path / "new", recipe="fp8-blocks-to-bf16")
    with pytest.raises(gl.LayoutError, match="along axis . it has 1 number, where block=128 needs 2|axis|shape"):
        gl.relayout_file(tmp_path / "wrong", tmp_path / "bad", recipe="fp8-blocks-to-bf16")
