"""relayout keeps the dimensions where a .npy file can say the layout, and every file that it writes goes back."""

import itertools
import json
import os
import shlex

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support import strategies
from tests.support.command_line import failure, run

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", ARRAY)
    return tmp_path


def saved(array):
    """The file that NumPy writes."""
    np.save("numpy.npy", array)
    with open("numpy.npy", "rb") as file:
        return file.read()


def content(name):
    with open(name, "rb") as file:
        return file.read()


@pytest.mark.parametrize("source", ["C", "F"])
@pytest.mark.parametrize(
    "to, order",
    [
        ("C", "C"),
        ("F", "F"),
        ("{2,1,0}", "C"),
        ("{0,1,2}", "F"),
        ("f32[2,3,4]", "C"),
        ("f32[2,3,4]{0,1,2}", "F"),
        ("{0,1,2:PD(2,3,4)}", "F"),
        ("{2,1,0:T(3,4)}", "C"),
        ("torch:contiguous_format", "C"),
    ],
)
def test_c_and_fortran_order_give_the_file_that_numpy_saves(to, order, source, folder):
    np.save("array.npy", np.asarray(ARRAY, order=source))
    run("relayout", "array.npy", "out.npy", "--to", to)
    assert content("out.npy") == saved(np.asarray(ARRAY, order=order))


@pytest.mark.parametrize("to", ["{1,0,2}", "{0,1,2:PD(2,4,4)}", "{2,1,0:T(2,2)}", "{2,0,1}"])
def test_other_layouts_are_1_d_and_their_shape_is_printed(to, folder):
    text = run("relayout", "array.npy", "out.npy", "--to", to).stdout
    buffer = gl.pack(ARRAY, to)
    assert content("out.npy") == saved(buffer)
    assert f"out.npy  f32[2,3,4]{to}  {buffer.nbytes} bytes, dimensions ({buffer.size},)" in text
    assert text.splitlines()[-1].endswith(f"--from 'f32[2,3,4]{to}'")


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, 3], repeat=3)), ids=str)
def test_dimensions_of_0_and_1_are_kept_as_numpy_keeps_them(sizes, folder):
    """Where a dimension of 1 makes no difference, or there are no elements, many layouts are C or Fortran order."""
    array = np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes)
    np.save("array.npy", array)
    for order in itertools.permutations(range(3)):
        layout = gl.Layout(order)
        run("relayout", "array.npy", "out.npy", "--overwrite", "--to", layout)
        found, strided = np.load("out.npy"), array.transpose(order[::-1]).copy().transpose(np.argsort(order[::-1]))
        if strided.flags.c_contiguous or strided.flags.f_contiguous:
            assert content("out.npy") == saved(strided)
        else:
            np.testing.assert_array_equal(found, gl.pack(array, layout), strict=True)
        run("relayout", "out.npy", "back.npy", "--overwrite", "--from", gl.Shape("s16", sizes, layout), "--to", "C")
        np.testing.assert_array_equal(np.load("back.npy"), array, strict=True)


@pytest.mark.parametrize("array", [np.array(7.0), np.array([1, 2], np.int8)])
def test_rank_0_and_1_are_what_numpy_saves(array, folder):
    np.save("array.npy", array)
    for to in ("C", "F"):
        run("relayout", "array.npy", "out.npy", "--overwrite", "--to", to)
        assert content("out.npy") == saved(array)
        run("relayout", "out.npy", "back.npy", "--overwrite", "--from", gl.Shape(array.dtype, array.shape), "--to", to)
        assert content("back.npy") == saved(array)


def test_a_type_that_numpy_lacks_keeps_its_dimensions(folder):
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    np.save("array.npy", array)
    run("relayout", "array.npy", "out.npy", "--to", "bf16[2,3]{0,1}")
    found = np.load("out.npy")
    assert (
        found.shape == (2, 3) and found.flags.f_contiguous and found.view(ml_dtypes.bfloat16).tolist() == array.tolist()
    )


