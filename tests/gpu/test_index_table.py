"""The table of an index program for the GPU: its digits give the places of the definition; tiled layouts have none."""

import itertools
import math

import pytest
from hypothesis import given

import gpulayout as gl
from gpulayout import Layout, LayoutError, Shape, stride_table
from gpulayout.gpu.index_launch import IndexDigit, index_launch, index_table
from gpulayout.moves.index_program import (
    IndexProgram,
    Instruction,
    Quotient,
    Term,
    convert_program,
    delinearize_program,
    linearize_program,
)
from tests.reference import logical_indices, place_of
from tests.support import strategies

DIMS = [(), (1,), (3,), (0,), (2, 3), (1, 3), (0, 2), (2, 1, 2), (2, 3, 2)]


def shapes(dims):
    for order in itertools.permutations(range(len(dims))):
        for extra in itertools.product((0, 2), repeat=len(dims)):
            widths = [size + more for size, more in zip(dims, extra)] if any(extra) else None
            yield Shape("u8", dims, Layout(order, padded_dimensions=widths))


def run_digits(digits, linear):
    """(sum of coordinate * stride, coordinates by row, whether it is padding) of a linear index, digit by digit."""
    total, rows, padding = 0, {}, False
    for digit in digits:
        linear, rows[digit.row] = divmod(linear, digit.extent)
        total, padding = total + rows[digit.row] * digit.stride, padding or rows[digit.row] >= digit.bound
    return total, rows, padding


@pytest.mark.parametrize("dims", DIMS)
def test_conversions_keep_every_place_in_as_few_digits_as_possible(dims):
    for source, target in itertools.product(shapes(dims), repeat=2):
        digits = index_table(convert_program(source, target)).digits
        assert max(source.buffer_size, 1) == math.prod(digit.extent for digit in digits)
        reads = {
            place_of(index, source.layout.minor_to_major, source.buffer_dimensions): place_of(
                index, target.layout.minor_to_major, target.buffer_dimensions
            )
            for index in logical_indices(dims)
        }
        for linear in range(source.buffer_size):
            found, _, padding = run_digits(digits, linear)
            assert padding == (linear not in reads) and (padding or found == reads[linear]), (source, target, linear)
        if source == target and not source.is_padded:
            assert len(digits) <= 1


@pytest.mark.parametrize("dims", DIMS)
def test_digits_of_logical_indices_are_those_of_the_stride_table(dims):
    """Digits of one place come last, because no index may be divided by 1; given coordinates are as wide as their
    sizes.
    """
    for shape in shapes(dims):
        digits = stride_table(shape).digits
        there, back = index_table(linearize_program(shape)).digits, index_table(delinearize_program(shape)).digits
        assert sorted((digit.row, digit.bound) for digit in there) == list(enumerate(dims))
        strides = [digit.stride for digit in there if digit.stride]
        assert strides == sorted(strides) and index_table(linearize_program(shape)).low_digits == 0
        assert all(
            given.stride == digit.stride
            for given in there
            for digit in digits
            if digit.dim == given.row and given.bound > 1
        )
        if shape.buffer_size:
            assert [(digit.extent, digit.bound, digit.row) for digit in back if digit.extent > 1] == [
                (digit.extent, dims[digit.dim], digit.dim) for digit in digits if digit.extent > 1
            ]
        assert sorted(digit.row for digit in back) == list(range(len(dims)))
        ones = [digit.extent == 1 for digit in back]
        assert ones == sorted(ones)


@given(pair=strategies.pairs(max_elements=3000))
def test_every_strided_layout_is_a_table(pair):
    source, target = pair
    for program in (linearize_program(source), delinearize_program(source), convert_program(source, target)):
        assert index_table(program) is not None and index_launch(program, 5, "raise", (8, True), 8).file == "index.cu"


def test_64_digits_are_a_table_and_more_are_refused():
    for widths in (None, (2,) * 62 + (1, 1)):
        shape = Shape("u8", (1,) * 64, Layout(range(64), padded_dimensions=widths))
        for program in (
            linearize_program(shape),
            delinearize_program(shape),
            convert_program(shape, shape.with_layout(None)),
        ):
            assert (
                len(index_table(program).digits) <= 64
                and index_launch(program, 5, "raise", (8, True), 8).file == "index.cu"
            )
    shape = Shape("u8", (1,) * 65)
    with pytest.raises(LayoutError) as caught:
        linearize_program(shape)
    ones = ",".join(["1"] * 65)
    order = ",".join(map(str, range(64, -1, -1)))
    assert str(caught.value) == f"u8[{ones}]{{{order}}} has 65 digits: 64 is the limit for index conversion"
    shape = Shape("u8", (1,) * 300)
    # dimensions of size 1 need no digits
    assert index_table(convert_program(shape, shape.with_layout(Layout.ascending(300)))).digits == ()


@pytest.mark.parametrize("text", ["f32[16,256]{1,0:T(8,128)}", "f32[6]{0:T(3)(2)}", "f32[3,5,7]{2,0,1:T(2,*,3)}"])
def test_tiles_that_cut_a_coordinate_make_no_table(text):
    shape = gl.parse_shape(text)
    for program in (
        linearize_program(shape),
        delinearize_program(shape),
        convert_program(shape, shape.with_layout(None)),
    ):
        assert (
            index_table(program) is None and index_launch(program, 5, "raise", (8, True), 8).file == "index_program.cu"
        )


def test_tiles_that_change_nothing_make_a_table():
    for text in (
        "f32[3,5]{0,1:L(8)}",
        "f32[3,5]{1,0:T(1)}",
        "f32[8]{0:T(8)}",
        "f32[100]{0:T(8)}",
        "f32[5]{0:T(4)L(16)}",
    ):
        assert index_table(delinearize_program(gl.parse_shape(text))) is not None, text


def program(*terms, adds=((),), size=24):
    instructions = tuple(
        Instruction(None, each, None, None, row, more) for row, (each, more) in enumerate(zip(terms, adds * len(terms)))
    )
    return IndexProgram("delinearize", instructions, len(terms), size, size)


def test_only_the_digits_of_the_whole_index_make_a_table():
    low, high = (Term(None, 1, 1), Term(None, 4, -4)), (Term(None, 4, 1),)
    assert index_table(program(low, high)).digits == (IndexDigit(4, 4, 0, 0), IndexDigit(6, 6, 0, 1))
    assert index_table(program(high, low)).digits == (IndexDigit(4, 4, 0, 1), IndexDigit(6, 6, 0, 0))
    assert index_table(program(low)) is None  # a part of the index is left
    assert index_table(program(high)) is None
    # the last digit is cut off
    assert index_table(program(low, high, size=26)).digits == (IndexDigit(4, 4, 0, 0), IndexDigit(7, 7, 0, 1))
    assert index_table(program(low, low, high)) is None
    assert index_table(program((Term(None, 1, 1), Term(None, 4, -3)), high)) is None  # not a digit
    assert index_table(program((Term(0, 1, 1), Term(None, 4, -4)), high)) is None  # of another number
    assert index_table(program(low, (Term(None, 4, 2),))) is None  # twice the digit
    assert index_table(program(low, high, adds=((Quotient(2, 1),),))) is None  # a quotient of it is added


def test_a_number_that_is_checked_and_no_coordinate_makes_no_table():
    """A kernel would write the second row of the only tile of f32[3]{0:T(8,128)}, and the padding of u32[]{:T(4)}, as
    coordinates.
    """
    for text in ("f32[3]{0:T(8,128)}", "u32[]{:T(4)}"):
        assert index_table(delinearize_program(gl.parse_shape(text))) is None
