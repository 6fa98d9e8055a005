"""Shapes and layouts as the bytes of `xla.ShapeProto` and `xla.LayoutProto`.

XLA, JAX and TensorFlow store and send these.  Needs protobuf, the extra `proto`.

protobuf leaves out a field that has its default.  A tail padding alignment of 1 is written nevertheless, as XLA does:

    f32[2,3]{1,0}
                10 0b           element_type: 11, f32
                1a 02 02 03     dimensions, two bytes: 2, 3
                2a 07           layout, seven bytes:
                    0a 02 01 00     minor_to_major, two bytes: 1, 0
                    80 01 01        tail_padding_alignment_in_elements: 1
                32 02 00 00     is_dynamic_dimension, two bytes: false for both

    {0,1:PD(3,5)PV(lowest)} in the dialect "2017"
                0a 02 00 01     minor_to_major, two bytes: 0, 1
                12 02 03 05     padded_dimensions, two bytes: 3, 5
                18 03           padding_value: 3
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, cast

from gpulayout.layout import checks
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import SplitConfig
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_any_shape
from gpulayout.layout.tile import Combine, Tile
from gpulayout.xla.proto_messages import MESSAGES, Dialect, Message, check_fields, parse

_DENSE = 1  # of the old enumeration `format`: 0 is unset, 2 is sparse
_ELEMENT_TYPES = {member.proto_number: member for member in ElementType}
_OTHERS = {kind.proto_number: kind for kind in (TupleShape, TokenShape, OpaqueShape, BufferShape)}
_UNBOUNDED_SIZE = -(2**63)  # how XLA writes the size of a dynamic dimension without a bound


def shape_to_proto(shape: AnyShape | str, dialect: Dialect = "xla", *, into: bytes = b"") -> bytes:
    """A shape, layout included, as the bytes of `xla.ShapeProto` that XLA writes; the inverse of `shape_from_proto`.

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

    Examples
    --------
    >>> shape_to_proto("f32[2,3]{0,1}").hex()
    '100b1a0202032a070a02000180010132020000'
    """
    shape = as_any_shape(shape)
    message = parse("ShapeProto", into, dialect)
    if into:
        _read_shape(message, dialect)
    _write_shape(shape, message, dialect)
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
    return _read_shape(parse("ShapeProto", data, dialect), dialect)


def layout_to_proto(layout: Layout | str, dialect: Dialect = "xla", *, into: bytes = b"") -> bytes:
    """A layout as the bytes of `xla.LayoutProto` that XLA writes; the inverse of `layout_from_proto`.

    Parameters
    ----------
    layout : Layout or str
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.
    into : bytes, optional
        A message to write the layout into.  Fields that this library does not know stay, also those of tiles and split
        configurations: `layout_to_proto(layout_from_proto(data), into=data)` keeps all of `data`.

    Raises
    ------
    LayoutError
        For a field that the dialect does not have: padding today; tiles and all later properties in 2017; a number as
        padding value and tiles with `*` in both.

    Examples
    --------
    >>> from gpulayout import Layout
    >>> layout_to_proto(Layout((0, 1), padded_dimensions=(3, 5), padding_value="lowest"), "2017").hex(" ")
    '0a 02 00 01 12 02 03 05 18 03'
    """
    layout = parse_layout(layout) if isinstance(layout, str) else layout
    if not isinstance(layout, Layout):
        raise LayoutTypeError(f"layout {layout!r} is not a Layout: it is {checks.type_text(layout)}")
    message = parse("LayoutProto", into, dialect)
    if into:
        _read_layout(message, dialect)
    _write_layout(layout, message, dialect)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def layout_from_proto(data: bytes | bytearray | memoryview, dialect: Dialect = "xla") -> Layout:
    """The layout in the bytes of `xla.LayoutProto`; the inverse of `layout_to_proto`.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        The message.
    dialect : {"xla", "2017"}, optional
        "xla" is today's proto, which has no padding.  "2017" is the first one, which has only order and padding.

    Raises
    ------
    LayoutError
        For bytes that are not such a message, a layout that cannot exist, a sparse layout, and a field of the other
        dialect; the message names the field.  Fields that no dialect has are ignored.

    Examples
    --------
    >>> print(layout_from_proto(bytes.fromhex("0a020001 32050a03088001")))
    {0,1:T(8,128)}
    """
    return _read_layout(parse("LayoutProto", data, dialect), dialect)


# ---- reading -------------------------------------------------------------------------------------


def _read_shape(message: Message, dialect: Dialect, path: str = "ShapeProto", depth: int = 0) -> AnyShape:
    """The shape of a message inside `depth` tuples; `path` names it in errors."""
    check_fields(message, dialect, path)
    number = message.element_type
    if number in _ELEMENT_TYPES:
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
        _read_shape(part, dialect, f"{path}.tuple_shapes[{entry}]", depth + 1)
        for entry, part in enumerate(message.tuple_shapes)
    ]
    if kind is BufferShape and len(parts) != 1:
        raise LayoutError(
            f"{path}.tuple_shapes has {checks.counted(len(parts), 'entry')}: a BufferShape holds one array"
        )
    with _named(path):  # BufferShape refuses what is not an array
        return TupleShape(tuple(parts)) if kind is TupleShape else BufferShape(cast(Shape, parts[0]))


def _read_array(message: Message, dialect: Dialect, path: str) -> Shape:
    element_type = _ELEMENT_TYPES[message.element_type]
    _check_absent(message, path, f"an array of {element_type}", "tuple_shapes")
    flags = tuple(message.is_dynamic_dimension) or (False,) * len(message.dimensions)
    if len(flags) != len(message.dimensions):
        raise LayoutError(
            f"{path}.is_dynamic_dimension has {checks.counted(len(flags), 'entry')} for "
            f"{checks.counted(len(message.dimensions), 'dimension')}"
        )
    sizes = [UNBOUNDED if size == _UNBOUNDED_SIZE else size for size in message.dimensions]
    layout = _read_layout(message.layout, dialect, f"{path}.layout") if message.HasField("layout") else None
    with _named(path):
        return Shape(element_type, sizes, layout, dynamic_dimensions=flags)


def _check_absent(message: Message, path: str, kind: str, *names: str) -> None:
    present = {descriptor.name for descriptor, _ in message.ListFields()}
    for name in names:
        if name in present:
            raise LayoutError(f"{path}.{name} is set: {kind}, element_type {message.element_type}, has none")


def _read_layout(message: Message, dialect: Dialect, path: str = "LayoutProto") -> Layout:
    """The layout of a message; `path` names it in errors."""
    check_fields(message, dialect, path)
    for name in ("tiles", "split_configs"):
        for entry, part in enumerate(getattr(message, name)):
            check_fields(part, dialect, f"{path}.{name}[{entry}]")
    _check_dense(message, path)
    with _named(path):
        return Layout(
            message.minor_to_major,
            padded_dimensions=message.padded_dimensions or None,
            padding_value=_padding_value(message.padding_value),
            tiles=[tuple(tile.dimensions) for tile in message.tiles],
            tail_padding_alignment=message.tail_padding_alignment_in_elements or 1,
            element_size_in_bits=message.element_size_in_bits,
            memory_space=message.memory_space,
            split_configs=[SplitConfig(config.dimension, config.split_indices) for config in message.split_configs],
            dynamic_shape_metadata_prefix_bytes=message.dynamic_shape_metadata_prefix_bytes,
            index_type=_index_type(message.index_primitive_type, "index_primitive_type"),
            pointer_type=_index_type(message.pointer_primitive_type, "pointer_primitive_type"),
        )


def _check_dense(message: Message, path: str) -> None:
    """LayoutError for the fields that once described sparse arrays, unless they say "dense"."""
    if message.format not in (0, _DENSE) or message.max_sparse_elements:
        raise LayoutError(
            f"{path}.format {message.format}, max_sparse_elements {message.max_sparse_elements}: "
            "sparse layouts no longer exist"
        )
    levels = tuple(message.dim_level_types)
    if any(levels):
        raise LayoutError(
            f"{path}.dim_level_types {checks.shown(levels)} is not all 0 (dense): sparse layouts no longer exist"
        )
    if message.HasField("physical_shape"):
        raise LayoutError(f"{path}.physical_shape is set: only sparse layouts had one")


def _padding_value(number: int) -> PaddingValue | None:
    if number not in range(len(PaddingValue)):
        raise LayoutError(f"padding_value {number} is not one of 0..{len(PaddingValue) - 1}")
    return PaddingValue(number) if number else None


def _index_type(number: int, field: str) -> ElementType | None:
    if number and number not in _ELEMENT_TYPES:
        raise LayoutError(f"{field} {number} is not the number of an array's element type")
    return _ELEMENT_TYPES[number] if number else None


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Put the path of the message in front of a LayoutError about its fields."""
    try:
        yield
    except LayoutError as error:
        raise LayoutError(f"{path}: {error}") from None