def test_packed_elements_are_bytes_and_stay_1_d(folder):
    array = np.arange(6).reshape(2, 3).astype(np.uint8)
    np.save("array.npy", array)
    run("relayout", "array.npy", "packed.npy", "--to", "u4[2,3]{1,0:E(4)}")
    assert np.load("packed.npy").shape == (3,)
    run("relayout", "packed.npy", "out.npy", "--from", "u4[2,3]{1,0:E(4)}", "--to", "{0,1}")
    assert content("out.npy") == saved(np.asfortranarray(array))
    run("relayout", "packed.npy", "turned.npy", "--from", "u4[2,3]{1,0:E(4)}", "--to", "F")  # an order keeps E(4)
    assert np.load("turned.npy").tolist() == [0x30, 0x41, 0x52]


@pytest.mark.parametrize("sizes", [(1, 1), (0, 3), (2, 0)])
def test_packed_elements_are_1_d_even_where_a_byte_holds_all(sizes, folder):
    array = np.zeros(sizes, np.uint8)
    np.save("array.npy", array)
    shape = gl.parse_shape(f"u4[{sizes[0]},{sizes[1]}]{{1,0:E(4)}}")
    run("relayout", "array.npy", "out.npy", "--to", shape)
    np.testing.assert_array_equal(np.load("out.npy"), gl.pack(array, shape), strict=True)


def test_more_dimensions_than_numpy_has_stay_1_d(folder):
    """NumPy reads no .npy file of more than 64 dimensions."""
    for rank in (64, 65):
        sizes = ",".join(["2"] * 3 + ["1"] * (rank - 3))
        np.save("in.npy", np.arange(8, dtype=np.uint8))
        run("relayout", "in.npy", "out.npy", "--overwrite", "--from", f"u8[{sizes}]", "--to", "C")
        assert np.load("out.npy").ndim == (64 if rank == 64 else 1)


def test_pack_is_1_d_in_every_layout_as_in_python(folder):
    for to in ("C", "F", "{1,0,2}"):
        text = run("pack", "array.npy", "out.npy", "--overwrite", "--to", to).stdout
        assert np.load("out.npy").shape == (24,) and "back to an N-d array" in text


def test_the_header_says_more_than_json_repeats(folder):
    run_ = json.loads(run("relayout", "array.npy", "out.npy", "--to", "F", "--json").stdout)
    assert (run_["output_dimensions"], run_["output_order"], run_["output_format"]) == ([2, 3, 4], "F", "npy")
    run_ = json.loads(run("relayout", "array.npy", "out.bin", "--to", "F", "--json").stdout)
    assert (run_["output_dimensions"], run_["output_order"], run_["output_format"]) == ([24], "C", "plain bytes")
    assert "dimensions (2, 3, 4), Fortran order\n" in run("relayout", "array.npy", "new.npy", "--to", "F").stdout


# ---- back again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [["unpack"], ["relayout", "--unpack"], ["relayout", "--to", "C"]])
def test_a_file_with_dimensions_is_the_buffer_of_its_shape(back, folder):
    """And so is a 1-D file of the same bytes."""
    command, *options = back
    run("relayout", "array.npy", "kept.npy", "--to", "F")
    run("pack", "array.npy", "flat.npy", "--to", "F")
    for name in ("kept.npy", "flat.npy"):
        run(command, name, "back.npy", "--overwrite", "--from", "f32[2,3,4]{0,1,2}", *options)
        assert content("back.npy") == saved(ARRAY)
    run("relayout", "kept.npy", "back.npy", "--overwrite", "--to", "C")
    assert content("back.npy") == saved(ARRAY)


