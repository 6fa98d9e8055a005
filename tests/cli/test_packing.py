"""`gpulayout pack` and `gpulayout unpack`, and raw buffers without a .npy header."""

import json
import os
import shlex

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import HOSTILE, PADDED, failure, refusal, run

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LAYOUTS = ["{2,1,0}", "{0,1,2}", "{0,2,1:PD(2,4,4)PV(highest)}", "{2,1,0:T(2,2)}"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", ARRAY)
    return tmp_path


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_is_packed_and_unpacked_as_the_library_does(layout, order, folder):
    np.save("array.npy", np.asarray(ARRAY, order=order))
    run("pack", "array.npy", "out.npy", "--to", layout)
    np.testing.assert_array_equal(np.load("out.npy"), gl.pack(ARRAY, layout), strict=True)
    run("unpack", "out.npy", "again.npy", "--from", f"f32[2,3,4]{layout}")
    np.testing.assert_array_equal(np.load("again.npy"), ARRAY, strict=True)
    assert np.load("again.npy").flags.c_contiguous


def test_they_are_relayout_under_other_names(folder):
    run("pack", "array.npy", "out.npy", "--to", LAYOUTS[2])
    run("relayout", "array.npy", "same.npy", "--to", LAYOUTS[2])
    run("unpack", "out.npy", "again.npy", "--from", f"f32[2,3,4]{LAYOUTS[2]}")
    run("relayout", "out.npy", "same_again.npy", "--unpack", "--from", f"f32[2,3,4]{LAYOUTS[2]}")
    for one, other in (("out.npy", "same.npy"), ("again.npy", "same_again.npy")):
        assert (folder / one).read_bytes() == (folder / other).read_bytes()


def test_unpack_as_another_array_gives_planes_their_dimensions(folder):
    """As the help of pack and the page of the command line say it."""
    image = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    np.save("img.npy", image)
    run("pack", "img.npy", "planes.npy", "--to", "h w c -> c h w")
    assert np.load("planes.npy").ndim == 1
    run("unpack", "planes.npy", "chw.npy", "--from", "u8[3,480,640]")
    np.testing.assert_array_equal(np.load("chw.npy"), image.transpose(2, 0, 1), strict=True)


@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_the_printed_way_back_works(raw, folder):
    line = (
        run("pack", "array.npy", "./-out", *raw, "--to", LAYOUTS[2])
        .stdout.splitlines()[-1]
        .removeprefix("back to an N-d array:  ")
    )
    assert line.startswith("gpulayout unpack ./-out BACK.npy --from ") and ("--raw" in line) == bool(raw)
    run(*shlex.split(line)[1:])
    np.testing.assert_array_equal(np.load("BACK.npy"), ARRAY, strict=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_raw_buffer_is_its_bytes_alone(layout, folder):
    run("pack", "array.npy", "out.bin", "--raw", "--to", layout)
    assert (folder / "out.bin").read_bytes() == gl.pack(ARRAY, layout).tobytes()
    shape = f"f32[2,3,4]{layout}"
    run("relayout", "out.bin", "other.bin", "--raw", "--from", shape, "--to", "{1,2,0}")
    assert (folder / "other.bin").read_bytes() == gl.pack(ARRAY, "{1,2,0}").tobytes()
    run("unpack", "out.bin", "again.npy", "--raw", "--from", shape)
    np.testing.assert_array_equal(np.load("again.npy"), ARRAY, strict=True)


def test_raw_buffers_of_types_that_numpy_lacks_and_of_packed_elements(folder):
    for dtype, shape in ((ml_dtypes.bfloat16, "bf16[3,5]{0,1:T(2,2)}"), (ml_dtypes.int4, "s4[3,5]{0,1:E(4)}")):
        array = np.arange(-7, 8).reshape(3, 5).astype(dtype)
        np.save("narrow.npy", array)
        run("pack", "narrow.npy", "out.bin", "--raw", "--overwrite", "--to", shape)
        assert (folder / "out.bin").read_bytes() == gl.pack(array, shape).tobytes()
        run("unpack", "out.bin", "again.npy", "--raw", "--overwrite", "--from", shape)
        assert np.load("again.npy").tobytes() == array.tobytes() and np.load("again.npy").shape == (3, 5)


def test_an_empty_raw_buffer_is_an_empty_file(folder):
    np.save("empty.npy", np.zeros((0, 3), np.int16))
    run("pack", "empty.npy", "out.bin", "--raw", "--to", "{0,1}")
    assert os.path.getsize("out.bin") == 0
    run("unpack", "out.bin", "again.npy", "--raw", "--from", "s16[0,3]{0,1}")
    assert np.load("again.npy").shape == (0, 3)


@pytest.mark.parametrize("change, rest", [(-1, ""), (1, ": 1 byte would be left over; --no-strict ignores it")])
def test_a_raw_buffer_of_another_size_is_refused(change, rest, folder):
    (folder / "in.bin").write_bytes(bytes(60 + change))
    assert failure("unpack", "in.bin", "out.npy", "--raw", "--from", PADDED) == (
        f"in.bin: the file has {60 + change} bytes, but a buffer of {PADDED} needs 60{rest}"
    )
    assert sorted(os.listdir()) == ["array.npy", "in.bin"]


def test_an_array_file_is_refused_where_a_buffer_is_wanted_and_the_other_way_round(folder):
    assert failure("unpack", "array.npy", "out.npy", "--from", "f32[2,3,4]{0,1,2}") == (
        "array.npy: it holds an array of dimensions (2, 3, 4) in C order, which is not a buffer of f32[2,3,4]{0,1,2}; "
        "gpulayout pack reads an N-d array, and so does gpulayout relayout without --from"
    )
    np.save("buffer.npy", np.zeros(6, np.float32))
    assert failure("pack", "buffer.npy", "out.npy", "--to", "{0,1}") == (
        "buffer.npy: it holds an array of dimensions (6,), but the layout {0,1} orders 2 dimensions; if it is a "
        "buffer, gpulayout relayout --from SHAPE moves it"
    )


@pytest.mark.parametrize("command, option", [("pack", "--to"), ("unpack", "--from")])
def test_the_layout_is_required_and_read_before_any_file(command, option, folder):
    assert refusal(command, "array.npy", "out.npy") == f"Missing option '{option}'."
    for text in HOSTILE:
        refusal(command, "array.npy", "out.npy", option, text)
    assert os.listdir() == ["array.npy"]


def test_unpack_needs_a_whole_shape(folder):
    assert "--from '{0,1}' is only a layout" in refusal("unpack", "array.npy", "out.npy", "--from", "{0,1}")


@pytest.mark.parametrize(
    "command", [["pack", "--to", "{0,1,2}"], ["relayout", "--to", "{0,1,2}"], ["unpack", "--from", "f32[24]"]]
)
def test_options_that_every_command_has(command, folder):
    name, *options = command
    np.save("in.npy", np.arange(24, dtype=np.float32).reshape(24 if name == "unpack" else (2, 3, 4)))
    assert "dry run: nothing was written" in run(name, "in.npy", "out.npy", *options, "--dry-run").stdout
    assert run(name, "in.npy", "out.npy", *options, "--dry-run", "--quiet").output == ""
    assert not os.path.exists("out.npy")
    assert run(name, "in.npy", "out.npy", *options, "-q").output == ""
    assert failure(name, "in.npy", "out.npy", *options, "-q") == "out.npy: the file exists; --overwrite replaces it"
    found = json.loads(run(name, "in.npy", "out.npy", *options, "--overwrite", "--json").stdout)
    assert (found["input"], found["output"], found["dry_run"]) == ("in.npy", "out.npy", False)
    assert refusal(name, "in.npy", "x.npy", *options, "-q", "--json") == "give either --quiet or --json"
    assert sorted(os.listdir()) == ["array.npy", "in.npy", "out.npy"]
