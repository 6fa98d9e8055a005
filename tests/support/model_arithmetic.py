"""The arithmetic of rules in NumPy: operations of IEEE in one type, and one rounding at the end."""

import numpy as np

from tests.reference_arithmetic import compute_type, expected_codes
from tests.support.model_elements import ELEMENTS, NAMES, Unclear, Wrong, of_codes

SIBLINGS = ("scale", "shift", "zero_point", "mean", "std")  # parameters that may be tensors of the file
_SMALL = 16  # bits: the types up to this width have codes in `reference_arithmetic`


def spread(numbers, shape, block, key):
    """Numbers for each element of an array: as NumPy broadcasts them, or one for each block of a dimension."""
    numbers = values_of(numbers)
    if not numbers.ndim:
        return np.broadcast_to(numbers, shape)
    if numbers.ndim > len(shape):
        raise Wrong(f"{key} has more dimensions than {shape}")
    full = numbers.ndim == len(shape)
    blocks = [int(each) for each in np.broadcast_to(0 if block is None else block, len(shape))]
    numbers = numbers.reshape((1,) * (len(shape) - numbers.ndim) + numbers.shape)
    for dim, (size, count, each) in enumerate(zip(shape, numbers.shape, blocks)):
        if count in (1, size):
            continue
        if not each and full and key in ("scale", "shift", "zero_point") and count and not size % count:
            each = size // count
        if not each or count != -(-size // each):
            raise Wrong(f"{key} of shape {numbers.shape} beside {shape} with block {block}")
        numbers = np.take(numbers, np.arange(size) // each, dim)
    return np.broadcast_to(numbers, shape)


def calculated(bundle, rule, dtype):
    """The elements of a bundle after the arithmetic of its rule."""
    elements = bundle[""]
    target = elements.dtype if dtype is None else ELEMENTS[dtype]
    steps = [key for key in (*SIBLINGS, "unit") if rule.get(key) is not None and rule.get(key) is not False]
    if not steps:
        return elements if target == elements.dtype else encoded(values_of(elements), target)
    names = NAMES[elements.dtype], NAMES[target]
    if dtype is None and names[0][0] in "usp":
        raise Wrong("the arithmetic of integers needs a dtype")
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[compute_type(*names)])

    def parameter(key, usual):
        given = bundle.get(key, rule.get(key))
        if given is None:
            return kind.type(usual)
        if key not in bundle:
            given = spread(np.asarray(given, np.float64), elements.shape, rule.get("block"), key)
        return given.astype(kind)

    x = values_of(elements).astype(kind)
    with np.errstate(all="ignore"):
        return encoded(_formula(x, steps, parameter, rule, names, kind), target)


def _formula(x, steps, parameter, rule, names, kind):
    scale, shift = parameter("scale", 1), parameter("shift", 0)
    if "zero_point" in steps:
        zero = parameter("zero_point", 0)
        is_float = ["f" in name for name in names]
        if is_float == [False, True]:
            return (x - zero) * scale
        if is_float == [True, False]:
            return np.rint(x / scale) + zero
        raise Wrong("a zero point is between integers and floats")
    if {"mean", "std", "unit"} & {*steps}:
        x = x / kind.type(255) if rule.get("unit") else x
        x = x - parameter("mean", 0) if "mean" in steps else x
        return x / parameter("std", 1) if "std" in steps else x
    if "scale" in steps:
        x = x / scale if rule.get("divide") else x * scale
    return x + shift if "shift" in steps else x


def values_of(elements):
    """Exact numbers: float64, or integers of 64 bits."""
    elements = np.asarray(elements)
    if elements.dtype in (np.int64, np.uint64):
        return elements
    if elements.dtype.kind == "c":
        raise Unclear("arithmetic of complex numbers")
    return elements.astype(np.float64)


def encoded(values, dtype):
    """Numbers of float64, or of float32, rounded once to a type."""
    if dtype in (np.float32, np.float64):
        return values.astype(dtype)
    if values.dtype == np.float32:
        values = values.astype(np.float64)
    name, flat = NAMES[dtype], np.ascontiguousarray(values).reshape(-1)
    if dtype == np.bool_:
        return values != 0
    codes = expected_codes(flat, name)
    if name in ("f16", "bf16"):
        return codes.astype(np.uint16).view(dtype).reshape(values.shape)
    if name[0] in "us" and int(name[1:]) >= 8:
        width = np.dtype(f"u{dtype.itemsize}")
        return codes.astype(width).view(dtype).reshape(values.shape)
    return of_codes(codes, dtype).reshape(values.shape)
