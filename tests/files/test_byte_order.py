"""Files of big-endian numbers: .npy files whose header says so, and plain bytes of which the caller says it."""

import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import native
from gpulayout.files import engine as engine_module
from gpulayout.files import route
from gpulayout.plans.plan import Plan
from tests.support.command_line import failure, refusal, run, run_piped
from tests.support.kept import forget_transfers

TYPES = ("i1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


@pytest.fixture(params=["native", "numpy"])
def engine(request):
    """Blocks are swapped by the native engine, and by NumPy."""
    with native.chosen(request.param == "native"):
        forget_transfers()
        yield
    forget_transfers()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(route, "LEAST_RUN", 1)  # small arrays take several blocks
    return tmp_path


def given(code, dimensions=(96, 130)):
    """Any bits in both orders, nans among them that signal."""
    big = np.dtype(f">{code}")
    rng = np.random.default_rng(0)
    array = np.frombuffer(rng.bytes(int(np.prod(dimensions)) * big.itemsize), big).reshape(dimensions)
    return array, array.byteswap().view(big.newbyteorder("=")) if big.itemsize > 1 else array


def same(name, expected):
    found = np.load(name)
    assert found.dtype == expected.dtype and found.dtype.isnative and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("max_bytes, scratch", [(None, None), ("64K", None), ("64K", ".")])
def test_every_type_becomes_native_in_one_block_in_several_and_in_two_passes(code, max_bytes, scratch, engine, folder):
    stored, expected = given(code, (128, 260))
    np.save("in.npy", stored)
    np.save("fortran.npy", np.asfortranarray(stored))
    stored.tofile("in.raw")
    limits = {"max_bytes": max_bytes, "scratch": scratch, "overwrite": True}
    shape = gl.Shape(expected.dtype, stored.shape)
    for target in ("C", "F"):
        for name in ("in.npy", "fortran.npy"):
            gl.relayout_file(name, "out.npy", target=target, **limits)
            same("out.npy", expected)
        done = gl.relayout_file("in.raw", "out.npy", source=shape, target=target, byte_order="big", **limits)
        same("out.npy", expected)
        assert done.source == shape and done.target.element_type == shape.element_type
    gl.relayout_file("in.npy", "out.bin", target="{0,1:PD(130,264)}", **limits)
    padded = gl.pack(expected, "{0,1:PD(130,264)}")
    assert np.fromfile("out.bin", padded.dtype).tobytes() == padded.tobytes()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("code", ["i2", "u4", "f4", "f8"])
@pytest.mark.parametrize("dtype", ["u8", "f32", "f64", "bf16"])
@pytest.mark.parametrize("max_bytes, scratch", [(None, None), ("64K", None), ("64K", ".")])
def test_elements_change_on_the_way_in_blocks(code, dtype, max_bytes, scratch, engine, folder):
    stored, expected = given(code, (128, 260))
    np.save("in.npy", stored)
    stored.tofile("in.raw")
    limits = {"max_bytes": max_bytes, "scratch": scratch, "overwrite": True}
    for options in ({}, {"scale": np.linspace(-1, 1, 260), "shift": 3}):
        made = gl.pack(expected, "F", dtype=dtype, **options).tobytes()
        gl.relayout_file("in.npy", "out.bin", target="F", dtype=dtype, **options, **limits)
        assert pathlib.Path("out.bin").read_bytes() == made
        raw = {"source": gl.Shape(expected.dtype, stored.shape), "byte_order": "big"}
        gl.relayout_file("in.raw", "out.bin", target="F", dtype=dtype, **raw, **options, **limits)
        assert pathlib.Path("out.bin").read_bytes() == made


@pytest.mark.parametrize("dimensions", [(), (0,), (3, 0), (1, 1)])
def test_arrays_of_odd_dimensions(dimensions, engine, folder):
    np.save("in.npy", np.full(dimensions, 258, ">i2"))
    gl.relayout_file("in.npy", "out.npy", target=gl.Layout.ascending(len(dimensions)))
    same("out.npy", np.full(dimensions, 258, "=i2"))


def test_types_that_numpy_lacks_and_types_without_an_order(engine, folder):
    values = np.linspace(-2, 2, 24).astype(ml_dtypes.bfloat16).reshape(4, 6)
    (folder / "in.raw").write_bytes(values.view(np.uint16).astype(">u2").tobytes())
    gl.relayout_file("in.raw", "out.npy", source="bf16[4,6]", target="F", byte_order="big")
    assert np.load("out.npy").view(ml_dtypes.bfloat16).tolist() == values.tolist()
    np.save("codes.npy", values.view(np.uint16).astype(">u2"))
    gl.relayout_file("codes.npy", "out.npy", source="bf16[4,6]", target="F", overwrite=True)
    same("out.npy", values.view(np.uint16))
    for shape, size in (("u8[4,6]", 24), ("u4[4,6]{1,0:E(4)}", 12), ("pred[4,6]", 24)):
        content = bytes(number % 2 for number in range(size))
        (folder / "in.raw").write_bytes(content)
        for order in ("little", "big"):
            gl.relayout_file("in.raw", "out.bin", source=shape, target=shape, byte_order=order, overwrite=True)
            assert (folder / "out.bin").read_bytes() == content


def test_the_order_of_the_machine_is_the_default(engine, folder):
    stored, expected = given("f4")
    expected.tofile("in.raw")
    for order in (None, sys.byteorder):
        gl.relayout_file("in.raw", "out.npy", source="f32[96,130]", target="F", byte_order=order, overwrite=True)
        same("out.npy", expected)


def test_the_command_line_reads_either_order_behind_a_header(folder):
    stored, expected = given("i2")
    (folder / "volume.nii").write_bytes(b"\xff" * 352 + stored.tobytes(order="F"))
    raw = ["--from", "s16[96,130]{0,1}", "--offset", "352", "--byte-order", "big"]
    for verb in (["unpack"], ["relayout", "--unpack"], ["relayout", "--to", "C"]):
        text = run(*verb, "volume.nii", "out.npy", *raw, "--overwrite").stdout
        same("out.npy", expected)
        assert "s16[96,130]{0,1}" in text
    np.save("in.npy", stored)
    run("relayout", "in.npy", "out.npy", "--to", "F", "--overwrite")
    same("out.npy", expected)
    run("pack", "in.npy", "out.npy", "--to", "{0,1}", "--overwrite", "--dtype", "f32")
    same("out.npy", gl.pack(expected, "{0,1}", dtype="f32"))
    text = run("relayout", "in.npy", "new.npy", "--to", "F", "--dry-run").stdout
    assert "changed  cast from s16 with swapped bytes to s16" in text and "no launch: the CPU swaps bytes" in text
    assert (
        '"arithmetic": "cast from s16 with swapped bytes to s16"'
        in run("relayout", "in.npy", "new.npy", "--to", "F", "--json").stdout
    )
    same("new.npy", expected)


def test_a_pipe_is_read_in_either_order(folder):
    stored, expected = given("f8")
    raw = ["--unpack", "--from", "f64[96,130]", "--byte-order", "big", "--raw"]
    run_piped("relayout", "-", "out.npy", *raw, data=stored.tobytes())
    same("out.npy", expected)
    np.save("in.npy", stored)
    content = pathlib.Path("in.npy").read_bytes()
    run_piped("relayout", "-", "out.npy", "--to", "C", "--overwrite", data=content)
    same("out.npy", expected)


def test_memory_stays_bounded_while_bytes_are_swapped(folder):
    """An array of 82 MB is moved by a process that takes less than 50 MB for it."""
    array = np.arange(3200 * 3200, dtype=">i8").reshape(3200, 3200)
    np.save("in.npy", array)
    code = (
        "import resource, gpulayout as gl\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "gl.relayout_file('in.npy', 'out.npy', target='F', max_bytes='16M')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(gl.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 50 << 20
    found = np.load("out.npy", mmap_mode="r")
    assert found.dtype == np.int64 and np.array_equal(found, array)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["BIG", ">", "", "network", 1, True, b"big"])
def test_other_words_are_no_byte_order(value, folder):
    (folder / "in.raw").write_bytes(bytes(24))
    with pytest.raises(ValueError) as caught:
        gl.relayout_file("in.raw", "out.npy", source="f32[6]", target="C", byte_order=value)
    assert str(caught.value) == f"byte_order {value!r} is not one of 'little', 'big'"
    if isinstance(value, str):
        message = refusal("unpack", "in.raw", "out.npy", "--from", "f32[6]", f"--byte-order={value}")
        assert message.startswith("Invalid value for '--byte-order': ")
    assert os.listdir() == ["in.raw"]


def test_what_a_header_says_is_not_said_again(folder):
    np.save("in.npy", np.zeros(6, ">f4"))
    message = failure("unpack", "in.npy", "out.npy", "--from", "f32[6]", "--byte-order", "big")
    assert message == (
        "in.npy: byte order big is for plain bytes, but this is read as a .npy file, whose header says the byte order "
        "of its elements; --raw reads plain bytes"
    )
    message = failure("relayout", "in.npy", "out.npy", "--to", "C", "--byte-order", "big")
    assert message == (
        "in.npy: byte order big is for a buffer in plain bytes, whose shape is missing; give --from SHAPE"
    )
    (folder / "model.safetensors").write_bytes(bytes(500))
    message = refusal("relayout", "model.safetensors", "out.safetensors", "--byte-order", "big")
    assert message == "--byte-order is for one array, not for a model: its numbers are little-endian"
    with pytest.raises(TypeError, match="^byte_order is for one array, not for a model: its numbers"):
        gl.relayout_file("model.safetensors", "out.safetensors", byte_order="big")
    with pytest.raises(TypeError, match="^byte_order 'big' is for a file of plain bytes, and file is a gl.Array$"):
        gl.relayout_file(gl.Array(np.zeros(6, np.float32), "f32[2,3]"), "out.npy", byte_order="big")
    with pytest.raises(TypeError, match="'endian' is not a keyword of this call: write byte_order='big'"):
        gl.relayout_file("in.npy", "out.npy", endian="big")
    assert sorted(os.listdir()) == ["in.npy", "model.safetensors"]


def test_a_gpu_is_left_alone(folder, monkeypatch):
    """No kernel swaps bytes, so blocks of such files do not stream through one."""
    monkeypatch.setattr(engine_module, "default_backend", object)
    streamed = []
    monkeypatch.setattr(Plan, "stream", lambda plan, buffer, *, out, max_bytes: streamed.append(plan(buffer, out=out)))
    stored, expected = given("f4", (128, 260))
    for array, count in ((stored, 0), (expected, 1)):
        np.save("in.npy", array)
        gl.relayout_file("in.npy", "out.npy", target="F", max_bytes="64K", overwrite=True)
        same("out.npy", expected)
        assert (len(streamed) > 0) == count
