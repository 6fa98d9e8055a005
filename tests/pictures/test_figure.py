"""What a picture shows: the right element at every place, borders where tiles begin, and never too much of it."""

import itertools
import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.pictures.figure import MOST_CELLS, MOST_PANELS, MOST_PLACES, PAGE, TERMINAL, figure_of
from gpulayout.pictures.shown import row_major_number
from tests.support.strategies import any_shapes
from tests.support.tiled_cases import drawn_layout, numbers

SHAPES = [
    "f32[]",
    "u8[5]{0:L(8)}",
    "u8[6]{0:T(3)(2)}",
    "f32[2,3]{0,1:PD(3,5)}",
    "u8[3,5]{1,0:T(2,2)}",
    "u8[3,6]{1,0:T(*,4)}",
    "bf16[4,8]{1,0:T(2,4)(2,1)}",
    "u4[2,5]{1,0:T(2,3)E(4)}",
    "f32[<=3,4]",
    "u8[2,3,4]{1,2,0}",
    "u8[2,1,3,4]{1,3,2,0}",
]


def grid_cells(figure):
    return [cell for panel in figure.panels if panel for row in panel.rows for cell in row if cell]


def strip_cells(figure):
    return [cell for cell in figure.strip if cell]


def shown_numbers(cells, shape):
    """{place: number of its element, or -1} of cells, each of them once."""
    found = {
        cell.place: row_major_number(map(int, cell.index), shape.dimensions) if cell.is_element else -1
        for cell in cells
    }
    assert len(found) == len(cells)
    return found


