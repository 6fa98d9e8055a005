"""Stride tables: their digits, evaluated here, give the places of the definition."""

import itertools

import pytest

import gpulayout as gl
from gpulayout import Digit, Layout, Shape, stride_table
from tests.reference import logical_indices, numbers_in_places

DIMS = [(), (1,), (3,), (2, 3), (1, 3), (2, 1, 2), (2, 3, 2)]


def shapes(dims):
    for order in itertools.permutations(range(len(dims))):
        for extra in itertools.product((0, 2), repeat=len(dims)):
            widths = [size + more for size, more in zip(dims, extra)] if any(extra) else None
            yield Shape("u8", dims, Layout(order, padded_dimensions=widths))


# ---- the stride table ----------------------------------------------------------------------------


@pytest.mark.parametrize("dims", DIMS)
def test_the_table_s_two_directions_agree_with_the_definition(dims):
    for shape in shapes(dims):
        table = stride_table(shape)
        numbers = numbers_in_places(dims, shape.layout.minor_to_major, shape.layout.padded_dimensions)
        assert table.buffer_size == len(numbers) and table.dimensions == dims
        for number, index in enumerate(logical_indices(dims)):
            assert numbers[table.linear_of(index)] == number
            assert table.index_of(table.linear_of(index)) == index
        for linear in range(table.buffer_size):
            assert all(i < size for i, size in zip(table.index_of(linear), dims)) == (numbers[linear] >= 0)
            assert table.linear_of(table.index_of(linear)) == linear


def test_digits_are_minor_first_and_each_steps_over_the_one_below():
    for dims in DIMS:
        for shape in shapes(dims):
            digits = stride_table(shape).digits
            assert [digit.dim for digit in digits] == list(shape.layout.minor_to_major)
            assert all(upper.stride == lower.stride * lower.extent for lower, upper in itertools.pairwise(digits))
            assert all(digit.step == 1 for digit in digits) and (not digits or digits[0].stride == 1)


def test_a_digit_with_a_step_is_a_piece_of_its_dimension():
    """Two digits of one dimension, of extent 4 and of step 4, with another dimension between them."""
    table = gl.StrideTable((Digit(0, 1, 4, 1), Digit(1, 1, 3, 4), Digit(0, 4, 2, 12)), (8, 3), 24)
    for index in logical_indices((8, 3)):
        linear = index[0] % 4 + index[1] * 4 + index[0] // 4 * 12
        assert table.linear_of(index) == linear and table.index_of(linear) == index


def test_tables_are_values():
    shape = gl.parse_shape("f32[2,3]{0,1:PD(3,5)}")
    assert stride_table(shape) is stride_table(gl.parse_shape(str(shape)))
    assert hash(stride_table(shape)) == hash(stride_table(shape.with_element_type("s32")))
    assert stride_table(shape) == stride_table(shape.with_element_type("s32"))
