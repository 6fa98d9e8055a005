"""`-` is standard input or output: the data alone on stdout, messages on stderr, and clear refusals."""

import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import types

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.main import ClosedOutput, commands
from gpulayout.files.standard_streams import write_standard_output
from tests.support import strategies
from tests.support.command_line import run
from tests.support.effort import examples
from tests.support.waiting import HANG

PACKAGES = str(pathlib.Path(gl.__file__).parent.parent)
ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LAYOUT = "{0,2,1:PD(2,4,4)PV(highest)}"
SHAPE = f"f32[2,3,4]{LAYOUT}"


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def loaded(data):
    stream = io.BytesIO(data)
    array = np.load(stream)
    assert stream.read() == b""
    return array


def piped(*args, data=b"", code=0):
    """A command with these bytes on standard input."""
    result = CliRunner().invoke(commands, list(map(str, args)), input=data, prog_name="gpulayout")
    assert result.exit_code == code, result.output
    return result


def process(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "gpulayout", *map(str, args)],
        stderr=subprocess.PIPE,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": PACKAGES},
        **options,
    )


def shell(line):
    """A line of a shell in which `gpulayout` is the command; (exit code of the last part, stdout, stderr)."""
    defined = f'gpulayout() {{ {sys.executable} -m gpulayout "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", defined], capture_output=True, timeout=HANG, env={**os.environ, "PYTHONPATH": PACKAGES}
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", ARRAY)
    return tmp_path


# ---- the data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", [ARRAY, np.asfortranarray(ARRAY)], ids=["C", "Fortran"])
def test_pack_reads_standard_input_and_writes_standard_output(array):
    result = piped("pack", "-", "-", "--to", LAYOUT, data=npy(array))
    np.testing.assert_array_equal(loaded(result.stdout_bytes), gl.pack(ARRAY, SHAPE), strict=True)
    assert result.stderr.startswith("standard input  f32[2,3,4]") and "\nstandard output  f32[2,3,4]" in result.stderr
    assert "back to an N-d array" not in result.stderr


def test_unpack_and_relayout_read_and_write_them_too():
    buffer = gl.pack(ARRAY, SHAPE)
    result = piped("unpack", "-", "-", "--from", SHAPE, data=npy(buffer))
    np.testing.assert_array_equal(loaded(result.stdout_bytes), ARRAY, strict=True)
    result = piped("relayout", "-", "-", "--from", SHAPE, "--to", "{1,0,2}", data=npy(buffer))
    np.testing.assert_array_equal(loaded(result.stdout_bytes), gl.pack(ARRAY, "{1,0,2}"), strict=True)


@pytest.mark.parametrize("array", [np.array(7.0), np.zeros((0, 3), np.int16), np.array([[True], [False]])])
def test_arrays_of_odd_dimensions_pass_through_pipes(array):
    shape = gl.Shape(array.dtype, array.shape, gl.Layout.ascending(array.ndim))
    packed = piped("pack", "-", "-", "--to", shape.layout, data=npy(array)).stdout_bytes
    again = piped("unpack", "-", "-", "--from", shape, data=packed).stdout_bytes
    np.testing.assert_array_equal(loaded(again), array, strict=True)


