"""What `pack`, `unpack` and `relayout` share: a move from file to file, its options, and its report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.api.arithmetic import SIMPLE
from gpulayout.api.array_types import ArithmeticOptions
from gpulayout.cli.arguments import ARITHMETIC, FILE_NAME, MEMORY, Decorator
from gpulayout.cli.explain import pass_as_json, plan_as_json
from gpulayout.cli.failures import Failure, print_note, printable, type_errors_in_one_line
from gpulayout.cli.output import json_option, print_json, print_remark
from gpulayout.cli.progress import shown_progress
from gpulayout.cli.signals import says_what_is_missing
from gpulayout.files.elements import Elements, open_source
from gpulayout.files.memory import block_limit
from gpulayout.files.move import FilePlan, file_plan, move
from gpulayout.files.new_file import check_output
from gpulayout.files.route import Route, sensible_route
from gpulayout.files.standard_streams import File, check_standard_output_open, output_name
from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.shape import Shape

FILES: tuple[Decorator, ...] = (
    click.argument("source", metavar="IN.npy", type=FILE_NAME),
    click.argument("target", metavar="OUT.npy", type=FILE_NAME),
)


OPTIONS: tuple[Decorator, ...] = (
    *ARITHMETIC,
    click.option("--raw", is_flag=True, help="Buffers are plain bytes, whatever their names."),
    click.option("--overwrite", is_flag=True, help="Replace OUT.npy if it exists."),
    click.option(
        "--memory",
        metavar="SIZE",
        type=MEMORY,
        help="Such as 512M; by default a quarter of what is free.",
    ),
    click.option(
        "--scratch",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Allow two passes, through a scratch file there.",
    ),
    click.option("--dry-run", is_flag=True, help="Check and explain; write nothing."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing unless something is wrong."),
    json_option,
)


def files_and_options(*options: Decorator) -> Decorator:
    """Two files, the options of one command, and the options of a `FileMove`."""

    def decorate(command: Any) -> Any:
        for option in reversed((*FILES, *options, *OPTIONS)):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True)
class FileMove:
    """The files and options of one command.  `raw` is about buffers only."""

    source: File
    target: File
    dtype: ElementType | None
    scale: float | list[float] | None
    shift: float | list[float] | None
    divide: bool | None
    block: int | None
    raw: bool
    overwrite: bool
    memory: str | None
    scratch: Path | None
    dry_run: bool
    quiet: bool
    as_json: bool

    def run(self, from_: Shape | None, to: Shape | str | None, *, flat: bool = False) -> None:
        """Move a buffer of the shape `from_`, or else an N-d array, to a buffer of `to`, or else to an N-d array.

        A buffer is 1-D in the file if it is `flat`, or if a .npy file cannot say its layout.
        """
        if self.quiet and self.as_json:
            raise click.UsageError("give either --quiet or --json")
        check_output(self.target, self.source, overwrite=self.overwrite)
        self._check_report()
        with open_source(self.source, from_, raw=self.raw) as source:
            plan = self._plan(source, from_, to, flat)
            way = sensible_route(plan.relayout, self.memory, self.scratch)
            seconds = None if self.dry_run else self._execute(plan, way)
        if self.quiet:
            return
        try:
            self._report(plan, way, seconds)
        except OSError as error:
            if self.dry_run:
                raise
            raise Failure(
                f"{self.target}: the file is complete, but standard output failed: {error.strerror}"
            ) from error

    def _plan(self, source: Elements, from_: Shape | None, to: Shape | str | None, flat: bool) -> FilePlan:
        """What moves; a failure for element types that do not suit the arithmetic."""
        changes: ArithmeticOptions = {}
        for name in SIMPLE:
            if (value := getattr(self, name)) is not None:
                changes[name] = value  # type: ignore[literal-required]
        with type_errors_in_one_line():
            return file_plan(source, self.target, from_, to, raw=self.raw, flat=flat, **changes)

    def _execute(self, plan: FilePlan, way: Route) -> float:
        """Move the elements.  Returns seconds, with the time to write them to disk."""
        with (
            says_what_is_missing(self.target),
            shown_progress(quiet=self.quiet, as_json=self.as_json) as progress,
        ):
            return move(plan, self.target, way, progress, overwrite=self.overwrite, note=print_note)

    def _check_report(self) -> None:
        """Check that what was asked for can be printed, before anything is done."""
        if isinstance(self.target, Path) and (self.as_json or self.dry_run) and not self.quiet:
            check_standard_output_open()

    def _report(self, plan: FilePlan, way: Route, seconds: float | None) -> None:
        """Say what was done, on stderr when standard output has the elements."""
        aside = self.target == "-"
        if self.as_json:
            return print_json(self._as_json(plan, way, seconds), err=aside)
        text = "\n".join(self._lines(plan, way, seconds))
        if aside:
            click.echo(text, err=True)
        else:
            print_remark(text)

    def _as_json(self, plan: FilePlan, way: Route, seconds: float | None) -> dict[str, Any]:
        return {
            "input": str(self.source),
            "output": str(self.target),
            "output_dimensions": plan.header.dimensions,
            "output_order": "F" if plan.header.fortran_order else "C",
            "output_format": "plain bytes" if plan.plain else "npy",
            "dry_run": seconds is None,
            "seconds": seconds,
            "passes": [pass_as_json(blocks) for blocks in way.passes],
            "plan": plan_as_json(plan.relayout),
        }

    def _lines(self, plan: FilePlan, way: Route, seconds: float | None) -> list[str]:
        source, target = plan.relayout.source, plan.relayout.target
        name = output_name(self.target)
        lines = [
            f"{printable(plan.source.header.name)}  {source}  {counted(source.nbytes, 'byte')}",
            f"{printable(name)}  {target}  {counted(target.nbytes, 'byte')}, {_kind(plan)}",
        ]
        if seconds is None:
            explained = plan.relayout.explain(max_bytes=block_limit(self.memory))
            return [*lines, f"\n{explained}\n", *_passes(way), "dry run: nothing was written"]
        lines += [f"moved in {seconds:.2f} s, including the disk", *_passes(way)]
        if not plan.is_array and isinstance(self.target, Path):
            name = f"./{name}" if name.startswith("-") else name  # neither an option nor standard input
            back = ["gpulayout", "unpack", name, "BACK.npy", "--from", str(target), *["--raw"] * self.raw]
            lines.append(f"back to an N-d array:  {printable(shlex.join(back))}")
        return lines


def _kind(plan: FilePlan) -> str:
    """What the new file holds."""
    if plan.plain:
        return "plain bytes"
    return f"dimensions {plan.header.dimensions}{', Fortran order' if plan.header.fortran_order else ''}"


def _passes(way: Route) -> list[str]:
    """How the move was cut; nothing if it was not."""
    if way.scratch is None and len(way.passes[0]) < 2:
        return []
    return [
        f"{f'pass {number}' if way.scratch else 'one pass'} in {counted(len(blocks), 'block')} of at most "
        f"{counted(blocks.block_bytes, 'byte')}, runs of {counted(blocks.source_run_bytes, 'byte')} read and of "
        f"{counted(blocks.target_run_bytes, 'byte')} written"
        for number, blocks in enumerate(way.passes, 1)
    ]


def whole_shape(from_: Shape | str) -> Shape:
    """The value of --from; a usage error for a layout without a shape."""
    if isinstance(from_, str):
        raise click.UsageError(
            f"--from {clipped(from_, 60)!r} is only a layout: a buffer file does not store dimensions, so "
            "write the whole shape, such as 'f32[2,3]{0,1}'"
        )
    return from_
