"""The picture of a plan as SVG: both buffers, where every element goes, and the requests of the first warp."""

from __future__ import annotations

from gpulayout.gpu.traffic import SECTOR
from gpulayout.layout.checks import counted
from gpulayout.pictures.figure import Figure
from gpulayout.pictures.legend import LONGEST_TITLE, Mark, legend, padding_mark, shape_title, tip
from gpulayout.pictures.plan_figure import PlanFigure
from gpulayout.pictures.shape_svg import MARGIN, draw_legend
from gpulayout.pictures.style import COLORS
from gpulayout.pictures.svg import CHARACTER, SMALL_CHARACTER, Sheet, lines
from gpulayout.pictures.warp_figure import LINE, DrawnRequest, Line, WarpSide, boxes_of

_CELL, _LEAST_WIDTH, _GAP = 28, 34, 20  # pixels: height and width of a place; what is left out
_ARROWS = 76  # between the strips
_BYTE, _LINE_HEIGHT = 4, 20  # pixels across a byte of a line, and down a line
_LEAST_LANE = 16  # pixels that hold a lane's number
_KEY = (
    "a line is 128 bytes of memory; numbers are lanes; heavy borders are the sectors that a request touches",
    "the counts at the top are the model's averages over all warps",
)
_NUMBER = "gl-small gl-muted"
_MOST_COUNTS = 12  # of sectors that are listed


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
        y = _draw_moves(sheet, figure, y + 14)
    drawn = [line for side in figure.warp for request in side.requests for line in request.lines if line]
    left = MARGIN + SMALL_CHARACTER * max((len(f"byte {line.offset}") for line in drawn), default=0) + 10
    for side in figure.warp:
        y = _draw_side(sheet, side, left, y + 26)
    for text in _KEY if drawn else ():
        y += 18
        sheet.text(left, y, text, "gl-small gl-muted")
    return sheet.svg(title, MARGIN)


# ---- both buffers --------------------------------------------------------------------------------------------


def _draw_moves(sheet: Sheet, figure: PlanFigure, top: int) -> int:
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
    return bottom + 26 + (14 if marks else 0)


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
        sector = cell.place * figure.shape.bits_per_element // (8 * SECTOR)
        sectors[sector] = sectors.get(sector, (x, x))[0], x + width
        x += width
    sheet.path("gl-sector", "".join(f"M{start + 2} {bars + 3}H{end - 2}" for start, end in sectors.values()))
    return middles


# ---- the warp ------------------------------------------------------------------------------------------------


def _draw_side(sheet: Sheet, side: WarpSide, left: int, top: int) -> int:
    """The requests of one side, from `top` down; returns where they end."""
    sheet.text(MARGIN, top, side_text(side))
    y = top + 8
    for request in side.requests:
        y = _draw_request(sheet, request, left, y)
    rest = len(side.sectors) - len(side.requests)
    if rest:
        sheet.text(left, y + 14, f"… and {rest} more", "gl-small gl-muted")
        y += 18
    return y


def side_text(side: WarpSide) -> str:
    """The number of requests of a side, and the sectors that each touches.

    >>> side_text(WarpSide("reads", (), (16, 16, 16, 2)))
    'the first warp reads in 4 requests, which touch 16, 16, 16, 2 sectors'
    """
    if not side.sectors:
        return f"the first warp {side.name} nothing"
    first, count = side.sectors[0], len(side.sectors)
    if count == 1:
        return f"the first warp {side.name} in 1 request, which touches {counted(first, 'sector')}"
    shown = ", ".join(map(str, side.sectors[:_MOST_COUNTS])) + (", … sectors" if count > _MOST_COUNTS else " sectors")
    if set(side.sectors) == {first}:
        shown = f"{counted(first, 'sector')} each"
    return f"the first warp {side.name} in {count} requests, which touch {shown}"


def _draw_request(sheet: Sheet, request: DrawnRequest, left: int, top: int) -> int:
    """The lines of a request, with its number beside the first."""
    y, right = top, left + LINE * _BYTE + 12
    for number, line in enumerate(request.lines):
        if number == 0:
            sheet.text(
                right, y + 15, f"request {request.number}: {counted(request.lanes, 'lane')}", "gl-small gl-muted"
            )
        if line is None:
            sheet.text(left, y + 12, "…", "gl-muted")
        else:
            _draw_line(sheet, line, left, y, (request.number - 1) % COLORS)
        y += _LINE_HEIGHT if line else 16
    return y + 4


def _draw_line(sheet: Sheet, line: Line, left: int, top: int, color: int) -> None:
    """128 bytes of memory: the lanes' bytes with the lanes' numbers, and a heavier border around touched sectors."""
    height, across = _LINE_HEIGHT - 2, SECTOR * _BYTE
    sheet.text(left - 8, top + 14, f"byte {line.offset}", "gl-small gl-muted", "end")
    sheet.path("gl-line", f"M{left} {top}h{LINE * _BYTE}v{height}h-{LINE * _BYTE}z")
    for first, nbytes, lanes in boxes_of(line, _LEAST_LANE // _BYTE):
        x, wide = left + first * _BYTE, nbytes * _BYTE
        sheet.open(f"gl-cell gl-c{color}")
        sheet.parts.append(f'<rect x="{x}" y="{top}" width="{wide}" height="{height}"/>')
        if SMALL_CHARACTER * len(lanes) <= wide:
            sheet.text(x + wide // 2, top + 13, lanes, "gl-small gl-ink")
        sheet.close()
    sectors = [(left + sector * across, left + (sector + 1) * across) for sector in line.sectors]
    sides = [(x, top, x, top + height) for ends in sectors for x in ends]
    edges = [(start, y, end, y) for start, end in sectors for y in (top, top + height)]
    sheet.path("gl-tile2", lines(sides + edges))
    sheet.reach(left + LINE * _BYTE, top + height)
