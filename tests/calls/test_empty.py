"""`empty` gives zeros at an aligned address, on every executor."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import LayoutError, LayoutTypeError

ALIGNMENTS = [2**power for power in (0, 1, 4, 6, 8, 9, 12, 16)]
SHAPES = [
    "f32[3,5]",
    "f32[]",
    "f32[0]",
    "f32[3,0]{0,1:PD(3,0)}",
    "u8[7]{0:PD(13)}",
    "bf16[5]",
    "u4[9]{0:E(4)}",
    "c128[2]",
]


@pytest.mark.parametrize("text", SHAPES)
def test_the_address_is_a_multiple_of_the_alignment_and_the_buffer_is_zeros(executor, text):
    shape = gl.parse_shape(text)
    held = [gl.zeros(shape, align=align) for align in ALIGNMENTS * 3]  # together, so that addresses differ
    for buffer, align in zip(held, ALIGNMENTS * 3):
        assert executor.backend.address(buffer) % align == 0
        assert buffer.shape == (shape.buffer_length,) and buffer.dtype == gl.zeros(shape).dtype
        assert buffer.flags.c_contiguous and not executor.host(buffer.view(np.uint8)).any()


def test_aligned_buffers_can_be_moved_and_do_not_overlap(executor):
    shape = gl.Shape("f32", (3, 5), pitch=64)
    values = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    buffers = [gl.zeros(shape, align=256) for _ in range(8)]
    for number, buffer in enumerate(buffers):
        gl.pack(executor.array(values + 100 * number), shape, out=buffer)
    for number, buffer in enumerate(buffers):
        assert np.array_equal(executor.host(gl.unpack(buffer, shape)), values + 100 * number)
        rows = executor.host(gl.view(buffer, shape))
        assert np.array_equal(rows, values + 100 * number)
        assert all((executor.backend.address(buffer) + row * 64) % 64 == 0 for row in range(3))


def test_an_aligned_buffer_outlives_what_it_was_cut_from():
    buffers = [gl.zeros("u8[100000]", align=4096) for _ in range(20)]
    for number, buffer in enumerate(buffers):
        buffer[...] = number
    assert all((buffer == number).all() for number, buffer in enumerate(buffers))


@pytest.mark.parametrize("align", [np.int64(64), np.uint16(64)])
def test_an_alignment_of_numpy_is_a_number(align):
    with gl.use_backend("numpy"):
        assert gl.zeros("f32[3]", align=align).ctypes.data % 64 == 0


@pytest.mark.parametrize("align", [0, -8, 3, 100, 2**30 + 1, 2**31, 2**1000])
def test_an_alignment_is_a_power_of_two(align):
    with pytest.raises(LayoutError) as caught:
        gl.zeros("f32[2,3]", align=align)
    shown = align if align < 2**1000 else "2^1000..."
    assert str(caught.value) == f"align {shown} is not a power of two in 1..2^30 for f32[2,3]{{1,0}}"


@pytest.mark.parametrize("align, kind", [("64", "a str"), (64.0, "a float"), (None, "a NoneType"), (True, "a bool")])
def test_an_alignment_is_an_integer(align, kind):
    with pytest.raises(LayoutTypeError) as caught:
        gl.zeros("f32[2,3]", align=align)
    assert str(caught.value) == f"align {align!r} is not an integer for f32[2,3]{{1,0}}: it is {kind}"
