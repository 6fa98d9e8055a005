"""The words of a picture: what stands above it, at its edges, and what its marks mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulayout.layout.checks import counted
from gpulayout.layout.padding import PaddingValue, value_text
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import Cell, Figure

_MOST_LISTED = 8  # dimensions


class Mark(NamedTuple):
    """A line of the legend; `kind` is "padding", "color", the class of a line, or "" for text alone."""

    kind: str
    text: str


def facts(figure: Figure) -> list[str]:
    """How large the array is, and the order of its dimensions in memory."""
    shape = figure.shape
    if figure.reason and figure.reason != "no places":
        return []
    padding = shape.buffer_size - shape.element_count
    sizes = f"{counted(shape.element_count, 'element')} in {counted(shape.buffer_size, 'place')}, "
    sizes += counted(shape.nbytes, "byte")
    if padding:
        sizes += f"; {padding / shape.buffer_size:.1%} is padding"
    if shape.rank < 2:
        return [sizes]
    order = [figure.labels[dim] for dim in shape.layout.minor_to_major]
    more = f", ... ({shape.rank} dimensions)" if shape.rank > _MOST_LISTED else ""
    facts = [sizes, f"minor to major: {', '.join(order[:_MOST_LISTED])}{more}"]
    if shape.rank > 2 and figure.panels:
        outer = [size_text(figure, dim) for dim in range(shape.rank - 2)]
        more = ", ..." if len(outer) > _MOST_LISTED else ""
        facts.append(f"one panel per {'; '.join(outer[:_MOST_LISTED])}{more}")
    return facts


def size_text(figure: Figure, dim: int) -> str:
    """The size of a dimension, and that with padding: `x: 3, padded to 5`."""
    shape = figure.shape
    at_most = "at most " if shape.dynamic_dimensions[dim] else ""
    size, width = shape.dimensions[dim], figure.widths[dim]
    padded = f", padded to {width}" if width != size else ""
    fastest = ", fastest" if figure.fastest == dim else ""
    return f"{figure.labels[dim]}: {at_most}{size}{padded}{fastest}"


def size_texts(figure: Figure) -> tuple[str, list[str]]:
    """The size of the last dimension in one line, and that of the one before it in several; empty without them."""
    rank = figure.shape.rank
    return (
        size_text(figure, rank - 1) if rank else "",
        size_text(figure, rank - 2).split(", ") if rank > 1 else [],
    )


def panel_text(figure: Figure, index: tuple[int, ...]) -> str:
    """The coordinates of a panel; of many dimensions only those that are not 0.

    The panel (0, 5) of an array zyx... is `p=0, z=5`.
    """
    pairs = [f"{label}={coordinate}" for label, coordinate in zip(figure.labels, index)]
    if len(pairs) <= 3:
        return ", ".join(pairs)
    some = [pair for pair, coordinate in zip(pairs, index) if coordinate]
    if not some:
        return "all 0"
    if len(some) > 3:
        return f"{', '.join(some[:2])}, ..., {some[-1]}"
    return ", ".join(some) + (", the rest 0" if len(some) < len(pairs) else "")


def legend(figure: Figure) -> list[Mark]:
    """The meaning of every mark that the picture has."""
    shape, marks = figure.shape, []
    if shape.is_padded:
        marks.append(Mark("padding", f"padding: {padding_text(shape)}"))
    for level, block in enumerate(figure.blocks[:2], 1):
        marks.append(Mark(f"gl-tile{level}", f"tile of {counted(block, 'place')}"))
    if figure.color_length < shape.buffer_size:
        is_tile = figure.color_length in figure.blocks
        marks.append(Mark("color", f"one colour: {'a tile' if is_tile else f'{figure.color_length} places in a row'}"))
    if figure.has_numbers:
        marks.append(Mark("", "#n is element n in row-major order"))
    return marks


def padding_text(shape: Shape) -> str:
    """What fills padding, as a name and a number: `lowest (-inf)`."""
    value, number = shape.layout.padding_value, padding_number(shape, 60)
    if value is None:
        return f"{number} (no value given)"
    if value is PaddingValue.UNKNOWN:
        return f"unknown ({number} is written)"
    return f"{value.text} ({number})" if isinstance(value, PaddingValue) else value_text(value)


def padding_number(shape: Shape, most: int = 6) -> str:
    """The number that fills padding, cut off after `most` characters."""
    text = str(np.frombuffer(shape.padding_bytes, shape.dtype)[0].item())
    text = text.removesuffix(".0").strip("()")
    return text if len(text) <= most else text[: most - 1] + "…"


def tip(figure: Figure, cell: Cell) -> str:
    """What pointing at a cell shows: its place, its byte, and its index."""
    shape = figure.shape
    bits = cell.place * shape.bits_per_element
    where = f"place {cell.place}, byte {bits // 8}" + (f" bit {bits % 8}" if shape.is_packed else "")
    if not cell.is_element:
        return f"padding, {where}"
    name = f"{cell.text}: " if figure.has_names else ""
    index = ",".join(map(str, cell.index[:_MOST_LISTED])) + (",..." if shape.rank > _MOST_LISTED else "")
    return f"{name}index ({index}), {where}"
