"""Pictures of a layout as text: the logical array as a grid of places, and memory as a strip of elements.

A *place* is a position in the buffer, counted in elements.  Padding is hatched.  The grid of f32[2,3]{0,1:PD(3,5)}:

      x  0   1   2   3   4
       ┌───┬───┬───┬───┬───┐
    y 0│  0│  3│  6│░░9│░12│
      1│  1│  4│  7│░10│░13│
      2│░░2│░░5│░░8│░11│░14│
       └───┴───┴───┴───┴───┘

Coordinates run to the end of the last tile: f32[3,3]{1,0:T(2,2)} has 4 rows and 4 columns.  Padding without
coordinates, such as that of the tail, appears only in the strip.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.layout.digits import widths_in_tiles
from gpulayout.layout.dimension_labels import dimension_labels
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table

WIDTH = 88  # columns of a drawing


class Charset(NamedTuple):
    """The characters of a drawing.  `top` and `bottom` each give the left corner, the joint and the right corner."""

    line: str
    wall: str
    top: str
    bottom: str
    hatch: str
    ellipsis: str


UNICODE = Charset("─", "│", "┌┬┐", "└┴┘", "░", "…")
ASCII = Charset("-", "|", "+++", "+++", "/", "~")


class Extent(NamedTuple):
    """Limits on the planes, rows and columns that are drawn."""

    planes: int
    rows: int
    columns: int


WHOLE = Extent(6, 16, 16)
CORNER = Extent(1, 4, 6)
WHOLE_PLACES, CORNER_PLACES = 64, 8
MAX_RANK = 8  # an index of more coordinates is too long for a box


def is_small(shape: Shape) -> bool:
    """True when the whole shape is drawn, False when only a corner is, with ellipses."""
    *planes, rows, columns = (1, 1, *_widths(shape))
    return (
        shape.buffer_size <= WHOLE_PLACES
        and math.prod(planes) <= WHOLE.planes
        and rows <= WHOLE.rows
        and columns <= WHOLE.columns
    )


def is_all_in_grid(shape: Shape) -> bool:
    """True when every place has coordinates, also the padding."""
    return math.prod(_widths(shape)) == shape.buffer_size


def draw_grid(shape: Shape, *, names: Sequence[str] = (), chars: Charset = UNICODE) -> str:
    """The logical array as boxes that hold places; above rank 2, one grid per plane.

    names   names of the elements, in row-major logical order
    """
    if not _is_drawable(shape):
        return _reason_for_no_drawing(shape)
    limit = WHOLE if is_small(shape) else CORNER
    # product() makes a tuple of every range, so cut a dimension of billions to what is drawn.
    ranges = [range(min(width, limit.planes + 1)) for width in _widths(shape)[:-2]]
    planes = list(itertools.islice(itertools.product(*ranges), limit.planes + 1))
    labels = dimension_labels(shape.rank)
    lines = []
    for plane in planes[: limit.planes]:
        if plane:
            lines.append(" ".join(f"{label}={coordinate}" for label, coordinate in zip(labels, plane)))
        lines += _plane(shape, plane, limit, names, chars)
    if len(planes) > limit.planes:
        lines.append(chars.ellipsis)
    return "\n".join(lines)


def draw_strip(shape: Shape, *, names: Sequence[str] = (), pad: str = "", chars: Charset = UNICODE) -> str:
    """Memory from place 0 on: the name or index of the element in every place, or hatched padding.

    pad   text in padding boxes
    """
    if not _is_drawable(shape):
        return _reason_for_no_drawing(shape)
    shown = shape.buffer_size if is_small(shape) else min(shape.buffer_size, CORNER_PLACES)
    table = stride_table(shape)
    texts = [_name(shape, table.index_of(place), names) if table.is_element(place) else None for place in range(shown)]
    numbers = [str(place) for place in range(shown)]
    if shown < shape.buffer_size:
        numbers.append(chars.ellipsis)
        texts.append(chars.ellipsis)
    width = max([len(text) for text in (*numbers, *texts, pad) if text is not None])
    boxes = [pad.rjust(width, chars.hatch) if text is None else text.center(width) for text in texts]
    per_line = max((WIDTH - len("place") - 1) // (width + 1), 1)
    lines = []
    for start in range(0, len(boxes), per_line):
        part = slice(start, start + per_line)
        lines.append("place " + " ".join(number.rjust(width) for number in numbers[part]))
        lines += ["     " + line for line in _boxes([boxes[part]], chars)]
    return "\n".join(lines)


def _widths(shape: Shape) -> tuple[int, ...]:
    """The coordinates along each dimension, to the end of the last tile."""
    return widths_in_tiles(shape.buffer_dimensions, shape.layout.major_to_minor, shape.layout.tiles)


def _is_drawable(shape: Shape) -> bool:
    return shape.buffer_size > 0 and shape.rank <= MAX_RANK


def _reason_for_no_drawing(shape: Shape) -> str:
    return "(no places)" if not shape.buffer_size else f"(not drawn: {shape.rank} dimensions, the limit is {MAX_RANK})"


def _plane(shape: Shape, plane: tuple[int, ...], limit: Extent, names: Sequence[str], chars: Charset) -> list[str]:
    """One grid: the last two dimensions, at fixed coordinates of the others."""
    rank = shape.rank
    labels = ("", "", *dimension_labels(rank))[-2:]
    height, width = (1, 1, *_widths(shape))[-2:]
    cell_width = len(str(shape.buffer_size - 1)) + 1 + max(map(len, names), default=0)
    gutter = len(f"{labels[0]} {min(height, limit.rows)}") if rank > 1 else len(labels[1])
    fitting = (WIDTH - gutter - 1) // (cell_width + 1)
    rows = _shown(height, limit.rows)
    columns = _shown(width, limit.columns if min(width, limit.columns) < fitting else fitting - 1)

    def cell(row: int | None, column: int | None) -> str:
        if row is None or column is None:
            return chars.ellipsis.center(cell_width)
        return _cell(shape, (*plane, row, column)[-rank:] if rank else (), cell_width, names, chars)

    header = labels[1].rjust(gutter) + " " + " ".join(_coordinate(c, chars).rjust(cell_width) for c in columns)
    top, *body, bottom = _boxes([[cell(row, column) for column in columns] for row in rows], chars)
    sides = [_coordinate(row, chars).rjust(gutter) if rank > 1 else " " * gutter for row in rows]
    sides[0] = labels[0] + sides[0][len(labels[0]) :]
    blank = " " * gutter
    lines = [blank + top, *(side + line for side, line in zip(sides, body)), blank + bottom]
    return [header, *lines] if rank else lines


def _cell(shape: Shape, index: tuple[int, ...], width: int, names: Sequence[str], chars: Charset) -> str:
    """The name and place of an element, or the hatched place of padding."""
    place = str(stride_table(shape).linear_of(index))
    if not _is_element(shape, index):
        return place.rjust(width, chars.hatch)
    name = _name(shape, index, names) if names else ""
    return name + place.rjust(width - len(name))


def _boxes(rows: Sequence[Sequence[str]], chars: Charset) -> list[str]:
    """Texts of equal width in boxes: a top line, a line per row, a bottom line."""

    def border(corners: str) -> str:
        return corners[0] + corners[1].join(chars.line * len(text) for text in rows[0]) + corners[2]

    body = [chars.wall + chars.wall.join(row) + chars.wall for row in rows]
    return [border(chars.top), *body, border(chars.bottom)]


def _shown(extent: int, limit: int) -> list[int | None]:
    """The coordinates to draw; None stands for those left out."""
    return list(range(extent)) if extent <= limit else [*range(limit), None]


def _coordinate(value: int | None, chars: Charset) -> str:
    return chars.ellipsis if value is None else str(value)


def _is_element(shape: Shape, index: Sequence[int]) -> bool:
    return all(i < size for i, size in zip(index, shape.dimensions))


def _name(shape: Shape, index: Sequence[int], names: Sequence[str]) -> str:
    """The name of an element, or its index; () for a scalar."""
    if not names:
        return ",".join(map(str, index)) or "()"
    number = 0
    for coordinate, size in zip(index, shape.dimensions):
        number = number * size + coordinate
    return names[number]
