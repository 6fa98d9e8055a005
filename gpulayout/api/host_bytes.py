"""The bytes of an `Array` on the host, for what reads bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.array_types import HostArray
from gpulayout.api.memory_checks import flat_buffer
from gpulayout.api.packing import pack
from gpulayout.api.shaped_buffer import ShapedBuffer


def host_buffer(array: ShapedBuffer[Any]) -> HostArray:
    """The buffer, 1-D and of exactly `buffer_length` elements: no copy, unless an N-d array lacks the last padding.

    TypeError for a buffer on a GPU.
    """
    backend, memory = arrays.open_array(array.buffer, "buffer")
    if type(memory) is not np.ndarray:
        raise TypeError(f"{array!r} is not in the memory of the host: nothing is copied between devices")
    shape = array.shape
    flat: HostArray = flat_buffer(backend, memory, shape, "buffer")
    return pack(memory, shape) if flat.size < shape.buffer_length else flat[: shape.buffer_length]


def host_bytes(array: ShapedBuffer[Any]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The same memory as bytes."""
    return host_buffer(array).view(np.uint8)
