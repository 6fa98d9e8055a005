"""The picture of a plan as SVG: both buffers, and where every element goes."""

from __future__ import annotations

from gpulayout.pictures.figure import Figure
from gpulayout.pictures.legend import LONGEST_TITLE, Mark, legend, padding_mark, shape_title, tip
from gpulayout.pictures.plan_figure import PlanFigure
from gpulayout.pictures.shape_svg import MARGIN, draw_legend
from gpulayout.pictures.style import COLORS
from gpulayout.pictures.svg import CHARACTER, SMALL_CHARACTER, Sheet

_CELL, _LEAST_WIDTH, _GAP = 28, 34, 20  # pixels: height and width of a place; what is left out
_ARROWS = 76  # between the strips
_SECTOR = 32  # bytes that memory moves at once
_NUMBER = "gl-small gl-muted"


def plan_svg(figure: PlanFigure) -> str:
    """The picture of a plan as SVG text."""
    sheet = Sheet()
    source, target = shape_title(figure.source.shape), shape_title(figure.target.shape)
    title = f"{source} → {target}"
    y = MARGIN + 12
    for line in [title] if len(title) <= LONGEST_TITLE else [source, f"→ {target}"]:
        sheet.text(MARGIN, y, line, "gl-title gl-ink")
        y += 20
    for fact in figure.facts:
        sheet.text(MARGIN, y, fact, "gl-small gl-muted")
        y += 16
    if figure.target.strip:
        _draw_moves(sheet, figure, y + 14)
    return sheet.svg(title, MARGIN)


def _draw_moves(sheet: Sheet, figure: PlanFigure, top: int) -> None:
    """The source's places, arrows, the target's places, and what the marks mean."""
    colors = {cell.place: cell.color % COLORS for cell in figure.target.strip if cell}
    sheet.text(MARGIN, top, "source", "gl-small gl-ink")
    sheet.open("gl-source")
    starts = _draw_places(sheet, figure.source, top + 8, {}, numbers_above=True)
    sheet.close()
    low, high = top + 8 + 16 + _CELL + 7, top + 8 + 16 + _CELL + 7 + _ARROWS
    sheet.open("gl-target")
    ends = _draw_places(sheet, figure.target, high + 7, numbers_of(figure), numbers_above=False)
    sheet.close()
    for color in range(COLORS):
        sheet.path(
            f"gl-move{color}",
            "".join(
                f"M{starts[source]} {low}L{ends[target]} {high}"
                for source, target in figure.moves
                if colors[target] == color
            ),
        )
    sheet.path("gl-heads", "".join(f"M{ends[target]} {high}l-4 -8h8z" for _, target in figure.moves))
    bottom = high + 7 + _CELL + 16
    sheet.text(MARGIN, bottom + 16, "target", "gl-small gl-ink")
    marks = [mark for mark in legend(figure.target) if mark.kind == "padding"]
    marks += [Mark("color", f"{mark.text} of the source") for mark in legend(figure.source) if mark.kind == "color"]
    marks += [mark for mark in legend(figure.source) if not mark.kind]
    sheet.text(MARGIN + 60, bottom + 16, "a bar beside the places is a sector of 32 bytes", "gl-small gl-muted")
    draw_legend(sheet, marks, bottom + 26)


def numbers_of(figure: PlanFigure) -> dict[int, int]:
    """What the cells of the target have as `data-place`: the source place of their element, or for padding -1, -2, ...

    So the two cells of an element have the same number.
    """
    source_of = {target: source for source, target in figure.moves}
    return {cell.place: source_of.get(cell.place, -1 - cell.place) for cell in figure.target.strip if cell}


def _draw_places(
    sheet: Sheet, figure: Figure, top: int, numbers: dict[int, int], *, numbers_above: bool
) -> dict[int, int]:
    """A strip with the numbers of its places on one side and its sectors on the other; the middle of every place.

    numbers   the `data-place` of cells, if that is not their place
    """
    if figure.reason:
        sheet.text(MARGIN, top + 24, f"({figure.reason})", "gl-muted")
        return {}
    number = padding_mark(figure.shape)
    cells = [cell for cell in figure.strip if cell]
    texts = [cell.text if cell.is_element else number for cell in cells]
    width = max([CHARACTER * len(text) + 12 for text in texts] + [SMALL_CHARACTER * len(str(cells[-1].place)) + 6])
    width, x = max(width, _LEAST_WIDTH), MARGIN
    y, bars = (top + 16, top + 16 + _CELL) if numbers_above else (top, top - 7)
    sectors: dict[int, tuple[int, int]] = {}
    middles = {}
    for cell in figure.strip:
        if cell is None:
            sheet.text(x + _GAP // 2, y + _CELL // 2 + 4, "…", "gl-muted", "middle")
            x += _GAP
            continue
        text = cell.text if cell.is_element else number
        color = cell.color % COLORS if cell.is_element else None
        sheet.cell((x, y, width, _CELL), numbers.get(cell.place, cell.place), tip(figure, cell), text, color)
        sheet.text(x + width // 2, top + 12 if numbers_above else y + _CELL + 12, str(cell.place), _NUMBER, "middle")
        middles[cell.place] = x + width // 2
        sector = cell.place * figure.shape.bits_per_element // (8 * _SECTOR)
        sectors[sector] = sectors.get(sector, (x, x))[0], x + width
        x += width
    sheet.path("gl-sector", "".join(f"M{start + 2} {bars + 3}H{end - 2}" for start, end in sectors.values()))
    return middles
