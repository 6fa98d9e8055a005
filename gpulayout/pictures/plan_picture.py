"""The picture of a plan: facts, the places of both buffers, and where every element goes.

Small buffers are drawn whole.  Of larger ones, the picture shows the first places of the target, the ends of its rows
and tiles, and the places of the source that these elements come from.  f32[4096,4096] to {0,1}: target places 0 1 2 3
come from the source places 0 4096 8192 12288.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.draw import Drawing
from gpulayout.pictures.figure import Cells, Figure, figure_of
from gpulayout.pictures.legend import LONGEST_TITLE, Mark, legend, padding_mark, shape_title
from gpulayout.pictures.shape_svg import CELL_HEIGHT, MARGIN, draw_cell, draw_head, draw_legend, strip_text, strip_width
from gpulayout.pictures.shape_text import Glyphs, draw_strip, wrapped
from gpulayout.pictures.shown import with_gaps
from gpulayout.pictures.svg import COLORS, Sheet

WHOLE_PLACES = 24  # of a buffer that is drawn whole
_FIRST, _MOST = 4, 9  # places of a larger target
_GAP, _ARROWS = 20, 76  # pixels: of what is left out; between the strips
_SECTOR = 32  # bytes that memory moves at once


def plan_picture(source: Shape, target: Shape, facts: Sequence[str], names: Sequence[str] | None = None) -> Picture:
    """A picture of a relayout, with these facts at its top."""
    figure = plan_figure(source, target, facts, names)
    return Drawing(partial(plan_svg, figure), partial(plan_text, figure))


def plan_text(figure: PlanFigure, glyphs: Glyphs, width: int) -> str:
    """The picture of a plan as text: instead of arrows, the target names the places of the source."""
    lines = wrapped([f"{figure.source.shape} -> {figure.target.shape}", *figure.facts], width)
    strip = (cell and replace(cell, text=str(figure.source_of.get(cell.place, ""))) for cell in figure.target.strip)
    target = replace(figure.target, strip=tuple(strip))
    for title, buffer in (("source:", figure.source), ("target, with places of the source:", target)):
        if buffer.strip:
            pad = padding_mark(buffer.shape, glyphs.ellipsis)
            lines += ["", title, draw_strip(buffer, pad=pad, glyphs=glyphs, width=width)]
    return "\n".join(lines)


# ---- what it shows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanFigure:
    """A plan's picture before it is drawn.

    source, target   both shapes; their strips hold the places that are shown, None for what is left out, and the
                     colours of the rows of the source
    source_of        for places of the target, ascending, the place of the source that their element comes from
    facts            lines at the top, such as those about the launch in `Plan.explain`
    """

    source: Figure
    target: Figure
    source_of: dict[int, int] = field(default_factory=dict)
    facts: tuple[str, ...] = ()


def plan_figure(
    source: Shape, target: Shape, facts: Sequence[str] = (), names: Sequence[str] | None = None
) -> PlanFigure:
    """What the picture of a relayout shows, with these facts at its top."""
    figures = figure_of(source, names=names), figure_of(target, names=names)
    if figures[1].reason:
        return PlanFigure(*figures, facts=tuple(facts))
    before, after = Cells(source), Cells(target)
    written = _target_places(after)
    moved = [cell for cell in map(after.at_place, written) if cell.is_element]
    source_of = {cell.place: before.at_index(cell.index).place for cell in moved}
    read = range(source.buffer_size) if source.buffer_size <= WHOLE_PLACES else sorted(source_of.values())
    row_of = {place: place // before.color_length for place in source_of.values()}
    rows = sorted(set(row_of.values()))
    colors = {place: rows.index(row) for place, row in row_of.items()}
    return PlanFigure(
        _with_strip(figures[0], before, read, colors),
        _with_strip(figures[1], after, written, {target: colors[source] for target, source in source_of.items()}),
        source_of,
        tuple(facts),
    )


def _with_strip(figure: Figure, cells: Cells, shown: Sequence[int], colors: dict[int, int]) -> Figure:
    """The same figure with these places in its strip; an element has the colour of its row of the source."""
    if figure.reason:
        return figure
    strip = (
        place if place is None else replace(cells.at_place(place), color=colors.get(place, 0))
        for place in with_gaps(shown, figure.shape.buffer_size)
    )
    return replace(figure, strip=tuple(strip))


def _target_places(cells: Cells) -> list[int]:
    """The places of the target that are drawn, ascending."""
    size = cells.shape.buffer_size
    if size <= WHOLE_PLACES:
        return list(range(size))
    ends = [*cells.blocks[:1], cells.row]
    wanted = [*range(_FIRST), size - 1, *(end + step for end in ends for step in (0, -1, 1))]
    inside = dict.fromkeys(place for place in wanted if place < size)
    return sorted(list(inside)[:_MOST])


# ---- as SVG ---------------------------------------------------------------------------------------------------


def plan_svg(figure: PlanFigure) -> str:
    """The picture of a plan as SVG text."""
    sheet = Sheet()
    source, target = shape_title(figure.source.shape), shape_title(figure.target.shape)
    title = f"{source} → {target}"
    y = draw_head(sheet, [title] if len(title) <= LONGEST_TITLE else [source, f"→ {target}"], figure.facts)
    if figure.target.strip:
        _draw_moves(sheet, figure, y + 14)
    return sheet.svg(title, MARGIN)


def _draw_moves(sheet: Sheet, figure: PlanFigure, top: int) -> None:
    """The source's places, arrows, the target's places, and what the marks mean."""
    colors = {cell.place: cell.color % COLORS for cell in figure.target.strip_cells}
    sheet.text(MARGIN, top, "source", "gl-small gl-ink")
    sheet.open("gl-source")
    starts = _draw_places(sheet, figure.source, top + 8, {}, numbers_above=True)
    sheet.close()
    low = top + 8 + 16 + CELL_HEIGHT + 7
    high = low + _ARROWS
    sheet.open("gl-target")
    ends = _draw_places(sheet, figure.target, high + 7, numbers_of(figure), numbers_above=False)
    sheet.close()
    for color in range(COLORS):
        arrows = [
            (starts[source], ends[target]) for target, source in figure.source_of.items() if colors[target] == color
        ]
        sheet.path(f"gl-move{color}", "".join(f"M{start} {low}L{end} {high}" for start, end in arrows))
    sheet.path("gl-heads", "".join(f"M{ends[target]} {high}l-4 -8h8z" for target in figure.source_of))
    bottom = high + 7 + CELL_HEIGHT + 16
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
    return {cell.place: figure.source_of.get(cell.place, -1 - cell.place) for cell in figure.target.strip_cells}


def _draw_places(
    sheet: Sheet, figure: Figure, top: int, numbers: dict[int, int], *, numbers_above: bool
) -> dict[int, int]:
    """A strip with the numbers of its places on one side and its sectors on the other; the middle of every place.

    numbers   the `data-place` of cells, if that is not their place
    """
    if figure.reason:
        sheet.text(MARGIN, top + 24, f"({figure.reason})", "gl-muted")
        return {}
    width, x = strip_width(figure), MARGIN
    y, bars = (top + 16, top + 16 + CELL_HEIGHT) if numbers_above else (top, top - 7)
    sectors: dict[int, tuple[int, int]] = {}
    middles = {}
    for cell in figure.strip:
        if cell is None:
            sheet.text(x + _GAP // 2, y + CELL_HEIGHT // 2 + 4, "…", "gl-muted", "middle")
            x += _GAP
            continue
        number = numbers.get(cell.place, cell.place)
        draw_cell(sheet, figure, cell, (x, y, width, CELL_HEIGHT), strip_text(figure, cell), number)
        middles[cell.place] = x + width // 2
        base = top + 12 if numbers_above else y + CELL_HEIGHT + 12
        sheet.text(middles[cell.place], base, str(cell.place), "gl-small gl-muted", "middle")
        sector = cell.place * figure.shape.bits_per_element // (8 * _SECTOR)
        sectors[sector] = sectors.get(sector, (x, x))[0], x + width
        x += width
    sheet.path("gl-sector", "".join(f"M{start + 2} {bars + 3}H{end - 2}" for start, end in sectors.values()))
    return middles
