"""Pictures of shapes, as users get them."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayout.layout.picture import COLUMNS, LEAST_COLUMNS, Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.boxes import ASCII, UNICODE
from gpulayout.pictures.figure import PAGE, TERMINAL, figure_of
from gpulayout.pictures.shape_svg import shape_svg
from gpulayout.pictures.shape_text import shape_text


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
