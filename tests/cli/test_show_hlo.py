"""`gpulayout show --hlo`: the arrays it lists, and how it refuses text that is not a program."""

import itertools
import json
import pathlib
import types

import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli import progress
from gpulayout.cli.main import commands
from gpulayout.cli.output import print_json
from tests.support.command_line import HOSTILE, PADDED, failure, refusal, run

DUMPS = pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo"
TILED = str(DUMPS / "tiled.txt")
PROGRAM = """%a = f32[16,256]{0,1:T(8,128)} add(f32[16,256]{0,1:T(8,128)} %x), metadata={op_name="u8[9]"}
%b = (f32[16,256]{0,1:T(8,128)}, token[], b(s8[5]{0:T(4)})) foo(%a)
%c = f32[?] bar(%b), %d = token[] after-all()
"""


def listed(text, *options, code=0):
    """The output of a program's text on standard input."""
    result = CliRunner().invoke(commands, ["show", "--hlo", "-", *options], input=text, prog_name="gpulayout")
    assert result.exit_code == code, result.output
    return result


def test_the_table_has_the_largest_first_with_padding_and_the_better_order():
    assert (
        listed(PROGRAM).stdout
        == """\
standard input
3 arrays of 2 shapes, 262152 bytes together, 229379 of them padding (87.5%); 1 without a bound left out

times   bytes  padding  of_it  line  instruction  shape                      least_order  least_bytes
    2  131072   114688  87.5%     1  a            f32[16,256]{0,1:T(8,128)}  {1,0}              16384
    1       8        3  37.5%     2  b            s8[5]{0:T(4)}              -                      -

the orders under 'least_order' would save 229376 of the 229379 bytes of padding
"""
    )


def test_json_has_every_buffer_and_the_better_shape():
    found = json.loads(listed(PROGRAM, "--json", "--top", "1").stdout)
    assert found == {
        "file": "-",
        "read_as": "program",
        "unread_lines": {"count": 0, "first": []},
        "count": 3,
        "without_size": 1,
        "nbytes": 262152,
        "padding_nbytes": 229379,
        "saving_nbytes": 229376,
        "buffers": [
            {
                "shape": "f32[16,256]{0,1:T(8,128)}",
                "count": 2,
                "first_line": 1,
                "instructions": ["a", "b"],
                "nbytes": 131072,
                "padding_nbytes": 114688,
                "padding_fraction": 0.875,
                "least_waste": {"shape": "f32[16,256]{1,0:T(8,128)}", "nbytes": 16384},
            },
            {
                "shape": "s8[5]{0:T(4)}",
                "count": 1,
                "first_line": 2,
                "instructions": ["b"],
                "nbytes": 8,
                "padding_nbytes": 3,
                "padding_fraction": 0.375,
                "least_waste": {"shape": "s8[5]{0:T(4)}", "nbytes": 8},
            },
        ],
    }


@pytest.mark.parametrize("option", [["--top", "3"], ["--sort", "waste"], ["--copies"]])
def test_options_of_a_program_without_one_are_refused(option):
    assert refusal("show", "f32[2,3]", *option) == f"{option[0]} needs --hlo FILE{', or a model' * (len(option) > 1)}"


# ---- the order of the rows, and what could be saved ----------------------------------------------------------------

BUFFERS = json.loads(run("show", "--hlo", TILED, "--json").stdout)["buffers"]


@pytest.mark.parametrize(
    "sort, key",
    [
        ("bytes", lambda one: -one["nbytes"]),
        ("waste", lambda one: -one["count"] * one["padding_nbytes"]),
        ("saving", lambda one: -one["count"] * (one["nbytes"] - one["least_waste"]["nbytes"])),
        ("times", lambda one: -one["count"]),
        ("line", lambda one: one["first_line"]),
    ],
)
def test_rows_are_sorted_and_ties_stay_in_the_order_of_bytes(sort, key):
    found = json.loads(run("show", "--hlo", TILED, "--json", "--sort", sort).stdout)
    assert found["buffers"] == sorted(BUFFERS, key=key)
    rows = run("show", "--hlo", TILED, "--sort", sort, "--top", "99").stdout.splitlines()[4:]
    assert [row.split()[4] for row in rows[: len(BUFFERS)]] == [str(one["first_line"]) for one in found["buffers"]]


