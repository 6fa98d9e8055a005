"""Shapes as the bytes of `xla.ShapeProto`, which XLA, JAX and TensorFlow store and send.

f32[2,3]{1,0} is

    10 0b  1a 02 02 03          element_type 11, f32; dimensions 2 and 3
    2a 07  0a 02 01 00          layout, seven bytes: minor_to_major 1 and 0,
           80 01 01             tail_padding_alignment_in_elements 1
    32 02 00 00                 is_dynamic_dimension: false for both
"""

from __future__ import annotations

from typing import cast

from gpulayout.layout import checks
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_any_shape
from gpulayout.xla.protos import messages
from gpulayout.xla.protos.layout import ELEMENT_TYPES, named, put, read_layout, resize, write_layout
from gpulayout.xla.protos.messages import Dialect, Message

_OTHERS = {kind.proto_number: kind for kind in (TupleShape, TokenShape, OpaqueShape, BufferShape)}
_UNBOUNDED_SIZE = -(2**63)  # how XLA writes the size of a dynamic dimension without a bound


def shape_to_proto(shape: AnyShape | str, dialect: Dialect = "xla", *, into: bytes = b"") -> bytes:
    """A shape as the bytes of `xla.ShapeProto`; the inverse of `shape_from_proto`.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.
    into : bytes, optional
        A message to write the shape into.  Fields that this library does not know stay, at every depth:
        `shape_to_proto(shape_from_proto(data), into=data)` keeps all of `data`.

    Raises
    ------
    LayoutError
        For a field that the dialect does not have; the message names it.

    Notes
    -----
    The bytes are those that XLA writes, always with the layout.

    Examples
    --------
    >>> shape_to_proto("f32[2,3]{0,1}").hex()
    '100b1a0202032a070a02000180010132020000'
    """
    shape = parse_any_shape(shape) if isinstance(shape, str) else shape
    if not isinstance(shape, AnyShape):
        raise TypeError(f"shape must be a shape or its text, not {type(shape).__name__}")
    messages.check_dialect(dialect)
    message = messages.parse("ShapeProto", into)
    if into:
        read_shape(message, dialect)
    write_shape(shape, message, dialect)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def shape_from_proto(data: bytes | bytearray | memoryview, dialect: Dialect = "xla") -> AnyShape:
    """The shape in the bytes of `xla.ShapeProto`; the inverse of `shape_to_proto`.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        The message.
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        An array without a layout gets the descending one, as in text.

    Raises
    ------
    LayoutError
        For bytes that are not such a message, and for an invalid field; the message names the path to it.  Fields
        that no dialect has are ignored.

    Examples
    --------
    >>> print(shape_from_proto(bytes.fromhex("100b1a0202032a040a020001")))
    f32[2,3]{0,1}
    """
    messages.check_dialect(dialect)
    return read_shape(messages.parse("ShapeProto", data), dialect)


# ---- reading ---------------------------------------------------------------------------------------


def read_shape(message: Message, dialect: Dialect, path: str = "ShapeProto", depth: int = 0) -> AnyShape:
    """The shape of a message inside `depth` tuples; `path` names it in errors."""
    messages.check_fields(message, dialect, path)
    number = message.element_type
    if number in ELEMENT_TYPES:
        return _read_array(message, dialect, path)
    if number not in _OTHERS:
        raise LayoutError(f"{path}.element_type {number} is not the number of one of XLA's element types")
    kind = _OTHERS[number]
    _check_absent(message, path, kind.__name__, "dimensions", "is_dynamic_dimension", "layout")
    if kind is TokenShape or kind is OpaqueShape:
        _check_absent(message, path, kind.__name__, "tuple_shapes")
        return TokenShape() if kind is TokenShape else OpaqueShape()
    if depth == MAX_DEPTH:
        raise LayoutError(f"{path}: more than {MAX_DEPTH} nested tuples")
    parts = [
        read_shape(part, dialect, f"{path}.tuple_shapes[{entry}]", depth + 1)
        for entry, part in enumerate(message.tuple_shapes)
    ]
    if kind is BufferShape and len(parts) != 1:
        raise LayoutError(
            f"{path}.tuple_shapes has {checks.counted(len(parts), 'entry')}: a BufferShape holds one array"
        )
    with named(path):  # BufferShape refuses what is not an array
        return TupleShape(tuple(parts)) if kind is TupleShape else BufferShape(cast(Shape, parts[0]))


def _read_array(message: Message, dialect: Dialect, path: str) -> Shape:
    element_type = ELEMENT_TYPES[message.element_type]
    _check_absent(message, path, f"an array of {element_type}", "tuple_shapes")
    flags = tuple(message.is_dynamic_dimension) or (False,) * len(message.dimensions)
    if len(flags) != len(message.dimensions):
        raise LayoutError(
            f"{path}.is_dynamic_dimension has {checks.counted(len(flags), 'entry')} for "
            f"{checks.counted(len(message.dimensions), 'dimension')}"
        )
    sizes = [UNBOUNDED if size == _UNBOUNDED_SIZE else size for size in message.dimensions]
    layout = read_layout(message.layout, dialect, f"{path}.layout") if message.HasField("layout") else None
    with named(path):
        return Shape(element_type, sizes, layout, dynamic_dimensions=flags)


def _check_absent(message: Message, path: str, kind: str, *names: str) -> None:
    present = {descriptor.name for descriptor, _ in message.ListFields()}
    for name in names:
        if name in present:
            raise LayoutError(f"{path}.{name} is set: {kind}, element_type {message.element_type}, has none")


# ---- writing ---------------------------------------------------------------------------------------


def write_shape(shape: AnyShape, message: Message, dialect: Dialect) -> None:
    """Set all fields of a message from the shape."""
    parts = shape.shapes if isinstance(shape, TupleShape) else (shape.shape,) if isinstance(shape, BufferShape) else ()
    resize(message.tuple_shapes, len(parts))
    for part, inner in zip(parts, message.tuple_shapes):
        write_shape(part, inner, dialect)
    if isinstance(shape, Shape):
        _write_array(shape, message, dialect)
        return
    put(message, "element_type", shape.proto_number)
    for name in ("dimensions", "is_dynamic_dimension", "layout"):
        message.ClearField(name)


def _write_array(shape: Shape, message: Message, dialect: Dialect) -> None:
    if dialect not in messages.MESSAGES["ShapeProto"]["is_dynamic_dimension"].dialects:
        if shape.is_dynamic:
            raise LayoutError(f"dynamic_dimensions of {shape} cannot be expressed in the dialect {dialect!r} of protos")
        flags: tuple[bool, ...] = ()
    else:
        flags = shape.dynamic_dimensions
    put(message, "element_type", shape.element_type.proto_number)
    put(message, "dimensions", [_UNBOUNDED_SIZE if size is UNBOUNDED else size for size in shape.dimensions])
    put(message, "is_dynamic_dimension", flags)
    write_layout(shape.layout, message.layout, dialect)
