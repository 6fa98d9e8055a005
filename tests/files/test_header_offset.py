"""Plain bytes behind the header of another format: NIfTI, ENVI, BMP, NRRD, MRC."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.elements import open_source
from gpulayout.files.errors import FileError
from gpulayout.files.plain_bytes import PlainBytes
from tests.support.command_line import failure, refusal, run, run_piped

SHAPE = "s16[5,4,3]{0,1,2}"
VOLUME = np.random.default_rng(0).integers(-1000, 1000, (5, 4, 3)).astype("<i2")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(pathlib.Path(gl.__file__).parent.parent)}
BYTES = b"\xff" * 352 + VOLUME.tobytes(order="F")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "volume.nii").write_bytes(BYTES)
    return tmp_path


@pytest.mark.parametrize("verb", [["relayout", "--unpack"], ["unpack"]])
def test_the_command_line_skips_a_header(verb, folder):
    run(*verb, "volume.nii", "out.npy", "--from", SHAPE, "--offset", "352")
    np.testing.assert_array_equal(np.load("out.npy"), VOLUME)


@pytest.mark.parametrize("skipped", [0, 1, 54, 4095, 4096, 10_001])
@pytest.mark.parametrize("max_bytes, scratch", [(None, None), ("256K", None), ("256K", ".")])
def test_blocks_and_passes_read_behind_a_header_of_any_size(skipped, max_bytes, scratch, folder):
    array = np.random.default_rng(skipped).integers(0, 1 << 63, (256, 256)).astype(np.uint64)
    (folder / "in.raw").write_bytes(bytes(skipped) + array.tobytes())
    limits = {"max_bytes": max_bytes, "scratch": scratch}
    done = gl.relayout_file("in.raw", "out.npy", source="u64[256,256]", target="F", offset=skipped, **limits)
    assert (len(done.blocks), done.blocks > (1,)) == (1 + bool(scratch), max_bytes is not None)
    np.testing.assert_array_equal(np.load("out.npy"), array, strict=True)


def test_elements_change_behind_a_header(folder):
    gl.relayout_file("volume.nii", "out.npy", source=SHAPE, offset=np.int64(352), dtype="f32", scale=0.5, shift=-1)
    np.testing.assert_array_equal(np.load("out.npy"), VOLUME.astype(np.float32) / 2 - 1)


def test_a_pipe_and_a_redirected_file_skip_a_header(folder):
    arguments = "unpack", "-", "out.npy", "--from", SHAPE, "--offset", "352", "--raw", "--overwrite"
    run_piped(*arguments, data=BYTES)
    np.testing.assert_array_equal(np.load("out.npy"), VOLUME)
    os.unlink("out.npy")
    with open("volume.nii", "rb") as stream:
        run(*arguments, stdin=stream)
    np.testing.assert_array_equal(np.load("out.npy"), VOLUME)


@pytest.mark.parametrize(
    "length, said",
    [
        (100, "standard input: it ends after 100 bytes, but offset 352 skips more"),
        (471, "standard input: there are only 119 bytes of elements, but a buffer of s16[5,4,3]{0,1,2} behind"),
        (473, "of 352 bytes needs 120: 1 byte would be left over; --no-strict ignores it\n"),
    ],
)
def test_a_pipe_of_another_length_is_refused(length, said, folder):
    arguments = "unpack", "-", "out.npy", "--from", SHAPE, "--offset", "352", "--raw"
    told = run_piped(*arguments, data=(BYTES + b"\0")[:length], code=1).stderr
    assert said in told and told.count("\n") == 1
    assert os.listdir() == ["volume.nii"]


def test_memory_stays_bounded_behind_a_header(folder):
    """An array of 82 MB is moved by a process that takes less than 40 MB for it."""
    array = np.arange(3200 * 3200, dtype=np.int64).reshape(3200, 3200)
    with open("large.raw", "wb") as stream:
        stream.write(bytes(54))
        array.tofile(stream)
    code = (
        "import resource, gpulayout as gl\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "gl.relayout_file('large.raw', 'out.npy', source='s64[3200,3200]', target='F', offset=54, max_bytes='16M')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=ENVIRONMENT, check=True)
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 40 << 20
    assert np.array_equal(np.load("out.npy", mmap_mode="r"), array)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["-1", "12k", "1.5", "9223372036854775808", "1" * 5000, "", " ", "0x10", "１２", "1_0"]
)
def test_the_command_line_refuses_what_is_no_number_of_bytes(value, folder):
    message = refusal("unpack", "volume.nii", "out.npy", "--from", SHAPE, f"--offset={value}")
    assert message.startswith("Invalid value for '--offset': ") and message.endswith(
        "is not a number of bytes from 0 to 2^63 - 1, such as 352"
    )
    assert os.listdir() == ["volume.nii"]


@pytest.mark.parametrize(
    "value, kind, said",
    [
        (-1, gl.LayoutError, "offset -1 is negative"),
        (1 << 63, gl.LayoutError, "offset 9223372036854775808 is more bytes than a file can have"),
        (1 << 400, gl.LayoutError, "offset 2^400... is more bytes than a file can have"),
        ("352", TypeError, "offset '352' is not an integer: it is a str"),
        (352.0, TypeError, "offset 352.0 is not an integer: it is a float"),
        (True, TypeError, "offset True is not an integer: it is a bool"),
        (None, TypeError, "offset None is not an integer: it is a NoneType"),
    ],
)
def test_python_refuses_what_is_no_number_of_bytes(value, kind, said, folder):
    with pytest.raises(kind) as caught:
        gl.relayout_file("volume.nii", "out.npy", source=SHAPE, offset=value)
    assert str(caught.value) == said and os.listdir() == ["volume.nii"]


@pytest.mark.parametrize(
    "skipped, said",
    [
        (
            344,
            "a buffer of {} behind a header of 344 bytes needs 464: 8 bytes would be left",
        ),
        (
            351,
            "a buffer of {} behind a header of 351 bytes needs 471: 1 byte would be left",
        ),
        (353, "a buffer of {} behind a header of 353 bytes needs 473"),
        (472, "a buffer of {} behind a header of 472 bytes needs 592"),
        ((1 << 63) - 1, "behind a header of 9223372036854775807 bytes needs 9223372036854775927"),
    ],
)
def test_a_size_that_does_not_fit_is_said_with_the_header(skipped, said, folder):
    message = failure("unpack", "volume.nii", "out.npy", "--from", SHAPE, "--offset", str(skipped))
    assert message.startswith("volume.nii: the file has 472 bytes, but ") and said.format(SHAPE) in message
    assert ("left over; --no-strict ignores " in message) == (skipped < 352) and os.listdir() == ["volume.nii"]


def test_files_with_a_header_of_their_own_are_refused(folder):
    np.save("in.npy", VOLUME.reshape(-1))
    os.rename("in.npy", "in.raw")
    np.save("in.npy", VOLUME.reshape(-1))
    (folder / "model.safetensors").write_bytes(bytes(500))
    (folder / "in.npz").write_bytes(b"PK\3\4" + bytes(500))
    for name in ("in.npy", "in.raw"):
        message = failure("unpack", name, "out.npy", "--from", SHAPE, "--offset", "128")
        assert message == (
            f"{name}: offset 128 is for plain bytes, but this is read as a .npy file, whose header says where its "
            "elements begin; --raw reads plain bytes"
        )
    assert "this is .npz" in failure("unpack", "in.npz", "out.npy", "--from", SHAPE, "--offset", "128")
    assert "this is safetensors" in failure("unpack", "model.safetensors", "out.npy", "--from", SHAPE, "--offset", "8")
    message = refusal("relayout", "model.safetensors", "out.safetensors", "--offset", "8")
    assert message == "--offset is for one array, not for a model: its header says where its tensors begin"
    with pytest.raises(TypeError, match="^offset is for one array, not for a model: its header says"):
        gl.relayout_file("model.safetensors", "out.safetensors", offset=8)
    message = failure("relayout", "volume.nii", "out.npy", "--to", "F", "--offset", "352")
    assert message == (
        "volume.nii: offset 352 is for a buffer in plain bytes, whose shape is missing; give --from SHAPE"
    )
    with pytest.raises(TypeError, match="offset 8 is for a file of plain bytes, and file is a gl.Array"):
        gl.relayout_file(gl.Array(np.zeros(6, np.float32), "f32[2,3]"), "out.npy", offset=8)
    assert not os.path.exists("out.npy") and not os.path.exists("out.safetensors")


def test_raw_makes_plain_bytes_of_a_file_with_a_header(folder):
    np.save("in.npy", VOLUME.reshape(-1))
    run("unpack", "in.npy", "out.npy", "--from", "s16[5,4,3]", "--offset", "128", "--raw")
    np.testing.assert_array_equal(np.load("out.npy"), VOLUME)


def test_a_file_that_becomes_shorter_is_said_with_its_header(folder):
    path = folder / "volume.nii"
    with open_source(path, gl.parse_shape(SHAPE), PlainBytes(offset=352)) as source:
        assert source.offset == 352
        os.truncate(path, 400)
        with pytest.raises(
            FileError, match="it has 400 bytes, but a buffer of .* behind a header of 352 bytes needs 472"
        ):
            source.read_into(memoryview(bytearray(120)), 0)
