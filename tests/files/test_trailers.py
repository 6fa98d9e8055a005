"""What follows a buffer in a file is an error that counts it and says what to write; strict=False ignores it."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import route
from gpulayout.files.elements import open_source
from gpulayout.files.plain_bytes import PlainBytes
from tests.files.test_header_offset import ENVIRONMENT
from tests.support.command_line import failure, refusal, run, run_piped

ARRAY = np.random.default_rng(0).integers(0, 1 << 62, (96, 130))
SHAPE = "s64[96,130]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(route, "LEAST_RUN", 1)  # small arrays take several blocks
    return tmp_path


def write(before, after):
    with open("in.raw", "wb") as stream:
        stream.write(b"\xff" * before + ARRAY.tobytes() + b"\xee" * after)


@pytest.mark.parametrize("before", [0, 7, 2880])
@pytest.mark.parametrize("after", [0, 1, 8, 4096, 100_000])
@pytest.mark.parametrize("max_bytes, scratch", [(None, None), ("64K", None), ("64K", ".")])
def test_an_array_in_the_middle_is_taken_in_blocks_and_passes(before, after, max_bytes, scratch, folder):
    write(before, after)
    limits = {"max_bytes": max_bytes, "scratch": scratch}
    for target in ("C", "F"):
        options = {"source": SHAPE, "target": target, "offset": before, "overwrite": True}
        done = gl.relayout_file("in.raw", "out.npy", strict=False, **options, **limits)
        np.testing.assert_array_equal(np.load("out.npy"), ARRAY, strict=True)
        assert done.bytes_read <= ARRAY.nbytes * len(done.blocks) * 2
        os.unlink("out.npy")
        if after:
            with pytest.raises(ValueError) as caught:
                gl.relayout_file("in.raw", "out.npy", **options, **limits)
            left = "1 byte would be left over; strict=False ignores it"
            if after > 1:
                left = f"{after} bytes would be left over; strict=False ignores them"
            assert str(caught.value).endswith(f" needs {before + ARRAY.nbytes}: {left}")
            assert not os.path.exists("out.npy")


@pytest.mark.parametrize("verb", [["unpack"], ["relayout", "--unpack"], ["relayout", "--to", "F"]])
def test_the_command_line_says_the_same(verb, folder):
    write(2880, 72)
    arguments = [*verb, "in.raw", "out.npy", "--from", SHAPE, "--offset", "2880"]
    message = failure(*arguments)
    assert message == (
        f"in.raw: the file has {2952 + ARRAY.nbytes} bytes, but a buffer of s64[96,130]{{1,0}} behind a header of 2880 "
        f"bytes needs {2880 + ARRAY.nbytes}: 72 bytes would be left over; --no-strict ignores them"
    )
    run(*arguments, "--no-strict", "--dry-run")
    assert os.listdir() == ["in.raw"]
    run(*arguments, "--no-strict")
    np.testing.assert_array_equal(np.load("out.npy"), ARRAY, strict=True)


def test_elements_change_before_a_trailer(folder):
    write(5, 999)
    raw = {"source": SHAPE, "offset": 5, "strict": False}
    gl.relayout_file("in.raw", "out.bin", target="F", dtype="f64", scale=0.5, byte_order="big", **raw)
    assert np.array_equal(np.fromfile("out.bin"), gl.pack(ARRAY.byteswap(), "F", dtype="f64", scale=0.5))


@pytest.mark.parametrize("after", [1, 72, 1 << 20])
def test_a_pipe_is_read_to_its_end_and_a_redirected_file_left_alone(after, folder):
    write(2880, after)
    arguments = "unpack", "-", "out.npy", "--from", SHAPE, "--offset", "2880", "--raw", "--overwrite"
    with open("in.raw", "rb") as stream:
        content = stream.read()
    left = "1 byte would be left over; --no-strict ignores it"
    if after > 1:
        left = f"{after} bytes would be left over; --no-strict ignores them"
    assert f": {left}\n" in run_piped(*arguments, data=content, code=1).stderr and not os.path.exists("out.npy")
    run_piped(*arguments, "--no-strict", data=content)
    np.testing.assert_array_equal(np.load("out.npy"), ARRAY)
    os.unlink("out.npy")
    with open("in.raw", "rb") as stream:
        run(*arguments, "--no-strict", stdin=stream)
    np.testing.assert_array_equal(np.load("out.npy"), ARRAY)


def test_who_writes_to_the_pipe_does_not_fail(folder):
    write(2880, 1 << 20)
    move = f"{sys.executable} -m gpulayout unpack -q - out.npy --from '{SHAPE}' --offset 2880 --raw --no-strict"
    line = f"set -o pipefail; cat in.raw | {move}"
    assert subprocess.run(["bash", "-c", line], env=ENVIRONMENT).returncode == 0


def test_a_long_rest_of_a_pipe_is_not_counted_to_its_end(folder):
    line = f"head -c 40000000 /dev/zero | {sys.executable} -m gpulayout unpack - out.npy --from u8[9] --raw"
    done = subprocess.run(["bash", "-c", line], env=ENVIRONMENT, capture_output=True, text=True)
    assert "needs 9: at least 16777216 bytes would be left over; --no-strict ignores them\n" in done.stderr


def test_a_longer_buffer_in_a_npy_file_is_that_of_a_call_in_memory(folder):
    values = np.arange(20, dtype=">f4")
    np.save("in.npy", values)
    message = failure("unpack", "in.npy", "out.npy", "--from", "f32[2,3]{0,1:PD(3,4)}")
    said = "in.npy: it has 20 elements, but a buffer of f32[2,3]{0,1:PD(3,4)} has 12; "
    assert message == f"{said}--no-strict takes the first 12"
    with pytest.raises(ValueError) as caught:
        gl.relayout_file("in.npy", "out.npy", source="f32[2,3]{0,1:PD(3,4)}")
    assert str(caught.value) == f"{os.getcwd()}/{said}strict=False takes the first 12"
    run("unpack", "in.npy", "out.npy", "--from", "f32[2,3]{0,1:PD(3,4)}", "--no-strict")
    expected = gl.unpack(values, "f32[2,3]{0,1:PD(3,4)}", strict=False)
    np.testing.assert_array_equal(np.load("out.npy"), expected, strict=True)
    packed = "u4[5]{0:E(4)}"
    np.save("packed.npy", np.arange(9, dtype=np.uint8))
    gl.relayout_file("packed.npy", "out.npy", source=packed, strict=False, overwrite=True)
    assert np.load("out.npy").tolist() == gl.unpack(np.arange(3, dtype=np.uint8), packed).tolist()


# ---- what stays an error ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
def test_what_is_too_short_or_another_size_by_its_own_header(strict, folder):
    write(0, 0)
    options = {"strict": strict, "target": "F"}
    with pytest.raises(ValueError, match="the file has 99840 bytes, but a buffer of .* needs 99848$"):
        gl.relayout_file("in.raw", "out.npy", source=SHAPE, offset=8, **options)
    np.save("short.npy", np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="it has 5 elements, but a buffer of .* has 6$"):
        gl.relayout_file("short.npy", "out.npy", source="f32[2,3]", **options)
    np.save("wide.npy", np.zeros((4, 5), np.float32))
    with pytest.raises(ValueError, match=r"dimensions \(4, 5\) in C order, which is not a buffer of f32"):
        gl.relayout_file("wide.npy", "out.npy", source="f32[2,3]", **options)
    with open("wide.npy", "ab") as stream:
        stream.write(b"\0")
    for given in ({}, {"source": "f32[4,5]"}):
        with pytest.raises(ValueError, match=r"the file has 209 bytes, but its header .* needs 208$"):
            gl.relayout_file("wide.npy", "out.npy", **given, **options)
    assert not os.path.exists("out.npy")


@pytest.mark.parametrize("value", [None, 0, 1, "no", []])
def test_strict_is_true_or_false(value, folder):
    write(0, 8)
    for given, source in (("in.raw", SHAPE), (gl.asarray(np.zeros((2, 3), np.float32)), None)):
        with pytest.raises(TypeError, match="^strict is .*: it must be True or False$"):
            gl.relayout_file(given, "out.npy", source=source, strict=value)
    assert os.listdir() == ["in.raw"]


def test_numpys_false_is_one_and_arrays_in_memory_have_no_rest(folder):
    write(0, 8)
    gl.relayout_file("in.raw", "out.npy", source=SHAPE, strict=np.False_)
    gl.relayout_file(gl.asarray(ARRAY), "out.npy", strict=False, overwrite=True)
    np.testing.assert_array_equal(np.load("out.npy"), ARRAY)


def test_models_have_no_such_word(folder):
    (folder / "model.safetensors").write_bytes(bytes(500))
    message = refusal("relayout", "model.safetensors", "out.safetensors", "--no-strict")
    instead = "--allow-unmatched allows rules that fit no tensor"
    assert message == f"--no-strict is for one array, not for a model: {instead}"
    with pytest.raises(TypeError, match="^strict is for one array, not for a model: allow_unmatched=True allows"):
        gl.relayout_file("model.safetensors", "out.safetensors", strict=False)
    with pytest.raises(TypeError, match="^'trailer' is not a keyword of this call: write strict=False, which ignores"):
        gl.relayout_file("in.raw", "out.npy", trailer=8)


def test_a_file_that_becomes_shorter_than_its_buffer_is_an_error(folder):
    write(8, 100)
    shape = gl.parse_shape(SHAPE)
    with open_source(folder / "in.raw", shape, PlainBytes(offset=8, strict=False)) as source:
        os.truncate("in.raw", 8 + ARRAY.nbytes - 1)
        with pytest.raises(ValueError, match="the file has become shorter while it was read"):
            source.read_into(memoryview(bytearray(ARRAY.nbytes)), 0)
