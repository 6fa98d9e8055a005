"""Elements of model files in NumPy: their types, their bytes, and how others read the same bytes."""

import re

import ml_dtypes
import numpy as np

import gpulayout as gl


class Wrong(Exception):
    """What must be an error."""


class Unclear(Exception):
    """What the description of the rules leaves open."""


ELEMENTS = {
    "pred": np.bool_,
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "c64": np.complex64,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "u2": ml_dtypes.uint2,
    "s2": ml_dtypes.int2,
    "u4": ml_dtypes.uint4,
    "s4": ml_dtypes.int4,
    **{f"{'su'[unsigned]}{bits}": f"{'iu'[unsigned]}{bits // 8}" for unsigned in (0, 1) for bits in (8, 16, 32, 64)},
}
ELEMENTS = {name: np.dtype(each) for name, each in ELEMENTS.items()}
HEADER = {
    "BOOL": "pred",
    "F4": "f4e2m1fn",
    "F8_E5M2": "f8e5m2",
    "F8_E4M3": "f8e4m3fn",
    "F8_E8M0": "f8e8m0fnu",
    "F8_E4M3FNUZ": "f8e4m3fnuz",
    "F8_E5M2FNUZ": "f8e5m2fnuz",
    **{name: name.lower().replace("i", "s") for name in ("U8 I8 U16 I16 F16 BF16 U32 I32 F32 C64 F64 U64 I64").split()},
}
NAMES = {dtype: name for name, dtype in ELEMENTS.items()}
_HEADER_NAMES = {ELEMENTS[element]: name for name, element in HEADER.items()}
# The sizes of an entry whose words are a tensor of some shape: elements of 4 bits in words of 32.
_SIZES_OF = {
    "gptq:qweight": lambda shape: (shape[0] * 8, shape[1]),
    "gptq:qzeros": lambda shape: (shape[0], shape[1] * 8),
    "awq:qweight": lambda shape: (shape[0], shape[1] * 8),
    "awq:qzeros": lambda shape: (shape[0], shape[1] * 8),
    "marlin:weights": lambda shape: (shape[0] * 16, shape[1] // 2),
}


def header_name(dtype):
    """What a header calls a type; None for one that the format lacks."""
    return _HEADER_NAMES.get(np.dtype(dtype))


def array_of(dtype, shape, data):
    """The array of a tensor as the format's library gives it."""
    return elements_of(data, ELEMENTS[HEADER[dtype]], int(np.prod(shape))).reshape(shape)


def bits_of(dtype):
    """Bits of an element in a file."""
    return {"u2": 2, "s2": 2, "u4": 4, "s4": 4, "f4e2m1fn": 4}.get(NAMES[np.dtype(dtype)], 8 * np.dtype(dtype).itemsize)


def stored_bytes(array):
    """The bytes of an array in C order; elements of less than 8 bits fill each byte from its lowest bit."""
    bits = bits_of(array.dtype)
    if bits >= 8:
        return np.ascontiguousarray(array).tobytes()
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & (1 << bits) - 1
    each = 8 // bits
    codes = np.append(codes, np.zeros(-len(codes) % each, np.uint8)).reshape(-1, each)
    return (codes << np.arange(each, dtype=np.uint8) * bits).sum(1).astype(np.uint8).tobytes()


def elements_of(data, dtype, count):
    """The elements that bytes in C order hold."""
    bits = bits_of(dtype)
    if bits >= 8:
        return np.frombuffer(data, dtype)[:count]
    each = 8 // bits
    codes = np.frombuffer(data, np.uint8)[:, None] >> np.arange(each, dtype=np.uint8) * bits & (1 << bits) - 1
    return of_codes(codes.reshape(-1)[:count], dtype)


def of_codes(codes, dtype):
    """Elements of less than 16 bits by their codes."""
    name, codes = NAMES[np.dtype(dtype)], codes.astype(np.uint8)
    if name[0] in "us" and bits_of(dtype) < 8:
        sign = 1 << bits_of(dtype) - 1 if name[0] == "s" else 0
        return ((codes.astype(np.int8) ^ sign) - sign).astype(dtype)
    return codes.view(dtype)


def taken(array, text):
    """The array that the bytes of a tensor are when they are read as something else."""
    data = stored_bytes(array)
    if text in ELEMENTS:
        old, new = bits_of(array.dtype), bits_of(ELEMENTS[text])
        if new > old:
            raise Unclear(f"{text} is wider than {array.dtype}")
        if new == old:
            return elements_of(data, ELEMENTS[text], array.size).reshape(array.shape)
        if not array.ndim:
            raise Unclear("one word has no last axis")
        shape = (*array.shape[:-1], array.shape[-1] * old // new)
        return elements_of(data, ELEMENTS[text], array.size * old // new).reshape(shape)
    if re.fullmatch(r"\w+", text):
        raise Unclear(f"what {text} is")
    if re.fullmatch(r"\w+:\w+(\(.*\))?", text):
        entry = text.removesuffix("(dtype=u4)")
        if entry not in _SIZES_OF or bits_of(array.dtype) != 32 or array.ndim != 2:
            raise Unclear(f"which sizes {text} has")
        text += "[{},{}]".format(*_SIZES_OF[entry](array.shape))
    try:
        if gl.parse_shape(text).nbytes != len(data):
            raise Wrong(f"{text} has another number of bytes than {array.shape} of {array.dtype}")
        return unpacked(data, text)
    except gl.LayoutError as error:
        raise Wrong(str(error)) from None


def unpacked(data, text):
    """The array that bytes hold in a layout."""
    shape = gl.parse_shape(text)
    return np.asarray(gl.unpack(np.frombuffer(data, np.uint8 if shape.is_packed else shape.dtype), shape))
