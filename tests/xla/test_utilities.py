"""Smaller functions of XLA: visiting indices, filtering and permuting dimensions, questions about strides and tiles."""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, Shape
from gpulayout.xla import MemorySpace

# ---- every index -----------------------------------------------------------------------------------


def visited(shape, base, count, increment):
    """The indices of XLA's loop: an odometer whose fastest wheel is the most minor dimension."""
    if shape.is_zero_element_array:
        return []
    index, found = list(base), []
    while True:
        found.append(list(index))
        for dim in shape.layout.minor_to_major:
            index[dim] += increment[dim]
            if index[dim] < base[dim] + count[dim]:
                break
            index[dim] = base[dim]
        else:
            return found


@pytest.mark.parametrize("dimensions", [(), (3,), (2, 3), (2, 0, 3), (2, 1, 3), (2, 3, 4)], ids=str)
def test_every_index_comes_in_the_order_of_the_layout(dimensions):
    for order in itertools.permutations(range(len(dimensions))):
        shape = Shape("u8", dimensions, Layout(order))
        found = gl.xla.each_index(shape)
        assert found.dtype == np.int64 and found.shape == (shape.rank, shape.element_count)
        assert found.T.tolist() == visited(shape, (0,) * shape.rank, dimensions, (1,) * shape.rank)
        if shape.rank and shape.element_count:
            assert gl.linearize(found, shape).tolist() == list(range(shape.element_count))


def test_parts_of_the_indices_with_steps():
    for order in itertools.permutations(range(3)):
        shape = Shape("u8", (5, 4, 6), Layout(order))
        for base, count, increment in itertools.product(
            [(0, 0, 0), (1, 2, 0)], [(4, 2, 6), (0, 1, 5), (3, 0, 0)], [(1, 1, 1), (2, 1, 3)]
        ):
            found = gl.xla.each_index(shape, base, count, increment)
            assert found.T.tolist() == visited(shape, base, count, increment)
    pinned = gl.xla.each_index("u8[5,4]", base=(2, 0), count=(0, 4), increment=(0, 1))
    assert pinned.tolist() == [[2, 2, 2, 2], [0, 1, 2, 3]]
    assert gl.xla.each_index("u8[5]", base=(3,)).tolist() == [[3, 4]]


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        (
            {"base": (5, 0)},
            IndexError,
            "index (5, 0) is out of bounds for u8[5,4]{1,0}: coordinate 5 of dimension 0 is not in 0..4",
        ),
        (
            {"base": (0, -1)},
            IndexError,
            "index (0, -1) is out of bounds for u8[5,4]{1,0}: coordinate -1 of dimension 1 is not in 0..3",
        ),
        (
            {"count": (6, 4)},
            IndexError,
            "index (5, 3) is out of bounds for u8[5,4]{1,0}: coordinate 5 of dimension 0 is not in 0..4",
        ),
        ({"count": (5, -1)}, LayoutError, "count (5, -1) is negative for u8[5,4]{1,0}: dimension 1 has -1"),
        ({"increment": (1, 0)}, LayoutError, "increment (1, 0) never ends for u8[5,4]{1,0}: dimension 1 steps by 0"),
        ({"increment": (-1, 1)}, LayoutError, "increment (-1, 1) never ends for u8[5,4]{1,0}: dimension 0 steps by -1"),
        ({"base": (0,)}, LayoutError, "base (0,) has 1 entry for u8[5,4]{1,0}: the shape has 2 dimensions"),
        (
            {"count": (0, 1.5)},
            TypeError,
            "count (0, 1.5) is not all integers for u8[5,4]{1,0}: entry 1 is 1.5, a float",
        ),
    ],
)
def test_indices_that_cannot_be_visited(arguments, kind, message):
    with pytest.raises(kind) as caught:
        gl.xla.each_index("u8[5,4]", **arguments)
    assert str(caught.value) == message


