"""Tiled layouts: sizes, places and padding are checked against the independent model."""

import itertools
import math
import pickle

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import COMBINE, Layout, LayoutError, Shape, Tile
from gpulayout.layout.digits import cuts, widths_in_tiles
from gpulayout.layout.tile import reach
from tests import reference

DIMENSIONS = [
    (),
    (1,),
    (5,),
    (0,),
    (13,),
    (512,),
    (3, 5),
    (0, 3),
    (3, 0),
    (1, 7),
    (8, 9),
    (31, 16),
    (2, 3, 4),
    (6, 1, 5),
    (3, 7, 11),
    (1, 1, 1),
    (2, 3, 2, 5),
]
TILES = [
    [],
    [(1,)],
    [(2,)],
    [(4,)],
    [(100,)],
    [(2, 2)],
    [(8, 4)],
    [(1, 3)],
    [(2, 4), (2, 1)],
    [(3,), (2,)],
    [(4, 6), (3, 4)],
    [(2, 2, 2)],
    [(2, 3), (2, 2, 2)],
    [(2,), (3, 2), (2, 3)],
    [("*", 4)],
    [(2, "*", 3)],
    [("*", "*", 2, 3)],
    [("*", 3, "*", 2)],
    [(3, 4), (2, "*", 5)],
    [("*", 6), ("*", 4), (2, 2)],
    [(2,), (2, 1), ("*", "*", "*", 1)],
    [(3,), (4, 5), (2, 3)],
]
WIDER = [None, (2, 0, 1, 3)]


def every_layout(dimensions):
    """(layout, arguments of the reference) for every order, padding, tiling and tail; one order for long shapes."""
    for order in itertools.permutations(range(len(dimensions))):
        for more, tiles, tail in itertools.product(WIDER, TILES, (1, 7)):
            widths = None if more is None else tuple(size + extra for size, extra in zip(dimensions, more))
            layout = Layout(order, padded_dimensions=widths, tiles=tiles, tail_padding_alignment=tail)
            yield layout, (dimensions, order, widths, tiles, tail)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
def test_places_and_padding_are_those_of_the_independent_model(dimensions):
    numbers = np.arange(math.prod(dimensions)).reshape(dimensions)
    for layout, arguments in every_layout(dimensions):
        shape, expected = Shape("f32", dimensions, layout), reference.tiled_numbers(*arguments)
        assert shape.buffer_size == len(expected) and shape.nbytes == 4 * len(expected), shape
        table = gl.stride_table(shape)
        places = np.broadcast_to(table.linear_of(np.indices(dimensions)), dimensions)
        assert np.array_equal(expected[places], numbers), shape  # where every element is
        slots = np.arange(-2, len(expected) + 3)
        is_element = table.is_element(slots)  # places outside the buffer too
        assert np.array_equal(is_element, np.concatenate([[False] * 2, expected >= 0, [False] * 3])), shape
        for dim, coordinate in enumerate(table.index_of(slots[is_element])):
            assert np.all(coordinate == np.indices(dimensions)[dim].ravel()[expected[expected >= 0]]), (shape, dim)


@pytest.mark.parametrize("dimensions", [(5,), (1,), (3, 5), (1, 7), (2, 3, 4)], ids=str)
def test_indices_up_to_the_end_of_the_tiles_have_places_of_their_own(dimensions):
    """Those beyond the dimensions are padding, which a picture shows."""
    beyond = 0
    for layout, arguments in every_layout(dimensions):
        shape, expected = Shape("f32", dimensions, layout), reference.tiled_numbers(*arguments)
        widths = widths_in_tiles(shape.buffer_dimensions, layout.major_to_minor, layout.tiles)
        index = np.indices(widths)
        places = np.broadcast_to(gl.stride_table(shape).linear_of(index), widths)
        assert len(np.unique(places)) == places.size and places.max() < shape.buffer_size, shape
        inside = np.all([coordinate < size for coordinate, size in zip(index, dimensions)], axis=0)
        assert np.array_equal(expected[places] >= 0, inside), shape
        beyond += not inside.all()
    assert beyond