def test_raw_bytes_pass_through_pipes_without_headers():
    raw = piped("pack", "-", "-", "--raw", "--to", LAYOUT, data=npy(ARRAY)).stdout_bytes
    assert raw == gl.pack(ARRAY, SHAPE).tobytes()
    other = piped("relayout", "-", "-", "--raw", "--from", SHAPE, "--to", "{1,0,2}", data=raw).stdout_bytes
    assert other == gl.pack(ARRAY, "{1,0,2}").tobytes()
    again = piped("unpack", "-", "-", "--raw", "--from", "f32[2,3,4]{1,0,2}", data=other).stdout_bytes
    np.testing.assert_array_equal(loaded(again), ARRAY, strict=True)


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=examples(60))
def test_any_array_passes_through_pipes_in_any_layout(data):
    sizes = data.draw(strategies.dimensions(max_rank=4, max_elements=200))
    layout = data.draw(strategies.tiled_layouts(sizes))
    array = np.arange(np.prod(sizes, dtype=int), dtype=data.draw(st.sampled_from(["u1", "i2", "f4", "c16"])))
    array = np.asarray(array.reshape(sizes), order=data.draw(st.sampled_from("CF")))
    shape, raw = gl.Shape(array.dtype, sizes, layout), data.draw(st.sampled_from([[], ["--raw"]]))
    packed = piped("pack", "-", "-", "--to", layout, *raw, data=npy(array)).stdout_bytes
    buffer = np.frombuffer(packed, array.dtype) if raw else loaded(packed)
    np.testing.assert_array_equal(buffer, gl.pack(array, shape), strict=True)
    again = piped("unpack", "-", "-", "--from", shape, *raw, data=packed).stdout_bytes
    np.testing.assert_array_equal(loaded(again), array, strict=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_more_than_a_pipe_holds_passes_through(unbuffered, folder):
    """Python's raw standard output, with PYTHONUNBUFFERED, takes only a part at a time."""
    array = np.arange(1 << 20, dtype=np.uint32)
    np.save("large.npy", array)
    code, out, err = shell(
        f"export PYTHONUNBUFFERED={unbuffered}; "
        "gpulayout pack -q large.npy - --to '{0}' | gpulayout pack -q - - --to '{0}' | (sleep 0.1; cat)"
    )
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(loaded(out), array, strict=True)


def test_commands_in_a_pipeline(folder):
    code, out, err = shell(
        f"set -o pipefail; gpulayout pack -q array.npy - --to '{LAYOUT}' | gpulayout unpack -q - - --from '{SHAPE}'"
    )
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(loaded(out), ARRAY, strict=True)


def test_redirected_files_are_read_and_written(folder):
    """Also from where an earlier reader of the same standard input stopped."""
    (folder / "two.npy").write_bytes(b"line\n" + npy(ARRAY))
    code, _, err = shell(f"{{ read -r line; gpulayout pack -q - - --to '{LAYOUT}'; }} <two.npy >out.npy")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load("out.npy"), gl.pack(ARRAY, SHAPE), strict=True)


def test_a_redirected_file_is_mapped_and_not_read(folder):
    """It would not fit into memory."""
    with open("large.npy", "wb") as file:
        header = npy(np.zeros(1, np.uint8))[:-1].replace(b"(1,), }" + b" " * 12, b"(100000000000,), }  "[:19])
        assert len(header) == 128
        file.write(header)
        file.truncate(len(header) + 10**11)
    code, _, err = shell("gpulayout pack - out.npy --to '{0:PD(9)}' <large.npy")
    assert code == 1 and "is smaller than dimensions" in err


def test_json_goes_to_stderr_when_stdout_has_the_data():
    result = piped("pack", "-", "-", "--to", LAYOUT, "--json", data=npy(ARRAY))
    found = json.loads(result.stderr)
    assert (found["input"], found["output"], found["output_dimensions"]) == ("-", "-", [32])
    assert loaded(result.stdout_bytes).shape == (32,)


def test_a_dry_run_writes_nothing_to_standard_output():
    result = piped("pack", "-", "-", "--to", LAYOUT, "--dry-run", data=npy(ARRAY))
    assert result.stdout_bytes == b"" and "dry run: nothing was written" in result.stderr


def test_a_file_called_dash_is_written_with_a_folder(folder):
    run("pack", "array.npy", "./-", "--to", LAYOUT)
    assert sorted(os.listdir()) == ["-", "array.npy"]
    piped("pack", "-", "out.npy", "--to", LAYOUT, data=npy(ARRAY + 1))
    assert np.load("out.npy")[0] == 1 and np.fromfile("./-", np.float32)[0] == 0
    assert run("show", "out.npy").stdout != run("show", "array.npy").stdout


def test_a_standard_output_that_takes_a_part_at_a_time_gets_everything(monkeypatch):
    class Partial(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:7]))

    stream = Partial()
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(buffer=stream, closed=False))
    write_standard_output(b"header", memoryview(bytes(range(100))))
    assert stream.getvalue() == b"header" + bytes(range(100))


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, found, rest",
    [(-1, "only 95 bytes", ""), (1, "more than 96 bytes", ": 1 byte would be left over"), (-96, "only 0 bytes", "")],
)
def test_a_pipe_of_another_length_than_its_header_says_is_refused(change, found, rest):
    data = (npy(ARRAY) + b"\0")[: len(npy(ARRAY)) + change]
    result = piped("pack", "-", "-", "--to", LAYOUT, data=data, code=1)
    assert result.stdout_bytes == b"" and result.stderr == (
        f"gpulayout: error: standard input: there are {found} of elements, but its header (<f4 of dimensions "
        f"(2, 3, 4)) needs 96{rest}\n"
    )


