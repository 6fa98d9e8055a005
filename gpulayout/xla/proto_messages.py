"""The messages `xla.LayoutProto` and `xla.ShapeProto`, made at run time with `protobuf` (the extra `proto`).

Generated files register their messages in one pool for the whole process, so two libraries that ship the same message
cannot be imported together, and TensorFlow and torch_xla ship these.  The messages here are made from the table below,
in a pool of their own.

One table serves both dialects, because XLA never used a field number twice.  A dialect is the set of fields that may be
set:

    "xla"     today's; fields 2 and 3 were removed in November 2018
    "2017"    the first release's: only order, padded dimensions and padding value

`format` and `max_sparse_elements` were in layouts until 2022.  Dense layouts of that time set `format`, so both
dialects accept it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError

Dialect = Literal["xla", "2017"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
Message = Any  # its fields exist only at run time
MAX_BYTES = 1 << 22  # of a message; a tuple of 10,000 arrays takes about 400,000


class Field(NamedTuple):
    """One field: its number, its type (a protobuf scalar or a message), and the dialects that have it."""

    number: int
    type: str
    repeated: bool = False
    dialects: tuple[Dialect, ...] = DIALECTS


_TODAY: tuple[Dialect, ...] = ("xla",)
_FIRST: tuple[Dialect, ...] = ("2017",)
# Enumerations are read as plain integers, which are the same on the wire.  This library refuses unknown numbers itself.
MESSAGES = {
    "TileProto": {"dimensions": Field(1, "int64", True)},
    "SplitConfigProto": {"dimension": Field(1, "int64"), "split_indices": Field(2, "int64", True)},
    "LayoutProto": {
        "minor_to_major": Field(1, "int64", True),
        "padded_dimensions": Field(2, "int64", True, _FIRST),
        "padding_value": Field(3, "int64", False, _FIRST),
        "format": Field(4, "int64"),
        "max_sparse_elements": Field(5, "int64"),
        "tiles": Field(6, "TileProto", True, _TODAY),
        "element_size_in_bits": Field(7, "int64", False, _TODAY),
        "memory_space": Field(8, "int64", False, _TODAY),
        "dim_level_types": Field(9, "int64", True, _TODAY),
        "physical_shape": Field(10, "ShapeProto", False, _TODAY),
        "index_primitive_type": Field(11, "int64", False, _TODAY),
        "pointer_primitive_type": Field(12, "int64", False, _TODAY),
        "dim_unique": Field(13, "bool", True, _TODAY),
        "dim_ordered": Field(14, "bool", True, _TODAY),
        "dynamic_shape_metadata_prefix_bytes": Field(15, "int64", False, _TODAY),
        "tail_padding_alignment_in_elements": Field(16, "int64", False, _TODAY),
        "split_configs": Field(17, "SplitConfigProto", True, _TODAY),
    },
    "ShapeProto": {
        "element_type": Field(2, "int64"),
        "dimensions": Field(3, "int64", True),
        "tuple_shapes": Field(4, "ShapeProto", True),
        "layout": Field(5, "LayoutProto"),
        "is_dynamic_dimension": Field(6, "bool", True, _TODAY),
    },
}


def parse(name: str, data: bytes | bytearray | memoryview, dialect: Dialect) -> Message:
    """The message `name` read from its bytes, whose fields `check_fields` checks.

    LayoutError for another dialect than those of `DIALECTS`, for too many bytes and for those that are not a message.
    """
    if dialect not in DIALECTS:
        raise LayoutError(f"dialect {dialect!r} of protos is not one of {', '.join(map(repr, DIALECTS))}")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    data = bytes(data)
    if len(data) > MAX_BYTES:
        raise LayoutError(f"{name} of {len(data)} bytes is longer than {MAX_BYTES}")
    make, decode_error = message_factory()
    message = make(name)
    try:
        message.ParseFromString(data)
    except decode_error as error:
        size = checks.counted(len(data), "byte")
        raise LayoutError(f"{name} of {size} is not a message that protobuf can read: {error}") from None
    return message


def check_fields(message: Message, dialect: str, path: str) -> None:
    """LayoutError for a field that the dialect does not have, and for one whose bytes have another wire type.

    protobuf puts a field of another wire type among the unknown fields, and would silently read the field as unset.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped, unused-ignore]

    fields = MESSAGES[message.DESCRIPTOR.name]
    for descriptor, _ in message.ListFields():
        field = fields[descriptor.name]
        if dialect not in field.dialects:
            raise LayoutError(
                f"{path}.{descriptor.name}, field {field.number}, does not exist in the dialect {dialect!r} of "
                f"protos: it belongs to {field.dialects[0]!r}"
            )
    names = {field.number: name for name, field in fields.items()}
    for unknown in UnknownFieldSet(message):
        if unknown.field_number in names:
            raise LayoutError(
                f"{path}.{names[unknown.field_number]}, field {unknown.field_number}, "
                f"cannot be of wire type {unknown.wire_type}"
            )


@functools.cache
def message_factory() -> tuple[Callable[[str], Message], type[Exception]]:
    """A function from a message's name to a new message, and the error of protobuf for bytes that it cannot read."""
    try:
        from google.protobuf import (  # type: ignore[import-untyped, unused-ignore]
            descriptor_pb2,
            descriptor_pool,
            message,
            message_factory,
        )
    except ImportError as error:
        raise ImportError(
            f"protos need protobuf, which cannot be imported ({error}): pip install 'gpulayout[proto]'"
        ) from error
    file = descriptor_pb2.FileDescriptorProto(name="gpulayout/xla_data.proto", package="xla", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        made = file.message_type.add(name=name)
        for field_name, field in fields.items():
            nested = field.type in MESSAGES
            made.field.add(
                name=field_name,
                number=field.number,
                type_name=f".xla.{field.type}" if nested else None,
                type=kinds.TYPE_MESSAGE if nested else kinds.Type.Value(f"TYPE_{field.type.upper()}"),
                label=kinds.LABEL_REPEATED if field.repeated else kinds.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    classes = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"xla.{name}")) for name in MESSAGES}
    return (lambda name: classes[name]()), message.DecodeError
