"""The names of the files of all ranks: one name with ${rank} stands for them.  A rank that is read may have parts.

model-rank-${rank}-part-${part}.safetensors

model-rank-0-part-0.safetensors  model-rank-0-part-1.safetensors  model-rank-1-part-0.safetensors ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpulayout.files.checkpoints.model_folders import ENDING
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import counted, value_text

RANK = "${rank}"
PART = "${part}"
MOST_RANKS = 4096
_NUMBERS = {RANK: r"(?P<rank>[0-9]{1,9})", PART: r"(?P<part>[0-9]{1,9})"}


def rank_files(folder: Path, names: str) -> list[list[Path]]:
    """The files of each rank, in the order of their parts; `FileError` where one is missing.

    names   of the files, or of folders, with ${rank}, and with ${part} where a rank has several
    """
    found: dict[int, dict[int, Path]] = {}
    for path, numbers in _listed(folder, names):
        parts = found.setdefault(numbers["rank"], {})
        if (first := parts.setdefault(numbers.get("part", 0), path)) is not path:
            raise FileError(f"{path}: this and {first.name} are the same part of rank {numbers['rank']}: delete one")
    if not found:
        raise FileError(f"{folder}: this folder has no files of ranks, whose names are {names}")
    _check_all(folder, "rank", sorted(found))
    for rank, parts in found.items():
        _check_all(folder, f"rank {rank}, part", sorted(parts))
    return [[found[rank][part] for part in sorted(found[rank])] for rank in sorted(found)]


def rank_names(names: str, ranks: int) -> list[str]:
    """The name of the new file of each rank; `FileError` for a name that is not one for each.

    >>> rank_names("rank-${rank}.safetensors", 2)
    ['rank-0.safetensors', 'rank-1.safetensors']
    """
    filled = [names.replace(RANK, str(rank)) for rank in range(ranks)]
    check_rank_names(filled, names)
    if names.count(RANK) != 1 or "$" in filled[0]:
        raise FileError(f"{names}: the name of several new files has ${{rank}} in it, once, and nothing else with a $")
    return filled


def check_rank_names(names: Sequence[object], shown: str) -> None:
    """`FileError` for what are no names of files in a folder, and for one name twice."""
    for name in names:
        is_name = isinstance(name, str) and name == os.path.basename(name) and not {*"\0\\"} & {*name}
        if not is_name or not str(name).lower().endswith(ENDING):
            raise FileError(f"{shown} gives {value_text(name)}, which is not the name of a {ENDING} file")
    if len({*names}) < len(names):
        raise FileError(f"{shown} is one name for several ranks")


def check_target(path: Path, ranks: int | None) -> None:
    """`FileError` unless the new files are as many as their name says: one, or one for each rank."""
    if RANK in path.name and ranks is None:
        raise FileError(f"{path}: ${{rank}} stands for the numbers of several new files", "; --ranks 2 makes two")
    if ranks is not None and RANK not in path.name:
        raise FileError(
            f"{path}: {counted(ranks, 'file')} need a name with ${{rank}} in it, such as rank${{rank}}{ENDING}; in "
            "single quotes a shell leaves it as it is"
        )


def check_no_other_ranks(path: Path, ranks: int) -> None:
    """`FileError` for a file of a rank that there will not be: who reads all ranks would read it too.

    path   of the new files, with ${rank}
    """
    for other, numbers in _listed(path.parent, path.name) if path.parent.is_dir() else ():
        if numbers["rank"] >= ranks:
            raise FileError(
                f"{other}: this is the file of a rank too, and there will be {counted(ranks, 'rank')}: delete it, or "
                "write to another name"
            )


def _listed(folder: Path, names: str) -> list[tuple[Path, dict[str, int]]]:
    """What has such a name in a folder, and its numbers, in the order of the names."""
    if names.count(RANK) != 1 or names.count(PART) > 1:
        raise FileError(
            f"the files of ranks are called {names}: such names have ${{rank}} once, and ${{part}} once or never"
        )
    pattern = re.compile("".join(_NUMBERS.get(each, re.escape(each)) for each in re.split(r"(\$\{\w+\})", names)))
    with os.scandir(folder) as scanned:
        matches = sorted(filter(None, (pattern.fullmatch(each.name) for each in scanned)), key=lambda match: match[0])
    return [(folder / match[0], {key: int(text) for key, text in match.groupdict().items()}) for match in matches]


def _check_all(folder: Path, what: str, numbers: Sequence[int]) -> None:
    """`FileError` unless the numbers are 0, 1, 2 and so on."""
    missing = next((number for number, own in enumerate(numbers) if number != own), None)
    if missing is not None:
        raise FileError(
            f"{folder}: {what} {missing} is missing: there are {counted(len(numbers), 'file')} to {what} {numbers[-1]}"
        )
