"""Shapes as text, in XLA's grammar, and as arguments: every public function takes a `Shape` or its text.

    shape   := array | tuple | "b" "(" array ")" | "token" "[" "]" | "opaque" "[" "]"
    array   := type "[" [size ("," size)*] "]" [layout]           a size is 5, <=5 (dynamic with a bound) or ? (without)
    tuple   := "(" [shape ("," shape)*] ")"

Text that begins like `cublas:block_scales[200,10]` is a name.  A room that this one may not import knows the names: the
package's `__init__.py` hands its reader down, and the first such text loads it.  There are no names inside tuples.

A missing layout means descending.  A layout in a shape cannot be `{}`: in XLA's grammar a brace after a shape starts a
layout only when a number or a colon follows.  Reading takes linear time, and the depth of tuples is limited.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpulayout.layout.checks import are_sizes, shown, value_text
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType, why_no_type
from gpulayout.layout.errors import LayoutError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import PROPERTIES, parse_layout, read_layout
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text_reader import Reader

Parsed = TypeVar("Parsed")

# What most text is: a type, plain sizes and an order.  No number of it is larger than 63 bits.
_NUMBERS = "[0-9]{1,18}(?:,[0-9]{1,18})*"
_USUAL = re.compile(rf"([a-z0-9]+)\[({_NUMBERS})?\](?:\{{({_NUMBERS})\}})?")
# The text of a shape never begins like this: its first word is an element type, and a bracket follows.
_NAME = re.compile(r"\s*[A-Za-z]\w*:[A-Za-z]\w*\s*(?:[(\[]|$)")
LONGEST_KEPT = 512  # characters; the value of a longer text may take 200 KB or more, so it is not cached
_WITHOUT_ARRAY: dict[str, type[TokenShape] | type[OpaqueShape]] = {"token": TokenShape, "opaque": OpaqueShape}


def parse_shape(text: str) -> Shape:
    """The shape of an array from its text: the exact inverse of `str(shape)`.

    Parameters
    ----------
    text : str
        Such as `f32[2,3]{0,1:PD(3,5)PV(lowest)}`.  Without a layout the order is descending (row-major).

    Returns
    -------
    Shape

    Raises
    ------
    ShapeTextError
        A `LayoutError` whose `position` is the first character that does not fit, from 0.  For a well-formed
        shape that cannot exist, it is the first character of the shape or the layout.

    See Also
    --------
    parse_layout : a layout without a shape.
    gpulayout.xla.parse_any_shape : tuples, tokens, opaque values and buffers too.

    Notes
    -----
    The grammar is XLA's, plus `PD(...)` for padded dimensions, `PV(...)` for the padding value and `E(1,big)` for the
    bit order.  Text of any other kind of shape gives what `gpulayout.xla.parse_any_shape` returns; the annotation
    leaves these types out.

    Examples
    --------
    >>> shape = parse_shape("f32[2,3]{0,1:PD(3,5)PV(lowest)}")
    >>> shape.dimensions, shape.layout.padded_dimensions, shape.buffer_size
    ((2, 3), (3, 5), 15)
    """
    return parse_any_shape(text)  # type: ignore[return-value]  # the usual case, see Notes


def parse_any_shape(text: str) -> AnyShape:
    """A shape of any kind from its text: an array, tuple, token, opaque value or buffer.

    Parameters
    ----------
    text : str
        Such as `(f32[2]{0}, token[])`, as `str(shape)` writes it.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape

    Raises
    ------
    ShapeTextError
        A `LayoutError` whose `position` is the first character that does not fit.

    See Also
    --------
    gpulayout.parse_shape : typed for arrays, the usual case.

    Examples
    --------
    >>> parse_any_shape("(f32[<=2], token[])")
    TupleShape((Shape('f32', (2,), Layout((0,)), dynamic_dimensions=(True,)), TokenShape()))
    """
    if (known := _usual(text) or _named(text)) is not None:
        return known
    reader = Reader(text)
    shape = read_shape(reader)
    _end(reader)
    return shape


def _usual(text: str) -> Shape | None:
    """The shape of text such as `f32[2,3]{0,1}`, read at once instead of token by token.

    None for other text and for text with an error: the reader says where it is.
    """
    match = _USUAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    name, sizes, order = match.groups()
    try:
        layout = None if order is None else Layout(tuple(map(int, order.split(","))))
        return Shape(ElementType(name), tuple(map(int, sizes.split(","))) if sizes else (), layout)
    except (LayoutError, ValueError):
        return None


_read: Callable[[str], Shape | None]


def read_names_with(read: Callable[[str], Shape | None]) -> None:
    """Hand down the function that reads the shape of a name."""
    global _read
    _read = read


def _named(text: str) -> Shape | None:
    """The shape that a text names; None for text of another kind, LayoutError for a name that there is not."""
    return _read(text) if isinstance(text, str) and _NAME.match(text) else None


def parse_array_shape(text: str) -> Shape:
    """The shape of one array from its text; tuples, tokens, opaque values and buffers are refused.

    Parameters
    ----------
    text : str
        Such as `f32[2,3]{0,1}`.

    Returns
    -------
    Shape

    Raises
    ------
    ShapeTextError
        The text is not a shape, or not that of one array.

    Examples
    --------
    >>> str(parse_array_shape("f32[2,3]"))
    'f32[2,3]{1,0}'
    """
    shape = parse_any_shape(text)
    if not isinstance(shape, Shape):
        raise Reader(text).error("expected the shape of one array")
    return shape


def _end(reader: Reader) -> None:
    """The end of the text; an error hints at a layout in the wrong place."""
    if reader.ahead("(") or reader.ahead("["):
        raise reader.error("expected the end (braces enclose a layout, as in f32[2,3]{1,0})")
    if reader.ahead(":") or (reader.kind == "name" and reader.value in PROPERTIES):
        raise reader.error("expected the end (properties are part of the layout, as in f32[2,3]{1,0:T(8,128)})")
    reader.end()


def read_shape(reader: Reader, depth: int = 0) -> AnyShape:
    """The shape that begins at the reader's token, inside `depth` tuples."""
    if reader.ahead("("):
        return _tuple(reader, depth)
    if reader.accept_name("b"):
        return BufferShape(reader.enclosed(lambda: _array(reader)))
    return read_leaf(reader)


