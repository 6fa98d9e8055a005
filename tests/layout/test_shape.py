"""Shapes: sizes, strides and questions are checked against the definition, edits against obvious models."""

import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import ElementType, Layout, LayoutError, PaddingValue, Shape
from tests.reference import logical_indices, place_of

SIZES = (0, 1, 2, 3)
SMALL = [dims for rank in range(4) for dims in itertools.product(SIZES, repeat=rank)]


def layouts(dims):
    """Every order, unpadded and padded in two ways."""
    for order in itertools.permutations(range(len(dims))):
        yield Layout(order)
        yield Layout(order, padded_dimensions=[size + 1 for size in dims])
        yield Layout(order, padded_dimensions=[size + dim % 2 * 2 for dim, size in enumerate(dims)])


# ---- sizes and strides ---------------------------------------------------------------------------


def test_strides_and_sizes_follow_the_definition():
    for dims in SMALL:
        for layout in layouts(dims):
            shape, order = Shape("s16", dims, layout), layout.minor_to_major
            widths = layout.padded_dimensions or dims
            assert shape.buffer_dimensions == widths
            assert (shape.element_count, shape.buffer_size, shape.nbytes) == (
                math.prod(dims),
                math.prod(widths),
                2 * math.prod(widths),
            )
            assert shape.is_padded == (widths != dims)
            for index in logical_indices(dims):
                assert sum(i * stride for i, stride in zip(index, shape.strides)) == place_of(index, order, widths)
            assert shape.byte_strides == tuple(2 * stride for stride in shape.strides)


def test_questions_about_sizes():
    for dims in SMALL:
        for layout in layouts(dims):
            shape = Shape("f32", dims, layout)
            assert shape.rank == len(dims) and shape.is_scalar == (dims == ())
            assert shape.true_rank == len([size for size in dims if size > 1])
            assert shape.is_zero_element_array == (0 in dims)
            assert shape.is_effective_scalar == (set(dims) <= {1})
            assert shape.has_degenerate_dimensions == (1 in dims)
            assert shape.last_dimension_is_minor_most == (bool(dims) and layout.minor_to_major[0] == len(dims) - 1)
            for dim in range(len(dims)):
                above = layout.minor_to_major[layout.minor_to_major.index(dim) + 1 :]
                for number in (dim, dim - len(dims)):
                    assert shape.dimension(number) == dims[dim]
                    assert shape.dimension_number(number) == dim
                    assert shape.stride(number) == shape.strides[dim]
                    assert shape.is_effectively_most_major_dimension(number) == all(dims[other] == 1 for other in above)


def test_the_default_layout_is_descending_without_padding():
    for dims in SMALL:
        assert Shape("f32", dims).layout == Layout.descending(len(dims))
        assert Shape("f32", dims, Layout.ascending(len(dims))).with_layout(None) == Shape("f32", dims)


def test_the_default_order_keeps_padding():
    layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=PaddingValue.LOWEST)
    assert str(Shape("f32", (2, 3), layout).with_default_order()) == "f32[2,3]{1,0:PD(3,5)PV(lowest)}"


def test_index_in_bounds_looks_at_both_ends_and_the_rank():
    shape = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    for index in itertools.product(range(-3, 7), repeat=2):
        assert shape.index_in_bounds(index) == (0 <= index[0] < 2 and 0 <= index[1] < 3)
    assert not shape.index_in_bounds((0,)) and not shape.index_in_bounds((0, 0, 0))
    assert Shape("f32", ()).index_in_bounds(())


def test_bump_visits_all_indices_in_logical_order_in_any_layout():
    for dims in SMALL:
        if 0 not in dims:
            for layout in (Layout.ascending(len(dims)), Layout.descending(len(dims))):
                shape = Shape("f32", dims, layout)
                walked, index = [], (0,) * len(dims)
                while index is not None:
                    walked.append(index)
                    index = gl.xla.bump_indices(shape, index)
                assert walked == list(logical_indices(dims))
                assert all(
                    gl.xla.compare_indices(before, after) == -1 and gl.xla.compare_indices(after, before) == 1
                    for before, after in itertools.pairwise(walked)
                )


