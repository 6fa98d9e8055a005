"""`gpulayout demo`: a padded layout as a picture, then real arrays, checked against plain NumPy and timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from types import ModuleType

import click
import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from gpulayout.calls.packing import pack, unpack
from gpulayout.calls.relayout import relayout
from gpulayout.choices.backends import host_backend
from gpulayout.cli.backends import array_module, backends_here, medians_in_turns, on_host, print_verdict
from gpulayout.cli.output import glyphs, json_option, print_json, print_table
from gpulayout.cpu import native
from gpulayout.indices.indexing import delinearize, linearize
from gpulayout.layout.layout import Layout
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.pictures.figure import figure_of
from gpulayout.pictures.shape_text import draw_grid, draw_strip

NAMES = "abcdef"
# Shapes of the example, and what memory must hold, as XLA's document on shapes prints it.
PADDED = "u8[2,3]{0,1:PD(3,5)}"
EXAMPLE = {
    "u8[2,3]{1,0}": "abcdef",
    "u8[2,3]{0,1}": "adbecf",
    PADDED: "ad0be0cf0000000",
}
PITCH = 32  # elements of padding at the end of each row of the matrix


@dataclass(frozen=True)
class Sizes:
    """How much the demo moves."""

    picture: tuple[int, int, int]
    matrix: tuple[int, int]
    indices: int
    repeats: int


FULL = Sizes((3000, 4000, 3), (4096, 4096), 1 << 22, 7)
QUICK = Sizes((60, 80, 3), (128, 128), 1 << 12, 3)


@dataclass(frozen=True)
class Timing:
    """The result of one job on one backend.  Seconds are medians."""

    name: str
    backend: str
    equal: bool
    seconds: float
    bytes_per_second: float
    fraction_of_copy: float
    peer: str
    peer_seconds: float


@click.command(short_help="Draw a padded layout; move, check and time real arrays.")
@click.option("--quick", is_flag=True, help="Use small arrays, to check that everything works.  The times mean little.")
@json_option
def demo(quick: bool, as_json: bool) -> None:
    """Draw a padded layout.  Then relayout, pack and unpack real arrays, check the results and time them.

    Every result is compared with plain NumPy's; the exit code is 1 if one differs.  Times are medians, shown
    next to those of plain NumPy or CuPy code for the same work and of a plain copy of the same number of bytes.

    \b
    Examples:
      gpulayout demo
      gpulayout demo --quick
      gpulayout demo --json
    """
    backends, missing = backends_here()
    engine = native.engine()
    strips = {text: strip_of(text) for text in EXAMPLE}
    if not as_json:
        _print_example(strips)
    sizes = QUICK if quick else FULL
    timings = [timing for backend in backends for timing in _timings(backend, sizes)]
    ok = strips == EXAMPLE and all(timing.equal for timing in timings)
    if as_json:
        values = [asdict(timing) for timing in timings]
        print_json({"ok": ok, "example": strips, "engine": engine, "gpu_missing": missing, "timings": values})
    else:
        _print_timings(timings, sizes)
        click.echo(f"On the CPU: {engine}")
        click.echo(f"No GPU rows: {missing}" if missing else "On the GPU: cupy")
    if not ok:
        raise click.exceptions.Exit(1)


def strip_of(text: str) -> str:
    """The example packed in one layout; a zero byte prints as 0."""
    array = np.frombuffer(NAMES.encode(), np.uint8).reshape(2, 3)
    return "".join(chr(byte) if byte else "0" for byte in pack(array, text))


def _print_example(strips: dict[str, str]) -> None:
    click.echo("The array   a b c\n            d e f   in three layouts, as they lie in memory:\n")
    for text, strip in strips.items():
        layout = parse_array_shape(text).layout
        remark = "" if strip == EXAMPLE[text] else f"   WRONG: {' '.join(EXAMPLE[text])}"
        click.echo(f"  {layout!s:<14} {' '.join(strip)}{remark}")
    figure = figure_of(parse_array_shape(PADDED), elements=NAMES)
    click.echo("\nThe last one pads dimensions y and x from 2 x 3 to 3 x 5.  Every element with its linear index:\n")
    click.echo(draw_grid(figure, glyphs=glyphs()))
    click.echo("\nThe same in memory.  Padding is hatched.\n")
    click.echo(draw_strip(figure, pad="0", glyphs=glyphs()))


def _timings(backend: Backend, sizes: Sizes) -> list[Timing]:
    """All jobs on one backend, each checked against plain NumPy before it is timed."""
    if backend is host_backend():
        return [_timing(job, job, backend, sizes) for job in jobs(backend, sizes)]
    return [_timing(*pair, backend, sizes) for pair in zip(jobs(backend, sizes), jobs(host_backend(), sizes))]


def _timing(job: DemoJob, plain: DemoJob, backend: Backend, sizes: Sizes) -> Timing:
    xp = array_module(backend)
    equal = np.array_equal(on_host(job.run()), on_host(plain.peer()))
    copied = xp.ones(job.nbytes // 2, xp.uint8)
    copy = partial(xp.copyto, xp.zeros_like(copied), copied)
    seconds, peer, whole = medians_in_turns([job.run, job.peer, copy], xp, repeats=sizes.repeats)
    return Timing(job.name, backend.name, equal, seconds, job.nbytes / seconds, whole / seconds, job.peer_name, peer)


def _print_timings(timings: list[Timing], sizes: Sizes) -> None:
    pixels, matrix = (" x ".join(map(str, size)) for size in (sizes.picture, sizes.matrix))
    megabytes = 4 * math.prod(sizes.matrix) / 1e6
    click.echo(
        f"\nA picture of {pixels} bytes, a float32 matrix of {matrix} ({megabytes:.1f} MB), {sizes.indices} indices."
    )
    several = len({timing.backend for timing in timings}) > 1
    columns = ("gpulayout", *["on"] * several, "ms", "GB/s", "of copy", "plain code", "its ms", "check")
    cells: list[tuple[str | Text, ...]] = [
        (
            timing.name,
            *[timing.backend] * several,
            f"{timing.seconds * 1e3:.3g}",
            f"{timing.bytes_per_second / 1e9:.3g}",
            f"{timing.fraction_of_copy:.0%}",
            timing.peer,
            f"{timing.peer_seconds * 1e3:.3g}",
            Text("equal") if timing.equal else Text("DIFFERS", style="red"),
        )
        for timing in timings
    ]
    print_table(columns, cells, left=("gpulayout", "on", "plain code", "check"))
    print_verdict([timing.equal for timing in timings], "Every result equals plain NumPy's.", "plain NumPy's")
    click.echo("GB/s: bytes read and written.  of copy: speed against a plain copy of the same number of bytes.")


# ---- the work ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DemoJob:
    """One piece of work.

    run, peer   this library, and plain NumPy or CuPy code: each fills and returns its own array or tuple of rows
    nbytes      bytes read and written together
    """

    name: str
    peer_name: str
    run: Callable[[], AnyArray]
    peer: Callable[[], AnyArray]
    nbytes: int


def picture(dimensions: tuple[int, int, int]) -> NDArray[np.uint8]:
    """A picture, height x width x (red, green, blue): two ramps and a pattern."""
    height, width, _ = dimensions
    y, x = np.ogrid[:height, :width]
    pixels = np.empty(dimensions, np.uint8)
    pixels[..., 0] = y * 255 // height
    pixels[..., 1] = x * 255 // width
    pixels[..., 2] = (x ^ y) & 255
    return pixels


def jobs(backend: Backend, sizes: Sizes) -> Iterator[DemoJob]:
    """All jobs on one backend, made one at a time so that few arrays are alive."""

    def relayout_of(values: AnyArray, target: Shape) -> Callable[..., AnyArray]:
        return partial(relayout, values.reshape(-1), target.with_layout(None), target)

    xp = array_module(backend)
    pixels = backend.array(picture(sizes.picture), None)
    planes = Shape("u8", sizes.picture, Layout.from_major_to_minor((2, 0, 1)))
    yield _into_buffer("RGB to planes", relayout_of(pixels, planes), pixels, planes, xp)
    wide = (*sizes.picture[:2], 4)  # a fourth channel of padding that holds the highest u8, an opaque alpha
    rgba = Shape("u8", sizes.picture, Layout((2, 1, 0), padded_dimensions=wide, padding_value=PaddingValue.HIGHEST))
    yield _into_buffer("RGB to RGBA", relayout_of(pixels, rgba), pixels, rgba, xp, filler=255)
    rows, columns = sizes.matrix
    different = np.arange(rows * columns, dtype=np.float32)  # for up to 2^24 elements
    values = backend.array(different.reshape(rows, columns), None)
    transposed = Shape("f32", sizes.matrix, Layout.ascending(2))
    yield _into_buffer("rows to columns", relayout_of(values, transposed), values, transposed, xp)
    pitched = Shape("f32", sizes.matrix, Layout((1, 0), padded_dimensions=(rows, columns + PITCH)))
    yield _into_buffer("pack to a pitch", partial(pack, values, pitched), values, pitched, xp, filler=0)
    yield _from_padded_pitch(values, pitched, xp)
    yield from _index_jobs(Shape("u8", sizes.picture), sizes.indices, xp)


def _into_buffer(
    name: str,
    run: Callable[..., AnyArray],
    values: AnyArray,
    target: Shape,
    xp: ModuleType,
    *,
    filler: int | None = None,
) -> DemoJob:
    """A job that turns values into a buffer; if it pads, then at the end of the target's most minor dimension."""
    out, expected = (xp.empty(target.buffer_size, target.dtype) for _ in range(2))
    order = target.layout.major_to_minor
    wide, turned = expected.reshape([target.buffer_dimensions[dim] for dim in order]), values.transpose(order)
    width = turned.shape[-1]

    def peer() -> AnyArray:
        xp.copyto(wide[..., :width], turned)
        if filler is not None:
            wide[..., width:] = filler
        return expected

    peer_name = "copyto" if filler is None else "copyto, fill"
    return DemoJob(name, peer_name, partial(run, out=out), peer, values.nbytes + target.nbytes)


