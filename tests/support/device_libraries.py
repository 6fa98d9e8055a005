"""Imitations of PyTorch and JAX over CuPy's devices, with what matters for the order of work: streams and allocators.

Both reuse freed memory at once, in the order of the stream that it was allocated on, as the real ones do.  Tensors also
have the few attributes by which the library tells plain ones from others.
"""

import contextlib
import threading
import types

import ml_dtypes
import numpy as np

from gpulayout.memory import dlpack
from tests.support.foreign import Producer

EXTENDED = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}  # DLPack's codes


class Pointer:
    """A stream as one library passes it to another."""

    def __init__(self, pointer):
        self.pointer = 0 if pointer == 1 else pointer

    def __cuda_stream__(self):
        return 0, self.pointer


class Storage:
    """Memory of an allocator.  It belongs to a stream; `used` holds other streams that use it."""

    def __init__(self, allocator, device, stream, nbytes):
        self.allocator, self.device, self.stream, self.nbytes, self.used = allocator, device, stream, nbytes, set()
        self.memory = allocator.take(device, stream, nbytes)

    def __del__(self):
        self.allocator.give_back(self)


class Allocator:
    """Hands out freed blocks of the same device, stream and size at once, unless another stream still uses them."""

    def __init__(self, cp):
        self.cp, self.free, self.waiting = cp, [], []

    def take(self, *kind):
        done = [entry for entry in self.waiting if all(event.done for event in entry[2])]
        self.waiting = [entry for entry in self.waiting if entry not in done]
        self.free += [entry[:2] for entry in done]
        for entry in self.free:
            if entry[0] == kind:
                self.free.remove(entry)
                return entry[1]
        with self.cp.cuda.Device(kind[0]):
            return self.cp.cuda.memory._malloc(kind[2])

    def give_back(self, storage):
        kind = storage.device, storage.stream, storage.nbytes
        if not storage.used:
            self.free.append((kind, storage.memory))
            return
        with self.cp.cuda.Device(storage.device):
            events = [stream(self.cp, pointer).record() for pointer in storage.used]
        self.waiting.append((kind, storage.memory, events))


def stream(cp, pointer):
    return cp.cuda.Stream.from_external(Pointer(pointer))


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


class dtype:  # noqa: N801 - torch's name
    """One of torch's dtypes."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


dtype.__module__ = "torch"
DTYPES = {
    name: dtype(name) for name in ("uint8", "uint16", "int16", "int32", "int64", "float32", "bfloat16", "float8_e4m3fn")
}


class TorchStream:
    """A stream of torch: its default stream, a new one, or one of another library.  torch's own are never destroyed."""

    all_of_them = []

    def __init__(self, cp, device, pointer=None):
        self.cp, self.device = cp, device
        with cp.cuda.Device(device):
            own = cp.cuda.Stream(non_blocking=True) if pointer is None else stream(cp, pointer)
        self.cupy, self.cuda_stream = own, own.ptr
        self.all_of_them.append(own)

    def wait_stream(self, other):
        with self.cp.cuda.Device(self.device):
            self.cupy.wait_event(other.cupy.record())

    def synchronize(self):
        self.cupy.synchronize()


