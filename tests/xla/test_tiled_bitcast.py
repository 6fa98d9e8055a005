"""Bitcasts of tiled shapes, against the place of every element."""

import functools
import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, Shape
from gpulayout.layout import same_places
from gpulayout.layout.same_places import element_loops
from tests.reference import tiled_numbers

TILES = [
    [],
    [(1,)],
    [(2,)],
    [(4,)],
    [(8,)],
    [(2, 2)],
    [(4, 4)],
    [(1, 4)],
    [(2, 4), (2, 1)],
    [(4,), (2,)],
    [(3,), (2,)],
    [(2, 2, 2)],
    [("*", 4)],
    [("*", 2)],
    [("*", 8), (4,)],
    [(2,), (3, 2)],
    [(2, 8)],
    [(2,), (8,), (4,)],
]
DIMENSIONS = [(), (1,), (6,), (8,), (4, 8), (3, 8), (2, 12), (1, 8), (8, 1), (2, 3, 4), (2, 1, 8)]


@functools.cache
def places(shape):
    """The place of every element, in row-major order."""
    found = gl.stride_table(shape).linear_of(np.indices(shape.dimensions))
    return np.asarray(found).reshape(-1)


def layouts(dimensions):
    for order, tiles in itertools.product(itertools.permutations(range(len(dimensions))), TILES):
        yield Layout(order, tiles=tiles)
    yield Layout(range(len(dimensions)), tiles=[(2, 2)], padded_dimensions=[size + 2 for size in dimensions])


def loops(found):
    """The places that the loops visit."""
    at = np.zeros(1, np.int64)
    for extent, stride in found:
        at = (at[:, None] + np.arange(extent) * stride).reshape(-1)
    return at


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
def test_the_loops_visit_the_places_of_the_elements_in_order(dimensions):
    shapes = [Shape("f32", dimensions, layout) for layout in layouts(dimensions)]
    walks = [element_loops(shape) for shape in shapes]
    for shape, found in zip(shapes, walks):
        assert found is None or np.array_equal(loops(found), places(shape)), shape
    assert sum(found is not None for found in walks) > len(walks) // 3


