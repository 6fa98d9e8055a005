"""Two devices for the real CuPy on a machine without any: call `install()` before CuPy is imported.

No file of CuPy's wheel and no code in memory is changed.  The stand-in replaces the layers beneath CuPy: the driver and
NVRTC, which CuPy looks up by name and finds already loaded, and the three modules that contain NVIDIA's runtime, which
are imported from another folder.
"""

import ctypes
import json
import os
import sys

from tests.support.simt import toolchain

from . import cache, cupy_modules, host_kernels, libraries, wheel

_kept = []  # keeps alive the libraries, and the functions that C++ code calls


def install(replaced=()):
    """Put the stand-in beneath CuPy; `replaced` is for builds that are broken on purpose."""
    if any(name.split(".")[0] in ("cupy", "cupy_backends") for name in sys.modules):
        raise RuntimeError("CuPy is imported already")
    modules = cupy_modules.build()
    folder = libraries.build(json.loads((modules / "asked.json").read_text()), replaced)
    os.environ.setdefault("CUPY_ACCELERATORS", "")  # CUB's kernels exist only as machine code
    # CuPy's disk cache keeps the images too, in a separate folder.
    os.environ["CUPY_CACHE_DIR"] = str(
        cache.folder("cupy-cache", [(libraries.DRIVER / "image.hpp").read_bytes()], lambda made: None)
    )
    driver, nvrtc = (ctypes.CDLL(str(folder / name)) for name in ("libcuda.so.1", f"libnvrtc.so.{wheel.cuda_major()}"))
    nvrtc.standin_set_nvrtc.restype = ctypes.c_char_p
    if problem := nvrtc.standin_set_nvrtc(str(wheel.nvrtc()).encode()):
        raise RuntimeError(f"NVRTC cannot be loaded: {problem.decode()}")
    build = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)(host_kernels.build)
    driver.standin_set_build(build)
    driver.standin_set_order.argtypes = (ctypes.c_uint,)
    _kept.extend((driver, nvrtc, build))
    sys.meta_path.insert(0, cupy_modules.Finder(modules))


def set_order(order):
    """The order of work from now on: 0 as late as CUDA allows, -1 as early, any other number is a random order."""
    _kept[0].standin_set_order(order & 0xFFFFFFFF)


def missing():
    """Why the stand-in cannot be used on this machine, or None if it can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return f"the stand-in for CUDA needs Linux on x86-64, this is {sys.platform} on {os.uname().machine}"
    return toolchain.missing()
