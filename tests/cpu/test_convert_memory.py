"""Memory that moves with arithmetic take beside the result."""

import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu.threads import thread_count

LIMIT = 6 << 20  # bytes for each thread; temporary arrays of f64 take most of it


@pytest.mark.parametrize("source, target", [("f32", "s8"), ("s32", "f16"), ("u8", "f32")])
@pytest.mark.parametrize("pattern", ["n h w c -> c w h n", "n h w c -> w h c n", "n h w c -> n c h w"])
def test_scratch_arrays_take_little(source, target, pattern):
    """Also where the source's minor axis has three places: rows of a scratch array are not one line for each three."""
    array = np.ones((4, 250, 1200, 3), gl.ElementType(source).dtype)
    result = gl.transpose(array, pattern, dtype=target, scale=0.5)
    tracemalloc.start()
    try:
        gl.transpose(array, pattern, dtype=target, scale=0.5, out=result)
        assert tracemalloc.get_traced_memory()[1] < LIMIT * thread_count()
    finally:
        tracemalloc.stop()