# ---- writing -------------------------------------------------------------------------------------


def _write_shape(shape: AnyShape, message: Message, dialect: Dialect) -> None:
    """Set all fields of a message from the shape."""
    parts = shape.shapes if isinstance(shape, TupleShape) else (shape.shape,) if isinstance(shape, BufferShape) else ()
    _resize(message.tuple_shapes, len(parts))
    for part, inner in zip(parts, message.tuple_shapes):
        _write_shape(part, inner, dialect)
    if isinstance(shape, Shape):
        _write_array(shape, message, dialect)
        return
    _put(message, "element_type", shape.proto_number)
    for name in ("dimensions", "is_dynamic_dimension", "layout"):
        message.ClearField(name)


def _write_array(shape: Shape, message: Message, dialect: Dialect) -> None:
    has_flags = dialect in MESSAGES["ShapeProto"]["is_dynamic_dimension"].dialects
    if shape.is_dynamic and not has_flags:
        raise LayoutError(f"dynamic_dimensions of {shape} cannot be expressed in the dialect {dialect!r} of protos")
    _put(message, "element_type", shape.element_type.proto_number)
    _put(message, "dimensions", [_UNBOUNDED_SIZE if size is UNBOUNDED else size for size in shape.dimensions])
    _put(message, "is_dynamic_dimension", shape.dynamic_dimensions if has_flags else ())
    _write_layout(shape.layout, message.layout, dialect)


