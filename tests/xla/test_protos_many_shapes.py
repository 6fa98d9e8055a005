"""Thousands of shapes go through text and both dialects of the protos."""

import pytest

import gpulayout as gl
from gpulayout.xla import proto_messages
from tests.support.random_shapes import random_shapes

pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")

XLA, FIRST = proto_messages.DIALECTS


def plain(shape):
    """The shape with only what the first protos have: order, padding with a named value, static sizes."""
    if isinstance(shape, gl.xla.TupleShape):
        return gl.xla.TupleShape([plain(part) for part in shape.shapes])
    if not isinstance(shape, gl.Shape):
        return (
            gl.xla.OpaqueShape()
            if isinstance(shape, gl.xla.TokenShape)
            else plain(shape.shape)
            if isinstance(shape, gl.xla.BufferShape)
            else shape
        )
    sizes = [7 if size is gl.UNBOUNDED else size for size in shape.dimensions]
    layout, padded = shape.layout, gl.UNBOUNDED not in shape.dimensions
    value = layout.padding_value if isinstance(layout.padding_value, gl.PaddingValue) else None
    return gl.Shape(
        shape.element_type,
        sizes,
        gl.Layout(
            layout.minor_to_major,
            padded_dimensions=layout.padded_dimensions or None if padded else None,
            padding_value=value,
        ),
    )


def test_many_shapes_go_through_text_and_both_protos():
    """GPULAYOUT_TEST_SHAPES sets how many go through text, today's protos and the first ones."""
    for shape in random_shapes(11, padding=False, combine=False):
        again = gl.xla.shape_from_proto(gl.xla.shape_to_proto(gl.parse_shape(str(shape)), XLA), XLA)
        assert again == shape and str(again) == str(shape)
    for shape in map(plain, random_shapes(12)):
        again = gl.xla.shape_from_proto(gl.xla.shape_to_proto(gl.parse_shape(str(shape)), FIRST), FIRST)
        assert again == shape and str(again) == str(shape)