def torch_module(cp):
    """A module that replaces `torch`."""
    torch, thread, allocator = types.ModuleType("torch"), threading.local(), Allocator(cp)
    default = [TorchStream(cp, device, 0) for device in range(cp.cuda.runtime.getDeviceCount())]

    def current_stream(device=None):
        index = cp.cuda.Device().id if device is None else getattr(device, "index", device)
        return getattr(thread, "current", {}).get(index, default[index])

    @contextlib.contextmanager
    def using(one):
        before = getattr(thread, "current", {})
        thread.current = {**before, one.device: one}
        try:
            yield
        finally:
            thread.current = before

    class Tensor:
        layout, is_nested, requires_grad, flags = "strided", False, False, 0
        is_cpu, is_cuda, is_meta = False, True, False

        def __init__(self, storage, array, kind):
            self.storage, self.array, self.dtype = storage, array, kind
            self.device, self.shape = types.SimpleNamespace(type="cuda", index=storage.device), array.shape

        def __torch_dispatch__(self):
            raise AssertionError

        is_neg = is_conj = is_inference = lambda self: False
        nbytes = property(lambda self: self.array.nbytes)

        def is_contiguous(self):
            return self.array.flags.c_contiguous

        def numel(self):
            return self.array.size

        def element_size(self):
            return self.array.itemsize

        def stride(self):
            return tuple(stride // self.array.itemsize for stride in self.array.strides)

        def storage_offset(self):
            return 0

        def untyped_storage(self):
            return types.SimpleNamespace(nbytes=lambda: self.array.nbytes)

        def data_ptr(self):
            return self.array.data.ptr

        def view(self, kind):
            return Tensor(self.storage, self.array.view(np.dtype(kind.name)), kind)

        def record_stream(self, used):
            if used.cuda_stream != self.storage.stream:
                self.storage.used.add(used.cuda_stream)

        def __dlpack_device__(self):
            return 2, self.device.index

        def __dlpack__(self, *, stream, max_version):
            assert self.device.index == cp.cuda.Device().id, "torch refuses tensors of a device that is not current"
            assert self.dtype.name in ("uint8", "uint16", "int16", "int32", "int64", "float32")
            if Pointer(stream).pointer != current_stream().cuda_stream:
                TorchStream(cp, self.device.index, stream).wait_stream(current_stream())
            producer = Producer(self.array, flags=self.flags)
            producer.keeps = self
            return producer.capsule()

    def empty(*sizes, dtype, device):  # numbers or one tuple of them
        shape, index = sizes[0] if isinstance(sizes[0], tuple) else sizes, device.index
        width = (
            2 if dtype.name == "bfloat16" else 1 if dtype.name.startswith("float8") else np.dtype(dtype.name).itemsize
        )
        held = np.dtype({"bfloat16": "int16", "float8_e4m3fn": "uint8"}.get(dtype.name, dtype.name))
        storage = Storage(allocator, index, current_stream(index).cuda_stream, int(np.prod(shape)) * width)
        with cp.cuda.Device(index):
            return Tensor(storage, cp.ndarray(shape, held, storage.memory), dtype)

    def tensor(values, device=0, kind=None):
        """A tensor with these values, written in the order of the current stream."""
        place = types.SimpleNamespace(index=device)
        made = empty(values.shape, dtype=kind or DTYPES[values.dtype.name], device=place)
        with cp.cuda.Device(device), current_stream(device).cupy:
            made.array[...] = cp.asarray(values)
        return made

    Tensor.__module__ = "torch"
    torch.Tensor, torch.strided, torch.empty, torch.tensor = Tensor, "strided", empty, tensor
    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=current_stream,
        stream=using,
        Stream=lambda device=0: TorchStream(cp, device),
        default_stream=lambda device: default[device.index],
        ExternalStream=lambda pointer, device: TorchStream(cp, device.index, pointer or None),  # as torch reads a 0
    )
    torch._is_functional_tensor = lambda tensor: False
    torch.jit = types.SimpleNamespace(is_tracing=lambda: False)
    torch.nn = types.SimpleNamespace(parameter=types.SimpleNamespace(is_lazy=lambda tensor: False))
    modes = types.SimpleNamespace(FAKE=0, PROXY=1)
    torch._C = types.SimpleNamespace(
        _TorchDispatchModeKey=modes,
        _get_dispatch_mode=lambda mode: None,
        _get_tracing_state=lambda: None,
        _len_torch_dispatch_stack=lambda: 0,
        _len_torch_function_stack=lambda: 0,
    )
    torch.autograd = types.SimpleNamespace(
        graph=types.SimpleNamespace(increment_version=lambda tensor: None),
        forward_ad=types.SimpleNamespace(_current_level=-1),
    )
    for name, kind in DTYPES.items():
        setattr(torch, name, kind)
    return torch