def _write_layout(layout: Layout, message: Message, dialect: Dialect) -> None:
    """Set all fields of a message from the layout."""
    if layout.bit_order != "little":
        raise LayoutError(
            f"bit_order {layout.bit_order} of {_shown(layout)} cannot be expressed in protos: XLA has only 'little'"
        )
    defaults = _values(Layout(()))
    for name, value in _values(layout).items():
        field = MESSAGES["LayoutProto"][name]
        if dialect in field.dialects:
            _put(message, name, value)
        elif value != defaults[name]:
            raise LayoutError(
                f"{name} of {_shown(layout)} cannot be expressed in the dialect {dialect!r} of protos: "
                f"field {field.number} belongs to {field.dialects[0]!r}"
            )


def _values(layout: Layout) -> dict[str, Any]:
    """The value of each field of the message; that of a repeated message as the fields of its entries."""
    return {
        "minor_to_major": layout.minor_to_major,
        "padded_dimensions": layout.padded_dimensions or (),
        "padding_value": _padding_number(layout),
        "tiles": [{"dimensions": _tile_sizes(tile, layout)} for tile in layout.tiles],
        "tail_padding_alignment_in_elements": layout.tail_padding_alignment,
        "element_size_in_bits": layout.element_size_in_bits,
        "memory_space": layout.memory_space,
        "index_primitive_type": layout.index_type.proto_number if layout.index_type else 0,
        "pointer_primitive_type": layout.pointer_type.proto_number if layout.pointer_type else 0,
        "dynamic_shape_metadata_prefix_bytes": layout.dynamic_shape_metadata_prefix_bytes,
        "split_configs": [dataclasses.asdict(split) for split in layout.split_configs],
    }


def _padding_number(layout: Layout) -> int:
    value = layout.padding_value
    if value is not None and not isinstance(value, PaddingValue):
        raise LayoutError(
            f"padding_value of {_shown(layout)} cannot be expressed in protos: they have named values but no numbers"
        )
    return value.value if value else 0


def _tile_sizes(tile: Tile, layout: Layout) -> tuple[int, ...]:
    sizes = [size for size in tile.dimensions if not isinstance(size, Combine)]
    if len(sizes) != len(tile.dimensions):
        raise LayoutError(f"tiles of {_shown(layout)} cannot be expressed in protos: XLA cannot read '*' there")
    return tuple(sizes)


def _shown(layout: Layout) -> str:
    return f"layout {checks.clipped(str(layout), 200)}"


def _put(message: Message, name: str, value: Any) -> None:
    """Set one field.  Repeated messages are overwritten in place, so that their unknown fields stay."""
    if isinstance(value, int):
        setattr(message, name, value)
        return
    field = getattr(message, name)
    if not hasattr(field, "add"):
        del field[:]
        field.extend(value)
        return
    _resize(field, len(value))
    for part, values in zip(field, value):
        for key, entry in values.items():
            _put(part, key, entry)


def _resize(field: Any, length: int) -> None:
    """Give a field of repeated messages this length by cutting or adding at its end."""
    del field[length:]
    while len(field) < length:
        field.add()
