"""`gpulayout show --hlo FILE|FOLDER`: what is listed of a program, or of all programs that XLA dumped into a folder.

XLA names its files by module and stage, such as module_0001.jit_f.sm_8.0_gpu_after_optimizations.txt.  Of every module
the text after optimizations is read: only that stage has the layouts that run.  Its companions
(-buffer-assignment.txt, -memory-usage-report.txt, .ll) and earlier stages are not read, nor are folders in the folder.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.hlo_listings import ARRAYS, COPIES, Listing, Stage, Table, cell, list_arrays, list_copies, shortened
from gpulayout.cli.output import print_json
from gpulayout.cli.progress import shown_progress
from gpulayout.files.errors import FileError
from gpulayout.files.standard_streams import File, input_name, standard_input
from gpulayout.layout.checks import counted

SORTS = tuple(ARRAYS.sorts)
MOST_ROWS = 20

Read = Callable[[str, str, Stage], Listing]


def show_hlo(file: File, *, copies: bool, sort: str | None, most: int | None, as_json: bool) -> None:
    """List the arrays or the copies of a program, in one order of `SORTS`; of a folder, the numbers of its programs."""
    sort = sort or "bytes"
    if copies and sort not in COPIES.sorts:
        raise click.UsageError(f"--copies sorts by {', '.join(COPIES.sorts)}, not by {sort}")
    read = list_copies if copies else list_arrays
    with shown_progress(quiet=False, as_json=as_json) as shown:
        if isinstance(file, Path) and file.is_dir():
            about, listing = _list_folder(file, read, sort, shown.stage)
        else:
            about = {"file": str(file)}
            listing = read(printable(input_name(file)), _read_text(file), shown.stage)
    if as_json:
        return print_json({**about, **listing.as_json(sort)})
    listing.print(sort, most or MOST_ROWS)


def _read_text(file: File) -> str:
    """The text of a file.  Bytes that are not UTF-8 become a character that no shape has."""
    try:
        data = file.read_bytes() if isinstance(file, Path) else standard_input().read()
    except FileError:
        raise
    except ValueError as error:  # a name with a null character
        raise Failure(f"{file}: {error}") from None
    return data.decode("utf-8", errors="replace")


# ---- folders -------------------------------------------------------------------------------------------------

MOST_ENTRIES = 200_000  # of a folder that are looked at
MOST_PROGRAMS = 1000  # that are read
MOST_BYTES = 1 << 28  # of a file that is read because it is in a folder: reading takes many times the memory
_MOST_NAMED = 3  # modules without a program, and files that are not read

# The stage that is read; the best first, if a module has several.  Before optimizations no layouts are chosen
_STAGES = (
    "after_optimizations",
    "after_optimizations_after_buffer_assignment",
    "after_optimizations_before_buffer_assignment",
    "before_optimizations",
)
_NAME = re.compile(rf"(.*?)[._]?({'|'.join(_STAGES)})\.txt", re.DOTALL)
_NUMBER = re.compile(r"module_[0-9]+\.")
_PLATFORM = re.compile(r"\.(?:sm_[0-9]+\.[0-9]+[a-z]?_gpu|gfx[^._]*_gpu|cpu|gpu|tpu|cl_[0-9]+)$")
_SORTS: dict[str, Callable[[Any], int]] = {
    "bytes": lambda program: -program["nbytes"],
    "waste": lambda program: -program["padding_nbytes"],
    "saving": lambda program: -program["saving_nbytes"],
    "times": lambda program: -program["count"],
    "line": lambda program: 0,  # in the order of the modules' names
}


def _find_programs(folder: Path, names: list[str]) -> tuple[dict[str, Path], list[str]]:
    """Of the files in a folder the one to read for each module, in the order of the modules' names, at least one.

    And the modules whose text after optimizations is missing, whatever their number: on a TPU it differs.
    """
    best: dict[str, tuple[int, str]] = {}
    for match in filter(None, map(_NAME.fullmatch, names)):
        module, found = _PLATFORM.sub("", match[1]), (_STAGES.index(match[2]), match[0])
        best[module] = min(best.get(module, found), found)
    last = len(_STAGES) - 1
    programs = {module: folder / name for module, (stage, name) in sorted(best.items()) if stage < last}
    if not programs:
        raise Failure(_nothing(folder, names, len(best)))
    named = {_NUMBER.sub("", module) for module in programs}
    return programs, sorted(module for module in best if _NUMBER.sub("", module) not in named)


def _nothing(folder: Path, names: list[str], before: int) -> str:
    """Why there is no program to read, and what to do."""
    if before:
        found = f"{counted(before, 'module')} only before optimizations, where layouts are not chosen yet"
    elif any(name.endswith((".hlo.pb", ".hlo", ".pb")) for name in names):
        found = "protos of programs, not their text"
    else:
        found = counted(len(names), "entry")
    return (
        f"{printable(str(folder))}: no file whose name ends in after_optimizations.txt; the folder has {found}. "
        "XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_text' dumps them; --hlo FILE reads any one text"
    )


def _list_folder(folder: Path, read: Read, sort: str, stage: Stage) -> tuple[dict[str, Any], Listing]:
    """What JSON says of a folder, and its programs, each with the numbers of its arrays or its copies."""
    with os.scandir(folder) as scanned:
        names = [entry.name for entry in itertools.islice(scanned, MOST_ENTRIES + 1)]
    is_whole, entries = len(names) <= MOST_ENTRIES, min(len(names), MOST_ENTRIES)
    files, without = _find_programs(folder, names[:entries])
    failures: dict[str, str] = {}
    programs = list(_programs(files, read, failures, stage))
    total = len(files)
    if not programs:
        name, why = next(iter(failures.items()))
        raise Failure(f"{printable(str(folder))}: none of {counted(total, 'program')} was read: {name}: {why}")
    head = [
        f"{printable(str(folder))}\n{counted(total, 'program')} in {counted(entries, 'entry')}: of each "
        "module the text after optimizations, whose layouts are those that run"
    ]
    if not is_whole:
        head.append(f"only the first {entries} entries were looked at")
    if total > MOST_PROGRAMS:
        head.append(f"only the first {MOST_PROGRAMS} programs were read")
    if without:
        shown = shortened([*map(printable, without[:_MOST_NAMED])], len(without))
        head.append(f"no text after optimizations of {counted(len(without), 'module')}: {', '.join(shown)}")
    head += [f"not read: {name}: {why}" for name, why in list(failures.items())[:_MOST_NAMED]]
    if len(failures) > _MOST_NAMED:
        head.append(f"not read: {len(failures) - _MOST_NAMED} more")
    numbers = {"programs_left": max(total - MOST_PROGRAMS, 0), "without_program": without, "not_read": failures}
    first = min(programs, key=_SORTS[sort])
    note = f"for one of them: gpulayout show --hlo {printable(shlex.quote(first['file']))}"
    table = _table(COPIES if read is list_copies else ARRAYS)
    about = {"folder": str(folder), "entries": entries, "is_whole": is_whole}
    return about, Listing(table, programs, numbers, head, [note])


def _table(of_each: Table) -> Table:
    """How programs are listed whose own entries are listed as `of_each`."""
    return Table(
        "programs",
        _SORTS,
        {
            **{column: operator.itemgetter(number) for column, number in of_each.totals.items()},
            "unread_lines": lambda program: program["unread_lines"]["count"],
            "file": lambda program: cell(Path(program["file"]).name),
        },
        left=("file",),
        below=("file",),
        as_json=dict,
        totals={},
    )


def _programs(files: dict[str, Path], read: Read, failures: dict[str, str], stage: Stage) -> Iterator[dict[str, Any]]:
    """The programs that can be read, as JSON has them; of the others, `failures` says why not."""
    programs = list(files.items())[:MOST_PROGRAMS]
    for done, (module, path) in enumerate(programs, 1):
        name = printable(path.name)
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                failures[name] = "no regular file"
            elif status.st_size > MOST_BYTES:
                failures[name] = f"{status.st_size} bytes, more than {MOST_BYTES}; give its own name to read it"
            else:
                listing = read(name, _read_text(path), lambda *_: None)
                yield {"module": module, "file": str(path), **listing.numbers}
        except OSError as error:
            failures[name] = error.strerror or str(error)
        except Failure as error:
            failures[name] = error.message.removeprefix(f"{name}: ")
        stage("programs read", done, len(programs))
