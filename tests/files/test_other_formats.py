"""Files of other libraries are refused with the way to move their arrays; the way works."""

import io
import os
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.main import commands
from gpulayout.files.elements import open_source
from gpulayout.files.errors import FileError
from gpulayout.files.new_file import check_output
from gpulayout.files.npy import read_header
from tests.support.command_line import failure, run

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
WAYS = {
    "npz": "this is .npz, a zip of .npy files: unpack it with unzip, or pipe one of its arrays with unzip -p FILE "
    "NAME.npy",
    "hdf5": "this is HDF5: gpulayout.dask moves its arrays, from dask.array.from_array(h5py.File(FILE)[NAME])",
    "zarr": "this is Zarr: gpulayout.dask moves its arrays, from dask.array.from_zarr(FILE)",
    "safetensors": "this is safetensors: gpulayout relayout FILE OUT.safetensors --tensor "
    "'REGEX=WHAT' moves its tensors, and gl.relayout_file too",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(kind, name):
    if kind == "npz":
        np.savez("made.npz", array=ARRAY)
        os.rename("made.npz", name)
    elif kind == "hdf5":
        with pytest.importorskip("h5py").File(name, "w") as file:
            file["array"] = ARRAY
    elif kind == "zarr":
        pytest.importorskip("zarr").create_array(name, data=ARRAY)
    else:
        header = b'{"array":{"dtype":"F32","shape":[2,3,4],"data_offsets":[0,96]}}'
        with open(name, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + ARRAY.tobytes())


@pytest.mark.parametrize(
    "kind, name",
    [
        ("npz", "in.npz"),
        ("npz", "IN.NPZ"),
        ("npz", "in.npy"),
        ("npz", "in"),
        ("hdf5", "in.h5"),
        ("hdf5", "in.hdf5"),
        ("hdf5", "in.npy"),
        ("hdf5", "in.mat"),
        ("zarr", "in.zarr"),
        ("zarr", "in"),
        ("safetensors", "in.safetensors"),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_way_to_its_arrays(kind, name, folder):
    make(kind, name)
    expected = f"{name}: {WAYS[kind]}"
    assert failure("relayout", name, "out.npy", "--to", "{0,1,2}") == expected
    assert failure("relayout", name, "out.npy", "--from", "f32[2,3,4]", "--to", "{0,1,2}") == expected
    assert failure("pack", name, "out.npy", "--to", "{0,1,2}") == expected
    assert os.listdir() == [name]


def test_an_npz_on_standard_input_is_refused(folder):
    stream = io.BytesIO()
    np.savez(stream, array=ARRAY)
    result = CliRunner().invoke(commands, ["show", "-"], input=stream.getvalue())
    assert (result.exit_code, result.stderr) == (1, f"gpulayout: error: standard input: {WAYS['npz']}\n")


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(92), b"\x89HDF\r\n\x1a\n" + bytes(88)])
def test_plain_bytes_that_only_begin_like_another_format_need_raw(content, folder):
    (folder / "in.bin").write_bytes(content)
    assert "in.bin: this is" in failure("relayout", "in.bin", "out.bin", "--from", "f32[2,3,4]", "--to", "{1,0,2}")
    run("relayout", "in.bin", "out.bin", "--raw", "--from", "f32[2,3,4]", "--to", "{1,0,2}")
    moved = gl.relayout(np.frombuffer(content, np.float32), "f32[2,3,4]", "f32[2,3,4]{1,0,2}")
    assert (folder / "out.bin").read_bytes() == moved.tobytes()


@pytest.mark.parametrize(
    "name, message",
    [
        ("out.npz", ".npz, a zip of .npy files: write .npy files and put them together with numpy.savez"),
        ("out.H5", "HDF5: gpulayout.dask moves arrays, and dask.array.to_hdf5 writes them"),
        ("out.hdf5", "HDF5: "),
        ("out.zarr", "Zarr: gpulayout.dask moves arrays, and dask.array.to_zarr writes them"),
        (
            "out.safetensors",
            "safetensors: gpulayout relayout, or gl.relayout_file with tensors=, makes a safetensors file from one;",
        ),
    ],
)
def test_an_output_named_as_another_format_is_refused(name, message, folder):
    np.save("in.npy", ARRAY)
    for options in ([], ["--raw"], ["--dry-run"], ["--overwrite"]):
        failed = failure("relayout", "in.npy", name, "--to", "{0,1,2}", *options)
        assert failed.startswith(f"{name}: gpulayout does not write {message}")
    assert os.listdir() == ["in.npy"]


def test_an_array_of_an_npz_goes_through_a_pipe(folder):
    np.savez("in.npz", array=ARRAY, other=ARRAY + 1)
    try:
        member = subprocess.run(["unzip", "-p", "in.npz", "array.npy"], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("needs unzip")
    (folder / "member").write_bytes(member)
    run("relayout", "member", "out.npy", "--to", "F")
    np.testing.assert_array_equal(np.load("out.npy"), ARRAY, strict=True)


def test_a_missing_file_and_another_folder_keep_their_own_errors(folder):
    os.mkdir("folder")
    assert failure("pack", "in.zarr", "out.npy", "--to", "{0}") == "in.zarr: No such file or directory"
    assert failure("pack", "folder", "out.npy", "--to", "{0}") == (
        "folder: this is a folder, and none of its files ends in .safetensors or .npy"
    )


def test_the_errors_name_no_option_of_the_command_line(folder):
    make("npz", "in.npz")
    for read in (read_header, lambda path: open_source(path).__enter__()):
        with pytest.raises(FileError) as caught:
            read(folder / "in.npz")
        assert "--" not in str(caught.value) and caught.value.advice == ""
    with pytest.raises(FileError, match="does not write"):
        check_output(folder / "out.npz", None, overwrite=False)
