"""`gpulayout relayout`: .npy files from one layout to another.

A file holds either an *array*, logical and N-d, in C or Fortran order, or a *buffer*, 1-D, in some layout.  An array is
a buffer too: descending in C order, ascending in Fortran order.  So packing, unpacking and relayout of files are all
one plan from a source shape to a target shape.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.api.relayout import Plan, plan
from gpulayout.cli.arguments import NAMED_FILE, SHAPE_OR_LAYOUT
from gpulayout.cli.explain import plan_as_json
from gpulayout.cli.failures import Failure, printable
from gpulayout.cli.files import NpyFile, new_npy, open_npy
from gpulayout.cli.new_file import check_output
from gpulayout.cli.output import clipped, json_option, print_json
from gpulayout.interop.layout_names import LayoutName
from gpulayout.layout.checks import counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


@dataclass(frozen=True)
class Job:
    """A move from file to file.  `dimensions` are those of the output file: one for a buffer."""

    source: NpyFile
    target: Path
    plan: Plan
    dimensions: tuple[int, ...]


@click.command(short_help="Move a .npy file from one layout to another.")
@click.argument("source_path", metavar="IN.npy", type=NAMED_FILE)
@click.argument("target_path", metavar="OUT.npy", type=NAMED_FILE)
@click.option("--to", "to", metavar="LAYOUT|SHAPE", type=SHAPE_OR_LAYOUT, help="Write a 1-D buffer in this layout.")
@click.option("--unpack", is_flag=True, help="Write an N-d array in C order; needs --from.")
@click.option(
    "--from",
    "from_",
    metavar="SHAPE",
    type=SHAPE_OR_LAYOUT,
    help="IN.npy is a 1-D buffer of this shape.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT.npy if it exists.")
@click.option("--dry-run", is_flag=True, help="Check and explain; write nothing.")
@json_option
def relayout(
    source_path: Path,
    target_path: Path,
    to: Shape | Layout | LayoutName | None,
    unpack: bool,
    from_: Shape | Layout | LayoutName | None,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move the elements of IN.npy to another layout, into OUT.npy.

    \b
      --to LAYOUT                N-d array  -> 1-D buffer    pack
      --from SHAPE --to LAYOUT   1-D buffer -> 1-D buffer    relayout
      --from SHAPE --unpack      1-D buffer -> N-d array     unpack

    A file with an N-d array has dimensions and an element type, so a LAYOUT such as {1,0,2} is enough; a SHAPE must
    agree with the file.  A file with a buffer has neither, so --from needs the whole SHAPE.

    --to also takes names: C, F, torch:channels_last, torch:channels_last_3d, cute:'(2,3):(1,2)'.

    NumPy has no name for bf16, f8... and stores them as V2, V1 or unsigned integers: name the type with a SHAPE.
    Packed elements, E(4), are bytes (uint8) in a buffer, and one uint8 each in an N-d array.

    OUT.npy appears complete or not at all, and replaces an existing file only with --overwrite.

    \b
    Examples:
      gpulayout relayout picture.npy planes.npy --to '{1,0,2}'
      gpulayout relayout matrix.npy columns.npy --to F
      gpulayout relayout picture.npy rgbx.npy --to '{2,1,0:PD(3000,4000,4)PV(highest)}'
      gpulayout relayout planes.npy again.npy --from 'u8[3000,4000,3]{1,0,2}' --unpack
      gpulayout relayout weights.npy tiles.npy --to 'bf16[512,256]{1,0:T(8,128)(2,1)}'
    """
    from_shape = _check_options(to, unpack, from_)
    source = open_npy(source_path)
    if isinstance(to, LayoutName):
        to = to.of((from_shape or source).dimensions)
    shape = _array_shape(source, to) if from_shape is None else _buffer_shape(source, from_shape)
    target = shape.with_layout(None) if to is None else _target_shape(shape, to)
    job = Job(source, target_path, plan(shape, target), shape.dimensions if unpack else (target.buffer_length,))
    check_output(target_path, source_path, overwrite=overwrite)
    seconds = None if dry_run else _execute(job, overwrite)
    try:
        if as_json:
            print_json(_as_json(job, seconds))
        else:
            _report(job, seconds)
    except OSError as error:
        if dry_run:
            raise
        raise Failure(f"{target_path}: the file is complete, but standard output failed: {error.strerror}") from error


def _check_options(to: object, unpack: bool, from_: Shape | Layout | LayoutName | None) -> Shape | None:
    """The shape of --from; a usage error for options that do not say what the files hold."""
    if unpack == (to is not None):
        raise click.UsageError("give either --to LAYOUT or --unpack, to say what OUT.npy will hold")
    if unpack and from_ is None:
        raise click.UsageError("--unpack needs --from SHAPE: a buffer file does not store dimensions")
    if isinstance(from_, (Layout, LayoutName)):
        raise click.UsageError(
            f"--from {clipped(str(from_), 60)!r} is only a layout: a buffer file does not store dimensions, so "
            "write the whole shape, such as 'f32[2,3]{0,1}'"
        )
    return from_


