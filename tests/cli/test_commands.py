"""The command line: what every command prints, its exit codes, and one-line errors for hostile input."""

import json
import os
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.choices.explain import explain
from gpulayout.cli import demo as demo_command
from gpulayout.cli.failures import printable
from gpulayout.cli.main import commands
from gpulayout.files.memory import block_limit
from gpulayout.gpu.devices import DEVICES, REFERENCE
from gpulayout.layout.checks import clipped
from tests.support.command_line import HOSTILE, PADDED, failure, refusal, run
from tests.support.waiting import HANG

COMMANDS = sorted(commands.commands)


def process(*args: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "gpulayout", *args],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, **environment},
    )


# ---- all commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples_and_fits_a_screen(command):
    lines = run(command, "--help").stdout.splitlines()
    assert any(line.startswith(f"    gpulayout {command}") for line in lines[lines.index("  Examples:") :])
    assert max(map(len, lines)) <= 100 and len(lines) <= 40


def test_the_overview_lists_every_command_in_full():
    text = run("--help").stdout
    assert all(f"  {command}" in text for command in COMMANDS)
    assert "..." not in text.split("Commands:")[1] and len(text.splitlines()) <= 40
    assert "models in .safetensors files" in " ".join(text.split()) and "--map " in text and "--tensor " in text


def test_all_commands_are_click_commands_with_a_short_help():
    assert all(isinstance(command, click.Command) and command.short_help for command in commands.commands.values())


def test_the_version_is_the_packages():
    assert run("--version").stdout == f"gpulayout {gl.__version__}\n"


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["show"],
        ["show", PADDED, "--nonsense"],
        ["index", PADDED],
        ["index", PADDED, "1;2"],
        ["index", PADDED, "--linear", "1,2"],
        ["explain", PADDED],
        ["index", PADDED, "9" * 5000],
        ["show", "f32[2"],
        ["explain", PADDED, "{0,0}"],
        ["show", PADDED, "--code", "rust"],
        ["show", PADDED, "--code", "c", "--name", "int"],
        ["show", PADDED, "--code", "c", "--json"],
        ["show", PADDED, "--name", "a"],
        ["show", "--hlo", "-", "--code", "c"],
    ],
)
def test_wrong_usage_exits_with_2(args):
    assert run(*args, code=2).stderr.startswith("Usage: gpulayout")


@pytest.mark.parametrize(
    "args, hint",
    [
        (["show", "f32[2,3]0", "f32[2,3]1"], "quote SHAPE, or the shell interprets its braces"),
        (
            ["show", __file__],
            "gpulayout show --hlo FILE reads a program, gpulayout show - <FILE the header of a .npy file",
        ),
        (["explain", "{1,0}", "{0,1}"], "write the whole shape, such as 'f32[2,3]{0,1}'"),
        (["show", PADDED, "--names", "rows"], "one name for each, such as 'nhwc' or 'batch,channel'"),
        (["explain", PADDED, "F", "--names", "a b c"], "one name for each, such as 'nhwc' or 'batch,channel'"),
        (["index", PADDED, "1", "2"], "has 2 dimensions: write 1,2"),
    ],
)
def test_a_slip_is_answered_with_what_to_write(args, hint):
    assert run(*args, code=2).stderr.endswith(f"{hint}\n")


