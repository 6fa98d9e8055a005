"""An imitation of CuPy whose device is this machine's memory, so that gpu/cupy_runtime.py itself runs without CuPy.

ci/real_cupy runs the tests with the real CuPy over a stand-in for CUDA, which tests arrays, memory, streams and graphs
better.  This imitation needs no download and no x86-64.  It lists every allocation, copy, wait and launch, so that a
test can check that a call was one launch and nothing else.  And it can fail, or let another thread run, at any launch.

It accepts only what CuPy accepts: options of the form -DNAME=NUMBER, plain integers for a launch, one upper-case letter
as a type parameter.  Kernels run on the host shim; `fake_cuda` has the devices, the streams and the list.
"""

import ctypes
import functools
import re
import types

import numpy as np

from tests.support.fake_cuda import (
    DEVICES,
    Device,
    Event,
    Function,
    Stream,
    allocated,
    current_stream,
    launch_kernel,
    launched,
    memory_at,
    note,
    set_device,
    thread,
)
from tests.support.simt import host_module

VERSION = "fake"


def _allocated(array):
    note("allocate", array.nbytes)
    allocated(array, array._device)
    return array


class ndarray(np.ndarray):  # noqa: N801 - CuPy's name
    """NumPy memory with CuPy's `device`, `data.ptr` and `get`."""

    __array_priority__ = 10
    _device = 0

    def __array_finalize__(self, origin):
        self._device = getattr(origin, "_device", thread.device)
        if self.flags.owndata:  # made by a method such as astype: it owns its memory
            _allocated(self)

    @property
    def device(self):
        return Device(self._device)

    @property
    def data(self):
        address = self.__array_interface__["data"][0]
        return types.SimpleNamespace(
            ptr=address,
            device_id=self._device,
            memset_async=functools.partial(_memset, address),
            copy_from_host_async=lambda host, size, stream: _copy(address, host, size),
            copy_to_host_async=lambda host, size, stream: _copy(host.value, address, size),
        )

    def get(self, out=None):
        note("synchronize")
        if out is None:
            return np.array(self.view(np.ndarray))
        out[...] = self.view(np.ndarray)
        return out

    def set(self, array):
        note("copy", array.nbytes)
        self.view(np.ndarray)[...] = array


ndarray.__module__ = "cupy"


def _memset(address, value, size):
    note("memset", size)
    ctypes.memset(address, value, size)


def _copy(to, given, size):
    note("copy", size)
    ctypes.memmove(to, given, size)


class RawKernel:
    """Compiles with the host compiler, for the device that is current."""

    compiled = []

    def __init__(self, code, name, options=()):
        assert isinstance(options, tuple) and "#include" not in code
        macros = dict(re.fullmatch(r"-D([A-Z_]+)=(\d+)", option).groups() for option in options)
        self._function = Function(
            host_module.load(code, (name,), {key: int(value) for key, value in macros.items()}).kernel(name)
        )

    def compile(self):
        RawKernel.compiled.append(thread.device)
        thread.contexts.add(thread.device)

    @property
    def kernel(self):
        assert self._function.device == thread.device, "CuPy would compile the kernel again for this device"
        return self._function


