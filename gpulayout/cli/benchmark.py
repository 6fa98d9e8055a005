"""`gpulayout benchmark linearize`: index conversion on the GPU, natively and by NumPy, beside NumPy's or CuPy's own.

NumPy says order and padding when it gets the rows of an index from major to minor and the widths in memory:
f32[2,3]{0,1:PD(3,5)} holds (1, 2) at ravel_multi_index((2, 1), (5, 3)) = 7.  It has no words for tiles.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from gpulayout.choices.backends import gpu_versions, host_backend
from gpulayout.cli.arguments import read_shape
from gpulayout.cli.backends import array_module, backends_here, medians_in_turns, on_host, print_verdict
from gpulayout.cli.failures import Failure
from gpulayout.cli.output import aligned, json_option, print_json
from gpulayout.cpu import native
from gpulayout.cpu.threads import thread_count
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.run import CudaBackend
from gpulayout.indices.index_conversion import conversion
from gpulayout.indices.indexing import delinearize, linearize
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.move import MAX_AXES

# Row-major, NHWC, padded columns, the tiles of a TPU.
SHAPES = (
    "f32[4096,4096]{1,0}",
    "f32[64,64,56,56]{1,3,2,0}",
    "f32[1000,300,50]{0,1,2:PD(1024,300,50)}",
    "bf16[2000,3000]{1,0:T(8,128)(2,1)}",
)
COUNT, REPEATS = 1 << 21, 7
Call = Callable[[], Any]
Indices = NDArray[np.int64]
STEP = 1_000_003  # a prime: consecutive indices are far apart


@click.group(short_help="Time index conversion on the GPU and the CPU.")
def benchmark() -> None:
    """Time this library on this machine.

    \b
    Examples:
      gpulayout benchmark linearize
      gpulayout benchmark linearize --help
    """


@benchmark.command("linearize", short_help="Index conversion: GPU beside CPU, and beside NumPy.")
@click.argument("shapes", metavar="[SHAPE]...", type=read_shape, nargs=-1)
@click.option(
    "--count", metavar="N", type=click.IntRange(1), default=COUNT, show_default=True, help="Indices in each array."
)
@json_option
def benchmark_linearize(shapes: tuple[Shape, ...], count: int, as_json: bool) -> None:
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
        machine = {"platform": platform.platform(), "numpy": np.__version__, "threads": thread_count()}
        reasons = {"gpu_missing": missing, "native_missing": native.missing() or None}
        values = [asdict(row) for row in rows]
        print_json({"ok": ok, "count": count, "machine": machine | gpu_versions(), **reasons, "rows": values})
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
    equal, calls = job.is_equal(), list(job.calls.values())
    seconds = dict(zip(job.calls, medians_in_turns(calls, array_module(backend), repeats=REPEATS)))
    return Row(str(shape), job.name, name, equal, **seconds)


def _print_rows(rows: list[Row], count: int, missing: str | None) -> None:
    click.echo(f"{count} indices (int64) in each array.  Milliseconds, medians of {REPEATS} calls.\n")
    for line in table_lines(rows, with_gpu=not missing):
        click.echo(line)
    click.echo()
    all_right = "Every result equals NumPy's; for tiles, which NumPy lacks, delinearize undoes linearize."
    print_verdict([row.equal for row in rows], all_right, "the expected indices")
    if reason := native.missing():
        click.echo(f"No native rows: {reason}")
    if missing:
        click.echo(f"No GPU rows: {missing}")


# ---- the work ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexJob:
    """One conversion of an index array on one backend: the right result, and calls that each do all of it, by name.

    warm      checks every index and writes into `out`; a pass that only checks comes first, so that an index out of
              bounds leaves `out` as it was
    fresh     checks every index and makes a new array, as most people call it
    plain     what NumPy or CuPy does for `fresh`; not for tiles
    kernel    on a GPU, the one launch of `fresh` alone, into `out`: it is not waited for
    to_gpu    copies the indices to the GPU, into memory made before
    from_gpu  copies `out` back
    """

    name: str
    out: AnyArray
    expected: Indices
    calls: dict[str, Call]

    def is_equal(self) -> bool:
        """True when every call gives the expected indices."""
        for name, call in self.calls.items():
            if name == "to_gpu":
                continue
            if name != "from_gpu":  # which copies what the kernel has left
                self.out.fill(-1)  # or a call that writes nothing would leave the last one's result
            if not np.array_equal(on_host(call()), self.expected):
                return False
        return True


def index_arrays(shape: Shape, count: int) -> tuple[Indices, Indices]:
    """`count` logical indices of a shape, (rank, count), and their linear indices, (count,)."""
    if not shape.rank or not shape.element_count:
        raise Failure(f"{shape} has no {'elements' if shape.rank else 'dimensions'}, so it has no indices to convert")
    numbers = np.arange(count, dtype=np.int64) % shape.element_count * STEP % shape.element_count
    logical = delinearize(numbers, shape.with_layout(None))
    return logical, linearize(logical, shape)


def jobs(backend: Backend, shape: Shape, logical: Indices, linear: Indices) -> Iterator[IndexJob]:
    """Both directions on one backend."""
    for name, convert, indices, expected in (
        ("linearize", linearize, logical, linear),
        ("delinearize", delinearize, linear, logical),
    ):
        source, out = (backend.empty(array.shape, array.dtype) for array in (indices, expected))
        calls: dict[str, Call] = {
            "warm": partial(convert, source, shape, out=out),
            "fresh": partial(convert, source, shape),
        }
        if plain := _plain(name, backend, shape, source):
            calls["plain"] = plain
        if isinstance(backend, CudaBackend):
            calls["kernel"] = _kernel(name, backend, shape, source, out)
            calls["to_gpu"] = partial(source.set, indices)
            calls["from_gpu"] = partial(out.get, out=np.empty_like(expected))
            source.set(indices)
        else:
            np.copyto(source, indices)
        yield IndexJob(name, out, expected, calls)


def _kernel(name: str, backend: CudaBackend, shape: Shape, source: AnyArray, out: AnyArray) -> Call:
    """The launch of a conversion that checks its indices.  The flag for the first bad one is never read."""
    program, runtime = conversion(name, shape).program, backend.runtime
    source_address, device = runtime.locate(source)
    out_address, _ = runtime.locate(out)
    count = out.size if name == "linearize" else source.size
    launch = index_launch(program, count, "raise", (8, True), 8)
    start = runtime.prepare(device, launch)
    flag, flag_address = runtime.new_flag(device)

    def kernel() -> AnyArray:
        start(source_address, out_address, flag_address)
        return out

    kernel.__dict__["flag"] = flag  # keeps its memory
    return kernel


def _plain(name: str, backend: Backend, shape: Shape, source: AnyArray) -> Call | None:
    """The call of NumPy or CuPy that gives the same; its rows are put into our order, which copies nothing."""
    if shape.is_tiled or shape.rank > MAX_AXES:
        return None
    xp = array_module(backend)
    major_to_minor = shape.layout.major_to_minor
    widths = tuple(shape.buffer_dimensions[dim] for dim in major_to_minor)
    if name == "linearize":
        rows = tuple(source[dim] for dim in major_to_minor)
        return partial(xp.ravel_multi_index, rows, widths, mode="raise")

    def unravel() -> tuple[AnyArray, ...]:
        rows = xp.unravel_index(source, widths)
        return tuple(rows[major_to_minor.index(dim)] for dim in range(shape.rank))

    return unravel


# ---- the table -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Median seconds of the calls of an `IndexJob`; None for a call that it does not have.

    backend   "native" or "numpy", both on the CPU, or "cupy"
    """

    shape: str
    name: str
    backend: str
    equal: bool
    warm: float
    fresh: float
    plain: float | None = None
    kernel: float | None = None
    to_gpu: float | None = None
    from_gpu: float | None = None