def test_a_pipe_of_raw_bytes_of_the_wrong_length_is_refused():
    result = piped("unpack", "-", "-", "--raw", "--from", "f32[4]", data=b"12345678", code=1)
    assert result.stdout_bytes == b"" and result.stderr.endswith(
        "standard input: there are only 8 bytes of elements, but a buffer of f32[4]{0} needs 16\n"
    )


@pytest.mark.parametrize("sizes", ["(4611686018427387904,)", f"({10**30},)"])
def test_a_pipe_whose_header_claims_more_than_memory_holds_is_refused(sizes):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {sizes}, }}\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 12
    result = piped("pack", "-", "-", "--to", "{0}", data=data, code=1)
    assert result.stdout_bytes == b"" and result.stderr.startswith("gpulayout: error: standard input: its header (<f4")


@pytest.mark.parametrize("data", [b"", b"hello", npy(np.zeros(3, [("a", "<f4")]))])
def test_other_data_on_standard_input_is_refused_in_one_line(data):
    reads_elements = ["pack", "-", "-", "--to", "{0}"], ["unpack", "-", "-", "--from", "f32[3]"]
    for args in (*reads_elements, ["show", "-"]):
        result = piped(*args, data=data, code=1)
        assert result.stdout_bytes == b"" and result.stderr.startswith("gpulayout: error: standard input: ")
        assert result.stderr.count("\n") == 1


def test_objects_on_standard_input_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    data = npy(np.array([Bomb()], object))
    for args in (["pack", "-", "-", "--to", "{0}"], ["show", "-"]):
        assert "never unpickled" in piped(*args, data=data, code=1).stderr
    assert os.listdir(tmp_path) == []


