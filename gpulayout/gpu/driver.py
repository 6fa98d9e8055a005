"""Checks for an NVIDIA driver, and so most likely a GPU, without CuPy and without initialising CUDA."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys

KERNEL_MODULE = pathlib.Path("/proc/driver/nvidia")
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_HIDDEN = ("", "-1")  # values of CUDA_VISIBLE_DEVICES that hide every device


def has_driver() -> bool:
    """True if the driver's kernel module or its library is present and no environment variable hides the devices."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in _HIDDEN:
        return False
    if KERNEL_MODULE.exists():
        return True
    try:
        ctypes.CDLL(LIBRARY)  # without cuInit, which would break CUDA in forked processes
    except OSError:
        return False
    return True
