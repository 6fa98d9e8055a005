"""What `gpulayout show --hlo` lists of a text: its arrays and what padding wastes, or what it copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.output import print_columns
from gpulayout.layout.checks import counted
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.shape import Shape
from gpulayout.xla.hlo import UnreadLines
from gpulayout.xla.hlo_copies import FoundCopy, HloCopies
from gpulayout.xla.hlo_results import HloResults, TextKind, find_results
from gpulayout.xla.least_padding import least_waste
from gpulayout.xla.trees import arrays

Stage = Callable[[str, int, int], None]  # hears what is done, how much of it, and of how much


class Table(NamedTuple):
    """How entries are listed: what JSON calls them, and their columns, of which `left` hold text.

    sorts     which entry comes first; those that a sort leaves equal stay in the order of "bytes"
    below     columns that get a second line on a narrow terminal
    as_json   an entry in JSON
    totals    the numbers of all of them together that are shown for each program of a folder, by column
    """

    key: str
    sorts: dict[str, Callable[[Any], int]]
    columns: dict[str, Callable[[Any], object]]
    left: tuple[str, ...]
    below: tuple[str, ...]
    as_json: Callable[[Any], dict[str, Any]]
    totals: dict[str, str]


class Listing(NamedTuple):
    """What is listed of one text: its entries, the largest first, and lines before and after their table.

    numbers   those of all entries together
    """

    table: Table
    entries: Sequence[Any]
    numbers: dict[str, Any]
    head: list[str]
    notes: list[str]

    def as_json(self, sort: str) -> dict[str, Any]:
        """All that is listed, in one order of the table's `sorts`."""
        entries = sorted(self.entries, key=self.table.sorts[sort])
        return {self.table.key: map(self.table.as_json, entries), **self.numbers}

    def print(self, sort: str, most: int) -> None:
        """Print a table of `most` rows in one order of the table's `sorts`."""
        click.echo("\n".join(self.head))
        columns, entries = self.table.columns, sorted(self.entries, key=self.table.sorts[sort])
        if entries:
            rows = [[str(value(entry)) for value in columns.values()] for entry in entries[:most]]
            print_columns([*columns], rows, left=self.table.left, below=self.table.below)
        if len(entries) > most:
            click.echo(f"and {len(entries) - most} more; --top {len(entries)} lists all")
        if self.notes:
            click.echo("\n".join(self.notes))


def shortened(texts: Sequence[str], total: int) -> list[str]:
    """Some of `total` texts, and how many more there are."""
    return [*texts, f"and {total - len(texts)} more"] if total > len(texts) else [*texts]


def _unread(unread: UnreadLines, what: str = "a shape") -> list[str]:
    """Such as 5 lines with a shape were not read: line 12: f32[2]{0,0}; ...; and 2 more.  Empty if all were."""
    shown = [f"line {line.line}: {printable(line.text)}" for line in unread.first]
    was = f"{counted(unread.total, 'line')} with {what} {'was' if unread.total == 1 else 'were'} not read"
    return [f"{was}: {'; '.join(shortened(shown, unread.total))}"] if unread.total else []


def _unread_as_json(unread: UnreadLines) -> dict[str, Any]:
    return {"count": unread.total, "first": [line._asdict() for line in unread.first]}


# ---- arrays --------------------------------------------------------------------------------------------------


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


def list_arrays(name: str, text: str, stage: Stage) -> Listing:
    """The arrays of a text of this name; a failure if there are none."""
    found: dict[Shape, tuple[int, list[str]]] = {}
    results = find_results(text, lambda position: stage("characters read", position, len(text)))
    for instruction, result in results.found:
        for shape in arrays(result.shape):
            found.setdefault(shape, (result.line, []))[1].append(instruction)
    if not found:
        raise Failure(f"{name}: no array to list in {counted(len(text), 'character')}{_hint(text, results.unread)}")
    sized = []
    for done, (shape, (line, names)) in enumerate(found.items(), 1):
        if UNBOUNDED not in shape.dimensions:
            sized.append(ListedArray(shape, names, line, least_waste(shape)))
        stage("shapes compared with other orders", done, len(found))
    sized.sort(key=lambda entry: (-entry.shape.nbytes, -entry.count, entry.line))
    return _array_listing(name, results, sized, sum(len(names) for _, names in found.values()))


