"""How libraries store the weights of a model, written out in NumPy from their own definitions, without this library.

q are codes, s scales, z zero points; K is the number of inputs, N of outputs, G of groups of inputs.
"""

import ml_dtypes
import numpy as np

AWQ = (0, 2, 4, 6, 1, 3, 5, 7)  # the column that each nibble of an int32 has, the lowest nibble first
BF16 = ml_dtypes.bfloat16
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def words(codes, bits=4, order=None):
    """int32 of neighbours along the last axis; `order` says which neighbour stands in each place, the lowest first."""
    count = 32 // bits
    parts = codes.reshape(*codes.shape[:-1], -1, count).astype(np.uint32)
    places = order or range(count)
    return (
        sum(parts[..., each] << np.uint32(bits * n) for n, each in enumerate(places)).astype(np.uint32).view(np.int32)
    )


def nibbles(codes):
    """Bytes of two neighbours along the last axis, the first one low."""
    return (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)


def gptq_words(q, bits=4):
    """qweight of GPTQ: neighbours along K in one int32."""
    return words(np.swapaxes(q, -1, -2), bits).swapaxes(-1, -2)


def marlin_words(q, bits=4):
    """Marlin's tiles of 16 x 64: lane by lane what mma.m16n8k16 takes, then the order in which a kernel widens it."""
    rows, columns = q.shape
    tiles = q.reshape(rows // 16, 16, columns // 64, 64).swapaxes(1, 2)
    taken = []
    for lane in range(32):
        for block in range(0, 64, 16):
            k = 2 * (lane % 4) + np.array([0, 1, 8, 9])
            n = block + lane // 4
            taken.append(np.concatenate([tiles[..., k, n], tiles[..., k, n + 8]], axis=-1))
    order = AWQ if bits == 4 else (0, 2, 1, 3)
    return words(np.stack(taken, axis=2), bits, order).reshape(rows // 16, -1)


def marlin_scales(s):
    """In every row, 64 columns as the transpose of 8 x 8."""
    return s.reshape(*s.shape[:-1], -1, 8, 8).swapaxes(-1, -2).reshape(s.shape)


def marlin_zeros(z):
    """Zero points as the scales, then in AWQ's order."""
    return words(marlin_scales(z), 4, AWQ)


def groups(values, size):
    """One value for `size` rows."""
    return np.repeat(values, size, axis=0)


def dequantised(q, s, z, dtype):
    """(q - z) * s in float32, rounded once."""
    return ((q.astype(np.float32) - z) * s.astype(np.float32)).astype(dtype)


def blocks_128(scale, shape):
    """A factor for each 128 x 128 elements, of which the last ones may be cut."""
    return np.repeat(np.repeat(scale, 128, 0), 128, 1)[: shape[0], : shape[1]]


def swizzled(scale):
    """Scales of MXFP8 and NVFP4 for the tensor cores: blocks of 128 x 4, padded with zeros."""
    rows, columns = -(-scale.shape[0] // 128) * 128, -(-scale.shape[1] // 4) * 4
    padded = np.zeros((rows, columns), scale.dtype)
    padded[: scale.shape[0], : scale.shape[1]] = scale
    return padded.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows, columns)
