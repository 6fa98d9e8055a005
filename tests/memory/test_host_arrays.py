"""NumPy arrays over memory at an address: any element type and strides, and the owner lives as long as they do."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from gpulayout.memory.foreign_memory import host_array

TYPES = [np.dtype(name) for name in ("bool", "int8", "uint16", "float16", "float32", "complex64", "complex128")]
TYPES += [np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "int4")]


class Owner:
    """Memory that notices when it goes."""

    def __init__(self, nbytes):
        self.bytes = np.arange(nbytes, dtype=np.uint8)
        self.address = self.bytes.ctypes.data


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_element_type_with_any_strides(dtype):
    owner, size = Owner(64 * dtype.itemsize), dtype.itemsize
    elements = owner.bytes.view(dtype)
    for start, shape, steps in ((0, (4, 8), None), (3, (2, 3, 4), (4, 1, 13)), (1, (3, 5), (0, 2)), (5, (), ())):
        strides = None if steps is None else tuple(step * size for step in steps)
        found = host_array(owner.address + start * size, shape, strides, dtype, owner)
        expected = np.lib.stride_tricks.as_strided(
            elements.view(f"V{size}")[start:], shape, (8 * size, size) if strides is None else strides
        )
        assert (found.dtype, found.shape, found.strides) == (dtype, expected.shape, expected.strides)
        assert found.tobytes() == expected.tobytes() and found.flags.writeable


@pytest.mark.usefixtures("quick_collections")
def test_the_owner_lives_as_long_as_an_array_over_its_memory():
    owner = Owner(24)
    array, known = host_array(owner.address, (6,), None, np.dtype(np.float32), owner), weakref.ref(owner)
    part = array.view(np.uint8)[3:5]
    part[:] = 7
    assert owner.bytes[2:6].tolist() == [2, 7, 7, 5]
    del owner, array
    gc.collect()
    assert known() is not None and part.tolist() == [7, 7]
    del part
    gc.collect()
    assert known() is None


def test_memory_without_elements_needs_no_address():
    found = host_array(0, (0, 3), None, np.dtype(np.float32), None)
    assert found.shape == (0, 3) and found.dtype == np.float32
