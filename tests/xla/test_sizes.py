"""The end of the last element, compared with the places of all elements."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import Layout, Shape
from gpulayout.layout.same_places import element_loops
from tests.support.effort import examples
from tests.support.strategies import dimensions, tiled_layouts

FIRST = [(2,), (3,), (4,), (2, 2), (2, 3), ("*", 3), ("*", 4)]
SECOND = [None, (1,), (2,), (2, 2), (2, 3), (3, 1), (2, 2, 2)]


def places(shape):
    """The number of places up to and including the last one that holds an element."""
    if not shape.element_count:
        return 0
    return int(np.max(gl.stride_table(shape).linear_of(np.indices(shape.dimensions, np.int64)))) + 1


@pytest.mark.parametrize("sizes", [(5,), (7,), (9,), (3, 5), (4, 4), (2, 3, 3)], ids=str)
def test_the_data_ends_with_the_last_element_in_memory(sizes):
    behind = 0
    for order, tiles in itertools.product(itertools.permutations(range(len(sizes))), itertools.product(FIRST, SECOND)):
        shape = Shape("u8", sizes, Layout(order, tiles=[tile for tile in tiles if tile]))
        assert gl.xla.data_nbytes(shape) == places(shape), shape
        last = int(gl.stride_table(shape).linear_of([size - 1 for size in sizes])) + 1
        behind += places(shape) > last
    assert behind  # the last index is not always the last place


@pytest.mark.parametrize(
    "tiles", [[(2,), (4, 1), (2, 1, 2, 1)], [(4,), (2, 2)], [(6,), (2, 3), (2, 2, 2)], [(4,), (3,), (2, 2)]], ids=str
)
def test_tiles_that_reverse_the_order_of_earlier_tiles(tiles):
    """Later tiles put the quotient of a remainder above the remainder of a quotient, more than once."""
    for size in range(1, 60):
        shape = Shape("u8", (size,), Layout((0,), tiles=tiles))
        assert gl.xla.data_nbytes(shape) == places(shape)


@settings(max_examples=examples(150), deadline=None)
@given(dimensions(max_rank=4, max_elements=600), st.data())
def test_the_data_of_generated_shapes(sizes, data):
    shape = Shape("u8", sizes, data.draw(tiled_layouts(sizes)))
    assert gl.xla.data_nbytes(shape) == places(shape)


def test_data_of_many_elements_take_no_time():
    """Rows of 2^40 elements in tiles that are not a nest of loops: the law needs one number per dimension, not 2^40."""
    shape = gl.parse_shape("u8[1099511627777,3]{1,0:T(4,2)(3,2)}")
    assert element_loops(shape) is None
    near_the_end = itertools.product(range(1099511627777 - 9, 1099511627777), range(3))
    last = max(gl.stride_table(shape).linear_of(index) for index in near_the_end)
    assert gl.xla.data_nbytes(shape) == last + 1
    many = Shape("u8", (2**40 - 2,), Layout((0,), tiles=[(3,)] + [(2,)] * 40))  # 41 nested cuts; none changes an order
    assert element_loops(many) is None and gl.xla.data_nbytes(many) == gl.stride_table(many).linear_of((2**40 - 3,)) + 1


def test_data_of_many_elements_in_combined_dimensions_take_no_time():
    """Places repeat after 100 elements and after 100 rows, so 10^4 elements are checked, not 10^10."""
    shape = gl.parse_shape("u8[100000,99999]{1,0:T(*,100)(30)(3,7)}")
    window = np.meshgrid(np.arange(99_000, 100_000), np.arange(99_700, 99_999), indexing="ij")
    assert (
        element_loops(shape) is None
        and gl.xla.data_nbytes(shape) == int(np.max(gl.stride_table(shape).linear_of(window))) + 1
    )


@pytest.mark.parametrize(
    "text, data, logical, whole",
    [
        ("f32[3,5]{1,0:T(2,2)}", 84, 60, 96),
        ("f32[10]{0:T(8,128)}", 40, 40, 4096),
        ("f32[]{:T(256)}", 4, 4, 1024),
        ("f32[0,3]", 0, 0, 0),
        ("f32[0,3]{1,0:T(2,2)}", 0, 0, 0),
        ("s4[5]{0:L(64)E(4)}", 3, 3, 32),
        ("f32[2,3]{0,1:PD(3,5)}", 32, 24, 60),
        ("f32[5]{0:L(8)}", 20, 20, 32),
        ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", 4 * 12431, 49280, 4 * 12432),
        ("pred[9]", 9, 9, 9),
        ("c64[3]", 24, 24, 24),
    ],
)
def test_three_sizes_of_one_shape(text, data, logical, whole):
    shape = gl.parse_shape(text)
    assert (gl.xla.data_nbytes(shape), shape.unpadded_nbytes, shape.nbytes) == (data, logical, whole)
    assert math.prod(shape.dimensions) == shape.extent_product
