"""The independent model: a buffer built element by element from the definition of a layout.

Slow and obvious, and it shares no code with the library: it takes plain sequences, not Shapes.  An element's payload is
its own logical number (row-major), so that a failure says where a wrong element came from.
"""

import functools
import itertools
import math

import numpy as np


def place_of(index, minor_to_major, widths):
    """The linear index of a logical index: dimensions minor first, each stepping over all below it."""
    place, step = 0, 1
    for dim in minor_to_major:
        place += index[dim] * step
        step *= widths[dim]
    return place


def logical_indices(dimensions):
    """Every logical index in row-major order."""
    return itertools.product(*(range(size) for size in dimensions))


@functools.lru_cache(maxsize=1 << 14)
def numbers_in_places(dimensions, minor_to_major, widths=None):
    """For every place of the buffer the logical number of its element, or -1 where it is padding."""
    widths = dimensions if widths is None else widths
    places = [-1] * math.prod(widths)
    for number, index in enumerate(logical_indices(dimensions)):
        places[place_of(index, minor_to_major, widths)] = number
    return np.array(places, np.int64)


def payload(count, itemsize):
    """`count` elements of `itemsize` bytes as a (count, itemsize) uint8 array: the number, then its complement.

    Single bytes hold the number modulo 251, a prime, so that neighbours and power-of-two strides differ.
    """
    numbers = np.arange(count, dtype=np.uint64)
    if itemsize == 1:
        return (numbers % 251).astype(np.uint8)[:, None]
    low = numbers.view(np.uint8).reshape(count, 8)
    return np.concatenate([low, ~low], axis=1)[:, :itemsize].copy()


def buffer_bytes(dimensions, minor_to_major, widths, itemsize, pad):
    """The whole buffer as bytes: payloads where elements are, `pad` where padding is."""
    numbers = numbers_in_places(dimensions, minor_to_major, widths)
    table = np.concatenate([payload(math.prod(dimensions), itemsize), np.frombuffer(pad, np.uint8)[None]])
    return table[numbers].tobytes()  # number -1 is the last row: the pad


def numbers_by_numpy(dimensions, minor_to_major, widths=None):
    """The same as `numbers_in_places` for larger shapes: NumPy's own assignment and transposition."""
    numbers = np.arange(math.prod(dimensions), dtype=np.int64).reshape(dimensions)
    if widths is not None:
        logical, numbers = numbers, np.full(widths, -1, np.int64)
        numbers[tuple(slice(0, size) for size in dimensions)] = logical
    return numbers.transpose(tuple(reversed(minor_to_major))).reshape(-1)


def large_buffer(dimensions, minor_to_major, widths, itemsize, pad):
    """`buffer_bytes` by way of `numbers_by_numpy`."""
    table = np.concatenate([payload(math.prod(dimensions), itemsize), np.frombuffer(pad, np.uint8)[None]])
    return table[numbers_by_numpy(dimensions, minor_to_major, widths)].tobytes()


def tiled_numbers(dimensions, minor_to_major, widths=None, tiles=(), tail=1):
    """For every place of a tiled buffer the logical number of its element, or -1: pad, reshape, transpose, once for
    each tile.

    tiles    sequences of sizes, major first; "*" joins a dimension with the next more minor one
    tail     the number of places is rounded up to a multiple of this
    """
    array = numbers_by_numpy(dimensions, minor_to_major, widths)
    array = array.reshape([(dimensions if widths is None else widths)[dim] for dim in reversed(minor_to_major)])
    for tile in tiles:
        array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
        above, joined, size = array.ndim - len(tile), [], 1
        for length, entry in zip(array.shape[above:], tile):
            size *= length
            if entry != "*":
                joined.append(size)
                size = 1
        sizes = [entry for entry in tile if entry != "*"]
        array = array.reshape(*array.shape[:above], *joined)
        room = [(0, 0)] * above + [(0, -length % size) for length, size in zip(joined, sizes)]
        array = np.pad(array, room, constant_values=-1)
        cut = [part for length, size in zip(array.shape[above:], sizes) for part in (length // size, size)]
        array = array.reshape(*array.shape[:above], *cut)
        outer, inner = range(above, array.ndim, 2), range(above + 1, array.ndim, 2)
        array = array.transpose(*range(above), *outer, *inner)
    flat = array.reshape(-1)
    return np.concatenate([flat, np.full(-len(flat) % tail, -1, np.int64)])
