"""`gpulayout show --hlo FILE|FOLDER`: what is listed of a program, or of all programs that XLA dumped into a folder.

XLA names its files by module and stage, such as module_0001.jit_f.sm_8.0_gpu_after_optimizations.txt.  Of every module
the text after optimizations is read: only that stage has the layouts that run.  Its companions
(-buffer-assignment.txt, -memory-usage-report.txt, .ll) and earlier stages are not read, nor are folders in the folder.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.hlo_listings import ARRAYS, COPIES, Stage, cell, list_arrays, list_copies, more_rows, shortened
from gpulayout.cli.output import print_columns, print_json
from gpulayout.cli.progress import shown_progress
from gpulayout.files.errors import FileError
from gpulayout.files.standard_streams import File, input_name, standard_input
from gpulayout.layout.checks import counted

SORTS = tuple(ARRAYS.sorts)


def show_hlo(file: File, *, copies: bool, sort: str, most: int, as_json: bool) -> None:
    """List the arrays or the copies of a program, in one order of `SORTS`; of a folder, the numbers of its programs."""
    if copies and sort not in COPIES.sorts:
        raise click.UsageError(f"--copies sorts by {', '.join(COPIES.sorts)}, not by {sort}")
    if isinstance(file, Path) and file.is_dir():
        return _show_folder(file, copies, sort, most, as_json)
    with shown_progress(quiet=False, as_json=as_json) as shown:
        listing = (list_copies if copies else list_arrays)(printable(input_name(file)), _read_text(file), shown.stage)
    if as_json:
        return print_json({"file": str(file), **listing.as_json(sort)})
    listing.print(sort, most)


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

# The best first, if a module has several
_AFTER = (
    "after_optimizations",
    "after_optimizations_after_buffer_assignment",
    "after_optimizations_before_buffer_assignment",
)
_NAME = re.compile(rf"(.*?)[._]?({'|'.join(_AFTER)}|before_optimizations)\.txt", re.DOTALL)
_NUMBER = re.compile(r"module_[0-9]+\.")
_PLATFORM = re.compile(r"\.(?:sm_[0-9]+\.[0-9]+[a-z]?_gpu|gfx[^._]*_gpu|cpu|gpu|tpu|cl_[0-9]+)$")
_SORTS = {"bytes": "nbytes", "waste": "padding_nbytes", "saving": "saving_nbytes", "times": "count"}


class Dump(NamedTuple):
    """What a folder holds.

    entries    how many files and folders were looked at; `is_whole` is False if there are more
    programs   the file that is read for each module, in the order of the modules' names
    without    modules whose text after optimizations is missing, whatever their number: on a TPU it differs
    """

    entries: int
    is_whole: bool
    programs: dict[str, Path]
    without: list[str]


def _find_dump(folder: Path) -> Dump:
    """The programs in a folder; a failure if there is none."""
    with os.scandir(folder) as entries:
        all_names = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES + 1)]
    names = all_names[:MOST_ENTRIES]
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
    programs = {module: folder / name for module, (_, name) in sorted(after.items())}
    return Dump(len(names), len(names) == len(all_names), programs, without)


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


def _show_folder(folder: Path, copies: bool, sort: str, most: int, as_json: bool) -> None:
    """List the programs of a folder, each with the numbers of its arrays or its copies."""
    with shown_progress(quiet=False, as_json=as_json) as shown:
        dump = _find_dump(folder)
        failures: dict[str, str] = {}
        programs = list(_programs(dump, copies, failures, shown.stage))
    total = len(dump.programs)
    if not programs:
        name, why = next(iter(failures.items()))
        raise Failure(f"{printable(str(folder))}: none of {counted(total, 'program')} was read: {name}: {why}")
    if sort != "line":  # the order of the names
        programs.sort(key=lambda each: -each[_SORTS[sort]])
    if not as_json:
        return _print_folder(folder, dump, programs, failures, most, COPIES.totals if copies else ARRAYS.totals)
    print_json(
        {
            "folder": str(folder),
            "entries": dump.entries,
            "is_whole": dump.is_whole,
            "programs": iter(programs),
            "programs_left": max(total - MOST_PROGRAMS, 0),
            "without_program": dump.without,
            "not_read": failures,
        }
    )


def _programs(dump: Dump, copies: bool, failures: dict[str, str], stage: Stage) -> Iterator[dict[str, Any]]:
    """The programs that can be read, as JSON has them; of the others, `failures` says why not."""
    programs = list(dump.programs.items())[:MOST_PROGRAMS]
    for done, (module, path) in enumerate(programs, 1):
        name = printable(path.name)
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                failures[name] = "no regular file"
            elif status.st_size > MOST_BYTES:
                failures[name] = f"{status.st_size} bytes, more than {MOST_BYTES}; give its own name to read it"
            else:
                listing = (list_copies if copies else list_arrays)(name, _read_text(path), lambda *_: None)
                yield {"module": module, "file": str(path), **listing.numbers}
        except OSError as error:
            failures[name] = error.strerror or str(error)
        except Failure as error:
            failures[name] = error.message.removeprefix(f"{name}: ")
        stage("programs read", done, len(programs))


def _print_folder(
    folder: Path,
    dump: Dump,
    programs: list[dict[str, Any]],
    failures: dict[str, str],
    most: int,
    totals: dict[str, str],
) -> None:
    total = len(dump.programs)
    click.echo(
        f"{printable(str(folder))}\n{counted(total, 'program')} in {counted(dump.entries, 'entry')}: of each "
        "module the text after optimizations, whose layouts are those that run"
    )
    if not dump.is_whole:
        click.echo(f"only the first {dump.entries} entries were looked at")
    if total > MOST_PROGRAMS:
        click.echo(f"only the first {MOST_PROGRAMS} programs were read")
    if dump.without:
        names = shortened([printable(name) for name in dump.without[:_MOST_NAMED]], len(dump.without))
        click.echo(f"no text after optimizations of {counted(len(dump.without), 'module')}: {', '.join(names)}")
    for name, why in list(failures.items())[:_MOST_NAMED]:
        click.echo(f"not read: {name}: {why}")
    if len(failures) > _MOST_NAMED:
        click.echo(f"not read: {len(failures) - _MOST_NAMED} more")
    rows = [
        [
            *(str(each[key]) for key in totals.values()),
            str(each["unread_lines"]["count"]),
            cell(Path(each["file"]).name),
        ]
        for each in programs[:most]
    ]
    print_columns([*totals, "unread_lines", "file"], rows, left=("file",), below=("file",))
    for note in more_rows(programs, most):
        click.echo(note)
    click.echo(f"for one of them: gpulayout show --hlo {printable(shlex.quote(programs[0]['file']))}")
