"""The picture of a plan, as users get it: SVG for notebooks and slides, text for terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from gpulayout.layout.picture import COLUMNS, LEAST_COLUMNS, Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.boxes import ASCII, UNICODE
from gpulayout.pictures.figure import Figure
from gpulayout.pictures.legend import padding_mark
from gpulayout.pictures.plan_figure import PlanFigure, plan_figure
from gpulayout.pictures.plan_svg import plan_svg
from gpulayout.pictures.shape_text import draw_strip


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
