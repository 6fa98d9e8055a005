"""Shapes as text: XLA's grammar.

    shape   := array | tuple | "b" "(" array ")" | "token" "[" "]" | "opaque" "[" "]"
    array   := type "[" [size ("," size)*] "]" [layout]           a size is 5, <=5 (dynamic with a bound) or ? (without)
    tuple   := "(" [shape ("," shape)*] ")"

A missing layout means descending.  A layout in a shape cannot be `{}`: in XLA's grammar a brace after a shape starts a
layout only when a number or a colon follows.  The reader takes linear time, and tuples end at a fixed depth.
"""

from __future__ import annotations

from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout_text import read_layout
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text_reader import Reader

_WITHOUT_ARRAY: dict[str, type[TokenShape] | type[OpaqueShape]] = {"token": TokenShape, "opaque": OpaqueShape}


def parse_shape(text: str) -> AnyShape:
    """The shape written as `f32[2,3]{0,1:PD(3,5)PV(lowest)}`: the exact inverse of `str(shape)`.

    A `Shape` for the text of an array; a `TupleShape`, `TokenShape`, `OpaqueShape` or `BufferShape` for others.
    ShapeTextError (a LayoutError with `.position`) points at the first character that does not fit; for a layout or
    shape that reads well but cannot be, at its beginning.

    >>> parse_shape("f32[2,3]{0,1:PD(3,5)PV(lowest)}").buffer_size
    15
    >>> parse_shape("(f32[<=2], token[])")
    TupleShape((Shape('f32', (2,), Layout((0,)), dynamic_dimensions=(True,)), TokenShape()))
    """
    reader = Reader(text)
    shape = read_shape(reader)
    reader.end()
    return shape


def parse_array_shape(text: str) -> Shape:
    """As `parse_shape` for the text of one array; ShapeTextError for tuples, tokens, opaque values and buffers."""
    reader = Reader(text)
    start = reader.position
    shape = read_shape(reader)
    reader.end()
    if not isinstance(shape, Shape):
        raise reader.error("expected the shape of one array", start)
    return shape


def read_shape(reader: Reader, depth: int = 0) -> AnyShape:
    """The shape that begins at the reader's token, which is inside `depth` tuples."""
    if reader.ahead("("):
        return _tuple(reader, depth)
    if reader.accept_name("b"):
        reader.mark("(")
        shape = _array(reader)
        reader.mark(")")
        return BufferShape(shape)
    return read_leaf(reader)


def read_leaf(reader: Reader) -> Shape | TokenShape | OpaqueShape:
    """The array, token or opaque value that begins at the reader's token: what has no parentheses."""
    if reader.kind == "name" and reader.value in _WITHOUT_ARRAY:
        make = _WITHOUT_ARRAY[reader.advance()]
        reader.mark("[")
        reader.mark("]")
        return make()
    return _array(reader)


def _tuple(reader: Reader, depth: int) -> TupleShape:
    if depth == MAX_DEPTH:
        raise reader.error(f"nested tuples are more than {MAX_DEPTH}, the limit")
    reader.mark("(")
    shapes = []
    if not reader.ahead(")"):
        shapes.append(read_shape(reader, depth + 1))
        while reader.accept(","):
            shapes.append(read_shape(reader, depth + 1))
    reader.mark(")")
    return TupleShape(shapes)


def _array(reader: Reader) -> Shape:
    position, name = reader.position, reader.take("name", "an element type")
    try:
        element_type = ElementType(name)
    except ValueError:
        raise reader.error(f"{name[:32]!r} is not one of XLA's element types{_meant(name)}", position) from None
    reader.mark("[")
    sizes = [] if reader.ahead("]") else [_size(reader)]
    while reader.accept(","):
        sizes.append(_size(reader))
    reader.mark("]")
    has_layout = reader.layout_ahead()
    start = reader.position if has_layout else position
    layout = read_layout(reader) if has_layout else None
    dimensions, dynamic = [size for size, _ in sizes], [is_dynamic for _, is_dynamic in sizes]
    return reader.built(start, lambda: Shape(element_type, dimensions, layout, dynamic_dimensions=dynamic))


def _size(reader: Reader) -> tuple[int, bool]:
    """A size, and whether it is dynamic."""
    if reader.accept("?"):
        return UNBOUNDED, True
    is_dynamic = reader.accept("<=")
    return reader.number("a dimension size"), is_dynamic


def _meant(name: str) -> str:
    """The XLA name of a NumPy name such as int8, or of one in the wrong case."""
    try:
        return f" (did you mean {ElementType.of(name.lower()).value!r}?)" if len(name) > 2 else ""
    except TypeError:
        return ""
