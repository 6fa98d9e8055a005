"""The programs in a folder that XLA has dumped into: of every module, the text after optimizations.

XLA names its files by module and stage, such as module_0001.jit_f.sm_8.0_gpu_after_optimizations.txt.  Only that stage
has the layouts that run.  Its companions (-buffer-assignment.txt, -memory-usage-report.txt, .ll) and earlier stages are
not read, nor are folders in the folder.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from gpulayout.cli.failures import Failure, printable
from gpulayout.layout.checks import counted

MOST_ENTRIES = 200_000  # of a folder that are looked at
MOST_PROGRAMS = 1000  # that are read
MOST_BYTES = 1 << 28  # of a file that is read because it is in a folder: reading takes many times the memory

# The best first, if a module has several
_AFTER = (
    "after_optimizations",
    "after_optimizations_after_buffer_assignment",
    "after_optimizations_before_buffer_assignment",
)
_NAME = re.compile(
    rf"(.*?)[._]?({'|'.join(sorted(_AFTER, key=len, reverse=True))}|before_optimizations)\.txt", re.DOTALL
)
_NUMBER = re.compile(r"module_[0-9]+\.")
_PLATFORM = re.compile(r"\.(?:sm_[0-9]+\.[0-9]+[a-z]?_gpu|gfx[^._]*_gpu|cpu|gpu|tpu|cl_[0-9]+)$")


class DumpedProgram(NamedTuple):
    """The file that is read for a module."""

    module: str
    path: Path


class Dump(NamedTuple):
    """What a folder holds.

    entries       how many files and folders were looked at; `is_whole` is False if there are more
    programs      in the order of their names, at most `MOST_PROGRAMS`; `total` of them are in the folder
    without       modules whose text after optimizations is missing, whatever their number: on a TPU it differs
    """

    entries: int
    is_whole: bool
    programs: list[DumpedProgram]
    total: int
    without: list[str]


def find_dump(folder: Path) -> Dump:
    """The programs in a folder; a failure if there is none."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES + 1)]
    is_whole = len(names) <= MOST_ENTRIES
    names = names[:MOST_ENTRIES]
    after: dict[str, tuple[int, str]] = {}
    before: set[str] = set()
    for name in names:
        if match := _NAME.fullmatch(name):
            module = _PLATFORM.sub("", match[1])
            if match[2] in _AFTER:
                after[module] = min(after.get(module, (len(_AFTER), "")), (_AFTER.index(match[2]), name))
            else:
                before.add(module)
    if not after:
        raise Failure(_nothing(folder, names, before))
    named = {_NUMBER.sub("", module) for module in after}
    without = sorted(module for module in before if _NUMBER.sub("", module) not in named)
    programs = [DumpedProgram(module, folder / name) for module, (_, name) in sorted(after.items())]
    return Dump(len(names), is_whole, programs[:MOST_PROGRAMS], len(programs), without)


def _nothing(folder: Path, names: list[str], before: set[str]) -> str:
    """Why there is no program to read, and what to do."""
    if before:
        found = f"{counted(len(before), 'module')} only before optimizations, where layouts are not chosen yet"
    elif any(name.endswith((".hlo.pb", ".hlo", ".pb")) for name in names):
        found = "protos of programs, not their text"
    else:
        found = counted(len(names), "entry")
    return (
        f"{printable(str(folder))}: no file whose name ends in after_optimizations.txt; the folder has {found}. "
        "XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_text' dumps them; --hlo FILE reads any one text"
    )


def why_not_read(path: Path) -> str:
    """Why a file of a folder is left alone; "" if it can be read."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "no regular file"
    if status.st_size > MOST_BYTES:
        return f"{status.st_size} bytes, more than {MOST_BYTES}; give its own name to read it"
    return ""