@pytest.mark.parametrize(
    "args",
    [["explain", "FILE", "F"], ["explain", "u8[2]", "FILE"], ["relayout", "a", "b", "--to", "F", "--from", "FILE"]],
)
@pytest.mark.parametrize(
    "name, shape",
    [
        ("img.npy", "u8[480,640,3]"),
        ("columns.npy", "f32[2,3]{0,1}"),
        ("missing.npy", "u8[480,640,3]"),
        ("text", "u8[480,640,3]"),
    ],
)
def test_a_file_where_a_shape_is_wanted_is_answered_with_its_shape(name, shape, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("img.npy", np.zeros((480, 640, 3), np.uint8))
    np.save("columns.npy", np.zeros((2, 3), np.float32, order="F"))
    (tmp_path / "text").write_text("text")
    assert refusal(*(name if each == "FILE" else each for each in args)).endswith(
        f"; this is a file, write the shape of its array, '{shape}', or gpulayout relayout IN OUT --to LAYOUT "
        "--dry-run to explain the move of a file"
    )


@pytest.mark.parametrize("names", ["row,column", "row, column", "row column", " row column "])
def test_names_have_blanks_or_commas_between_them(names):
    assert "order         row varies fastest, then column" in run("show", PADDED, "--names", names).stdout
    assert "  row: " in run("explain", PADDED, "{1,0}", "--names", names).stdout


def test_names_are_no_markup():
    table = run("show", PADDED, "--names", "[b]x,[/i]:smile:").stdout
    assert [line.split()[1] for line in table.splitlines() if line.split()[:1] in (["0"], ["1"])][:2] == [
        "[b]x",
        "[/i]:smile:",
    ]


@pytest.mark.parametrize("language", ["cuda", "c", "python"])
def test_show_prints_code(language):
    assert run("show", PADDED, "--code", language).stdout == gl.code(PADDED, language)
    assert run("show", PADDED, "--code", language, "--name", "a").stdout == gl.code(PADDED, language, name="a")
    assert run("show", "f32[?]", "--code", language, code=1).stderr.endswith("dimension 0 is unbounded\n")


def test_the_module_runs_as_the_command():
    result = process("show", PADDED)
    assert (result.returncode, result.stderr) == (0, "") and result.stdout.startswith(PADDED)


@pytest.mark.machine  # the demo takes times
def test_output_outside_a_terminal_has_no_escape_codes():
    assert "\x1b" not in process("show", PADDED).stdout
    for args in (["demo", "--quick"], ["--help"]):
        assert "\x1b" not in run(*args).stdout


def test_output_that_cannot_be_encoded_is_drawn_in_ascii():
    result = process("show", PADDED, PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and result.stdout.isascii() and "|//9|" in result.stdout


def test_a_reader_that_closes_its_end_causes_no_traceback():
    command = [sys.executable, "-m", "gpulayout", "show", PADDED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


@pytest.mark.one_in(2)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("args", [["show", PADDED], ["--help"], ["--version"], ["info", "--json"]])
def test_a_full_standard_output_is_one_line_and_no_traceback(args, unbuffered):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "gpulayout", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert result.returncode == 1 and result.stderr.startswith("gpulayout: error: ")
    assert result.stderr.endswith("No space left on device\n") and result.stderr.count("\n") == 1


def test_the_library_is_imported_without_click_and_rich():
    code = "import sys, gpulayout; print({'click', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(
    "error, message",
    [
        (MemoryError(), "not enough memory"),
        (OSError(28, "No space left on device", "x\x1b.npy"), r"x\x1b.npy: No space left on device"),
        (gl.BackendUnavailable("no GPU"), "no GPU"),
        (BufferError("too small"), "too small"),
        (gl.LayoutError("a\nb"), r"a\nb"),
    ],
)
def test_errors_of_the_library_and_the_system_are_one_line(error, message, monkeypatch):
    def broken(*_):
        raise error

    monkeypatch.setattr("gpulayout.cli.show.clipped", broken)
    assert failure("show", PADDED) == message


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(*_):
        raise KeyError("a bug")

    monkeypatch.setattr("gpulayout.cli.show.clipped", broken)
    with pytest.raises(KeyError):
        CliRunner().invoke(commands, ["show", PADDED], catch_exceptions=False)


def test_printable_keeps_letters_and_escapes_the_rest():
    assert printable("größe\t\udcff\u202e") == r"größe\t\udcff\u202e"
    assert clipped("abc", 3) == "abc"


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
def test_hostile_shapes_end_in_one_printable_line(text):
    for args in (
        ["show", text],
        ["index", text, "0"],
        ["explain", text, PADDED],
        ["explain", PADDED, text],
        ["show", text, "--json"],
    ):
        message = refusal(*args)
        assert message.startswith("Invalid value for '") and len(message) < 1000 and all(map(str.isprintable, message))


# ---- show, index, explain, info -------------------------------------------------------------------------------


def test_show_says_what_the_layout_means():
    text = run("show", "f32[2,3]{0,1:PD(3,5)PV(lowest)}").stdout
    for line in (
        "element type  f32 (float32), 4 bytes",
        "order         y varies fastest, then x; major to minor: x, y (ascending, column-major)",
        "elements      6",
        "buffer        15 places, 60 bytes",
        "padding       9 places, 36 bytes, 60.0% of the buffer",
        "pad value     lowest (-inf), bytes 00 00 80 ff",
        "y 0│  0│  3│  6│░░9│░12│",
    ):
        assert line in text
    assert max(map(len, text.splitlines())) <= 88


def test_the_order_of_a_tiled_shape_is_that_before_tiles():
    text = run("show", "bf16[16,256]{1,0:T(8,128)(2,1)}").stdout
    assert "order         before tiles, x varies fastest, then y; major to minor: y, x" in text
    assert "y ↓ 16, fastest" in text


def test_a_shape_without_sizes_is_one_line():
    for args in (
        ["show", "f32[2,?]"],
        ["show", "f32[2,?]", "--json"],
        ["index", "f32[2,?]", "0,0"],
        ["explain", "f32[2,?]", "f32[2,?]{0,1}"],
    ):
        assert failure(*args) == "dimensions (2, UNBOUNDED) have no size for f32[2,?]{1,0}: dimension 1 is unbounded"


def test_show_draws_tiles_and_packed_elements():
    text = run("show", "f32[3,5]{1,0:T(2,2)}").stdout
    assert "width before tiles" in text and "width in memory" not in text
    for line in (
        "tiles         (2,2): memory is 2 x 3 x 2 x 2 places",
        "padding       9 places, 36 bytes, 37.5% of the buffer",
        "y 0┃  0│  1┃  4│  5┃  8│░░9┃",
        "┃0,0│0,1│1,0│1,1┃0,2│0,3│1,2│1,3┃0,4│░░░│1,4│░░░┃2,0│2,1│░░░│░░░┃2,2│2,3│░░░│░░░┃",
    ):
        assert line in text
    found = json.loads(run("show", "s4[3]{0:T(*,2)L(5)E(4)}", "--json").stdout)
    assert found["tiles"] == [["*", 2]] and found["strides"] is found["byte_strides"] is None
    assert (found["buffer_size"], found["nbytes"], found["padding_count"], found["padding_nbytes"]) == (5, 3, 2, 1)
    assert "s4 (int4), 4 bits, packed\n" in run("show", "s4[3]{0:E(4)}").stdout
    assert "u1 (uint1), 1 bit, packed from the highest bits on\n" in run("show", "u1[3]{0:E(1,big)}").stdout
    assert json.loads(run("show", "u1[3]{0:E(1,big)}", "--json").stdout)["bit_order"] == "big"


@pytest.mark.parametrize(
    "shape, line",
    [
        ("f32[<=3,<=5]{1,0:S(5)}", "dynamic sizes y is at most 3, x is at most 5\nmemory space  5\n"),
        ("s8[3,5]{1,0:E(4)}", "never moved   element_size_in_bits 4 is not a storage size of s8"),
        ("f32[3,5]{1,0:T(2,4)}", "Place of every element; padding is hatched:\n"),
        ("f32[3,5]{1,0:T(2,4)}", "│░░9│"),
        (
            "f32[3,5]{1,0:T(*,4)}",
            "Place of every element; padding is hatched, and some of it appears only in memory below:\n",
        ),
    ],
)
def test_show_prints_labels_and_why_a_shape_cannot_be_stored(shape, line):
    assert line in run("show", shape).stdout
    plain = run("show", "f32[3,5]").stdout
    assert (
        "dynamic" not in plain
        and "memory space" not in plain
        and "never" not in plain
        and "padding is hatched:\n" in plain
    )


def test_show_as_json_is_the_shapes_own_numbers():
    shape = gl.parse_shape("s16[2,3,4]{0,2,1:PD(2,4,4)PV(7)}")
    found = json.loads(run("show", shape, "--json").stdout)
    for name in ("dimensions", "strides", "byte_strides"):
        assert tuple(found[name]) == getattr(shape, name)
    for name in ("itemsize", "rank", "true_rank", "element_count", "buffer_size", "nbytes"):
        assert found[name] == getattr(shape, name)
    assert gl.parse_shape(found["shape"]) == shape
    assert [found[f"padding_{name}"] for name in ("value", "value_bytes", "count", "nbytes")] == ["7", "0700", 8, 16]


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "u8[0]",
        "pred[1]",
        "c128[2]{0:PD(3)PV(1+2j)}",
        "bf16[0,4]{1,0:PD(2,4)PV(unknown)}",
        "f8e4m3fn[7,1,3]",
        "u8[9223372036854775807]",
        "u8[" + ",".join("1" * 20000) + "]",
    ],
    ids=lambda text: text[:20],
)
def test_show_has_an_answer_for_every_shape(text):
    found = run("show", text).stdout
    assert found.startswith(text[:10]) and len(found) < 6000
    json.loads(run("show", text, "--json").stdout)


