"""What `pack`, `unpack` and `relayout` share: a move from file to file, its options, and its report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.api.plan import Plan, plan
from gpulayout.cli.arguments import FILE_NAME
from gpulayout.cli.explain import plan_as_json
from gpulayout.cli.failures import Failure, print_note, printable
from gpulayout.cli.layout_names import LayoutName
from gpulayout.cli.output import json_option, print_json
from gpulayout.files.file_shapes import array_shape, buffer_shape
from gpulayout.files.new_file import check_output
from gpulayout.files.npy import NpyFile, new_npy, open_npy, open_raw
from gpulayout.files.standard_streams import File, output_name
from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

Decorator = Callable[[Any], Any]  # click's, which give back what they get

FILES: tuple[Decorator, ...] = (
    click.argument("source", metavar="IN.npy", type=FILE_NAME),
    click.argument("target", metavar="OUT.npy", type=FILE_NAME),
)
OPTIONS: tuple[Decorator, ...] = (
    click.option("--raw", is_flag=True, help="Buffers are plain bytes, without a .npy header."),
    click.option("--overwrite", is_flag=True, help="Replace OUT.npy if it exists."),
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
    """The files and options of one command.  `raw` is about 1-D buffers only; an N-d array is always a .npy file."""

    source: File
    target: File
    raw: bool
    overwrite: bool
    dry_run: bool
    quiet: bool
    as_json: bool

    def run(self, from_: Shape | None, to: Shape | Layout | LayoutName | None) -> None:
        """Move a buffer of the shape `from_`, or else an N-d array, to a buffer of `to`, or else to an N-d array."""
        if self.quiet and self.as_json:
            raise click.UsageError("give either --quiet or --json")
        check_output(self.target, self.source, overwrite=self.overwrite)
        file = self._opened(from_)
        if isinstance(to, LayoutName):
            to = to.of((from_ or file).dimensions)
        shape = array_shape(file, to) if from_ is None else buffer_shape(file, from_)
        target = shape.with_layout(to) if to is None or isinstance(to, Layout) else to
        is_array = to is None
        job = Job(file, plan(shape, target), shape.dimensions if is_array else (target.buffer_length,), is_array)
        seconds = None if self.dry_run else self._execute(job)
        if self.quiet:
            return
        try:
            self._report(job, seconds)
        except OSError as error:
            if self.dry_run:
                raise
            raise Failure(
                f"{self.target}: the file is complete, but standard output failed: {error.strerror}"
            ) from error

    def _opened(self, from_: Shape | None) -> NpyFile:
        """The source file."""
        if from_ is None or not self.raw:
            return open_npy(self.source)
        return open_raw(self.source, from_.buffer_dtype, from_.buffer_length, f"a buffer of {from_}")

    def _execute(self, job: Job) -> float:
        """Move the elements.  Returns seconds, with the time to write them to disk."""
        start = time.perf_counter()
        source, target = job.plan.source, job.plan.target
        dtype = target.buffer_dtype if target.is_packed else job.source.dtype
        raw = self.raw and not job.is_array
        with new_npy(self.target, dtype, job.dimensions, overwrite=self.overwrite, raw=raw, note=print_note) as result:
            job.plan(job.source.elements.view(source.buffer_dtype), out=result.view(target.buffer_dtype))
        return time.perf_counter() - start

    def _report(self, job: Job, seconds: float | None) -> None:
        """Say what was done, on stderr when standard output has the elements."""
        aside = self.target == "-"
        if self.as_json:
            print_json(self._as_json(job, seconds), err=aside)
        else:
            click.echo("\n".join(self._lines(job, seconds)), err=aside)

    def _as_json(self, job: Job, seconds: float | None) -> dict[str, Any]:
        return {
            "input": str(self.source),
            "output": str(self.target),
            "output_dimensions": job.dimensions,
            "dry_run": seconds is None,
            "seconds": seconds,
            "plan": plan_as_json(job.plan),
        }

    def _lines(self, job: Job, seconds: float | None) -> list[str]:
        source, target = job.plan.source, job.plan.target
        name = output_name(self.target)
        lines = [
            f"{printable(job.source.name)}  {source}  {counted(source.nbytes, 'byte')}",
            f"{printable(name)}  {target}  {counted(target.nbytes, 'byte')}, dimensions {job.dimensions}",
        ]
        if seconds is None:
            return [*lines, f"\n{job.plan.explain()}\n\ndry run: nothing was written"]
        lines.append(f"moved in {seconds:.2f} s, including the disk")
        if not job.is_array and isinstance(self.target, Path):
            name = f"./{name}" if name.startswith("-") else name  # neither an option nor standard input
            back = ["gpulayout", "unpack", name, "BACK.npy", "--from", str(target), *["--raw"] * self.raw]
            lines.append(f"back to an N-d array:  {printable(shlex.join(back))}")
        return lines


@dataclass(frozen=True)
class Job:
    """What is moved.  `dimensions` are those of the output, which is an N-d array or else a 1-D buffer."""

    source: NpyFile
    plan: Plan
    dimensions: tuple[int, ...]
    is_array: bool


def whole_shape(from_: Shape | Layout | LayoutName) -> Shape:
    """The value of --from; a usage error for a layout without a shape."""
    if isinstance(from_, (Layout, LayoutName)):
        raise click.UsageError(
            f"--from {clipped(str(from_), 60)!r} is only a layout: a buffer file does not store dimensions, so "
            "write the whole shape, such as 'f32[2,3]{0,1}'"
        )
    return from_
