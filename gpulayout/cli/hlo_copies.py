"""`gpulayout show --hlo --copies`: what a program copies, from which layout to which, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.hlo_text import Stage, print_unread, unread_as_json
from gpulayout.cli.output import print_columns
from gpulayout.layout.checks import counted
from gpulayout.xla.hlo_copies import FoundCopy, HloCopies, read_copies


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """The copies of one layout to one other that run equally often."""

    copies: list[FoundCopy]

    @property
    def first(self) -> FoundCopy:
        return self.copies[0]

    @property
    def nbytes(self) -> int:
        """Bytes that all of them read and write when each runs once."""
        return len(self.copies) * self.first.nbytes


# What comes first.  Rows that a sort leaves equal stay in the order of "bytes".
SORTS: dict[str, Callable[[ListedCopy], int]] = {
    "bytes": lambda entry: -entry.nbytes,
    "times": lambda entry: -len(entry.copies),
    "line": lambda entry: entry.first.line,
}

PAIR_COLUMNS = ("from", "to")
TEXT_COLUMNS = ("what", "in", "instruction", *PAIR_COLUMNS, "source", "op_name")
COLUMNS = ("times", "bytes", "together", "runs", "line", *TEXT_COLUMNS)


class CopyListing(NamedTuple):
    """The copies of one text; the entry with the most bytes first."""

    entries: list[ListedCopy]
    copies: HloCopies

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self.entries)

    @property
    def nbytes_of_runs(self) -> int:
        """Bytes that they read and write as often as they run, or once if that is unknown."""
        return sum(copy.nbytes * (1 if copy.runs is None else copy.runs) for copy in self.copies.found)

    def summary(self) -> dict[str, Any]:
        """The numbers of all copies together."""
        found = self.copies.found
        return {
            "count": len(found),
            "nbytes": self.nbytes,
            "nbytes_of_runs": self.nbytes_of_runs,
            "runs_unknown": sum(copy.runs is None for copy in found),
            "in_loops": sum(copy.in_loop for copy in found),
            "keeping_layout": sum(copy.keeps_layout for copy in found),
            "inside_fusions": self.copies.inside_fusions,
            "unread_lines": unread_as_json(self.copies.unread),
        }

    def as_json(self, sort: str) -> dict[str, Any]:
        """All that is listed, in one order of `SORTS`."""
        return {"copies": map(_as_json, sorted(self.entries, key=SORTS[sort])), **self.summary()}

    def print(self, name: str, sort: str, most: int) -> None:
        """Print a table of `most` rows in one order of `SORTS`; `name` is that of the text."""
        numbers, found = self.summary(), self.copies.found
        unknown = numbers["runs_unknown"]
        is_repeated = unknown or self.nbytes_of_runs != self.nbytes
        click.echo(
            f"{name}\n{counted(len(found), 'copy')}, {counted(self.nbytes, 'byte')} read and written if each runs once"
            + (f", {'at least ' * bool(unknown)}{self.nbytes_of_runs} as often as they run" if is_repeated else "")
        )
        print_unread(self.copies.unread)
        if found:
            rows = [_row(entry) for entry in sorted(self.entries, key=SORTS[sort])[:most]]
            print_columns(COLUMNS, rows, left=TEXT_COLUMNS, below=("instruction", *PAIR_COLUMNS, "source", "op_name"))
        if len(self.entries) > most:
            click.echo(f"and {len(self.entries) - most} more; --top {len(self.entries)} lists all")
        for number, what in (
            (numbers["in_loops"], "in a loop body: 'runs' says how often, or ? if the text does not"),
            (numbers["keeping_layout"], "without a change of the layout"),
        ):
            if number:
                click.echo(f"{counted(number, 'copy')} {what}")
        if inside := numbers["inside_fusions"]:
            click.echo(
                f"{counted(inside, 'other change')} of a layout inside fusions, which write nothing of their own"
            )
        moved = [entry.first for entry in self.entries if not entry.first.keeps_layout and entry.first.is_relayout]
        if moved:
            click.echo(f"for more of one: gpulayout explain '{moved[0].source}' '{moved[0].target}'")


def list_copies(name: str, text: str, stage: Stage) -> CopyListing:
    """The copies of a text of this name; a failure if it is no program."""
    copies = read_copies(text, lambda position: stage("characters read", position, len(text)))
    if not copies.is_program:
        raise Failure(
            f"{name}: no instruction in {counted(len(text), 'character')}: --copies needs the text of a program, not a "
            "report of its memory"
        )
    alike: dict[Any, list[FoundCopy]] = {}
    for copy in copies.found:
        alike.setdefault((copy.source, copy.target, copy.runs, copy.in_loop, _what(copy)), []).append(copy)
    entries = [ListedCopy(each) for each in alike.values()]
    entries.sort(key=lambda entry: (-entry.nbytes, entry.first.line))
    return CopyListing(entries, copies)


def _what(copy: FoundCopy) -> str:
    return f"fusion:{copy.opcode}" if copy.is_fused else copy.opcode


def _row(entry: ListedCopy) -> list[str]:
    first = entry.first
    return [
        str(len(entry.copies)),
        str(first.nbytes),
        str(entry.nbytes),
        "?" if first.runs is None else str(first.runs),
        str(first.line),
        _what(first),
        "loop" if first.in_loop else "",
        first.name,
        str(first.source),
        str(first.target),
        _word(first.source_line),
        _word(first.op_name),
    ]


def _word(text: str) -> str:
    """Text of the program in a cell, which has no blanks."""
    return printable("_".join(text.split()))


def _as_json(entry: ListedCopy) -> dict[str, Any]:
    first = entry.first
    return {
        "from": str(first.source),
        "to": str(first.target),
        "count": len(entry.copies),
        "nbytes": first.nbytes,
        "runs": first.runs,
        "in_loop": first.in_loop,
        "opcode": first.opcode,
        "is_fused": first.is_fused,
        "keeps_layout": first.keeps_layout,
        "instructions": [
            {
                "name": copy.name,
                "line": copy.line,
                "computation": copy.computation,
                "op_name": copy.op_name,
                "source_line": copy.source_line,
            }
            for copy in entry.copies
        ],
    }
