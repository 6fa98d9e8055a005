"""Moves and their coalescing: every place of the target keeps its source element, or stays padding."""

import dataclasses
import itertools
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import Layout, LayoutError, Shape
from gpulayout.moves.move import MAX_AXES, Axis, Move, coalesce
from tests.reference import logical_indices, place_of
from tests.support.effort import examples
from tests.support.placed import pack_move, relayout_move, unpack_move
from tests.support.strategies import pairs


def places(axes):
    """(target offset, source offset) of each place in the order of the loops; (target offset, None) for padding."""
    walked = []
    for counters in itertools.product(*(range(axis.extent) for axis in reversed(axes))):
        loops = list(zip(reversed(counters), axes))  # minor first; the minor loop runs fastest
        target = sum(c * axis.target_stride for c, axis in loops)
        inside = all(c < axis.bound for c, axis in loops)
        walked.append((target, sum(c * axis.source_stride for c, axis in loops) if inside else None))
    return walked


def as_places(move):
    """The move as a dictionary; fails if a place is written twice."""
    walked = places(move.axes)
    assert len(walked) == len(dict(walked)) == move.place_count
    return dict(walked)


# ---- coalescing ----------------------------------------------------------------------------------


def check_coalescing(axes):
    joined, made_of = coalesce(axes)
    assert places(joined) == places(axes)
    assert [dim for dims in made_of for dim in dims] == [k for k, axis in enumerate(axes) if axis[:2] != (1, 1)]
    assert all(axis[:2] != (1, 1) for axis in joined)
    for lower, upper in itertools.pairwise(joined):  # no pair could still merge
        assert lower.is_padded or upper[2:] != (lower.source_stride * lower.extent, lower.target_stride * lower.extent)
    return joined


def test_coalescing_keeps_every_place_exhaustively():
    """Two and three axes, with strides that chain, that nearly chain, and that are zero or negative."""
    axes = [
        Axis(extent, bound, source, target)
        for extent in (1, 2, 3)
        for bound in range(extent + 1)
        for source, target in ((1, 1), (2, 2), (4, 2), (6, 6), (0, 3), (-2, 4))
    ]
    lengths = {len(check_coalescing(pair)) for pair in itertools.product(axes, repeat=2)}
    assert lengths == {0, 1, 2}
    few = [axis for axis in axes if axis.source_stride in (1, 2, 6) and axis.bound >= axis.extent - 1]
    lengths = {len(check_coalescing(triple)) for triple in itertools.product(few, repeat=3)}
    assert lengths == {0, 1, 2, 3}


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from((0, 0, 0, 1, 2)), st.sampled_from((0, 0, 0, 1, -1))), max_size=6
    )
)
@settings(max_examples=examples(300))
def test_coalescing_keeps_every_place_of_chains(loops):
    """Axes that mostly step exactly over the ones below; some are padded, and some steps are off by one."""
    axes, source, target = [], 1, 1
    for extent, missing, slip in loops:
        axes.append(Axis(extent, max(extent - missing, 0), source + slip, target))
        source, target = (source + slip) * extent, target * extent
    check_coalescing(axes)


def test_any_number_of_contiguous_axes_becomes_one():
    assert check_coalescing([Axis(2, 2, 2**k, 2**k) for k in range(8)]) == (Axis(256, 256, 1, 1),)
    axes = [Axis(2, 2, 2**k, 2**k) for k in range(60)]
    assert coalesce(axes)[0] == (Axis(2**60, 2**60, 1, 1),)


def test_a_padded_axis_merges_only_as_the_upper_of_a_pair():
    assert check_coalescing([Axis(4, 4, 1, 1), Axis(3, 2, 4, 4)]) == (Axis(12, 8, 1, 1),)
    assert len(check_coalescing([Axis(4, 3, 1, 1), Axis(3, 3, 4, 4)])) == 2


# ---- moves against the definition ----------------------------------------------------------------


