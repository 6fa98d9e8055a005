"""GGUF files for tests, written without the package gguf: also wrong ones. And what their blocks mean, in NumPy."""

import struct

import numpy as np

MAGIC = b"GGUF"
NUMBERS = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q8_0": 8,
    "Q6_K": 14,
    "MXFP4": 39,
    "I8": 24,
    "I32": 26,
    "F64": 28,
    "BF16": 30,
}


def text(value):
    """A text with its length."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value=b""):
    """A key: its name, the number of its type, and the bytes of its value."""
    return text(name) + struct.pack("<I", kind) + value


def u32(name, value):
    """A key with a number."""
    return key(name, 4, struct.pack("<I", value))


def words(name, value):
    """A key with a text."""
    return key(name, 8, text(value))


def info(name, sizes, kind, offset, rank=None):
    """What a header says of a tensor, whose sizes are the most minor first."""
    number = NUMBERS.get(kind, kind)
    rank = len(sizes) if rank is None else rank
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", rank, *sizes, number, offset)


def gguf_bytes(infos=(), keys=(), data=b"", *, version=3, count=None, key_count=None, magic=MAGIC, alignment=32):
    """A file, of which anything may be wrong."""
    numbers = (
        version,
        len(infos) if count is None else count,
        len(keys) if key_count is None else key_count,
    )
    header = magic + struct.pack("<IQQ", *numbers) + b"".join(keys) + b"".join(infos)
    return header + bytes(-len(header) % alignment) + data


def gguf_model(tensors, keys=(), alignment=32):
    """A file of tensors: by name, the type, the sizes with the most major first, and the bytes."""
    infos, data = [], b""
    for name, (kind, sizes, part) in tensors.items():
        infos.append(info(name, sizes[::-1], kind, len(data)))
        data += part + bytes(-len(part) % alignment)
    own = [u32("general.alignment", alignment)] if alignment != 32 else []
    return gguf_bytes(infos, [*keys, *own], data, alignment=alignment)


def q4_0(codes, scales):
    """Blocks of codes [..., k] of 0 to 15 and scales [..., k/32]: element j and j + 16 share a byte."""
    return blocks_of(f16(scales), halves(codes))


def q8_0(codes, scales):
    """Blocks of codes [..., k] of 8 bits and scales [..., k/32]."""
    return blocks_of(f16(scales), codes.astype(np.int8).reshape(*scales.shape, 32).view(np.uint8))


def q4_1(codes, scales, least):
    """Blocks of codes [..., k] of 0 to 15, scales [..., k/32], and what a code of 0 means."""
    return blocks_of(f16(scales), f16(least), halves(codes))


def mxfp4(codes, scales):
    """Blocks of codes [..., k] of 0 to 15, and scales [..., k/32] of 8 bits."""
    return blocks_of(scales.astype(np.uint8)[..., None], halves(codes))


def halves(codes):
    """The codes of 32 elements in 16 bytes: j and j + 16 share a byte."""
    two = codes.reshape(*codes.shape[:-1], codes.shape[-1] // 32, 2, 16).astype(np.uint8)
    return two[..., 0, :] | two[..., 1, :] << 4


def f16(numbers):
    """The bytes of numbers in f16, on a new last axis."""
    return np.ascontiguousarray(numbers, "<f2").view(np.uint8).reshape(*numbers.shape, 2)


def blocks_of(*parts):
    """The bytes of blocks whose parts are bytes on the last axis."""
    return np.concatenate(parts, -1).tobytes()


def values(codes, scales, zero):
    """The numbers that blocks mean, in f32."""
    return (codes.astype(np.float32) - np.float32(zero)) * np.repeat(scales, 32, -1).astype(np.float32)
