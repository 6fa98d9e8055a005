"""What traced arrays show of themselves, checked as arrays in memory are."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gpulayout.api.sides import check_buffer_dtype, check_dtype, too_short
from gpulayout.api.targets import as_target
from gpulayout.layout import checks
from gpulayout.layout.arguments import as_shape, is_only_layout
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.lowered_jax import is_jax


def check_fixed(given: Any) -> None:
    """LayoutError for sizes that jax.export left open."""
    if is_jax(given) and not all(isinstance(size, int) for size in given.shape):
        raise LayoutError(
            f"array has shape {given.shape}, and a layout has fixed sizes: export the function for those, or call "
            "gl.transpose, whose sizes may stay open"
        )


class Given(NamedTuple):
    """What a traced array shows of itself."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def traced_source(value: Any, given: Given, role: str) -> tuple[Shape, bool]:
    """The shape of a buffer, and whether the array is the logical one: an N-d array in C order is both."""
    flat = len(given.shape) == 1
    if is_only_layout(value) and flat:
        raise LayoutError(f"{role} {checks.value_text(str(value))} is only a layout: write the whole shape")
    shape = as_target(value, Shape(given.dtype, given.shape), role) if is_only_layout(value) else as_shape(value)
    if not flat:
        if given.shape != shape.dimensions or shape != Shape(shape.element_type, shape.dimensions):
            raise BufferError(
                f"buffer has shape {given.shape}, and a traced array is no buffer of {shape}: pass the 1-D buffer, or "
                "call gl.pack for an N-d array"
            )
        check_dtype(given, shape, "buffer")
        return shape, True
    check_buffer_dtype(given, shape, "buffer")
    if given.size < shape.buffer_length:
        raise BufferError(too_short(given, shape, "buffer"))
    return shape, False


def check_array(given: Given, shape: Shape) -> None:
    """TypeError or BufferError unless a traced array has this type and these dimensions."""
    check_dtype(given, shape, "array")
    if given.shape != shape.dimensions:
        raise BufferError(f"array has shape {given.shape}, but {shape} has dimensions {shape.dimensions}")
