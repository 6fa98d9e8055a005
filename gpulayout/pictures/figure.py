"""What a picture of a shape shows, before anyone decides how it looks: panels of cells, and a strip of places.

A panel is a grid of the last two dimensions at fixed coordinates of the others.  A cell shows a *place*, a position in
the buffer counted in elements.  f32[2,3]{0,1:PD(3,5)} has one panel of 3 x 5 cells, whose first row holds the places
0 3 6 9 12; the strip holds the places 0..14.  Coordinates run to the end of the last tile.  Padding that has none, such
as that of the tail, appears only in the strip.

Whatever the shape, a figure has at most MOST_PANELS panels, MOST_CELLS cells in all of them, and MOST_PLACES places in
the strip.  Of a larger array it shows corners and the edges of tiles; `shown` chooses them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.layout.checks import clipped, counted, product, type_text
from gpulayout.layout.digits import StrideTable, widths_in_tiles
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import named_dimensions
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.pictures.shown import (
    chosen,
    chosen_panels,
    row_length,
    row_major_number,
    tile_blocks,
    tile_edges,
    wanted_coordinates,
    wanted_places,
)

MOST_PANELS, MOST_CELLS, MOST_PLACES, MOST_DIMENSIONS = 6, 576, 64, 64
_WHOLE_CELLS, _WHOLE_SIDE = 256, 16  # an array with no more of them is drawn whole
_LARGE_ROWS, _LARGE_COLUMNS = 12, 12
_LONGEST_INDEX, LONGEST_NAME, _LONGEST_LABEL = 12, 8, 16  # characters
_CONTROLS = re.compile(r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Room(NamedTuple):
    """The room for a picture.

    width    characters across
    beside   panels that stand beside each other, if there are several
    panels   of a large array, at most 4
    """

    width: int
    beside: int
    panels: int


TERMINAL, PAGE = Room(88, 1, 3), Room(108, 2, 4)


@dataclass(frozen=True)
class Cell:
    """A place in the buffer, as a picture shows it.

    index   its coordinates; meaningless for padding that has none
    text    what the strip writes: the name or index of the element, or nothing for padding
    color   a number that is the same for neighbours in memory: that of the tile, or of the row
    """

    place: int
    index: tuple[int, ...]
    is_element: bool
    text: str
    color: int


@dataclass(frozen=True)
class Panel:
    """A grid of cells, row by row, at fixed coordinates `index` of all dimensions but the last two."""

    index: tuple[int, ...]
    rows: tuple[tuple[Cell | None, ...], ...]


@dataclass(frozen=True)
class Figure:
    """The cells of a picture.  None stands for what is left out, in every sequence.

    labels          a short name for every dimension
    rows, columns   the coordinates along the last two dimensions, the same in every panel
    blocks          places per tile of each level, outermost first; () without tiles
    color_length    places of one colour: a tile or a row
    fastest         the dimension along which neighbours in memory lie, or None
    has_names       the caller named the elements
    has_numbers     the strip names elements by number, because their indices are long
    reason          why there are no cells, or ""
    """

    shape: Shape
    labels: tuple[str, ...]
    widths: tuple[int, ...] = ()
    rows: tuple[int | None, ...] = ()
    columns: tuple[int | None, ...] = ()
    panels: tuple[Panel | None, ...] = ()
    strip: tuple[Cell | None, ...] = ()
    blocks: tuple[int, ...] = ()
    color_length: int = 1
    fastest: int | None = None
    has_names: bool = False
    has_numbers: bool = False
    reason: str = ""

    def border(self, one: Cell | None, other: Cell | None) -> int:
        """0 between places of one tile, 1 between tiles of the outermost level, 2 between those of the next, ..."""
        if one and other:
            for level, block in enumerate(self.blocks, 1):
                if one.place // block != other.place // block:
                    return level
        return 0

    def borders(self, lines: Sequence[Sequence[Cell | None]]) -> list[list[int | None]]:
        """The levels of the borders before the first of some lines of cells, between them, and after the last.

        None beside what is left out.  The outer sides are borders of tiles of the outermost level, if there are tiles.
        """
        outer = min(len(self.blocks), 1)
        between = [
            [self.border(one, other) if one and other else None for one, other in zip(before, after)]
            for before, after in zip(lines, lines[1:])
        ]
        first, last = ([outer if cell else None for cell in line] for line in (lines[0], lines[-1]))
        return [first, *between, last]

    def border_before(self, place: int) -> int:
        """The level of the tiles that begin at a place of the buffer, as in `border`."""
        return next((level for level, block in enumerate(self.blocks, 1) if place % block == 0), 0)

    @property
    def grid_cells(self) -> list[Cell]:
        """The cells of all panels."""
        return [cell for panel in self.panels if panel for row in panel.rows for cell in row if cell]

    @property
    def strip_cells(self) -> list[Cell]:
        """The cells of the strip."""
        return [cell for cell in self.strip if cell]

    @property
    def is_whole(self) -> bool:
        """True when nothing is left out of the grid."""
        return None not in (*self.rows, *self.columns, *self.panels)

    @property
    def is_all_in_grid(self) -> bool:
        """True when every place has coordinates, also the padding."""
        return product(self.widths) == self.shape.buffer_size


def figure_of(
    shape: Shape, *, names: Sequence[str] | None = None, elements: Sequence[object] = (), room: Room = TERMINAL
) -> Figure:
    """The picture of a shape.

    names      a name for every dimension
    elements   a text for every element, in row-major order; of more than 8 characters, 6 and two dots are shown
    room       how much it may take
    """
    labels = named_dimensions(names, shape.rank, shape) if shape.rank <= MOST_DIMENSIONS else ()
    labels = tuple(clipped(label, _LONGEST_LABEL, "..") for label in labels)
    reason = _reason(shape)
    if not (hasattr(elements, "__len__") and hasattr(elements, "__getitem__")):
        raise TypeError(f"elements must be a sequence with a name for every element, not {type_text(elements)}")
    if len(elements) and (reason or len(elements) != shape.element_count):
        count = reason or f"it has {counted(shape.element_count, 'element')}"
        raise LayoutError(f"elements has {counted(len(elements), 'entry')} for {shape}: {count}")
    return Figure(shape, labels, reason=reason) if reason else _figure(shape, labels, elements, room)


def _reason(shape: Shape) -> str:
    """Why a shape cannot be drawn, or nothing."""
    if shape.rank > MOST_DIMENSIONS:
        return f"not drawn: {shape.rank} dimensions, the limit is {MOST_DIMENSIONS}"
    if UNBOUNDED in shape.dimensions:
        return f"not drawn: dimension {shape.dimensions.index(UNBOUNDED)} is unbounded"
    return "" if shape.buffer_size else "no places"


class Cells:
    """The cells for the places of a shape's buffer."""

    def __init__(self, shape: Shape, elements: Sequence[object] = ()):
        self.shape, self.elements = shape, elements
        self.table = stride_table(shape)
        self.blocks = tile_blocks(shape)
        self.row = row_length(self.table)
        self.widths = widths_in_tiles(shape.buffer_dimensions, shape.layout.major_to_minor, shape.layout.tiles)
        self.color_length = next((block for block in self.blocks if block < shape.buffer_size), self.row)
        longest_index = len(_index_text([size - 1 for size in shape.dimensions]))
        self.has_numbers = not len(elements) and longest_index > _LONGEST_INDEX

    def at_index(self, index: tuple[int, ...]) -> Cell:
        is_element = all(i < size for i, size in zip(index, self.shape.dimensions))
        return self._cell(int(self.table.linear_of(index)), index, is_element)

    def in_panel(self, panel: tuple[int, ...], row: int | None, column: int | None) -> Cell | None:
        """The cell of a panel; None if its row or its column is left out."""
        if row is None or column is None:
            return None
        return self.at_index((*panel, row, column)[len(panel) + 2 - self.shape.rank :])

    def at_place(self, place: int) -> Cell:
        return self._cell(place, self.table.index_of(place), bool(self.table.is_element(place)))

    def _cell(self, place: int, index: tuple[int, ...], is_element: bool) -> Cell:
        return Cell(place, index, is_element, self._text(index) if is_element else "", place // self.color_length)

    def _text(self, index: tuple[int, ...]) -> str:
        number = row_major_number(index, self.shape.dimensions)
        if len(self.elements):
            return _name(self.elements[number])
        return f"#{number}" if self.has_numbers else _index_text(index)


def _figure(shape: Shape, labels: tuple[str, ...], elements: Sequence[object], room: Room) -> Figure:
    cells = Cells(shape, elements)
    panels, rows, columns = _shown(cells, labels, room)

    def panel(index: tuple[int, ...]) -> Panel:
        return Panel(index, tuple(tuple(cells.in_panel(index, row, column) for column in columns) for row in rows))

    wanted = wanted_places(cells.table, cells.blocks, cells.row)
    strip = chosen(shape.buffer_size, wanted, MOST_PLACES, 1, 1)
    return Figure(
        shape,
        labels,
        cells.widths,
        rows,
        columns,
        tuple(index if index is None else panel(index) for index in panels),
        tuple(place if place is None else cells.at_place(place) for place in strip),
        cells.blocks,
        cells.color_length,
        _fastest(cells.table),
        bool(len(elements)),
        cells.has_numbers,
    )


def _shown(
    cells: Cells, labels: tuple[str, ...], room: Room
) -> tuple[list[tuple[int, ...] | None], tuple[int | None, ...], tuple[int | None, ...]]:
    """The coordinates of the panels, of the rows and of the columns; None for what is left out.

    All of a small array; corners and the edges of tiles of a larger one, as far as there is room.
    """
    shape, widths, rank = cells.shape, cells.widths, cells.shape.rank
    edges = {dim: tile_edges(cells.table, dim, width, cells.blocks) for dim, width in enumerate(widths)}
    whole = product(widths) <= _WHOLE_CELLS
    order = [dim for dim in shape.layout.minor_to_major if dim < rank - 2]
    panels = chosen_panels(widths[:-2], order, edges, MOST_PANELS if whole else room.panels)

    def coordinates(dim: int, length: int, cell: int, gap: int) -> tuple[int | None, ...]:
        if dim < 0:  # rank 0 has no columns, and rank 1 no rows
            return (0,)
        wanted = wanted_coordinates(widths[dim], shape.dimensions[dim], edges[dim])
        return tuple(chosen(widths[dim], wanted, length, cell, gap))

    elements = cells.elements
    name = LONGEST_NAME if len(elements) > _WHOLE_CELLS else max((len(_name(name)) for name in elements), default=0)
    cell = len(str(shape.buffer_size - 1)) + name + 2  # a blank and a wall
    gutter = len(f"{labels[-2]} {widths[-2]} ") if rank > 1 else 3
    across = room.width // (room.beside if len(panels) > 1 else 1) - gutter
    rows = coordinates(rank - 2, _WHOLE_SIDE if whole else _LARGE_ROWS, 1, 1)
    columns = coordinates(rank - 1, min(across, (_WHOLE_SIDE if whole else _LARGE_COLUMNS) * cell), cell, 2)
    return panels, rows, columns


def _fastest(table: StrideTable) -> int | None:
    """The dimension of the most minor digit, or None when every extent is 1."""
    digits, rank = table.digits, len(table.dimensions)
    while True:
        dim = next((digit.dim for digit in digits if digit.extent > 1), None)
        if dim is None or dim < rank:
            return dim
        digits = table.numbers[dim - rank]


def _name(value: object) -> str:
    """A name in a cell, without characters that would move or turn the rest of a drawing; two dots show a cut.

    >>> _name("elephant"), _name("elephants"), _name("a\\nb") == "a\\ufffdb"
    ('elephant', 'elepha..', True)
    """
    text = _CONTROLS.sub("\ufffd", str(value))
    return clipped(text, LONGEST_NAME, "..")


def _index_text(index: Sequence[int]) -> str:
    """An index as text; () for a scalar.

    >>> _index_text((1, 2)), _index_text(())
    ('1,2', '()')
    """
    return ",".join(map(str, index)) or "()"
