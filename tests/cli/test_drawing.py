"""Pictures of layouts: every box is right, padding is hatched, and large shapes are cut to a corner."""

import math
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cli.drawing import ASCII, UNICODE, WIDTH, draw_grid, draw_strip, is_all_in_grid, is_small


def boxes(drawing: str, chars=UNICODE) -> list[list[str]]:
    """The texts in the boxes of every line with borders."""
    return [
        [text.strip() for text in line.split(chars.wall)[1:-1]]
        for line in drawing.splitlines()
        if chars.wall in line and chars.line * 2 not in line
    ]


def test_the_documents_example_is_drawn_as_a_grid():
    drawing = draw_grid(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}"), names="abcdef", chars=ASCII)
    assert drawing.splitlines() == [
        "  x    0    1    2    3    4",
        "   +----+----+----+----+----+",
        "y 0|a  0|b  3|c  6|///9|//12|",
        "  1|d  1|e  4|f  7|//10|//13|",
        "  2|///2|///5|///8|//11|//14|",
        "   +----+----+----+----+----+",
    ]


def test_the_documents_example_is_drawn_as_a_strip():
    drawing = draw_strip(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}"), names="abcdef", pad="0", chars=ASCII)
    assert drawing.splitlines() == [
        "place  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14",
        "     +--+--+--+--+--+--+--+--+--+--+--+--+--+--+--+",
        "     |a |d |/0|b |e |/0|c |f |/0|/0|/0|/0|/0|/0|/0|",
        "     +--+--+--+--+--+--+--+--+--+--+--+--+--+--+--+",
    ]


@pytest.mark.parametrize("text", ["u8[5]", "u8[3,4]{0,1}", "u8[2,3,4]{1,2,0}", "u8[2,2,2,3]{0,3,1,2}"])
def test_the_places_of_a_grid_are_the_packed_positions(text):
    shape = gl.parse_shape(text)
    places = np.argsort(gl.pack(np.arange(shape.element_count, dtype=np.uint8).reshape(shape.dimensions), shape))
    assert [int(box) for row in boxes(draw_grid(shape)) for box in row] == places.tolist()


@pytest.mark.parametrize("text", ["u8[5]", "u8[3,4]{0,1:PD(4,4)}", "u8[2,3,4]{1,2,0}", "u8[2,2,2,3]{0,3,1,2}"])
def test_a_strip_names_the_index_of_every_place(text):
    shape = gl.parse_shape(text)
    index = gl.delinearize(np.arange(shape.buffer_size), shape, padding="mark")
    expected = [",".join(map(str, column)) if column[0] >= 0 else None for column in index.T.tolist()]
    found = [None if UNICODE.hatch in box else box for row in boxes(draw_strip(shape)) for box in row]
    assert found == expected


def test_exactly_the_padding_is_hatched():
    shape = gl.parse_shape("u8[2,3,2]{0,2,1:PD(2,4,3)}")
    hatched = [int(box.lstrip(UNICODE.hatch)) for row in boxes(draw_grid(shape)) for box in row if UNICODE.hatch in box]
    elements = gl.linearize(np.indices(shape.dimensions), shape)
    assert sorted(hatched) == sorted(set(range(shape.buffer_size)) - set(elements.ravel().tolist()))


