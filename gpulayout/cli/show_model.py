"""`gpulayout show MODEL`: the tensors of a safetensors or GGUF file, or of all shards, from their headers alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.cli.failures import printable
from gpulayout.cli.folded_names import folded, natural
from gpulayout.cli.output import print_columns, print_json
from gpulayout.cli.progress import shown_progress
from gpulayout.files.checkpoints.header import NOTE, PLAIN, StoredTensor, notes_of
from gpulayout.files.checkpoints.opening import Checkpoint, Shard, open_checkpoint
from gpulayout.layout.checks import clipped, counted

SORTS = ("name", "bytes")
MOST_ROWS = 100
MOST_TEXT = 200  # characters of a name, a layout or a value: a file may have millions
COLUMNS = ("tensor", "stored", "times", "bytes", "layout", "file")


@dataclass(frozen=True)
class Found:
    """A tensor of a model.

    layout   what its note says; None without one
    shard    the file that it is in
    """

    tensor: StoredTensor
    layout: str | None
    shard: Shard

    def as_json(self) -> dict[str, Any]:
        """All that the files say of it, and where in its file it begins; its bytes may be parts of blocks there."""
        tensor, shard = self.tensor, self.shard
        return {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "dimensions": tensor.dimensions,
            "layout": self.layout,
            "nbytes": tensor.nbytes,
            "file": str(shard.path),
            "offset": shard.begin(tensor),
            "blocks": None if tensor.blocks is None else tensor.blocks._asdict(),
        }


def show_model(path: Path, *, sort: str | None, most: int | None, as_json: bool) -> None:
    """List the tensors of a model, those that differ only in numbers in one row, in one order of `SORTS`."""
    with shown_progress(quiet=False, as_json=as_json) as shown, open_checkpoint([path], shown.stage) as model:
        tensors = sorted(_tensors(model), key=lambda each: natural(each.tensor.name))
        if sort == "bytes":
            tensors.sort(key=lambda each: -each.tensor.nbytes)
        if as_json:
            return print_json(_as_json(model, tensors))
        _print(model, tensors, sort, most or MOST_ROWS)


def _tensors(model: Checkpoint) -> Iterator[Found]:
    for shard in model.shards:
        notes = notes_of(shard.contents.metadata)
        yield from (Found(each, notes.get(each.name), shard) for each in shard.contents.tensors)


def _totals(tensors: Sequence[Found]) -> dict[str, dict[str, int]]:
    """The numbers of all tensors of each type, the type with the most bytes first."""
    totals: dict[str, dict[str, int]] = {}
    for each in tensors:
        of_type = totals.setdefault(each.tensor.dtype, dict.fromkeys(("count", "elements", "nbytes"), 0))
        of_type["count"] += 1
        of_type["elements"] += math.prod(each.tensor.dimensions)
        of_type["nbytes"] += each.tensor.nbytes
    return dict(sorted(totals.items(), key=lambda each: (-each[1]["nbytes"], each[0])))


def _as_json(model: Checkpoint, tensors: Sequence[Found]) -> dict[str, Any]:
    return {
        "file": str(model.path),
        "index": model.index,
        "files": [
            {"file": str(shard.path), "metadata": shard.contents.metadata, "tensors": len(shard.contents.tensors)}
            for shard in model.shards
        ],
        "count": len(tensors),
        "nbytes": sum(each.tensor.nbytes for each in tensors),
        "types": _totals(tensors),
        "tensors": map(Found.as_json, tensors),
    }


# ---- for people --------------------------------------------------------------------------------------------------


def _print(model: Checkpoint, tensors: Sequence[Found], sort: str | None, most: int) -> None:
    nbytes = sum(each.tensor.nbytes for each in tensors)
    files = f" in {counted(len(model.shards), 'file')}" if model.index is not None else ""
    click.echo(f"{printable(str(model.path))}\n{counted(len(tensors), 'tensor')}{files}, {counted(nbytes, 'byte')}")
    for name, (count, elements, size) in ((name, of_type.values()) for name, of_type in _totals(tensors).items()):
        click.echo(f"{name}: {counted(count, 'tensor')}, {counted(elements, 'element')}, {counted(size, 'byte')}")
    rows = _rows(tensors, several=len(model.shards) > 1)
    if sort == "bytes":
        rows.sort(key=lambda row: -int(row[COLUMNS.index("bytes")]))
    if rows:
        print_columns(COLUMNS, rows[:most], left=("tensor", "stored", "layout", "file"), below=("layout", "file"))
    if len(rows) > most:
        click.echo(f"and {len(rows) - most} more; --top {len(rows)} lists all")
    lines = [*_about(model, nbytes)]
    if len(lines) > most:
        lines[most:] = [f"and {len(lines) - most} more; --json has all"]
    if lines:
        click.echo("\n".join(lines))


def _rows(tensors: Sequence[Found], *, several: bool) -> list[list[str]]:
    """A row for all tensors whose names differ only in numbers and that lie in the same way."""
    found = {each.tensor.name: each for each in tensors}
    rows = []
    for name, members in folded((name, (str(each.tensor), each.layout)) for name, each in found.items()):
        first = found[members[0]]
        files = {found[member].shard.path.name for member in members} if several else set()
        texts = [*map(_line, (name, str(first.tensor), first.layout or "", _files(files)))]
        rows.append([*texts[:2], str(len(members)), str(len(members) * first.tensor.nbytes), *texts[2:]])
    return rows


def _about(model: Checkpoint, nbytes: int) -> Iterator[str]:
    """What the files say beside their tensors; what all shards say alike only once."""
    said: dict[tuple[str, str], list[str]] = {}
    for shard in model.shards:
        names = {each.name for each in shard.contents.tensors}
        for key, text in (shard.contents.metadata or {}).items():
            if key.startswith((NOTE, PLAIN)) and key.partition(":")[2] in names:
                continue  # the table has these layouts, and what gl.torch needs beside them is in --json
            said.setdefault((key, text), []).append(shard.path.name)
    for (key, text), files in said.items():
        where = "" if len(files) == len(model.shards) else f"  (in {_line(_files(files))})"
        yield f"metadata  {_line(key)}: {_line(text)}{where}"
    size = (model.index or {}).get("metadata", {}).get("total_size")
    if size is not None and size != nbytes:
        yield f"note: the index says total_size {_line(str(size))}, and the tensors have {counted(nbytes, 'byte')}"


def _files(names: Iterable[str]) -> str:
    """Some files' names in few words, such as model-{00001..00003}-of-00004.safetensors."""
    return ", ".join(one for one, _ in folded((name, None) for name in names))


def _line(text: str) -> str:
    return printable(clipped(text, MOST_TEXT))
