"""`gpulayout show --hlo FILE`: the arrays of a program, what padding wastes, and what better orders save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.output import print_columns, print_json
from gpulayout.cli.progress import shown_progress
from gpulayout.files.errors import FileError
from gpulayout.files.standard_streams import File, input_name, standard_input
from gpulayout.layout.checks import counted
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.shape import Shape
from gpulayout.xla.hlo_results import find_results
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


def show_hlo(file: File, sort: str, most: int, as_json: bool) -> None:
    """List the arrays of the program in a file or in standard input, in one order of `SORTS`."""
    name = printable(input_name(file))
    with shown_progress(quiet=False, as_json=as_json) as shown:
        entries, unknown = _entries(name, _read(file), shown.stage)
    entries.sort(key=SORTS[sort])
    total = sum(entry.count * entry.shape.nbytes for entry in entries)
    wasted = sum(entry.count * entry.wasted for entry in entries)
    saved = sum(entry.count * entry.saved for entry in entries)
    if as_json:
        return print_json(
            {
                "file": str(file),
                "buffers": map(_as_json, entries),
                "without_size": unknown,
                "nbytes": total,
                "padding_nbytes": wasted,
                "saving_nbytes": saved,
            }
        )
    count = sum(entry.count for entry in entries)
    click.echo(
        f"{name}\n{counted(count, 'array')} of {counted(len(entries), 'shape')}, {counted(total, 'byte')} together, "
        f"{wasted} of them padding ({wasted / max(total, 1):.1%})"
        + (f"; {unknown} without a bound left out" if unknown else "")
    )
    if not entries:
        return
    print_columns(COLUMNS, [_row(entry) for entry in entries[:most]], left=TEXT_COLUMNS, below=SHAPE_COLUMNS)
    if len(entries) > most:
        click.echo(f"and {len(entries) - most} more; --top {len(entries)} lists all")
    click.echo(
        f"the orders under 'least_order' would save {saved} of the {counted(wasted, 'byte')} of padding"
        if saved
        else "no other order of the dimensions needs fewer bytes"
    )


def _read(file: File) -> str:
    """The text of a file.  Bytes that are not UTF-8 become a character that no shape has."""
    try:
        data = file.read_bytes() if isinstance(file, Path) else standard_input().read()
    except FileError:
        raise
    except ValueError as error:  # a name with a null character
        raise Failure(f"{file}: {error}") from None
    return data.decode("utf-8", errors="replace")


def _entries(name: str, text: str, stage: Callable[[str, int, int], None]) -> tuple[list[ListedArray], int]:
    """The distinct arrays, the largest first, and how many arrays have no size because a dimension has no bound."""
    names: dict[Shape, list[str]] = {}
    lines: dict[Shape, int] = {}
    for instruction, result in find_results(text, lambda position: stage("characters read", position, len(text))):
        for shape in arrays(result.shape):
            names.setdefault(shape, []).append(instruction)
            lines.setdefault(shape, result.line)
    if not names:
        hint = ""
        if "tensor<" in text:
            hint = ": StableHLO tensors have no layout; use the text of the compiled program"
        elif text.startswith("\ufffd\ufffd"):  # what a byte order mark of UTF-16 becomes
            hint = ": it does not begin like UTF-8; if it is UTF-16, save the text as UTF-8"
        raise Failure(f"{name}: no array to list in {counted(len(text), 'character')}{hint}")
    sized = []
    for done, (shape, its_names) in enumerate(names.items(), 1):
        if UNBOUNDED not in shape.dimensions:
            sized.append(ListedArray(shape, its_names, lines[shape], least_waste(shape)))
        stage("shapes compared with other orders", done, len(names))
    sized.sort(key=lambda entry: (-entry.shape.nbytes, -entry.count, entry.line))
    return sized, sum(map(len, names.values())) - sum(entry.count for entry in sized)


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
