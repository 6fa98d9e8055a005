"""`gpulayout show FILE.npy`: the layout of the array in a file, from its header alone."""

import io
import json
import os
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.main import commands
from tests.support.command_line import failure, refusal, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3, 4), np.float32),
        np.zeros((2, 3, 4), np.float32, order="F"),
        np.array(7.0),
        np.zeros(5, np.uint8),
        np.zeros((0, 3), np.int16),
        np.ones((2, 2), bool),
        np.ones((1, 3), np.complex64),
    ],
    ids=["C", "Fortran", "0-d", "1-d", "empty", "bool", "complex"],
)
def test_a_file_has_the_layout_of_its_array(array, folder):
    np.save("array.npy", array)
    shape = gl.Shape(array.dtype, array.shape, None if array.flags.c_contiguous else gl.Layout.ascending(array.ndim))
    first, rest = run("show", "array.npy").stdout.split("\n", 1)
    order = "C" if array.flags.c_contiguous else "Fortran"
    assert first == f"array.npy: {array.dtype.str}, dimensions {array.shape}, {order} order"
    assert rest == run("show", str(shape)).stdout
    found = json.loads(run("show", "array.npy", "--json").stdout)
    assert found.pop("file") == {
        "name": "array.npy",
        "dtype": array.dtype.str,
        "dimensions": list(array.shape),
        "fortran_order": order == "Fortran",
    }
    assert found == json.loads(run("show", str(shape), "--json").stdout)


def test_the_strides_are_those_of_the_array_that_numpy_loads(folder):
    np.save("array.npy", np.zeros((2, 3, 4), np.float32, order="F"))
    assert json.loads(run("show", "array.npy", "--json").stdout)["byte_strides"] == list(np.load("array.npy").strides)


def test_only_the_header_of_100_gigabytes_is_read(folder):
    np.save("large.npy", np.zeros(0, np.uint8))
    header = (folder / "large.npy").read_bytes()
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**11},), }}"
    with open("large.npy", "wb") as file:
        file.write(header[:10] + text.ljust(len(header) - 11).encode() + b"\n")
        file.truncate(len(header) + 10**11)
    assert np.load("large.npy", mmap_mode="r").shape == (10**11,)
    tracemalloc.start()
    found = json.loads(run("show", "large.npy", "--json").stdout)
    assert found["nbytes"] == 10**11 and tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


def test_nothing_after_the_header_is_read_from_standard_input():
    stream = io.BytesIO()
    np.save(stream, np.zeros((2, 3)))
    data = stream.getvalue()[:128] + b"0"  # the rest of the elements is still to come
    result = CliRunner().invoke(commands, ["show", "-"], input=data)
    assert result.exit_code == 0
    assert result.stdout.startswith("standard input: <f8, dimensions (2, 3), C order\nf64[2,3]{1,0}\n")


@pytest.mark.parametrize("name", ["f32[2].npy", "f32[2,3]{0,1}.NPY", "./f32[2].npy", "a b.npy"])
def test_a_name_that_ends_in_npy_is_a_file(name, folder):
    with open(name, "wb") as file:
        np.save(file, np.zeros(5, np.int8))
    assert run("show", name).stdout.startswith(f"{os.path.normpath(name)}: |i1, dimensions (5,), C order\ns8[5]{{0}}\n")


def test_big_endian_numbers_are_shown_since_only_the_header_is_read(folder):
    np.save("be.npy", np.zeros((2, 3), ">f4", order="F"))
    assert run("show", "be.npy").stdout.startswith("be.npy: >f4, dimensions (2, 3), Fortran order\nf32[2,3]{0,1}\n")
    assert json.loads(run("show", "be.npy", "--json").stdout)["file"]["dtype"] == ">f4"


def test_the_text_of_a_shape_is_never_a_file(folder):
    with open("f32[2]", "wb") as file:
        np.save(file, np.zeros(5, np.int8))
    assert run("show", "f32[2]").stdout.startswith("f32[2]{0}\n")
    with open("array", "wb") as file:
        np.save(file, np.zeros(5, np.int8))
    assert refusal("show", "array").endswith("gpulayout show - <FILE the header of a .npy file")


def test_a_file_that_is_not_there_is_a_failure_and_not_a_shape(folder):
    assert failure("show", "missing.npy") == "missing.npy: No such file or directory"
    assert refusal("show", "missing").startswith("Invalid value for '[SHAPE|FILE]'")


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(3, [("a", "<f4")]), "has fields"),
        (np.array([{}], object), "holds Python objects, which are never unpickled"),
        (np.zeros(3, "U3"), "no XLA counterpart"),
        (np.zeros(3, "M8[s]"), "no XLA counterpart"),
    ],
)
def test_arrays_without_a_layout_are_refused(array, message, folder):
    np.save("array.npy", array)
    assert message in failure("show", "array.npy")


@pytest.mark.parametrize("dtype, named", [(ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e4m3fn, "f8e4m3fn")])
def test_a_type_that_numpy_lacks_is_refused_with_a_command_that_shows_it(dtype, named, folder):
    np.save("array.npy", np.zeros((2, 3), dtype, order="F"))
    message = failure("show", "array.npy")
    assert message.endswith(f"such as gpulayout show '{named}[2,3]{{0,1}}'")
    run("show", message.split("'")[1])


def test_a_truncated_file_is_refused(folder):
    np.save("array.npy", np.zeros(3, np.float32))
    os.truncate("array.npy", 130)
    assert failure("show", "array.npy").endswith("its header (<f4 of dimensions (3,)) needs 140")


def test_a_shape_a_file_and_a_program_exclude_each_other(folder):
    assert refusal("show", "a.npy", "--hlo", "b.txt") == "give either a SHAPE, a FILE.npy, a model or --hlo FILE"