@pytest.mark.parametrize("sort, order", [("waste", "CAB"), ("saving", "CBA"), ("times", "CAB"), ("bytes", "BCA")])
def test_waste_and_saving_are_those_of_all_arrays_of_a_shape_together(sort, order):
    """Padding: A 11 x 6 bytes, B 60, C 12 x 30.  The other order saves nothing of A, 48 bytes of B, 12 x 16 of C."""
    shapes = {"A": "s8[2]{0:T(8)}", "B": "s8[4,1]{1,0:T(1,16)}", "C": "s8[2,1]{1,0:T(1,16)}"}
    text = "".join(f"%x = {shapes[name]} add()\n" * count for name, count in (("A", 11), ("B", 1), ("C", 12)))
    found = json.loads(listed(text, "--sort", sort, "--json").stdout)
    names = {shape: name for name, shape in shapes.items()}
    assert "".join(names[one["shape"]] for one in found["buffers"]) == order
    assert (found["padding_nbytes"], found["saving_nbytes"]) == (66 + 60 + 360, 48 + 192)


def test_every_order_of_the_rows_differs_in_the_example():
    orders = [run("show", "--hlo", TILED, "--sort", sort).stdout for sort in ("bytes", "waste", "saving", "line")]
    assert len({order.partition("\n\n")[2] for order in orders}) >= 3


def test_an_unknown_order_is_refused():
    assert "'bytes', 'waste', 'saving', 'times', 'line'" in refusal("show", "--hlo", TILED, "--sort", "size")


