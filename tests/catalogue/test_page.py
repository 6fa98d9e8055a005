"""docs/catalogue.md lists every entry.

python -m tests.catalogue.test_page --write          writes the list
"""

import pathlib
import re
import sys

import gpulayout as gl

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "catalogue.md"
FIRST, LAST = "<!-- entries: python -m tests.catalogue.test_page --write -->\n", "<!-- end of entries -->"


def table():
    """The entries as a table of Markdown."""
    lines = ["| layout | what it is | owner | confirmed by |", "|---|---|---|---|"]
    for entry in gl.catalogue.entries():
        judge = entry.judge if entry.confirmed else "*unconfirmed*"
        lines.append(f"| `{entry.call}` | {entry.summary} | [{entry.owner}]({entry.source}) | {judge} |")
    return "\n".join(lines) + "\n"


def listed(page):
    return page.partition(FIRST)[2].partition(LAST)[0]


def test_the_page_lists_every_entry():
    assert listed(PAGE.read_text(encoding="utf-8")) == table()


def test_texts_of_entries_fit_a_cell():
    for entry in gl.catalogue.entries():
        assert not re.search(r"[|\n<>]", entry.summary + entry.owner + entry.source), entry.name


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(f"{FIRST}{listed(text)}{LAST}", f"{FIRST}{table()}{LAST}"), encoding="utf-8")