def test_index_converts_both_ways():
    assert run("index", PADDED, "1,2", "(0,1)").stdout == "1,2 -> 7    (byte 28)\n0,1 -> 3    (byte 12)\n"
    assert run("index", PADDED, "--linear", "7").stdout == "7 -> 1,2    (byte 28)\n"
    assert run("index", "f64[]", "()").stdout == "() -> 0    (byte 0)\n"
    assert run("index", "s4[2,3]{1,0:E(4)}", "1,0").stdout == "1,0 -> 3    (byte 1, from bit 4 on)\n"
    assert run("index", "s4[2,3]{1,0:E(4,big)}", "1,0").stdout == "1,0 -> 3    (byte 1, from bit 0 on)\n"
    assert json.loads(run("index", PADDED, "--linear", "7", "--json").stdout) == [
        {"index": [1, 2], "linear": 7, "byte_offset": 28, "bit_offset": 0, "padding": False}
    ]


def test_index_reports_padding_and_exits_with_1():
    result = run("index", PADDED, "--linear", "7", "2", code=1)
    assert result.stdout == "7 -> 1,2    (byte 28)\n2 -> padding: coordinate 2 of dimension 0 is past the size 2\n"
    assert json.loads(run("index", PADDED, "--linear", "2", "--json", code=1).stdout)[0] == {
        "index": None,
        "linear": 2,
        "byte_offset": 8,
        "bit_offset": 0,
        "padding": True,
    }