def _from_padded_pitch(values: AnyArray, pitched: Shape, xp: ModuleType) -> DemoJob:
    buffer, out, expected = pack(values, pitched), xp.empty_like(values), xp.empty_like(values)

    def peer() -> AnyArray:
        xp.copyto(expected, buffer.reshape(pitched.buffer_dimensions)[:, : values.shape[1]])
        return expected

    return DemoJob("unpack a pitch", "copyto", partial(unpack, buffer, pitched, out=out), peer, 2 * values.nbytes)


def _index_jobs(shape: Shape, count: int, xp: ModuleType) -> Iterator[DemoJob]:
    """Both directions, in row-major order without padding: the peers know no other."""
    # The step is coprime to the size: it visits distant places, and each once before any twice.
    places = xp.arange(count, dtype=xp.int64) * 1_000_003 % shape.element_count
    sizes, nbytes = shape.dimensions, places.nbytes * (1 + shape.rank)
    peer = partial(xp.unravel_index, places, sizes)
    yield DemoJob("delinearize", "unravel_index", partial(delinearize, places, shape), peer, nbytes)
    indices = delinearize(places, shape)
    peer = partial(xp.ravel_multi_index, tuple(indices), sizes, mode="raise")
    yield DemoJob("linearize", "ravel_multi_index", partial(linearize, indices, shape), peer, nbytes)
