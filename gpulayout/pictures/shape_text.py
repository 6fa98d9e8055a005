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
    lines = [clipped(title, width), *wrapped(more, width)]
    if figure.reason:
        return "\n".join([*lines, f"({figure.reason})"])
    samples = {f"gl-tile{level}": glyphs.junctions[30 * _weight(figure, level)] for level in (1, 2)}
    samples["padding"] = glyphs.hatch
    marks = [f"{samples.get(mark.kind, '')} {mark.text}".strip() for mark in legend(figure) if mark.kind != "color"]
    grid = draw_grid(figure, glyphs=glyphs, width=width)
    strip = draw_strip(figure, pad=padding_mark(figure.shape, glyphs.ellipsis), glyphs=glyphs, width=width)
    return "\n".join([*lines, "", grid, "", strip, *wrapped(marks, width)])


def wrapped(texts: Iterable[str], width: int) -> list[str]:
    """Texts in lines that fit."""
    return [line for text in texts for line in textwrap.wrap(text, width)]


def draw_grid(figure: Figure, *, glyphs: Glyphs = UNICODE, width: int = TERMINAL.width) -> str:
    """The logical array as boxes that hold places; above rank 2, one grid per panel."""
    if figure.reason:
        return f"({figure.reason})"
    arrows = {figure.shape.rank - 1: glyphs.right, figure.shape.rank - 2: glyphs.down}
    lines = [size_text(figure, dim).replace(":", f" {arrow}", 1) for dim, arrow in sorted(arrows.items()) if dim >= 0]
    lines = wrapped((panels_text(figure), *lines), width)
    lines += [""] if lines else []
    names = (len(cell.text) * figure.has_names + len(str(cell.place)) for cell in figure.grid_cells)
    width_of_cell = 1 + max(names)
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
    down, across = ("", "", *figure.labels)[-2:]
    numbers = ["" if rank < 2 else glyphs.ellipsis if row is None else str(row) for row in figure.rows]
    gutter = len(down) + max(map(len, numbers)) + 1 if rank > 1 else len(across)
    numbers = [down + numbers[0].rjust(gutter - len(down)), *(number.rjust(gutter) for number in numbers[1:])]
    widths = [1 if column is None else width for column in figure.columns]
    texts = [
        [_box(figure, cell, width, glyphs) if cell else glyphs.ellipsis.center(wide) for cell, wide in zip(row, widths)]
        for row in panel.rows
    ]
    lines = boxes(texts, _walls(figure, panel.rows), _floors(figure, panel.rows), numbers, glyphs)
    header = " ".join(
        (glyphs.ellipsis if column is None else str(column)).rjust(wide) for column, wide in zip(figure.columns, widths)
    )
    return [f"{across.rjust(gutter)} {header}", *lines] if rank else lines


def _box(figure: Figure, cell: Cell, width: int, glyphs: Glyphs) -> str:
    """The name and place of an element, or the hatched place of padding."""
    if not cell.is_element:
        return str(cell.place).rjust(width, glyphs.hatch)
    name = cell.text if figure.has_names else ""
    return name + str(cell.place).rjust(width - len(name))


# ---- borders -------------------------------------------------------------------------------------------------


def _weight(figure: Figure, level: int | None) -> int:
    """How heavy a border of `Figure.borders` is: 0 is between cells of one tile, None where something is left out."""
    if level == 1:
        return HEAVY
    return BLANK if level is None or (not level and len(figure.blocks) > 1) else LIGHT


def _walls(figure: Figure, rows: Sequence[Sequence[Cell | None]]) -> list[tuple[int, ...]]:
    """The borders beside the cells of every row."""
    return list(zip(*([_weight(figure, level) for level in wall] for wall in figure.borders(list(zip(*rows))))))


def _floors(figure: Figure, rows: Sequence[Sequence[Cell | None]]) -> list[list[int]]:
    """The borders above every row and below the last; cells of one tile have none between them."""
    first, *between, last = figure.borders(rows)
    floors = [first, *([level or None for level in floor] for floor in between), last]
    return [[_weight(figure, level) for level in floor] for floor in floors]


# ---- memory --------------------------------------------------------------------------------------------------


def draw_strip(figure: Figure, *, pad: str = "", glyphs: Glyphs = UNICODE, width: int = TERMINAL.width) -> str:
    """Memory from place 0 on: the name or index of the element in every place, or hatched padding.

    pad   text in padding boxes
    """
    if figure.reason:
        return f"({figure.reason})"
    texts = ((cell.text, str(cell.place), "" if cell.is_element else pad) for cell in figure.strip_cells)
    wide = max(len(text) for cell in texts for text in cell)
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

    def edge(cell: Cell | None, step: int) -> int:
        """The border before a place at an end of the line, or with a step of 1 after it."""
        return BLANK if cell is None else HEAVY if figure.border_before(cell.place + step) == 1 else LIGHT

    walls = [edge(cells[0], 0), *_walls(figure, [cells])[0][1:-1], edge(cells[-1], 1)]
    lines = [numbers("place", [glyphs.ellipsis if cell is None else str(cell.place) for cell in cells])]
    lines += boxes([[box(cell) for cell in cells]], [walls], _floors(figure, [cells]), [" " * len("place")], glyphs)
    if figure.shape.is_packed:
        bits = [cell.place * figure.shape.bits_per_element if cell else 1 for cell in cells]
        lines.append(numbers("byte ", ["" if bit % 8 else str(bit // 8) for bit in bits]))
    return lines


# ---- boxes ---------------------------------------------------------------------------------------------------


def boxes(
    texts: Sequence[Sequence[str]],
    walls: Sequence[Sequence[int]],
    floors: Sequence[Sequence[int]],
    margins: Sequence[str],
    glyphs: Glyphs,
) -> list[str]:
    """The lines of rows and of the borders between them; a border of blanks is left out.

    With heavy borders around tiles of 2 x 2:

    ┏━━━━━┯━━━━━┳━━━━━┯━━━━━┓
    ┃    0│    1┃    4│    5┃
    ┃    2│    3┃    6│    7┃
    ┗━━━━━┷━━━━━┻━━━━━┷━━━━━┛

    texts    row by row; the texts of a column have one length
    walls    for every row the weights of its vertical borders, one more than columns
    floors   the weights of the horizontal borders above every row and below the last, one for each column
    margins  what stands before every row, of one length

    >>> boxes([["a", "b"]], [[1, 1, 1]], [[1, 1], [1, 1]], ["y"], ASCII)
    [' +-+-+', 'y|a|b|', ' +-+-+']
    """
    blank = [BLANK] * (len(texts[0]) + 1)
    lines = []
    for number, floor in enumerate(floors):
        if any(floor):
            above = walls[number - 1] if number else blank
            below = walls[number] if number < len(walls) else blank
            lines.append(" " * len(margins[0]) + _border(texts[0], above, floor, below, glyphs).rstrip())
        if number < len(texts):
            row = (glyphs.junctions[30 * wall] + text for wall, text in zip(walls[number], (*texts[number], "")))
            lines.append(margins[number] + "".join(row).rstrip())
    return lines


def _border(
    texts: Sequence[str], above: Sequence[int], floor: Sequence[int], below: Sequence[int], glyphs: Glyphs
) -> str:
    """The border between two rows."""
    line = ""
    for up, right, down, left, text in zip(above, (*floor, BLANK), below, (BLANK, *floor), (*texts, "")):
        line += glyphs.junctions[27 * up + 9 * right + 3 * down + left] + glyphs.junctions[10 * right] * len(text)
    return line