def read_leaf(reader: Reader) -> Shape | TokenShape | OpaqueShape:
    """The array, token or opaque value that begins at the reader's token: the shapes without parentheses."""
    if reader.kind == "name" and reader.value in _WITHOUT_ARRAY:
        make = _WITHOUT_ARRAY[reader.advance()]
        reader.mark("[")
        reader.mark("]")
        return make()
    return _array(reader)


def _tuple(reader: Reader, depth: int) -> TupleShape:
    if depth == MAX_DEPTH:
        raise reader.error(f"more than {MAX_DEPTH} nested tuples")
    reader.mark("(")
    shapes = reader.listed(lambda: read_shape(reader, depth + 1), ")")
    reader.mark(")")
    return TupleShape(shapes)


def _array(reader: Reader) -> Shape:
    if reader.kind == "number" or reader.value in ("[", "{"):
        raise reader.error("expected an element type (it comes first, as in f32[2,3]{1,0})")
    if reader.value in ("<", ">"):
        raise reader.error("expected a type without a byte order: f32[2,3], and for a file byte_order='big' beside it")
    position, name = reader.position, reader.take("name", "an element type")
    try:
        element_type = ElementType(name)
    except ValueError:
        why = "is not one of XLA's element types"
        why = why_no_type(name, why) if reader.ahead("[") else why
        raise reader.error(f"{name[:32]!r} {why}", position) from None
    if not reader.accept("["):
        example = f"a scalar is {name}[]" if reader.kind == "end" else f"as in {name}[2,3]"
        raise reader.error(f"expected '[' ({example})")
    sizes = reader.listed(lambda: _size(reader), "]")
    if reader.kind == "name" and reader.value.startswith("x"):
        raise reader.error("expected ']' (commas separate sizes, as in f32[2,3])")
    reader.mark("]")
    has_layout = reader.layout_ahead()
    start = reader.position if has_layout else position
    layout = read_layout(reader) if has_layout else None
    dimensions, dynamic = [size for size, _ in sizes], [is_dynamic for _, is_dynamic in sizes]
    return reader.built(start, lambda: Shape(element_type, dimensions, layout, dynamic_dimensions=dynamic))


