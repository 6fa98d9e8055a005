"""How NumPy carries moves out: whatever is cut into tiles, widened or filled first, the bytes are those of the definition."""
import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.backends.numpy_backend import NumpyBackend
from gpulayout.planning import host_plan
from gpulayout.planning.move import pack_move, relayout_move, strided_move

ELEMENT_TYPES = ("u8", "f16", "bf16", "f32", "f64", "c128")


def random_array(shape: gl.Shape) -> np.ndarray:
    """Random bytes, so NaNs with payloads too, as the logical array."""
    data = np.random.default_rng(7).integers(0, 256, shape.element_count * shape.itemsize, np.uint8)
    return data.view(shape.dtype).reshape(shape.dimensions)


def expected_bytes(array: np.ndarray, shape: gl.Shape) -> bytes:
    """The buffer by NumPy alone: pad, transpose, flatten; on integers of the same width, or 16-byte records."""
    words = array.view(f"V{array.itemsize}")
    padded = np.full(shape.buffer_dimensions, np.frombuffer(shape.padding_bytes, words.dtype)[0])
    padded[tuple(slice(size) for size in shape.dimensions)] = words
    return padded.transpose(shape.layout.major_to_minor).tobytes()


def pack_and_back(array: np.ndarray, shape: gl.Shape) -> None:
    buffer = gl.pack(array, shape)
    assert buffer.tobytes() == expected_bytes(array, shape)
    assert gl.unpack(buffer, shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize(("dimensions", "order", "widths"), [
    ((700, 515), (1, 0), None),                        # tiles with edges on both sides
    ((512, 512), (1, 0), (520, 600)),                  # tiles, and padding around them
    ((3, 600, 300), (0, 2, 1), None),                  # a tile covers parts of two axes
    ((12, 11, 13, 10, 9), (4, 3, 2, 1, 0), None),      # over several axes on both sides
    ((12, 11, 13, 10, 9), (2, 4, 0, 3, 1), (12, 12, 13, 11, 10)),
])
def test_moves_in_tiles_give_the_bytes_of_the_definition(element_type, dimensions, order, widths):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    assert host_plan.host_plan(pack_move(array.strides, shape)).tile
    pack_and_back(array, shape)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize(("dimensions", "order", "widths"), [
    ((700, 64, 3), (1, 0, 2), None),                   # runs of 3 elements
    ((256, 300, 3), (0, 1, 2), (256, 300, 4)),         # 3 channels in 4
    ((256, 300, 3), (0, 1, 2), (256, 300, 7)),         # and with runs of padding
    ((300, 256, 4), (1, 0, 2), None),                  # the run is a power of two
])
def test_short_runs_that_stay_together_move_as_one_element(element_type, dimensions, order, widths):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    assert host_plan.host_plan(pack_move(array.strides, shape)).itemsize == dimensions[-1] * shape.itemsize
    pack_and_back(array, shape)


def in_pieces(move) -> bool:
    """Whether a move copies one channel of many pixels after the other."""
    plan = host_plan.host_plan(move)
    return plan.tile is not None and not plan.scratch


def pixels_to_planes(element_type, dimensions, order):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order))
    return relayout_move(shape.with_layout(None), shape)


@pytest.mark.parametrize("element_type", ("u8", "bf16", "f32", "f64"))
@pytest.mark.parametrize(("dimensions", "order"), [
    ((3, 70001), (1, 0)), ((4, 2, 33000), (2, 1, 0)),         # planes to pixels
    ((70001, 6), (1, 0)), ((2, 40000, 16), (0, 2, 1)),        # pixels to planes
])
def test_channels_one_after_the_other_give_the_bytes_of_the_definition(element_type, dimensions, order):
    """Several pieces of each channel, the last one cut off."""
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order))
    array = random_array(shape)
    assert in_pieces(pack_move(array.strides, shape))
    pack_and_back(array, shape)


@pytest.mark.parametrize(("element_type", "channels", "to_pixels", "to_planes"), [
    ("u8", 4, True, False), ("u8", 6, True, True), ("u8", 16, True, True), ("u8", 17, False, False), ("bf16", 16, True, True),
    ("f32", 4, True, False), ("f32", 5, False, False), ("f32", 6, False, True), ("f32", 16, False, True), ("f32", 17, False, False),
    ("f64", 4, True, False), ("f64", 6, False, True), ("c128", 4, False, False), ("c128", 6, False, False)])
def test_so_many_channels_are_copied_one_after_the_other(element_type, channels, to_pixels, to_planes):
    pixels = 100_000
    assert in_pieces(pixels_to_planes(element_type, (channels, pixels), (1, 0))) == to_pixels
    assert in_pieces(pixels_to_planes(element_type, (pixels, channels), (1, 0))) == to_planes


