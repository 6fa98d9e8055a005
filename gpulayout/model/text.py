"""Shapes as text: XLA's grammar.

    shape   := type "[" [size ("," size)*] "]" [layout]

A missing layout means descending.  A layout in a shape cannot be `{}`: in XLA's grammar a brace after a shape starts a
layout only when a number or a colon follows.  The reader takes linear time.
"""
from __future__ import annotations

from gpulayout.model.element_type import ElementType
from gpulayout.model.layout_text import read_layout
from gpulayout.model.shape import Shape
from gpulayout.model.text_reader import Reader


def parse_shape(text: str) -> Shape:
    """The shape written as `f32[2,3]{0,1:PD(3,5)PV(lowest)}`: the exact inverse of `str(shape)`.

    ShapeTextError (a LayoutError with `.position`) points at the first character that does not fit; for a layout or
    shape that reads well but cannot be, at its beginning.

    >>> parse_shape("f32[2,3]{0,1:PD(3,5)PV(lowest)}").buffer_size
    15
    """
    reader = Reader(text)
    position, name = reader.position, reader.take("name", "an element type")
    try:
        element_type = ElementType(name)
    except ValueError:
        raise reader.error(f"{name[:32]!r} is not one of XLA's element types{_meant(name)}", position) from None
    reader.mark("[")
    dimensions = reader.numbers("]", "a dimension size")
    start = reader.position if reader.ahead("{") else position
    layout = read_layout(reader) if reader.ahead("{") else None
    reader.end()
    return reader.built(start, lambda: Shape(element_type, dimensions, layout))


def _meant(name: str) -> str:
    """The XLA name of a NumPy name such as int8, or of one in the wrong case."""
    try:
        return f" (did you mean {ElementType.of(name.lower()).value!r}?)" if len(name) > 2 else ""
    except TypeError:
        return ""
