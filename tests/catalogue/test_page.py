"""docs/catalogue.md lists every entry.

python -m tests.catalogue.test_page --write          writes the list
"""

import pathlib
import re
import sys

import pytest

import gpulayout as gl

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "catalogue.md"
WRITTEN = "python -m tests.catalogue.test_page --write"


def table():
    """The entries as a table of Markdown."""
    lines = ["| layout | what it is | the owner's tensor | owner | confirmed by |", "|---|---|---|---|---|"]
    for entry in gl.catalogue.entries():
        judge = entry.judge if entry.confirmed else "*unconfirmed*"
        tensor = entry.tensor and f"`{entry.tensor}`"
        lines.append(f"| `{entry.call}` | {entry.summary} | {tensor} | [{entry.owner}]({entry.source}) | {judge} |")
    return "\n".join(lines) + "\n"


def kernels():
    """Functions that take an entry, and which ones each of them takes."""
    takes = {}
    for entry in gl.catalogue.entries():
        for name in entry.kernels:
            takes.setdefault(name, []).append(f"`{entry.name}`")
    lines = ["| function | layouts that it takes |", "|---|---|"]
    lines += [f"| `{name}` | {', '.join(takes[name])} |" for name in sorted(takes, key=str.lower)]
    return "\n".join(lines) + "\n"


TABLES = {"entries": table, "kernels": kernels}


def parts(page, name):
    """What stands on the page before a table, the table, and what stands after it."""
    before, first, rest = page.partition(f"<!-- {name}: {WRITTEN} -->\n")
    inside, last, after = rest.partition(f"<!-- end of {name} -->")
    return before + first, inside, last + after


@pytest.mark.parametrize("name", TABLES)
def test_the_page_lists_every_entry(name):
    assert parts(PAGE.read_text(encoding="utf-8"), name)[1] == TABLES[name]()


def test_texts_of_entries_fit_a_cell():
    for entry in gl.catalogue.entries():
        assert not re.search(r"[|\n<>]", entry.summary + entry.owner + entry.source + entry.tensor), entry.name


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    text = PAGE.read_text(encoding="utf-8")
    for name, write in TABLES.items():
        before, _, after = parts(text, name)
        text = before + write() + after
    PAGE.write_text(text, encoding="utf-8")
