"""Folders that stand where a file is wanted: what to write instead."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from gpulayout.files.errors import FileError
from gpulayout.files.other_formats import refuse_other_folder

WANTED = (".safetensors.index.json", ".safetensors", ".npy")  # names of files that are read, the best first
MOST_ENTRIES = 10_000  # of a folder that are looked at
MOST_NAMED = 3


def refuse_folder(path: Path) -> None:
    """`FileError` for a folder that is read like a file, with those of its files that can be read."""
    if not os.path.isdir(path):  # not Path.is_dir, which raises for names that are too long
        return
    refuse_other_folder(path)
    names = _readable(path)
    if not names:
        raise FileError(f"{path}: this is a folder, and none of its files ends in .safetensors or .npy")
    which = "the file in it" if len(names) == 1 else "one of its files"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    raise FileError(f"{path}: this is a folder: write {which}, {', '.join(names[:MOST_NAMED])}{more}")


def refuse_folder_as_output(path: Path, source: object) -> None:
    """`FileError` for a folder that is to be written like a file; `source` is what becomes the new file."""
    if os.path.isdir(path):
        name = source.name if isinstance(source, Path) else "NAME"
        raise FileError(f"{path}: this is a folder: write the name of a file in it, such as {path / name}")


def _readable(folder: Path) -> list[str]:
    """The files in a folder that can be read: of shards with an index only the index."""
    with os.scandir(folder) as scanned:
        names = sorted(entry.name for entry in itertools.islice(scanned, MOST_ENTRIES) if entry.is_file())
    for ending in WANTED:
        if found := [name for name in names if name.lower().endswith(ending)]:
            return [str(folder / name) for name in found]
    return []