def test_a_count_past_the_end_is_accepted_if_no_step_lands_there():
    assert gl.xla.each_index("u8[5]", count=(6,), increment=(4,)).tolist() == [[0, 4]]


# ---- edits -----------------------------------------------------------------------------------------


def test_dimensions_are_filtered_by_number():
    shape = gl.parse_shape("f32[2,3,4,5]{0,2,1,3:PD(2,3,6,5)}")
    assert str(shape.filter_dimensions(lambda dim: dim < 3)) == "f32[2,3,4]{0,2,1:PD(2,3,6)}"
    assert shape.filter_dimensions(lambda dim: True) == shape and shape.filter_dimensions(lambda dim: False).rank == 0
    with pytest.raises(LayoutError, match="would cut different dimensions"):
        gl.parse_shape("f32[2,3]{1,0:T(8,128)}").filter_dimensions(lambda dim: dim)


def test_dimensions_are_permuted_and_the_layout_stays():
    shape = gl.parse_shape("f32[2,3,4]{0,2,1:PD(2,3,6)S(1)}")
    for permutation in itertools.permutations(range(3)):
        turned = shape.permute_dimensions_ignoring_layout(permutation)
        assert turned.dimensions == tuple(shape.dimensions[dim] for dim in permutation)
        assert turned.layout.minor_to_major == shape.layout.minor_to_major and turned.layout.memory_space == 1
        assert turned.layout.padded_dimensions == tuple((2, 3, 6)[dim] for dim in permutation)
    assert shape.permute_dimensions_ignoring_layout((0, 1, 2)) == shape


def test_a_static_shape_keeps_no_metadata():
    assert str(gl.parse_shape("f32[<=4,2]{1,0:S(1)M(8)}").with_static_dimensions()) == "f32[4,2]{1,0:S(1)}"


def test_layouts_lose_tiles_and_dimensions():
    assert str(gl.parse_shape("f32[2,3]{0,1:T(8,128)(2,1)E(32)S(1)}").without_tiles()) == "f32[2,3]{0,1:E(32)S(1)}"
    assert gl.parse_layout("{0,2,1}").delete_dimension(1) == Layout((0, 1)) and Layout((0, 2, 1)).delete_dimension(
        -1
    ) == Layout((0, 1))
    with pytest.raises(LayoutError, match="would cut different dimensions after deleting dimension 1"):
        gl.parse_layout("{1,0:T(8,128)}").delete_dimension(1)


def test_parts_of_complex_numbers():
    assert str(gl.parse_shape("c128[2,3]{0,1:T(8,128)}").complex_component_shape()) == "f64[2,3]{0,1:T(8,128)}"
    with pytest.raises(LayoutError) as caught:
        gl.parse_shape("f32[2]").complex_component_shape()
    assert str(caught.value) == "element type f32 of f32[2]{0} is not complex: it has no components"


# ---- questions -------------------------------------------------------------------------------------


def test_sizes_by_physical_position():
    shape = gl.parse_shape("f32[2,3,4]{0,2,1}")
    assert [shape.dimension_minor(position) for position in range(3)] == [2, 4, 3]
    with pytest.raises(LayoutError, match="physical position 3 is out of range"):
        shape.dimension_minor(3)


def test_the_product_of_the_known_sizes():
    assert gl.parse_shape("f32[2,?,<=5]").extent_product == 10 and gl.parse_shape("f32[]").extent_product == 1
    assert gl.parse_shape("f32[2,0,?]").extent_product == 0


def test_strides_are_row_major_exactly_when_numpy_calls_the_array_contiguous():
    seen = set()
    for dimensions in [(), (3,), (1,), (0, 2), (2, 3), (1, 3), (3, 1), (2, 1, 3), (1, 1)]:
        for choice in itertools.product([2, 4, 6, 12, 24, 99], repeat=len(dimensions)):
            array = np.lib.stride_tricks.as_strided(np.zeros(1000, np.float16), dimensions, choice)
            found = gl.xla.byte_strides_is_major_to_minor(choice, dimensions, "f16")
            seen.add(found)
            assert found == array.flags.c_contiguous, (dimensions, choice)
    assert seen == {True, False}
    with pytest.raises(LayoutError, match=r"byte_strides \(4,\) has 1 entry for 2 dimensions \(2, 3\)"):
        gl.xla.byte_strides_is_major_to_minor((4,), (2, 3), "f32")


