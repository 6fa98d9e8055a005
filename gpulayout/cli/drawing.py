"""Pictures of a layout as text: the logical array as a grid of places, and memory as a strip of elements.

A *place* is a position in the buffer, counted in elements.  Padding is hatched.  f32[2,3]{0,1:PD(3,5)} as a grid:

      x  0   1   2   3   4
       ┌───┬───┬───┬───┬───┐
    y 0│  0│  3│  6│░░9│░12│
      1│  1│  4│  7│░10│░13│
      2│░░2│░░5│░░8│░11│░14│
       └───┴───┴───┴───┴───┘

The coordinates go on to the end of the last tile: f32[3,3]{1,0:T(2,2)} has 4 rows and columns.  Padding that has no
coordinates, such as that of the tail, is seen in memory alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.api.explain import dimension_labels
from gpulayout.layout.digits import widths_in_tiles
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table

WIDTH = 88  # columns a drawing may take


class Charset(NamedTuple):
    """The characters of a drawing; each corner string is left, between, right."""

    line: str
    wall: str
    top: str
    bottom: str
    hatch: str
    ellipsis: str


UNICODE = Charset("─", "│", "┌┬┐", "└┴┘", "░", "…")
ASCII = Charset("-", "|", "+++", "+++", "/", "~")


class Extent(NamedTuple):
    """The most coordinates that are drawn of planes, rows and columns."""

    planes: int
    rows: int
    columns: int


WHOLE = Extent(6, 16, 16)
CORNER = Extent(1, 4, 6)
WHOLE_PLACES, CORNER_PLACES = 64, 8
MAX_RANK = 8  # above it an index is too long for a box


def is_small(shape: Shape) -> bool:
    """True when the whole shape is drawn; else it is a corner with ellipses."""
    *planes, rows, columns = (1, 1, *_widths(shape))
    return (
        shape.buffer_size <= WHOLE_PLACES
        and math.prod(planes) <= WHOLE.planes
        and rows <= WHOLE.rows
        and columns <= WHOLE.columns
    )


def is_all_in_grid(shape: Shape) -> bool:
    """True when every place has coordinates, padding too."""
    return math.prod(_widths(shape)) == shape.buffer_size


def draw_grid(shape: Shape, *, names: Sequence[str] = (), chars: Charset = UNICODE) -> str:
    """The logical array, one box per element or padding, with the place of each; a grid per plane above rank 2.

    names   what the elements are called, in row-major logical order
    """
    if not _is_drawable(shape):
        return _reason_for_no_drawing(shape)
    limit = WHOLE if is_small(shape) else CORNER
    # product() makes a tuple of every range, so a dimension of billions is cut to what can be drawn.
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
    """Memory from place 0 on: what every place holds, an element's name or its index, or hatched padding.

    pad   what stands in a padding box
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
    """How far each coordinate goes: to the end of the last tile."""
    return widths_in_tiles(shape.buffer_dimensions, shape.layout.major_to_minor, shape.layout.tiles)


def _is_drawable(shape: Shape) -> bool:
    return shape.buffer_size > 0 and shape.rank <= MAX_RANK


def _reason_for_no_drawing(shape: Shape) -> str:
    return "(no places)" if not shape.buffer_size else f"(not drawn: {shape.rank} dimensions are more than {MAX_RANK})"


def _plane(shape: Shape, plane: tuple[int, ...], limit: Extent, names: Sequence[str], chars: Charset) -> list[str]:
    """One grid: the last two dimensions at fixed coordinates of the others."""
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
    """An element's name and place, or the place of padding, hatched."""
    place = str(stride_table(shape).linear_of(index))
    if not _is_element(shape, index):
        return place.rjust(width, chars.hatch)
    name = _name(shape, index, names) if names else ""
    return name + place.rjust(width - len(name))


def _boxes(rows: Sequence[Sequence[str]], chars: Charset) -> list[str]:
    """Texts of one width, in boxes: a top line, a line per row, a bottom line."""

    def border(corners: str) -> str:
        return corners[0] + corners[1].join(chars.line * len(text) for text in rows[0]) + corners[2]

    body = [chars.wall + chars.wall.join(row) + chars.wall for row in rows]
    return [border(chars.top), *body, border(chars.bottom)]


def _shown(extent: int, limit: int) -> list[int | None]:
    """The coordinates that are drawn; None stands for those that are left out."""
    return list(range(extent)) if extent <= limit else [*range(limit), None]


def _coordinate(value: int | None, chars: Charset) -> str:
    return chars.ellipsis if value is None else str(value)


def _is_element(shape: Shape, index: Sequence[int]) -> bool:
    return all(i < size for i, size in zip(index, shape.dimensions))


def _name(shape: Shape, index: Sequence[int], names: Sequence[str]) -> str:
    """What an element is called: its name, else its index; a scalar has neither coordinates nor a need for them."""
    if not names:
        return ",".join(map(str, index)) or "()"
    number = 0
    for coordinate, size in zip(index, shape.dimensions):
        number = number * size + coordinate
    return names[number]