def test_shapes_are_bitcasts_exactly_when_all_places_agree():
    """Two shapes are the same bytes if and only if every place agrees, also when tiles are not a nest of loops."""
    wide = [
        Shape("f32", dimensions, layout)
        for dimensions in DIMENSIONS
        if math.prod(dimensions) == 8 or len(dimensions) == 2
        for layout in layouts(dimensions)
    ]
    kinds = {True: 0, False: 0}
    for one, other in itertools.product(wide, repeat=2):
        if one.element_count != other.element_count:
            continue
        found = gl.xla.reshape_is_bitcast(one, other)
        kinds[found] += 1
        assert found == (one.buffer_size == other.buffer_size and np.array_equal(places(one), places(other))), (
            one,
            other,
        )
        if one.dimensions == other.dimensions:
            assert gl.xla.is_bitcast(one, other) == found
    assert min(kinds.values()) > 500


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("f32[9]{0:T(4)(3)}", "f32[9]{0:T(4)(3)(1)}", True),
        ("f32[9]{0:T(4)(3)}", "f32[9]{0:T(4)(3)(2)}", False),
        ("f32[9]{0:T(4)(3)}", "f32[3,3]{1,0:T(*,4)(3)}", True),
        ("f32[3,3]{1,0:T(*,4)(3)}", "f32[9]{0:T(4)(3)}", True),
        ("f32[9]{0:T(4)(3)}", "f32[3,3]{0,1:T(*,4)(3)}", False),
        ("f32[9,2]{1,0:T(4,1)(3,1)}", "f32[9,2]{1,0:T(4,1)(3,1)(1,1)}", True),
        (
            "f32[3,5]{1,0:PD(6,5)T(4)(3)}",
            "f32[3,5]{1,0:PD(4,12)T(4)(3)}",
            False,
        ),  # 12 or 18 places per row, 72 in all
        ("f32[2,2]{1,0:T(*,8)}", "f32[2,2]{1,0:T(*,3)(4)}", False),  # the same along each dimension, not between them
        (
            "f32[39999]{0:T(4)(3)L(80000)}",
            "f32[3,13333]{1,0:T(*,4)(3)L(80000)}",
            True,
        ),  # more than one chunk of elements
        ("f32[40000]{0:T(32768)(5)L(80000)}", "f32[40000]{0:T(16384)(5)L(80000)}", False),  # the first chunk agrees
        ("f32[200,200]{1,0:T(*,32768)(5)L(80000)}", "f32[40000]{0:T(16384)(5)L(80000)}", False),
    ],
)
def test_tilings_that_are_not_a_nest_of_loops(one, other, same):
    one, other = gl.parse_shape(one), gl.parse_shape(other)
    assert None in (element_loops(one), element_loops(other)) and one.buffer_size == other.buffer_size or not same
    assert gl.xla.reshape_is_bitcast(one, other) == np.array_equal(places(one), places(other)) == same


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("f32[9]{0:T(4)(3)}", "f32[9]{0:T(4)(3)S(1)}", True),
        ("f32[9]{0:T(4)(3)}", "f32[9]{0:T(4)(3)(1)}", False),
        ("f32[3,3]{1,0:T(*,4)(3)}", "f32[3,3]{1,0:T(*,4)(3)M(8)}", True),
        ("f32[3,3]{1,0:T(*,4)(3)}", "f32[9]{0:T(4)(3)}", False),
    ],
)
def test_past_the_limit_only_shapes_with_equal_fields_are_the_same(one, other, same, monkeypatch):
    assert gl.xla.reshape_is_bitcast(one, other)
    monkeypatch.setattr(same_places, "CHUNK", 4)
    monkeypatch.setattr(same_places, "MOST", 4)
    assert gl.xla.reshape_is_bitcast(one, other) == same


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("f32[900,800]{1,0:T(8,128)(2,1)}", "f32[900,800]{1,0:T(8,128)(2,1)(1)}", True),
        ("f32[900,800]{1,0:T(8,128)(2,1)}", "f32[900,800]{1,0:T(8,128)(4,1)}", False),
    ],
)
def test_separable_tilings_are_compared_one_dimension_at_a_time(one, other, same, monkeypatch):
    """A period of 8 rows and 128 columns has few numbers in each dimension, but more indices than the limit."""
    monkeypatch.setattr(same_places, "MOST", 300)
    assert gl.xla.reshape_is_bitcast(one, other) == same


UNEVEN = [
    [(4,), (3,)],
    [(4,), (3,), (1,)],
    [(4,), (3,), (3, 3)],
    [(8,), (3,)],
    [(3, 5)],
    [(3, 5), (2, 2)],
    [(3, 5), (2, 2), (1,)],
    [("*", 7)],
    [("*", 7), (1,)],
    [("*", 4), (3,)],
    [("*", 8), (3,), (3, 3)],
    [("*", 4), ("*", 2, 3)],
    [("*", 6), (2, 4), (5,)],
]


def test_dimensions_longer_than_their_periods_are_compared_as_if_to_the_end():
    """All buffers have 3000 places, so only the places of the elements differ."""
    shapes = [
        Shape("f32", dimensions, Layout(order, tiles=tiles, tail_padding_alignment=3000))
        for dimensions in ((120,), (5, 24), (2, 12, 5))
        for order in list(itertools.permutations(range(len(dimensions))))[:: -3 if len(dimensions) == 3 else 1]
        for tiles in UNEVEN
    ]
    kinds = {True: 0, False: 0}
    for one, other in itertools.product(shapes, shapes[::2]):
        found = gl.xla.reshape_is_bitcast(one, other)
        kinds[found] += 1
        assert found == np.array_equal(places(one), places(other)), (one, other)
    assert {shape.buffer_size for shape in shapes} == {3000} and min(kinds.values()) > 50


