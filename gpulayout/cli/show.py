"""`gpulayout show`: what a shape means, in words, numbers and a picture; as a page or as code.

What it lists of a whole program stands in `show_hlo`, and of a model in `show_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from gpulayout.cli import show_hlo, show_model
from gpulayout.cli.arguments import FILE_NAME, names_for, names_option, read_shape_or_file, shape_of_file
from gpulayout.cli.failures import printable
from gpulayout.cli.output import (
    drawing_width,
    glyphs,
    html_option,
    json_option,
    overwrite_option,
    print_json,
    print_table,
    write_page,
)
from gpulayout.codegen.code import Language, code
from gpulayout.files.checkpoints.opening import is_checkpoint
from gpulayout.files.npy import Header
from gpulayout.files.standard_streams import File
from gpulayout.layout.checks import clipped, counted, inverse
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.patterns import named_dimensions
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big
from gpulayout.layout.tile import COMBINE
from gpulayout.pictures.figure import PAGE, TERMINAL, figure_of
from gpulayout.pictures.legend import padding_text
from gpulayout.pictures.page import page
from gpulayout.pictures.shape_text import draw_grid, draw_strip

MAX_DIMENSIONS = 16  # listed at most: a text may have thousands


@click.command(short_help="Show order, strides, bytes and padding, with a picture; or what is in a model.")
@click.argument("subject", metavar="[SHAPE|FILE]", type=read_shape_or_file, required=False)
@names_option
@html_option
@overwrite_option
@click.option("--code", "language", type=click.Choice(get_args(Language)), help="Print functions that find elements.")
@click.option("--name", metavar="NAME", help="With --code: what the code is called (layout).")
@click.option("--hlo", "program", metavar="FILE|FOLDER", type=FILE_NAME, help="List a program's arrays.")
@click.option("--copies", is_flag=True, help="With --hlo: list what it copies instead.")
@click.option(
    "--sort",
    metavar="KEY",
    type=click.Choice([*dict.fromkeys((*show_hlo.SORTS, *show_model.SORTS))]),
    help="Programs: bytes (default), waste, saving, times, line; models: name (default), bytes.",
)
@click.option(
    "--top",
    "most",
    metavar="N",
    type=click.IntRange(1),
    help=f"Rows to print ({show_hlo.MOST_ROWS} of a program, {show_model.MOST_ROWS} of a model).",
)
@json_option
def show(
    subject: Shape | File | None,
    names: str | None,
    html: File | None,
    overwrite: bool,
    language: Language | None,
    name: str | None,
    program: File | None,
    copies: bool,
    sort: str | None,
    most: int | None,
    as_json: bool,
) -> None:
    """Show what SHAPE means: order, strides, bytes, padding, and a picture.

    The grid shows the logical array, with the place of each element in memory.  The strip shows memory, with the index
    of the element in each place.  Padding is hatched, tiles have heavy borders.

    Of a model, model.safetensors, model.gguf or the .safetensors.index.json of its shards, all tensors are listed,
    alike ones in a row.

    --html FILE writes the picture as a page that answers the pointer.  --code prints source text for kernels.

    --hlo lists the arrays in a program's text, in XLA's reports of memory (OOM), or of each program that --xla_dump_to
    wrote into FOLDER: how often each occurs, its padding, and the order of dimensions that needs the fewest bytes.
    With --copies, the copies and transposes that move bytes.

    \b
    Examples:
      gpulayout show 'f32[2,3]{0,1:PD(3,5)PV(lowest)}'
      gpulayout show model.safetensors --sort bytes
      gpulayout show 'bf16[40,300]{1,0:T(8,128)}' --html tiles.html
      gpulayout show 'f32[16,256]{1,0:T(8,128)}' --code cuda --name tiles
      gpulayout show --hlo compiled.txt --sort waste
    """
    model = subject if isinstance(subject, Path) and is_checkpoint(subject) else None
    _check_suits(model is not None, click.get_current_context().params)
    if model is not None:
        return show_model.show_model(model, sort=sort, most=most, as_json=as_json)
    if program is not None:
        return show_hlo.show_hlo(program, copies=copies, sort=sort, most=most, as_json=as_json)
    assert subject is not None
    shape, header = (subject, None) if isinstance(subject, Shape) else shape_of_file(subject)
    labels = named_dimensions(names_for(shape, names), shape.rank, shape)
    if language:
        click.echo(_code(shape, language, name), nl=False)
    elif html:
        figure = figure_of(shape, names=labels, room=PAGE)
        write_page(page(figure, shape_as_json(shape)), str(shape), html, overwrite=overwrite)
    elif as_json:
        print_json(shape_as_json(shape) | ({} if header is None else {"file": _header_as_json(header)}))
    else:
        _print(shape, header, labels)


def _check_suits(is_model: bool, given: Mapping[str, Any]) -> None:
    """A usage error for options that say nothing about what is shown, or that contradict each other."""
    subject, program = given["subject"], given["program"]
    if (subject is None) == (program is None):
        raise click.UsageError("give either a SHAPE, a FILE.npy, a model or --hlo FILE")
    shape = None if is_model else subject
    for option, value, needed, needed_value in (
        ("--top", given["most"], "--hlo FILE, or a model", program or is_model or None),
        ("--sort", given["sort"], "--hlo FILE, or a model", program or is_model or None),
        ("--copies", given["copies"] or None, "--hlo FILE", program),
        ("--name", given["name"], "--code", given["language"]),
        ("--code", given["language"], "a SHAPE or a FILE.npy", shape),
        ("--html", given["html"], "a SHAPE or a FILE.npy", shape),
        ("--names", given["names"], "a SHAPE or a FILE.npy", shape),
        ("--overwrite", given["overwrite"] or None, "--html FILE", given["html"]),
    ):
        if value is not None and needed_value is None:
            raise click.UsageError(f"{option} needs {needed}")
    sorts = show_model.SORTS if is_model else show_hlo.SORTS
    if given["sort"] not in (None, *sorts):
        what = "a model" if is_model else "--hlo FILE"
        keys = f"{', '.join(sorts[:-1])} or {sorts[-1]}"
        raise click.UsageError(f"--sort {given['sort']} does not suit {what}, which is sorted by {keys}")
    if sum(map(bool, (given["language"], given["html"], given["as_json"]))) > 1:
        raise click.UsageError("give one of --code, --html and --json")


def _code(shape: Shape, language: Language, name: str | None) -> str:
    try:
        return code(shape, language, name=name or "layout")
    except LayoutError:
        raise
    except ValueError as error:  # of the name
        raise click.UsageError(str(error)) from None


def _print(shape: Shape, header: Header | None, labels: Sequence[str]) -> None:
    """Print what a shape means, with names for its dimensions; `header` is that of the file it was read from."""
    facts = _facts(shape, labels)
    if header is not None:
        order = "Fortran" if header.fortran_order else "C"
        text = f"{printable(header.name)}: {header.dtype.str}, dimensions {header.dimensions}, {order} order"
        click.echo(clipped(text, 200))
    click.echo(f"{clipped(str(shape), 200)}\n")
    for name, value in facts:
        click.echo(f"{name:<13} {value}")
    if not shape.rank:
        return
    _print_dimensions(shape, labels)
    chars, width = glyphs(), drawing_width()
    figure = figure_of(shape, names=labels, room=TERMINAL._replace(width=width))
    below = "" if figure.is_all_in_grid else ", and some of it appears only in memory below"
    what = "every element" if figure.is_whole else "elements at corners and edges"
    click.echo(f"Place of {what}; padding is hatched{below}:\n")
    click.echo(draw_grid(figure, glyphs=chars, width=width))
    click.echo("\nMemory, with the index of the element in every place:\n")
    click.echo(draw_strip(figure, glyphs=chars, width=width))


def shape_as_json(shape: Shape) -> dict[str, Any]:
    """A shape and what follows from it, as plain values."""
    layout = shape.layout
    value = layout.padding_value
    return {
        "shape": str(shape),
        "element_type": shape.element_type.value,
        "itemsize": shape.itemsize,
        "dimensions": shape.dimensions,
        "rank": shape.rank,
        "true_rank": shape.true_rank,
        "minor_to_major": layout.minor_to_major,
        "major_to_minor": layout.major_to_minor,
        "padded_dimensions": layout.padded_dimensions,
        "padding_value": value.text if isinstance(value, PaddingValue) else None if value is None else str(value),
        "padding_value_bytes": shape.padding_bytes.hex(),
        "tiles": [[str(size) if size is COMBINE else size for size in tile] for tile in layout.tiles],
        "tail_padding_alignment": layout.tail_padding_alignment,
        "bits_per_element": shape.bits_per_element,
        "bit_order": layout.bit_order,
        "physical_dimensions": shape.physical_dimensions,
        "strides": None if shape.is_tiled else shape.strides,
        "byte_strides": None if shape.is_tiled or shape.bits_per_element % 8 else shape.byte_strides,
        "element_count": shape.element_count,
        "buffer_size": shape.buffer_size,
        "nbytes": shape.nbytes,
        "padding_count": shape.buffer_size - shape.element_count,
        "padding_nbytes": shape.nbytes - shape.unpadded_nbytes,
    }


def _header_as_json(header: Header) -> dict[str, Any]:
    values = {name: getattr(header, name) for name in ("name", "dtype", "dimensions", "fortran_order")}
    return values | {"dtype": header.dtype.str}


def _facts(shape: Shape, labels: Sequence[str]) -> list[tuple[str, str]]:
    """What is said of a shape, in lines; nothing of what it does not have."""
    packed = ", packed from the highest bits on" if is_big(shape) else ", packed"
    width = counted(shape.bits_per_element, "bit") + packed if shape.is_packed else counted(shape.itemsize, "byte")
    sizes = zip(labels, shape.dimensions, shape.dynamic_dimensions)
    padding, padding_bytes = shape.buffer_size - shape.element_count, shape.nbytes - shape.unpadded_nbytes
    wasted = f"{counted(padding, 'place')}, {counted(padding_bytes, 'byte')}, {padding / max(shape.buffer_size, 1):.1%}"
    tiles = clipped("".join(map(str, shape.layout.tiles)), 100)
    physical = _listed([str(size) for size in shape.physical_dimensions], " x ")
    never_moved = ""
    try:
        shape.validate_layout()
    except LayoutError as error:
        never_moved = clipped(str(error), 300)
    facts = [
        ("element type", f"{shape.element_type} ({shape.dtype.name}), {width}"),
        ("order", _order(shape, labels)),
        ("tiles", f"{tiles}: memory is {physical} places" if shape.is_tiled else ""),
        ("elements", str(shape.element_count)),
        ("buffer", f"{counted(shape.buffer_size, 'place')}, {counted(shape.nbytes, 'byte')}"),
        ("dynamic sizes", _listed([f"{label} is at most {size}" for label, size, dynamic in sizes if dynamic], ", ")),
        ("memory space", str(shape.layout.memory_space or "")),
        ("never moved", never_moved),
        ("padding", f"{wasted} of the buffer" if shape.is_padded else "none"),
        ("pad value", f"{padding_text(shape)}, bytes {shape.padding_bytes.hex(' ')}" if shape.is_padded else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _order(shape: Shape, labels: Sequence[str]) -> str:
    if not shape.rank:
        return "a scalar has none"
    minor_first = _listed([labels[dim] for dim in shape.layout.minor_to_major], ", then ")
    if shape.rank == 1:
        return f"{labels[0]} is the only dimension"
    descending, ascending = shape.layout.is_descending, shape.layout.is_ascending
    named = " (descending, row-major)" if descending else " (ascending, column-major)" if ascending else ""
    major_first = _listed([labels[dim] for dim in shape.layout.major_to_minor], ", ")
    before = "before tiles, " if shape.is_tiled else ""  # T(8,128)(2,1) makes y the fastest of {1,0}
    return f"{before}{minor_first.replace(',', ' varies fastest,', 1)}; major to minor: {major_first}{named}"


def _print_dimensions(shape: Shape, labels: Sequence[str]) -> None:
    """A row for each dimension, or for the most minor ones of very many."""
    width = "width before tiles" if shape.is_tiled else "width in memory"
    columns = ("dim", "name", "size", width, "stride", "byte stride", "minor position")
    strides = ["-"] * shape.rank if shape.is_tiled else shape.strides
    byte_strides = ["-"] * shape.rank if shape.is_tiled or shape.bits_per_element % 8 else shape.byte_strides
    order, caption = shape.layout.minor_to_major, None
    dims: Sequence[int] = range(shape.rank)
    numbers = (shape.dimensions, shape.buffer_dimensions, strides, byte_strides, inverse(order))
    if shape.rank > MAX_DIMENSIONS:
        dims, caption = order[:MAX_DIMENSIONS], f"the {MAX_DIMENSIONS} most minor of {shape.rank} dimensions"
    rows = [(str(dim), labels[dim], *(str(values[dim]) for values in numbers)) for dim in dims]
    print_table(columns, rows, caption=caption)


def _listed(names: list[str], separator: str) -> str:
    """Names with a separator between them; only the first of very many."""
    if len(names) <= MAX_DIMENSIONS:
        return separator.join(names)
    return separator.join(names[:MAX_DIMENSIONS]) + f"{separator}... ({len(names)} in all)"
