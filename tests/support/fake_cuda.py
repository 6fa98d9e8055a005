"""The part of the imitation of CuPy that is CUDA's: devices, streams, contexts, and the launch of a kernel.

Misuse that CUDA may leave undetected is an error here: launching a kernel where it was not compiled, on a stream that
is not current, or in a thread that has not entered the device's context.

`calls` lists what reached the device: ("launch", kernel, device, stream), ("allocate", bytes), ("copy", bytes),
("memset", bytes), ("synchronize",), ("set device", number).
"""

import ctypes
import threading
import types
import weakref

import numpy as np

DEVICES = 2
calls = []
before_reading = None  # called by a launch before it reads its arguments, where the real one lets other threads run


class _Thread(threading.local):
    """What CUDA and CuPy keep per thread."""

    def __init__(self):
        self.device, self.contexts = 0, set()
        self.streams = [[Stream.null] for _ in range(DEVICES)]


def note(*call):
    """Record an operation that is about to reach the device."""
    calls.append(call)


_allocations = {}  # {address: (number of bytes, device, weak reference to the array)}


def allocated(array, device):
    """Remember which device an array's memory is on, as long as the memory lives."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    _allocations[array.__array_interface__["data"][0]] = array.nbytes, device, weakref.ref(owner)


def memory_at(address):
    """cudaPointerGetAttributes: memory that belongs to no device has type 0 and `devicePointer` 0."""
    for start, (nbytes, device, owner) in list(_allocations.items()):
        if owner() is None:
            del _allocations[start]
        elif start <= address < start + nbytes:
            return types.SimpleNamespace(type=2, device=device, devicePointer=address)
    return types.SimpleNamespace(type=0, device=-2, devicePointer=0)


class Device:
    """A device number; as a context manager it is the current one."""

    def __init__(self, number=None):
        self.id, self._before = thread.device if number is None else number, []

    def __enter__(self):
        self._before.append(thread.device)
        set_device(self.id)
        return self

    def __exit__(self, *_):
        set_device(self._before.pop())

    def __eq__(self, other):
        return self.id == other.id


def set_device(number):
    assert number in range(DEVICES)
    if number != thread.device:
        note("set device", number)
    thread.device = number


class Stream:
    """A stream of the device that is current when it is made; as a context manager it is current on that device."""

    def __init__(self, ptr=None, non_blocking=False):
        self.device_id = -1 if ptr == 0 else thread.device
        self.ptr = id(self) if ptr is None else ptr

    def __enter__(self):
        thread.streams[thread.device].append(self)
        return self

    def __exit__(self, *_):
        thread.streams[thread.device].pop()

    def synchronize(self):
        note("synchronize")

    def is_capturing(self):
        return False

    @staticmethod
    def from_external(given):
        version, pointer = given.__cuda_stream__()
        stream = Stream(pointer)
        stream.device_id = -1
        return stream

    def record(self):
        return Event(block=True, disable_timing=True)

    def wait_event(self, event):
        assert isinstance(event, Event)


class Event:
    """Everything before it has been done when it is recorded."""

    def __init__(self, block=False, disable_timing=False):
        assert block and disable_timing, "a wait would use a whole core"

    def record(self, stream):
        assert stream.device_id in (-1, thread.device)

    def synchronize(self):
        pass


def launched(name, kernel, *given):
    """Run a kernel; `given` are grid, block and arguments."""
    note("launch", name, thread.device, current_stream().ptr)
    kernel(*given)


Stream.null = Stream(0)
thread = _Thread()


def current_stream(device_id=-1):
    return thread.streams[thread.device if device_id == -1 else device_id][-1]


class Function:
    """A kernel loaded on a device; `ptr` is its handle for launches while the object lives."""

    loaded = weakref.WeakValueDictionary()

    def __init__(self, kernel):
        self.kernel, self.device, self.ptr = kernel, thread.device, id(self)
        Function.loaded[self.ptr] = self


def launch_kernel(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra):
    """cuLaunchKernel: it reads every argument through the array of addresses, and copies it before it returns."""
    function = Function.loaded[f]
    assert function.device == thread.device, "a kernel was launched on a device it was not compiled for"
    assert function.device in thread.contexts, "this thread has not entered the device's context"
    assert stream == current_stream().ptr and (shared_bytes, extra) == (0, 0)
    if before_reading:
        before_reading()
    addresses = (ctypes.c_uint64 * len(function.kernel.parameters)).from_address(parameters)
    raw = [ctypes.string_at(address, size) for address, (_, size) in zip(addresses, function.kernel.parameters)]
    values = [
        part if kind == "s" else int.from_bytes(part, "little")
        for part, (kind, _) in zip(raw, function.kernel.parameters)
    ]
    launched(function.kernel.name, function.kernel, (gx, gy, gz), (bx, by, bz), tuple(values))