@pytest.mark.parametrize(
    "shape, run, elements",
    [
        ("f32[90]{0:T(4)(3)}", [0], 4),
        ("f32[90,90]{1,0:T(4)(3)}", [0], 1),
        ("f32[90,90]{1,0:T(4)(3)}", [1], 4),
        ("f32[90,90]{1,0:T(4)(3)}", [0, 1], 90),
        ("f32[90,90]{1,0:T(*,7)}", [0], 7),
        ("f32[90,90]{1,0:T(*,12)}", [0], 2),
        ("f32[2,45,90]{2,1,0:T(6,7)}", [1, 2], 540),
        ("f32[90]{0:T(8)(2,3)}", [0], 16),
    ],
)
def test_after_a_period_every_place_has_moved_by_one_distance(shape, run, elements):
    shape = gl.parse_shape(shape)
    assert same_places.period(shape, run) == elements
    rows = places(shape).reshape(*shape.dimensions[: run[0]], -1, *shape.dimensions[run[-1] + 1 :]).astype(np.int64)
    rows = np.moveaxis(rows, run[0], 0)
    assert len(np.unique(rows[elements:] - rows[:-elements])) == 1


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("f32[1099511627776]{0:T(4)(3)}", "f32[1099511627776]{0:T(4)(3)(1)}", True),
        ("f32[1099511627776]{0:T(4)(3)}", "f32[1099511627776]{0:T(4)(3)(2)}", False),
        ("f32[99999,10001]{1,0:T(*,100)(30)}", "f32[1000089999]{0:T(100)(30)}", True),
        ("f32[99999,10001]{1,0:T(100)(30)}", "f32[1000089999]{0:T(100)(30)}", False),
        ("f32[100000,99999]{1,0:T(*,100)(30)}", "f32[50000,2,99999]{2,1,0:T(*,*,100)(30)}", True),
        ("f32[100000,99999]{1,0:T(*,100)(30)}", "f32[50000,2,99999]{2,1,0:T(*,100)(30)}", False),
        # 6 or 9 places per tile; the first tile is the same
        ("f32[8]{0:T(4)(3)L(36)}", "f32[8]{0:T(4)(3)(3,3)L(36)}", False),
    ],
)
def test_large_arrays_are_compared_up_to_the_first_difference(one, other, same):
    assert gl.xla.reshape_is_bitcast(one, other) == gl.xla.reshape_is_bitcast(other, one) == same


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimensions", [(4, 8), (2, 4), (4, 4), (2, 1, 4), (2, 2, 2)], ids=str)
def test_a_transpose_is_deduced_exactly_when_some_permutation_is_a_bitcast(dimensions):
    sources = [Shape("f32", dimensions, layout) for layout in layouts(dimensions)]
    turned = sorted(set(itertools.permutations(dimensions)))
    targets = [Shape("f32", sizes, layout) for sizes in turned for layout in layouts(sizes)]
    found_some = 0
    for source, target in itertools.product(sources[::3], targets[:: 2 if len(dimensions) == 2 else 5]):
        numbers = np.arange(math.prod(dimensions)).reshape(dimensions)
        exists = source.buffer_size == target.buffer_size and any(
            np.array_equal(places(source)[numbers.transpose(permutation).reshape(-1)], places(target))
            for permutation in itertools.permutations(range(len(dimensions)))
            if numbers.transpose(permutation).shape == target.dimensions
        )
        found = gl.xla.deduce_transpose_dimensions_for_bitcast(source, target)
        found_some += exists
        assert (found is not None) == exists, (source, target)
        assert found is None or gl.xla.transpose_is_bitcast(source, target, found)
        assert gl.xla.is_reshape_or_transpose_bitcast(source, target) == (
            exists or gl.xla.reshape_is_bitcast(source, target)
        )
    assert found_some > 50


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("f32[16,128]{1,0:T(8,128)}", "f32[16,128]", True),
        ("f32[16,256]{1,0:T(8,128)}", "f32[16,256]", False),
        ("f32[16,128]{1,0:T(8,128)S(1)}", "f32[16,128]", True),  # the memory space is ignored
        ("f32[10]{0:T(1024)}", "f32[10]{0:L(1024)}", True),
        ("f32[10]{0:T(1024)}", "f32[10]{0:PD(1024)}", True),
        ("f32[10]{0:T(1024)}", "f32[10]", False),
        ("f32[10]{0:T(1024)}", "f32[10]{0:PV(one)L(1024)}", False),
        ("f32[6]{0:T(4)(3)}", "f32[6]{0:T(4)(3)}", True),
        ("f32[6]{0:T(4)(3)}", "f32[6]{0:T(3)(2)}", False),
        ("s4[8]{0:E(4)}", "s4[8]", False),
        ("s4[8]{0:E(4)}", "s4[8]{0:T(8)E(4)}", True),
        ("s4[8]{0:E(8)}", "s4[8]", True),
        ("f32[8]{0:SC(0:4)}", "f32[8]", False),
        ("f32[0,3]{1,0:T(2,2)}", "f32[0,3]{0,1}", True),
    ],
)
def test_the_other_parts_of_a_shape_that_count(one, other, same):
    assert gl.xla.is_bitcast(one, other) == gl.xla.is_bitcast(other, one) == same


