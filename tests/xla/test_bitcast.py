"""Bitcasts, checked element by element: two shapes are the same bytes when every element has the same place in both."""

import functools
import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, PaddingValue, Shape
from tests.reference import numbers_in_places


@functools.cache
def places(shape):
    """The contents of a buffer, place by place: the element's number in row-major logical order, or -1."""
    return numbers_in_places(shape.dimensions, shape.layout.minor_to_major, shape.layout.padded_dimensions).tobytes()


def shapes(dims_list, extras=(0,)):
    """Every order of the dimensions, each dimension padded by one of `extras`."""
    for dims in dims_list:
        for order in itertools.permutations(range(len(dims))):
            for extra in itertools.product(extras, repeat=len(dims)):
                widths = [size + more for size, more in zip(dims, extra)] if any(extra) else None
                yield Shape("s16", dims, Layout(order, padded_dimensions=widths))


def factorings(count, max_rank=3):
    """Every way to write a number of elements as up to three dimensions, sizes 1 included."""
    divisors = [size for size in range(1, count + 1) if count % size == 0] if count else (0, 1, 2)
    return [
        dims
        for rank in range(max_rank + 1)
        for dims in itertools.product(divisors, repeat=rank)
        if math.prod(dims) == count
    ]


# ---- predicates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 4, 6, 8, 12])
def test_reshape_is_bitcast_exactly_when_every_place_agrees(count):
    known = list(shapes(factorings(count)))
    for source, target in itertools.product(known, repeat=2):
        assert gl.xla.reshape_is_bitcast(source, target) == (places(source) == places(target)), (source, target)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_padded_shapes_are_bitcasts_exactly_when_every_place_agrees(count):
    known = list(shapes(factorings(count, 2), extras=(0, 1, 2)))
    agreeing = 0
    for source, target in itertools.product(known, repeat=2):
        same = places(source) == places(target)
        agreeing += same and source.is_padded and source != target
        assert gl.xla.reshape_is_bitcast(source, target) == same, (source, target)
        assert gl.xla.is_bitcast(source, target) == (same and source.dimensions == target.dimensions)
    assert agreeing  # the pairs are not all trivial


def test_transpose_is_bitcast_exactly_when_every_place_agrees():
    for dims in ((2, 3), (2, 2), (1, 3), (2, 1, 3), (2, 2, 2), (0, 2)):
        for source in shapes([dims], extras=(0, 1)):
            for permutation in itertools.permutations(range(len(dims))):
                turned = tuple(dims[dim] for dim in permutation)
                expected = np.arange(math.prod(dims)).reshape(dims).transpose(permutation).reshape(-1)
                held = np.frombuffer(places(source), np.int64)
                for order in itertools.permutations(range(len(dims))):
                    target = Shape("s16", turned, Layout(order))
                    # The target's element k is the source's element expected[k].
                    wanted = np.frombuffer(places(target), np.int64)
                    wanted = expected[wanted] if expected.size else wanted
                    assert gl.xla.transpose_is_bitcast(source, target, permutation) == np.array_equal(held, wanted)


def test_padding_must_hold_the_same_bytes():
    def padded(value, widths=(2, 4)):
        return Shape("f32", (2, 3), Layout((1, 0), padded_dimensions=widths, padding_value=value))

    assert gl.xla.is_bitcast(padded(None), padded(PaddingValue.ZERO))
    assert gl.xla.is_bitcast(padded(PaddingValue.LOWEST), padded(-math.inf))
    assert not gl.xla.is_bitcast(padded(0.0), padded(-0.0))
    assert not gl.xla.is_bitcast(padded(None), padded(1))
    assert gl.xla.is_bitcast(padded(None, (2, 3)), padded(1, (2, 3)))  # no padding, so no difference