def _buffer_shape(source: NpyFile, shape: Shape) -> Shape:
    """The given shape, if the file holds such a buffer."""
    if not shape.is_packed:
        _check_element_type(source, shape)
    elif source.dtype != shape.buffer_dtype:
        raise Failure(
            f"{source.path}: its elements are {source.dtype.name}, but {shape} is packed, and its buffer is uint8"
        )
    if len(source.dimensions) != 1:
        raise Failure(
            f"{source.path}: it holds an array of dimensions {source.dimensions}, but --from is for a 1-D buffer; "
            "leave out --from to pack an N-d array"
        )
    if source.element_count != shape.buffer_length:
        unit = "byte" if shape.is_packed else "element"
        raise Failure(
            f"{source.path}: it has {counted(source.element_count, unit)}, but a buffer of {shape} has "
            f"{shape.buffer_length}"
        )
    return shape


def _array_shape(source: NpyFile, to: Shape | Layout | None) -> Shape:
    """The shape of an array file.  Its header has everything except the names of types that NumPy does not know."""
    layout = (Layout.ascending if source.fortran_order else Layout.descending)(len(source.dimensions))
    if isinstance(to, Shape):
        if to.dimensions != source.dimensions:
            raise Failure(
                f"{source.path}: it holds an array of dimensions {source.dimensions}, but --to {to} has "
                f"{to.dimensions}; if it is a buffer, give its shape with --from"
            )
        _check_element_type(source, to)
        return Shape(to.element_type, source.dimensions, layout)
    if isinstance(to, Layout) and len(source.dimensions) == 1 < to.rank:
        raise Failure(
            f"{source.path}: it holds an array of dimensions {source.dimensions}, but --to orders {to.rank} "
            "dimensions; if it is a buffer, give its shape with --from"
        )
    if source.dtype.kind == "V":
        sizes = ",".join(map(str, source.dimensions))
        raise Failure(
            f"{source.path}: its elements are opaque ({source.dtype.str}); name their type with a whole shape, such "
            f"as --to '{_likely_type(source, to)}[{sizes}]{to}'"
        )
    try:
        return Shape(source.dtype, source.dimensions, layout)
    except TypeError as error:
        raise Failure(f"{source.path}: {error}") from None


def _likely_type(source: NpyFile, layout: Layout | None) -> str:
    """A type for an example that opaque elements may have and the layout can store."""
    if layout is not None and layout.element_size_in_bits in (1, 2, 4):
        return f"s{layout.element_size_in_bits}"
    return "f8e4m3fn" if source.dtype.itemsize == 1 else "bf16"


def _target_shape(shape: Shape, to: Shape | Layout) -> Shape:
    return shape.with_layout(to) if isinstance(to, Layout) else to


def _check_element_type(source: NpyFile, shape: Shape) -> None:
    """Check that the file holds unpacked elements of the shape's type.

    A type that NumPy lacks is stored as opaque bytes or unsigned integers of its width.
    """
    element_type: ElementType = shape.element_type
    opaque = source.dtype.kind == "V" or (element_type.is_extended and source.dtype == element_type.carrier)
    if source.dtype == element_type.dtype or (opaque and source.dtype.itemsize == element_type.itemsize):
        return
    also = f" (or {element_type.carrier.name})" if element_type.is_extended else ""
    raise Failure(f"{source.path}: its elements are {source.dtype.name}, but {shape} needs {shape.dtype.name}{also}")


def _execute(job: Job, overwrite: bool) -> float:
    """Move the elements.  Returns seconds, with the time to write them to disk."""
    start = time.perf_counter()
    source, target = job.plan.source, job.plan.target
    dtype = target.buffer_dtype if target.is_packed else job.source.dtype
    with new_npy(job.target, dtype, job.dimensions, overwrite=overwrite) as result:
        job.plan(job.source.elements.view(source.buffer_dtype), out=result.view(target.buffer_dtype))
    return time.perf_counter() - start


def _as_json(job: Job, seconds: float | None) -> dict[str, Any]:
    return {
        "input": str(job.source.path),
        "output": str(job.target),
        "output_dimensions": job.dimensions,
        "dry_run": seconds is None,
        "seconds": seconds,
        "plan": plan_as_json(job.plan),
    }


def _report(job: Job, seconds: float | None) -> None:
    source, target = job.plan.source, job.plan.target
    click.echo(f"{printable(str(job.source.path))}  {source}  {counted(source.nbytes, 'byte')}")
    click.echo(f"{printable(str(job.target))}  {target}  {counted(target.nbytes, 'byte')}, dimensions {job.dimensions}")
    if seconds is None:
        click.echo(f"\n{job.plan.explain()}\n\ndry run: nothing was written")
        return
    click.echo(f"moved in {seconds:.2f} s, including the disk")
    if len(job.dimensions) == 1:
        name = str(job.target)
        name = f"./{name}" if name.startswith("-") else name  # neither an option nor standard input
        back = ["gpulayout", "relayout", name, "BACK.npy", "--from", str(target), "--unpack"]
        click.echo(f"back to an N-d array:  {printable(shlex.join(back))}")
