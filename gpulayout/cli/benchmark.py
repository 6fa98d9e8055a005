"""`gpulayout benchmark linearize`: index conversion on the GPU, natively and by NumPy, beside NumPy's or CuPy's own."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict

import click
import numpy as np

from gpulayout.api.backends import gpu_versions, host_backend
from gpulayout.cli.arguments import SHAPE
from gpulayout.cli.backends import array_module, backends_here
from gpulayout.cli.benchmark_table import Row, table_lines
from gpulayout.cli.index_jobs import IndexJob, index_arrays, jobs
from gpulayout.cli.output import json_option, print_json
from gpulayout.cli.timing import medians_in_turns
from gpulayout.cpu import native
from gpulayout.cpu.threads import thread_count
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.moves.backend import Backend

# Row-major, NHWC, padded columns, the tiles of a TPU.
SHAPES = (
    "f32[4096,4096]{1,0}",
    "f32[64,64,56,56]{1,3,2,0}",
    "f32[1000,300,50]{0,1,2:PD(1024,300,50)}",
    "bf16[2000,3000]{1,0:T(8,128)(2,1)}",
)
COUNT, REPEATS = 1 << 21, 7


@click.group(short_help="Time index conversion on the GPU and the CPU.")
def benchmark() -> None:
    """Time this library on this machine.

    \b
    Examples:
      gpulayout benchmark linearize
      gpulayout benchmark linearize --help
    """


@benchmark.command(short_help="Index conversion: GPU beside CPU, and beside NumPy.")
@click.argument("shapes", metavar="[SHAPE]...", type=SHAPE, nargs=-1)
@click.option(
    "--count", metavar="N", type=click.IntRange(1), default=COUNT, show_default=True, help="Indices in each array."
)
@json_option
def linearize(shapes: tuple[Shape, ...], count: int, as_json: bool) -> None:
    """Time linearize and delinearize for whole arrays of indices: on the GPU, by the native engine, and by NumPy.

    Results are compared first; the exit code is 1 if one differs.  Times are medians of calls that take turns, on a GPU
    by CUDA events.  Without SHAPE: row-major, NHWC, padded and tiled shapes.

    \b
    Columns, in milliseconds:
      out=              into an array made before; a first pass checks the indices
      new               into a new array
      plain             new, by ravel_multi_index or unravel_index of NumPy or CuPy
      plain/new         above 1, this library is faster
      kernel            the GPU's launch alone; out= and new wait for its check
      to GPU, from GPU  copies of the indices and of the result
      CPU/GPU           new on the CPU, natively where that is possible, over new on the GPU
      with copies       the same, with both copies added to the GPU's time

    \b
    Examples:
      gpulayout benchmark linearize
      gpulayout benchmark linearize 'f32[1000,1000]{0,1}' --count 100000
      gpulayout benchmark linearize --json
    """
    backends, missing = backends_here()
    chosen = dict.fromkeys(shapes or map(parse_array_shape, SHAPES))
    rows = [row for shape in chosen for row in _rows(shape, count, backends)]
    ok = all(row.equal for row in rows)
    if as_json:
        values = [asdict(row) for row in rows]
        reasons = {"gpu_missing": missing, "native_missing": native.missing() or None}
        print_json({"ok": ok, "count": count, "machine": _machine(), **reasons, "rows": values})
    else:
        _print_rows(rows, count, missing)
    if not ok:
        raise click.exceptions.Exit(1)


def _rows(shape: Shape, count: int, backends: list[Backend]) -> Iterator[Row]:
    """The rows of one shape, each direction on all backends; on the CPU natively and by NumPy."""
    logical, linear = index_arrays(shape, count)
    for same in zip(*(jobs(backend, shape, logical, linear) for backend in backends)):
        for backend, job in zip(backends, same):
            is_cpu = backend is host_backend()
            if not is_cpu or native.module() is not None:
                yield _row(job, backend, shape, "native" if is_cpu else backend.name)
            if is_cpu:
                with native.chosen(False):
                    yield _row(job, backend, shape, "numpy")


def _row(job: IndexJob, backend: Backend, shape: Shape, name: str) -> Row:
    """The median times of a job, after a check of its results."""
    equal, calls = job.is_equal(), job.calls()
    seconds = dict(zip(calls, medians_in_turns(list(calls.values()), array_module(backend), repeats=REPEATS)))
    return Row(str(shape), job.name, name, equal, **seconds)


def _machine() -> dict[str, object]:
    return {"platform": platform.platform(), "numpy": np.__version__, "threads": thread_count(), **gpu_versions()}


def _print_rows(rows: list[Row], count: int, missing: str | None) -> None:
    click.echo(f"{count} indices (int64) in each array.  Milliseconds, medians of {REPEATS} calls.\n")
    for line in table_lines(rows, with_gpu=not missing):
        click.echo(line)
    wrong = sum(not row.equal for row in rows)
    click.echo(
        "\nEvery result equals NumPy's; for tiles, which NumPy lacks, delinearize undoes linearize."
        if not wrong
        else f"\n{wrong} of {len(rows)} results differ from the expected indices."
    )
    if reason := native.missing():
        click.echo(f"No native rows: {reason}")
    if missing:
        click.echo(f"No GPU rows: {missing}")
