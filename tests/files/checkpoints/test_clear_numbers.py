"""What could be taken in two ways is an error that says what to write, before a byte is written.

Each of these wrote numbers that look right: scales of blocks that were guessed, of another tensor, in another type, or
for rows in another order.
"""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_cases import read_result
from tests.support.model_files import NEEDS_SAFETENSORS

DTYPES = {"F32": np.float32, "I32": np.int32, "F8_E4M3": ml_dtypes.float8_e4m3fn}

pytestmark = NEEDS_SAFETENSORS


def relayout(folder, tensors, rules, inputs=None):
    from safetensors.numpy import save_file

    inputs = inputs or {"a": tensors}
    paths = []
    for name, each in inputs.items():
        paths.append(folder / f"{name}.safetensors")
        save_file(each, paths[-1])
    gl.relayout_file(paths, folder / "out.safetensors", tensors=rules, overwrite=True)
    found, _ = read_result(folder / "out.safetensors")
    return {name: np.frombuffer(data, DTYPES[dtype]).reshape(shape) for name, (dtype, shape, data) in found.items()}


def refused(folder, tensors, rules, message, inputs=None):
    with pytest.raises(gl.LayoutError, match=message):
        relayout(folder, tensors, rules, inputs)
    assert not (folder / "out.safetensors").exists()


def ones(*dimensions, dtype=np.float32):
    return np.ones(dimensions, dtype)


@pytest.mark.parametrize("sizes, clear", [((300,), False), ((384,), True), ((6,), True), ((3,), True), ((9,), False)])
def test_blocks_that_are_no_power_of_two_have_to_be_said(tmp_path, sizes, clear):
    weight, scale = ones(2, *sizes), np.array([[1, 2, 3]] * 2, np.float32)
    rule = {"w": "scale=s", "s": "drop"}
    if clear:
        found = relayout(tmp_path, {"w": weight, "s": scale}, rule)["w"]
        assert found[0].tolist() == np.repeat([1, 2, 3], sizes[0] // 3).tolist()
        return
    refused(tmp_path, {"w": weight, "s": scale}, rule, "add block=, which says how many elements share a number")
    size = sizes[0] // 3
    found = relayout(tmp_path, {"w": weight, "s": scale}, {"w": f"scale=s; block=1,{size}", "s": "drop"})["w"]
    assert found[0].tolist() == np.repeat([1, 2, 3], size).tolist()


def test_scales_and_zero_points_of_other_shapes_are_a_wrong_type(tmp_path):
    tensors = {"w": ones(8, 8, dtype=np.uint8), "s": ones(2, 8), "z": ones(2, 4, dtype=np.uint8)}
    rules = {"w": "scale=s; zero_point=z; dtype=f32"}
    refused(
        tmp_path,
        tensors,
        rules,
        r"scale and zero_point are tensor 's' of shape \(2, 8\) and tensor 'z' of shape \(2, 4\)",
    )


def test_parts_of_a_join_have_their_own_numbers(tmp_path):
    tensors = {name: ones(4, 4) for name in ("q.w", "k.w")} | {"q.s": ones(1, 1), "k.s": 2 * ones(1, 1)}
    rules = {r"q\.w": r"join=q.w,k.w; along=0; name=qk; scale=q.s", r".\.s": "drop"}
    refused(tmp_path, tensors, rules, "scale is tensor 'q.s' for several of them: write {name} or")
    rules[r"q\.w"] = "join=q.w,k.w; along=0; name=qk; scale=*s"
    assert relayout(tmp_path, tensors, rules)["qk"][:, 0].tolist() == [1] * 4 + [2] * 4


def test_a_scale_to_codes_and_from_codes_says_the_type_and_the_way(tmp_path):
    f8 = ml_dtypes.float8_e4m3fn
    codes = {"w": ones(4, 4, dtype=f8), "s": 4 * ones(1, 1)}
    refused(tmp_path, codes, {"w": "scale=s"}, "write dtype=bf16, or dtype=f8e4m3fn if you mean that")
    assert relayout(tmp_path, codes, {"w": "scale=s; dtype=f32"})["w"][0, 0] == 4
    (tmp_path / "out.safetensors").unlink()
    wide = {"w": ones(4, 4), "s": 4 * ones(1, 1)}
    refused(tmp_path, wide, {"w": "scale=s; dtype=f8e4m3fn"}, "write divide, which divides by the scale")
    for part, value in (("divide", 0.25), ("divide=false", 4)):
        assert relayout(tmp_path, wide, {"w": f"scale=s; dtype=f8e4m3fn; {part}"})["w"][0, 0] == value


def test_along_without_what_it_is_for(tmp_path):
    for rule in ("along=0", "stack=w; along=1", "o i -> i o; along=o"):
        refused(
            tmp_path, {"a.0": ones(2, 2)}, {r"a\.(\d)": rule}, "here is one input: say what is meant, such as shard=0/2"
        )


def test_pieces_come_in_the_order_of_their_numbers(tmp_path):
    def inputs(*numbers):
        return {f"rank{each}": {"w": ones(1, 2) * each} for each in numbers}

    for wrong in ((0, 10, 2), (1, 0)):
        refused(tmp_path, None, {"w": "along=0"}, "the inputs are numbered", inputs(*wrong))
    assert relayout(tmp_path, None, {"w": "along=0"}, inputs(0, 2, 10))["w"][:, 0].tolist() == [0, 2, 10]
    assert relayout(tmp_path, None, {"w": "along=0"}, {"b": {"w": ones(1, 2)}, "a": {"w": ones(1, 2)}})["w"].shape == (
        2,
        2,
    )


def test_numbers_of_the_whole_beside_pieces(tmp_path):
    inputs = {"r0": {"w": ones(2, 2), "s": np.array([[1], [2]], np.float32)}, "r1": {"w": ones(2, 2)}}
    refused(
        tmp_path, None, {"w": "along=0; scale=s"}, "'w' is in pieces, and scale is tensor 's', which is whole", inputs
    )
    inputs["r0"]["s"] = np.array([[3]], np.float32)
    assert relayout(tmp_path, None, {"w": "along=0; scale=s"}, inputs)["w"].tolist() == [[3, 3]] * 4


@pytest.mark.parametrize(
    "groups, message",
    [
        (np.arange(64) // 16, None),
        (np.arange(64)[::-1] // 16, r"rows in the order of tensor 'l.g_idx' \(act-order, desc_act\)"),
        (np.arange(32) // 16, "has 64 rows, but tensor 'l.g_idx' has 32 numbers, one for each row"),
    ],
)
def test_the_order_of_gptq_s_rows(tmp_path, groups, message):
    tensors = {"l.qweight": ones(8, 64, dtype=np.int32), "l.g_idx": groups.astype(np.int32)}
    rules = {r"l\.qweight": "from=gptq:qweight(dtype=u4); marlin:weights", r"l\.g_idx": "drop"}
    if message is not None:
        return refused(tmp_path, tensors, rules, message)
    assert relayout(tmp_path, tensors, rules)["l.qweight"].shape == (4, 128)
