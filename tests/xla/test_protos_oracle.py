"""Protos compared with real XLA: it writes the same bytes, and reads them back as the same shape."""

import pytest
from hypothesis import given, settings

import gpulayout as gl
from gpulayout.xla import proto_messages
from tests.support import oracle, proto_strategies
from tests.support.effort import examples

pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")


def test_the_messages_are_those_of_xla():
    real = oracle.message_fields()
    numbers = {"PrimitiveType": "int64", "DimLevelType": "int64"}  # enumerations are read as plain integers
    for name, fields in proto_messages.MESSAGES.items():
        ours = {
            field: (known.number, known.repeated, known.type)
            for field, known in fields.items()
            if "xla" in known.dialects
        }
        for gone in ("format", "max_sparse_elements"):
            ours.pop(gone, None)
        assert ours == {
            field: (number, repeated, numbers.get(kind, kind)) for field, (number, repeated, kind) in real[name].items()
        }


@settings(max_examples=examples(150))
@given(proto_strategies.shapes("xla"))
def test_xla_writes_and_reads_the_same_bytes(shape):
    text = str(shape)
    written = gl.xla.shape_to_proto(shape)
    assert written == oracle.shape_to_proto(text)
    assert str(oracle.shape_from_proto(written)) == text


@settings(max_examples=examples(100))
@given(proto_strategies.arrays("xla"))
def test_xla_writes_and_reads_the_same_layouts(shape):
    layout = gl.xla.layout_to_proto(shape.layout)
    assert layout == oracle.layout_to_proto(str(shape))
    assert gl.parse_layout(oracle.layout_from_proto(layout)) == shape.layout


@settings(max_examples=examples(50))
@given(proto_strategies.arrays("2017"))
def test_xla_reads_the_first_dialect_without_its_padding(shape):
    """A known difference: XLA ignores the fields that it removed, and reads a padded array as an unpadded one."""
    unpadded = shape.with_layout(shape.layout.replace(padded_dimensions=None, padding_value=None))
    assert str(oracle.shape_from_proto(gl.xla.shape_to_proto(shape, "2017"))) == str(unpadded)


# Bytes that XLA reads without an error and this library refuses, with the text of the shape that XLA makes of them.
ONLY_XLA = {
    "100b 1a01022a04 0a020100": "f32[2]{1,0}",  # a layout of another rank
    "100b 1a020203 2a04 0a020000": "f32[2,3]{0,0}",  # not a permutation
    "100b 1a0a ffffffffffffffffff01": "f32[-1]",  # a negative size
    "1063": "primitive_type_invalid[]",  # not an element type
    "100b 1a0102 2a06 0a0100 40c801": "f32[2]{0:S(-56)}",  # a memory space past 127
    "100b 1a0102 2a05 0a0100 5200": "f32[2]{0:P(primitive_type_invalid[])}",  # a sparse layout
    "100b 1a0102 2a05 0a0100 3200": "f32[2]{0:T()}",  # a tile without sizes
}


@pytest.mark.parametrize("hexadecimal", ONLY_XLA)
def test_bytes_that_only_xla_reads(hexadecimal):
    data = bytes.fromhex(hexadecimal)
    assert str(oracle.shape_from_proto(data)) == ONLY_XLA[hexadecimal]
    with pytest.raises(gl.LayoutError):
        gl.xla.shape_from_proto(data)


def test_xla_writes_a_combined_dimension_and_reads_it_only_lately():
    text = "f32[2,3]{1,0:T(*,3)}"
    with pytest.raises(gl.LayoutError, match="XLA cannot read '\\*' there"):
        gl.xla.shape_to_proto(text)
    try:
        assert oracle.layout_from_proto(oracle.layout_to_proto(text)) == "{1,0:T(*,3)}"
    except RuntimeError as error:  # jaxlib 0.10 and before
        assert "dimension >= 0" in str(error)
    with pytest.raises(gl.LayoutError, match="^ShapeProto.layout: tile "):
        gl.xla.shape_from_proto(oracle.shape_to_proto(text))