@pytest.fixture
def terminal():
    """A pseudo-terminal: (the end of a program, the end of its user)."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    user, program = pty.openpty()
    yield program, user
    os.close(user)
    os.close(program)


def test_binary_output_on_a_terminal_is_refused(terminal, folder):
    done = process("pack", "array.npy", "-", "--to", LAYOUT, stdout=terminal[0])
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "gpulayout: error: standard output is a terminal: redirect it to a file or a pipe\n"
    )
    os.set_blocking(terminal[1], False)
    with pytest.raises(BlockingIOError):
        os.read(terminal[1], 1)


@pytest.mark.parametrize("args", [["pack", "-", "out.npy", "--to", LAYOUT], ["show", "-"]])
def test_a_terminal_as_input_is_refused_and_not_waited_for(args, terminal, folder):
    done = process(*args, stdin=terminal[0])
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "gpulayout: error: standard input is a terminal: redirect a file to it, or a pipe\n"
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("args", [["pack", "-", "out.npy", "--to", LAYOUT], ["show", "-"], ["show", "--hlo", "-"]])
def test_a_closed_standard_input_is_one_line(args, folder):
    code, _, err = shell(f"gpulayout {' '.join(map(repr, args))} <&-")
    assert (code, err) == (1, "gpulayout: error: standard input is closed\n")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_closes_its_end_ends_the_writer_quietly(unbuffered, folder):
    np.save("large.npy", np.zeros(1 << 20, np.uint8))
    code, out, err = shell(
        f"export PYTHONUNBUFFERED={unbuffered}; "
        "gpulayout pack -q large.npy - --to '{0:PD(2000000)}' | head -c 6; exit ${PIPESTATUS[0]}"
    )
    assert (code, out, err) == (1, b"\x93NUMPY", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_full_standard_output_is_one_line(folder):
    with open("/dev/full", "wb") as full:
        done = process("pack", "-q", "array.npy", "-", "--to", LAYOUT, stdout=full)
    assert (done.returncode, done.stderr) == (1, b"gpulayout: error: standard output: No space left on device\n")


def test_the_file_behind_standard_input_is_never_the_output(folder):
    code, _, err = shell(f"gpulayout pack - array.npy --overwrite --to '{LAYOUT}' <array.npy")
    assert (code, err) == (1, "gpulayout: error: array.npy: input and output are the same file\n")
    np.testing.assert_array_equal(np.load("array.npy"), ARRAY, strict=True)


def test_an_existing_output_is_refused_before_a_pipe_is_read(folder):
    code, out, err = shell(f"{{ gpulayout pack - array.npy --to '{LAYOUT}'; cat; }} <<<hello")
    assert out == b"hello\n" and err == "gpulayout: error: array.npy: the file exists; --overwrite replaces it\n"


# ---- closed streams ------------------------------------------------------------------------------------------------

PRINTING = [
    "relayout array.npy - --to F",
    "pack -q array.npy - --to F",
    "unpack --json array.npy - --from 'f32[2,3,4]'",
    "relayout array.npy out.npy --to F --json",
    "relayout array.npy out.npy --to F --dry-run",
    "show 'f32[2,3]'",
    "show array.npy --json",
    "show 'f32[2,3]' --html -",
    "show 'f32[2,3]' --code c",
    "show --hlo program.txt",
    "index 'f32[2,3]' 1,2",
    "explain 'f32[2,3]' '{0,1}'",
    "explain 'f32[2,3]' '{0,1}' --html -",
    "demo --quick",
    "benchmark linearize --count 10 'f32[2,3]'",
    "info",
    "info --json",
    "--version",
    "--help",
    "show --help",
]


@pytest.mark.parametrize("command", PRINTING)
def test_what_a_closed_standard_output_would_lose_is_one_line_and_changes_nothing(command, folder, monkeypatch, capsys):
    (folder / "program.txt").write_text("%a = f32[4] add()")
    before = sorted(os.listdir())
    monkeypatch.setattr(sys, "stdout", ClosedOutput())
    with pytest.raises(SystemExit) as left:
        commands(shlex.split(command), prog_name="gpulayout")
    assert (left.value.code, capsys.readouterr().err) == (1, "gpulayout: error: standard output is closed\n")
    assert sorted(os.listdir()) == before


@pytest.mark.one_in(3)
@pytest.mark.parametrize("command", ["relayout array.npy - --to F", "show 'f32[2,3]'", "--version"])
def test_a_process_whose_standard_output_is_closed_says_so(command, folder):
    assert shell(f"gpulayout {command} >&-") == (1, b"", "gpulayout: error: standard output is closed\n")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("command", ["relayout array.npy - --to F", "show 'f32[2,3]'", "--version"])
def test_a_closed_standard_error_changes_neither_the_output_nor_the_exit_code(command, folder):
    with_it, without = shell(f"gpulayout {command}"), shell(f"gpulayout {command} 2>&-")
    assert without == (0, with_it[1], "") and with_it[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_failure_with_a_closed_standard_error_keeps_its_exit_code(closed, folder):
    assert shell(f"gpulayout pack none.npy out.npy --to F {closed}") == (1, b"", "")
    assert shell(f"gpulayout pack array.npy out.npy --to 'f32[' {closed}") == (2, b"", "")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_move_between_files_needs_no_standard_stream(closed, folder):
    code, out, _ = shell(f"gpulayout pack array.npy buffer.npy --to '{LAYOUT}' {closed}")
    assert code == 0 and (out == b"" or closed in ("<&-", "2>&-"))
    assert np.load("buffer.npy").tobytes() == gl.pack(ARRAY, SHAPE).tobytes()


def test_a_page_in_a_file_needs_no_standard_stream(folder):
    assert shell("gpulayout show 'f32[2,3]' --html page.html >&- 2>&-") == (0, b"", "")
    assert (folder / "page.html").read_text().endswith("</html>\n")


NOISY = """
import os
from gpulayout.plans.plan import Plan
from gpulayout.cli.main import main

move = Plan.__call__

def noisy_move(self, *arguments, **options):
    for stream in (1, 2):
        os.write(stream, b"noise")  # as a library in C prints
    return move(self, *arguments, **options)

Plan.__call__ = noisy_move
main()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_what_is_printed_to_a_closed_stream(closed, folder):
    (folder / "noisy.py").write_text(NOISY)
    before = (folder / "array.npy").read_bytes()
    code, _, _ = shell(f"{sys.executable} noisy.py pack array.npy buffer.npy --overwrite --to '{LAYOUT}' {closed}")
    assert code == 0 and (folder / "array.npy").read_bytes() == before
    assert np.load("buffer.npy").tobytes() == gl.pack(ARRAY, SHAPE).tobytes()
