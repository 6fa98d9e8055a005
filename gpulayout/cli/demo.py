"""`gpulayout demo`: a padded layout as a picture, then real arrays, checked against plain NumPy and timed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click
import numpy as np

from gpulayout.api.backends import host_backend
from gpulayout.api.packing import pack
from gpulayout.cli.backends import array_module, backends_here, on_host
from gpulayout.cli.demo_jobs import FULL, QUICK, DemoJob, Sizes, jobs
from gpulayout.cli.output import glyphs, json_option, new_table, print_json, print_table
from gpulayout.cli.timing import copy_seconds, median_seconds
from gpulayout.cpu import native
from gpulayout.layout.text import parse_array_shape
from gpulayout.moves.backend import Backend
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
    timings = [timing for backend in backends for timing in _timings(backend, QUICK if quick else FULL)]
    ok = strips == EXAMPLE and all(timing.equal for timing in timings)
    if as_json:
        print_json(
            {
                "ok": ok,
                "example": strips,
                "engine": engine,
                "gpu_missing": missing,
                "timings": [asdict(timing) for timing in timings],
            }
        )
    else:
        _print_timings(timings, QUICK if quick else FULL)
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
    xp = array_module(backend)
    here = jobs(backend, xp, sizes)
    if xp is np:
        return [_timing(job, job, backend, sizes) for job in here]
    return [_timing(job, plain, backend, sizes) for job, plain in zip(here, jobs(host_backend(), np, sizes))]


def _timing(job: DemoJob, plain: DemoJob, backend: Backend, sizes: Sizes) -> Timing:
    xp = array_module(backend)
    equal = np.array_equal(on_host(job.run()), on_host(plain.peer()))
    seconds = median_seconds(job.run, xp, repeats=sizes.repeats)
    copy = copy_seconds(job.nbytes, xp, repeats=sizes.repeats)
    return Timing(
        job.name,
        backend.name,
        equal,
        seconds,
        job.nbytes / seconds,
        copy / seconds,
        job.peer_name,
        median_seconds(job.peer, xp, repeats=sizes.repeats),
    )


def _print_timings(timings: list[Timing], sizes: Sizes) -> None:
    height, width, channels = sizes.picture
    rows, columns = sizes.matrix
    click.echo(
        f"\nA picture of {height} x {width} x {channels} bytes, a float32 matrix of {rows} x {columns} "
        f"({4 * rows * columns / 1e6:.1f} MB), {sizes.indices} indices."
    )
    several = len({timing.backend for timing in timings}) > 1
    headers = ["gpulayout", *["on"] * several, "ms", "GB/s", "of copy", "plain code", "its ms", "check"]
    table = new_table(*headers, left=("gpulayout", "on", "plain code", "check"))
    for timing in timings:
        table.add_row(
            timing.name,
            *[timing.backend] * several,
            f"{timing.seconds * 1e3:.3g}",
            f"{timing.bytes_per_second / 1e9:.3g}",
            f"{timing.fraction_of_copy:.0%}",
            timing.peer,
            f"{timing.peer_seconds * 1e3:.3g}",
            "equal" if timing.equal else "[red]DIFFERS[/red]",
        )
    print_table(table)
    wrong = sum(not timing.equal for timing in timings)
    click.echo(
        "Every result equals plain NumPy's."
        if not wrong
        else f"{wrong} of {len(timings)} results differ from plain NumPy's."
    )
    click.echo("GB/s: bytes read and written.  of copy: speed against a plain copy of the same number of bytes.")
