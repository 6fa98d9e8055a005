"""`draw` of shapes and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from gpulayout.layout.example import example
from gpulayout.layout.layout import Layout
from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.shape_picture import ShapePicture


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
