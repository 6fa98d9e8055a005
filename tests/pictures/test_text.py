"""Pictures drawn with characters: the document's example, the cells of the figure, borders, and the width."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.pictures.figure import TERMINAL, figure_of
from gpulayout.pictures.shape_text import ASCII, BLANK, HEAVY, LIGHT, UNICODE, boxes, draw_grid, draw_strip, shape_text
from tests.pictures.test_figure import SHAPES, big_shapes, grid_cells
from tests.support.strategies import any_shapes

WALLS = "│┃"


def texts(drawing):
    """The texts in the boxes of every line with cells."""
    return [
        [text.strip() for text in re.split(f"[{WALLS}]", line)[1:-1]]
        for line in drawing.splitlines()
        if line[-1:] in WALLS
    ]


def test_the_documents_example_is_drawn_as_a_grid():
    figure = figure_of(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}"), elements="abcdef")
    assert draw_grid(figure, glyphs=ASCII).splitlines() == [
        "y v 2, padded to 3, fastest",
        "x -> 3, padded to 5",
        "",
        "  x   0   1   2   3   4",
        "   +---+---+---+---+---+",
        "y 0|a 0|b 3|c 6|//9|/12|",
        "  1|d 1|e 4|f 7|/10|/13|",
        "  2|//2|//5|//8|/11|/14|",
        "   +---+---+---+---+---+",
    ]


def test_the_documents_example_is_drawn_as_a_strip():
    figure = figure_of(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}"), elements="abcdef")
    assert draw_strip(figure, pad="0", glyphs=ASCII).splitlines() == [
        "place  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14",
        "     +--+--+--+--+--+--+--+--+--+--+--+--+--+--+--+",
        "     |a |d |/0|b |e |/0|c |f |/0|/0|/0|/0|/0|/0|/0|",
        "     +--+--+--+--+--+--+--+--+--+--+--+--+--+--+--+",
    ]


def test_borders_of_tiles_are_heavy():
    figure = figure_of(gl.parse_shape("u8[3,3]{1,0:T(2,2)}"))
    assert draw_grid(figure).splitlines()[3:] == [
        "  x   0   1   2   3",
        "   ┏━━━┯━━━┳━━━┯━━━┓",
        "y 0┃  0│  1┃  4│░░5┃",
        "  1┃  2│  3┃  6│░░7┃",
        "   ┣━━━┿━━━╋━━━┿━━━┫",
        "  2┃  8│  9┃ 12│░13┃",
        "  3┃░10│░11┃░14│░15┃",
        "   ┗━━━┷━━━┻━━━┷━━━┛",
    ]
    assert draw_grid(figure, glyphs=ASCII).splitlines()[4:8] == [
        "   #===#===#===#===#",
        "y 0#  0|  1#  4|//5#",
        "  1#  2|  3#  6|//7#",
        "   #===#===#===#===#",
    ]


def test_borders_of_inner_tiles_are_light_and_cells_inside_have_none():
    figure = figure_of(gl.parse_shape("bf16[4,4]{1,0:T(2,4)(2,2)}"))
    assert draw_grid(figure).splitlines()[4:8] == [
        "   ┏━━━━━━━┯━━━━━━━┓",
        "y 0┃  0   1│  4   5┃",
        "  1┃  2   3│  6   7┃",
        "   ┣━━━━━━━┿━━━━━━━┫",
    ]


def test_what_is_left_out_has_no_border():
    figure = figure_of(gl.parse_shape("u8[2,4096]"))
    assert draw_grid(figure).splitlines()[3:] == [
        "  x     0     1     2     3 …  4094  4095",
        "   ┌─────┬─────┬─────┬─────╴ ╶─────┬─────┐",
        "y 0│    0│    1│    2│    3 …  4094│ 4095│",
        "  1│ 4096│ 4097│ 4098│ 4099 …  8190│ 8191│",
        "   └─────┴─────┴─────┴─────╴ ╶─────┴─────┘",
    ]


def test_a_line_of_memory_begins_and_ends_heavy_where_a_tile_does():
    figure = figure_of(gl.parse_shape("u8[3,4]{1,0:T(2,2)}"))
    assert draw_strip(figure, width=30).splitlines() == [
        "place   0   1   2   3   4   5",
        "     ┏━━━┯━━━┯━━━┯━━━┳━━━┯━━━┑",
        "     ┃0,0│0,1│1,0│1,1┃0,2│0,3│",
        "     ┗━━━┷━━━┷━━━┷━━━┻━━━┷━━━┙",
        "place   6   7   8   9  10  11",
        "     ┍━━━┯━━━┳━━━┯━━━┯━━━┯━━━┓",
        "     │1,2│1,3┃2,0│2,1│░░░│░░░┃",
        "     ┕━━━┷━━━┻━━━┷━━━┷━━━┷━━━┛",
        "place  12  13  14  15",
        "     ┏━━━┯━━━┯━━━┯━━━┓",
        "     ┃2,2│2,3│░░░│░░░┃",
        "     ┗━━━┷━━━┷━━━┷━━━┛",
    ]


def test_any_width_is_drawn():
    texts = ("f32[2,3]{0,1:PD(3,5)}", "u8[4611686018427387904]{0:T(1024)}", "f32[0]")
    for picture in (*(gl.parse_shape(text).draw() for text in texts), gl.plan("f32[2,3]", "f32[2,3]{0,1}").draw()):
        assert picture.as_text(width=-5) == picture.as_text(width=0) == picture.as_text(width=40)
    assert max(map(len, gl.parse_shape("u8[5,900]{0,1:T(2,9)}").draw().as_text(width=40).splitlines())) <= 40


def test_bytes_stand_below_packed_elements():
    drawing = draw_strip(figure_of(gl.parse_shape("u4[5]{0:E(4)}")))
    assert drawing.splitlines()[0].startswith("place 0 1 2") and drawing.splitlines()[-1] == "byte  0   1   2"


def test_a_picture_says_that_elements_begin_in_the_high_bits():
    little = gl.parse_shape("u4[5]{0:E(4)}")
    big = little.with_layout(little.layout.replace(bit_order="big"))
    said = "the first element of a byte is in its high bits"
    for shape, times in ((big, 1), (little, 0)):
        assert shape.draw().text.count(said) == shape.draw().svg.count(said) == times
    assert "place 3, byte 1 bit 0" in big.draw().svg


@pytest.mark.parametrize("text", [text for text in SHAPES if ")(" not in text])  # inner cells have no walls
def test_the_boxes_are_the_cells_of_the_figure(text):
    figure = figure_of(gl.parse_shape(text))
    grid = [box for row in texts(draw_grid(figure)) for box in row]
    assert [int(box.lstrip(UNICODE.hatch)) for box in grid] == [cell.place for cell in grid_cells(figure)]
    assert [UNICODE.hatch not in box for box in grid if len(box) > 1] == [
        cell.is_element for cell, box in zip(grid_cells(figure), grid) if len(box) > 1
    ]
    strip = [box for row in texts(draw_strip(figure)) for box in row]
    assert [box.strip(UNICODE.hatch) for box in strip] == [cell.text for cell in figure.strip]


@pytest.mark.parametrize("text, reason", [("f32[0,3]", "(no places)"), ("f32[3,?]", "(not drawn: dimension 1 is unb")])
def test_what_cannot_be_drawn_says_why(text, reason):
    figure = figure_of(gl.parse_shape(text))
    for drawing in (draw_grid(figure), draw_strip(figure), shape_text(figure)):
        assert reason in drawing


def test_the_whole_text_says_what_the_marks_mean():
    text = gl.parse_shape("bf16[4,8]{1,0:PD(4,9)T(2,4)(2,1)}").draw().text
    assert text.splitlines()[:2] == [
        "bf16[4,8]{1,0:PD(4,9)T(2,4)(2,1)}",
        "32 elements in 48 places, 96 bytes; 33.3% is padding",
    ]
    assert text.splitlines()[-3:] == ["░ padding: 0 (no value given)", "┃ tile of 8 places", "│ tile of 2 places"]


@given(any_shapes() | big_shapes().filter(bool), st.sampled_from((60, 88, 120)), st.booleans())
def test_a_drawing_stays_within_its_width(shape, width, ascii_only):
    text = shape.draw().as_text(width=width, ascii_only=ascii_only)
    assert max(map(len, text.splitlines())) <= width and len(text.splitlines()) < 160
    assert not ascii_only or text.isascii()
    assert all(line == line.rstrip() for line in text.splitlines())


@given(big_shapes().filter(bool))
def test_a_heavy_border_is_seen_wherever_there_are_two_tiles(shape):
    figure = figure_of(shape)
    several = bool(figure.blocks) and figure.blocks[0] < shape.buffer_size
    inside = any(figure.border(one, other) == 1 for one, other in zip(figure.strip, figure.strip[1:]))
    assert inside == several


# ---- boxes -----------------------------------------------------------------------------------------------------


def arms(character):
    """The weights of a box character's arms up, right, down and left, by its name in Unicode."""
    found, names = {}, unicodedata.name(character).removeprefix("BOX DRAWINGS ").split()
    weights = {"LIGHT": LIGHT, "HEAVY": HEAVY}
    pending, weight = [], None
    for name in [*names, "END"]:
        if name in weights and weight is None and not pending:
            weight = weights[name]  # LIGHT UP AND RIGHT: before its arms
        elif name in weights:
            found |= dict.fromkeys(pending, weights[name] if weight is None else weight)
            weight, pending = (None if weight is None else weights[name]), []
        elif name == "END":
            found |= dict.fromkeys(pending, weight)
        elif name != "AND":
            pending += {"VERTICAL": ["UP", "DOWN"], "HORIZONTAL": ["LEFT", "RIGHT"]}.get(name, [name])
    return [found.get(arm, BLANK) for arm in ("UP", "RIGHT", "DOWN", "LEFT")]


def test_junctions_have_the_arms_of_their_number():
    characters = UNICODE.junctions
    assert characters[0] == " " and len(set(characters)) == len(characters) == len(ASCII.junctions) == 81
    for number, character in enumerate(characters[1:], 1):
        up, right, down, left = arms(character)
        assert 27 * up + 9 * right + 3 * down + left == number


def test_a_border_of_blanks_is_left_out():
    lines = boxes([["a", "b"], ["c", "d"]], [[1, 0, 1]] * 2, [[1, 1], [0, 0], [1, 1]], ["y", "z"], UNICODE)
    assert lines == [" ┌───┐", "y│a b│", "z│c d│", " └───┘"]


def test_the_room_of_a_terminal_is_what_the_readme_shows():
    assert TERMINAL.width == 88