@pytest.mark.parametrize(
    "args",
    [
        ["2,0"],
        ["-1,2"],
        ["1"],
        ["1,2,3"],
        ["9" * 25 + ",0"],
        ["--linear", "15"],
        ["--linear", "-1"],
        ["--linear", "0", "99"],
    ],
)
def test_index_refuses_indices_out_of_bounds(args):
    assert "f32[2,3]{0,1:PD(3,5)}" in failure("index", PADDED, *args)


def test_explain_prints_the_plan(numpy_alone):
    plan = gl.plan("f32[2,3]", PADDED)
    wanted = explain(plan.pieces, plan.source, plan.target, DEVICES[REFERENCE])
    assert run("explain", "f32[2,3]", PADDED).stdout == f"{wanted}\n"
    found = json.loads(run("explain", "f32[2,3]", PADDED, "--json").stdout)
    assert (found["bytes_read"], found["bytes_written"], found["gpu"]["family"]) == (24, 60, "gather")
    assert found["axes"][0] == {"dimensions": [0], "extent": 3, "bound": 2, "source_stride": 12, "target_stride": 4}
    assert found["cpu"] == {
        "element_bytes": 4,
        "axes": [
            {"extent": 2, "source_stride": 12, "target_stride": 4},
            {"extent": 3, "source_stride": 4, "target_stride": 12},
        ],
        "cache_block": None,
        "threads": 1,
    }
    model = found["gpu"]["model"]
    assert (model["measured"], model["device"], model["binds"][0]) == (False, REFERENCE, "the launch")
    nothing = json.loads(run("explain", "f32[0]", "f32[0]", "--json").stdout)
    assert nothing["gpu"] is nothing["cpu"] is None


