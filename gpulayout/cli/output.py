"""How results are printed: JSON for programs, rich tables for people, pages; escape codes only on a terminal."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpulayout.cli.arguments import FILE_NAME
from gpulayout.cli.failures import print_note, printable
from gpulayout.files.new_file import check_output, new_file
from gpulayout.files.standard_streams import File, standard_output_is_closed, write_standard_output
from gpulayout.layout.checks import clipped
from gpulayout.layout.picture import LEAST_COLUMNS
from gpulayout.pictures.figure import TERMINAL
from gpulayout.pictures.shape_text import ASCII, UNICODE, Glyphs

WIDTH = 100  # columns of tables outside a terminal
MOST_PARTS = 1000  # of a JSON value that are printed at a time
MOST_CELL = 200  # characters of a cell on a terminal

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value for programs.")
html_option = click.option(
    "--html", metavar="FILE", type=FILE_NAME, help="Write the picture as a page; - is standard output."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="With --html: replace the file if it exists.")


def print_json(value: object, *, err: bool = False) -> None:
    """One JSON value, indented, on stdout or else on stderr.

    An iterator in an object becomes an array: its items are made and printed one after the other, because there may be
    very many.
    """
    parts = _json_parts(value)
    while text := "".join(itertools.islice(parts, MOST_PARTS)):
        click.echo(text, err=err, nl=False)
    click.echo(err=err)


def _json_parts(value: object) -> Iterator[str]:
    if not isinstance(value, dict) or not any(isinstance(member, Iterator) for member in value.values()):
        yield _indented(value, 0)
        return
    before = "{"
    for key, member in value.items():
        yield f"{before}\n  {json.dumps(key)}: "
        if isinstance(member, Iterator):
            items = (f"\n    {_indented(item, 4)}" for item in member)
            first = next(items, None)
            yield "[]" if first is None else f"[{first}"
            yield from (f",{item}" for item in items)
            yield "" if first is None else "\n  ]"
        else:
            yield _indented(member, 2)
        before = ","
    yield "\n}"


def _indented(value: object, columns: int) -> str:
    return json.dumps(value, indent=2, default=str).replace("\n", "\n" + " " * columns)


def print_remark(text: str) -> None:
    """Say what was done in a file.  A caller who has closed standard output does not want to know."""
    if not standard_output_is_closed():
        click.echo(text)


def write_page(text: str, what: str, path: File, *, overwrite: bool) -> None:
    """Write the page of a picture, as a new file or on standard output; `what` is what it shows."""
    content = text.encode()
    if not isinstance(path, Path):
        return write_standard_output(content)
    check_output(path, None, overwrite=overwrite)
    with new_file(path, overwrite=overwrite, note=print_note) as stream:
        stream.write(content)
    print_remark(f"{printable(str(path))}  {clipped(what, 200)}  {len(content)} bytes; open it in a browser")


def print_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str], below: Sequence[str]
) -> None:
    """A table of text without blanks: elsewhere than on a terminal for programs such as awk.

    They get all columns, every row in one line, and "-" for an empty cell.  A terminal gets no empty columns.  No cell
    is folded there: if a row is too wide, the columns of `below` get a second line, indented, which may be of any
    length.  Columns of `left` hold text; the others hold numbers.
    """
    table = list(zip(columns, *rows))
    if not sys.stdout.isatty():
        lines = aligned([[cell or "-" for cell in column] for column in table], left)
    else:
        full = [[clipped(cell, MOST_CELL) for cell in column] for column in table if any(column[1:])]
        lines = _fitted(full, left, below)
    click.echo("\n".join(["", *lines, ""]))


def aligned(columns: Sequence[Sequence[str]], left: Sequence[str]) -> list[str]:
    """The lines of a table of columns, each of which begins with its name."""
    padded = []
    for column in columns:
        width = max(map(len, column))
        padded.append([cell.ljust(width) if column[0] in left else cell.rjust(width) for cell in column])
    return ["  ".join(line).rstrip() for line in zip(*padded)] or [""]


def _fitted(columns: Sequence[Sequence[str]], left: Sequence[str], below: Sequence[str]) -> list[str]:
    """The lines of a table on a terminal: two for every row if one is too wide."""
    lines = aligned(columns, left)
    if max(map(len, lines)) <= shutil.get_terminal_size().columns or not {column[0] for column in columns} & {*below}:
        return [lines[0], _rule(lines), *lines[1:]]
    upper = aligned([column for column in columns if column[0] not in below], left)
    lower = aligned([column for column in columns if column[0] in below], left)
    heads, *pairs = ((line, f"    {more}") for line, more in itertools.zip_longest(upper, lower, fillvalue=""))
    return [*heads, _rule(upper), *itertools.chain.from_iterable(pairs)]


def _rule(lines: Sequence[str]) -> str:
    """A line below a heading, as wide as the widest of the others."""
    return ("─" if glyphs() is UNICODE else "-") * max(map(len, lines))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    left: Sequence[str] = (),
    caption: str | None = None,
) -> None:
    """A table without borders, in colour on a terminal unless NO_COLOR is set (which also drops bold and dim).

    Columns of `left` hold text, which may fold; the others hold numbers.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption)
    for column in columns:
        if column in left:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    terminal = sys.stdout.isatty()
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    # names of dimensions are the caller's: `[b]` and `:smile:` are no markup
    style: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = Console(color_system=None if plain else "auto", width=None if terminal else WIDTH, **style)
    with console.capture() as capture:
        console.print(table)
    # rich pads every line with blanks
    lines = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo("\n" + lines.strip("\n") + "\n")


def glyphs() -> Glyphs:
    """The characters of drawings: box characters if stdout can encode them, else ASCII."""
    try:
        "".join(UNICODE).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def drawing_width() -> int:
    """Columns of a drawing: those of the terminal."""
    return max(shutil.get_terminal_size().columns, LEAST_COLUMNS) if sys.stdout.isatty() else TERMINAL.width