@pytest.mark.parametrize(
    "order, shape",
    [
        ("C", "f32[2,3,4]{0,1,2}"),
        ("F", "f32[2,3,4]"),
        ("F", "f32[4,3,2]"),
        ("C", "f32[6,4]"),
        ("C", "f32[2,3,4]{2,1,0:PD(2,3,8)}"),
        ("C", "f32[24]"),
    ],
)
def test_an_n_d_file_in_another_order_or_of_other_sizes_is_not_the_buffer(order, shape, folder):
    np.save("array.npy", np.asarray(ARRAY, order=order))
    name = {"C": "C", "F": "Fortran"}[order]
    assert failure("relayout", "array.npy", "out.npy", "--from", shape, "--to", gl.parse_shape(shape).layout) == (
        f"array.npy: it holds an array of dimensions (2, 3, 4) in {name} order, which is not a buffer of "
        f"{gl.parse_shape(shape)}; gpulayout pack reads an N-d array, and so does gpulayout relayout without --from"
    )
    assert not os.path.exists("out.npy")


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_any_layout_goes_there_and_back(folder, data):
    sizes = data.draw(strategies.dimensions(max_rank=4, max_elements=100))
    layout = data.draw(strategies.tiled_layouts(sizes))
    array = np.arange(np.prod(sizes, dtype=int), dtype=np.int32).reshape(sizes)
    name = data.draw(st.sampled_from(["out.npy", "out.bin", "out"]))
    np.save("array.npy", np.asarray(array, order=data.draw(st.sampled_from("CF"))))
    run("relayout", "array.npy", name, "--overwrite", "--to", layout)
    shape = gl.Shape("s32", sizes, layout)
    kept = name.endswith(".npy") and np.load(name).shape == sizes
    assert content(name).endswith(gl.pack(array, shape).tobytes())
    options = [] if kept and np.load(name).ndim > 1 else ["--from", shape]
    run("relayout", name, "back.npy", "--overwrite", *options, "--to", "C")
    np.testing.assert_array_equal(np.load("back.npy"), array, strict=True)


# ---- plain bytes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.bin", "out", "out.f32", "out.npy.raw", "npy"])
def test_a_name_that_does_not_end_in_npy_means_plain_bytes(name, folder):
    for to in ("C", "F", "{1,0,2}"):
        for command in ("pack", "relayout"):
            text = run(command, "array.npy", name, "--overwrite", "--to", to).stdout
            layout = {"C": "{2,1,0}", "F": "{0,1,2}"}.get(to, to)
            assert content(name) == gl.pack(ARRAY, layout).tobytes() and "96 bytes, plain bytes\n" in text
            run(*shlex.split(text.splitlines()[-1].removeprefix("back to an N-d array:  "))[1:], "--overwrite")
            assert content("BACK.npy") == saved(ARRAY)
    run("unpack", name, "other.bin", "--from", "f32[2,3,4]{1,0,2}")
    assert content("other.bin") == ARRAY.tobytes()


@pytest.mark.parametrize("name", ["out.npy", "out.bin"])
def test_raw_writes_plain_bytes_under_any_name(name, folder):
    for to in ("{2,1,0}", "{0,1,2}", "{1,0,2}"):
        run("relayout", "array.npy", name, "--overwrite", "--raw", "--to", to)
        assert content(name) == gl.pack(ARRAY, to).tobytes()
        run("unpack", name, "back.npy", "--overwrite", "--raw", "--from", f"f32[2,3,4]{to}")
        assert content("back.npy") == saved(ARRAY)


def test_a_npy_file_keeps_its_header_under_any_name_when_it_is_read(folder):
    os.rename("array.npy", "array.dat")
    run("relayout", "array.dat", "out.npy", "--from", "f32[2,3,4]", "--to", "F")
    run("relayout", "array.dat", "same.npy", "--to", "F")
    assert content("out.npy") == content("same.npy") == saved(np.asfortranarray(ARRAY))


def test_plain_bytes_that_cannot_be_told_from_a_npy_file_are_refused_with_what_to_type(folder):
    (folder / "in.bin").write_bytes(b"\x93NUMPY" + bytes(18))
    options = ["--from", "u8[24]", "--to", "C"]
    assert failure("relayout", "in.bin", "out.bin", *options) == (
        "in.bin: not a .npy file that can be read: its format version is 0.0, not 1.0 or 2.0; plain bytes need --raw"
    )
    run("relayout", "in.bin", "out.bin", "--raw", *options)
    assert content("out.bin") == content("in.bin")
    (folder / "text").write_bytes(b"hello")
    assert failure("relayout", "text", "out.npy", "--to", "C").endswith(
        "; plain bytes need gpulayout relayout --from SHAPE"
    )
