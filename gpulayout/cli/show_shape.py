"""What a shape means, in words, numbers and a picture: the output of `gpulayout show SHAPE`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.table import Table

from gpulayout.cli.output import drawing_width, glyphs, new_table, print_json, print_table
from gpulayout.cli.show_file import header_as_json, header_text
from gpulayout.files.npy import Header
from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big
from gpulayout.layout.tile import COMBINE
from gpulayout.pictures.figure import TERMINAL, figure_of
from gpulayout.pictures.legend import padding_text
from gpulayout.pictures.shape_text import draw_grid, draw_strip

MAX_DIMENSIONS = 16  # listed at most: a text may have thousands


def show_shape(shape: Shape, header: Header | None, labels: Sequence[str], as_json: bool) -> None:
    """Print what a shape means, with names for its dimensions; `header` is that of the file it was read from."""
    if as_json:
        print_json(shape_as_json(shape) | ({} if header is None else {"file": header_as_json(header)}))
        return
    facts = _facts(shape, labels)
    if header is not None:
        click.echo(clipped(header_text(header), 200))
    click.echo(f"{clipped(str(shape), 200)}\n")
    for name, value in facts:
        click.echo(f"{name:<13} {value}")
    if not shape.rank:
        return
    print_table(_dimension_table(shape, labels))
    _draw(shape, labels)


def _draw(shape: Shape, labels: Sequence[str]) -> None:
    """The grid and the strip of a shape, with a word on what they leave out."""
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
        "padding_count": _padding_count(shape),
        "padding_nbytes": shape.nbytes - shape.unpadded_nbytes,
    }


def _facts(shape: Shape, labels: Sequence[str]) -> list[tuple[str, str]]:
    dtype = shape.dtype.name
    packed = ", packed from the highest bits on" if is_big(shape) else ", packed"
    width = counted(shape.bits_per_element, "bit") + packed if shape.is_packed else counted(shape.itemsize, "byte")
    facts = [
        ("element type", f"{shape.element_type} ({dtype}), {width}"),
        ("order", _order(shape, labels)),
        *([("tiles", _tiles(shape))] if shape.is_tiled else []),
        ("elements", str(shape.element_count)),
        ("buffer", f"{counted(shape.buffer_size, 'place')}, {counted(shape.nbytes, 'byte')}"),
        *_labels(shape, labels),
    ]
    if not shape.is_padded:
        return [*facts, ("padding", "none")]
    wasted = _padding_count(shape)
    return [
        *facts,
        (
            "padding",
            f"{counted(wasted, 'place')}, {counted(shape.nbytes - shape.unpadded_nbytes, 'byte')}, "
            f"{wasted / max(shape.buffer_size, 1):.1%} of the buffer",
        ),
        ("pad value", f"{padding_text(shape)}, bytes {shape.padding_bytes.hex(' ')}"),
    ]


def _labels(shape: Shape, names: Sequence[str]) -> list[tuple[str, str]]:
    """Properties other than the places of the elements, and why no buffer can hold it, if none can."""
    facts = [
        (
            "dynamic sizes",
            _listed(
                [
                    f"{name} is at most {size}"
                    for name, size, dynamic in zip(names, shape.dimensions, shape.dynamic_dimensions)
                    if dynamic
                ],
                ", ",
            ),
        )
    ]
    facts += [("memory space", str(shape.layout.memory_space or ""))]
    try:
        shape.validate_layout()
    except LayoutError as error:
        facts.append(("never moved", clipped(str(error), 300)))
    return [(name, value) for name, value in facts if value]


def _order(shape: Shape, labels: Sequence[str]) -> str:
    if not shape.rank:
        return "a scalar has none"
    minor_first = _listed([labels[dim] for dim in shape.layout.minor_to_major], ", then ")
    if shape.rank == 1:
        return f"{labels[0]} is the only dimension"
    named = (
        " (descending, row-major)"
        if shape.layout.is_descending
        else " (ascending, column-major)"
        if shape.layout.is_ascending
        else ""
    )
    major_first = _listed([labels[dim] for dim in shape.layout.major_to_minor], ", ")
    before = "before tiles, " if shape.is_tiled else ""  # T(8,128)(2,1) makes y the fastest of {1,0}
    return f"{before}{minor_first.replace(',', ' varies fastest,', 1)}; major to minor: {major_first}{named}"


def _tiles(shape: Shape) -> str:
    texts = [str(size) for size in shape.physical_dimensions]
    return f"{clipped(''.join(map(str, shape.layout.tiles)), 100)}: memory is {_listed(texts, ' x ')} places"


def _dimension_table(shape: Shape, labels: Sequence[str]) -> Table:
    width = "width before tiles" if shape.is_tiled else "width in memory"
    table = new_table("dim", "name", "size", width, "stride", "byte stride", "minor position")
    strides = ["-"] * shape.rank if shape.is_tiled else shape.strides
    byte_strides = ["-"] * shape.rank if shape.is_tiled or shape.bits_per_element % 8 else shape.byte_strides
    order = shape.layout.minor_to_major[:MAX_DIMENSIONS] if shape.rank > MAX_DIMENSIONS else range(shape.rank)
    for dim in order:
        table.add_row(
            str(dim),
            labels[dim],
            str(shape.dimensions[dim]),
            str(shape.buffer_dimensions[dim]),
            str(strides[dim]),
            str(byte_strides[dim]),
            str(shape.layout.minor_to_major.index(dim)),
        )
    if shape.rank > MAX_DIMENSIONS:
        table.caption = f"the {MAX_DIMENSIONS} most minor of {shape.rank} dimensions"
    return table


def _padding_count(shape: Shape) -> int:
    return shape.buffer_size - shape.element_count


def _listed(names: list[str], separator: str) -> str:
    """Names with a separator between them; only the first of very many."""
    if len(names) <= MAX_DIMENSIONS:
        return separator.join(names)
    return separator.join(names[:MAX_DIMENSIONS]) + f"{separator}... ({len(names)} in all)"