@pytest.mark.parametrize(
    "text, digits, numbers",
    [
        ("f32[2,3,1024]{2,1,0:T(*,*,128)}", 4, 0),  # the cut falls on a digit joined to others
        ("f32[2,6]{1,0:T(*,12)}", 2, 0),
        ("f32[6,4]{1,0:T(2,4)(*,8)}", 3, 0),
        ("f32[2,6]{1,0:T(*,4)}", 2, 1),
    ],
)
def test_a_cut_that_falls_between_joined_digits_or_divides_one_names_no_number(text, digits, numbers):
    table = gl.stride_table(text)
    assert (len(table.digits), len(table.numbers)) == (digits, numbers)


@pytest.mark.parametrize(
    "text, index, place",
    [
        ("f32[3,5]{1,0:T(2,2)}", (2, 3), 17),
        ("bf16[4,8]{1,0:T(2,4)(2,1)}", (3, 6), 29),
        ("bf16[16,256]{1,0:T(8,128)(2,1)}", (9, 130), 3077),
        ("f32[16,256]{0,1:T(8,128)}", (9, 130), 16649),
        ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", (1, 6, 7, 10, 9), 12430),
        ("bf16[2,3,1004]{2,1,0:T(2,*,128)}", (1, 2, 1003), 6083),
        ("bf16[2048]{0:T(1024)(128)(2,1)}", (128,), 1),
        ("f32[8]{0:T(2,2)}", (5,), 9),
        ("f32[6]{0:T(3)(2)}", (5,), 6),
        ("u32[]{:T(128)}", (), 0),
    ],
)
def test_the_worked_examples(text, index, place):
    """Plain integers in, plain integers out."""
    shape = gl.parse_shape(text)
    table = gl.stride_table(shape)
    found = table.linear_of(index)
    assert found == place and type(found) is int
    assert table.index_of(place) == index and all(type(coordinate) is int for coordinate in table.index_of(place))
    assert table.is_element(place) is True


def test_places_past_32_bits_are_exact():
    shape = gl.parse_shape("s8[2147483648,2049]{1,0:T(8,128)(4,1)}")
    index = (2**31 - 1, 2048)
    table = gl.stride_table(shape)
    place = table.linear_of(index)
    assert place == (2**28 - 1) * 17 * 1024 + 16 * 1024 + 1 * 512 + 0 * 4 + 3 and table.index_of(place) == index


def test_sizes_after_tiles():
    assert cuts((3, 5), [Tile((2, 2))]).sizes == (2, 3, 2, 2)
    assert cuts((8, 1, 1280, 16384), [Tile((8, 128)), Tile((2, 1))]).sizes == (8, 1, 160, 128, 4, 128, 2, 1)
    assert cuts((), [Tile((128,))]).sizes == (1, 128) and cuts((2, 3), ()).sizes == (2, 3)
    assert cuts((2, 7, 8, 11, 10), [Tile(("*", "*", 2, "*", 3))]).sizes == (56, 37, 2, 3)


def test_a_tile_is_a_value():
    tile = Tile([2, "*", np.int64(128)])
    assert tile == Tile((2, COMBINE, 128)) and hash(tile) == hash(Tile((2, COMBINE, 128))) and tile != Tile((2, 128))
    assert (list(tile), len(tile), str(tile), repr(tile)) == (
        [2, COMBINE, 128],
        3,
        "(2,*,128)",
        "Tile((2, COMBINE, 128))",
    )
    assert (
        pickle.loads(pickle.dumps(tile)) == tile
        and str(COMBINE) == "*"
        and pickle.loads(pickle.dumps(COMBINE)) is COMBINE
    )
    assert Layout((0,), tiles=[[2], (3, 1)]).tiles == (Tile((2,)), Tile((3, 1)))


