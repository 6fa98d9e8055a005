"""Lowered steps on the arrays of JAX and its tracers, in JAX's own operations."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

# Name, sizes or axes, and for a pad the bytes of what fills: hashable, also where jax.export leaves a size open.
JaxStep = tuple[str, tuple[Any, ...], bytes | None]
JaxSteps = tuple[JaxStep, ...]


def is_jax(array: Any) -> bool:
    """True for an array of JAX, with memory or traced."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def run_in_jax(steps: JaxSteps, array: Any) -> Any:
    """The result of the steps, with every bit of every element.

    XLA computes with floats of 8 bits as f32 where the machine does not know them, and so changes the bits of nans,
    even in a copy.  They move as integers, and their derivatives as numbers.  For bf16 that would change nothing: XLA's
    compiler for CPUs makes numbers of the integers again, and where something fills, all its nans become one.
    """
    if not steps:
        return array
    return _as_integers(steps)(array) if _is_float_of_8_bits(array.dtype) else _run(steps, array)


def _is_float_of_8_bits(kind: Any) -> bool:
    numpy = sys.modules["jax"].numpy
    return bool(kind.itemsize == 1 and numpy.issubdtype(kind, numpy.floating) and numpy.finfo(kind).bits == 8)


@functools.lru_cache(maxsize=1024)  # JAX keeps what it traced by the function
def _as_integers(steps: JaxSteps) -> Any:
    jax = sys.modules["jax"]

    def moved(array: Any) -> Any:
        integers = jax.lax.bitcast_convert_type(array, "uint8")
        return jax.lax.bitcast_convert_type(_run(steps, integers), array.dtype)

    # The derivative of a constant that fills is zero.
    linear = tuple([(name, values, fill and bytes(len(fill))) for name, values, fill in steps])

    def derivative(arrays: Any, tangents: Any) -> Any:
        return function(*arrays), _run(linear, tangents[0])

    function = jax.custom_jvp(moved)
    function.defjvp(derivative)
    return function


def _run(steps: JaxSteps, array: Any) -> Any:
    lax = sys.modules["jax"].lax
    for name, values, fill in steps:
        if name == "permute":
            array = lax.transpose(array, values)
        elif name == "reshape":
            array = lax.reshape(array, values)
        elif name == "slice":
            array = lax.slice(array, (0,) * len(values), values)
        else:
            ends = [(0, size - now, 0) for size, now in zip(values, array.shape)]
            array = lax.pad(array, np.frombuffer(fill or b"", array.dtype)[0], ends)
    return array
