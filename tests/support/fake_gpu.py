"""The parts of CuPy that only the benchmarks' GPU side uses: events, plain copies, memory, NumPy's functions.

Times are wall times of this machine and mean nothing.  The imitation shows that every line of the benchmarks runs.
"""

import ctypes
import sys
import time
import types

import numpy as np

from tests.support import fake_cuda, fake_cupy


class Stream(fake_cuda.Stream):
    """Calls do their work at once on every stream, so there is nothing to order and nothing to wait for."""

    def use(self):
        return self


class Event:
    """A moment of the wall clock."""

    def record(self, stream=None):
        self.seconds = time.perf_counter()

    def synchronize(self):
        pass


def memcpy_async(target, source, count, kind, stream):
    assert kind == 3
    ctypes.memmove(target, source, count)


def geam(transa, transb, alpha, a, beta, b, out=None):
    """The cases of cuBLAS geam that the benchmarks use."""
    assert (transa, transb, alpha, beta) == ("T", "T", 1.0, 0.0) and a is b and a.dtype.kind == "f"
    out[...] = a.T * alpha
    return out


def extend(fake, monkeypatch, memory=1 << 40):
    """Add the rest to the imitation `fake` of the `cupy` fixture; `memory` bytes are free."""
    runtime = fake.cuda.runtime
    enter_context = runtime.memGetInfo
    properties = {"name": b"host memory", "l2CacheSize": 1 << 15, "totalGlobalMem": memory}
    runtime.getDeviceProperties = lambda number: properties
    runtime.memGetInfo = lambda: (enter_context(), (memory, memory))[1]
    runtime.memcpyAsync, runtime.memcpyDeviceToDevice, runtime.deviceSynchronize = memcpy_async, 3, lambda: None
    fake.cuda.Stream, fake.cuda.Event = Stream, Event
    fake.cuda.get_elapsed_time = lambda begin, end: (end.seconds - begin.seconds) * 1e3
    fake.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    fake.arange = _on_device(np.arange)
    fake.__getattr__ = lambda name: _on_device(getattr(np, name))
    fake.fuse = lambda: lambda function: function
    fake.cublas = types.ModuleType("cupy.cublas")
    fake.cublas.geam = geam
    monkeypatch.setitem(sys.modules, "cupy.cublas", fake.cublas)
    monkeypatch.setattr(fake_cuda.Device, "compute_capability", "00", raising=False)


def _on_device(found):
    """A NumPy function whose arrays live on the imitation's device; types and constants are returned unchanged."""
    if isinstance(found, type) or not callable(found):
        return found
    return lambda *args, **kwargs: _moved(found(*args, **kwargs))


def _moved(result):
    if isinstance(result, tuple):
        return tuple(map(_moved, result))
    return result.view(fake_cupy.ndarray) if isinstance(result, np.ndarray) else result
