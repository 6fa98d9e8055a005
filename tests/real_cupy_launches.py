"""Run as a program by test_real_cupy_launches.py: the real CuPy launches into a driver that only notes what it was given.

The arrays are CuPy's own, over host memory.  What would ask the CUDA runtime for a device is replaced; CuPy's driver call,
its attributes, and all of this library's are as on a GPU.  Prints, per call, what the driver saw and what it should have seen.
"""
import contextlib
import ctypes
import itertools
import json
import types

import cupy
import numpy as np

import gpulayout as gl
from gpulayout.backends import cupy_backend
from gpulayout.planning.kernel_plan import kernel_plan

FUNCTION, STREAM = 0x7F0000001000, 0x7F0000002000


class Seen(ctypes.Structure):
    """As in DRIVER below."""

    _fields_ = [("calls", ctypes.c_uint64), ("function", ctypes.c_uint64), ("launch", ctypes.c_uint32 * 7),
                ("stream", ctypes.c_uint64), ("extra", ctypes.c_uint64), ("pointers", ctypes.c_uint64 * 2),
                ("parameters", ctypes.c_ubyte * 4096)]


DRIVER = r"""
#include <cstdint>
#include <cstring>
#define API extern "C" __attribute__((visibility("default")))
struct Seen { uint64_t calls, function; uint32_t launch[7]; uint64_t stream, extra, pointers[2]; unsigned char parameters[4096]; };
API Seen gpl_seen;
API uint32_t gpl_parameter_bytes;
Seen gpl_seen;
uint32_t gpl_parameter_bytes;
API int cuInit(unsigned) { return 100; }
API int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
API int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void* stream, void** given, void** extra) {
  const uint32_t launch[7] = {gx, gy, gz, bx, by, bz, shared};
  ++gpl_seen.calls;
  gpl_seen.function = (uint64_t)f;
  std::memcpy(gpl_seen.launch, launch, sizeof launch);
  gpl_seen.stream = (uint64_t)stream;
  gpl_seen.extra = (uint64_t)extra;
  for (int k = 0; k < 2; ++k) std::memcpy(&gpl_seen.pointers[k], given[k], 8);
  std::memcpy(gpl_seen.parameters, given[2], gpl_parameter_bytes);
  return 0;
}
"""


def array(memory, first, count):
    """A CuPy array of `count` floats, `first` floats into host memory that is said to be device 0's."""
    start = memory.ctypes.data + 4 * first
    return cupy.ndarray((count,), np.float32, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(start, 4 * count, memory, 0), 0))


def replace_the_runtime():
    """All that needs a device, but the launch."""
    cupy_backend._current_device = itertools.repeat(0).__next__
    cupy_backend._current_stream = {0: types.SimpleNamespace(ptr=STREAM)}.__getitem__
    cupy_backend._thread.devices = {0}
    cupy_backend._compiled = lambda *_: types.SimpleNamespace(kernel=types.SimpleNamespace(ptr=FUNCTION))
    cupy_backend._on_device = lambda device: contextlib.nullcontext()


def main():
    driver = ctypes.CDLL("libcuda.so.1")
    seen = Seen.in_dll(driver, "gpl_seen")
    replace_the_runtime()
    plan = gl.plan("f32[32,40]", "{0,1}")
    memory = np.zeros(8192, np.float32)
    first = -memory.ctypes.data // 4 % 4
    found = []
    for number, (source, target) in enumerate([(0, 2000), (4, 4000), (2000, 0), (0, 2001), (1, 2001), (1, 3001)]):
        buffer, out = array(memory, first + source, 1280), array(memory, first + target, 1280 + 10)
        kernel = kernel_plan(plan.move, 4 * source % 16, 4 * target % 16)
        ctypes.c_uint32.in_dll(driver, "gpl_parameter_bytes").value = len(kernel.parameters)
        assert plan(buffer, out=out) is out
        saw = [seen.calls, seen.function, list(seen.launch), seen.stream, seen.extra, list(seen.pointers),
               bytes(seen.parameters)[:len(kernel.parameters)].hex()]
        should = [number + 1, FUNCTION, [*kernel.grid, 1, 256, 1, 1, 0], STREAM, 0, [buffer.data.ptr, out.data.ptr],
                  kernel.parameters.hex()]
        found.append((saw, should))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