@pytest.mark.parametrize("path", sorted(DUMPS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_last_line_is_what_the_better_orders_save_in_all(path):
    found = json.loads(run("show", "--hlo", path, "--json").stdout)
    saved = sum(one["count"] * (one["nbytes"] - one["least_waste"]["nbytes"]) for one in found["buffers"])
    assert found["saving_nbytes"] == saved <= found["padding_nbytes"]
    assert found["padding_nbytes"] == sum(one["count"] * one["padding_nbytes"] for one in found["buffers"])
    last = run("show", "--hlo", path, "--top", "1").stdout.splitlines()[-1]
    assert last == (
        f"the orders under 'least_order' would save {saved} of the {found['padding_nbytes']} bytes of padding"
        if saved
        else "no other order of the dimensions needs fewer bytes"
    )


def test_top_shortens_the_table_and_says_so():
    text = listed(PROGRAM, "--top", "1").stdout
    assert "s8[5]" not in text and "\nand 1 more; --top 2 lists all\n" in text
    assert "lists all" not in listed(PROGRAM, "--top", "2").stdout


@pytest.mark.parametrize("path", sorted(DUMPS.glob("*.txt")), ids=lambda path: path.stem)
def test_programs_are_listed_by_bytes(path):
    buffers = json.loads(run("show", "--hlo", path, "--json").stdout)["buffers"]
    assert len(buffers) > 3 and [one["nbytes"] for one in buffers] == sorted(
        (one["nbytes"] for one in buffers), reverse=True
    )
    lines = path.read_text().splitlines()
    for one in buffers:
        assert gl.parse_shape(one["shape"]).nbytes == one["nbytes"] and one["shape"] in lines[one["first_line"] - 1]


def test_long_shapes_are_shown_whole():
    shape = "f32[" + "1," * 60 + "2]"
    assert f" {shape}{{{','.join(map(str, range(60, -1, -1)))}}} " in listed(f"%a = {shape} add()").stdout


@pytest.mark.parametrize("path", sorted(DUMPS.glob("*.txt")), ids=lambda path: path.stem)
@pytest.mark.parametrize("sort", ["bytes", "waste"])
def test_in_a_pipe_every_array_is_one_line_of_the_same_columns(path, sort):
    found = json.loads(run("show", "--hlo", path, "--sort", sort, "--json").stdout)
    header, *rows = run("show", "--hlo", path, "--sort", sort, "--top", "999").stdout.split("\n\n")[1].splitlines()
    assert header.split() == "times bytes padding of_it line instruction shape least_order least_bytes".split()
    assert len(rows) == len(found["buffers"]) and all(row == row.rstrip() for row in rows)
    for row, one in zip(rows, found["buffers"]):
        cells, least = row.split(), one["least_waste"]["nbytes"]
        assert cells[:3] == [str(one[key]) for key in ("count", "nbytes", "padding_nbytes")]
        assert cells[4:7] == [str(one["first_line"]), one["instructions"][0], one["shape"]]
        assert cells[8:] == [str(least) if least < one["nbytes"] else "-"] and len(one["instructions"]) == one["count"]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, whose width the test sets with the function that this gives."""
    stdout = types.SimpleNamespace(isatty=lambda: True, encoding="utf-8")
    monkeypatch.setattr("gpulayout.cli.output.sys", types.SimpleNamespace(stdout=stdout))
    return lambda columns: monkeypatch.setenv("COLUMNS", str(columns))


def test_a_terminal_gets_a_table_without_empty_columns(terminal):
    terminal(140)
    assert listed(PROGRAM).stdout.split("\n\n")[1].splitlines()[0].split("  ")[-1].strip() == "least_bytes"
    header, line, row = listed("Shape: f32[4]{0}").stdout.split("\n\n")[1].splitlines()
    assert header.split() == "times bytes padding of_it line shape".split() and set(line.strip()) == {"─"}
    assert row.split() == ["1", "16", "0", "0.0%", "1", "f32[4]{0}"]


@pytest.mark.parametrize("path", sorted(DUMPS.glob("*.txt")), ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [20, 80, 100, 300])
def test_a_terminal_of_any_width_folds_no_shape_and_no_heading(width, path, terminal):
    found = json.loads(run("show", "--hlo", path, "--json").stdout)
    terminal(width)
    table = run("show", "--hlo", path, "--top", "999").stdout.split("\n\n")[1]
    words = table.split()
    assert all(one["shape"] in words and one["instructions"][0] in words for one in found["buffers"])
    assert {"times", "bytes", "padding", "of_it", "line", "instruction", "shape"} <= {*words}
    assert [int(word) for line in table.splitlines()[2:] if (word := line.split()[0]).isdecimal()] == [
        one["count"] for one in found["buffers"]
    ]


def test_a_narrow_terminal_gets_the_shape_on_a_line_of_its_own(terminal):
    terminal(80)
    assert (
        listed(PROGRAM).stdout.split("\n\n")[1]
        == """\
times   bytes  padding  of_it  line  least_order  least_bytes
    instruction  shape
─────────────────────────────────────────────────────────────
    2  131072   114688  87.5%     1  {1,0}              16384
    a            f32[16,256]{0,1:T(8,128)}
    1       8        3  37.5%     2
    b            s8[5]{0:T(4)}"""
    )


def test_a_file_of_nothing_but_a_wrong_shape_names_its_line():
    assert listed("\n f32[2]{0,0} here", code=1).stderr == (
        "gpulayout: error: standard input: no array to list in 18 characters: "
        "1 line with a shape was not read: line 2: f32[2]{0,0} here\n"
    )


def test_a_text_without_instructions_has_no_names_and_the_same_columns():
    row = listed("Shape: f32[4]{0}").stdout.splitlines()[4]
    assert row.split() == ["1", "16", "0", "0.0%", "1", "-", "f32[4]{0}", "-", "-"]


def test_the_total_counts_the_result_of_a_fusion_once():
    text = """%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} negate(f32[8]{0} %p)
}
ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %f = f32[8]{0} fusion(f32[8]{0} %a), kind=kLoop, calls=%fused
}"""
    found = json.loads(listed(text, "--json").stdout)
    assert found["nbytes"] == 64 and found["buffers"][0]["instructions"] == ["a", "f"]
    assert "2 arrays of 1 shape, 64 bytes together" in listed(text).stdout


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE[:2],
        "\0" * 100,
        "no shape",
        "%t = (f32[2]) tuple(%a)",
        "%t = token[] after-all()",
        "\u202e\x1b[31m",
    ],
)
def test_a_file_without_a_shape_is_a_failure(text, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert (
        failure("show", "--hlo", path) == f"{path}: no array to list in {len(text)} character{'s' * (len(text) != 1)}"
    )
    result = listed(text, code=1)
    assert (
        result.stderr.startswith("gpulayout: error: standard input: no array to list in ")
        and result.stderr.count("\n") == 1
    )


def test_stablehlo_is_told_from_a_compiled_program():
    text = "func.func public @main(%arg0: tensor<3x4xf32>) -> tensor<3x4xf32> {"
    assert listed(text, code=1).stderr == (
        f"gpulayout: error: standard input: no array to list in {len(text)} characters: "
        "StableHLO tensors have no layout; use the text of the compiled program\n"
    )


def test_bytes_that_are_not_text_are_skipped(tmp_path):
    path = tmp_path / "dump.bin"
    path.write_bytes(b"\xff\xfe\0\x80 f32[2]{0} \xc3(\x9f" + bytes(range(256)) + b"\n = s8[3]{0} ")
    assert [one["shape"] for one in json.loads(run("show", "--hlo", path, "--json").stdout)["buffers"]] == [
        "f32[2]{0}",
        "s8[3]{0}",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_ends_in_a_table_or_one_line(text):
    result = CliRunner().invoke(
        commands, ["show", "--hlo", "-"], input=text.encode("utf-8", "surrogateescape") + b"\n%a = f32[4] add()"
    )
    assert result.exit_code == 0 and "f32[4]{0}" in result.stdout and len(result.stdout) < 6000


def test_a_file_that_cannot_be_read_is_a_failure_of_one_line(tmp_path):
    assert failure("show", "--hlo", tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"
    assert failure("show", "--hlo", "a\nb\x1b[31m").startswith("a\\nb\\x1b[31m: ")
    assert failure("show", "--hlo", "a\0b").startswith("a\\x00b: ")


@pytest.mark.parametrize("args", [[], [PADDED, "--hlo", TILED]])
def test_a_shape_or_a_file_is_given_but_not_both(args):
    assert refusal("show", *args) == "give either a SHAPE, a FILE.npy, a model or --hlo FILE"


@pytest.mark.parametrize(
    "value", [{"a": [], "b": [1, {"c": "x\n"}], "d": {}}, {"a": ["\n", {"b": [2]}, []]}, {"a": [[]]}]
)
def test_json_with_iterators_is_json_with_lists(value, capsys):
    print_json({key: iter(each) if isinstance(each, list) else each for key, each in value.items()})
    assert capsys.readouterr().out == json.dumps(value, indent=2) + "\n"


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_long_listing_says_how_far_it_is(option, tmp_path, monkeypatch):
    (tmp_path / "m.hlo").write_text(PROGRAM)
    times = itertools.count(0, 40)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(times)))
    result = run("show", "--hlo", tmp_path / "m.hlo", *option)
    first, *_, last = result.stderr.splitlines()
    if option:
        assert json.loads(first) == {"stage": "characters read", "done": 30, "total": len(PROGRAM), "seconds": 40}
        assert json.loads(last)["stage"] == "shapes compared with other orders"
    else:
        assert first == f"gpulayout: 30 of {len(PROGRAM)} characters read, 40 s"
        assert last.startswith("gpulayout: 3 of 3 shapes compared with other orders, ")


def test_the_table_has_at_least_one_row():
    assert "--top" in refusal("show", "--hlo", TILED, "--top", "0")


@pytest.mark.parametrize(
    "encoding, reads", [("utf-8", True), ("utf-8-sig", True), ("utf-16", False), ("utf-16-be", None)]
)
def test_a_byte_order_mark_is_skipped_or_utf_16_is_named(tmp_path, encoding, reads):
    text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[2,3]{0,1:T(2,4)} parameter(0)\n}\n"
    (tmp_path / "m.hlo").write_bytes(("\ufeff" * (reads is None) + text).encode(encoding))
    found = run("show", "--hlo", tmp_path / "m.hlo", code=0 if reads else 1)
    if reads:
        assert "1 array of 1 shape" in found.stdout
    else:
        assert found.stderr.endswith(": it does not begin like UTF-8; if it is UTF-16, save the text as UTF-8\n")
