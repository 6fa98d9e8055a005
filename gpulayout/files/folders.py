"""Folders that stand where a file is wanted: what to write instead."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

from gpulayout.files.errors import FileError
from gpulayout.files.other_formats import other_model, refuse_other_folder

WANTED = (".safetensors.index.json", ".safetensors", ".npy")  # names of files that are read, the best first
MOST_ENTRIES = 10_000  # of a folder that are looked at
MOST_NAMED = 3
MOST_NAME = 200  # characters


def refuse_folder(path: Path) -> None:
    """`FileError` for a folder that is read like a file, with those of its files that can be read."""
    if not os.path.isdir(path):  # not Path.is_dir, which raises for names that are too long
        return
    refuse_other_folder(path)
    names = _readable(path)
    if not names:
        raise FileError(f"{path}: this is a folder{_why_nothing_can_be_read(path)}")
    which = "the file in it" if len(names) == 1 else "one of its files"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    raise FileError(f"{path}: this is a folder: write {which}, {', '.join(names[:MOST_NAMED])}{more}")


def refuse_broken(path: Path) -> None:
    """`FileError` for a name that is there and leads to no file, such as a link whose file is gone."""
    if os.path.islink(path) and not os.path.exists(path):
        raise FileError(
            f"{path}: a symbolic link to {os.readlink(path)}, which does not exist: is the download complete?"
        )
    if os.path.lexists(path) and not os.path.isfile(path):
        raise FileError(f"{path}: not a regular file")


def refuse_folder_as_output(path: Path, source: object) -> None:
    """`FileError` for a folder that is to be written like a file; `source` is what becomes the new file."""
    if os.path.isdir(path):
        name = source.name if isinstance(source, Path) else "NAME"
        raise FileError(f"{path}: this is a folder: write the name of a file in it, such as {path / name}")


def _why_nothing_can_be_read(folder: Path) -> str:
    """What a folder has instead of files that are read: snapshots of a hub's cache, or a model in another format."""
    if snapshots := _snapshots(folder):
        return f" of a hub's cache: write the snapshot in it, {snapshots[0]}"
    nothing = ", and none of its files ends in .safetensors or .npy"
    with os.scandir(folder) as scanned:
        entries = [entry for entry in itertools.islice(scanned, MOST_ENTRIES) if not entry.is_dir()]
    for name in sorted(entry.name for entry in entries):
        if name.lower().endswith((*WANTED, ".gguf")):
            refuse_broken(folder / name)
    files = [entry for entry in entries if entry.is_file()]
    others = [(entry.stat().st_size, entry.name, other) for entry in files if (other := other_model(entry.name))]
    if not others:
        return nothing
    _, name, other = max(others, key=lambda each: each[:2])  # small ones are options of a training
    return f"{nothing}; {name} is {other.name}: {other.read} makes a model of it that can be read"


def _snapshots(folder: Path) -> list[Path]:
    """The snapshots in a folder of the cache, the one of the branch main first.

    models--A--B/refs/main  snapshots/0123abcd/model.safetensors  blobs/...
    """
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return []
    with contextlib.suppress(OSError, ValueError):
        main = (folder / "refs" / "main").read_text(encoding="ascii")[:MOST_NAME].strip()
        if main and main == os.path.basename(main) and (snapshots / main).is_dir():
            return [snapshots / main]
    with os.scandir(snapshots) as scanned:
        names = sorted(entry.name for entry in itertools.islice(scanned, MOST_ENTRIES) if entry.is_dir())
    return [snapshots / name for name in names]


def _readable(folder: Path) -> list[str]:
    """The files in a folder that can be read: of shards with an index only the index."""
    with os.scandir(folder) as scanned:
        names = sorted(entry.name for entry in itertools.islice(scanned, MOST_ENTRIES) if entry.is_file())
    for ending in WANTED:
        if found := [name for name in names if name.lower().endswith(ending)]:
            return [str(folder / name) for name in found]
    return []