LABELS = {"native": "native", "numpy": "NumPy", "cupy": "GPU"}
CPU = ("native", "numpy")
# The two lines of each heading, and the text below it for a row and the CPU's row for the same work.
Column = tuple[str, str, Callable[[Row, Row], str]]
COLUMNS: tuple[Column, ...] = (
    ("", "out=", lambda row, cpu: _ms(row.warm)),
    ("", "new", lambda row, cpu: _ms(row.fresh)),
    ("", "plain", lambda row, cpu: _ms(row.plain)),
    ("plain/", "new", lambda row, cpu: _ratio(row.plain, row.fresh)),
)
GPU_COLUMNS: tuple[Column, ...] = (
    ("", "kernel", lambda row, cpu: _ms(row.kernel)),
    ("to", "GPU", lambda row, cpu: _ms(row.to_gpu)),
    ("from", "GPU", lambda row, cpu: _ms(row.from_gpu)),
    ("CPU/", "GPU", lambda row, cpu: _ratio(None if row.backend in CPU else cpu.fresh, row.fresh)),
    (
        "with",
        "copies",
        lambda row, cpu: _ratio(
            None if row.backend in CPU else cpu.fresh, (row.to_gpu or 0) + row.fresh + (row.from_gpu or 0)
        ),
    ),
)


def table_lines(rows: Sequence[Row], *, with_gpu: bool) -> Iterator[str]:
    """The lines of the table."""
    columns = COLUMNS + GPU_COLUMNS * with_gpu
    order = [row for name in ("numpy", "native") for row in rows if row.backend == name]
    on_cpu = {(row.shape, row.name): row for row in order}  # by the engine if there is one
    table = [["", "", *(f"  {row.name:11}  {LABELS[row.backend]:6}" for row in rows)]]
    for above, name, text in columns:
        table.append([name, above, *(text(row, on_cpu[row.shape, row.name]) for row in rows)])
    head, above, *lines = aligned(table, left=("",))
    yield from (above, head, "-" * len(head))
    for shape, group in itertools.groupby(zip(rows, lines), key=lambda pair: pair[0].shape):
        yield shape
        yield from (line + ("" if row.equal else "  DIFFERS") for row, line in group)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def _ratio(slow: float | None, fast: float) -> str:
    if slow is None:
        return "-"
    return f"{slow / fast:.2g}" if slow < 10 * fast else f"{slow / fast:.0f}"
