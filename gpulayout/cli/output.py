"""How results are printed: JSON for programs, rich tables for people, escape codes only on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table

from gpulayout.files.standard_streams import standard_output_is_closed
from gpulayout.layout.checks import clipped
from gpulayout.layout.picture import LEAST_COLUMNS
from gpulayout.pictures.boxes import ASCII, UNICODE, Glyphs
from gpulayout.pictures.figure import TERMINAL

WIDTH = 100  # columns of tables outside a terminal
MOST_CELL = 200  # characters of a cell on a terminal

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value for programs.")


def print_json(value: object, *, err: bool = False) -> None:
    """One JSON value, indented, on stdout or else on stderr."""
    click.echo(json.dumps(value, indent=2, default=str), err=err)


def print_remark(text: str) -> None:
    """Say what was done in a file.  A caller who has closed standard output does not want to know."""
    if not standard_output_is_closed():
        click.echo(text)


def new_table(*columns: str, left: Sequence[str] = ()) -> Table:
    """A table without borders.  Columns named in `left` hold text, which may fold; the others hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in left else "right",
            no_wrap=column not in left,
            overflow="fold" if column in left else "ellipsis",
        )
    return table


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> None:
    """A table of text: on a terminal as `new_table` has it, without empty columns, elsewhere for programs such as awk.

    They get all columns, and every row in one line.  Names and cells have no blanks, and an empty cell is "-".
    """
    if sys.stdout.isatty():
        full = [number for number in range(len(columns)) if any(row[number] for row in rows)]
        table = new_table(*(columns[number] for number in full), left=left)
        for row in rows:
            table.add_row(*(clipped(row[number], MOST_CELL) for number in full))
        return print_table(table)
    lines = [[cell.replace(" ", "_") or "-" for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    sides = ["<" if column in left else ">" for column in columns]
    click.echo()
    for line in lines:
        click.echo("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths)).rstrip())
    click.echo()


def print_table(table: Table) -> None:
    """A table, in colour on a terminal unless NO_COLOR is set (which also drops bold and dim)."""
    terminal = sys.stdout.isatty()
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    console = Console(color_system=None if plain else "auto", width=None if terminal else WIDTH, highlight=False)
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
