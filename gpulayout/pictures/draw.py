"""`draw` of shapes and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from gpulayout.layout.example import example
from gpulayout.layout.layout import Layout
from gpulayout.layout.picture import COLUMNS, LEAST_COLUMNS, Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import PAGE, TERMINAL, figure_of
from gpulayout.pictures.shape_svg import shape_svg
from gpulayout.pictures.shape_text import ASCII, UNICODE, shape_text


def draw(
    subject: Shape | Layout,
    *,
    dimensions: Iterable[SupportsIndex] | None = None,
    names: str | Sequence[str] | None = None,
    elements: Sequence[object] = (),
) -> Picture:
    """The picture of a shape, with `names` and `elements` as in `Shape.draw`; or of an array in a layout.

    dimensions   of that array, as in `Layout.draw`
    """
    shape = example(subject, dimensions) if isinstance(subject, Layout) else subject
    return ShapePicture(shape, names, elements)


class ShapePicture(Picture):
    """A picture of a shape; `names` and `elements` as in `Shape.draw`."""

    def __init__(self, shape: Shape, names: str | Sequence[str] | None = None, elements: Sequence[object] = ()):
        self._shape, self._names, self._elements = shape, names, elements
        self._figure = figure_of(shape, names=names, elements=elements, room=PAGE)

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return shape_svg(self._figure)

    def as_text(self, *, width: int = COLUMNS, ascii_only: bool = False) -> str:
        """The picture drawn with characters."""
        width = max(width, LEAST_COLUMNS)
        room = TERMINAL._replace(width=width)
        figure = figure_of(self._shape, names=self._names, elements=self._elements, room=room)
        return shape_text(figure, glyphs=ASCII if ascii_only else UNICODE, width=width)
