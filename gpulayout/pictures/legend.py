"""The words of a picture: what stands above it, at its edges, and what its marks mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import byte_and_bit, is_big
from gpulayout.pictures.figure import Cell, Figure

_LONGEST_LIST, LONGEST_TITLE, _LONGEST_MARK = 100, 100, 6  # characters
_MOST_COORDINATES = 8  # of the index that pointing at a cell shows


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
    order = _listed([figure.labels[dim] for dim in shape.layout.minor_to_major], ", ")
    return [sizes, f"minor to major{', before tiles' * shape.is_tiled}: {order}"]


def panels_text(figure: Figure) -> str:
    """The sizes of the dimensions that number the panels; nothing without such dimensions."""
    outer = [size_text(figure, dim) for dim in range(figure.shape.rank - 2)] if figure.panels else []
    return f"panels: {_listed(outer, '; ')}" if outer else ""


def _listed(texts: list[str], separator: str) -> str:
    """The texts in one line, or as many as fit.

    >>> _listed(["d0", "d1"], ", "), _listed(["d" * 40] * 3, ", ")[-10:]
    ('d0, d1', 'ddddd, ...')
    """
    line = texts[0]
    for text in texts[1:]:
        if len(line + separator + text) > _LONGEST_LIST:
            return f"{line}{separator}..."
        line += separator + text
    return line


def size_text(figure: Figure, dim: int) -> str:
    """The size of a dimension, and that with padding: `x: 3, padded to 5`."""
    shape = figure.shape
    at_most = "at most " if shape.dynamic_dimensions[dim] else ""
    size, width = shape.dimensions[dim], figure.widths[dim]
    padded = f", padded to {width}" if width != size else ""
    fastest = ", fastest" if figure.fastest == dim else ""
    return f"{figure.labels[dim]}: {at_most}{size}{padded}{fastest}"


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
    if is_big(shape):
        marks.append(Mark("", "the first element of a byte is in its high bits"))
    if figure.has_numbers:
        marks.append(Mark("", "#n is element n in row-major order"))
    return marks


def padding_text(shape: Shape) -> str:
    """What fills padding, as a name and a number: `lowest (-inf)`."""
    value, number = shape.layout.padding_value, padding_number(shape)
    if value is None:
        return f"{number} (no value given)"
    if value is PaddingValue.UNKNOWN:
        return f"unknown ({number} is written)"
    return f"{value.text} ({number})" if isinstance(value, PaddingValue) else number


def padding_number(shape: Shape) -> str:
    """The number that fills padding."""
    value = shape.layout.padding_value
    if value is None or isinstance(value, PaddingValue):
        value = np.frombuffer(shape.padding_bytes, shape.dtype)[0].item()
    return str(value).removesuffix(".0").strip("()")


def padding_mark(shape: Shape, ellipsis: str = "…") -> str:
    """The number in a box for padding: its first characters if it is long."""
    return clipped(padding_number(shape), _LONGEST_MARK, ellipsis)


def shape_title(shape: Shape) -> str:
    """The shape's text, cut off where a picture would become too wide."""
    return clipped(str(shape), LONGEST_TITLE, "…")


def place_text(shape: Shape, place: int) -> str:
    """A place, its byte, and for packed elements the lowest bit in that byte.

    >>> from gpulayout import parse_shape
    >>> place_text(parse_shape("f32[2,3]"), 5), place_text(parse_shape("u4[9]{0:E(4)}"), 3)
    ('place 5, byte 20', 'place 3, byte 1 bit 4')
    """
    byte, bit = byte_and_bit(shape, place)
    return f"place {place}, byte {byte}" + (f" bit {bit}" if shape.is_packed else "")


def tip(figure: Figure, cell: Cell) -> str:
    """What pointing at a cell shows: its place, its byte, and its index."""
    shape = figure.shape
    where = place_text(shape, cell.place)
    if not cell.is_element:
        return f"padding, {where}"
    name = f"{cell.text}: " if figure.has_names else ""
    index = ",".join(map(str, cell.index[:_MOST_COORDINATES])) + (",..." if shape.rank > _MOST_COORDINATES else "")
    return f"{name}index ({index}), {where}"
