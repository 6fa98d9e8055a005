"""Checks of a buffer against its shape, from what the array says of itself: no memory is looked at.

So they pass tensors with gradients, tracers and arrays on several devices, whose memory a call may have to refuse.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import TracedArray
from gpulayout.arrays.memory_checks import ArrayFacts
from gpulayout.arrays.memory_checks import check_buffer as check_memory
from gpulayout.arrays.shaped_buffer import check_plain
from gpulayout.layout.checks import value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.shape import Shape
from gpulayout.moves.lowered_run import is_torch
from gpulayout.moves.move import check_storable


def check_buffer(buffer: Any, shape: Shape) -> None:
    """TypeError or BufferError unless the array is a buffer of the shape, as moves take it; LayoutError for a shape
    that no buffer can hold.
    """
    _check_shape(shape)
    if type(buffer) is np.ndarray:
        check_memory(buffer, shape, "buffer")
        return
    check_plain(buffer, "buffer")
    check_memory(_described(buffer), shape, "buffer")


def check_facts(facts: ArrayFacts, shape: Shape) -> None:
    """The same for what a tensor says of itself in a graph."""
    _check_shape(shape)
    check_memory(facts, shape, "buffer")


@functools.lru_cache(maxsize=1024)  # every new Array comes here
def _check_shape(shape: Shape) -> None:
    """LayoutError for a shape that no buffer can hold."""
    check_storable(shape)
    _ = shape.buffer_length


def _described(buffer: Any) -> Any:
    """The array, or a description of one whose memory may be out of reach."""
    library = library_of(buffer)
    if library is None:
        return arrays.open_array(buffer, "buffer")[1]
    dtype, sizes = library.dtype(buffer), tuple(buffer.shape)
    if is_torch(buffer):
        return ArrayFacts(dtype, sizes, tuple([step * dtype.itemsize for step in buffer.stride()]))
    if len(sizes) != 1:
        try:
            return arrays.open_array(buffer, "buffer")[1]  # JAX says no strides
        except TracedArray:
            pass
    return ArrayFacts.in_c_order(dtype, sizes)


def is_flat(buffer: Any) -> bool:
    """True for a 1-D buffer; False for an N-d array, whose own strides are its layout.

    Leaves that a pytree brings, such as None, are as good as flat: only a call that moves them will find out.
    """
    if type(buffer) is np.ndarray:
        return buffer.ndim == 1
    shape = getattr(buffer, "shape", None)
    if shape is None and library_of(buffer) is None and hasattr(buffer, "__dlpack__"):
        shape = arrays.open_array(buffer, "buffer")[1].shape
    return shape is None or len(shape) == 1


def check_layout(target: object, shape: Shape) -> None:
    """TypeError for a device or an element type, which the `to` of other libraries takes."""
    name = (target if isinstance(target, str) else value_text(target)).removeprefix("torch.")
    if name.partition(":")[0] in ("cpu", "cuda", "gpu", "meta") or type(target).__name__ == "device":
        raise TypeError(
            f"target {value_text(str(target))} is a device, and to() changes the layout of {shape}: write "
            "gl.Array(array.buffer.to(device), array.shape)"
        )
    if (
        name in ElementType.__members__.values()
        or isinstance(target, (np.dtype, type))
        or type(target).__name__ == "dtype"
    ):
        raise TypeError(
            f"target {value_text(str(target))} is an element type, and to() changes the layout of {shape}: write "
            "to(layout, dtype=...)"
        )