class ElementwiseKernel:
    """The operation in a loop over all elements, written as CuPy writes it and run by the shim."""

    def __init__(self, in_params, out_params, operation, name="kernel", preamble=""):
        self._in, self._out = (_parameters(text) for text in (in_params, out_params))
        self._operation, self._name, self._preamble = operation, name, preamble

    def __call__(self, *args):
        if len(args) == len(self._in):  # CuPy makes the outputs then
            args = (
                *args,
                *(_on_device(np.empty(np.broadcast_shapes(*map(np.shape, args)), kind)) for _, kind, _ in self._out),
            )
        assert len(args) == len(self._in) + len(self._out)
        typed = list(zip(self._in + self._out, args))
        shape = np.broadcast_shapes(*(np.shape(value) for (raw, _, _), value in typed if not raw))
        pointers, lines, signature = [], [], []
        for position, ((raw, kind, name), value) in enumerate(typed):
            array = np.asarray(value)
            assert len(kind) == 1 or array.dtype == np.dtype(kind), f"{name} is {array.dtype}, not {kind}"
            whole = array if raw else np.ascontiguousarray(np.broadcast_to(array, shape))
            if position >= len(self._in):
                assert array.flags.c_contiguous
                whole = array
            pointers.append(whole)
            signature.append(f"{_C_TYPES[whole.dtype.name]}* p{position}")
            lines.append(f"auto {name} = p{position};" if raw else f"auto& {name} = p{position}[i];")
        code = (
            f"{self._preamble}\n"
            f'extern "C" __global__ void {self._name}({", ".join(signature)}, unsigned long long n) {{\n'
            "unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\n"
            + "\n".join(lines)
            + "\n"
            + self._operation
            + ";\n}\n"
        )  # CuPy adds the semicolon too
        count = int(np.prod(shape, dtype=object))
        kernel = host_module.load(code, (self._name,), {}).kernel(self._name)
        if count:
            launched(
                self._name,
                kernel,
                (-(-count // 128),),
                (128,),
                (*(p.__array_interface__["data"][0] for p in pointers), count),
            )
        return args[len(self._in)]


_C_TYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
}


def _parameters(text):
    """[(raw, type, name)] of a parameter list; a type is one upper-case letter or a dtype."""
    found = []
    for part in text.split(","):
        *raw, kind, name = part.split()
        assert raw in ([], ["raw"]) and (re.fullmatch("[A-Z]", kind) or np.dtype(kind))
        found.append((bool(raw), kind, name))
    return found


def _on_device(array):
    return array.view(ndarray)


def module():
    """A module object that replaces `cupy`."""
    fake = types.ModuleType("cupy")
    fake.__version__ = VERSION
    fake.ndarray, fake.RawKernel, fake.ElementwiseKernel = _checked_ndarray, RawKernel, ElementwiseKernel
    fake.uint64 = np.uint64
    fake.empty = lambda shape, dtype=float: _allocated(_on_device(np.empty(shape, dtype)))
    fake.zeros = lambda shape, dtype=float: _allocated(_on_device(np.zeros(shape, dtype)))
    fake.arange = lambda *args: _allocated(_on_device(np.arange(*args)))
    fake.asarray = lambda values: _copied(_allocated(_on_device(np.array(values))))
    fake.asnumpy = lambda array: array.get()
    fake.full = lambda shape, value, dtype: _allocated(_on_device(np.full(shape, value, dtype)))
    fake.ascontiguousarray = _contiguous
    fake.lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: DEVICES,
        getDeviceProperties=lambda i: {"name": b"host memory"},
        runtimeGetVersion=lambda: 0,
        driverGetVersion=lambda: 0,
        getDevice=lambda: thread.device,
        setDevice=set_device,
        memGetInfo=lambda: thread.contexts.add(thread.device),
        pointerGetAttributes=memory_at,
        memoryTypeDevice=2,
        CUDARuntimeError=type("CUDARuntimeError", (RuntimeError,), {}),
    )
    fake.cuda = types.SimpleNamespace(
        Device=Device,
        runtime=runtime,
        Event=Event,
        Stream=Stream,
        get_current_stream=current_stream,
        UnownedMemory=UnownedMemory,
        MemoryPointer=MemoryPointer,
        alloc_pinned_memory=bytearray,
        driver=types.SimpleNamespace(launchKernel=launch_kernel),
    )
    return fake


def _copied(array):
    note("copy", array.nbytes)
    return array


def _contiguous(array):
    return array if array.flags.c_contiguous else _copied(_allocated(_on_device(np.ascontiguousarray(array))))


def _as_strided(array, shape, strides):
    return _on_device(np.lib.stride_tricks.as_strided(array, shape, strides, subok=True))


class UnownedMemory:
    """Memory that belongs to another object, which is kept alive."""

    def __init__(self, ptr, size, owner, device_id):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """A place in memory: no array, though it has some of an array's attributes."""

    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    @property
    def device(self):
        return Device(self.device_id)


MemoryPointer.__module__ = "cupy.cuda.memory"


class _NdarrayMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, ndarray)


class _checked_ndarray(metaclass=_NdarrayMeta):  # noqa: N801 - stands for cupy.ndarray, in isinstance and as a constructor
    def __new__(cls, shape, dtype, memptr=None, strides=None):
        dtype = np.dtype(dtype)
        if memptr is not None:
            return _at(memptr, shape, dtype, strides)
        if dtype.name.startswith(("float8_", "float6_")):
            raise ValueError(f"Unsupported dtype {dtype}")
        return _on_device(np.empty(shape, dtype))


class _Placed:
    """Something that NumPy makes an array of without reading the memory."""

    def __init__(self, memptr, shape, dtype, strides):
        self.memptr = memptr
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{dtype.itemsize}",
            "data": (memptr.ptr, False),
        }


def _at(memptr, shape, dtype, strides):
    placed = (
        np.asarray(_Placed(memptr, shape, dtype, strides)).view(dtype) if 0 not in shape else np.empty(shape, dtype)
    )
    array = _on_device(placed)
    array._device = memptr.device_id
    return array