def test_explain_says_how_a_limit_cuts_files():
    plan, given = gl.plan("f32[39000,39001]", "{0,1}"), ("explain", "f32[39000,39001]", "{0,1}", "--memory")
    limit = block_limit("64M")
    wanted = str(plan.explain(max_bytes=limit)).splitlines()
    lines = [line for line in run(*given, "64M").stdout.splitlines() if "model, not measured" not in line]
    assert lines == [line for line in wanted if "model, not measured" not in line]
    assert "passes   two" in lines[-4]
    found = json.loads(run(*given, "64M", "--json").stdout)["passes"]
    assert [each["blocks"] for each in found] == [len(each.blocks(limit)) for each in plan.passes(limit)]
    assert len(json.loads(run(*given, "1G", "--json").stdout)["passes"]) == 1
    assert "passes" not in json.loads(run(*given[:3], "--json").stdout)
    assert "'64X' is not a number of bytes" in run(*given, "64X", code=2).stderr
    assert "--html and --memory" in run(*given, "64M", "--html", "x.html", code=2).stderr


def test_explain_says_whether_it_can_be_done_in_place():
    plan, given = gl.plan("f32[999,1001]", "{0,1}"), ("explain", "f32[999,1001]", "{0,1}", "--in-place")
    assert run(*given).stdout.endswith(f"\n{plan.in_place().explain()}\n")
    found = json.loads(run(*given, "--json").stdout)["in_place"]
    assert found == plan.in_place().as_json() and found["workspace"] <= 1 << 20
    assert [step["kind"] for step in found["steps"]] == [step.kind for step in plan.in_place().steps]
    assert "0.1% of the buffer" not in run("explain", "f32[2,3]", PADDED, "--in-place").stdout
    failed = run("explain", "u1[9999,9999]{1,0:E(1)}", "{0,1:E(1)}", "--in-place", code=1)
    assert not failed.stdout and failed.stderr.endswith(
        "elements of 1 bit share bytes, which are not moved whole; max_bytes=12497501 is enough\n"
    )
    assert "give one of --html and --in-place" in run(*given, "--html", "page.html", code=2).stderr


def test_explain_takes_a_device():
    slow, fast = (
        json.loads(run("explain", "f32[8191,8193]", "{0,1}", "--device", name, "--json").stdout)["gpu"]["model"]
        for name in ("T4", "H200")
    )
    assert (slow["device"], fast["device"]) == ("T4", "H200")
    assert (
        slow["microseconds"][0] > 5 * fast["microseconds"][1] and slow["fraction_of_copy"] != fast["fraction_of_copy"]
    )
    assert "T4" in run("explain", "f32[2]", "f32[2]", "--device", "T5", code=2).stderr
    assert "model, not measured, for T4: " in run("explain", "f32[999,999]", "{0,1}", "--device", "T4").stdout