def _hint(text: str, unread: UnreadLines) -> str:
    """What a text without an array may be, or nothing."""
    if "tensor<" in text:
        return ": StableHLO tensors have no layout; use the text of the compiled program"
    if text.startswith("\ufffd\ufffd"):  # what a byte order mark of UTF-16 becomes
        return ": it does not begin like UTF-8; if it is UTF-16, save the text as UTF-8"
    return "".join(f": {line}" for line in _unread(unread))


# What the first line says of a text that is no program
_KINDS: dict[TextKind, str] = {
    "program": "",
    "allocations": ", a report of allocations",
    "values": ", a buffer assignment",
    "text": ", a text without instructions: every shape in it counts",
}


def _array_listing(name: str, results: HloResults, entries: list[ListedArray], all_arrays: int) -> Listing:
    """The listing of arrays that have a size: in others, a dimension has no bound."""
    count = sum(entry.count for entry in entries)
    nbytes = sum(entry.count * entry.shape.nbytes for entry in entries)
    wasted = sum(entry.count * entry.wasted for entry in entries)
    saved = sum(entry.count * entry.saved for entry in entries)
    numbers = {
        "read_as": results.kind,
        "unread_lines": _unread_as_json(results.unread),
        "count": count,
        "without_size": all_arrays - count,
        "nbytes": nbytes,
        "padding_nbytes": wasted,
        "saving_nbytes": saved,
    }
    head = [
        f"{name}{_KINDS[results.kind]}",
        f"{counted(count, 'array')} of {counted(len(entries), 'shape')}, {counted(nbytes, 'byte')} together, "
        f"{wasted} of them padding ({wasted / max(nbytes, 1):.1%})"
        + (f"; {all_arrays - count} without a bound left out" if all_arrays > count else ""),
        *_unread(results.unread, "a shape or an allocation" if results.kind == "allocations" else "a shape"),
    ]
    note = (
        f"the orders under 'least_order' would save {saved} of the {counted(wasted, 'byte')} of padding"
        if saved
        else "no other order of the dimensions needs fewer bytes"
    )
    return Listing(ARRAYS, entries, numbers, head, [note] if entries else [])


def _array_as_json(entry: ListedArray) -> dict[str, Any]:
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


ARRAYS = Table(
    "buffers",
    {
        "bytes": lambda entry: -entry.shape.nbytes,
        "waste": lambda entry: -entry.count * entry.wasted,
        "saving": lambda entry: -entry.count * entry.saved,
        "times": lambda entry: -entry.count,
        "line": lambda entry: entry.line,
    },
    {
        "times": lambda entry: entry.count,
        "bytes": lambda entry: entry.shape.nbytes,
        "padding": lambda entry: entry.wasted,
        "of_it": lambda entry: f"{entry.wasted / max(entry.shape.nbytes, 1):.1%}",
        "line": lambda entry: entry.line,
        "instruction": lambda entry: entry.names[0],
        "shape": lambda entry: entry.shape,
        "least_order": lambda entry: (
            f"{{{','.join(map(str, entry.least.layout.minor_to_major))}}}" if entry.saved else ""
        ),
        "least_bytes": lambda entry: entry.least.nbytes if entry.saved else "",
    },
    left=("instruction", "shape", "least_order"),
    below=("instruction", "shape"),
    as_json=_array_as_json,
    totals={"arrays": "count", "bytes": "nbytes", "padding": "padding_nbytes", "saving": "saving_nbytes"},
)


# ---- copies --------------------------------------------------------------------------------------------------


def list_copies(name: str, text: str, stage: Stage) -> Listing:
    """The copies of a text of this name; a failure if it is no program.

    An entry is all copies of one layout to one other that run equally often.
    """
    copies = HloCopies(text, lambda position: stage("characters read", position, len(text)))
    if not copies.is_program:
        raise Failure(
            f"{name}: no instruction in {counted(len(text), 'character')}: --copies needs the text of a program, not a "
            "report of its memory"
        )
    alike: dict[Any, list[FoundCopy]] = {}
    for copy in copies.found:
        alike.setdefault((copy.source, copy.target, copy.runs, copy.in_loop, _what(copy)), []).append(copy)
    entries = sorted(alike.values(), key=lambda entry: (-_nbytes(entry), entry[0].line))
    return _copy_listing(name, copies, entries)


