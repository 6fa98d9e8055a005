"""The independent model of scales that are measured, block by block, and of what becomes of their tensors."""

import itertools
import re

import ml_dtypes
import numpy as np

from tests.reference_arithmetic import expected_codes
from tests.support.model_elements import ELEMENTS, HEADER, NAMES, Wrong


def scales_by_blocks(array, block, divisor, dtype):
    """The scale of each block of an array: slow and obvious.

    block   a number for each dimension, or None for one scale
    """
    wide = np.float64 if np.float64 in (array.dtype, np.dtype(dtype)) else np.float32
    if block is None:
        return scale_of(array, wide, divisor, dtype).reshape(())
    shape = [-(-size // each) for size, each in zip(array.shape, block)]
    found = np.zeros(shape, dtype)
    for place in itertools.product(*map(range, shape)):
        part = array[tuple(slice(at * each, (at + 1) * each) for at, each in zip(place, block))]
        found[place] = scale_of(part, wide, divisor, dtype)[0]
    return found


def scale_of(part, wide, divisor, dtype):
    """The scale of one block, an array of one."""
    greatest = max((abs(float(each)) for each in part.reshape(-1)), default=0.0)
    exact = np.array([wide(greatest) / wide(divisor) if greatest else wide(1)])
    if np.dtype(dtype) in (np.float32, np.float64):
        return exact.astype(dtype)
    if np.dtype(dtype) == ml_dtypes.float8_e8m0fnu:  # up, and never below the least of the type
        return np.array([next(2.0**power for power in range(-127, 128) if 2.0**power >= exact[0])]).astype(dtype)
    return expected_codes(exact.astype(np.float64), NAMES[np.dtype(dtype)]).astype(np.uint16).view(dtype)


def measuring(rule):
    """A rule that measures its scale, as one that names the tensor of scales; with how they are measured."""
    text = rule.get("scale")
    words = re.fullmatch(r"absmax(?:/(.*))?", text) if isinstance(text, str) else None
    if words is None:
        return rule
    dtype = rule.get("scale_dtype", "f32")
    rule = {**rule, "measure": (float(words[1] or 1), ELEMENTS[HEADER.get(dtype, dtype)])}
    rule["scale"] = rule.pop("scale_name")
    rule.pop("scale_dtype", None)
    return rule if "zero_point" in rule else {**rule, "divide": True}


def measured_scales(array, rule):
    """The tensor of scales of an array, by a rule that measures."""
    if np.dtype(array.dtype).name not in ("float16", "bfloat16", "float32", "float64"):
        raise Wrong(f"the scale of {array.dtype}")
    block = rule.get("block")
    if block is not None and not isinstance(block, list):
        if array.ndim > 2:
            raise Wrong(f"block {block} for {array.ndim} dimensions")
        block = [block] * array.ndim
    return scales_by_blocks(array, block, *rule["measure"])