# ---- JAX -------------------------------------------------------------------------------------------------------------


class Array:
    """An array of JAX: memory, and an event after which it holds its values."""

    committed = is_fully_addressable = True

    def __init__(self, device, array, storage, kind):
        self.device, self.array, self.storage, self.dtype = device, array, storage, kind
        self.sharding = types.SimpleNamespace(device_set={device})
        self.ready = device.stream.record()

    def is_deleted(self):
        return False

    def __dlpack_device__(self):
        return 2, self.device.id

    def __dlpack__(self, *, stream, max_version=None):
        self.device.order(stream, self.ready)
        named = {} if self.dtype.type.__module__ == "numpy" else {"code": EXTENDED[self.dtype.name]}
        producer = Producer(self.array, version=None, **named)
        producer.keeps = self.storage
        return producer.capsule()


Array.__module__ = "jax"


class JaxDevice:
    """A device with the stream in which all its kernels run."""

    platform = "gpu"

    def __init__(self, cp, number, allocator):
        self.cp, self.id, self.allocator = cp, number, allocator
        with cp.cuda.Device(number):
            self.stream = cp.cuda.Stream(non_blocking=True)

    def order(self, pointer, event):
        with self.cp.cuda.Device(self.id):
            stream(self.cp, pointer).wait_event(event)

    def compute(self, shape, kind, work):
        """A new array that `work`, given its memory, writes in the order of the kernels."""
        kind = np.dtype(kind)
        with self.cp.cuda.Device(self.id), self.stream:
            storage = Storage(self.allocator, self.id, self.stream.ptr, int(np.prod(shape)) * kind.itemsize)
            array = carried(self.cp, shape, kind, storage.memory)
            work(array)
            return Array(self, array, storage, kind)


def carried(cp, shape, kind, memory):
    """A CuPy array of these elements, or of integers of their width."""
    kind = np.dtype(kind)
    return cp.ndarray(shape, kind if kind.type.__module__ == "numpy" else f"u{kind.itemsize}", memory)


def jax_module(cp):
    """A module that replaces `jax`."""
    jax, allocator = types.ModuleType("jax"), Allocator(cp)
    devices = [JaxDevice(cp, number, allocator) for number in range(cp.cuda.runtime.getDeviceCount())]

    def from_dlpack(given):
        device = devices[given.__dlpack_device__()[1]]
        memory = dlpack.dlpack_memory(given, (2,), stream=device.stream.ptr)
        with cp.cuda.Device(device.id), device.stream:
            borrowed = cp.cuda.UnownedMemory(memory.address, 0, memory.owner, device.id)
            array = carried(cp, memory.shape, memory.dtype, cp.cuda.MemoryPointer(borrowed, 0))
            return Array(device, array, array, memory.dtype)

    def array(values, device=0):
        def work(made):
            made.set(values.view(made.dtype))

        return devices[device].compute(values.shape, values.dtype, work)

    def plus_one(given):
        """A kernel; the array may be dropped before it has run."""

        def work(made):
            devices[given.device.id].stream.wait_event(given.ready)
            made[...] = given.array + 1

        return given.device.compute(given.array.shape, given.dtype, work)

    jax.Array, jax.array, jax.plus_one = Array, array, plus_one
    jax.dlpack = types.SimpleNamespace(from_dlpack=from_dlpack)
    jax.numpy = ml_dtypes
    jax.config = types.SimpleNamespace(jax_enable_x64=True)
    jax.enable_x64 = lambda enabled: contextlib.nullcontext()
    jax.device_put = lambda value, device: array(np.atleast_1d(value), device.id)
    jax.jit = lambda function: lambda given: plus_one(given)
    jax.block_until_ready = lambda given: given.ready.synchronize()
    return jax
