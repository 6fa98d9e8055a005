"""The mode of floating-point arithmetic of a thread: the law needs the default one, which keeps subnormal numbers.

A program may have chosen another one, as by `torch.set_flush_denormal(True)`, which turns them into zeros.  The halfway
steps of a conversion use subnormal numbers also for results that are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

_ENVIRONMENT_BYTES = 256  # more than `fenv_t` of any system
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc on x86 and ARM


@contextlib.contextmanager
def default_float_mode() -> Iterator[None]:
    """A context in which this thread keeps subnormal numbers; afterwards the mode is as before.

    On systems without glibc the mode stays as it is.
    """
    libm = _libm()
    if libm is None:
        yield
        return
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    libm.fegetenv(before)
    libm.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        libm.fesetenv(before)


@functools.cache
def _libm() -> Any:
    """The C library's mathematics, or None."""
    try:
        return ctypes.PyDLL("libm.so.6")
    except OSError:
        return None
