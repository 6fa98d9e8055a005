"""The independent model of a box of a buffer: places of bytes or bits, written and read one by one by NumPy."""

import itertools

import numpy as np

import gpulayout as gl
from tests.support.catalogue_cases import reference_numbers


def can_hold(shape, most=20000):
    """Whether a buffer of the shape can be made, and is small."""
    try:
        if shape.nbytes > most or shape.element_count > most:
            return False
        gl.zeros(shape)
    except gl.LayoutError:
        return False
    return True


def random_elements(rng, shape, dimensions=None):
    """An array of elements with random bits: all of them, except in a byte that holds a packed or narrow element."""
    dimensions = shape.dimensions if dimensions is None else dimensions
    count = int(np.prod(dimensions, dtype=np.int64))
    values = rng.integers(0, 256, count * shape.itemsize, dtype=np.uint8)
    if shape.bits_per_element < 8 or shape.element_type.bits < 8:
        values &= (1 << min(shape.bits_per_element, shape.element_type.bits)) - 1
    return values.view(shape.dtype).reshape(dimensions)


def random_buffer(rng, shape):
    """A buffer with random bits, padding too."""
    values = rng.integers(0, 256, shape.nbytes, dtype=np.uint8)
    if not shape.is_packed and shape.element_type.bits < 8:
        values &= (1 << shape.element_type.bits) - 1
    return values.view(shape.buffer_dtype)


def random_box(rng, dimensions):
    """Slices that begin and end anywhere."""
    ends = [sorted(rng.integers(0, size, 2, endpoint=True).tolist()) for size in dimensions]
    return tuple(slice(*each) for each in ends)


def all_boxes(dimensions):
    """All boxes with elements, and an empty one."""
    every = [
        [slice(first, last) for first in range(size) for last in range(first + 1, size + 1)] for size in dimensions
    ]
    yield (slice(0, 0),) * len(dimensions)
    yield from itertools.product(*every)


def _places(shape, buffer):
    """The places of a buffer, one in each row: of bytes, or of bits in the order in which slots follow each other."""
    data = np.asarray(buffer).view(np.uint8)
    if not shape.is_packed:
        return data.reshape(-1, shape.itemsize)
    return np.unpackbits(data, bitorder=shape.layout.bit_order).reshape(-1, shape.bits_per_element)


def _elements(shape, array):
    """Elements in the same form."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if not shape.is_packed:
        return data.reshape(-1, shape.itemsize)
    bits = np.unpackbits(data[:, None], axis=1, bitorder=shape.layout.bit_order)
    few = shape.bits_per_element
    return bits[:, :few] if shape.layout.bit_order == "little" else bits[:, -few:]


def _where(shape, box):
    """The place of each element of a box."""
    numbers = reference_numbers(shape)
    where = np.empty(shape.element_count, np.int64)
    where[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return where.reshape(shape.dimensions)[box]


def written(shape, buffer, part, box):
    """The bytes of the buffer after the part was written to the box."""
    places = _places(shape, buffer).copy()
    places[_where(shape, box).reshape(-1)] = _elements(shape, part)
    if not shape.is_packed:
        return places.reshape(-1)
    return np.packbits(places.reshape(-1), bitorder=shape.layout.bit_order)


def found(shape, buffer, box):
    """The elements of the box, as `same_elements` compares them."""
    return _places(shape, buffer)[_where(shape, box).reshape(-1)]


def same_elements(shape, array, elements):
    """Whether an array holds these elements, which `found` returned."""
    return bool((_elements(shape, array) == elements).all())