@pytest.mark.parametrize(
    ("source", "target", "elements", "places", "chunk"),
    [
        ("s4[3,5]{1,0:E(4)}", "{0,1:L(16)E(4)}", 15, 16, 32768),
        ("s4[3,5]{1,0:E(4)}", "{1,0}", 15, 15, 32768),
        ("s4[4,64]{1,0:E(4)}", "{1,0:PD(5,64)E(4)}", 256, 320, None),
        ("s4[0]{0:E(4)}", "{0:T(8)E(4)}", 0, 0, None),
    ],
)
def test_explain_as_json_describes_packed_moves(numpy_alone, source, target, elements, places, chunk):
    found = json.loads(run("explain", source, target, "--json").stdout)
    assert (found["element_count"], found["place_count"], found["itemsize"]) == (elements, places, 1)
    assert (found["cpu"] or {}).get("chunk") == chunk


def test_explain_as_json_has_numpy_s_tiles_minor_first(numpy_alone):
    found = json.loads(run("explain", "f32[4096,16384]", "{0,1}", "--json").stdout)["cpu"]
    assert [axis["extent"] for axis in found["axes"]] == [4096, 16384]
    assert found["cache_block"] == [16, 2048]  # shorter along the target
    found = json.loads(run("explain", "u8[9,300000]", "{0,1:PD(10,300000)}", "--json").stdout)["cpu"]
    assert found["cache_block"] == [1, 13044]


def test_explain_takes_a_layout_for_the_target():
    assert run("explain", "f32[2,3]", "{0,1:PD(3,5)}").stdout == run("explain", "f32[2,3]", PADDED).stdout
    assert "f32[2,3]" in failure("explain", "f32[2,3]", "{0,1,2}")


def test_explain_refuses_two_different_arrays():
    assert "not the same logical array" in failure("explain", "f32[2,3]", "f32[3,2]")


def test_info_is_show_config(capsys):
    gl.show_config()
    assert run("info").stdout == capsys.readouterr().out
    assert json.loads(run("info", "--json").stdout) == json.loads(json.dumps(gl.show_config("dicts"), default=str))


@pytest.mark.parametrize("command", ["info", "demo"])
def test_an_unknown_backend_is_refused(command, monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "abacus")
    assert failure(command) == "GPULAYOUT_BACKEND 'abacus' is not one of 'auto', 'numpy', 'cupy'"


# ---- demo -----------------------------------------------------------------------------------------------------


@pytest.mark.machine
def test_demo_draws_the_documents_example_and_checks_every_result():
    text = run("demo", "--quick").stdout
    assert "a d 0 b e 0 c f 0 0 0 0 0 0 0" in text
    assert "Every result equals plain NumPy's." in text
    assert max(map(len, text.splitlines()[:-1])) <= 100


@pytest.mark.machine
def test_demo_as_json_has_a_timing_for_every_job(monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")
    found = json.loads(run("demo", "--quick", "--json").stdout)
    assert found["ok"] and found["gpu_missing"] == "GPULAYOUT_BACKEND is numpy"
    assert [timing["name"].split()[0] for timing in found["timings"]] == [
        "RGB",
        "RGB",
        "rows",
        "pack",
        "unpack",
        "delinearize",
        "linearize",
    ]
    assert all(timing["equal"] and timing["seconds"] > 0 and timing["peer_seconds"] > 0 for timing in found["timings"])


@pytest.mark.machine
def test_demo_exits_with_1_when_a_result_differs(monkeypatch):
    monkeypatch.setattr("gpulayout.cli.demo.linearize", lambda indices, shape: np.zeros(indices.shape[1:], np.int64))
    result = run("demo", "--quick", code=1)
    assert "DIFFERS" in result.stdout and "1 of 7 results differ" in result.stdout


@pytest.mark.machine
def test_demo_exits_with_1_when_the_example_is_wrong(monkeypatch):
    monkeypatch.setattr(demo_command, "strip_of", lambda text: "abcdef")
    assert not json.loads(run("demo", "--quick", "--json", code=1).stdout)["ok"]
    assert "WRONG: a d b e c f" in run("demo", "--quick", code=1).stdout