def expected_places(source, target):
    """Byte offsets by the definition of a layout, element by element; all other places are padding."""
    size = target.itemsize
    expected = {place * size: None for place in range(target.buffer_size)}
    for index in logical_indices(target.dimensions):
        read = place_of(index, source.layout.minor_to_major, source.buffer_dimensions) * size
        expected[place_of(index, target.layout.minor_to_major, target.buffer_dimensions) * size] = read
    return expected


@pytest.mark.parametrize("dims", [(), (1,), (3,), (2, 3), (1, 3), (0, 2), (2, 1, 2), (2, 3, 2), (1, 1)])
def test_relayout_fills_every_place_with_its_element_or_the_pad(dims):
    variants = [
        Layout(order, padded_dimensions=widths)
        for order in itertools.permutations(range(len(dims)))
        for widths in (None, [size + 1 for size in dims], [size + dim % 2 * 2 for dim, size in enumerate(dims)])
    ]
    for first, second in itertools.product(variants, repeat=2):
        source, target = Shape("s16", dims, first), Shape("s16", dims, second)
        move = relayout_move(source, target)
        assert as_places(move) == expected_places(source, target)
        check_counts(move, source, target)


@given(pairs(max_rank=6, max_elements=300))
@settings(max_examples=examples(150))
def test_relayout_of_any_pair_fills_every_place(pair):
    source, target = pair
    move = relayout_move(source, target)
    assert as_places(move) == expected_places(source, target)
    check_counts(move, source, target)


def check_counts(move, source, target):
    assert (move.place_count, move.element_count) == (target.buffer_size, source.element_count)
    assert (move.bytes_read, move.bytes_written) == (source.element_count * source.itemsize, target.nbytes)
    assert move.is_padded == (target.buffer_size > target.element_count)
    assert move.pad == target.padding_bytes


@pytest.mark.parametrize("strides", [(12, 4), (4, 8), (-12, 4), (12, -4), (24, 8), (0, 0)])
def test_pack_reads_and_unpack_writes_by_any_strides(strides):
    shape = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    order, widths = shape.layout.minor_to_major, shape.buffer_dimensions
    inside = {
        place_of(index, order, widths) * 4: sum(i * stride for i, stride in zip(index, strides))
        for index in logical_indices(shape.dimensions)
    }
    packed = as_places(pack_move(strides, shape))
    assert {place: read for place, read in packed.items() if read is not None} == inside and len(packed) == 15
    if strides != (0, 0):
        unpacked = as_places(unpack_move(shape, strides))
        assert unpacked == {write: place for place, write in inside.items()}


def test_strides_of_dimensions_of_size_1_are_ignored():
    shape = Shape("f32", (2, 1, 3))
    for odd in (0, -4, 10**12, 12):
        assert pack_move((12, odd, 4), shape) == pack_move((12, 12, 4), shape)
        assert unpack_move(shape, (12, odd, 4)).axes == (Axis(6, 6, 4, 4),)


# ---- padding -------------------------------------------------------------------------------------


def test_padding_of_every_dimension_and_order():
    for dims in ((3,), (2, 3), (1, 2), (0, 2), (2, 2, 2), (1, 1, 1)):
        for order in itertools.permutations(range(len(dims))):
            for extra in itertools.product((0, 1, 3), repeat=len(dims)):
                widths = tuple(size + more for size, more in zip(dims, extra))
                source, target = Shape("u8", dims), Shape("u8", dims, Layout(order, padded_dimensions=widths))
                move = relayout_move(source, target)
                assert as_places(move) == expected_places(source, target)
                check_counts(move, source, target)
                if 0 not in dims:
                    assert sum(axis.is_padded for axis in move.axes) <= len([more for more in extra if more])


