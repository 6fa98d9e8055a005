"""`docs/xla-names.md` names every function of XLA that matters, and only names of this library that exist."""

import builtins
import inspect
import json
import pathlib
import re

import pytest

import gpulayout as gl

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT.parent / "docs" / "xla-names.md").read_text(encoding="utf-8")
NAMES = json.loads((ROOT / "data" / "xla_names.json").read_text(encoding="utf-8"))
VERDICTS = {"core", "useful", "out of scope"}


def read_rows(text):
    """(class, XLA's names, names here, differences) of every row of every table."""
    rows, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:].split(":")[0]
        if line.startswith("|") and not line.startswith(("| XLA ", "|---")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 3, line
            rows.append((section, re.findall(r"`([^`]+)`", cells[0]), cells[1], cells[2]))
    return rows


ROWS = read_rows(TEXT)
BY_NAME = {(section, name): here for section, names, here, _ in ROWS for name in names}


def find(dotted):
    """The object of a name such as gl.linearize, Layout.minor or isinstance; None if it does not exist."""
    head, *rest = dotted.removeprefix("gl.").split(".")
    found = getattr(gl, head, None if dotted.startswith("gl.") else getattr(builtins, head, None))
    for name in rest:
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields.get(name) or getattr(found, name, None)
    return found


def ours(cell):
    """Every name of this library in a cell: the first word in backticks, and every dotted name."""
    found = []
    for code in re.findall(r"`([^`]+)`", cell):
        found += [re.match(r"\w+(?:\.\w+)*", code)[0], *re.findall(r"\b(?:gl|[A-Z]\w+)(?:\.\w+)+", code)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("section", NAMES)
def test_every_name_of_xla_is_in_its_table(section):
    assert set(NAMES[section]) <= VERDICTS
    for verdict, names in NAMES[section].items():
        for name in names:
            assert (section, name) in BY_NAME, name
            here = BY_NAME[section, name]
            assert ours(here) or (here == "out of scope" and verdict == "out of scope"), (name, here)


def test_every_name_of_ours_exists():
    named = [(names, name) for _, names, here, _ in ROWS for name in ours(here)]
    missing = [(names, name) for names, name in named if find(name) is None]
    assert len(named) > 200 and missing == []


def test_code_in_the_remarks_is_ours_too():
    """Every dotted name, anywhere in the text, that begins with `gl.` or a class of this library."""
    classes = "gl|Shape|Layout|Tile|SplitConfig|TupleShape|ElementType"
    named = {
        name for code in re.findall(r"`([^`\n]+)`", TEXT) for name in re.findall(rf"\b(?:{classes})(?:\.\w+)+", code)
    }
    assert len(named) > 100 and [name for name in sorted(named) if find(name) is None] == []


def test_no_name_of_xla_is_listed_twice():
    found = [(section, name) for section, names, _, _ in ROWS for name in names]
    assert [key for key in found if found.count(key) > 1] == [] and len(found) > 250


def test_every_row_names_something_here_or_is_out_of_scope():
    assert [names for _, names, here, _ in ROWS if not names or not (ours(here) or here == "out of scope")] == []


def test_every_function_of_the_model_is_mentioned():
    """Every public function with a counterpart in XLA is on the page."""
    own = {"parse_any_shape", "parse_array_shape", "find_shapes", "find_copies", "least_waste"}
    public = {
        f"gl.xla.{name}"
        for name in gl.xla.__all__
        if name not in {*gl.__all__, *own} and inspect.isfunction(getattr(gl.xla, name))
    }
    assert len(public) > 50
    assert [name for name in sorted(public) if f"{name}`" not in TEXT and f"{name}(" not in TEXT] == []


@pytest.mark.parametrize(
    "cell, missing",
    [
        ("`gl.no_such_name`", "gl.no_such_name"),
        ("`Shape.no_such_name`", "Shape.no_such_name"),
        ("`isinstance(shape, gl.NoShape)`", "gl.NoShape"),
        ("`no_such_builtin(shape)`", "no_such_builtin"),
    ],
)
def test_a_name_that_does_not_exist_is_reported(cell, missing):
    assert [name for name in ours(cell) if find(name) is None] == [missing]