def random_figures(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        dimensions = tuple(rng.randint(1, 6) for _ in range(rng.randint(0, 4)))
        shape = gl.Shape("u8", dimensions, drawn_layout(rng, dimensions))
        if shape.buffer_size <= 5000:
            yield shape, figure_of(shape, room=rng.choice((TERMINAL, PAGE)))


# ---- places and elements ---------------------------------------------------------------------------------------


def test_every_cell_shows_what_the_reference_has_at_its_place():
    whole = 0
    for shape, figure in random_figures(1, 400):
        expected = dict(enumerate(numbers(shape).ravel().tolist()))
        grid, strip = (shown_numbers(cells(figure), shape) for cells in (grid_cells, strip_cells))
        assert grid.items() <= expected.items() and strip.items() <= expected.items()
        if figure.is_whole:
            whole += 1
            elements = {place for place, number in expected.items() if number >= 0}
            assert elements <= set(grid) and figure.is_all_in_grid == (set(grid) == set(expected))
        if None not in figure.strip:
            assert list(strip) == list(expected)
    assert whole > 150


def test_small_shapes_are_shown_whole_and_every_element_once():
    for dimensions in itertools.product(range(1, 5), repeat=2):
        for order, widths, tiles in itertools.product(
            ((1, 0), (0, 1)), (None, (4, 5)), ((), ((2, 2),), ((3, 1),), (("*", 3),), ((2, 4), (2, 1)))
        ):
            shape = gl.Shape("u8", dimensions, gl.Layout(order, padded_dimensions=widths, tiles=tiles))
            figure = figure_of(shape)
            grid = [(cell.index, cell.place) for cell in grid_cells(figure) if cell.is_element]
            assert grid == [(index, gl.linearize(index, shape)) for index in itertools.product(*map(range, dimensions))]
            strip = {tuple(map(int, cell.index)): cell.place for cell in strip_cells(figure) if cell.is_element}
            assert strip == dict(grid)
            assert [cell.place for cell in figure.strip] == list(range(shape.buffer_size))


def test_cells_lie_at_their_coordinates():
    figure = figure_of(gl.parse_shape("u8[2,3,4]{1,2,0}"))
    for panel in figure.panels:
        for row, cells in zip(figure.rows, panel.rows):
            assert [cell.index for cell in cells] == [(*panel.index, row, column) for column in figure.columns]
    assert [panel.index for panel in figure.panels] == [(0,), (1,)]


def test_the_figure_of_a_scalar_is_one_cell():
    figure = figure_of(gl.parse_shape("f32[]"))
    assert len(grid_cells(figure)) == len(figure.strip) == 1
    assert figure.strip[0].text == "()" and figure.fastest is None


@pytest.mark.parametrize(
    "text, reason",
    [
        ("f32[0,3]", "no places"),
        ("f32[3,?]", "not drawn: dimension 1 is unbounded"),
        (f"u8[{','.join('1' * 65)}]", "not drawn: 65 dimensions, the limit is 64"),
    ],
)
def test_what_cannot_be_drawn_says_why(text, reason):
    figure = figure_of(gl.parse_shape(text))
    assert figure.reason == reason and not figure.panels and not figure.strip


def test_padding_alone_is_drawn():
    figure = figure_of(gl.parse_shape("u8[0,2]{1,0:PD(2,2)}"))
    assert len(figure.strip) == 4 and not any(cell.is_element for cell in (*figure.strip, *grid_cells(figure)))


# ---- names, colours, the fastest dimension -----------------------------------------------------------------------


def test_names_are_those_of_the_elements_in_memory():
    figure = figure_of(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}"), elements="abcdef")
    assert "".join(cell.text or "0" for cell in figure.strip) == "ad0be0cf0000000"


def test_names_of_many_elements_are_not_all_read():
    figure = figure_of(gl.parse_shape("u8[100000,1000]"), elements=range(10**8))
    assert figure.strip[-1].text == "99999999" and figure.has_names


def test_names_cannot_move_the_rest_of_a_drawing():
    figure = figure_of(gl.parse_shape("u8[3]"), elements=["a\nb", "\x1b[31m", "\x85\x7f\ud800"])
    assert [cell.text for cell in figure.strip] == ["a\ufffdb", "\ufffd[31m", "\ufffd" * 3]


@pytest.mark.parametrize("text, names", [("f32[2,3]", "abc"), ("f32[0]", "a"), ("f32[?]", "a")])
def test_names_must_be_as_many_as_elements(text, names):
    with pytest.raises(gl.LayoutError, match=r"^elements has \d entr.* for f32\["):
        figure_of(gl.parse_shape(text), elements=names)


@pytest.mark.parametrize(
    "text, length",
    [
        ("f32[2,3]{0,1:PD(3,5)}", 3),
        ("f32[2,3]{1,0:PD(3,5)}", 5),
        ("f32[2,3,4,4]{1,3,2,0}", 3),
        ("f32[7]", 7),
        ("f32[16,256]{1,0:T(8,128)(2,1)}", 1024),
        ("f32[8,128]{1,0:T(8,128)}", 128),
    ],
)
def test_neighbours_in_memory_have_one_colour(text, length):
    figure = figure_of(gl.parse_shape(text))
    assert figure.color_length == length
    assert all(cell.color == cell.place // length for cell in (*strip_cells(figure), *grid_cells(figure)))


@pytest.mark.parametrize(
    "text, dim",
    [
        ("f32[2,3]{0,1}", 0),
        ("f32[2,3]{1,0}", 1),
        ("f32[1,3]{0,1}", 1),
        ("f32[4,3]{1,0:T(2,2)(2,1)}", 0),
        ("f32[4,3]{1,0:T(*,2)}", 1),
        ("f32[1,1]", None),
    ],
)
def test_the_fastest_dimension_is_where_place_1_lies(text, dim):
    shape = gl.parse_shape(text)
    assert figure_of(shape).fastest == dim
    if dim is not None:
        assert [i for i, coordinate in enumerate(gl.delinearize(1, shape)) if coordinate] == [dim]


def test_long_indices_become_numbers():
    shape = gl.Shape("u8", (10, 10, 10, 10, 10, 10, 10))
    cell = strip_cells(figure_of(shape))[5]
    assert figure_of(shape).has_numbers and cell.text == "#5"
    assert strip_cells(figure_of(gl.Shape("u8", (100, 100, 100, 10))))[11].text.count(",") == 3


# ---- borders of tiles ------------------------------------------------------------------------------------------


def borders(figure):
    """{(index, index): level} of neighbours in the grid."""
    found = {}
    for panel in figure.panels:
        rows = panel.rows
        pairs = [pair for row in rows for pair in zip(row, row[1:])]
        pairs += [pair for above, below in zip(rows, rows[1:]) for pair in zip(above, below)]
        found |= {(one.index, other.index): figure.border(one, other) for one, other in pairs if one and other}
    return found


def test_borders_are_where_tiles_begin():
    for height, width, order, tile in itertools.product(
        (3, 4, 6), (1, 5), ((1, 0), (0, 1)), itertools.product(range(1, 5), repeat=2)
    ):
        if tile == (1, 1):
            continue  # such tiles change nothing
        shape = gl.Shape("u8", (height, width), gl.Layout(order, tiles=[tile]))
        sizes = tile if order == (1, 0) else tile[::-1]

        def number(index, sizes=sizes):
            return [i // size for i, size in zip(index, sizes)]

        figure = figure_of(shape)
        assert borders(figure) == {pair: int(number(pair[0]) != number(pair[1])) for pair in borders(figure)}
        assert len(borders(figure)) >= height - 1


@pytest.mark.parametrize("inner", [(2, 1), (1, 2), (2, 2)])
def test_borders_of_inner_tiles_are_of_the_second_level(inner):
    shape = gl.Shape("u8", (8, 8), gl.Layout((1, 0), tiles=[(4, 4), inner]))
    figure = figure_of(shape)

    def level(one, other):
        if [i // 4 for i in one] != [i // 4 for i in other]:
            return 1
        return 2 * ([i // size for i, size in zip(one, inner)] != [i // size for i, size in zip(other, inner)])

    assert borders(figure) == {pair: level(*pair) for pair in borders(figure)}
    assert set(borders(figure).values()) == {0, 1, 2}


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7])
def test_borders_of_joined_dimensions_run_along_the_joined_one(size):
    figure = figure_of(gl.Shape("u8", (4, 5), gl.Layout((1, 0), tiles=[(gl.COMBINE, size)])))

    def tile(index):
        return (index[0] * 5 + index[1]) // size

    assert borders(figure) == {pair: int(tile(pair[0]) != tile(pair[1])) for pair in borders(figure)}


def test_a_tile_of_any_level_is_one_block_of_memory():
    for _, figure in random_figures(2, 200):
        for block, next_block in zip(figure.blocks, figure.blocks[1:]):
            assert block % next_block == 0
        assert all(figure.shape.buffer_size % block == 0 for block in figure.blocks[:1]) or (
            figure.shape.layout.tail_padding_alignment > 1
        )


@pytest.mark.parametrize(
    "text, blocks",
    [
        ("u8[6]{0:T(3)(2)}", (4, 2)),
        ("bf16[8,8]{1,0:T(2,4)(2,1,1,1)}", (16, 2)),
        ("u8[8,8]{1,0:T(4,4)(2,2)(2,1)}", (16, 4, 2)),
        ("u8[8]{0:T(3,4)}", (12,)),
        ("u8[8]{0:T(1)}", ()),
        ("u8[6]{0:T(3)(*,2)}", (2,)),  # the second tile joins tiles of 3, so they are no blocks any more
    ],
)
def test_blocks_are_as_long_as_tiles_with_the_gaps_that_inner_tiles_leave(text, blocks):
    assert figure_of(gl.parse_shape(text)).blocks == blocks


@pytest.mark.parametrize(
    "text, row, column",
    [
        ("u8[900,1000]{1,0:T(*,5000)}", 5, None),
        ("u8[900,1000]{1,0:T(*,300)}", 1, 300),
        ("u8[1000,3]{0,1:T(*,100)}", 100, 1),
        ("u8[5000,5000]{1,0:T(7,100)(*,5)}", 7, 100),
        ("u8[3000,3000]{1,0:T(2,3,4)}", 3, 4),
    ],
)
def test_the_first_edges_of_joined_and_long_tiles_are_seen(text, row, column):
    figure = figure_of(gl.parse_shape(text))
    for shown, edge in ((figure.rows, row), (figure.columns, column)):
        assert edge is None or (edge - 1, edge) in zip(shown, shown[1:])


def test_what_has_no_room_is_left_out_at_the_end_too():
    figure = figure_of(gl.Shape("u8", (1 << 62,), gl.Layout((0,), tiles=[(1024,)])), room=TERMINAL)
    assert figure.columns == (0, None, 1023, 1024, None)


@pytest.mark.parametrize(
    "text, place",
    [("u8[100,4000]{1,0:PD(100,4096)}", 4000), ("u8[90,4096]{1,0:PD(95,4096)}", 90 * 4096), ("u8[300]{0:T(128)}", 300)],
)
def test_the_first_padding_in_memory_is_seen(text, place):
    strip = figure_of(gl.parse_shape(text)).strip
    assert [one.place for one in strip if one and not one.is_element][0] == place
    assert any(one and other and one.is_element and other.place == place for one, other in zip(strip, strip[1:]))


def test_an_untiled_array_has_no_borders():
    assert set(borders(figure_of(gl.parse_shape("u8[6,6]{0,1:PD(8,8)}"))).values()) == {0}


# ---- large arrays ----------------------------------------------------------------------------------------------


def big_shapes():
    """Shapes of up to 2^62 elements: few dimensions of any size, in tiles or not."""
    sizes = st.one_of(st.integers(1, 40), st.integers(1, 5000), st.integers(1, 1 << 62))
    tiles = st.lists(st.sampled_from((1, 2, 8, 128, 1000, "*")), max_size=2)
    return st.builds(
        _big, st.lists(sizes, min_size=1, max_size=4), st.lists(tiles, max_size=2), st.randoms(use_true_random=False)
    )


def _big(dimensions, tiles, rng):
    order = rng.sample(range(len(dimensions)), len(dimensions))
    try:
        return gl.Shape("u8", dimensions, gl.Layout(order, tiles=[(*tile, rng.choice((2, 128))) for tile in tiles]))
    except gl.LayoutError:  # more than 2^63 bytes
        return None


def check_bounds(figure):
    assert len([panel for panel in figure.panels if panel]) <= MOST_PANELS
    assert len(grid_cells(figure)) <= MOST_CELLS and len(strip_cells(figure)) <= MOST_PLACES
    assert len(figure.panels) <= 2 * MOST_PANELS and len(figure.strip) <= 2 * MOST_PLACES
    assert 0 < len(figure.rows) <= 16 and 0 < len(figure.columns) <= 16


@given(big_shapes(), st.sampled_from((TERMINAL, PAGE)))
def test_no_picture_of_a_large_array_is_large(shape, room):
    assume(shape is not None)
    figure = figure_of(shape, room=room)
    check_bounds(figure)
    places = [cell.place for cell in strip_cells(figure)]
    assert places == sorted(set(places)) and places[0] == 0 and places[-1] == shape.buffer_size - 1
    table = gl.stride_table(shape)
    for cell in grid_cells(figure):
        assert cell.is_element == bool(table.is_element(cell.place))
        assert not cell.is_element or gl.delinearize(cell.place, shape) == cell.index


@given(any_shapes(), st.sampled_from((TERMINAL, PAGE)))
def test_no_picture_of_any_shape_is_large(shape, room):
    figure = figure_of(shape, room=room)
    assert figure.reason or figure.panels and figure.strip
    if not figure.reason:
        check_bounds(figure)


@given(
    st.tuples(st.integers(1, 1 << 31), st.integers(1, 1 << 30)),
    st.tuples(st.sampled_from((1, 2, 8, 100, 5000)), st.sampled_from((2, 4, 128, 3000))),
    st.permutations((0, 1)),
)
def test_both_sides_of_a_tiles_edge_are_always_seen(dimensions, tile, order):
    shape = gl.Shape("u8", dimensions, gl.Layout(order, tiles=[tile]))
    figure = figure_of(shape)
    tile = tile if order == [1, 0] else tile[::-1]
    for shown, size, step in zip((figure.rows, figure.columns), dimensions, tile):
        seen = any(None not in pair and pair[0] // step != pair[1] // step for pair in zip(shown, shown[1:]))
        assert seen == (size > step)
    assert any(map(figure.border, figure.strip, figure.strip[1:])) == (shape.buffer_size > math.prod(tile))


@pytest.mark.parametrize("size, width", [(3000, 4096), (5, 4096), (1, 4096)])
def test_both_sides_of_the_end_of_the_elements_are_seen(size, width):
    figure = figure_of(gl.Shape("u8", (size, size), gl.Layout((1, 0), padded_dimensions=(width, width))))
    for shown in (figure.rows, figure.columns):
        assert (size - 1, size) in zip(shown, shown[1:]) and 0 in shown and width - 1 in shown
    assert any(not cell.is_element for cell in strip_cells(figure))


@pytest.mark.parametrize(
    "text, room, expected",
    [
        ("u8[100,100,100]{1,0,2:T(8,128)}", PAGE, [(0,), None, (7,), (8,), None, (103,)]),
        ("u8[100,100,100]{1,0,2:T(8,128)}", TERMINAL, [(0,), None, (7,), (8,), None]),
        ("u8[100,100,100]", PAGE, [(0,), (1,), None, (99,)]),
        ("u8[64,3,100,100]{1,3,2,0}", PAGE, [(0, 0), (0, 1), None, (1, 0), None, (63, 2)]),
        ("u8[2,2,100,100]", PAGE, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("u8[6,2,2]", TERMINAL, [(0,), (1,), (2,), (3,), (4,), (5,)]),
    ],
)
def test_panels_are_the_first_the_last_and_those_at_edges(text, room, expected):
    figure = figure_of(gl.parse_shape(text), room=room)
    assert [panel and panel.index for panel in figure.panels] == expected


def test_a_rank_of_64_is_drawn():
    figure = figure_of(gl.Shape("u8", (2,) * 62 + (1, 1)), room=PAGE)
    check_bounds(figure)
    assert strip_cells(figure)[-1].place == 2**62 - 1
