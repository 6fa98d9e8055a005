"""Where the memory of served weights holds each element, from their owners' own documents and code, in NumPy.

A law takes the indices of an array, one for each axis, and its sizes.  It says in which place of the memory each
element lies, counted in elements.  Nothing here calls the library: a kernel that reads by a law sees what is there.
"""

import ctypes
import functools
import math

import ml_dtypes
import numpy as np

TYPES = {
    "u8": np.uint8,
    "f16": np.float16,
    "f32": np.float32,
    "s32": np.int32,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
}


def row_major(index, sizes):
    """The plain array."""
    return np.ravel_multi_index(index, sizes)


def column_major(index, sizes):
    """{0,1}."""
    return np.ravel_multi_index(index[::-1], sizes[::-1])


def tiles_8_128(index, sizes):
    """{1,0:T(8,128)}: tiles in rows, each row-major; the last ones are whole, too."""
    row, column = index
    return (row // 8 * -(-sizes[1] // 128) + column // 128) * 1024 + row % 8 * 128 + column % 128


def tiles_8_128_pairs(index, sizes):
    """{1,0:T(8,128)(2,1)}: in a tile, two rows are mixed element by element, as TPUs have 16 bits."""
    row, column = index
    tile = row // 8 * -(-sizes[1] // 128) + column // 128
    return tile * 1024 + row % 8 // 2 * 256 + column % 128 * 2 + row % 2


def turns(index, sizes):
    """{2,1,0:T(8,2,64)} of (rows, 2, columns): 8 rows of both halves, 64 columns at a time."""
    row, half, column = index
    return (row // 8 * (sizes[2] // 64) + column // 64) * 1024 + row % 8 * 128 + half * 64 + column % 64


def marlin(index, sizes):
    """A tile of 16 inputs and 64 outputs is 128 words: each lane has 4, of the elements that mma.m16n8k16 takes."""
    k, n = index
    lane, word = n % 8 * 4 + k % 8 // 2, n % 64 // 16
    taken = k % 2 + k % 16 // 8 * 2 + n % 16 // 8 * 4
    nibble = taken // 2 + taken % 2 * 4
    return (k // 16 * (sizes[1] // 64) + n // 64) * 1024 + lane * 32 + word * 8 + nibble


def marlin_scales(index, sizes):
    """64 columns are 8 x 8, transposed."""
    group, n = index
    return group * sizes[1] + n // 64 * 64 + n % 8 * 8 + n % 64 // 8


def outputs_first(law):
    """The law for an array whose last two axes are the other way round: (outputs, inputs)."""
    return lambda index, sizes: law(index[::-1], sizes[::-1])


def shuffled(index, sizes):
    """Row r of 32 moves to r % 4 * 8 + r // 4."""
    row, column = index
    return (row // 32 * 32 + row % 4 * 8 + row % 32 // 4) * sizes[1] + column


def gate_up(index, sizes):
    """Rows of the two halves in turns, then shuffled."""
    row, column = index
    half = sizes[0] // 2
    return shuffled((row % half * 2 + row // half, column), sizes)


def blocks_128_4(index, sizes):
    """Scales in blocks of 128 x 4: row r and column c lie at r % 32 * 16 + r // 32 * 4 + c."""
    row, column = index
    block = row // 128 * -(-sizes[1] // 4) + column // 4
    return block * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4


def stacked(law):
    """So many arrays, one after the other."""

    def of_stack(index, sizes):
        each = math.prod(sizes[1:])
        return index[0] * each + law(index[1:], sizes[1:])

    return of_stack


@functools.cache
def places(law, sizes):
    """The place of every element of an array."""
    return law(tuple(np.indices(sizes)), sizes)


def memory(tensor, nbytes):
    """Bytes from a tensor's address on, as a kernel gets them; not a copy."""
    storage = tensor.untyped_storage()
    first = tensor.data_ptr()
    assert storage.data_ptr() <= first and first + nbytes <= storage.data_ptr() + storage.nbytes()
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(first), np.uint8)


def in_memory(tensor, law, sizes, dtype):
    """The plain array that a kernel finds in the memory of a tensor."""
    where = places(law, sizes)
    last = int(where.max())
    if dtype == "u4":
        given = memory(tensor, last // 2 + 1)
        return given[where // 2] >> (where % 2 * 4).astype(np.uint8) & 15
    numpy_type = np.dtype(TYPES[dtype])
    return memory(tensor, (last + 1) * numpy_type.itemsize).view(numpy_type)[where]
