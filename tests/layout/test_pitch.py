"""Rows so many bytes apart, or at multiples of so many bytes, are a padded width or one tile, and nothing else."""

import itertools
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, LayoutTypeError, Shape

SIZES = (0, 1, 2, 63, 64, 65, 100)


@pytest.mark.parametrize("element_type", ["u8", "bf16", "f32", "f64", "c128"])
@pytest.mark.parametrize("align", [16, 48, 64, 256])
def test_rows_take_the_least_multiple_of_the_alignment(element_type, align):
    for dimensions in itertools.product((0, 1, 3), SIZES):
        for layout in (Layout((1, 0)), Layout((0, 1))):
            shape = Shape(element_type, dimensions, layout, align=align)
            minor, major = layout.minor_to_major
            row = shape.buffer_dimensions[minor] * shape.itemsize
            assert row % align == 0 and 0 <= row - dimensions[minor] * shape.itemsize < align
            assert shape.buffer_dimensions[major] == dimensions[major] and shape.dimensions == dimensions
            if row:
                assert shape.byte_strides[major] == row
            plain = Shape(element_type, dimensions, layout)
            assert gl.parse_shape(str(shape)) == shape == plain.with_pitch(align=align)
            assert shape.with_pitch(align=align) == shape == shape.replace(align=align)
            if dimensions[minor]:
                assert shape == plain.with_pitch(row) == plain.replace(pitch=row)  # the pitch that it comes to


@pytest.mark.parametrize("element_type", ["u8", "bf16", "f32", "c128"])
def test_a_pitch_is_the_exact_distance_between_rows_or_an_error(element_type):
    """For every number of bytes: those between rows, and no others.  What an error says to write works."""
    for dimensions in ((2, 3), (2, 1), (1, 4), (3, 0)):
        for layout in (Layout((1, 0)), Layout((0, 1))):
            plain = Shape(element_type, dimensions, layout)
            minor, major = layout.minor_to_major
            row = dimensions[minor] * plain.itemsize
            for pitch in range(1, 3 * max(row, plain.itemsize) + 5):
                if pitch >= row and pitch % plain.itemsize == 0:
                    shape = plain.with_pitch(pitch)
                    assert shape.buffer_dimensions[minor] * plain.itemsize == (pitch if row else 0)
                    assert not plain.nbytes or shape.byte_strides[major] == pitch
                    continue
                with pytest.raises(LayoutError) as caught:
                    plain.with_pitch(pitch)
                for found in re.findall(r"pitch=(\d+)", str(caught.value)):
                    assert plain.with_pitch(int(found)) and abs(int(found) - pitch) >= 1
                    nearest = [each for each in range(row or 1, 400) if each % plain.itemsize == 0]
                    assert int(found) in sorted(nearest, key=lambda each: abs(each - pitch))[:2]


def test_packed_arrays_have_their_rows_at_the_pitch():
    values = np.arange(1, 31, dtype=np.int16).reshape(3, 10)
    buffer = gl.pack(values, Shape("s16", (3, 10), pitch=64))
    rows = buffer.reshape(3, 32)
    assert np.array_equal(rows[:, :10], values) and not rows[:, 10:].any()
    assert gl.view(buffer, Shape("s16", (3, 10), pitch=64)).strides == (64, 2)