def held(shape):
    """A whole buffer by the independent model: bits per element, and the number or padding in every place."""
    layout = shape.layout
    tiles = [[str(entry) if entry is gl.COMBINE else entry for entry in tile] for tile in layout.tiles]
    numbers = tiled_numbers(
        shape.dimensions, layout.minor_to_major, layout.padded_dimensions, tiles, layout.tail_padding_alignment
    )
    return shape.bits_per_element, numbers.tobytes(), shape.padding_bytes if -1 in numbers else None


@pytest.mark.parametrize("dimensions", [(), (1,), (6,), (2, 4), (1, 3), (3, 1), (2, 1, 2), (0, 3)], ids=str)
def test_same_bytes_exactly_when_the_independent_model_says_so(dimensions):
    """Every pair of all combinations of orders, tiles, widths, tails, bits and padding values."""
    choices = itertools.product(
        itertools.permutations(range(len(dimensions))),
        TILES[::2],
        (None, [size + 1 for size in dimensions]),
        (1, 4),
        ((0, None), (0, 1), (4, None)),
    )
    shapes = [
        Shape(
            "s4",
            dimensions,
            Layout(
                order,
                tiles=tiles,
                padded_dimensions=widths,
                tail_padding_alignment=tail,
                element_size_in_bits=bits,
                padding_value=value,
            ),
        )
        for order, tiles, widths, tail, (bits, value) in choices
    ]
    shapes = shapes[:: -(-len(shapes) // 110)]
    keys = [held(shape) for shape in shapes]
    agreeing = 0
    for (one, key), (other, other_key) in itertools.product(zip(shapes, keys), repeat=2):
        agreeing += key == other_key and one != other
        assert gl.xla.is_bitcast(one, other) == (key == other_key), (one, other)
    assert agreeing > 10


def test_tiles_that_change_nothing():
    assert (
        gl.xla.is_untiled("f32[2,4]{1,0:T(1,2)(1,1)}")
        and gl.xla.is_untiled("f32[7]{0}")
        and not gl.xla.is_untiled("f32[7]{0:T(2)}")
    )


def test_tiled_shapes_are_neither_decomposed_nor_aligned():
    with pytest.raises(gl.LayoutError, match="tiled elements have no row-major order"):
        gl.xla.decompose_bitcast("f32[16,128]{1,0:T(8,128)}", "f32[2048]")
    assert gl.xla.align_layouts("f32[16,128]{1,0:T(8,128)}", (2048,)) is None
    assert str(gl.xla.align_layouts("s4[6,4]{0,1:E(4)S(2)}", (2, 3, 4))) == "s4[2,3,4]{1,0,2:E(4)S(2)}"
    assert (
        str(gl.xla.with_descending_layout_and_same_physical_layout("f32[16,9]{0,1:T(8,128)}"))
        == "f32[9,16]{1,0:T(8,128)}"
    )
