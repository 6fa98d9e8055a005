"""`gpulayout show --hlo`: the arrays of a program, what padding wastes, and what better orders save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from gpulayout.cli.failures import Failure
from gpulayout.cli.hlo_text import Stage, print_unread, unread_as_json, unread_text
from gpulayout.cli.output import print_columns
from gpulayout.layout.checks import counted
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.shape import Shape
from gpulayout.xla.hlo import UnreadLines
from gpulayout.xla.hlo_results import TextKind, find_results
from gpulayout.xla.least_padding import least_waste
from gpulayout.xla.trees import arrays


@dataclass(frozen=True, slots=True)  # there may be a million
class ListedArray:
    """One shape, the instructions that produce it, the line of the first, and its order that needs the fewest bytes.

    names   one for each array; the same twice if a tuple has two, and "" in a text without instructions
    """

    shape: Shape
    names: list[str]
    line: int
    least: Shape

    @property
    def count(self) -> int:
        """How many such arrays there are."""
        return len(self.names)

    @property
    def wasted(self) -> int:
        """Bytes of padding in one such buffer."""
        return self.shape.nbytes - self.shape.unpadded_nbytes

    @property
    def saved(self) -> int:
        """Bytes that the best order saves in one such buffer."""
        return self.shape.nbytes - self.least.nbytes


# What comes first.  Rows that a sort leaves equal stay in the order of "bytes".
SORTS: dict[str, Callable[[ListedArray], int]] = {
    "bytes": lambda entry: -entry.shape.nbytes,
    "waste": lambda entry: -entry.count * entry.wasted,
    "saving": lambda entry: -entry.count * entry.saved,
    "times": lambda entry: -entry.count,
    "line": lambda entry: entry.line,
}

SHAPE_COLUMNS = ("instruction", "shape")
TEXT_COLUMNS = (*SHAPE_COLUMNS, "least_order")
COLUMNS = ("times", "bytes", "padding", "of_it", "line", *TEXT_COLUMNS, "least_bytes")


# What the first line says of a text that is no program
KINDS: dict[TextKind, str] = {
    "program": "",
    "allocations": ", a report of allocations",
    "values": ", a buffer assignment",
    "text": ", a text without instructions: every shape in it counts",
}


class ArrayListing(NamedTuple):
    """The arrays of one text.

    entries   the distinct ones, the largest first
    unknown   arrays that have no size because a dimension has no bound
    """

    kind: TextKind
    entries: list[ListedArray]
    unknown: int
    unread: UnreadLines

    @property
    def nbytes(self) -> int:
        return sum(entry.count * entry.shape.nbytes for entry in self.entries)

    @property
    def wasted(self) -> int:
        return sum(entry.count * entry.wasted for entry in self.entries)

    @property
    def saved(self) -> int:
        return sum(entry.count * entry.saved for entry in self.entries)

    def summary(self) -> dict[str, Any]:
        """The numbers of all arrays together."""
        return {
            "read_as": self.kind,
            "unread_lines": unread_as_json(self.unread),
            "count": sum(entry.count for entry in self.entries),
            "without_size": self.unknown,
            "nbytes": self.nbytes,
            "padding_nbytes": self.wasted,
            "saving_nbytes": self.saved,
        }

    def as_json(self, sort: str) -> dict[str, Any]:
        """All that is listed, in one order of `SORTS`."""
        return {"buffers": map(_as_json, sorted(self.entries, key=SORTS[sort])), **self.summary()}

    def print(self, name: str, sort: str, most: int) -> None:
        """Print a table of `most` rows in one order of `SORTS`; `name` is that of the text."""
        total, wasted, saved = self.nbytes, self.wasted, self.saved
        count = sum(entry.count for entry in self.entries)
        click.echo(
            f"{name}{KINDS[self.kind]}\n"
            f"{counted(count, 'array')} of {counted(len(self.entries), 'shape')}, {counted(total, 'byte')} together, "
            f"{wasted} of them padding ({wasted / max(total, 1):.1%})"
            + (f"; {self.unknown} without a bound left out" if self.unknown else "")
        )
        print_unread(self.unread, "a shape or an allocation" if self.kind == "allocations" else "a shape")
        if not self.entries:
            return
        rows = [_row(entry) for entry in sorted(self.entries, key=SORTS[sort])[:most]]
        print_columns(COLUMNS, rows, left=TEXT_COLUMNS, below=SHAPE_COLUMNS)
        if len(self.entries) > most:
            click.echo(f"and {len(self.entries) - most} more; --top {len(self.entries)} lists all")
        click.echo(
            f"the orders under 'least_order' would save {saved} of the {counted(wasted, 'byte')} of padding"
            if saved
            else "no other order of the dimensions needs fewer bytes"
        )


def list_arrays(name: str, text: str, stage: Stage) -> ArrayListing:
    """The arrays of a text of this name; a failure if there are none."""
    names: dict[Shape, list[str]] = {}
    lines: dict[Shape, int] = {}
    results = find_results(text, lambda position: stage("characters read", position, len(text)))
    for instruction, result in results.found:
        for shape in arrays(result.shape):
            names.setdefault(shape, []).append(instruction)
            lines.setdefault(shape, result.line)
    if not names:
        raise Failure(f"{name}: no array to list in {counted(len(text), 'character')}{_hint(text, results.unread)}")
    sized = []
    for done, (shape, its_names) in enumerate(names.items(), 1):
        if UNBOUNDED not in shape.dimensions:
            sized.append(ListedArray(shape, its_names, lines[shape], least_waste(shape)))
        stage("shapes compared with other orders", done, len(names))
    sized.sort(key=lambda entry: (-entry.shape.nbytes, -entry.count, entry.line))
    unknown = sum(map(len, names.values())) - sum(entry.count for entry in sized)
    return ArrayListing(results.kind, sized, unknown, results.unread)


def _hint(text: str, unread: UnreadLines) -> str:
    """What a text without an array may be, or nothing."""
    if "tensor<" in text:
        return ": StableHLO tensors have no layout; use the text of the compiled program"
    if text.startswith("\ufffd\ufffd"):  # what a byte order mark of UTF-16 becomes
        return ": it does not begin like UTF-8; if it is UTF-16, save the text as UTF-8"
    return f": {unread_text(unread)}" if unread.total else ""


def _row(entry: ListedArray) -> list[str]:
    """A row of the table; the last two cells are empty if no other order needs fewer bytes."""
    shape, order = entry.shape, ",".join(map(str, entry.least.layout.minor_to_major))
    return [
        str(entry.count),
        str(shape.nbytes),
        str(entry.wasted),
        f"{entry.wasted / max(shape.nbytes, 1):.1%}",
        str(entry.line),
        entry.names[0],
        str(shape),
        f"{{{order}}}" if entry.saved else "",
        str(entry.least.nbytes) if entry.saved else "",
    ]


def _as_json(entry: ListedArray) -> dict[str, Any]:
    return {
        "shape": str(entry.shape),
        "count": entry.count,
        "first_line": entry.line,
        "instructions": entry.names,
        "nbytes": entry.shape.nbytes,
        "padding_nbytes": entry.wasted,
        "padding_fraction": entry.wasted / max(entry.shape.nbytes, 1),
        "least_waste": {"shape": str(entry.least), "nbytes": entry.least.nbytes},
    }