# ---- large sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "total", [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]
)
def test_sizes_are_exact_at_powers_of_two(total):
    for dims in ((total,), (1, total), (total, 1)):
        shape = Shape("u8", dims, Layout.ascending(len(dims)))
        assert (shape.element_count, shape.buffer_size, shape.nbytes) == (total, total, total)
    padded = Shape("u8", (1, 1), Layout((1, 0), padded_dimensions=(1, total)))
    assert (padded.element_count, padded.nbytes, padded.strides) == (1, total, (total, 1))


@pytest.mark.parametrize("name", ["u8", "bf16", "f32", "c64", "c128"])
def test_bytes_may_reach_2_to_the_63_minus_1_in_any_order(name):
    room = (2**63 - 1) // ElementType.of(name).itemsize
    Shape(name, (room,))
    for dims in (
        (room + 1,),
        (2**32, 2**32),
        (2**31, 2**31, 2),
        (2**62, 2**62, 0),
        (0, 2**62, 2**62),
        (2**62, 0, 2**62),
    ):
        for order in itertools.permutations(range(len(dims))):
            with pytest.raises(LayoutError, match=r"2\^63-1"):
                Shape(name, dims, Layout(order))


# ---- edits ---------------------------------------------------------------------------------------


def test_permuting_moves_no_element():
    """An element keeps its place when its index is permuted, for every permutation, 3-cycles included."""
    for dims in ((2, 3, 4), (3, 1, 2), (2, 3), (2, 1, 3, 2)):
        for layout in layouts(dims):
            shape = Shape("f32", dims, layout)
            for permutation in itertools.permutations(range(len(dims))):
                turned = shape.permute_dimensions(permutation)
                assert turned.dimensions == np.empty(dims).transpose(permutation).shape
                assert turned.strides == tuple(shape.strides[dim] for dim in permutation)
                assert turned.nbytes == shape.nbytes
                assert shape.permute_dimensions([dim - len(dims) for dim in permutation]) == turned


def test_inserted_dimensions_stand_together_above_their_neighbour():
    for order in itertools.permutations(range(3)):
        shape = Shape("f32", (10, 20, 30), Layout(order, padded_dimensions=(11, 21, 31)))
        for at in range(4):
            found = shape.insert_dimensions(at, (7, 8))
            sizes = [10, 20, 30]
            sizes[at:at] = [7, 8]
            assert found.dimensions == tuple(sizes)
            position = found.layout.minor_to_major.index
            assert position(at) == position(at + 1) + 1  # 7 lies just above 8
            assert position(at + 1) == (position(at + 2) + 1 if at < 3 else 0)
            assert found.delete_dimensions((at, at + 1)) == shape
        assert shape.insert_dimensions(1, ()) == shape


def test_a_dimension_can_be_inserted_padded():
    shape = Shape("f32", (10, 30), Layout((1, 0), padded_dimensions=(11, 31))).insert_dimension(1, 20, 25)
    assert str(shape) == "f32[10,20,30]{2,1,0:PD(11,25,31)}"


def test_major_and_minor_dimensions_can_be_added():
    for order in itertools.permutations(range(3)):
        shape = Shape("f32", (10, 20, 30), Layout(order))
        shifted = tuple(dim + 1 for dim in order)
        for found, dims, minor_to_major in (
            (shape.prepend_major_dimension(40), (40, 10, 20, 30), (*shifted, 0)),
            (shape.append_major_dimension(40), (10, 20, 30, 40), (*order, 3)),
            (shape.append_minor_dimension(40), (10, 20, 30, 40), (3, *order)),
        ):
            assert (found.dimensions, found.layout.minor_to_major) == (dims, minor_to_major)


def test_deleting_dimensions_deletes_their_sizes():
    shape = Shape("f32", (10, 20, 30), Layout((1, 2, 0), padded_dimensions=(11, 22, 33)))
    assert str(shape.delete_dimension(-1)) == "f32[10,20]{1,0:PD(11,22)}"
    assert str(shape.delete_dimensions({0, -1})) == "f32[20]{0:PD(22)}"
    assert str(shape.delete_dimensions(dim for dim in (2, 0))) == "f32[20]{0:PD(22)}"


