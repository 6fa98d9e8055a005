"""TensorRT's names against its own words for them: arrays in C order that NumPy makes by padding and transposing."""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.interop.tensorrt_formats import FORMATS

RANKS = {3: (5, 2, 3), 4: (2, 5, 2, 3), 5: (2, 3, 5, 2, 3)}  # C has 5, which no vector divides
SIZES = [*RANKS.values(), (1, 1, 1), (3, 35, 1, 2), (2, 32, 2, 2), (2, 0, 2, 3), (0, 5, 2, 3), (5, 2, 0)]


def padded(array, axis, multiple):
    """The array with zeros at the end of an axis, which becomes a multiple of a number."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def vector_major(array, vector, axis):
    """[...][ceil(C/V)][spatial...][V], where the axis, counted from the end, is C."""
    array = padded(array, axis, vector)
    whole = array.reshape(*array.shape[:axis], array.shape[axis] // vector, vector, *array.shape[axis:][1:])
    return np.moveaxis(whole, axis, -1)


def vector_minor(array, vector, axis):
    """[...][spatial...][ceil(C/V) * V]."""
    return np.moveaxis(padded(array, axis, vector), axis, -1)


LAWS = {
    "LINEAR": lambda array: array,
    "CHW2": lambda array: vector_major(array, 2, -3),
    "CHW4": lambda array: vector_major(array, 4, -3),
    "CHW16": lambda array: vector_major(array, 16, -3),
    "CHW32": lambda array: vector_major(array, 32, -3),
    "CDHW32": lambda array: vector_major(array, 32, -4),
    "HWC": lambda array: vector_minor(array, 1, -3),
    "HWC8": lambda array: vector_minor(array, 8, -3),
    "HWC16": lambda array: vector_minor(array, 16, -3),
    "DHWC": lambda array: vector_minor(array, 1, -4),
    "DHWC8": lambda array: vector_minor(array, 8, -4),
    "DLA_LINEAR": lambda array: padded(array, -1, 64 // array.itemsize),
}


def numbered(sizes, dtype="float32"):
    return (np.arange(np.prod(sizes, dtype=int)) % 250 + 1).astype(dtype).reshape(sizes)


def test_every_format_has_a_law_or_is_refused():
    assert {*LAWS, "DLA_HWC4"} == {*FORMATS}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_format_is_the_array_that_tensorrt_says(name, sizes):
    if "D" in name and len(sizes) < 4 and name != "DLA_LINEAR":
        return
    for dtype in ("float32", "float16", "int8"):
        array = numbered(sizes, dtype)
        expected = LAWS[name](array)
        packed = gl.pack(array, f"k{name}")
        assert packed.dtype == array.dtype and np.array_equal(packed, expected.ravel())
        assert np.array_equal(gl.unpack(packed, gl.plan(gl.Shape(dtype, sizes), f"tensorrt:{name}").target), array)


@pytest.mark.parametrize("name", ["CHW4", "CHW32", "HWC8", "CDHW32", "DHWC8", "DLA_LINEAR"])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_formats_on_every_executor(executor, name, rank):
    array = numbered(RANKS[rank], "float16")
    if "D" in name and rank == 3 and name != "DLA_LINEAR":
        return
    expected = LAWS[name](array).ravel()
    source = gl.Shape("f16", array.shape)
    assert np.array_equal(executor.host(gl.pack(executor.array(array), f"k{name}")), expected)
    assert np.array_equal(executor.host(gl.relayout(executor.array(array.ravel()), source, f"k{name}")), expected)


def test_all_spellings_of_a_format_are_one_layout():
    shape = gl.Shape("f16", RANKS[4])
    prefixes = ["k", "tensorrt:", "tensorrt:k", "TensorFormat::k", "nvinfer1::TensorFormat::k", "tensorrt:"]
    for name, prefix in itertools.product(LAWS, prefixes):
        assert gl.plan(shape, prefix + name).target == gl.plan(shape, f"k{name}").target
        if name[-1].isdigit():
            assert gl.plan(shape, name).target == gl.plan(shape, f"k{name}").target


@pytest.mark.parametrize("name", ["CHW4", "kHWC", "HWC8"])
def test_layouts_by_letters_say_the_same(name):
    letters = {"CHW4": "NCHW4c", "kHWC": "NHWC", "HWC8": "NHWC8c"}[name]
    shape = gl.Shape("f32", RANKS[4])
    assert gl.plan(shape, name).target.layout == gl.Layout.named(letters, logical="NCHW")


REFUSED = {
    "HWC": "; write 'kHWC' if the array's last dimensions are C, H and W",
    "DHWC": "; write 'kDHWC' if the array's last dimensions are C, D, H and W",
    "chw32": "; write 'kCHW32' for TensorRT's format",
    "tensorrt:chw32": "; write 'kCHW32' for TensorRT's format",
    "khwc8": "; write 'kHWC8' for TensorRT's format",
    "dla_linear": "; write 'kDLA_LINEAR' for TensorRT's format",
    "LINEAR": "; write 'kLINEAR' for TensorRT's format",
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_is_almost_a_format_says_what_to_write(word):
    with pytest.raises(gl.ShapeTextError) as caught:
        gl.pack(numbered((3, 4, 5)), word)
    assert str(caught.value).endswith(REFUSED[word])


@pytest.mark.parametrize("word", ["kDLA_HWC4", "DLA_HWC4", "tensorrt:DLA_HWC4"])
def test_a_format_that_depends_on_the_chip_is_refused(word):
    message = "^TensorRT's format DLA_HWC4 rounds rows up to 32 or 64 bytes, as the chip wants: write the layout, such"
    with pytest.raises(gl.LayoutError, match=message):
        gl.pack(numbered((1, 4, 8, 10), "float16"), word)
    written = gl.pack(numbered((1, 4, 8, 10), "float16"), "{1,3,2,0:PD(1,4,8,16)}")  # what the error suggests
    rows = np.moveaxis(numbered((1, 4, 8, 10), "float16"), 1, -1)
    assert np.array_equal(written.reshape(1, 8, 16, 4)[:, :, :10], rows)


def test_arrays_of_too_few_dimensions_are_refused():
    message = (
        "TensorRT's format CHW32 is for 3 dimensions or more, of which the last are C, H, W, but the array has 2 "
        r"dimensions: \(4, 5\)"
    )
    with pytest.raises(gl.LayoutError, match=message):
        gl.pack(numbered((4, 5)), "CHW32")
    with pytest.raises(gl.LayoutError, match="format DHWC8 is for 4 dimensions or more, of which the last are C, D, H"):
        gl.plan("f16[3,4,5]", "kDHWC8")


def test_names_of_dimensions_that_a_format_does_not_fit_are_refused():
    assert gl.plan("f16[2,3,4,5]", "CHW32", names="nchw").target == gl.plan("f16[2,3,4,5]", "CHW32").target
    assert gl.plan("f16[2,3,4,5]", "CHW32", names="abcd").target == gl.plan("f16[2,3,4,5]", "CHW32").target
    for word, names, instead in [("CHW32", "nhwc", "NCHW32c"), ("kHWC8", "nhwc", "NHWC8c"), ("kDHWC", "dhwc", "DHWC")]:
        with pytest.raises(gl.LayoutError, match=f"but they are called {names}: write '{instead}'"):
            gl.plan("f16[2,3,4,5]", word, names=names)
        gl.plan("f16[2,3,4,5]", instead, names=names)  # what the error suggests