def test_element_types_and_their_widths_count_unless_they_are_ignored():
    f32, s32, f16 = (Shape(name, (2, 3)) for name in ("f32", "s32", "f16"))
    assert not gl.xla.is_bitcast(f32, s32) and gl.xla.is_bitcast(f32, s32, ignore="element_type")
    assert gl.xla.is_bitcast(f32, f16, ignore="element_type") and not gl.xla.is_bitcast(f32, f16)
    assert gl.xla.transpose_is_bitcast(f32, s32.permute_dimensions((1, 0)), (1, 0), ignore="element_type")
    assert not gl.xla.transpose_is_bitcast(f32, s32.permute_dimensions((1, 0)), (1, 0))
    assert gl.xla.reshape_is_bitcast(f32, Shape("s32", (6,)), ignore="element_type")


def test_an_ignored_element_type_is_ignored_with_its_width():
    """The rows of XLA's own test of `TransposeIsBitcast`, and what padding adds to them."""
    f32, f16 = "f32[10,5]{1,0}", "f16[5,10]{0,1}"
    assert gl.xla.transpose_is_bitcast(f32, f16, (1, 0), ignore="element_type")
    assert not gl.xla.transpose_is_bitcast(f32, f16, (1, 0))
    assert not gl.xla.transpose_is_bitcast(f32, "f16[5,10]{1,0}", (1, 0), ignore="element_type")
    assert gl.xla.is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", "s8[3,2]", ignore="element_type")
    assert gl.xla.deduce_transpose_dimensions_for_bitcast(f32, f16) == (1, 0)
    for source, target, same in [
        ("s4[6]{0:E(4)}", "s8[2,3]", True),
        ("f32[3]{0:PD(4)}", "s8[3]{0:PD(4)PV(zero)}", True),
        ("f32[3]{0:PD(4)PV(lowest)}", "f16[3]{0:PD(4)PV(lowest)}", True),
        ("f32[3]{0:PD(4)PV(lowest)}", "f16[3]{0:PD(4)}", False),
        ("f32[3]{0:PD(3)PV(lowest)}", "f16[3]", True),
        ("f32[3]{0:T(4)}", "f16[3]", False),
        ("f32[2,4]{1,0:T(2,2)}", "u8[2,4]{1,0:T(2,2)(1)}", True),
        ("f32[2,4]{1,0:T(2,2)}", "u8[2,4]{1,0:T(1,2)}", False),
    ]:
        assert gl.xla.reshape_is_bitcast(source, target, ignore="element_type") == same, (source, target)
        assert gl.xla.reshape_is_bitcast(target, source, ignore="element_type") == same, (source, target)
        assert not gl.xla.reshape_is_bitcast(source, target)


def test_different_numbers_of_elements_are_not_a_bitcast():
    assert not gl.xla.reshape_is_bitcast(Shape("u8", (6,)), Shape("u8", (5,), Layout((0,), padded_dimensions=(6,))))


# ---- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(2, 3, 4), (2, 2, 3), (1, 2, 1), (1, 1), (0, 2, 2), (), (3,)])
def test_a_transpose_is_deduced_exactly_when_some_permutation_is_a_bitcast(dims):
    candidates = sorted(set(itertools.permutations(dims)))
    for source in shapes([dims], extras=(0,)):
        for target in shapes(candidates):
            found = gl.xla.deduce_transpose_dimensions_for_bitcast(source, target)
            exists = any(
                gl.xla.transpose_is_bitcast(source, target, permutation)
                for permutation in itertools.permutations(range(len(dims)))
            )
            assert (found is not None) == exists, (source, target)
            assert found is None or gl.xla.transpose_is_bitcast(source, target, found)


def test_no_transpose_between_different_ranks():
    assert gl.xla.deduce_transpose_dimensions_for_bitcast(Shape("u8", (6,)), Shape("u8", (6, 1))) is None


