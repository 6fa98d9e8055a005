"""Layouts by name on the command line: `--to F` and the like are the layouts that their libraries mean."""

import json

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, refusal, run

NAMES = {  # for f32[2,3,4,5]
    "C": "{3,2,1,0}",
    "F": "{0,1,2,3}",
    "torch:contiguous_format": "{3,2,1,0}",
    "torch:channels_last": "{1,3,2,0}",
    "cute:(2,3,4,5):(1,2,6,24)": "{0,1,2,3}",
    "named:NHWC:NCHW": "{1,3,2,0}",
    "named:nchw2c:nchw": "{3,2,1,0:T(2,1,1)}",
    "named:NHWC:NHWC": "{3,2,1,0}",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5))
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_name_packs_an_array_and_moves_a_buffer(name, folder):
    layout = NAMES[name]
    array = np.load("array.npy")
    wanted = gl.pack(array, f"f32[2,3,4,5]{layout}")
    for command in ("pack", "relayout"):
        run(command, "array.npy", "packed.npy", "--to", name, "--overwrite")
        np.testing.assert_array_equal(np.load("packed.npy").ravel("K"), wanted, strict=True)
    np.save("buffer.npy", gl.pack(array, "f32[2,3,4,5]{2,3,1,0}"))
    run("relayout", "buffer.npy", "moved.npy", "--from", "f32[2,3,4,5]{2,3,1,0}", "--to", name)
    np.testing.assert_array_equal(np.load("moved.npy").ravel("K"), wanted, strict=True)


def test_a_nested_cute_layout(folder):
    """Dimension 2 is 2 * high + low; memory has high, dimension 3, low, dimension 1, dimension 0, the last fastest."""
    run("relayout", "array.npy", "packed.npy", "--to", "cute:(2,3,(2,2),5):(1,2,(6,60),12)")
    wanted = np.load("array.npy").reshape(2, 3, 2, 2, 5).transpose(2, 4, 3, 1, 0).ravel()
    np.testing.assert_array_equal(np.load("packed.npy"), wanted, strict=True)


def test_a_name_of_a_fortran_file_is_about_the_logical_array(folder):
    np.save("fortran.npy", np.asfortranarray(np.load("array.npy")))
    run("relayout", "fortran.npy", "packed.npy", "--to", "F")
    packed = np.load("packed.npy")
    np.testing.assert_array_equal(packed, np.load("array.npy"), strict=True)
    assert packed.flags.f_contiguous


def test_explain_takes_names():
    for name in ("F", "torch:channels_last"):
        found = json.loads(run("explain", "f32[2,3,4,5]", name, "--json").stdout)
        assert found["target"] == f"f32[2,3,4,5]{NAMES[name]}"


@pytest.mark.parametrize("name", ["f", "c", "K", "channels_last", "torch:chanels_last", "torch:", "cuda:(2,3)", "nhwc"])
def test_a_misspelled_name_is_answered_with_the_names(name, folder):
    for arguments in (["relayout", "array.npy", "out.npy", "--to", name], ["explain", "f32[2,3]", name]):
        message = refusal(*arguments)
        assert f"{name!r} is neither a layout, such as {{1,0}}, nor a pattern, such as" in message
        assert ", nor the name of one: names are C, F, torch:" in message
        assert "torch:channels_last_3d, cute:SIZES:STRIDES, named:NHWC:NCHW" in message
    assert list(folder.iterdir()) == [folder / "array.npy"]


def test_text_after_cute_is_read_before_a_file_is_opened(folder):
    assert "expected ')', at character 4" in refusal("relayout", "no.npy", "out.npy", "--to", "cute:(2,3")
    assert "mode 1 has stride 0" in refusal("explain", "f32[2,3]", "cute:(2,3):(1,0)")
    assert "named:NHWC' does not say the order" in refusal("explain", "f32[2,3]", "named:NHWC")
    assert "name 'NHW' has no dimension C" in refusal("explain", "f32[2,3]", "named:NHW:NCHW")
    assert "swizzled" in refusal("explain", "f32[2,3]", "cute:Sw<3,4,3> o 0 o (2,3):(3,1)")


def test_a_name_for_other_dimensions_fails(folder):
    for arguments in (["relayout", "array.npy", "out.npy", "--to"], ["explain", "f32[2,3,4,5]"]):
        message = failure(*arguments, "cute:(2,3):(1,2)")
        assert message == "cute:(2,3):(1,2) has sizes (2, 3), but the array has (2, 3, 4, 5)"
        message = failure(*arguments, "named:HWC:CHW")
        assert message == "named:HWC:CHW has 3 dimensions, but the array has 4: (2, 3, 4, 5)"
        message = failure(*arguments, "torch:channels_last_3d")
        assert message == "memory_format channels_last_3d is for 5 dimensions, not 4"
    assert list(folder.iterdir()) == [folder / "array.npy"]


def test_a_buffer_needs_a_whole_shape(folder):
    message = refusal("relayout", "array.npy", "out.npy", "--from", "F", "--to", "C")
    assert "--from 'F' is only a layout" in message and "write the whole shape" in message
