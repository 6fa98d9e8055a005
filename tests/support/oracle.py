"""Real XLA to compare with: jaxlib's shapes, layouts and protos on the CPU.

Without jaxlib every test that imports this is skipped.

jaxlib cannot read a bare `ShapeProto`: it reads a computation whose result has the shape.
"""

import ctypes
import mmap
import pathlib

import numpy as np
import pytest

_hlo = pytest.importorskip("jaxlib._hlo", reason="the extra `oracle` (jaxlib) is not installed", exc_type=ImportError)

_SHAPE, _RESULT = 4, 2  # HloModuleProto.host_program_shape, ProgramShapeProto.result


# ---- text ------------------------------------------------------------------------------------------


def shape(text):
    """XLA's own shape; ValueError if XLA refuses the text.  Some texts make XLA end the process: pass only texts that
    parse here.
    """
    try:
        return _hlo.Shape(text)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"XLA refuses {text!r}: {error}") from None


# ---- protos ----------------------------------------------------------------------------------------


def shape_to_proto(text):
    """The bytes of `ShapeProto` that XLA writes for the shape of a text."""
    return shape(text).to_serialized_proto()


def shape_from_proto(data):
    """The shape that XLA reads from the bytes of `ShapeProto`."""
    return _hlo.XlaComputation(_nested(_SHAPE, _nested(_RESULT, data))).program_shape().result_shape()


def layout_to_proto(text):
    """The bytes of `LayoutProto` that XLA writes for the layout of a shape's text."""
    return shape(text).layout().__getstate__()[0]


def layout_from_proto(data):
    """The text of the layout that XLA reads from the bytes of `LayoutProto`."""
    layout = _hlo.Layout.__new__(_hlo.Layout)
    layout.__setstate__((data,))
    return layout.to_string()


def _nested(number, data):
    """A field of length-delimited bytes."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value):
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def message_fields():
    """{message: {field: (number, repeated, type)}} of `xla_data.proto`, from the descriptor inside jaxlib."""
    from google.protobuf import descriptor_pb2

    with (
        open(next(pathlib.Path(_hlo.__file__).parent.glob("libjax_common.*")), "rb") as library,
        mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        start = data.find(b"\n\x12xla/xla_data.proto\x12\x03xla")
        file = descriptor_pb2.FileDescriptorProto.FromString(_description(data, start))
    kinds = descriptor_pb2.FieldDescriptorProto
    return {
        message.name: {
            field.name: (
                field.number,
                field.label == kinds.LABEL_REPEATED,
                field.type_name.removeprefix(".xla.") or kinds.Type.Name(field.type)[5:].lower(),
            )
            for field in message.field
        }
        for message in file.message_type
    }


def _description(data, start):
    """The bytes of the `FileDescriptorProto` at `start`: length-delimited fields 1..12, of which no other message
    begins there.
    """
    position = start
    while data[position] & 7 == 2 and 1 <= data[position] >> 3 <= 12:
        length = shift = 0
        cursor = position + 1
        while True:
            length |= (data[cursor] & 127) << shift
            shift, cursor = shift + 7, cursor + 1
            if data[cursor - 1] < 128:
                break
        position = cursor + length
    return data[start:position]


# ---- arrays ----------------------------------------------------------------------------------------


def device_bytes(array, nbytes):
    """The first bytes of a JAX array's buffer on the CPU, copied."""
    array.block_until_ready()
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(array.unsafe_buffer_pointer()), np.uint8).copy()
