"""NumPy arrays over memory that another library owns and that can be written to, for elements of any type."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np


class HostMemory(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # ctypes makes the base class when the program runs
    """All memory from an address on.  An array over it keeps it alive, and with it the owner."""

    __slots__ = ("owner",)


def host_array(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype[Any], owner: object
) -> np.ndarray[Any, Any]:
    """An array over the memory at an address; `__array_interface__` says the same to NumPy, and takes twice as long.

    address   of the first element; 0 for memory without elements
    strides   in bytes, none negative; None for C order
    owner     the memory is valid while this object is alive
    """
    if not address:
        return np.empty(shape, dtype)
    memory = HostMemory.from_address(address)
    memory.owner = owner
    return np.ndarray(shape, dtype, memory, 0, strides)
