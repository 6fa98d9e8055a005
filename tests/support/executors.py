"""The three executors that run the same tests: NumPy, the CUDA sources on the CPU, and CuPy on a GPU.

Each makes arrays in its own memory, at any phase and between guard bytes, and reads them back.
"""

import contextlib
import functools
import types

import numpy as np

from gpulayout.choices import backends
from gpulayout.cpu import native
from gpulayout.cpu.run import NumpyBackend
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.run import CudaBackend
from gpulayout.gpu.runtime import NO_OFFENDER
from tests.support.kernel_cases import FILES
from tests.support.simt import host_module, toolchain

GUARD = 64  # bytes on either side of a guarded buffer
# around targets and around sources: they differ, so that a copy that overruns both leaves a trace
GUARD_BYTE, SOURCE_BYTE = 0x5C, 0xC3


def _kernel(file, name, macros):
    return host_module.load(kernel_text(file), FILES[file], dict(macros)).kernel(name)


def with_operands(parameters, operands):
    """A parameter struct that begins with these addresses."""
    words = np.array(operands, np.uint64).tobytes()
    return words + parameters[len(words) :]


class SimtRuntime:
    """Launches the kernel files compiled by the host compiler, each read once; arrays are NumPy's."""

    def __init__(self):
        self.order, self.seed, self.launches = host_module.ASCENDING, 1, []
        self._kernel = functools.cache(_kernel)
        self._only_stream = types.SimpleNamespace(ptr=0, is_capturing=lambda: False)

    def prepare(self, device, launch):
        kernel = self._kernel(launch.file, launch.kernel, launch.macros)

        def start(*addresses):
            assert len(addresses) == launch.pointers + launch.operands
            self.launches.append((launch.kernel, launch.macros))
            arguments = with_operands(launch.parameters, addresses[launch.pointers :])
            kernel(launch.grid, 256, (*addresses[: launch.pointers], arguments), self.order, self.seed)

        return start

    def locate(self, array):
        return array.__array_interface__["data"][0], 0

    def stream(self, device):
        return self._only_stream

    def upload(self, values, device):
        copy = np.array(values)
        return copy, copy.ctypes.data

    def new_flag(self, device):
        flag = np.array([NO_OFFENDER], np.uint64)
        return flag, flag.ctypes.data

    def read_flag(self, flag):
        return int(flag[0])


class SimtBackend(CudaBackend, NumpyBackend):
    """The launch code of the GPU over NumPy's memory: CudaBackend executes plans, NumpyBackend holds arrays."""

    name = "simt"
    empty, array = NumpyBackend.empty, NumpyBackend.array  # which CudaBackend only declares

    def __init__(self):
        CudaBackend.__init__(self, SimtRuntime())

    def contiguous(self, array):
        return np.ascontiguousarray(array)


class HostExecutor:
    """NumPy arrays: moved by the native engine, by NumPy alone, or by the host-compiled kernels."""

    def __init__(self, name, backend):
        self.name, self.backend = name, backend

    @contextlib.contextmanager
    def active(self):
        """NumPy arrays, and calls without an array, go to this executor within the block, also beside a GPU."""
        before = backends.replace_host_backend(self.backend)
        try:
            with backends.use_backend("numpy"), native.chosen(self.name == "native"):
                yield self
        finally:
            backends.replace_host_backend(before)

    def array(self, values):
        """An array of the executor with these values."""
        return np.array(values)

    def host(self, array):
        """A NumPy array with the values of an executor's array."""
        return np.asarray(array)

    def raw(self, nbytes):
        """Bytes of the executor's memory, at an address that is a multiple of 256."""
        memory = np.empty(nbytes + 256, np.uint8)
        start = -memory.__array_interface__["data"][0] % 256
        return memory[start : start + nbytes]


class CupyExecutor:
    """CuPy arrays on the current device."""

    name = "cupy"

    def __init__(self):
        import cupy

        self.cupy = cupy
        self.backend = backends.gpu_backend()

    @contextlib.contextmanager
    def active(self):
        with backends.use_backend("cupy"):
            yield self

    def array(self, values):
        return self.backend.array(values, None)

    def host(self, array):
        return self.cupy.asnumpy(array)

    def raw(self, nbytes):
        return self.cupy.empty(nbytes, self.cupy.uint8)


def guarded(executor, dtype, count, phase=0, around=GUARD_BYTE):
    """(buffer of `count` elements `phase` bytes past a multiple of 256, the memory around it)."""
    nbytes = count * np.dtype(dtype).itemsize
    memory = executor.raw(GUARD + 256 + nbytes + GUARD)
    memory[...] = around
    return memory[256 + phase : 256 + phase + nbytes].view(dtype), memory


def source_buffer(executor, values, phase=0):
    """A copy of a NumPy array, `phase` bytes past a multiple of 256.  Its guard bytes differ from a target's."""
    buffer, _ = guarded(executor, values.dtype, values.size, phase, SOURCE_BYTE)
    buffer[...] = executor.array(values)
    return buffer


def guards_intact(executor, memory, phase, nbytes):
    """True when nothing around a guarded buffer was written."""
    found = executor.host(memory)
    return bool((found[: 256 + phase] == GUARD_BYTE).all() and (found[256 + phase + nbytes :] == GUARD_BYTE).all())


def simt_missing():
    """The reason why the host-compiled kernels cannot run here, or None."""
    return toolchain.missing()
