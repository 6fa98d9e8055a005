"""Random arrays of every kind that calls take, and outputs, right and wrong ones; for `random_calls`.

Everything comes from the generator that is given and from public names, so equal generators draw equal arrays.
"""

import math

import ml_dtypes
import numpy as np
import torch

import gpulayout as gl
from tests.support.foreign import OldProducer, Producer

NUMPY = {"pred": "bool", "c64": "complex64", "c128": "complex128", "f16": "float16", "f32": "float32", "f64": "float64"}
NUMPY |= {f"{sign}{bits}": f"{name}{bits}" for sign, name in (("u", "uint"), ("s", "int")) for bits in (8, 16, 32, 64)}
SMALL = {"bf16": "bfloat16", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2", "s1": "int1", "u1": "uint1"}
TORCH = "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu bfloat16".split()
OFTEN = ["u8", "s8", "u16", "s32", "f32", "f32", "f32", "f16", "bf16", "f64", "pred", "c64", "f8e4m3fn", "f8e5m2"]
RARELY = "s16 u32 s64 u64 c128 f8e4m3 f8e3m4 f8e5m2fnuz f8e4m3fnuz f8e4m3b11fnuz f8e8m0fnu f4e2m1fn".split()
PACKED = {"u4": 4, "s4": 4, "u2": 2, "s2": 2, "s1": 1, "u1": 1}
IN_JAX = {"u8", "s8", "u16", "s16", "u32", "s32", "f16", "bf16", "f32", "pred", "c64", "f8e4m3fn", "f8e5m2"}
KINDS = {"plain": 30, "F": 8, "strided": 8, "negative": 5, "readonly": 3, "big": 1, "subclass": 2, "masked": 0.4}
KINDS |= {"list": 1, "generic": 1, "dlpack": 2, "old_dlpack": 1, "Array": 0.5, "asarray": 0.5, "wrong": 1}
KINDS |= {"torch": 12, "torch_grad": 11, "torch_strided": 5, "jax": 4}


class Image(np.ndarray):
    """A class of arrays beneath NumPy's."""


def pick(rng, weights):
    """One of the names of a dictionary of weights."""
    return rng.choices(list(weights), list(weights.values()))[0]


def dtype_of(element_type):
    """The dtype of an element type; uint8 where neither NumPy nor ml_dtypes has it."""
    if element_type in NUMPY:
        return np.dtype(NUMPY[element_type])
    name = SMALL.get(element_type, f"float{element_type[1]}_{element_type[2:]}")
    return np.dtype(getattr(ml_dtypes, name, np.uint8))


def random_type(rng):
    """The name of an element type."""
    return rng.choice(rng.choices([OFTEN, RARELY, list(PACKED)], [77, 11, 12])[0])


def dimensions(rng, most=1500):
    """Sizes of up to five dimensions, with few elements."""
    rank = rng.choices(range(6), [4, 14, 34, 30, 14, 4])[0]
    sizes = [
        rng.choices([0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 33], [1, 4, 9, 9, 9, 6, 6, 6, 4, 4, 2])[0] for _ in range(rank)
    ]
    while math.prod(sizes) > most:
        sizes[rng.randrange(rank)] = rng.choice((1, 2, 3))
    return tuple(sizes)


def filled(rng, dims, dtype):
    """An array in C order: small numbers, now and then any bits."""
    count = math.prod(dims)
    if dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float")):
        if rng.random() < 0.1 and not dtype.name.startswith(("float4", "float6")):
            return np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype).reshape(dims).copy()
    low, high = (-4, 5) if dtype.kind in "ifcV" or dtype.name[0] in "bf" else (0, 200)
    if dtype.name.endswith(("int4", "int2", "int1")):
        low, high = 0, {"4": 8, "2": 2, "1": 1}[dtype.name[-1]]
    numbers = np.array([rng.randrange(low, high) for _ in range(count)], np.float64)
    if dtype.name.startswith("float8_e8"):
        numbers = np.abs(numbers) + 1
    return (numbers / (1 if dtype.kind in "iub" else 2)).reshape(dims).astype(dtype)


def dressed(rng, array, kind, element_type):
    """An array of the given kind with these elements; a plain one where the kind cannot hold them."""
    maker = _MAKERS.get(kind)
    try:
        return array if maker is None else maker(rng, array, element_type)
    except (TypeError, ValueError, AttributeError, KeyError, RuntimeError):
        return array


