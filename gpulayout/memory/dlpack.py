"""Reads DLPack capsules up to version 1, including the flags that NumPy and CuPy ignore.

The capsule is never renamed, so it keeps owning the memory: its destructor calls the producer's deleter.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from gpulayout.layout.checks import type_text
from gpulayout.memory.foreign_memory import ForeignMemory

CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13  # device types
_READ_ONLY, _COPIED = 1, 2  # flags
_MOST_DIMENSIONS = 64  # NumPy's limit, and CuPy's

# The dtypes of each type code; the number of bits tells them apart.
_NAMES = {
    0: ("int8", "int16", "int32", "int64"),
    1: ("uint8", "uint16", "uint32", "uint64"),
    2: ("float16", "float32", "float64"),
    4: ("bfloat16",),
    5: ("complex64", "complex128"),
    6: ("bool",),
    7: ("float8_e3m4",),
    8: ("float8_e4m3",),
    9: ("float8_e4m3b11fnuz",),
    10: ("float8_e4m3fn",),
    11: ("float8_e4m3fnuz",),
    12: ("float8_e5m2",),
    13: ("float8_e5m2fnuz",),
    14: ("float8_e8m0fnu",),
}
_DTYPES = {
    (code, 8 * dtype.itemsize): dtype
    for code, names in _NAMES.items()
    for dtype in (np.dtype(getattr(ml_dtypes, name, name)) for name in names)
}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# Own prototypes: setting types on ctypes.pythonapi would change them for every other library in the process.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def device_of(given: Any) -> tuple[int, int]:
    """The type and the number of the device that an array reports."""
    kind, number = given.__dlpack_device__()
    return int(kind), int(number)


def dlpack_memory(given: Any, kinds: tuple[int, ...], **options: Any) -> ForeignMemory:
    """The memory of an array that supports DLPack and is on a device of one of these types.

    options   arguments for `__dlpack__` besides the version
    """
    try:
        capsule = given.__dlpack__(max_version=(1, 0), **options)
    except TypeError as error:  # a producer older than DLPack 1 takes no version
        if "argument" not in str(error):
            raise
        capsule = given.__dlpack__(**options)
    tensor, flags = _opened(capsule)
    if flags & _COPIED:
        raise ValueError("its __dlpack__ made a copy")
    if tensor.device_type not in kinds:
        raise ValueError(
            f"its capsule is for a device of DLPack type {tensor.device_type}, but its __dlpack_device__ is not"
        )
    if not 0 <= tensor.ndim <= _MOST_DIMENSIONS:
        raise ValueError(f"its capsule has {tensor.ndim} dimensions: {_MOST_DIMENSIONS} is the limit")
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(
            f"its DLPack dtype, code {tensor.code} with {tensor.bits} bits and {tensor.lanes} lanes, "
            "has no NumPy equivalent"
        )
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = tensor.data + tensor.byte_offset if tensor.data else 0
    return ForeignMemory(
        address, tuple(tensor.shape[: tensor.ndim]), strides, dtype, bool(flags & _READ_ONLY), capsule
    ).checked()


class Relabeled:
    """An array that exports its memory as elements of another dtype of the same width."""

    def __init__(self, array: Any, dtype: np.dtype[Any]):
        self._array, self._dtype = array, dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_of(self._array)

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__(**options)
        tensor, _ = _opened(capsule)
        tensor.code, tensor.bits = next(kind for kind, dtype in _DTYPES.items() if dtype == self._dtype)
        return capsule


def _opened(capsule: Any) -> tuple[_Tensor, int]:
    """The tensor in a capsule, and the capsule's flags."""
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_pointer(capsule, b"dltensor")), 0
    if not _is_valid(capsule, b"dltensor_versioned"):
        raise TypeError(f"its __dlpack__ returned {type_text(capsule)}, not an unused DLPack capsule")
    managed = _Managed.from_address(_pointer(capsule, b"dltensor_versioned"))
    if managed.major != 1:
        raise ValueError(f"its DLPack version is {managed.major}.{managed.minor}: only versions below 2 are supported")
    return managed.tensor, managed.flags
