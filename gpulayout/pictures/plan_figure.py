"""What a picture of a plan shows: facts, places of both buffers, and where every element goes.

Small buffers are drawn whole.  Of larger ones, the picture shows the first places of the target, the ends of its rows
and tiles, and the places of the source that these elements come from.  f32[4096,4096] to {0,1}: target places 0 1 2 3
come from the source places 0 4096 8192 12288.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import Figure, Places, figure_of
from gpulayout.pictures.shown import with_gaps

WHOLE_PLACES = 24  # of a buffer that is drawn whole
_FIRST, _MOST = 4, 9  # places of a larger target


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
    """The picture of a relayout, with these facts at its top."""
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
        for place in with_gaps(list(shown), figure.shape.buffer_size)
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