@pytest.mark.parametrize(
    "tiles, touched",
    [
        ([], 0),
        ([(8, 128)], 2),
        ([(8, 128), (2, 1)], 2),
        ([(2,), (2, 2, 2)], 2),
        ([("*", "*", 4)], 3),
        ([("*", 4), (2, 2, 2)], 3),
        ([(2,), (2, 2)], 1),
        ([(2, 2), (2,)], 2),
    ],
)
def test_how_many_dimensions_tiles_touch(tiles, touched):
    """By experiment: a size above the tiles stays in place, and the one below does not if it is cut unevenly."""
    tiles = [Tile(tile) for tile in tiles]
    assert reach(tiles) == touched
    for rank in range(touched, touched + 3):
        assert cuts((1009,) * rank, tiles).sizes[: rank - touched] == (1009,) * (rank - touched)
    if touched:
        assert cuts((1009,) * touched, tiles).sizes[0] != 1009


TILED = Layout((1, 2, 0), tiles=((8, 128), (2, 1)), split_configs=((0, (1,)), (2, (100,))), memory_space=3)


def test_edits_above_the_tiles_keep_them_and_renumber_splits():
    assert str(TILED.permute((2, 0, 1))) == "{2,0,1:T(8,128)(2,1)S(3)SC(0:1)(2:100)}"
    assert str(TILED.delete_dimensions([0])) == "{0,1:T(8,128)(2,1)S(3)SC(1:100)}"
    assert str(TILED.insert_dimension(0, 4)) == "{2,3,1,0:T(8,128)(2,1)S(3)SC(1:1)(3:100)}"
    shape = Shape("f32", (2, 300, 16), TILED)
    assert str(shape.prepend_major_dimension(5)) == "f32[5,2,300,16]{2,3,1,0:T(8,128)(2,1)S(3)SC(1:1)(3:100)}"
    assert str(shape.append_major_dimension(5)) == "f32[2,300,16,5]{1,2,0,3:T(8,128)(2,1)S(3)SC(1:1)(3:100)}"
    assert (
        str(Shape("f32", (1, 2, 1), Layout((1, 2, 0), tiles=((1, 2),))).delete_dimension(0)) == "f32[2,1]{0,1:T(1,2)}"
    )


@pytest.mark.parametrize(
    "edit",
    [
        lambda shape: shape.append_minor_dimension(2),
        lambda shape: shape.insert_dimension(1, 3),
        lambda shape: shape.delete_dimension(1),
        lambda shape: shape.delete_dimensions((0, 2)),
        lambda shape: shape.insert_dimensions(1, (1, 1)),
    ],
)
def test_edits_below_the_reach_of_tiles_are_refused(edit):
    with pytest.raises(
        LayoutError, match=r"tiles \(8,128\)\(2,1\) would cut different dimensions after (inserting|deleting) "
    ):
        edit(Shape("f32", (2, 300, 16), TILED))


def test_a_tile_longer_than_the_rank_cuts_any_new_major_dimension():
    with pytest.raises(LayoutError, match="they cut the 2 most minor dimensions"):
        gl.parse_shape("f32[8]{0:T(2,2)}").prepend_major_dimension(3)


@pytest.mark.parametrize(
    "name, call",
    {
        "relayout": lambda shape: gl.plan(shape, shape.with_layout(None)),
        "relayout to": lambda shape: gl.plan(shape.with_layout(None), shape),
        "pack": lambda shape: gl.pack(np.zeros(shape.dimensions, shape.dtype), shape),
        "unpack": lambda shape: gl.unpack(np.zeros(1024, shape.dtype), shape),
        "view": lambda shape: gl.view(np.zeros(1024, shape.dtype), shape),
        "empty": gl.zeros,
    }.items(),
)
@pytest.mark.parametrize(
    "text", ["f32[3,5]{1,0:E(4)}", "f32[3,5]{1,0:SC(0:1)}", "f32[3,5]{1,0:#(u32)}", "s4[3,5]{1,0:E(2)}"]
)
def test_shapes_that_no_buffer_can_hold_are_not_moved(name, call, text):
    with pytest.raises(LayoutError, match="is not a storage size|across several memories|belongs to sparse"):
        call(gl.parse_shape(text))
