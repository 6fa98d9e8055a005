"""What is refused before anything is computed, and how the door of `gpulayout` and that of `gpulayout.dask` differ."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl

da = pytest.importorskip("dask.array")

ARRAY = da.zeros((4, 6), chunks=2, dtype="f4")
BUFFER = da.zeros(24, chunks=5, dtype="f4")
INDEX = da.zeros((2, 5), chunks=2, dtype=int)


@pytest.mark.parametrize(
    "call, role",
    [
        (lambda: gl.pack(ARRAY, "{0,1}"), "array"),
        (lambda: gl.pack([ARRAY, ARRAY], "f32[2,4,6]"), r"array\[0\]"),
        (lambda: gl.transpose(ARRAY, (1, 0)), "array"),
        (lambda: gl.unpack(BUFFER, "f32[4,6]"), "buffer"),
        (lambda: gl.view(BUFFER, "f32[4,6]"), "buffer"),
        (lambda: gl.relayout(BUFFER, "f32[4,6]", "{0,1}"), "buffer"),
        (lambda: gl.pack(np.zeros((4, 6), "f4"), "{0,1}", out=BUFFER), "out"),
        (lambda: gl.linearize(INDEX, "f32[4,6]"), "index"),
        (lambda: gl.linearize((INDEX, INDEX), "f32[4,6]"), r"index\[0\]"),
        (lambda: gl.delinearize(INDEX, "f32[4,6]"), "linear"),
        (lambda: gl.convert_linear(INDEX, "f32[4,6]", "{0,1}"), "linear"),
    ],
)
def test_the_functions_for_memory_name_the_module_for_dask(call, role):
    with pytest.raises(TypeError, match=f"^{role} is a Dask array, .*: gpulayout.dask has .*{role}.compute\\(\\)"):
        call()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: gl.dask.pack(np.zeros((4, 6), "f4"), "{0,1}"),
            TypeError,
            r"^array is .*not a Dask array: gl.pack takes",
        ),
        (lambda: gl.dask.unpack([1.0], "f32[1]"), TypeError, "^buffer is .*not a Dask array: gl.unpack takes"),
        (lambda: gl.dask.pack(ARRAY, "f64[4,6]"), TypeError, "^array has dtype float32, but f64"),
        (lambda: gl.dask.pack(ARRAY, "f32[4,7]"), BufferError, r"^array has shape \(4, 6\), but f32\[4,7\]"),
        (lambda: gl.dask.pack(ARRAY, "{0,1,2}"), gl.LayoutError, "minor_to_major"),
        (
            lambda: gl.dask.unpack(BUFFER, "f32[5,6]"),
            BufferError,
            r"^buffer has 24 elements, but f32\[5,6\]\{1,0\} needs 30",
        ),
        (lambda: gl.dask.unpack(ARRAY, "f32[4,6]"), BufferError, r"^buffer has shape \(4, 6\): .* is 1-D"),
        (lambda: gl.dask.unpack(BUFFER, "s4[4,6]{1,0:E(4)}"), TypeError, "its buffer is uint8"),
        (lambda: gl.dask.relayout(BUFFER, "f32[4,6]", "f32[6,4]"), gl.LayoutError, "not the same logical array"),
        (lambda: gl.dask.relayout(BUFFER, "f32[4,?]", "{0,1}"), gl.LayoutError, "unbounded"),
        (lambda: gl.dask.pack(ARRAY[ARRAY[:, 0] > 1], "{0,1}"), ValueError, "^array has chunks of unknown size"),
        (lambda: gl.dask.pack(ARRAY, "{0,1}", chunk_size=0), gl.LayoutError, "^chunk_size 0 is not at least one byte$"),
        (
            lambda: gl.dask.unpack(BUFFER, "f32[4,6]", chunk_size=np.int64(-5)),
            gl.LayoutError,
            "^chunk_size -5 is not",
        ),
        (
            lambda: gl.dask.pack(ARRAY, "{0,1}", chunk_size=1.5),
            TypeError,
            "^chunk_size 1.5 is not an integer: it is",
        ),
        (
            lambda: gl.dask.relayout(BUFFER, "f32[4,6]", "{0,1}", chunk_size="many"),
            gl.LayoutError,
            "^chunk_size 'many' is not a number of bytes such as 128M or 1.5G$",
        ),
    ],
)
def test_mistakes_are_errors_at_once(call, error, message):
    with pytest.raises(error, match=message):
        call()


def output_of(script, *path):
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *sys.path])},
    )
    return done.stdout + done.stderr


def test_dask_is_imported_when_it_is_first_used():
    script = (
        "import sys, gpulayout as gl; print({'dask', 'gpulayout.dask'} & {*sys.modules}); "
        "print(gl.dask.pack.__module__, 'dask.array' in sys.modules, 'distributed' in sys.modules)"
    )
    assert output_of(script).split("\n")[:2] == ["set()", "gpulayout.dask True False"]


def test_without_dask_the_error_names_the_extra(tmp_path):
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'dask'\")")
    told = output_of("import gpulayout as gl; gl.pack([1, 2], 'u8[2]'); gl.dask.pack", tmp_path)
    assert told.rstrip().endswith(
        "ImportError: gpulayout.dask needs Dask, which cannot be imported (No module named 'dask'): "
        "pip install 'gpulayout[dask]'"
    )
