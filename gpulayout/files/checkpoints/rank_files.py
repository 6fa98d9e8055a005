"""The files of all ranks in a folder, each rank with one or several: what a recipe reads that makes one model of them.

model-rank-0-part-0.safetensors  model-rank-0-part-1.safetensors  model-rank-1-part-0.safetensors ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpulayout.files.errors import FileError
from gpulayout.layout.checks import counted

_NUMBERS = {"${rank}": r"(?P<rank>[0-9]{1,9})", "${part}": r"(?P<part>[0-9]{1,9})"}


def rank_files(folder: Path, names: str) -> list[list[Path]]:
    """The files of each rank, in the order of their parts; `FileError` where one is missing.

    names   of the files, with ${rank}, and with ${part} where a rank has several
    """
    if names.count("${rank}") != 1 or names.count("${part}") > 1:
        raise FileError(
            f"the files of ranks are called {names}: such names have ${{rank}} once, and ${{part}} once or never"
        )
    pattern = re.compile("".join(_NUMBERS.get(each, re.escape(each)) for each in re.split(r"(\$\{\w+\})", names)))
    with os.scandir(folder) as scanned:
        listed = sorted(each.name for each in scanned if each.is_file())
    found: dict[int, dict[int, Path]] = {}
    for match in filter(None, map(pattern.fullmatch, listed)):
        numbers = {key: int(text) for key, text in match.groupdict().items()}
        parts, path = found.setdefault(numbers["rank"], {}), folder / match[0]
        if (first := parts.setdefault(numbers.get("part", 0), path)) is not path:
            raise FileError(f"{path}: this and {first.name} are the same part of rank {numbers['rank']}: delete one")
    if not found:
        raise FileError(f"{folder}: this folder has no files of ranks, whose names are {names}")
    _check_all(folder, "rank", sorted(found))
    for rank, parts in found.items():
        _check_all(folder, f"rank {rank}, part", sorted(parts))
    return [[found[rank][part] for part in sorted(found[rank])] for rank in sorted(found)]


def _check_all(folder: Path, what: str, numbers: Sequence[int]) -> None:
    """`FileError` unless the numbers are 0, 1, 2 and so on."""
    missing = next((number for number, own in enumerate(numbers) if number != own), None)
    if missing is not None:
        raise FileError(
            f"{folder}: {what} {missing} is missing: there are {counted(len(numbers), 'file')} to {what} {numbers[-1]}"
        )