def _size(reader: Reader) -> tuple[int, bool]:
    """A size and whether it is dynamic."""
    if reader.accept("?"):
        return UNBOUNDED, True
    is_dynamic = reader.accept("<=")
    return reader.number("a dimension size"), is_dynamic


# ---- shapes as arguments --------------------------------------------------------------------------------


def _kept(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """`parse` with a cache for short texts.

    Parsing one takes longer than all else in a call on a small buffer.  A value takes about 3 KB, or 34 KB for 250
    dimensions: 35 MB at most.
    """
    kept = functools.lru_cache(maxsize=1024)(parse)
    return lambda text: kept(text) if len(text) <= LONGEST_KEPT else parse(text)


_parsed, parsed_layout = _kept(parse_array_shape), _kept(parse_layout)


def as_shape(value: Shape | str, role: str = "shape") -> Shape:
    """A shape from a shape or its text; TypeError for anything else.

    >>> str(as_shape("f32[2,3]"))
    'f32[2,3]{1,0}'
    """
    if isinstance(value, Shape):
        return value
    if isinstance(value, str):
        if "->" in value and is_only_layout(value):
            raise ShapeTextError(
                f"{role} {value_text(value)} is a pattern: write the whole shape; gl.plan(shape, pattern).target is "
                "one, for the shape of the array before the pattern"
            )
        if value.lstrip().startswith("{"):
            raise ShapeTextError(
                f"{role} {value_text(value)} is only a layout: write the whole shape, such as 'f32[2,3]{{0,1}}'"
            )
        if value.isidentifier() and value not in list(ElementType):
            raise ShapeTextError(f"{role} {value_text(value)} is not a shape: write one, such as 'f32[2,3]{{0,1}}'")
        return _parsed(value)
    raise TypeError(f"{role} must be a Shape or its text, not {type(value).__name__}{_hint(value)}")


def _hint(value: object) -> str:
    """What to write instead of a value that is not a shape, or nothing."""
    if isinstance(value, (tuple, list)) and are_sizes(value):
        return sizes_hint(value)
    if isinstance(value, Layout):
        return f": {value} is only a layout, write the whole shape, such as 'f32[2,3]{{0,1}}'"
    if hasattr(value, "__dlpack__"):
        return ": arrays come before shapes, and gl.shape_of(array) is the shape of one"
    return ""


def sizes_hint(sizes: Sequence[Any], element_type: str = "f32") -> str:
    """What to write instead of sizes where a shape is meant, such as the `shape` of an array."""
    return f": write gl.Shape('{element_type}', {shown(sizes)}) or its text; that of a gl.Array is array.layout_shape"


def is_only_layout(value: object) -> bool:
    """True for a `Layout`, for text that begins with a brace, and for text without brackets: the text of every array's
    shape has them, and (), that of a tuple, is no layout either.
    """
    if not isinstance(value, str):
        return isinstance(value, Layout)
    return value.lstrip().startswith("{") or "[" not in value and (not value.lstrip().startswith("(") or "->" in value)


def as_any_shape(value: AnyShape | str, role: str = "shape") -> AnyShape:
    """A shape of any kind from a shape or its text; TypeError for anything else.

    >>> str(as_any_shape("(f32[2], token[])"))
    '(f32[2]{0}, token[])'
    """
    if isinstance(value, str):
        return parse_any_shape(value)
    if isinstance(value, AnyShape):
        return value
    raise TypeError(f"{role} must be a shape or its text, not {type(value).__name__}{_hint(value)}")
