"""What is asked of the NVIDIA driver without CuPy and without initialising CUDA."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys

KERNEL_MODULE = pathlib.Path("/proc/driver/nvidia")
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
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


def leave_captures_alone() -> None:
    """Let this thread wait for events while other threads capture CUDA graphs.

    Without this, a wait in any thread invalidates every capture in CUDA's strictest mode, PyTorch's default.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(LIBRARY).cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_RELAXED)))