def test_the_descending_shape_of_the_same_buffer_has_its_places_in_order():
    for source in shapes([(2, 3), (2, 1, 3), (2, 3, 4)], extras=(0, 1)):
        found = gl.xla.with_descending_layout_and_same_physical_layout(source)
        assert found.layout.is_descending and found.nbytes == source.nbytes
        assert gl.xla.transpose_is_bitcast(source, found, source.layout.major_to_minor)


def test_a_bitcast_is_decomposed_into_three_that_move_nothing():
    for source, target in itertools.product(shapes([(2, 3), (2, 1, 3), (6,)]), shapes([(3, 2), (2, 3, 1)])):
        first_permutation, first, middle, second_permutation = gl.xla.decompose_bitcast(source, target)
        assert gl.xla.transpose_is_bitcast(source, first, first_permutation)
        assert gl.xla.reshape_is_bitcast(first, middle)
        assert gl.xla.transpose_is_bitcast(middle, target, second_permutation)
        assert gl.xla.is_decomposable_bitcast(source, target)


@pytest.mark.parametrize(
    "source, target, kind",
    [
        ("f32[2,3]", "s32[6]", "reshape"),
        ("f32[2,3]{0,1}", "f32[3,2]", "transpose"),
        ("f32[16,128]{1,0:T(8,128)}", "f32[2048]", "reshape"),
        ("f32[2,3,4]{0,1,2}", "f32[4,6]{0,1}", "transpose, reshape, transpose"),
        ("f32[4,2]{0,1:T(2,2)}", "f32[2,4]{1,0:T(2,2)}", "transpose"),
    ],
)
def test_the_simplest_kind_of_a_bitcast(source, target, kind):
    assert gl.xla.bitcast_kind(source, target) == kind
    assert gl.xla.is_reshape_or_transpose_bitcast(source, target, ignore="element_type") == (
        kind in ("reshape", "transpose")
    )


def test_a_reshape_or_transpose_of_another_type_is_not_a_bitcast_unless_types_are_ignored():
    assert not gl.xla.is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", "s32[3,2]")
    assert gl.xla.is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", "s32[3,2]", ignore="element_type")


@pytest.mark.parametrize(
    "source, target, message",
    [
        ("f32[2,3]", "f32[7]", "f32[2,3]{1,0} of 24 bytes cannot be a bitcast of f32[7]{0} of 28 bytes"),
        (
            "f32[4]",
            "f32[2,2]{1,0:PD(2,3)}",
            "f32[4]{0} of 16 bytes cannot be a bitcast of f32[2,2]{1,0:PD(2,3)} of 24 bytes",
        ),
        (
            "f32[2,2]{0,1:PD(3,2)}",
            "f32[2,2]{1,0:PD(2,3)}",
            "padded_dimensions (3, 2) of f32[2,2]{0,1:PD(3,2)} cannot be decomposed: padding has no row-major order",
        ),
    ],
)
def test_what_cannot_be_decomposed_is_refused(source, target, message):
    with pytest.raises(LayoutError) as caught:
        gl.xla.decompose_bitcast(gl.parse_shape(source), gl.parse_shape(target))
    assert str(caught.value) == message
    assert not gl.xla.is_decomposable_bitcast(source, target)


def test_shapes_of_different_bytes_have_no_kind_of_bitcast():
    for source, target in (
        ("f32[2,3]", "f32[7]"),
        ("f32[2,3]", "f16[6]"),
        ("f32[2,2]{0,1:PD(3,2)}", "f32[2,2]{1,0:PD(3,2)}"),
    ):
        with pytest.raises(LayoutError, match="cannot be"):
            gl.xla.bitcast_kind(source, target)


@pytest.mark.parametrize("count", [0, 1, 4, 6, 8])
def test_layouts_are_aligned_exactly_when_some_order_is_a_bitcast(count):
    for source in shapes(factorings(count)):
        for dims in factorings(count):
            found = gl.xla.align_layouts(source, dims)
            exists = any(places(source) == places(target) for target in shapes([dims]))
            assert (found is not None) == exists, (source, dims)
            if found is not None:
                assert places(found) == places(source) and found.dimensions == dims
    assert gl.xla.align_layouts(Shape("u8", (count,)), (count + 1,)) is None