def test_dropping_degenerate_dimensions_keeps_padded_ones_and_every_place():
    for dims in SMALL:
        for layout in layouts(dims):
            shape = Shape("f32", dims, layout)
            dropped = shape.drop_degenerate_dimensions()
            kept = [dim for dim in range(len(dims)) if (dims[dim], shape.buffer_dimensions[dim]) != (1, 1)]
            assert dropped.dimensions == tuple(dims[dim] for dim in kept)
            assert dropped.strides == tuple(shape.strides[dim] for dim in kept)
            assert dropped.nbytes == shape.nbytes


def test_moving_a_dimension_changes_only_the_order():
    shape = Shape("f32", (2, 3, 4), Layout((2, 0, 1), padded_dimensions=(3, 4, 5)))
    assert str(shape.move_dimension_to_major(-1)) == "f32[2,3,4]{0,1,2:PD(3,4,5)}"
    assert str(shape.move_dimension_to_minor(1)) == "f32[2,3,4]{1,2,0:PD(3,4,5)}"


def test_an_element_type_can_be_changed():
    shape = gl.parse_shape("f32[2,3]{0,1:PD(3,5)PV(2.5)}")
    assert str(shape.with_element_type(np.float64)) == "f64[2,3]{0,1:PD(3,5)PV(2.5)}"
    with pytest.raises(LayoutError, match="cannot be held by s32"):
        shape.with_element_type("s32")


# ---- element types -------------------------------------------------------------------------------


def test_element_types_come_from_names_and_dtypes():
    for element_type in ElementType:
        assert ElementType.of(element_type) is ElementType.of(element_type.value) is element_type
        assert ElementType.of(element_type.dtype) is ElementType.of(element_type.dtype.type) is element_type
        assert element_type == element_type.value == str(element_type) == f"{element_type}"
        assert element_type.itemsize == element_type.dtype.itemsize == element_type.carrier.itemsize
        assert element_type.itemsize in (1, 2, 4, 8, 16)
    assert len({element_type.proto_number for element_type in ElementType}) == len(ElementType) == 32


def test_xla_names_win_over_numpy_s_short_names():
    assert ElementType.of("u8").itemsize == ElementType.of("s8").itemsize == 1  # NumPy's u8 is eight bytes
    assert ElementType.of("f8e5m2").itemsize == 1
    assert ElementType.of("<f4") is ElementType.of(float.__name__ + "32") is ElementType.F32


@pytest.mark.parametrize(
    "value, message",
    [
        ("i4x", "element type 'i4x' is neither an XLA name nor the name of a NumPy dtype (did you mean 's4'?)"),
        (None, "element type None is neither an XLA name nor a NumPy dtype"),
        (3, "element type 3 is neither an XLA name nor a NumPy dtype"),
        (
            ">f4",
            "element type '>f4' is big-endian: convert the array with .astype(array.dtype.newbyteorder('=')), which "
            "makes it f32",
        ),
        (
            np.dtype("O"),
            "element type dtype('O') has no XLA counterpart: only booleans, integers, floats and complex numbers "
            "have one",
        ),
        (
            np.dtype("M8[s]"),
            "element type dtype('<M8[s]') has no XLA counterpart: only booleans, integers, floats and complex "
            "numbers have one",
        ),
        (
            np.dtype([("a", "i4")]),
            "element type dtype([('a', '<i4')]) has no XLA counterpart: only booleans, integers, floats "
            "and complex numbers have one",
        ),
    ],
)
def test_an_unknown_element_type_is_a_type_error(value, message):
    with pytest.raises(TypeError) as caught:
        Shape(value, (2, 3))
    assert str(caught.value) == message


# ---- from arrays ---------------------------------------------------------------------------------


def test_shape_of_describes_where_the_elements_are():
    array = np.zeros((4, 6, 5), np.float32)
    for view in (array, array.T, array.transpose(1, 2, 0), array[:3, :4], array[:, :4, :2].transpose(2, 0, 1)):
        shape = gl.shape_of(view)
        assert shape.dimensions == view.shape and shape.byte_strides == view.strides and shape.element_type == "f32"
    assert gl.shape_of(np.zeros(())) == Shape("f64", ())
