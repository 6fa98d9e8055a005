"""The memory of another library's array, as its owner describes it.  The description is checked before any access.

It comes from `__cuda_array_interface__`, read here, or from DLPack, read in `dlpack`.  NumPy and CuPy could read both,
but they copy some arrays, ignore read-only flags, and differ from version to version.  `host_array` makes a NumPy array
over memory that may be written to.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.checks import type_text

DLPACK = ("__dlpack_device__", "__dlpack__")
CUDA_INTERFACE = "__cuda_array_interface__"
HOST_INTERFACES = ("__array_interface__", "__array_struct__")  # NumPy reads both


class ForeignMemory(NamedTuple):
    """Where the elements are, and whether they may be written; strides in bytes."""

    address: int  # of the element whose coordinates are all 0
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # None for C order
    dtype: np.dtype
    read_only: bool
    owner: Any  # the memory is valid while this object is alive
    device: int | None = None  # the number of its CUDA device, if known
    stream: int | None = None  # a CUDA stream whose work comes first
    frees_in_order: bool = False  # its library reuses the memory only after all work that the call gave to the stream

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def checked(self) -> ForeignMemory:
        """This description; ValueError when it is inconsistent."""
        if min(self.shape, default=0) < 0:
            raise ValueError(f"its shape is {self.shape}: a size is negative")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ValueError(f"its strides {self.strides} and its shape {self.shape} differ in length")
        if not 0 <= self.address < 2**64 or (self.size and not self.address):
            raise ValueError(f"its address is {self.address:#x}")
        return self


def offers(given: Any, *names: str) -> bool:
    """True if the object has all these attributes.  One that raises an error counts: using it reports that error."""
    try:
        return all(hasattr(given, name) for name in names)
    except Exception:
        return True


def cuda_interface_memory(given: Any) -> ForeignMemory:
    """The memory that `__cuda_array_interface__` describes; TypeError or ValueError for an invalid description."""
    interface = given.__cuda_array_interface__
    if not isinstance(interface, dict):
        raise TypeError(f"its __cuda_array_interface__ is {type_text(interface)}, not a dict")
    missing = [name for name in ("shape", "typestr", "data") if name not in interface]
    if missing:
        raise TypeError(f"its __cuda_array_interface__ lacks {missing[0]!r}")
    if interface.get("mask") is not None:
        raise TypeError("it has a mask, which would be lost")
    data, strides, stream = interface["data"], interface.get("strides"), interface.get("stream")
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"data is {data!r} in its __cuda_array_interface__: it must be (address, read-only flag)")
    return ForeignMemory(
        _integers("data", data[:1])[0],
        _integers("shape", interface["shape"]),
        None if strides is None else _integers("strides", strides),
        _dtype(interface["typestr"]),
        bool(data[1]),
        given,
        stream=None if stream is None else _stream(stream),
    ).checked()


def _integers(field: str, values: Any) -> tuple[int, ...]:
    try:
        if isinstance(values, (tuple, list)):
            return tuple(map(operator.index, values))
    except TypeError:
        pass
    raise TypeError(f"{field} is {values!r} in its __cuda_array_interface__: it must be a tuple of integers")


def _dtype(typestr: Any) -> np.dtype:
    try:
        dtype = np.dtype(typestr) if isinstance(typestr, str) and typestr[:1] in ("<", ">", "=", "|") else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in "biufc":
        raise TypeError(
            f"its typestr {typestr!r} is not one of booleans, integers, floats or complex numbers with a byte order, "
            "such as '<f4'"
        )
    if not dtype.isnative:
        raise TypeError(f"its typestr {typestr!r} is big-endian, but CUDA devices are little-endian")
    return dtype


def _stream(stream: Any) -> int:
    (number,) = _integers("stream", (stream,))
    if number <= 0:
        raise ValueError(f"stream is {number} in its __cuda_array_interface__: 1 and 2 are the default streams")
    return number


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
