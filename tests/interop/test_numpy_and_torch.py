"""NumPy's orders and strides, PyTorch's memory formats and strides: against the arrays that the libraries make."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import interop
from tests.reference import logical_indices, place_of

SIZES = [sizes for rank in range(5) for sizes in itertools.product((1, 2, 3), repeat=rank)]
DIMENSIONS = st.lists(st.integers(0, 5), max_size=6).map(tuple)
# What says more than an order, and the field that says it.
MORE = {
    "f32[2,3]{1,0:PD(2,4)}": "padded_dimensions (2, 4)",
    "f32[2,3]{1,0:PV(lowest)}": "padding_value PaddingValue.LOWEST",
    "f32[4,6]{1,0:T(2,2)(1,2)}": "tiles (2,2)(1,2)",
    "f32[2,3]{1,0:L(8)}": "tail_padding_alignment 8",
    "s4[2,3]{1,0:E(4)}": "element_size_in_bits 4",
    "f32[2,3]{1,0:S(1)}": "memory_space 1",
    "f32[2,3]{1,0:SC(0:1)}": "split_configs",
    "f32[2,3]{1,0:M(8)}": "dynamic_shape_metadata_prefix_bytes 8",
    "f32[2,3]{1,0:#(u32)}": "index_type u32",
    "f32[2,3]{1,0:*(u32)}": "pointer_type u32",
}


def orders(rank):
    return list(itertools.permutations(range(rank)))


def places(shape):
    """The place of every element, in row-major order of the indices."""
    return [gl.linearize(index, shape) for index in logical_indices(shape.dimensions)]


# ---- NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rank", range(5))
def test_an_order_is_that_of_numpys_own_array(order, rank):
    sizes = tuple(range(2, rank + 2))
    layout = interop.from_numpy_order(order, rank)
    assert gl.shape_of(np.zeros(sizes, np.int16, order=order)) == gl.Shape("s16", sizes, layout)
    assert interop.to_numpy_order(layout) == (order if rank > 1 else "C")
    assert interop.to_numpy_order(gl.Shape("s16", sizes, layout)) == interop.to_numpy_order(str(layout))


@pytest.mark.parametrize(
    "order, problem", [("A", "gl.shape_of(array)"), ("K", "gl.shape_of(array)"), ("c", "C, F"), (0, "C, F")]
)
def test_other_orders_are_refused(order, problem):
    with pytest.raises(gl.LayoutError, match="^order ") as caught:
        interop.from_numpy_order(order, 2)
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", MORE)
@pytest.mark.parametrize("translate", [interop.to_numpy_order, interop.to_torch_memory_format])
def test_what_says_more_than_an_order_is_refused_by_the_name_of_its_field(translate, text):
    for value in (text, gl.parse_shape(text)):
        with pytest.raises(gl.LayoutError, match="cannot be expressed as a") as caught:
            translate(value)
        assert str(caught.value).startswith(MORE[text]) and text in str(caught.value)
    with pytest.raises(gl.LayoutTypeError, match="must be a Shape, a Layout or the text of one, not int"):
        translate(3)


def test_other_orders_of_dimensions_are_refused():
    with pytest.raises(
        gl.LayoutError, match=r"minor_to_major \(1, 0, 2\) of \{1,0,2\} cannot be expressed as a NumPy order"
    ):
        interop.to_numpy_order("{1,0,2}")
    with pytest.raises(gl.LayoutError, match=r"minor_to_major \(1, 0, 2\) .* channels_last is \(1, 3, 2, 0\)"):
        interop.to_torch_memory_format("{1,0,2}")


def test_widths_that_are_the_sizes_pad_nothing():
    assert interop.to_numpy_order("f32[2,3]{0,1:PD(2,3)}") == "F"


@pytest.mark.parametrize("sizes", SIZES)
def test_strides_of_every_padded_array_come_back(sizes):
    """Every element lies where the strides put it; without padding the shape itself comes back, up to sizes of 1."""
    for order in orders(len(sizes)):
        for extra in (0, 1):
            widths = tuple(size + extra for size in sizes)
            shape = gl.Shape("s32", sizes, gl.Layout(order, padded_dimensions=widths if extra else None))
            strides = interop.to_numpy_strides(shape)
            found = interop.from_numpy_strides(strides, sizes, "s32")
            assert places(found) == [place_of(index, order, widths) for index in logical_indices(sizes)]
            if not extra:
                assert interop.to_numpy_strides(found) == strides
            if not extra and 1 not in sizes:
                assert found == shape


@given(DIMENSIONS, st.sampled_from("CF"))
def test_strides_are_numpys_own(sizes, order):
    array = np.zeros(sizes, np.float32, order=order)
    found = interop.from_numpy_strides(array.strides, array.shape, array.dtype)
    assert found.buffer_size == array.size
    if array.size:
        assert interop.to_numpy_strides(found) == array.strides


def test_the_order_of_an_array_with_sizes_of_1_is_the_one_it_was_made_in():
    for sizes in SIZES:
        c, f = (np.zeros(sizes, order=order) for order in "CF")
        assert interop.to_numpy_order(interop.from_numpy_strides(c.strides, sizes, "f64")) == "C"
        found = interop.to_numpy_order(interop.from_numpy_strides(f.strides, sizes, "f64"))
        assert found == ("C" if c.strides == f.strides else "F")
    assert interop.to_numpy_order(interop.from_numpy_strides((16, 8, 8), (2, 2, 1), "f64")) == "C"
    assert interop.to_numpy_order(interop.from_numpy_strides((8, 8, 16), (1, 2, 2), "f64")) == "F"


@pytest.mark.parametrize(
    "strides, sizes, problem",
    [
        ((-4, 4), (2, 1), "dimension 0 has the negative stride -4"),
        ((0, 4), (2, 3), "dimension 0 has the stride 0"),
        ((4, 4), (2, 3), "overlap"),
        ((6, 4), (2, 1), "is not a multiple of the element's 4 bytes"),
        ((4,), (2, 3), "1 stride for 2 dimensions"),
    ],
)
def test_strides_that_no_layout_has_name_the_dimension(strides, sizes, problem):
    with pytest.raises(gl.LayoutError) as caught:
        interop.from_numpy_strides(strides, sizes, "f32")
    assert problem in str(caught.value)


@pytest.mark.parametrize("translate", [interop.to_numpy_strides, interop.to_torch_stride])
def test_tiles_and_packed_elements_have_no_strides(translate):
    with pytest.raises(gl.LayoutError, match=r"^tiles \(2,2\) of"):
        translate("f32[4,4]{1,0:T(2,2)}")
    with pytest.raises(gl.LayoutError, match=r"^element_size_in_bits 4 of"):
        translate("s4[4,4]{1,0:E(4)}")


# ---- PyTorch -------------------------------------------------------------------------------------

FORMATS = {"contiguous_format": (0, 1, 2, 3, 4, 5), "channels_last": (4,), "channels_last_3d": (5,)}


@pytest.mark.parametrize("name, rank", [(name, rank) for name, ranks in FORMATS.items() for rank in ranks])
def test_a_memory_format_is_that_of_torchs_own_tensor(name, rank):
    torch = pytest.importorskip("torch")
    memory_format = getattr(torch, name)
    layout = interop.from_torch_memory_format(memory_format, rank)
    assert layout == interop.from_torch_memory_format(name, rank)
    assert layout == interop.from_torch_memory_format(f"torch.{name}", rank)
    assert interop.to_torch_memory_format(layout) is memory_format
    sizes = tuple(range(2, rank + 2))
    tensor = torch.empty(sizes, memory_format=memory_format)
    assert interop.to_torch_stride(gl.Shape("f32", sizes, layout)) == tensor.stride()
    assert interop.from_torch_stride(tensor.stride(), tensor.size(), "f32") == gl.Shape("f32", sizes, layout)


@pytest.mark.parametrize(
    "memory_format, rank, problem",
    [
        ("preserve_format", 4, "names no layout"),
        ("torch.preserve_format", 4, "names no layout"),
        ("chanels_last", 4, "is not one of contiguous_format, channels_last, channels_last_3d"),
        (None, 4, "is not one of contiguous_format"),
        ("channels_last", 3, "is for 4 dimensions, not 3"),
        ("channels_last_3d", 4, "is for 5 dimensions, not 4"),
        ("channels_last", 2**1000, "is for 4 dimensions, not 2^1000..."),
    ],
)
def test_other_memory_formats_are_refused(memory_format, rank, problem):
    with pytest.raises(gl.LayoutError, match="^memory_format ") as caught:
        interop.from_torch_memory_format(memory_format, rank)
    assert problem in str(caught.value)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_a_tensor_of_every_order_is_found_from_its_strides(rank):
    torch = pytest.importorskip("torch")
    sizes = tuple(range(2, rank + 2))
    for order in orders(rank):
        shape = gl.Shape("f32", sizes, gl.Layout(order))
        tensor = torch.empty_permuted(sizes, shape.layout.major_to_minor)
        assert interop.to_torch_stride(shape) == tensor.stride()
        assert interop.from_torch_stride(tensor.stride(), tensor.size(), "f32") == shape


@pytest.mark.parametrize("name, rank", [("channels_last", 4), ("channels_last_3d", 5)])
def test_sizes_of_1_are_read_as_torch_reads_them(name, rank):
    """torch answers by the strides: contiguous where it holds, else channels last where that holds."""
    torch = pytest.importorskip("torch")
    wanted = getattr(torch, name)
    told_apart = 0
    for sizes in itertools.product((1, 2, 3), repeat=rank):
        tensors = [torch.empty(sizes), torch.empty(sizes, memory_format=wanted)]
        for tensor in tensors:
            found = interop.from_torch_stride(tensor.stride(), sizes, "f32")
            assert interop.to_torch_stride(found) == tensor.stride()
            assert interop.to_torch_memory_format(found) is torch_reads(torch, tensor)
        told_apart += tensors[0].stride() != tensors[1].stride()
    assert told_apart > 2 ** (rank - 1)


def torch_reads(torch, tensor):
    """The format that torch's own preserve_format keeps."""
    kept = torch.empty_like(tensor, memory_format=torch.preserve_format)
    assert kept.stride() == tensor.stride()
    dense = {
        memory_format: torch.empty(tensor.size(), memory_format=memory_format).stride()
        for memory_format in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
        if memory_format is torch.contiguous_format or tensor.dim() == FORMATS[str(memory_format)[6:]][0]
    }
    return next(memory_format for memory_format, stride in dense.items() if stride == tensor.stride())


def test_a_slice_of_a_tensor_is_padded_and_an_expanded_one_is_refused():
    torch = pytest.importorskip("torch")
    tensor = torch.empty((4, 8))[:, :5]
    found = interop.from_torch_stride(tensor.stride(), tensor.size(), "f32")
    assert str(found) == "f32[4,5]{1,0:PD(4,8)}" and interop.to_torch_stride(found) == tensor.stride()
    expanded = torch.empty((1, 8)).expand(4, 8)
    with pytest.raises(gl.LayoutError, match="dimension 0 has the stride 0"):
        interop.from_torch_stride(expanded.stride(), expanded.size(), "f32")