def test_channels_of_few_pixels_or_with_gaps_are_not_copied_one_after_the_other():
    few, enough = (in_pieces(pixels_to_planes("f32", (8, 4, pixels), (0, 2, 1))) for pixels in (1023, 1024))
    assert (few, enough) == (False, True)
    shape = gl.Shape("f32", (8, 4, 1024))
    dense, gaps = (in_pieces(strided_move(shape, shape.byte_strides, (16384 * gap, 4 * gap, 16 * gap), shape.dimensions)) for gap in (1, 2))
    assert (dense, gaps) == (True, False)


@pytest.mark.parametrize("cut", [
    lambda a: a[::-1, :, ::-1], lambda a: a[:, ::2], lambda a: a[..., ::3], lambda a: a.transpose(2, 0, 1),
    lambda a: np.broadcast_to(a[:1], a.shape), lambda a: np.broadcast_to(a[..., :1], a.shape)],
    ids=["negative", "every second", "every third", "transposed", "repeated major", "repeated minor"])
@pytest.mark.parametrize("element_type", ["u8", "bf16", "f64", "c128"])
def test_arrays_with_strides_of_their_own_are_packed_and_unpacked_into(cut, element_type):
    whole = random_array(gl.Shape(element_type, (40, 60, 150)))
    array = cut(whole)
    shape = gl.Shape(element_type, array.shape, gl.Layout((1, 0, 2)))
    buffer = gl.pack(array, shape)
    assert buffer.tobytes() == expected_bytes(np.ascontiguousarray(array), shape)
    if 0 not in array.strides:
        target = cut(np.zeros_like(whole))
        gl.unpack(buffer, shape, out=target)
        assert target.tobytes() == array.tobytes()


def test_every_small_move_in_tiny_tiles_and_long_elements(monkeypatch, request):
    """With the limits brought down, all orders and paddings of a small array go through tiles and long elements."""
    for name, value in (("SMALL_BYTES", 0), ("TILE_RUN", 3), ("NEAR_BYTES", 0), ("CACHE_LINES", 1), ("LONGEST_ELEMENT", 12)):
        monkeypatch.setattr(host_plan, name, value)
    host_plan.host_plan.cache_clear()                     # plans made with the real limits
    request.addfinalizer(host_plan.host_plan.cache_clear)
    tiled = 0
    for dimensions, grown in itertools.product(((4, 5, 3), (2, 3, 2, 4), (7, 5)), (0, 1, 2)):
        widths = tuple(size + grown * (dim % 2) for dim, size in enumerate(dimensions))
        for order in itertools.permutations(range(len(dimensions))):
            shape = gl.Shape("s32", dimensions, gl.Layout(order, padded_dimensions=widths, padding_value=-1))
            array = np.arange(math.prod(dimensions), dtype=np.int32).reshape(dimensions)
            move = strided_move(shape, array.strides, shape.byte_strides, widths)
            target = np.full(shape.buffer_size, -2, np.int32)
            NumpyBackend().move(move, array, target)
            assert target.tobytes() == expected_bytes(array, shape), (dimensions, order, widths)
            tiled += host_plan.host_plan(move).tile is not None
    assert tiled > 30


def test_small_moves_and_cached_lines_are_left_to_numpy():
    for text, order in (("f32[16,16]", (0, 1)), ("f32[32,64,56,56]", (1, 3, 2, 0))):
        source = gl.parse_shape(text)
        plan = host_plan.host_plan(relayout_move(source, source.with_layout(gl.Layout(order))))
        assert plan.tile is None and plan.itemsize == 4


def test_scattered_padding_is_filled_with_everything_and_other_padding_alone():
    scattered = gl.parse_shape("f32[300,160,160]{2,1,0:PD(304,192,192)}")
    gathered = gl.parse_shape("f32[2880,2881]{1,0:PD(2880,3072)}")
    single = gl.parse_shape("f32[80000,100]{1,0:PD(80000,101)}")
    plans = [host_plan.host_plan(pack_move(shape.with_layout(None).byte_strides, shape)) for shape in (scattered, gathered, single)]
    assert [plan.fills_first for plan in plans] == [True, False, False]


def test_lines_that_the_second_cache_holds_are_left_to_numpy_and_others_are_not():
    """Pixels of 64 floats are 256 bytes apart: 56 x 56 of them fit a megabyte, 131072 of them do not."""
    image, matrix = gl.parse_shape("f32[32,56,56,64]"), gl.parse_shape("f32[131072,64]")
    plans = [host_plan.host_plan(relayout_move(shape, shape.with_layout(gl.Layout.from_major_to_minor(order))))
             for shape, order in ((image, (0, 3, 1, 2)), (matrix, (1, 0)))]
    assert [plan.tile is not None for plan in plans] == [False, True]
