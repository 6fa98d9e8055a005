"""The picture of a plan: facts, the places of both buffers, and where every element goes.

Small buffers are drawn whole.  Of larger ones, the picture shows the first places of the target, the ends of its rows
and tiles, and the places of the source that these elements come from.  f32[4096,4096] to {0,1}: target places 0 1 2 3
come from the source places 0 4096 8192 12288.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpulayout.layout.picture import COLUMNS, LEAST_COLUMNS, Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import Figure, Places, figure_of
from gpulayout.pictures.legend import LONGEST_TITLE, Mark, legend, padding_mark, shape_title, tip
from gpulayout.pictures.shape_svg import CELL_HEIGHT, MARGIN, draw_legend, strip_width
from gpulayout.pictures.shape_text import ASCII, UNICODE, draw_strip
from gpulayout.pictures.shown import with_gaps
from gpulayout.pictures.svg import COLORS, Sheet

WHOLE_PLACES = 24  # of a buffer that is drawn whole
_FIRST, _MOST = 4, 9  # places of a larger target
_GAP, _ARROWS = 20, 76  # pixels: of what is left out; between the strips
_SECTOR = 32  # bytes that memory moves at once
_NUMBER = "gl-small gl-muted"


class PlanPicture(Picture):
    """A picture of a relayout, with these facts at its top."""

    def __init__(self, source: Shape, target: Shape, facts: Sequence[str], names: Sequence[str] | None = None):
        self._figure = plan_figure(source, target, facts, names)

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return plan_svg(self._figure)

    def as_text(self, *, width: int = COLUMNS, ascii_only: bool = False) -> str:
        """The picture drawn with characters: instead of arrows, the target names the places of the source."""
        width = max(width, LEAST_COLUMNS)
        figure, glyphs = self._figure, ASCII if ascii_only else UNICODE
        facts = [f"{figure.source.shape} -> {figure.target.shape}", *figure.facts]
        lines = [line for fact in facts for line in textwrap.wrap(fact, width)]
        sides = (("source:", figure.source), ("target, with places of the source:", _with_sources(figure)))
        for title, side in sides:
            if side.strip:
                strip = draw_strip(side, pad=padding_mark(side.shape, glyphs.ellipsis), glyphs=glyphs, width=width)
                lines += ["", title, strip]
        return "\n".join(lines)


def _with_sources(figure: PlanFigure) -> Figure:
    """The target, with the place of the source instead of the name of every element."""
    source_of = {target: source for source, target in figure.moves}
    strip = (cell and replace(cell, text=str(source_of.get(cell.place, ""))) for cell in figure.target.strip)
    return replace(figure.target, strip=tuple(strip))


# ---- what it shows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanFigure:
    """A plan's picture before it is drawn.

    source, target   both shapes; their strips hold the places that are shown, None for what is left out, and the
                     colours of the rows of the source
    moves            pairs of a source place and the target place that its element goes to, target places ascending
    facts            lines at the top, such as those about the launch in `Plan.explain`
    """

    source: Figure
    target: Figure
    moves: tuple[tuple[int, int], ...] = ()
    facts: tuple[str, ...] = ()


def plan_figure(
    source: Shape, target: Shape, facts: Sequence[str] = (), names: Sequence[str] | None = None
) -> PlanFigure:
    """What the picture of a relayout shows, with these facts at its top."""
    figures = figure_of(source, names=names), figure_of(target, names=names)
    if figures[1].reason:
        return PlanFigure(*figures, facts=tuple(facts))
    places = Places(source), Places(target)
    shown = _target_places(places[1])
    moves = [
        (places[0].at_index(places[1].at_place(place).index).place, place)
        for place in shown
        if places[1].at_place(place).is_element
    ]
    whole = source.buffer_size <= WHOLE_PLACES
    read = range(source.buffer_size) if whole else sorted(place for place, _ in moves)
    rows = {place: place // places[0].color_length for place, _ in moves}
    colors = {row: number for number, row in enumerate(sorted(set(rows.values())))}
    of_source = {place: colors[row] for place, row in rows.items()}
    of_target = {place: of_source[source_place] for source_place, place in moves}
    return PlanFigure(
        _with_strip(figures[0], places[0], read, of_source),
        _with_strip(figures[1], places[1], shown, of_target),
        tuple(moves),
        tuple(facts),
    )


def _with_strip(figure: Figure, places: Places, shown: Sequence[int], colors: dict[int, int]) -> Figure:
    """The same figure with these places in its strip; an element has the colour of its row of the source."""
    if figure.reason:
        return figure
    cells = (
        place if place is None else replace(places.at_place(place), color=colors.get(place, 0))
        for place in with_gaps(shown, figure.shape.buffer_size)
    )
    return replace(figure, strip=tuple(cells))


def _target_places(places: Places) -> list[int]:
    """The places of the target that are drawn, ascending."""
    size = places.shape.buffer_size
    if size <= WHOLE_PLACES:
        return list(range(size))
    ends = [*places.blocks[:1], places.row]
    wanted = [*range(_FIRST), size - 1, *(end + step for end in ends for step in (0, -1, 1))]
    inside = dict.fromkeys(place for place in wanted if place < size)
    return sorted(list(inside)[:_MOST])


# ---- as SVG ---------------------------------------------------------------------------------------------------


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
    low, high = top + 8 + 16 + CELL_HEIGHT + 7, top + 8 + 16 + CELL_HEIGHT + 7 + _ARROWS
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
    width, x = strip_width(figure), MARGIN
    y, bars = (top + 16, top + 16 + CELL_HEIGHT) if numbers_above else (top, top - 7)
    sectors: dict[int, tuple[int, int]] = {}
    middles = {}
    for cell in figure.strip:
        if cell is None:
            sheet.text(x + _GAP // 2, y + CELL_HEIGHT // 2 + 4, "…", "gl-muted", "middle")
            x += _GAP
            continue
        text = cell.text if cell.is_element else number
        color = cell.color % COLORS if cell.is_element else None
        sheet.cell((x, y, width, CELL_HEIGHT), numbers.get(cell.place, cell.place), tip(figure, cell), text, color)
        sheet.text(
            x + width // 2, top + 12 if numbers_above else y + CELL_HEIGHT + 12, str(cell.place), _NUMBER, "middle"
        )
        middles[cell.place] = x + width // 2
        sector = cell.place * figure.shape.bits_per_element // (8 * _SECTOR)
        sectors[sector] = sectors.get(sector, (x, x))[0], x + width
        x += width
    sheet.path("gl-sector", "".join(f"M{start + 2} {bars + 3}H{end - 2}" for start, end in sectors.values()))
    return middles
