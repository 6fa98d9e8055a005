"""The names of the files of all ranks: one name with ${rank} stands for them.  A rank that is read may have parts.

model-rank-${rank}-part-${part}.safetensors

model-rank-0-part-0.safetensors  model-rank-0-part-1.safetensors  model-rank-1-part-0.safetensors ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.model_folders import ENDING
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import counted, value_text
from gpulayout.layout.errors import LayoutError

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
    if names.count(RANK) > 1 or (RANK in names and "$" in filled[0]):
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


class Ranks(NamedTuple):
    """How many old inputs there are, None where nobody says, and how many new files."""

    old: int | None
    new: int

    def check_new(self, path: Path) -> None:
        """`FileError` for the name of the new files, where they are several, without ${rank}."""
        if self.new > 1 and RANK not in path.name:
            raise FileError(
                f"{path}: {self.new} files need a name with ${{rank}} in it, such as rank${{rank}}{ENDING}; in single "
                "quotes a shell leaves it as it is"
            )

    def check_old(self, path: Path, inputs: int) -> None:
        """`FileError` unless there are as many inputs as a caller says, of which `path` is the first."""
        if self.old not in (None, inputs):
            raise FileError(f"{path}: ranks are {self.old}:{self.new}, and the inputs are {inputs}")


def read_ranks(value: object) -> Ranks | None:
    """What a caller says of the number of ranks, or not: that of the new ones, or those of both; else `LayoutError`.

    >>> read_ranks(2), read_ranks((4, 2)), read_ranks("4:2")
    (Ranks(old=None, new=2), Ranks(old=4, new=2), Ranks(old=4, new=2))
    """
    if value is None:
        return None
    both: Any = value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", value):
        both = [*map(int, value.split(":"))]
    both = [*both] if isinstance(both, (list, tuple)) else [both]
    if len(both) not in (1, 2) or not all(type(each) is int and 1 <= each <= MOST_RANKS for each in both):
        raise LayoutError(
            f"ranks {value_text(value)} is not the number of new files, such as 2, or those of old and new ones, such "
            f"as 4:2; each is 1 to {MOST_RANKS}"
        )
    return Ranks(both[0] if both[1:] else None, both[-1])


def check_counted(sources: Sequence[Path], target: Path, ranks: Ranks | None) -> None:
    """`FileError` where a name stands for the files of all ranks, and nobody says how many there are."""
    if ranks is None and RANK in target.name:
        raise FileError(f"{target}: ${{rank}} stands for the numbers of several new files", "; --ranks 2 makes two")
    for path in sources:
        if RANK in path.name and (ranks is None or ranks.old is None):
            raise FileError(
                f"{path}: this is the name of all ranks, and a last one that is missing leaves no gap: say how many "
                "there are",
                "; --ranks 4:2 is for 4 old and 2 new ones",
            )


def check_no_other_ranks(path: Path, ranks: int) -> None:
    """`FileError` for a file of a rank that there will not be: who reads all ranks would read it too.

    path   of the new files, with ${rank}
    """
    for other, numbers in _listed(path.parent, path.name) if RANK in path.name and path.parent.is_dir() else ():
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
