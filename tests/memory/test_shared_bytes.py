"""Strided arrays share the bytes that NumPy's exact solver finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpulayout.memory.shared_bytes import share_bytes

MEMORY = np.zeros(500, np.uint8)


@st.composite
def strided(draw):
    """(array in a buffer of 500 bytes, its lowest byte): any strides, also 0 and those that overlap themselves."""
    dtype = np.dtype(draw(st.sampled_from(("u1", "i2", "V3", "f4", "f8", "c16"))))
    sizes = draw(st.lists(st.integers(1, 4), max_size=4))
    unit = draw(st.sampled_from((1, dtype.itemsize)))
    strides = [unit * draw(st.integers(-(24 // unit), 24 // unit)) for _ in sizes]
    reaches = [(size - 1) * stride for size, stride in zip(sizes, strides)]
    low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches) + dtype.itemsize
    first = draw(st.integers(0, 60))
    return np.ndarray(sizes, dtype, MEMORY, first - low, strides), first, first + high - low


@given(strided(), strided())
def test_shared_bytes_are_those_that_numpy_finds(one, other):
    (a, low, high), (b, other_low, other_high) = one, other
    found = share_bytes(a, b, other_low - low)
    assert found == share_bytes(b, a, low - other_low) == np.shares_memory(a, b)
    assert not found or (low < other_high and other_low < high)


def test_strides_with_nothing_in_common_count_as_shared():
    """3 a = 5 b + 1 has many solutions to try: the answer is yes, at once."""
    a = np.lib.stride_tricks.as_strided(MEMORY[:1], (100_000, 1000), (2 * 3, 300_007))
    b = np.lib.stride_tricks.as_strided(MEMORY[:1], (100_000, 1000), (2 * 5, 500_009))
    found = share_bytes(a, b, 1)
    assert found  # a message that printed the arrays would read outside of memory