def test_spans_are_the_reached_offsets():
    shape = Shape("s16", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    for strides in ((6, 2), (-6, 2), (6, -2), (-6, -2), (20, 4)):
        for move in (pack_move(strides, shape), unpack_move(shape, strides)):
            reads = [source for _, source in places(move.axes) if source is not None]
            writes = [target for target, _ in places(move.axes)]
            assert move.source_span == (min(reads), max(reads) + 2)
            assert move.target_span == (min(writes), max(writes) + 2)
    nothing = relayout_move(Shape("s16", (0, 3)), Shape("s16", (0, 3)))
    assert nothing.source_span == nothing.target_span == (0, 0)


# ---- large moves and limits ----------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(131077, 65539), (2**31, 3), (3, 2**40), (2**32 + 1, 5)])
def test_moves_of_huge_shapes_are_planned_without_memory(dims):
    source, target = Shape("u8", dims), Shape("u8", dims, Layout((0, 1)))
    move = relayout_move(source, target)
    assert move.axes == (Axis(dims[0], dims[0], dims[1], 1), Axis(dims[1], dims[1], 1, dims[0]))
    assert move.bytes_read == move.bytes_written == math.prod(dims)
    assert move.source_span == move.target_span == (0, math.prod(dims))
    padded = relayout_move(source, Shape("u8", dims, Layout((1, 0), padded_dimensions=(dims[0], dims[1] + 1))))
    assert padded.axes == (Axis(dims[1] + 1, dims[1], 1, 1), Axis(dims[0], dims[0], dims[1], dims[1] + 1))


def test_many_dimensions_that_merge_are_one_axis():
    dims = (2,) * 62
    assert relayout_move(Shape("u8", dims), Shape("u8", dims)).axes == (Axis(2**62, 2**62, 1, 1),)
    dims = (1,) * 1000
    assert relayout_move(Shape("u8", dims), Shape("u8", dims, Layout.ascending(1000))).axes == ()


def test_no_move_has_more_axes_than_a_kernel_takes():
    """As many dimensions of two places as a shape can have, kept from merging by strides or by padding."""
    strides = tuple(-(2**k) if k % 2 else 2**k for k in range(62))
    assert len(pack_move(strides, Shape("u8", (2,) * 62)).axes) == 62 <= MAX_AXES
    shape = Shape("u8", (1,) * 100, Layout.descending(100).replace(padded_dimensions=(1,) * 38 + (2,) * 62))
    assert len(pack_move((0,) * 100, shape).axes) == 62
    with pytest.raises(LayoutError):
        Shape("u8", (2,) * 63)


# ---- values --------------------------------------------------------------------------------------


def test_moves_are_frozen_hashable_values():
    source, target = Shape("f32", (2, 3)), Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    move = relayout_move(source, target)
    same = Move(move.axes, move.itemsize, move.pad, move.dimensions)
    assert move == same and hash(move) == hash(same) and len({move, same}) == 1
    assert relayout_move(source, target) == move
    assert move != relayout_move(source, Shape("f32", (2, 3), target.layout.replace(padding_value=1)))
    move.source_span, move.is_padded  # computed once, and not part of the value
    assert move == same and pickle.loads(pickle.dumps(move)) == move
    with pytest.raises(dataclasses.FrozenInstanceError):
        move.itemsize = 8
    assert repr(move).startswith("Move(axes=(Axis(extent=3, bound=2, source_stride=12, target_stride=4),")


def test_plans_are_equal_when_their_shapes_are():
    one, other = gl.plan("f32[2,3]", "f32[2,3]{0,1}"), gl.plan("f32[2,3]{1,0}", " f32[2,3]{0,1}")
    assert one == other and hash(one) == hash(other) and repr(one) == "plan('f32[2,3]{1,0}', 'f32[2,3]{0,1}')"
    assert one != gl.plan("f32[2,3]", "f32[2,3]") and one != "f32[2,3]"
    with pytest.raises(AttributeError):
        one.new = 1


@pytest.mark.parametrize("source, target", [("f32[2,3]", "f32[3,2]"), ("f32[2,3]", "s32[2,3]"), ("f32[6]", "f32[2,3]")])
def test_both_sides_of_a_move_are_the_same_logical_array(source, target):
    with pytest.raises(LayoutError, match="is not the same logical array"):
        relayout_move(gl.parse_shape(source), gl.parse_shape(target))
