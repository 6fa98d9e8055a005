"""`gpulayout show --hlo --copies`: the table, its orders, and what it says of loops and of lines that it leaves."""

import json
import pathlib
import shlex

import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.main import commands
from tests.support.command_line import refusal, run

DUMP = pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo" / "dump"
MODEL = DUMP / "module_0000.jit_model.cpu_after_optimizations.txt"
PROGRAM = """%f (p: f32[2,3]) -> f32[2,3] {
  %p = f32[2,3]{1,0} parameter(0)
  %big = f32[9,9]{1,0} copy(f32[9,9]{0,1} %q)
  %one = f32[2,3]{0,1} copy(%p)
  %two = f32[2,3]{0,1} copy(%p), metadata={op_name="a b" source_file="m.py" source_line=3}
  %lost = f32[2,3]{0,1} copy(%nowhere)
}
ENTRY %e (p: f32[2,3]) -> f32[2,3] {
  %w = f32[2,3] while(%p), condition=%g, body=%f
  ROOT %s = f32[4]{0} copy(f32[4]{0} %x), metadata={op_name="x y"}
}
"""


def listed(text, *options):
    result = CliRunner().invoke(commands, ["show", "--hlo", "-", "--copies", *options], input=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_table_has_the_most_bytes_first_and_names_what_is_left():
    assert (
        listed(PROGRAM)
        == """\
standard input
4 copies, 776 bytes read and written if each runs once, at least 776 as often as they run
1 line with a shape was not read: line 6: %lost = f32[2,3]{0,1} copy(%nowhere)

times  bytes  together  runs  line  what  in    instruction  from           to             source  op_name
    1    648       648     ?     3  copy  loop  big          f32[9,9]{0,1}  f32[9,9]{1,0}  -       -
    2     48        96     ?     4  copy  loop  one          f32[2,3]{1,0}  f32[2,3]{0,1}  -       -
    1     32        32     1    10  copy  -     s            f32[4]{0}      f32[4]{0}      -       x_y

3 copies in a loop body: 'runs' says how often, or ? if the text does not
1 copy without a change of the layout
for more of one: gpulayout explain 'f32[9,9]{0,1}' 'f32[9,9]{1,0}'
"""
    )


def test_json_has_every_instruction():
    found = json.loads(listed(PROGRAM, "--json"))
    copies = found.pop("copies")
    assert found == {
        "file": "-",
        "count": 4,
        "nbytes": 776,
        "nbytes_of_runs": 776,
        "runs_unknown": 3,
        "in_loops": 3,
        "keeping_layout": 1,
        "inside_fusions": 0,
        "unread_lines": {"count": 1, "first": [{"line": 6, "text": "%lost = f32[2,3]{0,1} copy(%nowhere)"}]},
    }
    assert copies[1] == {
        "from": "f32[2,3]{1,0}",
        "to": "f32[2,3]{0,1}",
        "count": 2,
        "nbytes": 48,
        "runs": None,
        "in_loop": True,
        "opcode": "copy",
        "is_fused": False,
        "keeps_layout": False,
        "instructions": [
            {"name": "one", "line": 4, "computation": "f", "op_name": "", "source_line": ""},
            {"name": "two", "line": 5, "computation": "f", "op_name": "a b", "source_line": "m.py:3"},
        ],
    }
    assert found["nbytes"] == sum(one["count"] * one["nbytes"] for one in copies)


@pytest.mark.parametrize("sort, order", [("bytes", "3 4 10"), ("times", "4 3 10"), ("line", "3 4 10")])
def test_rows_are_sorted(sort, order):
    rows = listed(PROGRAM, "--sort", sort).split("\n\n")[1].splitlines()[1:]
    assert " ".join(row.split()[4] for row in rows) == order
    first = [one["instructions"][0]["line"] for one in json.loads(listed(PROGRAM, "--sort", sort, "--json"))["copies"]]
    assert " ".join(map(str, first)) == order


@pytest.mark.parametrize("sort", ["waste", "saving"])
def test_orders_of_padding_are_refused(sort):
    assert refusal("show", "--hlo", MODEL, "--copies", "--sort", sort) == (
        f"--copies sorts by bytes, times, line, not by {sort}"
    )


def test_the_layouts_of_a_row_are_arguments_of_explain():
    text = run("show", "--hlo", MODEL, "--copies").stdout
    last = text.splitlines()[-1].removeprefix("for more of one: gpulayout ")
    assert run(*shlex.split(last)).stdout
    rows = [row.split() for row in text.split("\n\n")[1].splitlines()]
    assert rows[0] == "times bytes together runs line what in instruction from to source op_name".split()
    for row in rows[1:]:
        assert len(row) == 12 and run("explain", *row[8:10]).stdout
        assert int(row[1]) == sum(gl.parse_shape(shape).nbytes for shape in row[8:10])


def test_other_changes_in_fusions_are_counted():
    text = """%f (p: f32[2,3]) -> f32[3,2] {
  %p = f32[2,3]{1,0} parameter(0)
  %t = f32[3,2]{1,0} transpose(%p), dimensions={1,0}
  ROOT %n = f32[3,2]{1,0} negate(%t)
}
ENTRY %e (p: f32[2,3]) -> f32[3,2] {
  ROOT %w = f32[3,2] fusion(%p), kind=kLoop, calls=%f
}"""
    assert listed(text).endswith(
        "0 copies, 0 bytes read and written if each runs once\n"
        "1 other change of a layout inside fusions, which write nothing of their own\n"
    )


def test_top_shortens_the_table_and_says_so():
    text = listed(PROGRAM, "--top", "1")
    assert "\nand 2 more; --top 3 lists all\n" in text and "  one  " not in text


def test_a_reshape_that_is_no_relayout_is_not_offered_to_explain():
    text = listed("%b = f32[6]{0} reshape(f32[2,3]{0,1} %a)")
    assert "reshape" in text and "explain" not in text


def test_control_characters_of_a_program_reach_no_terminal():
    text = listed('%b = f32[2,3]{0,1} copy(f32[2,3]{1,0} %a), metadata={op_name="a\x1b[31m\u202e"}')
    assert "\x1b" not in text and "\u202e" not in text and "a\\x1b[31m" in text


def test_the_bytes_of_known_loops_are_those_of_all_runs():
    known = PROGRAM.replace("body=%f", 'body=%f, backend_config={"known_trip_count":{"n":"5"}}')
    assert "4 copies, 776 bytes read and written if each runs once, 3752 as often as they run\n" in listed(known)
    once = known.replace("while(", "call(").replace("body=", "to_apply=")
    assert "4 copies, 776 bytes read and written if each runs once\n" in listed(once)


def test_a_program_without_copies_is_no_error_but_another_text_is():
    text = "%a = f32[2] add()"
    assert listed(text) == "standard input\n0 copies, 0 bytes read and written if each runs once\n"
    result = CliRunner().invoke(commands, ["show", "--hlo", "-", "--copies"], input="Shape: f32[2]")
    assert result.exit_code == 1 and result.stderr == (
        "gpulayout: error: standard input: no instruction in 13 characters: --copies needs the text of a program, "
        "not a report of its memory\n"
    )
