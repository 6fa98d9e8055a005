"""Strides to layouts: NumPy's strides as order and padding, and strides that no layout has."""

import itertools

import numpy as np
import pytest

from gpulayout import Layout, LayoutError, Shape, shape_of
from gpulayout.xla import layout_from_strides

DIMS = [dims for rank in range(4) for dims in itertools.product((1, 2, 3), repeat=rank)]


def real_strides(dims, strides):
    """The strides that matter: those of dimensions with more than one element."""
    return [stride for size, stride in zip(dims, strides) if size > 1]


# ---- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("itemsize", [1, 4])
def test_every_padded_layout_is_found_again_from_its_strides(itemsize):
    """Strides that matter are equal, and the buffer is not longer than that of the original layout."""
    for dims in DIMS:
        for order in itertools.permutations(range(len(dims))):
            for extra in itertools.product((0, 1, 2), repeat=len(dims)):
                widths = tuple(size + more for size, more in zip(dims, extra))
                shape = Shape("u8", dims, Layout(order, padded_dimensions=widths))
                layout = layout_from_strides(dims, [stride * itemsize for stride in shape.strides], itemsize=itemsize)
                found = Shape("u8", dims, layout)
                assert real_strides(dims, found.strides) == real_strides(dims, shape.strides), shape
                assert found.buffer_size <= shape.buffer_size
                if not any(extra):
                    assert not found.is_padded


def test_unpadded_layouts_without_size_1_come_back_as_they_were():
    for dims in ((2,), (2, 3), (4, 3, 2), (2, 3, 2, 3)):
        for order in itertools.permutations(range(len(dims))):
            assert layout_from_strides(dims, Shape("u8", dims, Layout(order)).strides, padding=False) == Layout(order)


# ---- NumPy's arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_transposes_of_slices_put_every_element_where_numpy_has_it(order):
    array = np.arange(4 * 6 * 5, dtype=np.int32).reshape(4, 6, 5)
    for stops in itertools.product((1, 3, 4), (1, 2, 6), (1, 4, 5)):
        view = array[tuple(slice(stop) for stop in stops)].transpose(order)
        shape = shape_of(view)
        buffer = array.reshape(-1)[: shape.buffer_size]
        assert buffer.size == shape.buffer_size  # the buffer never ends after the array
        places = sum(np.indices(view.shape)[dim] * stride for dim, stride in enumerate(shape.strides))
        np.testing.assert_array_equal(buffer[places], view)


@pytest.mark.parametrize("dims", DIMS)
def test_contiguous_arrays_have_the_named_orders_whatever_their_size_1_strides(dims):
    for odd in (0, -8, 3, 10**9):
        for letter, layout in (("C", Layout.descending(len(dims))), ("F", Layout.ascending(len(dims)))):
            strides = [odd if size == 1 else stride for size, stride in zip(dims, np.zeros(dims, order=letter).strides)]
            found = layout_from_strides(dims, strides, itemsize=8)
            assert found.padded_dimensions is None
            if letter == "C" or len([size for size in dims if size > 1]) > 1:
                assert found == layout
            else:
                assert found == Layout.descending(
                    len(dims)
                )  # both orders are the same bytes: the result is the default


def test_an_array_without_elements_is_descending():
    for strides in ((99, -1), (0, 0), (3, 7)):
        assert layout_from_strides((0, 3), strides, itemsize=4) == Layout.descending(2)


def test_every_second_element_is_a_padded_dimension_of_size_1():
    """No dimension steps by one element, so one of size 1 becomes the most minor, as wide as the step."""
    assert layout_from_strides((3, 1), (2, 1)) == Layout((1, 0), padded_dimensions=(3, 2))


def test_the_largest_strides_are_exact():
    assert layout_from_strides((2, 2), (2**62, 1)) == Layout((1, 0), padded_dimensions=(2, 2**62))


# ---- strides that no layout has ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dims, strides, options, message",
    [
        (
            (2, 3),
            (3, -1),
            {},
            "strides (3, -1) cannot be a layout of dimensions (2, 3): dimension 1 has the negative stride -1",
        ),
        (
            (2, 3),
            (0, 1),
            {},
            "strides (0, 1) cannot be a layout of dimensions (2, 3): dimension 0 has the stride 0, "
            "so its elements share one place",
        ),
        (
            (2, 3),
            (12, 6),
            {"itemsize": 4},
            "strides (12, 6) cannot be a layout of dimensions (2, 3): "
            "the stride 6 of dimension 1 is not a multiple of the element's 4 bytes",
        ),
        (
            (3,),
            (2,),
            {},
            "strides (2,) cannot be a layout of dimensions (3,): "
            "no dimension steps by one element, dimension 0 is the most minor and steps by 2",
        ),
        (
            (2, 3),
            (2, 1),
            {},
            "strides (2, 1) cannot be a layout of dimensions (2, 3): "
            "dimensions 1 and 0 overlap, 0 steps by 2 elements over the 3 of dimension 1",
        ),
        (
            (2, 3),
            (1, 1),
            {},
            "strides (1, 1) cannot be a layout of dimensions (2, 3): "
            "dimensions 0 and 1 overlap, 1 steps by 1 elements over the 2 of dimension 0",
        ),
        (
            (2, 2, 2),
            (5, 2, 1),
            {},
            "strides (5, 2, 1) cannot be a layout of dimensions (2, 2, 2): "
            "dimension 0 steps by 5 elements, which is not a multiple of 2, the step of dimension 1 below it",
        ),
        (
            (2, 2),
            (3, 1),
            {"padding": False},
            "strides (3, 1) cannot be a layout of dimensions (2, 2) without padding: dimension 1 would be padded to 3",
        ),
        (
            (3, 1),
            (2, 1),
            {"padding": False},
            "strides (2, 1) cannot be a layout of dimensions (3, 1) without padding: dimension 1 would be padded to 2",
        ),
        ((2, 3), (3,), {}, "strides (3,) cannot be a layout of dimensions (2, 3): 1 stride for 2 dimensions"),
        ((2, 3), (3, 1.0), {}, "strides (3, 1.0) is not all integers: entry 1 is 1.0, a float"),
        ((2, 3), (3, 1), {"itemsize": 0}, "itemsize 0 is not a number of bytes: it must be at least 1"),
    ],
)
def test_strides_that_are_no_layout_are_refused_with_the_reason(dims, strides, options, message):
    with pytest.raises(LayoutError) as caught:
        layout_from_strides(dims, strides, **options)
    assert str(caught.value) == message


def test_strides_are_refused_exactly_when_no_layout_has_them():
    """Checked by a search through all layouts of up to three dimensions and widths up to 6."""
    possible = {}
    for dims in ((2, 2), (2, 3), (3, 1), (2, 1, 2)):
        for order in itertools.permutations(range(len(dims))):
            for widths in itertools.product(*(range(size, 7) for size in dims)):
                strides = Shape("u8", dims, Layout(order, padded_dimensions=widths)).strides
                possible.setdefault(dims, set()).add(tuple(real_strides(dims, strides)))
        for strides in itertools.product(range(-1, 7), repeat=len([size for size in dims if size > 1])):
            given = iter(strides)
            full = [next(given) if size > 1 else 1 for size in dims]
            assert is_layout(dims, full) == (strides in possible[dims]), (dims, full)


def is_layout(dims, strides):
    try:
        layout_from_strides(dims, strides)
    except LayoutError:
        return False
    return True
