"""Chunks whose elements do not lie one after the other: Dask's constants, and slices."""

import numpy as np
import pytest

import gpulayout as gl

da = pytest.importorskip("dask.array", reason="the extra `dask` is not installed")

LAYOUTS = ("{1,0}", "{0,1}", "{0,1:T(2,2)}", "{1,0:PD(5,8)}")
MADE = {
    "zeros": lambda count, chunks: da.zeros(count, chunks=chunks),
    "ones": lambda count, chunks: da.ones(count, chunks=chunks),
    "full": lambda count, chunks: da.full(count, 3.5, chunks=chunks),
    "every second": lambda count, chunks: da.from_array(np.arange(2.0 * count), chunks=2 * chunks)[::2],
    "backwards": lambda count, chunks: da.from_array(np.arange(float(count)), chunks=chunks)[::-1],
    "one element": lambda count, chunks: da.from_array(np.arange(float(count)), chunks=1),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("source", LAYOUTS)
def test_their_buffers_move_as_those_in_memory(source, made):
    shape = gl.Shape("f64", (4, 6), source)
    for chunks in (shape.buffer_length, 8, 12, 7):
        buffer = MADE[made](shape.buffer_length, chunks)
        memory = np.ascontiguousarray(buffer.compute())
        assert np.array_equal(gl.dask.unpack(buffer, shape).compute(), gl.unpack(memory, shape))
        half = gl.dask.unpack(buffer, shape, dtype="f16", scale=2.0)
        assert np.array_equal(half.compute(), gl.unpack(memory, shape, dtype="f16", scale=2.0))
        for target in LAYOUTS:
            found = gl.dask.relayout(buffer, shape, target).compute()
            assert np.array_equal(found, gl.relayout(memory, shape, target)), (target, chunks)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_constants_are_packed(layout):
    array = da.full((4, 6), 3.5, chunks=(2, 3))
    assert np.array_equal(gl.dask.pack(array, layout).compute(), gl.pack(np.full((4, 6), 3.5), layout))
    assert np.array_equal(gl.dask.transpose(array, "a b -> b a").compute(), np.full((6, 4), 3.5))


def test_constants_of_packed_elements():
    buffer = da.full(12, 0x21, dtype=np.uint8, chunks=3)
    for call in (gl.dask.unpack, lambda b, s: gl.dask.relayout(b, s, "h w -> w h")):
        found = call(buffer, "u4[4,6]{1,0:E(4)}").compute()
        in_memory = gl.unpack if call is gl.dask.unpack else lambda b, s: gl.relayout(b, s, "{0,1:E(4)}")
        assert np.array_equal(found, in_memory(np.full(12, 0x21, np.uint8), "u4[4,6]{1,0:E(4)}"))


def test_a_transpose_of_too_many_axes_names_the_pattern_that_was_written():
    names = [f"axis{number}" for number in range(65)]
    pattern = f"({' '.join(names)}) -> {' '.join(reversed(names))}"
    with pytest.raises(gl.LayoutError, match="has 65 axes: 64 is the limit") as caught:
        gl.dask.transpose(da.zeros(8, chunks=4), pattern, **dict.fromkeys(names[1:], 1))
    assert "axis0" in str(caught.value) and "a0 a1" not in str(caught.value)
    with pytest.raises(gl.LayoutError) as expected:
        gl.transpose(np.zeros(8), pattern, **dict.fromkeys(names[1:], 1))
    assert str(caught.value) == str(expected.value)
