"""A stand-in for CuPy whose device is this machine's memory, so that cupy_backend.py itself runs without a GPU.

It takes only what CuPy takes: integers and one-element NumPy arrays as kernel arguments, options of the form -DNAME=NUMBER,
one upper-case letter as a type parameter.  Kernels run on the host shim.  `DEVICES` devices exist; an array belongs to
one, and launching on an array of a device that is not current is an error here, as it would be a fault there.
"""
import ctypes
import re
import types

import numpy as np

from tests.simt import host_module

DEVICES = 2
_current = [0]


class ndarray(np.ndarray):     # noqa: N801 - CuPy's name
    """NumPy memory with CuPy's `device`, `data.ptr` and `get`."""

    __array_priority__ = 10
    _device = 0

    def __array_finalize__(self, origin):
        self._device = getattr(origin, "_device", _current[-1])

    @property
    def device(self):
        return Device(self._device)

    @property
    def data(self):
        address = self.__array_interface__["data"][0]
        return types.SimpleNamespace(ptr=address, memset_async=lambda value, size: ctypes.memset(address, value, size))

    def get(self):
        return np.array(self.view(np.ndarray))


ndarray.__module__ = "cupy"


class Device:
    """A device number; as a context manager it is the current one."""

    def __init__(self, number=None):
        self.id = _current[-1] if number is None else number

    def __enter__(self):
        _current.append(self.id)
        return self

    def __exit__(self, *_):
        _current.pop()

    def __eq__(self, other):
        return self.id == other.id


class RawKernel:
    """Compiles with the host compiler and launches through the shim, checking arguments as CuPy's launch would."""

    compiled = []

    def __init__(self, code, name, options=()):
        assert isinstance(options, tuple) and "#include" not in code
        macros = dict(re.fullmatch(r"-D([A-Z_]+)=(\d+)", option).groups() for option in options)
        self.device = _current[-1]
        self._kernel = host_module.load(code, (name,), {key: int(value) for key, value in macros.items()}).kernel(name)

    def compile(self):
        RawKernel.compiled.append(self.device)

    def __call__(self, grid, block, args):
        assert self.device == _current[-1], "a kernel was launched on a device it was not compiled for"
        assert isinstance(grid, tuple) and isinstance(block, tuple) and isinstance(args, tuple)
        self._kernel(grid, block, tuple(map(_by_value, args)))


class ElementwiseKernel:
    """The operation in a loop over all elements, written as CuPy writes it and run by the shim."""

    def __init__(self, in_params, out_params, operation, name="kernel", preamble=""):
        self._in, self._out = (_parameters(text) for text in (in_params, out_params))
        self._operation, self._name, self._preamble = operation, name, preamble

    def __call__(self, *args):
        if len(args) == len(self._in):                        # CuPy makes the outputs then
            args = (*args, *(_on_device(np.empty(np.broadcast_shapes(*map(np.shape, args)), kind)) for _, kind, _ in self._out))
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
        code = (f"{self._preamble}\nextern \"C\" __global__ void {self._name}({', '.join(signature)}, unsigned long long n) {{\n"
                "unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\n"
                + "\n".join(lines) + "\n" + self._operation + ";\n}\n")           # CuPy adds the semicolon too
        count = int(np.prod(shape, dtype=object))
        kernel = host_module.load(code, (self._name,), {}).kernel(self._name)
        if count:
            kernel((-(-count // 128),), (128,), (*(p.__array_interface__["data"][0] for p in pointers), count))
        return args[len(self._in)]


_C_TYPES = {"int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short", "int32": "int",
            "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long"}


def _parameters(text):
    """[(raw, type, name)] of a parameter list; a type is one upper-case letter or a dtype."""
    found = []
    for part in text.split(","):
        *raw, kind, name = part.split()
        assert raw in ([], ["raw"]) and (re.fullmatch("[A-Z]", kind) or np.dtype(kind))
        found.append((bool(raw), kind, name))
    return found


def _by_value(argument):
    if isinstance(argument, np.ndarray) and not isinstance(argument, ndarray):
        assert argument.size == 1, "CuPy passes only one-element NumPy arrays by value"
        return argument.tobytes()
    assert type(argument) is int, f"unexpected kernel argument {type(argument).__name__}"
    return argument


def _on_device(array):
    return array.view(ndarray)


def module():
    """A module object to put in the place of `cupy`."""
    fake = types.ModuleType("cupy")
    fake.__version__ = "fake"
    fake.ndarray, fake.RawKernel, fake.ElementwiseKernel = _checked_ndarray, RawKernel, ElementwiseKernel
    fake.uint64 = np.uint64
    fake.empty = lambda shape, dtype=float: _on_device(np.empty(shape, dtype))
    fake.zeros = lambda shape, dtype=float: _on_device(np.zeros(shape, dtype))
    fake.arange = lambda *args: _on_device(np.arange(*args))
    fake.asarray = lambda values: _on_device(np.array(values))
    fake.ascontiguousarray = lambda array: _on_device(np.ascontiguousarray(array))
    fake.from_dlpack = lambda foreign: _on_device(np.from_dlpack(foreign))
    fake.lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))
    runtime = types.SimpleNamespace(getDeviceCount=lambda: DEVICES, getDeviceProperties=lambda i: {"name": b"host memory"},
                                    runtimeGetVersion=lambda: 0, driverGetVersion=lambda: 0)
    fake.cuda = types.SimpleNamespace(Device=Device, runtime=runtime)
    return fake


def _as_strided(array, shape, strides):
    return _on_device(np.lib.stride_tricks.as_strided(array, shape, strides, subok=True))


class _NdarrayMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, ndarray)


class _checked_ndarray(metaclass=_NdarrayMeta):      # noqa: N801 - stands for cupy.ndarray, in isinstance and as a constructor
    def __new__(cls, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype.name.startswith("float8") or dtype.name.startswith("float6"):
            raise ValueError(f"Unsupported dtype {dtype}")
        return _on_device(np.empty(shape, dtype))
