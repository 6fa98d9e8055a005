"""Views of memory as opaque words, through which the CPU backend reads and writes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

# Elements move as unsigned integers of their width; 16 bytes move as complex128, which NumPy copies whole.
_WORDS = {size: np.dtype(name) for size, name in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "c16"))}


def word_of(itemsize: int) -> np.dtype:
    """The dtype of an opaque element of `itemsize` bytes."""
    return _WORDS.get(itemsize) or np.dtype(f"V{itemsize}")


def strided_view(
    array: np.ndarray, word: np.dtype, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]
) -> np.ndarray:
    """A strided view of an array's memory; `offset`, from its first element, and `strides` in bytes."""
    flags = array.flags
    if flags.c_contiguous:
        return np.ndarray(shape, word, array, offset, strides)
    if flags.f_contiguous:
        return np.ndarray(shape, word, array.T, offset, strides)
    # `np.ndarray` takes only contiguous buffers.  A strided logical array is viewed through its address.
    address, read_only = array.__array_interface__["data"]
    return array_at(address + offset, read_only, shape, strides, word.str, array)


def array_at(
    address: int, read_only: bool, shape: tuple[int, ...], strides: tuple[int, ...] | None, typestr: str, owner: object
) -> np.ndarray:
    """An array over memory at an address, which is valid while `owner` is alive; strides in bytes, None for C order."""
    interface = {"version": 3, "data": (address, read_only), "shape": shape, "strides": strides, "typestr": typestr}
    return np.asarray(SimpleNamespace(__array_interface__=interface, owner=owner))