def test_strides_as_if_nothing_were_packed():
    for text in ("s4[2,3]{0,1:PD(3,3)E(4)}", "f32[2,3]{0,1:PD(3,3)}"):
        shape = gl.parse_shape(text)
        assert shape.unpacked_byte_strides == tuple(stride * shape.itemsize for stride in (1, 3))
    with pytest.raises(LayoutError, match="have no single stride per dimension"):
        gl.parse_shape("f32[2,3]{1,0:T(2,2)}").unpacked_byte_strides


@pytest.mark.parametrize("text, factor", [("bf16[2048]{0:T(1024)(128)(2,1)}", 2), ("s8[4096]{0:T(1024)(128)(4,1)}", 4)])
def test_the_factor_of_interleaved_arrays(text, factor):
    assert gl.xla.packed_factor_for_1d_interleaved_array(text) == factor
    shape = gl.parse_shape(text)  # elements 128 apart lie side by side
    assert gl.linearize(np.arange(factor)[None] * 128, shape).tolist() == list(range(factor))


@pytest.mark.parametrize(
    "text, named",
    [
        ("bf16[2048]", "no tiles"),
        ("bf16[16,128]{1,0:T(1024)(128)(2,1)}", "tiles (1024)(128)(2,1)"),
        ("bf16[2048]{0:T(1024)(128)}", "tiles (1024)(128)"),
        ("bf16[2048]{0:T(1024)(128)(2,2)}", "tiles (1024)(128)(2,2)"),
        ("bf16[2048]{0:T(1024)(128)(*,2)}", "tiles (1024)(128)(*,2)"),
        ("bf16[2048]{0:T(1024)(8,128)(2,1)}", "tiles (1024)(8,128)(2,1)"),
    ],
)
def test_arrays_that_are_not_interleaved(text, named):
    with pytest.raises(LayoutError) as caught:
        gl.xla.packed_factor_for_1d_interleaved_array(text)
    assert str(caught.value) == (
        f"{named} of {gl.parse_shape(text)} are not those of an interleaved array: "
        "one dimension with tiles T(a)(b)(k,1)"
    )


def test_dimensions_that_a_reshape_leaves_alone_are_found_in_the_order_given():
    source, target = (2, 3, 5, 7, 6), (6, 5, 1, 7, 2, 3)
    assert gl.xla.reshape_leaves_dimensions_unmodified(source, target, (2, 3)) == (1, 3)
    assert gl.xla.reshape_leaves_dimensions_unmodified(source, target, (3,)) == (3,)
    assert gl.xla.reshape_leaves_dimensions_unmodified(source, target, ()) == ()
    assert gl.xla.reshape_leaves_dimensions_unmodified(source, target, (2, 4)) is None
    with pytest.raises(
        LayoutError, match=r"dimension 5 is out of range for source \(2, 3, 5, 7, 6\): there are 5 dimensions"
    ):
        gl.xla.reshape_leaves_dimensions_unmodified(source, target, (5,))


def test_memory_spaces_have_names():
    assert {space.name: space.value for space in MemorySpace} == {
        "DEFAULT": 0,
        "GENERIC_FAST": 1,
        "HOST": 5,
        "UNPINNED_HOST": 6,
    }
    layout = Layout((0,), memory_space=MemorySpace.UNPINNED_HOST)
    assert (
        type(layout.memory_space) is int
        and repr(layout) == "Layout((0,), memory_space=6)"
        and layout == gl.parse_layout("{0:S(6)}")
    )
