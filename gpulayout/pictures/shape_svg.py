"""The picture of a shape as SVG: its grid, memory under it, and what the marks mean."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gpulayout.pictures.figure import Cell, Figure, Panel
from gpulayout.pictures.legend import (
    Mark,
    facts,
    legend,
    padding_mark,
    panel_text,
    panels_text,
    shape_title,
    size_text,
    tip,
)
from gpulayout.pictures.svg import CHARACTER, COLORS, SMALL_CHARACTER, Sheet, lines

MARGIN, GAP = 16, 26  # pixels around the picture; of what is left out
ACROSS = 960  # panels and the strip go on in a new line here
CELL_HEIGHT, LEAST_WIDTH = 28, 34
_STRIP = "memory: the element in every place"
_SPACE = 28  # between panels
_Spans = list[tuple[int, int]]
_Segments = dict[int, list[tuple[int, int, int, int]]]


def shape_svg(figure: Figure) -> str:
    """The picture of a shape as SVG text."""
    sheet = Sheet()
    title = shape_title(figure.shape)
    is_fastest = figure.fastest is not None and figure.fastest < figure.shape.rank - 2
    y = draw_head(sheet, [title], facts(figure))
    if panels := panels_text(figure):
        sheet.text(MARGIN, y, panels, f"gl-small {'gl-accent' if is_fastest else 'gl-muted'}")
        y += 16
    if figure.reason:
        sheet.text(MARGIN, y + 14, f"({figure.reason})")
        return sheet.svg(title, MARGIN)
    y = draw_grid(sheet, figure, y + 4)
    sheet.text(MARGIN, y + 22, _STRIP, "gl-small gl-muted")
    y = draw_strip(sheet, figure, y + 30)
    draw_legend(sheet, legend(figure), y + 18)
    return sheet.svg(title, MARGIN)


def draw_head(sheet: Sheet, titles: Sequence[str], facts: Sequence[str]) -> int:
    """Titles and facts, from the top down; returns where the next line stands."""
    y = MARGIN + 12
    for texts, kind, height in ((titles, "gl-title gl-ink", 20), (facts, "gl-small gl-muted", 16)):
        for text in texts:
            sheet.text(MARGIN, y, text, kind)
            y += height
    return y


# ---- the grid ------------------------------------------------------------------------------------------------


def draw_grid(sheet: Sheet, figure: Figure, top: int) -> int:
    """All panels, from `top` down, as many beside each other as fit; returns where they end."""
    rank = figure.shape.rank
    width = max(CHARACTER * max(len(_grid_text(figure, cell)) for cell in figure.grid_cells) + 12, LEAST_WIDTH)
    breadth, height = _spans(figure.columns, width, 0)[-1][1], _spans(figure.rows, CELL_HEIGHT, 0)[-1][1]
    gutter = SMALL_CHARACTER * len(str(max((row for row in figure.rows if row is not None), default=0))) + 8
    gutter *= rank > 1
    across = size_text(figure, rank - 1) if rank else ""
    down = size_text(figure, rank - 2).split(", ") if rank > 1 else []
    margin = MARGIN + (max(map(len, down)) * SMALL_CHARACTER + 22 if down else 0)
    has_titles = len(figure.panels) > 1 or rank > 2
    titles = [panel_text(figure, panel.index) for panel in figure.panels if panel] if has_titles else []
    across_panel = gutter + max([breadth, *(SMALL_CHARACTER * len(title) for title in titles)])
    head = (18 if has_titles else 0) + (18 if rank else 0)  # titles and coordinates
    first = 24 if across else 0  # the size of the last dimension, above the first panel
    x, y = margin, top + first
    sheet.open("gl-grid")
    for number, panel in enumerate(figure.panels):
        wide = GAP if panel is None else across_panel
        if x > margin and x + wide > ACROSS:
            x, y = margin, y + head + height + _SPACE
        if panel is None:
            sheet.text(x + GAP // 2, y + head + height // 2 + 5, "…", "gl-muted", "middle")
            sheet.reach(x + GAP, y)
        else:
            xs, ys = _spans(figure.columns, width, x + gutter), _spans(figure.rows, CELL_HEIGHT, y + head)
            if not number:
                _draw_sizes(sheet, figure, (x - 10, y - 6), xs, ys, across, down)
            if has_titles:
                sheet.text(x + gutter, y + 12, panel_text(figure, panel.index), "gl-small gl-ink")
            _draw_panel(sheet, figure, panel, xs, ys)
        x += wide + _SPACE
    sheet.close()
    return y + head + height


def _spans(coordinates: Sequence[int | None], cell: int, start: int) -> _Spans:
    """Where each row or column of a panel begins and ends."""
    sizes = (GAP if coordinate is None else cell for coordinate in coordinates)
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=start)))


def _grid_text(figure: Figure, cell: Cell) -> str:
    return f"{cell.text} {cell.place}" if figure.has_names and cell.is_element else str(cell.place)


def _draw_panel(sheet: Sheet, figure: Figure, panel: Panel, xs: _Spans, ys: _Spans) -> None:
    """One grid with its coordinates."""
    left, top = xs[0][0], ys[0][0]
    for (x, right), column in zip(xs, figure.columns):
        if figure.shape.rank:
            text = "…" if column is None else str(column)
            sheet.text((x + right) // 2, top - 6, text, "gl-small gl-muted", "middle")
    for (y, bottom), row in zip(ys, figure.rows):
        if figure.shape.rank > 1:
            text = "⋮" if row is None else str(row)
            sheet.text(left - 6, (y + bottom) // 2 + 4, text, "gl-small gl-muted", "end")
    for (y, bottom), row, cells in zip(ys, figure.rows, panel.rows):
        for (x, right), column, cell in zip(xs, figure.columns, cells):
            if cell:
                draw_cell(sheet, figure, cell, (x, y, right - x, bottom - y), _grid_text(figure, cell), cell.place)
            else:
                mark = "⋱" if row is None and column is None else "⋮" if row is None else "…"
                sheet.text((x + right) // 2, (y + bottom) // 2 + 4, mark, "gl-muted", "middle")
                sheet.reach(right, bottom)
    _draw_borders(sheet, _grid_borders(figure, panel, xs, ys))


def draw_cell(sheet: Sheet, figure: Figure, cell: Cell, box: tuple[int, int, int, int], text: str, number: int) -> None:
    """An element in the colour of its tile or row, or hatched padding; cells with one number light up together."""
    sheet.cell(box, number, tip(figure, cell), text, cell.color % COLORS if cell.is_element else None)


def strip_text(figure: Figure, cell: Cell) -> str:
    """What the strip writes: the name or index of an element, or the number that fills padding."""
    return cell.text if cell.is_element else padding_mark(figure.shape)


def _grid_borders(figure: Figure, panel: Panel, xs: _Spans, ys: _Spans) -> _Segments:
    """The borders of tiles in a panel, by level."""
    segments: _Segments = {}
    for lines_of_cells, along, across in ((panel.rows, xs, ys), (tuple(zip(*panel.rows)), ys, xs)):
        edges = [*(start for start, _ in across), across[-1][1]]
        for edge, levels in zip(edges, figure.borders(lines_of_cells)):
            for (start, end), level in zip(along, levels):
                if level:
                    segment = (start, edge, end, edge) if along is xs else (edge, start, edge, end)
                    segments.setdefault(level, []).append(segment)
    return segments


def _draw_borders(sheet: Sheet, borders: _Segments) -> None:
    """Inner levels first, so that the heavy lines lie on top."""
    inner = [segment for level, segments in sorted(borders.items()) if level > 1 for segment in segments]
    sheet.path("gl-tile2", lines(inner))
    sheet.path("gl-tile1", lines(borders.get(1, [])))


def _draw_sizes(
    sheet: Sheet, figure: Figure, at: tuple[int, int], xs: _Spans, ys: _Spans, across: str, down: Sequence[str]
) -> None:
    """Lines at x and y `at` along the first panel, with the sizes of its dimensions."""
    x, y = at
    rank = figure.shape.rank
    inks = ["gl-small gl-accent" if figure.fastest == dim else "gl-small gl-ink" for dim in (rank - 1, rank - 2)]
    if across:
        sheet.text(xs[0][0], y - 8, across, inks[0])
        _draw_span(sheet, figure, rank - 1, xs, y)
    if down:
        for number, line in enumerate(down):
            sheet.text(x - 8, ys[0][0] + 14 + 15 * number, line, inks[1], "end")
        _draw_span(sheet, figure, rank - 2, ys, x)


def _draw_span(sheet: Sheet, figure: Figure, dim: int, spans: _Spans, at: int) -> None:
    """A line at x or y `at` beside the cells of one dimension: dashed along padding, an arrow on the fastest."""
    across = dim == figure.shape.rank - 1
    shown = figure.columns if across else figure.rows
    size = figure.shape.dimensions[dim]
    last = max((c for c in shown if c is not None), default=0)
    elements = [end for (_, end), c in zip(spans, shown) if (c is not None and c < size) or (c is None and size > last)]
    start, end = spans[0][0], spans[-1][1]
    middle = max(elements, default=start)

    def line(one: int, other: int) -> str:
        return f"M{one} {at}H{other}" if across else f"M{at} {one}V{other}"

    def tick(point: int) -> str:
        return f"M{point} {at - 4}V{at + 4}" if across else f"M{at - 4} {point}H{at + 4}"

    if figure.fastest == dim and middle > start:
        head = f"M{middle - 7} {at - 4}L{middle} {at}L{middle - 7} {at + 4}"
        turned = f"M{at - 4} {middle - 7}L{at} {middle}L{at + 4} {middle - 7}"
        sheet.path("gl-arrow", line(start, middle) + (head if across else turned))
    elif middle > start:
        sheet.path("gl-line", tick(start) + line(start, middle) + tick(middle))
    if end > middle:
        dashes = "".join(line(one, min(one + 4, end)) for one in range(middle + 3, end, 8))
        sheet.path("gl-line", dashes + tick(end))


# ---- memory --------------------------------------------------------------------------------------------------


def draw_strip(sheet: Sheet, figure: Figure, top: int) -> int:
    """The places of the buffer in order, in lines; returns where they end."""
    width, x, y = strip_width(figure), MARGIN, top
    foot = 22 if figure.shape.is_packed else 0
    borders: _Segments = {}
    sheet.open("gl-strip")
    for cell in figure.strip:
        wide = width if cell else GAP
        if x + wide > ACROSS:
            x, y = MARGIN, y + 24 + CELL_HEIGHT + foot
        if cell:
            sheet.text(x + width // 2, y + 10, str(cell.place), "gl-small gl-muted", "middle")
            draw_cell(sheet, figure, cell, (x, y + 14, width, CELL_HEIGHT), strip_text(figure, cell), cell.place)
            _add_sides(figure, borders, cell, (x, y + 14, width))
            if foot:
                _draw_byte(sheet, figure, cell, x, y + 14 + CELL_HEIGHT, width)
        else:
            sheet.text(x + GAP // 2, y + 14 + CELL_HEIGHT // 2 + 4, "…", "gl-muted", "middle")
        x += wide
    _draw_borders(sheet, borders)
    sheet.close()
    return y + 14 + CELL_HEIGHT + foot


def strip_width(figure: Figure) -> int:
    """Pixels across a place of the strip."""
    cells = figure.strip_cells
    longest = max(len(strip_text(figure, cell)) for cell in cells)
    return max(CHARACTER * longest + 12, SMALL_CHARACTER * len(str(cells[-1].place)) + 6, LEAST_WIDTH)


def _add_sides(figure: Figure, borders: _Segments, cell: Cell, at: tuple[int, int, int]) -> None:
    """The borders of tiles around a place of the strip."""
    if not figure.blocks:
        return
    x, y, width = at
    for edge, place in ((x, cell.place), (x + width, cell.place + 1)):
        level = 1 if place == figure.shape.buffer_size else figure.border_before(place)
        if level:
            borders.setdefault(level, []).append((edge, y, edge, y + CELL_HEIGHT))
    for edge in (y, y + CELL_HEIGHT):
        borders.setdefault(1, []).append((x, edge, x + width, edge))


def _draw_byte(sheet: Sheet, figure: Figure, cell: Cell, x: int, y: int, width: int) -> None:
    """A bracket below the elements that share a byte; its number stands below the first of them."""
    bits = figure.shape.bits_per_element
    first, last = cell.place * bits % 8 == 0, (cell.place + 1) * bits % 8 == 0
    start, end = x + (4 if first else 0), x + width - (4 if last else 0)
    rise = (f"M{start} {y + 3}V{y + 7}" if first else "") + f"M{start} {y + 7}H{end}"
    sheet.path("gl-line", rise + (f"V{y + 3}" if last else ""))
    if first:
        sheet.text(x + 4, y + 19, f"byte {cell.place * bits // 8}", "gl-small gl-muted")
    sheet.reach(x + width, y + 22)


# ---- what the marks mean -------------------------------------------------------------------------------------


def draw_legend(sheet: Sheet, marks: Sequence[Mark], top: int) -> None:
    """A sample of every mark with its meaning, in lines."""
    x, y = MARGIN, top
    for mark in marks:
        wide = 30 + SMALL_CHARACTER * len(mark.text)
        if x > MARGIN and x + wide > ACROSS:
            x, y = MARGIN, y + 20
        if mark.kind == "padding":
            sheet.parts.append(f'<rect class="gl-swatch" x="{x}" y="{y}" width="20" height="13" fill="url(#)"/>')
        elif mark.kind == "color":
            for number in range(3):
                box = f'x="{x + 7 * number}" y="{y}" width="7" height="13"'
                sheet.parts.append(f'<g class="gl-c{number}"><rect {box}/></g>')
        elif mark.kind:
            sheet.path(mark.kind, f"M{x} {y + 7}H{x + 20}")
        sheet.text(x + (28 if mark.kind else 0), y + 11, mark.text, "gl-small gl-muted")
        x += wide + 16