@pytest.mark.parametrize(
    "shape, align, text",
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
def test_aligned_rows_are_padded_dimensions_in_text(shape, align, text):
    shape = gl.parse_shape(str(shape))
    assert str(shape.with_pitch(align=align)) == text and gl.parse_shape(text) == shape.with_pitch(align=align)
    if shape.rank == 2 and not shape.is_packed:
        assert shape.with_pitch(gl.parse_shape(text).byte_strides[0]) == shape.with_pitch(align=align)


@pytest.mark.parametrize(
    "shape, pitch, text",
    [
        ("f32[3,1000]", 4000, "f32[3,1000]{1,0}"),
        ("f32[3,1000]", 4004, "f32[3,1000]{1,0:PD(3,1001)}"),
        ("f32[3,1000]", 40_000, "f32[3,1000]{1,0:PD(3,10000)}"),  # more than twice the row
        ("f32[1000]", 4096, "f32[1000]{0:PD(1024)}"),
        ("f32[3,1000]{1,0:PD(4,1025)}", 4100, "f32[3,1000]{1,0:PD(4,1025)}"),  # padding that is there is of the row
        ("f32[3,1000]{1,0:PD(4,1025)}", 4104, "f32[3,1000]{1,0:PD(4,1026)}"),
        ("u4[5,7]{1,0:E(4)}", 4, "u4[5,7]{1,0:PD(5,8)E(4)}"),
        ("u4[5,7]{1,0:E(4)}", 5, "u4[5,7]{1,0:PD(5,10)E(4)}"),
        ("u8[2,1,3]", 9, "u8[2,1,3]{2,1,0:PD(2,1,9)}"),  # a dimension of one index is no other reading
        ("u8[2,4,3]", 9, "u8[2,4,3]{2,1,0:PD(2,4,9)}"),  # rows of 12 bytes do not fit
    ],
)
def test_a_pitch_is_padded_dimensions_in_text(shape, pitch, text):
    shape = gl.parse_shape(shape)
    assert str(shape.with_pitch(pitch)) == text == str(shape.replace(pitch=pitch))


@pytest.mark.parametrize("pitch", [np.int64(64), np.uint8(64)])
def test_a_pitch_of_numpy_is_a_number(pitch):
    assert Shape("f32", (3, 5), pitch=pitch).byte_strides == (64, 4)


@pytest.mark.parametrize(
    "shape, pitch, message",
    [
        ("f32[3,5]", 22, "pitch 22 is not a multiple of the 4 bytes of an element for f32[3,5]{1,0}: write "
         "pitch=20 or pitch=24"),
        ("f32[3,5]", 6, "pitch 6 is not a multiple of the 4 bytes of an element for f32[3,5]{1,0}: write pitch=20"),
        ("c128[3,5]", 8, "pitch 8 is not a multiple of the 16 bytes of an element for c128[3,5]{1,0}: write pitch=80"),
        ("u8[3,640]", 100, "pitch 100 is below the 640 bytes of a row of dimension 1 for u8[3,640]{1,0}: write "
         "pitch=640, the smallest that fits, or align=100 for rows that begin at multiples of 100 bytes"),
        ("f32[3,1000]{1,0:PD(4,1025)}", 4000, "pitch 4000 is below the 4100 bytes of a row of dimension 1 for "
         "f32[3,1000]{1,0:PD(4,1025)}: write pitch=4100, the smallest that fits, or align=4000 for rows that begin at "
         "multiples of 4000 bytes"),
        ("u4[5,7]{1,0:E(4)}", 3, "pitch 3 is below the 28 bits of a row of dimension 1 for u4[5,7]{1,0:E(4)}: write "
         "pitch=4, the smallest that fits, or align=3 for rows that begin at multiples of 3 bytes"),
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
)  # fmt: skip
def test_pitches_that_cannot_be_are_refused(shape, pitch, message):
    shape = gl.parse_shape(shape)
    for call in doors(shape, pitch=pitch):
        with pytest.raises(LayoutError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    "shape, align, message",
    [
        ("f32[3,5]", 6, "align 6 is not a multiple of the 4 bytes of an element for f32[3,5]{1,0}: write "
         "align=12, a multiple of both"),
        ("f32[3,5]", 0, "align 0 is not a number of bytes for f32[3,5]{1,0}: it must be at least 1"),
        ("f32[]", 256, "align 256 needs a dimension to pad for f32[]: a scalar has no rows"),
        ("f32[3,5]{1,0:T(2,4)}", 256, "align 256 is for layouts without tiles for f32[3,5]{1,0:T(2,4)}: "
         "(2,4) cut the rows into blocks"),
    ],
)  # fmt: skip
def test_alignments_that_cannot_be_are_refused(shape, align, message):
    for call in doors(gl.parse_shape(shape), align=align):
        with pytest.raises(LayoutError) as caught:
            call()
        assert str(caught.value) == message


def test_a_pitch_and_an_alignment_are_two_answers():
    for call in doors(Shape("f32", (3, 5)), pitch=64, align=32):
        with pytest.raises(LayoutError) as caught:
            call()
        assert str(caught.value) == (
            "pitch 64 and align 32 are two answers for f32[3,5]{1,0}: pitch is the distance between rows in bytes, "
            "align rounds their bytes up to a multiple. Write one of them"
        )
    with pytest.raises(LayoutTypeError, match="^neither pitch nor align is given for f32.3,5.*: write the distance"):
        Shape("f32", (3, 5)).with_pitch()


@pytest.mark.parametrize("pitch, kind", [("256", "a str"), (256.0, "a float"), (True, "a bool")])
@pytest.mark.parametrize("word", ["pitch", "align"])
def test_bytes_are_an_integer(word, pitch, kind):
    for call in doors(Shape("f32", (3, 5)), **{word: pitch}):
        with pytest.raises(LayoutTypeError) as caught:
            call()
        assert str(caught.value) == f"{word} {pitch!r} is not an integer for f32[3,5]{{1,0}}: it is {kind}"


def test_the_pitch_itself_is_not_kept():
    shape = Shape("f32", (3, 1000), pitch=4096)
    assert shape == Shape("f32", (3, 1000), "{1,0:PD(3,1024)}") and not hasattr(shape, "pitch")
    assert eval(repr(shape)) == shape
    assert str(shape.with_element_type("f64").with_pitch(align=256)) == "f64[3,1000]{1,0:PD(3,1024)}"


def test_a_pitch_of_none_is_no_pitch():
    assert Shape("f32", (3, 5), pitch=None, align=None) == Shape("f32", (3, 5))


# ---- rows of several dimensions ------------------------------------------------------------------------


@pytest.mark.parametrize("element_type, align", [("u8", 8), ("u8", 5), ("u8", 1), ("f32", 16)])
@pytest.mark.parametrize("word", ["align", "pitch"])
def test_steps_of_a_dimension_are_the_least_multiple_or_the_pitch(element_type, align, word):
    """Below the dimension, elements lie as without a pitch, and so they do from step to step above it."""
    for dimensions in [(2, 3), (2, 3, 5), (1, 4, 3), (3, 2, 1), (2, 5, 1, 3)]:
        for order in itertools.permutations(range(len(dimensions))):
            plain = Shape(element_type, dimensions, Layout(order))
            values = np.arange(1, plain.element_count + 1).reshape(dimensions).astype(plain.dtype)
            for position in range(1, len(order)):
                row = int(np.prod([dimensions[dim] for dim in order[:position]])) * plain.itemsize
                wide = -(-row // align) * align + (align if word == "pitch" else 0)
                given = {"align": align} if word == "align" else {"pitch": wide}
                shape = plain.with_pitch(**given, dimension=order[position])
                rows = np.zeros((plain.nbytes // row, wide), np.uint8)
                rows[:, :row] = gl.pack(values, plain).view(np.uint8).reshape(-1, row)
                buffer = gl.pack(values, shape)
                assert np.array_equal(buffer.view(np.uint8), rows.ravel()), shape
                assert np.array_equal(gl.unpack(buffer, shape), values) and shape.nbytes == rows.size
                for below, dim in enumerate(order):
                    step = plain.byte_strides[dim] if below < position else plain.byte_strides[dim] // row * wide
                    assert gl.view(buffer, shape).strides[dim] == step or dimensions[dim] == 1
                assert gl.parse_shape(str(shape)) == shape


def test_a_width_says_it_where_one_can_and_else_a_tile():
    image = Shape("u8", (1080, 1900, 4)).with_pitch(align=256, dimension=0)
    assert str(image) == "u8[1080,1900,4]{2,1,0:PD(1080,1920,4)}"
    assert str(Shape("u8", (1080, 1900, 3)).with_pitch(align=256, dimension=-3)) == "u8[1080,1900,3]{2,1,0:T(*,5888)}"
    assert str(Shape("u8", (1080, 1024, 3)).with_pitch(align=256, dimension=0)) == "u8[1080,1024,3]{2,1,0}"
    assert (
        str(Shape("u8", (8, 1080, 1900, 3)).with_pitch(align=256, dimension=1))
        == "u8[8,1080,1900,3]{3,2,1,0:T(*,5888)}"
    )
    assert str(Shape("u8", (4, 0, 3)).with_pitch(align=256, dimension=0)) == "u8[4,0,3]{2,1,0}"
    assert str(Shape("u8", (4, 0, 3)).with_pitch(256, dimension=0)) == "u8[4,0,3]{2,1,0}"
    assert str(Shape("u8", (1080, 1900, 3)).with_pitch(6144, dimension=0)) == "u8[1080,1900,3]{2,1,0:PD(1080,2048,3)}"
    assert str(Shape("u8", (1080, 1900, 3)).with_pitch(20_000, dimension=0)) == "u8[1080,1900,3]{2,1,0:T(*,20000)}"
    assert Shape("u8", (3, 5)).with_pitch(8, dimension=0) == Shape("u8", (3, 5), pitch=8)


def doors(shape, **given):
    """All calls that take a pitch or an alignment of rows."""
    flags = shape.dynamic_dimensions
    yield lambda: Shape(shape.element_type, shape.dimensions, shape.layout, dynamic_dimensions=flags, **given)
    yield lambda: shape.with_pitch(**given)
    yield lambda: shape.replace(**given)


def test_a_pitch_that_holds_rows_of_more_dimensions_needs_to_be_told_which():
    """What the error says to write works, for the longer rows and for the shorter ones."""
    for dimensions in itertools.product((1, 2, 4), (1, 3), (1, 5), (1, 2)):
        for order in ((3, 2, 1, 0), (0, 1, 2, 3), (2, 0, 3, 1)):
            shape = Shape("u8", dimensions, Layout(order))
            minor = dimensions[order[0]]
            above = [position for position in range(1, 4) if dimensions[order[position]] > 1]
            rows = {position: int(np.prod([dimensions[dim] for dim in order[:position]])) for position in above}
            for pitch in (*range(minor, 13), 30, 31, 60, 64, 1000):
                refused = any(size <= pitch for size in list(rows.values())[1:])
                for call in doors(shape, pitch=pitch):
                    if not refused:
                        assert call().nbytes == shape.nbytes // minor * pitch
                        continue
                    with pytest.raises(LayoutError, match="^pitch .* holds a row of dimension") as caught:
                        call()
                    said = re.search(r"with_pitch\((\d+), dimension=(\d)\) .* dimension=(\d) for", str(caught.value))
                    longer = shape.with_pitch(int(said[1]), dimension=int(said[2]))
                    assert gl.view(gl.zeros(longer), longer).strides[int(said[2])] == pitch == int(said[1])
                    assert shape.with_pitch(pitch, dimension=int(said[3])).nbytes == shape.nbytes // minor * pitch


def test_an_alignment_that_more_than_doubles_the_memory_is_refused_where_longer_rows_can_be_meant():
    """So not with two dimensions of more than one index: there, these rows are all that can be meant."""
    for dimensions in itertools.product((1, 2, 4, 7, 8, 9), (1, 3), (1, 5), (1, 2)):
        for order in ((3, 2, 1, 0), (0, 1, 2, 3), (2, 0, 3, 1)):
            shape = Shape("u8", dimensions, Layout(order))
            minor, above = dimensions[order[0]], [dimensions[dim] for dim in order[1:]]
            wide = -(-minor // 8) * 8
            refused = wide > 2 * minor and sum(size > 1 for size in above) > 1
            for call in doors(shape, align=8):
                if not refused:
                    assert call().nbytes == shape.nbytes // minor * wide
                    continue
                with pytest.raises(LayoutError) as caught:
                    call()
                said = re.search(
                    r"with_pitch\(align=(8), dimension=(\d)\) after the shape, which takes (\d+) bytes",
                    str(caught.value),
                )
                assert shape.with_pitch(align=int(said[1]), dimension=int(said[2])).nbytes == int(said[3])
                assert shape.with_pitch(align=8, dimension=order[1]).nbytes == shape.nbytes // minor * wide


def test_the_message_shows_the_way():
    for call in doors(Shape("u8", (1080, 1900, 3)), align=256):
        with pytest.raises(LayoutError) as caught:
            call()
        assert str(caught.value) == (
            "align 256 takes 525312000 bytes instead of 6156000 for u8[1080,1900,3]{2,1,0}: it pads every 3 elements "
            "of dimension 2. For rows of dimensions 1, 2 together write .with_pitch(align=256, dimension=0) after the "
            "shape, which takes 6359040 bytes; dimension=1 pads dimension 2 alone"
        )
    assert Shape("u8", (3, 3), pitch=256).nbytes == 768  # rows of a matrix, however short
    assert Shape("u8", (0, 5, 3), align=256).nbytes == 0 == Shape("u8", (0, 5, 3), pitch=256).nbytes
    with pytest.raises(LayoutError, match=r"^align 2\^16609... takes"):
        Shape("u8", (2, 5, 3), align=10**5000)
    with pytest.raises(LayoutError, match=r"^pitch 2\^16609... holds"):
        Shape("u8", (2, 5, 3), pitch=10**5000)


@pytest.mark.parametrize(
    "dimension, message",
    [
        (2, "pitch 256 cannot be given to dimension 2 for u8[4,5,3]{2,1,0}: it is the most minor one"),
        (3, "dimension 3 is out of range for u8[4,5,3]{2,1,0}: there are 3 dimensions"),
    ],
)
def test_a_dimension_without_a_row_is_refused(dimension, message):
    with pytest.raises(LayoutError) as caught:
        Shape("u8", (4, 5, 3)).with_pitch(256, dimension=dimension)
    assert str(caught.value) == message