def test_a_padded_shape_is_aligned_only_with_itself():
    shape = Shape("u8", (2, 3), Layout((0, 1), padded_dimensions=(3, 3)))
    assert gl.xla.align_layouts(shape, (2, 3)) is shape
    assert gl.xla.align_layouts(shape, (3, 2)) is None and gl.xla.align_layouts(shape, (2, 3, 1)) is None


@pytest.mark.parametrize("dims", [(2, 3), (2, 3, 4), (1, 2, 1, 3), (2, 3, 4, 5), (0, 2), ()])
def test_a_normalized_transpose_moves_the_same_elements_in_as_few_dimensions_as_possible(dims):
    for permutation in itertools.permutations(range(len(dims))):
        sizes, order = gl.xla.normalized_transpose(dims, permutation)
        source_sizes = [0] * len(order)
        for position, dim in enumerate(order):
            source_sizes[dim] = sizes[position]
        numbers = np.arange(math.prod(dims))
        expected = numbers.reshape(dims).transpose(permutation).reshape(-1)
        np.testing.assert_array_equal(numbers.reshape(source_sizes).transpose(order).reshape(-1), expected)
        assert 1 not in sizes
        assert all(after != before + 1 for before, after in itertools.pairwise(order))
        assert gl.xla.normalized_transpose(dims, [dim - len(dims) for dim in permutation]) == (sizes, order)


# ---- reshapes by dimension -----------------------------------------------------------------------


def test_dimensions_are_unmodified_when_their_coordinate_is():
    """Compares the coordinates of all elements.  Dimensions of size 1 are paired only if the same number of elements
    comes before them.
    """
    for count in (1, 4, 6, 8, 12):
        for source, target in itertools.product(factorings(count), repeat=2):
            pairs = gl.xla.dimensions_unmodified_by_reshape(source, target)
            before, after = np.indices(source).reshape(-1, count), np.indices(target).reshape(-1, count)
            same = {
                (i, j)
                for i, j in itertools.product(range(len(source)), range(len(target)))
                if source[i] == target[j] and np.array_equal(before[i], after[j])
            }
            large = {pair for pair in pairs if source[pair[0]] > 1}
            assert large == {pair for pair in same if source[pair[0]] > 1}
            assert set(pairs) <= same and list(pairs) == sorted(pairs)
            assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert gl.xla.dimensions_unmodified_by_reshape((2, 0, 3), (2, 3, 0)) == ((0, 0),)


def test_inserted_and_deleted_dimensions_of_size_1():
    for count in (0, 1, 4, 6):
        for source, target in itertools.product(factorings(count), repeat=2):
            found = gl.xla.inserted_or_deleted_1_sized_dimensions(source, target)
            plain = [[size for size in dims if size != 1] for dims in (source, target)]
            assert (found is not None) == (plain[0] == plain[1])
            if found is not None:
                deleted, inserted = found
                assert {source[dim] for dim in deleted} | {target[dim] for dim in inserted} <= {1}
                assert [size for dim, size in enumerate(source) if dim not in deleted] == [
                    size for dim, size in enumerate(target) if dim not in inserted
                ]
                assert found == ((), ()) or source != target


def test_a_reshape_keeps_the_number_of_elements():
    with pytest.raises(LayoutError) as caught:
        gl.xla.dimensions_unmodified_by_reshape((2, 3), (7,))
    assert str(caught.value) == "target (7,) is not a reshape of source (2, 3): it has 7 elements, not 6"


def test_an_unbounded_dimension_has_no_place_in_memory():
    with pytest.raises(LayoutError, match="dimension 0 is unbounded"):
        gl.xla.deduce_transpose_dimensions_for_bitcast("f32[?]", "f32[?]")
