"""A pitch in bytes is padding of the most minor dimension, and nothing else."""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, LayoutTypeError, Shape

SIZES = (0, 1, 2, 63, 64, 65, 100)


@pytest.mark.parametrize("element_type", ["u8", "bf16", "f32", "f64", "c128"])
@pytest.mark.parametrize("pitch", [16, 48, 64, 256])
def test_rows_take_the_least_multiple_of_the_pitch(element_type, pitch):
    for dimensions in itertools.product((0, 1, 3), SIZES):
        for layout in (Layout((1, 0)), Layout((0, 1))):
            shape = Shape(element_type, dimensions, layout, pitch=pitch)
            minor, major = layout.minor_to_major
            row = shape.buffer_dimensions[minor] * shape.itemsize
            assert row % pitch == 0 and 0 <= row - dimensions[minor] * shape.itemsize < pitch
            assert shape.buffer_dimensions[major] == dimensions[major] and shape.dimensions == dimensions
            if row:
                assert shape.byte_strides[major] == row
            assert gl.parse_shape(str(shape)) == shape == Shape(element_type, dimensions, layout).with_pitch(pitch)
            assert shape.with_pitch(pitch) == shape == shape.replace(pitch=pitch)


def test_packed_arrays_have_their_rows_at_the_pitch():
    values = np.arange(1, 31, dtype=np.int16).reshape(3, 10)
    buffer = gl.pack(values, Shape("s16", (3, 10), pitch=64))
    rows = buffer.reshape(3, 32)
    assert np.array_equal(rows[:, :10], values) and not rows[:, 10:].any()
    assert gl.view(buffer, Shape("s16", (3, 10), pitch=64)).strides == (64, 2)


@pytest.mark.parametrize(
    "shape, pitch, text",
    [
        (Shape("f32", (3, 1000)), 256, "f32[3,1000]{1,0:PD(3,1024)}"),
        (Shape("f32", (3, 1024)), 256, "f32[3,1024]{1,0}"),  # no padding needed, none said
        (Shape("f32", (1000,)), 256, "f32[1000]{0:PD(1024)}"),
        (Shape("u8", (2, 3, 5), Layout((2, 0, 1))), 8, "u8[2,3,5]{2,0,1:PD(2,3,8)}"),
        # padding that is there stays, is rounded up from its width, and keeps its value
        ("f32[3,1000]{1,0:PD(4,1025)PV(lowest)}", 256, "f32[3,1000]{1,0:PD(4,1088)PV(lowest)}"),
        ("f32[3,1000]{1,0:PD(4,2048)}", 256, "f32[3,1000]{1,0:PD(4,2048)}"),
        # packed: 2 elements of 4 bits to a byte, 8 of one bit
        ("u4[5,7]{1,0:E(4)}", 2, "u4[5,7]{1,0:PD(5,8)E(4)}"),
        ("u1[5,7]{1,0:E(1)}", 16, "u1[5,7]{1,0:PD(5,128)E(1)}"),
        ("u4[5,7]{1,0}", 2, "u4[5,7]{1,0:PD(5,8)}"),
        # sizes that vary count as their bounds
        ("f32[<=3,<=5]{1,0}", 64, "f32[<=3,<=5]{1,0:PD(3,16)}"),
        ("f32[3,5]{1,0:L(100)S(1)}", 32, "f32[3,5]{1,0:PD(3,8)L(100)S(1)}"),
    ],
)
def test_a_pitch_is_padded_dimensions_in_text(shape, pitch, text):
    shape = gl.parse_shape(str(shape))
    assert str(shape.with_pitch(pitch)) == text and gl.parse_shape(text) == shape.with_pitch(pitch)


@pytest.mark.parametrize("pitch", [np.int64(64), np.uint8(64)])
def test_a_pitch_of_numpy_is_a_number(pitch):
    assert Shape("f32", (3, 5), pitch=pitch).byte_strides == (64, 4)


@pytest.mark.parametrize(
    "shape, pitch, message",
    [
        ("f32[3,5]", 6, "pitch 6 is not a multiple of the 4 bytes of an element for f32[3,5]{1,0}"),
        ("c128[3,5]", 8, "pitch 8 is not a multiple of the 16 bytes of an element for c128[3,5]{1,0}"),
        ("f32[3,5]", 0, "pitch 0 is not a number of bytes for f32[3,5]{1,0}: it must be at least 1"),
        ("f32[3,5]", -256, "pitch -256 is not a number of bytes for f32[3,5]{1,0}: it must be at least 1"),
        ("f32[]", 256, "pitch 256 needs a dimension to pad for f32[]: a scalar has no rows"),
        ("f32[3,?]", 256, "pitch 256 cannot be given for f32[3,?]{1,0}: dimension 1 is unbounded"),
        (
            "f32[3,5]{1,0:T(2,4)}",
            256,
            "pitch 256 is for layouts without tiles for f32[3,5]{1,0:T(2,4)}: (2,4) cut the rows into blocks",
        ),
        (
            "f32[3,5]",
            2**62,
            "padded_dimensions (3, 1152921504606846976) is too large for f32[3,5]{1,0:PD(3,1152921504606846976)}: "
            "13835058055282163712 bytes, the limit is 2^63-1",
        ),
        (
            "f32[3,5]",
            2**400,
            "padded_dimensions (3, 2^398...) has a size past 2^63-1: dimension 1 is 2^398...",
        ),
    ],
)
def test_pitches_that_cannot_be_are_refused(shape, pitch, message):
    shape = gl.parse_shape(shape)
    for call in (lambda: shape.with_pitch(pitch), lambda: shape.replace(pitch=pitch)):
        with pytest.raises(LayoutError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize("pitch, kind", [("256", "a str"), (256.0, "a float"), (True, "a bool"), (None, "a NoneType")])
def test_a_pitch_is_an_integer(pitch, kind):
    with pytest.raises(LayoutTypeError) as caught:
        Shape("f32", (3, 5)).with_pitch(pitch)
    assert str(caught.value) == f"pitch {pitch!r} is not an integer for f32[3,5]{{1,0}}: it is {kind}"


def test_the_pitch_itself_is_not_kept():
    shape = Shape("f32", (3, 1000), pitch=256)
    assert shape == Shape("f32", (3, 1000), "{1,0:PD(3,1024)}") and not hasattr(shape, "pitch")
    assert eval(repr(shape)) == shape
    assert str(shape.with_element_type("f64").with_pitch(256)) == "f64[3,1000]{1,0:PD(3,1024)}"


def test_a_pitch_of_none_is_no_pitch():
    assert Shape("f32", (3, 5), pitch=None) == Shape("f32", (3, 5))