def torch_of(array):
    """The array as a tensor with the same strides, or as near as PyTorch has it."""
    name = array.dtype.name
    if name in TORCH:
        whole = torch.from_numpy(array.view({1: np.uint8, 2: np.int16}[array.itemsize]))
        return whole.view(getattr(torch, name))
    return torch.from_numpy(array)


def _strided(rng, array, element_type=None):
    """Every second place of a larger array along some dimensions."""
    steps = [rng.choice((1, 1, 2, 3)) for _ in array.shape]
    whole = np.zeros([size * step + 1 for size, step in zip(array.shape, steps)], array.dtype)
    part = whole[(*(slice(0, size * step, step) for size, step in zip(array.shape, steps)), ...)]
    part[...] = array
    return part


def _negative(rng, array, element_type):
    places = tuple(slice(None, None, rng.choice((1, -1))) for _ in array.shape)
    return np.ascontiguousarray(array[places])[places] if array.ndim else array


def _read_only(rng, array, element_type):
    array.flags.writeable = False
    return array


def _with_gradient(rng, array, element_type):
    tensor = torch_of(array)
    return tensor.requires_grad_() if tensor.dtype.is_floating_point or tensor.dtype.is_complex else tensor


def _jax(rng, array, element_type):
    import jax.numpy

    return jax.numpy.asarray(array) if element_type in IN_JAX else array


def _with_shape(rng, array, element_type):
    return gl.Array(array.ravel(), f"{element_type}[{','.join(map(str, array.shape))}]")


def _wrong(rng, array, element_type):
    return rng.choice([None, "u8[2,3]", 5, 2.5, object, {}, gl.parse_shape("u8[2,3]"), [["a"], [1, 2]], b"bytes", ...])


_MAKERS = {
    "F": lambda rng, array, _: np.array(array, order="F"),
    "strided": _strided,
    "negative": _negative,
    "readonly": _read_only,
    "big": lambda rng, array, _: array.astype(array.dtype.newbyteorder(">")),
    "subclass": lambda rng, array, _: array.view(Image),
    "masked": lambda rng, array, _: np.ma.masked_array(array, mask=False),
    "list": lambda rng, array, _: array.tolist(),
    "generic": lambda rng, array, _: array.ravel()[0] if array.size else array,
    "dlpack": lambda rng, array, _: Producer(array),
    "old_dlpack": lambda rng, array, _: OldProducer(array),
    "Array": _with_shape,
    "asarray": lambda rng, array, _: gl.asarray(array, rng.choice((None, "F", "C"))),
    "wrong": _wrong,
    "torch": lambda rng, array, _: torch_of(array),
    "torch_grad": _with_gradient,
    "torch_strided": lambda rng, array, _: torch_of(_strided(rng, array)),
    "jax": _jax,
}
OUTS = {"right": 60, "F": 8, "strided": 8, "slice": 14, "shape": 4, "dtype": 3, "readonly": 2, "overlap": 4, "self": 2}
OUTS |= {"other": 3, "longer": 4, "wrong": 1}


def output(rng, dims, dtype, given):
    """An array to write to, of these dimensions, or one that is wrong; `given` is what the call reads."""
    kind = pick(rng, OUTS)
    if kind == "overlap" and type(given) is np.ndarray:
        whole = given.reshape(-1) if given.flags.c_contiguous else given
        return whole[: math.prod(dims)].reshape(dims) if math.prod(dims) <= whole.size and whole.ndim == 1 else whole
    if kind == "wrong":
        return rng.choice(([1, 2], 3, "out", object))
    found = _written(rng, kind, dims, dtype)
    is_tensor = isinstance(given, torch.Tensor)
    try:
        return torch_of(found) if is_tensor != (kind == "other") and found.flags.writeable else found
    except (TypeError, ValueError, RuntimeError, KeyError):
        return found


def _written(rng, kind, dims, dtype):
    if kind == "shape":
        dims = (*dims, 2) if rng.random() < 0.5 or not dims else dims[1:]
    if kind == "longer" and dims:
        dims = (*dims[:-1], dims[-1] + 3)
    if kind == "dtype":
        dtype = np.dtype(rng.choice(["f4", "u1", "i8", "f2", "i2"]))
    whole = np.full(dims, 1, dtype, "F" if kind == "F" else "C")
    if kind == "strided":
        return _strided(rng, whole)
    if kind == "slice":
        return np.full((3, *dims), 1, dtype)[1]
    if kind == "self" and dims:
        return np.ndarray(dims, dtype, whole, 0, (0, *whole.strides[1:]))
    whole.flags.writeable = kind != "readonly"
    return whole
