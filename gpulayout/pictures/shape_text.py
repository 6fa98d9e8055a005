"""The picture of a shape as text for a terminal.  f32[2,3]{0,1:PD(3,5)}:

    y ↓ 2, padded to 3, fastest
    x → 3, padded to 5

      x   0   1   2   3   4
       ┌───┬───┬───┬───┬───┐
    y 0│  0│  3│  6│░░9│░12│
      1│  1│  4│  7│░10│░13│
      2│░░2│░░5│░░8│░11│░14│
       └───┴───┴───┴───┴───┘

Padding is hatched.  The borders of tiles are heavy.  With tiles in tiles, those of inner tiles are light, and the cells
inside have none.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpulayout.layout.checks import clipped
from gpulayout.pictures.figure import TERMINAL, Cell, Figure, Panel
from gpulayout.pictures.legend import facts, legend, padding_mark, panel_text, panels_text, size_text

BLANK, LIGHT, HEAVY = range(3)


class Glyphs(NamedTuple):
    """The characters of a drawing.

    junctions   where borders of weight u, r, d and l come from above, right, below and left: the character at
                27 u + 9 r + 3 d + l
    """

    junctions: str
    hatch: str
    ellipsis: str
    right: str
    down: str


UNICODE = Glyphs(
    " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋", "░", "…", "→", "↓"
)


def _ascii_junction(up: int, right: int, down: int, left: int) -> str:
    """`|` and `-` for light borders, `#` and `=` for heavy ones, `+` where light ones meet."""
    across, along = max(left, right), max(up, down)
    if across and along:
        return "#" if HEAVY in (across, along) else "+"
    return " -="[across] if across else " |#"[along]


ASCII = Glyphs("".join(_ascii_junction(n // 27, n // 9 % 3, n // 3 % 3, n % 3) for n in range(81)), "/", "~", "->", "v")


def shape_text(figure: Figure, *, glyphs: Glyphs = UNICODE, width: int = TERMINAL.width) -> str:
    """The whole picture: facts, grid, memory, and what the marks mean."""
    title, *more = str(figure.shape), *facts(figure)[:1]
    lines = [clipped(title, width), *_wrapped(more, width)]
    if figure.reason:
        return "\n".join([*lines, f"({figure.reason})"])
    marks = [
        f"{_sample(mark.kind, figure, glyphs)} {mark.text}".strip() for mark in legend(figure) if mark.kind != "color"
    ]
    grid = draw_grid(figure, glyphs=glyphs, width=width)
    strip = draw_strip(figure, pad=padding_mark(figure.shape, glyphs.ellipsis), glyphs=glyphs, width=width)
    return "\n".join([*lines, "", grid, "", strip, *_wrapped(marks, width)])


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    """Texts in lines that fit."""
    return [line for text in texts for line in textwrap.wrap(text, width)]


def _sample(kind: str, figure: Figure, glyphs: Glyphs) -> str:
    """What a mark of the legend looks like."""
    weight = {"gl-tile1": _weight(figure, 1), "gl-tile2": _weight(figure, 2)}
    return glyphs.hatch if kind == "padding" else glyphs.junctions[30 * weight[kind]] if kind in weight else ""


def draw_grid(figure: Figure, *, glyphs: Glyphs = UNICODE, width: int = TERMINAL.width) -> str:
    """The logical array as boxes that hold places; above rank 2, one grid per panel."""
    if figure.reason:
        return f"({figure.reason})"
    arrows = {figure.shape.rank - 1: glyphs.right, figure.shape.rank - 2: glyphs.down}
    lines = [size_text(figure, dim).replace(":", f" {arrow}", 1) for dim, arrow in sorted(arrows.items()) if dim >= 0]
    lines = _wrapped((panels_text(figure), *lines), width)
    lines += [""] if lines else []
    cells = [cell for panel in figure.panels if panel for row in panel.rows for cell in row if cell]
    width_of_cell = 1 + max(len(cell.text) * figure.has_names + len(str(cell.place)) for cell in cells)
    for panel in figure.panels:
        if panel is None:
            lines.append(glyphs.ellipsis)
            continue
        if panel.index:
            lines.append(panel_text(figure, panel.index))
        lines += _panel(figure, panel, width_of_cell, glyphs)
    return "\n".join(lines)


def _panel(figure: Figure, panel: Panel, width: int, glyphs: Glyphs) -> list[str]:
    """One grid with its coordinates."""
    rank = figure.shape.rank
    names = ("", "", *figure.labels)[-2:]
    sides = ["" if rank < 2 else glyphs.ellipsis if row is None else str(row) for row in figure.rows]
    gutter = len(names[0]) + max(map(len, sides)) + 1 if rank > 1 else len(names[1])
    sides = [names[0] + sides[0].rjust(gutter - len(names[0])), *(side.rjust(gutter) for side in sides[1:])]
    widths = [1 if column is None else width for column in figure.columns]
    texts = [
        [_box(figure, cell, width, glyphs) if cell else glyphs.ellipsis.center(wide) for cell, wide in zip(row, widths)]
        for row in panel.rows
    ]
    drawn = boxes(texts, [_walls(figure, row) for row in panel.rows], _floors(figure, panel), glyphs)
    header = " ".join(
        (glyphs.ellipsis if column is None else str(column)).rjust(wide) for column, wide in zip(figure.columns, widths)
    )
    lines = [(" " * gutter if number is None else sides[number]) + line.rstrip() for number, line in drawn]
    return [f"{names[1].rjust(gutter)} {header}", *lines] if rank else lines


def _box(figure: Figure, cell: Cell, width: int, glyphs: Glyphs) -> str:
    """The name and place of an element, or the hatched place of padding."""
    if not cell.is_element:
        return str(cell.place).rjust(width, glyphs.hatch)
    name = cell.text if figure.has_names else ""
    return name + str(cell.place).rjust(width - len(name))


# ---- borders -------------------------------------------------------------------------------------------------


def _weight(figure: Figure, level: int) -> int:
    """How heavy the border between tiles of a level is: 1 for the outermost; 0 is that between cells of one tile."""
    if level == 1:
        return HEAVY
    return LIGHT if level or len(figure.blocks) < 2 else BLANK


def _wall(figure: Figure, one: Cell | None, other: Cell | None) -> int:
    """The border between neighbours in a row; none where something is left out."""
    return _weight(figure, figure.border(one, other)) if one and other else BLANK


def _side(figure: Figure, cell: Cell | None) -> int:
    """The border on an outer side; none where something is left out."""
    return BLANK if cell is None else HEAVY if figure.blocks else LIGHT


def _walls(figure: Figure, row: Sequence[Cell | None]) -> list[int]:
    between = [_wall(figure, one, other) for one, other in zip(row, row[1:])]
    return [_side(figure, row[0]), *between, _side(figure, row[-1])]


def _floors(figure: Figure, panel: Panel) -> list[list[int]]:
    """The borders above every row and below the last; cells of one tile have none between them."""
    between = [
        [_weight(figure, level) if (level := figure.border(one, other)) else BLANK for one, other in zip(above, below)]
        for above, below in zip(panel.rows, panel.rows[1:])
    ]
    first, last = ([_side(figure, cell) for cell in panel.rows[row]] for row in (0, -1))
    return [first, *between, last]


# ---- memory --------------------------------------------------------------------------------------------------


def draw_strip(figure: Figure, *, pad: str = "", glyphs: Glyphs = UNICODE, width: int = TERMINAL.width) -> str:
    """Memory from place 0 on: the name or index of the element in every place, or hatched padding.

    pad   text in padding boxes
    """
    if figure.reason:
        return f"({figure.reason})"
    cells = [cell for cell in figure.strip if cell]
    wide = max(max(len(cell.text), len(str(cell.place)), len(pad) * (not cell.is_element)) for cell in cells)
    lines: list[str] = []
    line: list[Cell | None] = []
    room = width - len("place") - 1
    for cell in figure.strip:
        if line and sum(wide + 1 if other else 2 for other in (*line, cell)) > room:
            lines += _strip_line(figure, line, wide, pad, glyphs)
            line = []
        line.append(cell)
    return "\n".join([*lines, *_strip_line(figure, line, wide, pad, glyphs)])


def _strip_line(figure: Figure, cells: Sequence[Cell | None], wide: int, pad: str, glyphs: Glyphs) -> list[str]:
    """The numbers of places, their boxes, and the numbers of bytes below packed elements."""

    def box(cell: Cell | None) -> str:
        if cell is None:
            return glyphs.ellipsis
        return cell.text.center(wide) if cell.is_element else pad.rjust(wide, glyphs.hatch)

    def numbers(name: str, texts: Sequence[str]) -> str:
        return " ".join([name, *(text.rjust(wide if cell else 1) for cell, text in zip(cells, texts))]).rstrip()

    def edge(cell: Cell | None, place: int) -> int:
        """The border beside the first or the last place of a line."""
        return BLANK if cell is None else HEAVY if figure.border_before(place) == 1 else LIGHT

    first, last = cells[0], cells[-1]
    walls = [
        edge(first, first.place if first else 0),
        *(_wall(figure, one, other) for one, other in zip(cells, cells[1:])),
        edge(last, last.place + 1 if last else 0),
    ]
    sides = [_side(figure, cell) for cell in cells]
    drawn = boxes([[box(cell) for cell in cells]], [walls], [sides, sides], glyphs)
    lines = [numbers("place", [glyphs.ellipsis if cell is None else str(cell.place) for cell in cells])]
    lines += [" " * len("place") + line.rstrip() for _, line in drawn]
    bits = figure.shape.bits_per_element
    if figure.shape.is_packed:
        starts = [cell is not None and cell.place * bits % 8 == 0 for cell in cells]
        texts = [str(cell.place * bits // 8) if cell and start else "" for cell, start in zip(cells, starts)]
        lines.append(numbers("byte ", texts))
    return lines


# ---- boxes ---------------------------------------------------------------------------------------------------


def boxes(
    texts: Sequence[Sequence[str]],
    walls: Sequence[Sequence[int]],
    floors: Sequence[Sequence[int]],
    glyphs: Glyphs,
) -> list[tuple[int | None, str]]:
    """Lines with the number of the row in each, or None for a border between rows; a border of blanks is left out.

    With heavy borders around tiles of 2 x 2:

    ┏━━━━━┯━━━━━┳━━━━━┯━━━━━┓
    ┃    0│    1┃    4│    5┃
    ┃    2│    3┃    6│    7┃
    ┗━━━━━┷━━━━━┻━━━━━┷━━━━━┛

    texts    row by row; the texts of a column have one length
    walls    for every row the weights of its vertical borders, one more than columns
    floors   the weights of the horizontal borders above every row and below the last, one for each column

    >>> [line for _, line in boxes([["a", "b"]], [[1, 1, 1]], [[1, 1], [1, 1]], ASCII)]
    ['+-+-+', '|a|b|', '+-+-+']
    """
    blank = [BLANK] * (len(texts[0]) + 1)
    found: list[tuple[int | None, str]] = []
    for number, floor in enumerate(floors):
        if any(floor):
            above = walls[number - 1] if number else blank
            below = walls[number] if number < len(walls) else blank
            found.append((None, _border(texts[0], above, floor, below, glyphs)))
        if number < len(texts):
            line = "".join(
                glyphs.junctions[30 * wall] + text for wall, text in zip(walls[number], (*texts[number], ""))
            )
            found.append((number, line))
    return found


def _border(
    texts: Sequence[str], above: Sequence[int], floor: Sequence[int], below: Sequence[int], glyphs: Glyphs
) -> str:
    """The border between two rows."""
    line = ""
    for up, right, down, left, text in zip(above, (*floor, BLANK), below, (BLANK, *floor), (*texts, "")):
        line += glyphs.junctions[27 * up + 9 * right + 3 * down + left] + glyphs.junctions[10 * right] * len(text)
    return line
