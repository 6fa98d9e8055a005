"""Axes in reverse order, with layouts, splits and packed elements: the law is NumPy's flip, and then the pattern."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_cases import file_of, read_result

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def relayout(folder, array, rule):
    (folder / "in.safetensors").write_bytes(file_of({"x": array}))
    gl.relayout_file(folder / "in.safetensors", folder / "out.safetensors", tensors={"x": rule})
    return read_result(folder / "out.safetensors")


@pytest.mark.parametrize("names", [["x0", "x1", "x2"], "x{number}"])
@pytest.mark.parametrize("flip, axes", [("b", (1,)), ("b a", (0, 1)), ("a b c", (0, 1, 2))])
def test_a_split_by_an_axis_in_reverse_order(tmp_path, names, flip, axes):
    tensors, _ = relayout(tmp_path, A, {"to": "a b c -> b a c", "flip": flip, "split": names})
    for number, wanted in enumerate(np.flip(A, axes).transpose(1, 0, 2)):
        assert tensors[f"x{number}"] == ("F32", wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("layout", ["F", "{2,1,0:T(3)}", "{0,2,1}", "C"])
@pytest.mark.parametrize("pattern, flip", [("a b c -> b c a", "b"), ("a b c -> b a c", "a b"), ("a b c -> c b a", "a")])
def test_a_layout_of_a_result_in_reverse_order_is_right_or_refused(tmp_path, layout, pattern, flip):
    order = ["abc".index(each) for each in pattern.split("->")[1].split()]
    wanted = np.flip(A, ["abc".index(each) for each in flip.split()]).transpose(order)
    try:
        tensors, notes = relayout(tmp_path, A, {"to": [pattern, layout], "flip": flip})
    except gl.LayoutError as error:
        assert layout != "C" and "flip is for arrays in C order" in str(error)
        return
    assert tensors["x"][2] == gl.pack(wanted, layout).tobytes()
    assert layout == "C" or notes


@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (2, 4), (4, 2), (3, 8)])
def test_rows_of_packed_elements_are_whole_bytes_or_refused(tmp_path, shape):
    array = (np.arange(np.prod(shape)) % 4).reshape(shape).astype(ml_dtypes.uint2)
    text = f"u2[{shape[0]},{shape[1]}]{{1,0:E(2)}}"
    rule = {"from": text, "to": "a b -> a b", "flip": "a"}
    try:
        tensors, _ = relayout(tmp_path, np.frombuffer(gl.pack(array, "{1,0:E(2)}").tobytes(), np.uint8), rule)
    except gl.LayoutError as error:
        assert shape[1] % 4 and "parts are whole bytes" in str(error)
        return
    assert tensors["x"][2] == gl.pack(np.flip(array, 0), "{1,0:E(2)}").tobytes()
