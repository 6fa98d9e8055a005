"""`gpulayout show --hlo FILE`: the arrays of a program by bytes, and what their padding wastes."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

import click
from rich.table import Table

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.output import clipped, new_table, print_json, print_table
from gpulayout.layout.checks import counted
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.shape import Shape
from gpulayout.xla.hlo import arrays, find_results
from gpulayout.xla.least_padding import least_waste


@dataclass(frozen=True)
class Entry:
    """One shape, how many instructions produce it, and the line of the first."""

    shape: Shape
    count: int
    line: int

    @property
    def wasted(self) -> int:
        """Bytes of padding in one such buffer."""
        return self.shape.nbytes - self.shape.unpadded_nbytes


def show_hlo(path: str, most: int, as_json: bool) -> None:
    """List the arrays of the program in a file, or in standard input for `-`."""
    entries, unknown = _entries(path, _read(path))
    if as_json:
        print_json(
            {
                "file": path,
                "buffers": [_as_json(entry) for entry in entries],
                "without_size": unknown,
                "nbytes": _total(entries),
                "padding_nbytes": _total_wasted(entries),
            }
        )
        return
    click.echo(f"{_name(path)}\n{_summary(entries, unknown)}")
    if not entries:
        return
    print_table(_table(entries[:most]))
    if len(entries) > most:
        click.echo(f"and {len(entries) - most} more; --top {len(entries)} lists all")


def _read(path: str) -> str:
    """The text of a file.  Bytes that are not UTF-8 become a character that no shape has."""
    try:
        with click.open_file(path, "rb") as stream:
            data: bytes = stream.read()
            return data.decode("utf-8", errors="replace")
    except ValueError as error:  # a name with a null character
        raise Failure(f"{path}: {error}") from None


def _name(path: str) -> str:
    return "standard input" if path == "-" else printable(path)


def _entries(path: str, text: str) -> tuple[list[Entry], int]:
    """The distinct arrays, largest first, and how many arrays have no size because a dimension has no bound."""
    counts: collections.Counter[Shape] = collections.Counter()
    lines: dict[Shape, int] = {}
    found_any = False
    for found in find_results(text):
        found_any = True
        for shape in arrays(found.shape):
            counts[shape] += 1
            lines.setdefault(shape, found.line)
    if not found_any:
        hint = ": StableHLO tensors have no layout; use the text of the compiled program" if "tensor<" in text else ""
        raise Failure(f"{_name(path)}: no array to list in {counted(len(text), 'character')}{hint}")
    sized = [Entry(shape, count, lines[shape]) for shape, count in counts.items() if UNBOUNDED not in shape.dimensions]
    sized.sort(key=lambda entry: (-entry.shape.nbytes, -entry.count, entry.line))
    return sized, counts.total() - sum(entry.count for entry in sized)


def _total(entries: list[Entry]) -> int:
    return sum(entry.count * entry.shape.nbytes for entry in entries)


def _total_wasted(entries: list[Entry]) -> int:
    return sum(entry.count * entry.wasted for entry in entries)


def _summary(entries: list[Entry], unknown: int) -> str:
    count, total, wasted = sum(entry.count for entry in entries), _total(entries), _total_wasted(entries)
    text = (
        f"{counted(count, 'array')} of {counted(len(entries), 'shape')}, {counted(total, 'byte')} together, "
        f"{wasted} of them padding ({wasted / max(total, 1):.1%})"
    )
    return f"{text}; {unknown} without a bound left out" if unknown else text


def _table(entries: list[Entry]) -> Table:
    table = new_table(
        "times", "bytes", "padding", "of it", "line", "shape", "least bytes", left=("shape", "least bytes")
    )
    for entry in entries:
        shape = entry.shape
        table.add_row(
            str(entry.count),
            str(shape.nbytes),
            str(entry.wasted),
            f"{entry.wasted / max(shape.nbytes, 1):.1%}",
            str(entry.line),
            clipped(str(shape), 200),
            _advice(shape),
        )
    return table


def _advice(shape: Shape) -> str:
    """The order that needs the fewest bytes, and those bytes; empty if it is this one."""
    least = least_waste(shape)
    if least == shape:
        return ""
    order = ",".join(map(str, least.layout.minor_to_major))
    return clipped(f"{{{order}}}: {least.nbytes}", 100)


def _as_json(entry: Entry) -> dict[str, Any]:
    least = least_waste(entry.shape)
    return {
        "shape": str(entry.shape),
        "count": entry.count,
        "first_line": entry.line,
        "nbytes": entry.shape.nbytes,
        "padding_nbytes": entry.wasted,
        "padding_fraction": entry.wasted / max(entry.shape.nbytes, 1),
        "least_waste": {"shape": str(least), "nbytes": least.nbytes},
    }