def _copy_listing(name: str, copies: HloCopies, entries: list[list[FoundCopy]]) -> Listing:
    found = copies.found
    numbers: dict[str, Any] = {
        "count": len(found),
        "nbytes": sum(map(_nbytes, entries)),
        "nbytes_of_runs": sum(copy.nbytes * (1 if copy.runs is None else copy.runs) for copy in found),
        "runs_unknown": sum(copy.runs is None for copy in found),
        "in_loops": sum(copy.in_loop for copy in found),
        "keeping_layout": sum(copy.keeps_layout for copy in found),
        "inside_fusions": copies.inside_fusions,
        "unread_lines": _unread_as_json(copies.unread),
    }
    nbytes, of_runs, unknown = (numbers[key] for key in ("nbytes", "nbytes_of_runs", "runs_unknown"))
    of_all_runs = f", {'at least ' * bool(unknown)}{of_runs} as often as they run"
    head = [
        name,
        f"{counted(len(found), 'copy')}, {counted(nbytes, 'byte')} read and written if each runs once"
        + (of_all_runs if unknown or of_runs != nbytes else ""),
        *_unread(copies.unread),
    ]
    notes = [
        f"{counted(number, noun)} {what}"
        for number, noun, what in (
            (numbers["in_loops"], "copy", "in a loop body: 'runs' says how often, or ? if the text does not"),
            (numbers["keeping_layout"], "copy", "without a change of the layout"),
            (copies.inside_fusions, "other change", "of a layout inside fusions, which write nothing of their own"),
        )
        if number
    ]
    moved = [first for first, *_ in entries if not first.keeps_layout and first.is_relayout]
    notes += [f"for more of one: gpulayout explain '{one.source}' '{one.target}'" for one in moved[:1]]
    return Listing(COPIES, entries, numbers, head, notes)


def _nbytes(entry: list[FoundCopy]) -> int:
    """Bytes that all of them read and write when each runs once."""
    return len(entry) * entry[0].nbytes


def _what(copy: FoundCopy) -> str:
    return f"fusion:{copy.opcode}" if copy.is_fused else copy.opcode


def cell(text: str) -> str:
    """Text of a program or a file's name in a cell, which has no blanks."""
    return printable("_".join(text.split()))


def _copy_as_json(entry: list[FoundCopy]) -> dict[str, Any]:
    first = entry[0]
    return {
        "from": str(first.source),
        "to": str(first.target),
        "count": len(entry),
        **{key: getattr(first, key) for key in ("nbytes", "runs", "in_loop", "opcode", "is_fused", "keeps_layout")},
        "instructions": [
            {key: getattr(copy, key) for key in ("name", "line", "computation", "op_name", "source_line")}
            for copy in entry
        ],
    }


COPIES = Table(
    "copies",
    {
        "bytes": lambda entry: -_nbytes(entry),
        "times": lambda entry: -len(entry),
        "line": lambda entry: entry[0].line,
    },
    {
        "times": len,
        "bytes": lambda entry: entry[0].nbytes,
        "together": _nbytes,
        "runs": lambda entry: "?" if entry[0].runs is None else entry[0].runs,
        "line": lambda entry: entry[0].line,
        "what": lambda entry: _what(entry[0]),
        "in": lambda entry: "loop" if entry[0].in_loop else "",
        "instruction": lambda entry: entry[0].name,
        "from": lambda entry: entry[0].source,
        "to": lambda entry: entry[0].target,
        "source": lambda entry: cell(entry[0].source_line),
        "op_name": lambda entry: cell(entry[0].op_name),
    },
    left=("what", "in", "instruction", "from", "to", "source", "op_name"),
    below=("instruction", "from", "to", "source", "op_name"),
    as_json=_copy_as_json,
    totals={"copies": "count", "bytes": "nbytes", "in_loops": "in_loops", "same_layout": "keeping_layout"},
)
