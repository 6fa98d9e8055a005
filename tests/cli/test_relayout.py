"""`gpulayout relayout`: the three kinds of move, and refusals that leave no file behind."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.standard_streams import names_stream
from gpulayout.plans.plan import Plan
from tests.support.command_line import HOSTILE, PADDED, failure, refusal, run
from tests.support.waiting import HANG

PACKAGES = str(pathlib.Path(gl.__file__).parent.parent)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    return tmp_path


def test_an_array_is_packed_into_a_layout(folder):
    run("relayout", "array.npy", "out.npy", "--to", "{0,2,1:PD(2,4,4)PV(highest)}")
    expected = gl.pack(np.load("array.npy"), "f32[2,3,4]{0,2,1:PD(2,4,4)PV(highest)}")
    np.testing.assert_array_equal(np.load("out.npy"), expected, strict=True)


def test_an_array_in_fortran_order_is_packed_by_its_logical_order(folder):
    np.save("fortran.npy", np.asfortranarray(np.load("array.npy")))
    for name in ("array", "fortran"):
        run("relayout", f"{name}.npy", f"{name}.out.npy", "--to", "f32[2,3,4]{1,0,2}")
    np.testing.assert_array_equal(np.load("fortran.out.npy"), np.load("array.out.npy"), strict=True)


def test_a_buffer_goes_to_another_layout_and_back_to_the_array(folder):
    first, second = "f32[2,3,4]{1,0,2}", "f32[2,3,4]{2,1,0:PD(2,3,8)}"
    run("relayout", "array.npy", "first.npy", "--to", first)
    run("relayout", "first.npy", "second.npy", "--from", first, "--to", second)
    np.testing.assert_array_equal(np.load("second.npy"), gl.pack(np.load("array.npy"), second), strict=True)
    run("relayout", "second.npy", "again.npy", "--from", second, "--unpack")
    np.testing.assert_array_equal(np.load("again.npy"), np.load("array.npy"), strict=True)


@pytest.mark.parametrize(
    "array", [np.array(7.0), np.zeros((0, 3), np.int16), np.array([], np.complex64), np.array([[True], [False]])]
)
def test_arrays_of_odd_dimensions_come_back(array, folder):
    np.save("odd.npy", array)
    layout = gl.Layout.ascending(array.ndim)
    run("relayout", "odd.npy", "buffer.npy", "--to", layout)
    run("relayout", "buffer.npy", "again.npy", "--from", gl.Shape(array.dtype, array.shape, layout), "--unpack")
    np.testing.assert_array_equal(np.load("again.npy"), array, strict=True)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_types_that_numpy_lacks_are_named_by_the_shape(dtype, folder):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    np.save("extended.npy", array)
    target = gl.Shape(dtype, (2, 3), gl.parse_layout("{0,1:PD(3,3)PV(1)}"))
    assert "name their type with a whole shape" in failure("relayout", "extended.npy", "out.npy", "--to", "{0,1}")
    run("relayout", "extended.npy", "out.npy", "--to", target)
    assert np.load("out.npy").tobytes() == gl.pack(array, target).tobytes()
    run("relayout", "out.npy", "again.npy", "--from", target, "--unpack")
    assert np.load("again.npy").view(dtype).tolist() == array.tolist()


def test_unsigned_integers_may_carry_a_type_that_numpy_lacks(folder):
    np.save("bits.npy", np.arange(6, dtype=np.uint16).reshape(2, 3))
    run("relayout", "bits.npy", "out.npy", "--to", "bf16[2,3]{0,1:PD(2,4)}")
    np.testing.assert_array_equal(np.load("out.npy"), np.array([0, 3, 1, 4, 2, 5, 0, 0], np.uint16), strict=True)


def test_a_dry_run_explains_and_writes_nothing(folder):
    text = run("relayout", "array.npy", "out.npy", "--to", "{1,0,2}", "--dry-run").stdout
    assert str(gl.plan("f32[2,3,4]", "f32[2,3,4]{1,0,2}").explain()) in text and "nothing was written" in text
    assert os.listdir() == ["array.npy"]


@pytest.mark.machine
def test_the_summary_as_json_has_the_plan(folder):
    found = json.loads(run("relayout", "array.npy", "out.npy", "--to", "{1,0,2:PD(2,4,4)}", "--json").stdout)
    assert (found["output_dimensions"], found["dry_run"]) == ([32], False) and found["seconds"] > 0
    assert (found["plan"]["bytes_read"], found["plan"]["bytes_written"]) == (96, 128)
    assert (
        json.loads(run("relayout", "array.npy", "new.npy", "--to", "{1,0,2}", "--json", "--dry-run").stdout)["seconds"]
        is None
    )


def test_the_command_that_goes_back_is_printed_and_works(folder):
    text = run("relayout", "array.npy", "out.npy", "--to", "{1,0,2}").stdout
    line = text.splitlines()[-1].removeprefix("back to an N-d array:  ")
    assert line == "gpulayout unpack out.npy BACK.npy --from 'f32[2,3,4]{1,0,2}'"
    run(*shlex.split(line)[1:])
    np.testing.assert_array_equal(np.load("BACK.npy"), np.load("array.npy"), strict=True)


def test_an_existing_output_stays_without_overwrite(folder):
    (folder / "out.npy").write_bytes(b"old")
    assert (
        failure("relayout", "array.npy", "out.npy", "--to", "{1,0,2}")
        == "out.npy: the file exists; --overwrite replaces it"
    )
    assert (folder / "out.npy").read_bytes() == b"old"
    run("relayout", "array.npy", "out.npy", "--to", "{1,0,2}", "--overwrite")
    assert np.load("out.npy").shape == (24,)


def test_a_file_that_appears_while_the_elements_are_moved_stays(folder, monkeypatch):
    move = Plan.__call__

    def slow(plan, buffer, out):
        (folder / "out.npy").write_bytes(b"theirs")
        return move(plan, buffer, out=out)

    monkeypatch.setattr(Plan, "__call__", slow)
    assert (
        failure("relayout", "array.npy", "out.npy", "--to", "{1,0,2}")
        == "out.npy: the file exists; --overwrite replaces it"
    )
    assert (folder / "out.npy").read_bytes() == b"theirs" and sorted(os.listdir()) == ["array.npy", "out.npy"]
    run("relayout", "array.npy", "out.npy", "--to", "{1,0,2}", "--overwrite")
    assert np.load("out.npy").shape == (24,)


@pytest.mark.one_in(2)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("options", [[], ["--json"], ["--dry-run"]])
def test_a_full_standard_output_does_not_hide_that_the_file_is_complete(options, unbuffered, folder):
    command = [sys.executable, "-m", "gpulayout", "relayout", "array.npy", "out.npy", "--to", "{1,0,2}", *options]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG,
            env={**os.environ, "PYTHONPATH": PACKAGES, "PYTHONUNBUFFERED": unbuffered},
        )
    there = "out.npy: the file is complete, but standard output failed: " if options != ["--dry-run"] else ""
    assert (result.returncode, result.stderr) == (1, f"gpulayout: error: {there}No space left on device\n")
    if there:
        np.testing.assert_array_equal(np.load("out.npy"), gl.pack(np.load("array.npy"), "{1,0,2}"))
    else:
        assert os.listdir() == ["array.npy"]


@pytest.mark.parametrize("name", ["./-", "./--to", "./-x.npy"])
def test_a_file_whose_name_begins_with_a_dash_goes_there_and_back(name, folder):
    text = run("relayout", "array.npy", name, "--to", "{1,0,2}").stdout
    run(*shlex.split(text.splitlines()[-1].removeprefix("back to an N-d array:  "))[1:])
    np.testing.assert_array_equal(np.load("BACK.npy"), np.load("array.npy"), strict=True)


def test_the_input_is_never_the_output(folder):
    assert "the same file" in failure("relayout", "array.npy", "array.npy", "--to", "{1,0,2}", "--overwrite")
    assert np.load("array.npy").shape == (2, 3, 4)


def test_a_move_that_fails_leaves_the_old_file_alone(folder, monkeypatch):
    def broken(*_, **__):
        raise MemoryError

    (folder / "out.npy").write_bytes(b"old")
    monkeypatch.setattr(Plan, "__call__", broken)
    assert failure("relayout", "array.npy", "out.npy", "--to", "{1,0,2}", "--overwrite") == "not enough memory"
    assert (folder / "out.npy").read_bytes() == b"old" and sorted(os.listdir()) == ["array.npy", "out.npy"]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--to", "{1,0}"], "minor_to_major (1, 0) has 2 entries for f32[2,3,4]: the shape has 3 dimensions"),
        (["--to", "{1,0,2:PD(1,1,1)}"], "is smaller than dimensions"),
        (
            ["--to", "f32[4,3,2]{0,1,2}"],
            "it holds an array of dimensions (2, 3, 4), but f32[4,3,2]{0,1,2} has (4, 3, 2)",
        ),
        (["--to", "s32[2,3,4]{0,1,2}"], "its elements are float32, but s32[2,3,4]{0,1,2} needs int32"),
        (["--to", "f64[2,3,4]{0,1,2}"], "its elements are float32, but f64[2,3,4]{0,1,2} needs float64"),
        (
            ["--from", "f32[2,3,4]{0,1,2}", "--to", "{1,0,2}"],
            "it holds an array of dimensions (2, 3, 4) in C order, which is not a buffer of f32[2,3,4]{0,1,2}; "
            "gpulayout pack reads an N-d array",
        ),
    ],
)
def test_a_shape_that_does_not_fit_the_file_is_refused(options, message, folder):
    assert message in failure("relayout", "array.npy", "out.npy", *options)
    assert os.listdir() == ["array.npy"]


def test_a_buffer_of_the_wrong_size_is_refused(folder):
    np.save("buffer.npy", np.zeros(14, np.float32))
    assert (
        failure("relayout", "buffer.npy", "out.npy", "--from", PADDED, "--unpack")
        == f"buffer.npy: it has 14 elements, but a buffer of {PADDED} has 15"
    )


@pytest.mark.parametrize(
    "options", [[], ["--unpack"], ["--to", "{0}", "--unpack"], ["--from", "{0,1}", "--to", "{1,0}"], ["--from", PADDED]]
)
def test_options_that_do_not_say_what_to_write_are_a_usage_error(options, folder):
    assert refusal("relayout", "array.npy", "out.npy", *options)


def test_text_that_is_not_a_layout_is_a_usage_error(folder):
    assert (
        refusal("relayout", "array.npy", "out.npy", "--to", "{1,0,")
        == "Invalid value for '--to': expected a dimension number, at character 5 (the end) of '{1,0,'"
    )


def test_letters_for_a_layout_and_a_buffer_without_its_shape_are_answered_with_what_to_write(folder):
    message = refusal("relayout", "array.npy", "out.npy", "--to", "chw")
    assert "'chw' is neither a layout, such as {1,0}, nor a pattern" in message and "names are C, F," in message
    np.save("buffer.npy", np.zeros(6, np.float32))
    failed = failure("relayout", "buffer.npy", "out.npy", "--to", "{0,1}")
    assert failed.endswith(
        "the layout {0,1} orders 2 dimensions; if it is a buffer, gpulayout relayout --from SHAPE moves it"
    )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
def test_hostile_layouts_leave_no_file(text, folder):
    for options in (["--to", text], ["--to", "{" + text], ["--from", text, "--unpack"]):
        refusal("relayout", "array.npy", "out.npy", *options)
    assert os.listdir() == ["array.npy"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("missing.npy", "missing.npy: No such file or directory"),
        (".", ".: this is a folder: write one of its files, array.npy, text.npy"),
        ("array.npy/x", "array.npy/x: Not a directory"),
        ("text.npy", "text.npy: not a .npy file that can be read: "),
        ("x" * 300, "File name too long"),
    ],
)
def test_an_input_that_is_not_npy_is_refused(name, message, folder):
    (folder / "text.npy").write_text("hello")
    assert message in failure("relayout", name, "out.npy", "--to", "{0}")
    assert not os.path.exists("out.npy")


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="this system has no names for standard streams")
@pytest.mark.parametrize("kind", ["dev/std", "dev/fd/", "proc/self/fd/"])
def test_names_of_standard_streams_are_answered_with_a_hyphen(kind, folder):
    output, input_ = (f"/{kind}{name if kind == 'dev/std' else number}" for number, name in ((1, "out"), (0, "in")))
    assert failure("relayout", "array.npy", output, "--to", "F") == (
        f"{output}: not a new file; write - for standard output"
    )
    assert names_stream(pathlib.Path(input_), 0) and not names_stream(pathlib.Path(output), 0)


def test_types_without_a_layout_are_refused(folder):
    for array, message in (
        (np.zeros(2, "M8[s]"), "no XLA counterpart"),
        (np.zeros(2, "U3"), "no XLA counterpart"),
        (np.zeros(2, np.longdouble), "no XLA counterpart"),
    ):
        np.save("other.npy", array)
        assert message in failure("relayout", "other.npy", "out.npy", "--to", "{0}")


def test_packed_elements_go_to_bytes_and_back(folder):
    array = np.arange(15).reshape(3, 5).astype(np.uint8)
    np.save("narrow.npy", array)
    run("relayout", "narrow.npy", "packed.npy", "--to", "u4[3,5]{0,1:E(4)}")
    np.testing.assert_array_equal(np.load("packed.npy"), gl.pack(array, "u4[3,5]{0,1:E(4)}"), strict=True)
    run("relayout", "packed.npy", "padded.npy", "--from", "u4[3,5]{0,1:E(4)}", "--to", "{1,0:PD(3,6)E(4)}")
    run("relayout", "padded.npy", "again.npy", "--from", "u4[3,5]{1,0:PD(3,6)E(4)}", "--unpack")
    np.testing.assert_array_equal(np.load("again.npy"), array, strict=True)
    assert "is packed, and its buffer is uint8" in failure(
        "relayout", "array.npy", "out.npy", "--from", "u4[24]{0:E(4)}", "--unpack"
    )
    assert "it has 8 bytes, but a buffer of u4[24]{0:E(4)} has 12" in failure(
        "relayout", "packed.npy", "out.npy", "--from", "u4[24]{0:E(4)}", "--unpack"
    )


def test_an_array_of_narrow_elements_is_packed_from_opaque_bytes(folder):
    array = np.arange(-8, 7).reshape(3, 5).astype(ml_dtypes.int4)
    np.save("narrow.npy", array)  # as "|V1": .npy has no name for int4
    run("relayout", "narrow.npy", "packed.npy", "--to", "s4[3,5]{1,0:T(2,4)E(4)}")
    np.testing.assert_array_equal(np.load("packed.npy"), gl.pack(array, "s4[3,5]{1,0:T(2,4)E(4)}"), strict=True)
    run("relayout", "packed.npy", "again.npy", "--from", "s4[3,5]{1,0:T(2,4)E(4)}", "--unpack")
    np.testing.assert_array_equal(np.load("again.npy"), array.view(np.uint8), strict=True)
    np.save("wide.npy", np.zeros((3, 5), np.int8))
    assert "its elements are int8, but s4[3,5]{1,0:E(4)} needs int4 (or uint8)" in failure(
        "relayout", "wide.npy", "out.npy", "--to", "s4[3,5]{1,0:E(4)}"
    )


@pytest.mark.parametrize(
    "layout, shape",
    [("{0,1:E(4)}", "s4[3,5]{0,1:E(4)}"), ("{1,0:E(2)}", "s2[3,5]{1,0:E(2)}"), ("{0,1}", "f8e4m3fn[3,5]{0,1}")],
)
def test_the_shape_named_for_opaque_elements_can_be_written(layout, shape, folder):
    np.save("opaque.npy", np.zeros((3, 5), "V1"))
    assert failure("relayout", "opaque.npy", "out.npy", "--to", layout) == (
        f"opaque.npy: its elements are opaque (|V1); name their type with a whole shape, such as --to '{shape}'"
    )
    run("relayout", "opaque.npy", "out.npy", "--to", shape)
