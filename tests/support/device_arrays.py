"""For the tests of launches on a device: which CuPy they run on, and arrays compared as bytes."""

import contextlib

import numpy as np
import pytest

ON_GPU = pytest.param("gpu", marks=pytest.mark.gpu)


def on_gpu_alone(test):
    """Run the test only on a real GPU, where streams run beside the host."""
    return pytest.mark.parametrize("cp", [ON_GPU], indirect=True)(test)


def host_buffer(shape, seed=0):
    """Random bytes in the shape of a buffer; types that NumPy lacks go as unsigned integers, for CuPy lacks them
    too.
    """
    dtype = shape.element_type.carrier if shape.element_type.is_extended else shape.dtype
    return np.random.default_rng(seed).integers(0, 256, shape.nbytes, np.uint8).view(dtype)


def device_buffer(cp, values, before=0):
    """These values in device memory, `before` elements past the start of an allocation."""
    room = np.zeros(before + values.size, values.dtype)
    room[before:] = values
    return cp.asarray(room)[before:]


def overwrite(cp, array, values):
    """Put these values into a C-contiguous array as bytes, so that no copy changes a NaN."""
    array.view(np.uint8)[...] = cp.asarray(np.ascontiguousarray(values).view(np.uint8))


def same_bytes(cp, array, values):
    return cp.asnumpy(array).tobytes() == np.asarray(values).tobytes()


@contextlib.contextmanager
def using(cp, allocate):
    """Within the block, CuPy uses this allocator in every thread."""
    before = cp.cuda.get_allocator()
    cp.cuda.set_allocator(allocate)
    try:
        yield
    finally:
        cp.cuda.Device().synchronize()
        cp.cuda.set_allocator(before)