@pytest.mark.parametrize(
    "text, rows, columns",
    [
        ("u8[5,3]{1,0:T(2,2)}", 6, 4),
        ("u8[3,3]{0,1:T(4,2)(2,1)}", 4, 4),
        ("u8[3,2]{1,0:PD(3,3)T(2,2)}", 4, 4),
        ("u8[3,3]{1,0:T(2)(2,2)}", 3, 4),
        ("u8[2,3,3]{0,1,2:T(2,2)}", 4, 3),
        ("u8[5]{0:T(2)}", 1, 6),
        ("u8[9]{0:T(2)(2,2)(2,1,2,2)}", 1, 16),
    ],
)
def test_padding_of_tiles_is_in_the_grid(text, rows, columns):
    shape = gl.parse_shape(text)
    grid = boxes(draw_grid(shape))
    assert (
        len(grid[0]) == columns
        and len(grid) == rows * (shape.element_count // math.prod(shape.dimensions[-2:]))
        and is_all_in_grid(shape)
    )
    places = [int(box.lstrip(UNICODE.hatch)) for row in grid for box in row]
    hatched = [int(box.lstrip(UNICODE.hatch)) for row in grid for box in row if UNICODE.hatch in box]
    elements = gl.linearize(np.indices(shape.dimensions), shape)
    assert sorted(places) == list(range(shape.buffer_size))
    assert sorted(hatched) == sorted(set(places) - set(elements.ravel().tolist()))


@pytest.mark.parametrize(
    "text, drawn",
    [
        ("u8[3,5]{1,0:T(*,4)}", 15),
        ("u8[6]{0:T(3)(2)}", 6),
        ("u8[5]{0:L(8)}", 5),
        ("u8[3]{0:T(2,2)}", 4),
        ("u8[3,3]{1,0:T(*,2)(2,2)}", 9),
        ("u8[2,5]{1,0:T(3)(2)L(20)}", 12),
    ],
)
def test_padding_without_coordinates_is_not_in_the_grid(text, drawn):
    shape = gl.parse_shape(text)
    places = [int(box.lstrip(UNICODE.hatch)) for row in boxes(draw_grid(shape)) for box in row]
    assert len(set(places)) == len(places) == drawn < shape.buffer_size and not is_all_in_grid(shape)
    assert (
        set(gl.linearize(np.indices(shape.dimensions), shape).ravel().tolist())
        <= set(places)
        <= set(range(shape.buffer_size))
    )


def test_a_scalar_is_one_box():
    assert boxes(draw_grid(gl.parse_shape("f32[]"))) == [["0"]]
    assert boxes(draw_strip(gl.parse_shape("f32[]"))) == [["()"]]


@pytest.mark.parametrize("text", ["u8[0]", "u8[3,0]", "f32[0,2,2]"])
def test_a_shape_without_places_says_so(text):
    assert draw_grid(gl.parse_shape(text)) == draw_strip(gl.parse_shape(text)) == "(no places)"


def test_a_shape_of_padding_only_is_all_hatched():
    assert all(UNICODE.hatch in box for row in boxes(draw_grid(gl.parse_shape("u8[0,2]{1,0:PD(2,2)}"))) for box in row)


@pytest.mark.parametrize(
    "text",
    [
        "u8[3000,4000,3]{1,0,2}",
        "f32[4096,4096]",
        "u8[2000000000,2,2]",
        "u8[2,2000000000,2000000000]{0,1,2}",
        "u8[9223372036854775807]",
        "u8[65]",
        "u8[65,1,1]",
        "u8[2,2,2,2,2,2,2,2]",
    ],
)
def test_a_large_shape_gives_a_corner_that_fits_the_width(text):
    shape = gl.parse_shape(text)
    assert not is_small(shape)
    for drawing in (draw_grid(shape), draw_strip(shape)):
        assert UNICODE.ellipsis in drawing
        assert max(map(len, drawing.splitlines())) <= WIDTH
        assert len(drawing.splitlines()) < 40


def test_a_rank_above_the_limit_is_not_drawn():
    shape = gl.Shape("u8", (1,) * 5000)
    assert draw_grid(shape) == draw_strip(shape) == "(not drawn: 5000 dimensions, the limit is 8)"


def test_all_lines_of_a_box_have_one_length():
    for text in ("u8[2,3]", "u8[16]", "u8[4,16]", "u8[100,100]", "f32[3,3,3]"):
        lines = [line for line in draw_grid(gl.parse_shape(text)).splitlines() if re.search("[│┌└]", line)]
        assert len(set(map(len, lines))) == 1
