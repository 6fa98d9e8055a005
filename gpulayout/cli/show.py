"""`gpulayout show`: what a shape means, the same as a page or as code, or the shapes of a whole program."""

from __future__ import annotations

from typing import get_args

import click

from gpulayout.api.code import Language, code
from gpulayout.cli.arguments import FILE_NAME, SHAPE_OR_FILE, names_for, names_option
from gpulayout.cli.output import json_option
from gpulayout.cli.page_file import html_option, overwrite_option, write_page
from gpulayout.cli.show_file import read_shape
from gpulayout.cli.show_hlo import SORTS, show_hlo
from gpulayout.cli.show_shape import shape_as_json, show_shape
from gpulayout.files.standard_streams import File
from gpulayout.layout.dimension_labels import named_dimensions
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape


@click.command(short_help="Show order, strides, bytes and padding, with a picture.")
@click.argument("given", metavar="[SHAPE|FILE.npy]", type=SHAPE_OR_FILE, required=False)
@names_option
@html_option
@overwrite_option
@click.option("--code", "language", type=click.Choice(get_args(Language)), help="Print functions that find elements.")
@click.option("--name", metavar="NAME", help="With --code: what the code is called (layout).")
@click.option("--hlo", "program", metavar="FILE", type=FILE_NAME, help="List the arrays in a program's text.")
@click.option(
    "--sort",
    metavar="KEY",
    type=click.Choice(list(SORTS)),
    help="With --hlo: bytes (the default), waste, saving, times, line.",
)
@click.option("--top", "most", metavar="N", type=click.IntRange(1), help="With --hlo: rows to print (20).")
@json_option
def show(
    given: Shape | File | None,
    names: str | None,
    html: File | None,
    overwrite: bool,
    language: Language | None,
    name: str | None,
    program: File | None,
    sort: str | None,
    most: int | None,
    as_json: bool,
) -> None:
    """Show what SHAPE means: order, strides, bytes, padding, and a picture.

    The grid shows the logical array, with the place of each element in memory.  The strip shows memory, with the index
    of the element in each place.  Padding is hatched, tiles have heavy borders.  Large shapes are cut to corners and
    edges of tiles.  FILE.npy stands for the shape of its array; only its header is read.

    --html FILE writes the picture as a page: point at an element or at a place, and the other lights up.  --code prints
    source text for kernels: offset(i0, i1, ...), index(linear, ...) and the sizes.

    --hlo FILE lists the arrays that a compiled program's instructions produce: how often each occurs, how much is
    padding, and the order of dimensions that needs the fewest bytes.  Results inside fusions count, though they may
    never be in memory.  --sort waste begins with the most padding, --sort saving with what better orders save.

    \b
    Examples:
      gpulayout show 'f32[2,3]{0,1:PD(3,5)PV(lowest)}'
      gpulayout show 'u8[3000,4000,3]{1,0,2}' --json
      gpulayout show picture.npy
      gpulayout show 'bf16[40,300]{1,0:T(8,128)}' --html tiles.html
      gpulayout show 'f32[16,256]{1,0:T(8,128)}' --code cuda --name tiles
      gpulayout show --hlo compiled.txt --sort waste
    """
    if (given is None) == (program is None):
        raise click.UsageError("give either a SHAPE, a FILE.npy or --hlo FILE")
    one_shape = "a SHAPE or a FILE.npy"
    for option, value, needed, found in (
        ("--top", most, "--hlo FILE", program),
        ("--sort", sort, "--hlo FILE", program),
        ("--name", name, "--code", language),
        ("--code", language, one_shape, given),
        ("--html", html, one_shape, given),
        ("--names", names, one_shape, given),
        ("--overwrite", overwrite or None, "--html FILE", html),
    ):
        if value is not None and found is None:
            raise click.UsageError(f"{option} needs {needed}")
    if sum(map(bool, (language, html, as_json))) > 1:
        raise click.UsageError("give one of --code, --html and --json")
    if program is not None:
        return show_hlo(program, sort or "bytes", most or 20, as_json)
    assert given is not None
    shape, header = (given, None) if isinstance(given, Shape) else read_shape(given)
    labels = named_dimensions(names_for(shape, names), shape.rank, shape)
    if language:
        click.echo(_code(shape, language, name), nl=False)
    elif html:
        write_page(shape, shape_as_json(shape), html, names=labels, overwrite=overwrite)
    else:
        show_shape(shape, header, labels, as_json)


def _code(shape: Shape, language: Language, name: str | None) -> str:
    try:
        return code(shape, language, name=name or "layout")
    except LayoutError:
        raise
    except ValueError as error:  # of the name
        raise click.UsageError(str(error)) from None
