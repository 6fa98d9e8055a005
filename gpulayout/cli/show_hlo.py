"""`gpulayout show --hlo FILE|FOLDER`: what is listed of a program, or of all programs of a dump."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from gpulayout.cli import hlo_arrays, hlo_copies
from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.hlo_arrays import ArrayListing
from gpulayout.cli.hlo_copies import CopyListing
from gpulayout.cli.hlo_folder import Dump, DumpedProgram, find_dump, why_not_read
from gpulayout.cli.hlo_text import Stage, read_text
from gpulayout.cli.output import print_columns, print_json
from gpulayout.cli.progress import shown_progress
from gpulayout.files.standard_streams import File, input_name
from gpulayout.layout.checks import counted

SORTS = tuple(hlo_arrays.SORTS)
_MOST_NAMED = 3  # modules without a program, and files that are not read

Listing = ArrayListing | CopyListing


def show_hlo(file: File, *, copies: bool, sort: str, most: int, as_json: bool) -> None:
    """List the arrays or the copies of a program, in one order of `SORTS`; of a folder, the numbers of its programs."""
    if copies and sort not in hlo_copies.SORTS:
        raise click.UsageError(f"--copies sorts by {', '.join(hlo_copies.SORTS)}, not by {sort}")
    listed = hlo_copies.list_copies if copies else hlo_arrays.list_arrays
    if isinstance(file, Path) and _is_folder(file):
        return _show_folder(file, listed, sort, most, as_json)
    name = printable(input_name(file))
    with shown_progress(quiet=False, as_json=as_json) as shown:
        listing = listed(name, read_text(file), shown.stage)
    if as_json:
        return print_json({"file": str(file), **listing.as_json(sort)})
    listing.print(name, sort, most)


def _is_folder(file: Path) -> bool:
    try:
        return file.is_dir()
    except ValueError:  # a name with a null character
        return False


# ---- folders -------------------------------------------------------------------------------------------------


class ListedProgram(NamedTuple):
    """A program of a folder and the numbers of its listing."""

    program: DumpedProgram
    numbers: dict[str, Any]


# What the columns of a table of programs are called, and the numbers that they show
_ARRAY_NUMBERS = {"arrays": "count", "bytes": "nbytes", "padding": "padding_nbytes", "saving": "saving_nbytes"}
_COPY_NUMBERS = {"copies": "count", "bytes": "nbytes", "in_loops": "in_loops", "same_layout": "keeping_layout"}
_SORTS = {"bytes": "nbytes", "waste": "padding_nbytes", "saving": "saving_nbytes", "times": "count"}


def _show_folder(
    folder: Path, listed: Callable[[str, str, Stage], Listing], sort: str, most: int, as_json: bool
) -> None:
    """List the programs of a folder, each with the numbers that `listed` finds."""
    with shown_progress(quiet=False, as_json=as_json) as shown:
        dump = find_dump(folder)
        failures: dict[str, str] = {}
        programs = list(_programs(dump, listed, failures, shown.stage))
    if not programs:
        name, why = next(iter(failures.items()))
        raise Failure(f"{printable(str(folder))}: none of {counted(dump.total, 'program')} was read: {name}: {why}")
    if sort != "line":  # the order of the names
        programs.sort(key=lambda each: -each.numbers[_SORTS[sort]])
    if as_json:
        return print_json(
            {
                "folder": str(folder),
                "entries": dump.entries,
                "is_whole": dump.is_whole,
                "programs": (_as_json(each) for each in programs),
                "programs_left": dump.total - len(dump.programs),
                "without_program": dump.without,
                "not_read": failures,
            }
        )
    _print_folder(folder, dump, programs, failures, most)


def _programs(
    dump: Dump, listed: Callable[[str, str, Stage], Listing], failures: dict[str, str], stage: Stage
) -> Iterator[ListedProgram]:
    """The programs that can be read; of the others, `failures` says why not."""
    for done, program in enumerate(dump.programs, 1):
        name = printable(program.path.name)
        try:
            if why := why_not_read(program.path):
                failures[name] = why
            else:
                listing = listed(name, read_text(program.path), lambda *_: None)
                yield ListedProgram(program, listing.summary())
        except OSError as error:
            failures[name] = error.strerror or str(error)
        except Failure as error:
            failures[name] = error.message.removeprefix(f"{name}: ")
        stage("programs read", done, len(dump.programs))


def _as_json(each: ListedProgram) -> dict[str, Any]:
    return {"module": each.program.module, "file": str(each.program.path), **each.numbers}


def _print_folder(folder: Path, dump: Dump, programs: list[ListedProgram], failures: dict[str, str], most: int) -> None:
    click.echo(
        f"{printable(str(folder))}\n{counted(dump.total, 'program')} in {counted(dump.entries, 'entry')}: of each "
        "module the text after optimizations, whose layouts are those that run"
    )
    if not dump.is_whole:
        click.echo(f"only the first {dump.entries} entries were looked at")
    if dump.total > len(dump.programs):
        click.echo(f"only the first {len(dump.programs)} programs were read")
    if dump.without:
        click.echo(f"no text after optimizations of {counted(len(dump.without), 'module')}: {_named(dump.without)}")
    for name, why in list(failures.items())[:_MOST_NAMED]:
        click.echo(f"not read: {name}: {why}")
    if len(failures) > _MOST_NAMED:
        click.echo(f"not read: {len(failures) - _MOST_NAMED} more")
    numbers = _COPY_NUMBERS if "in_loops" in programs[0].numbers else _ARRAY_NUMBERS
    rows = [
        [
            *(str(each.numbers[key]) for key in numbers.values()),
            str(each.numbers["unread_lines"]["count"]),
            printable("_".join(each.program.path.name.split())),
        ]
        for each in programs[:most]
    ]
    print_columns([*numbers, "unread_lines", "file"], rows, left=("file",), below=("file",))
    if len(programs) > most:
        click.echo(f"and {len(programs) - most} more; --top {len(programs)} lists all")
    click.echo(f"for one of them: gpulayout show --hlo {printable(shlex.quote(str(programs[0].program.path)))}")


def _named(names: list[str]) -> str:
    more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*map(printable, names[:_MOST_NAMED]), *more])
