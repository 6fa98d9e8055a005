"""32 or 64 bits: decided by offsets, counts and places on both sides, not only by the number of elements."""

import pytest

from gpulayout import Layout, Shape, parse_shape
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.parameters import AXES_VARIANTS, axes_variant
from gpulayout.moves.index_program import convert_program, delinearize_program, index_bits, linearize_program
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.packed_move import packed_move
from tests.support.placed import pack_move, relayout_move, unpack_move

EDGE = 2**31
AT_THE_EDGE = [(EDGE - 1, 32), (EDGE, 64), (EDGE + 1, 64)]


@pytest.mark.parametrize("reach, bits", AT_THE_EDGE)
def test_index_bits_at_the_edge(reach, bits):
    assert index_bits(reach) == index_bits(-reach) == index_bits(0, 5, reach) == index_bits(reach, 1) == bits


def test_index_bits_of_the_extremes():
    assert index_bits() == index_bits(0) == 32
    assert index_bits(2**32) == index_bits(2**62) == index_bits(-(2**63)) == 64


@pytest.mark.parametrize("count", range(1, 65))
def test_axes_variants_are_the_next_larger_ones(count):
    assert axes_variant(count) == min(variant for variant in AXES_VARIANTS if variant >= count)


# ---- kernels -------------------------------------------------------------------------------------


def bits_of(move):
    plan = kernel_plan(move)
    assert dict(plan.macros)["GPL_INDEX_BITS"] == plan.index_bits
    return plan.index_bits


@pytest.mark.parametrize("reach, bits", AT_THE_EDGE)
def test_six_elements_far_apart_in_the_source_need_64_bits(reach, bits):
    """u8[2,3] in rows `pitch` apart: the last element is at pitch + 2."""
    pitch = reach - 2
    source, target = Shape("u8", (2, 3), Layout((1, 0), padded_dimensions=(2, pitch))), Shape("u8", (2, 3))
    assert bits_of(relayout_move(source, target)) == bits


@pytest.mark.parametrize("reach, bits", AT_THE_EDGE)
@pytest.mark.parametrize("sign", [1, -1])
def test_six_elements_far_apart_in_the_target_need_64_bits(reach, bits, sign):
    """Unpack into an array whose rows are far apart, forwards or backwards; the last column is 2 further on."""
    shape = Shape("u8", (2, 3))
    assert bits_of(unpack_move(shape, (sign * (reach - 2), sign))) == bits
    assert bits_of(pack_move((sign * (reach - 2), sign), shape)) == bits


@pytest.mark.parametrize("places, bits", AT_THE_EDGE)
def test_few_elements_among_many_places_need_64_bits(places, bits):
    target = Shape("u8", (3,), Layout((0,), padded_dimensions=(places,)))
    assert bits_of(relayout_move(Shape("u8", (3,)), target)) == bits


@pytest.mark.parametrize("count, bits", AT_THE_EDGE)
def test_a_copy_counts_elements_not_bytes(count, bits):
    """Odd counts stay 4-byte elements; an even count moves as fewer, larger elements."""
    shape = Shape("f32", (count,))
    expected = 32 if count == EDGE else bits
    assert bits_of(relayout_move(shape, shape)) == expected
    assert kernel_plan(relayout_move(shape, shape)).element_bytes == (16 if count == EDGE else 4)


def test_distances_count_in_elements_of_the_plan():
    """Rows 2^31 bytes apart are 2^29 elements of 4 bytes apart."""
    assert bits_of(Move((Axis(3, 3, 4, 4), Axis(2, 2, EDGE, 12)), 4, bytes(4), ((1,), (0,)))) == 32
    assert bits_of(Move((Axis(3, 3, 4, 4), Axis(2, 2, 4 * EDGE, 12)), 4, bytes(4), ((1,), (0,)))) == 64


@pytest.mark.parametrize("count, bits", [(EDGE - 17, 32), (EDGE - 16, 64)])
def test_bytes_to_pack_are_counted_from_an_aligned_address(count, bits):
    """So their offsets are up to 15 larger than those from the source's address."""
    unit = Move((Axis(count, count, 1, 1),), 1, b"\0", ((0,),))
    assert bits_of(packed_move(unit, 8, 4)) == bits and bits_of(packed_move(unit, 4, 8)) == 32


@pytest.mark.parametrize(
    "text, bits",
    [
        ("u8[131077,65539]{0,1}", 64),
        ("u8[46341,46341]{0,1}", 64),
        ("u8[46340,46341]{0,1}", 32),
        ("f32[46341,46341]{0,1}", 64),
        ("u8[3,715827883]{0,1}", 64),
        ("u8[3,715827882]{0,1}", 32),
    ],
)
def test_transposes_of_huge_shapes(text, bits):
    target = parse_shape(text)
    assert bits_of(relayout_move(target.with_layout(None), target)) == bits


# ---- index conversion ----------------------------------------------------------------------------


@pytest.mark.parametrize("size, bits", AT_THE_EDGE)
def test_linear_indices_count_the_places_of_the_buffer(size, bits):
    for shape in (Shape("c128", (size,)), Shape("u8", (2,), Layout((0,), padded_dimensions=(size,)))):
        assert linearize_program(shape).index_bits == delinearize_program(shape).index_bits == bits


@pytest.mark.parametrize("size, bits", AT_THE_EDGE)
def test_converting_counts_the_places_of_both_buffers(size, bits):
    small, large = Shape("u8", (2,)), Shape("u8", (2,), Layout((0,), padded_dimensions=(size,)))
    assert convert_program(small, large).index_bits == convert_program(large, small).index_bits == bits
    assert convert_program(small, small).index_bits == 32
