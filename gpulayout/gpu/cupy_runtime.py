"""The GPU backend.  Only this module imports CuPy, and it is imported only when a GPU is used.

`cupy.RawKernel` compiles each kernel when a device first needs it, and CuPy caches it on disk.  Every launch goes to
the device of its arrays, on CuPy's current stream there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import cupy  # pyright: ignore[reportMissingImports]
import numpy as np

from gpulayout.gpu.held import Held, Wait
from gpulayout.gpu.index_launch import MAX_OPERANDS, linearize_scalars, linearize_text
from gpulayout.gpu.kernel_numbers import THREADS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.run import CudaBackend
from gpulayout.gpu.runtime import NO_OFFENDER, ArgumentBlocks, Launch, Macros, Start
from gpulayout.memory import dlpack
from gpulayout.memory.foreign_memory import DLPACK, ForeignMemory, cuda_interface_memory, offers
from gpulayout.moves.index_program import IndexProgram

OUT_OF_MEMORY = 2  # CUDA's cudaErrorMemoryAllocation
DEFAULT_STREAM = 1  # the name of stream 0 in DLPack, where 0 has no meaning
_launch_kernel = cupy.cuda.driver.launchKernel
_current_device = cupy.cuda.runtime.getDevice
current_stream = cupy.cuda.get_current_stream
_on_device = cupy.cuda.Device
_kernels: dict[tuple[int, str, Macros], cupy.RawKernel] = {}
_compiling = threading.Lock()


class _Thread(threading.local):
    """The devices whose CUDA context a thread has entered."""

    devices: frozenset[int] = frozenset()


_thread = _Thread()


class CupyRuntime:
    """Compiles kernels with `cupy.RawKernel` and launches them with the driver call beneath it.

    `RawKernel.__call__` would wrap every argument in an object.  Here a launch writes its pointers and makes one call.
    """

    def prepare(self, device: int, launch: Launch) -> Start:
        with _on_device(device):
            # `start` holds the kernel, which keeps its module loaded
            kernel = _compiled(device, launch.file, launch.kernel, launch.macros).kernel
        blocks, (x, y) = ArgumentBlocks(launch.pointers, launch.parameters, launch.operands), launch.grid
        take, new, pack, first, give_back = blocks.take, blocks.new, blocks.pack, blocks.first, blocks.give_back

        def start(*addresses: int) -> None:
            if _current_device() != device:
                with _on_device(device):
                    return start(*addresses)
            if device not in _thread.devices:
                enter_context(device)
            try:
                block = take()
            except IndexError:  # all are in use
                block = new()
            pack(block[0], first, *addresses)
            _launch_kernel(kernel.ptr, x, y, 1, THREADS, 1, 1, 0, current_stream(device).ptr, block[1], 0)
            give_back(block)

        return start

    locate = staticmethod(operator.attrgetter("data.ptr", "data.device_id"))
    stream = staticmethod(current_stream)

    def upload(self, values: np.ndarray, device: int) -> tuple[Any, int]:
        with _on_device(device):
            memory = cupy.asarray(values)
        return memory, memory.data.ptr

    def new_flag(self, device: int) -> tuple[Any, int]:
        with _on_device(device):
            flag = cupy.empty(1, cupy.uint64)
            flag.data.memset_async(0xFF, flag.nbytes)  # NO_OFFENDER has every bit set, so this takes no kernel
        return flag, flag.data.ptr

    def read_flag(self, flag: Any) -> int:
        with flag.device:
            return int(flag.get()[0])


class CupyLane:
    """`Lane` of a GPU: a stream of its own on the current device."""

    def __init__(self, host_bytes: int, device_bytes: int) -> None:
        self.device = cupy.empty(device_bytes, np.uint8)
        self.host = np.frombuffer(_page_locked(host_bytes), np.uint8, host_bytes)
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def running(self) -> contextlib.AbstractContextManager[object]:
        stream: contextlib.AbstractContextManager[object] = self._stream
        return stream

    def upload(self, places: slice) -> None:
        host = self.host[places]
        self.device[places].data.copy_from_host_async(host.ctypes.data, host.nbytes, self._stream)

    def download(self, places: slice) -> None:
        host = self.host[places]
        self.device[places].data.copy_to_host_async(ctypes.c_void_p(host.ctypes.data), host.nbytes, self._stream)

    def wait(self) -> None:
        self._stream.synchronize()

    def __enter__(self) -> CupyLane:
        # CuPy's pool may have given memory that earlier work in the current stream still uses.
        self._stream.wait_event(current_stream().record())
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.wait()
        except Exception:  # a device that failed does no more work, and the first error says more
            if error is None:
                raise


def _page_locked(nbytes: int) -> Any:
    """Memory of the host, from CuPy's pool; MemoryError if there is none left."""
    try:
        return cupy.cuda.alloc_pinned_memory(nbytes)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status != OUT_OF_MEMORY:
            raise
        raise MemoryError(f"{nbytes} bytes of page-locked memory: {error}") from error


class CupyBackend(CudaBackend):
    """The backend of CuPy arrays.  Every operation runs on the device of its arrays."""

    name = "cupy"
    is_one_device = False
    max_operands = MAX_OPERANDS  # of `linearize_broadcast`

    def __init__(self) -> None:
        super().__init__(CupyRuntime())

    def foreign_memory(self, given: object) -> ForeignMemory:
        """DLPack if supported, because it orders the producer's stream before ours.  Otherwise
        `__cuda_array_interface__`, whose stream `adopt` orders before ours.
        """
        if not offers(given, *DLPACK):
            memory = cuda_interface_memory(given)
            return memory._replace(device=_device_of(memory))
        number = dlpack.device_of(given)[1]
        with _on_device(number):
            memory = dlpack.dlpack_memory(
                given, (dlpack.CUDA, dlpack.MANAGED), stream=current_stream().ptr or DEFAULT_STREAM
            )
            return memory._replace(device=_device_of(memory, number))

    def adopt(self, memory: ForeignMemory) -> cupy.ndarray:
        """An array created from the address, because `cupy.asarray` would copy from a device that is not current."""
        if memory.stream is not None and os.environ.get("CUPY_CUDA_ARRAY_INTERFACE_SYNC", "1") != "0":
            with _on_device(memory.device):
                current_stream().wait_event(_stream_at(memory.stream).record())
        owner = memory.owner
        if memory.size and not memory.frees_in_order:
            device = cast(int, memory.device)
            owner = Held(owner, functools.partial(_work_so_far, device, current_stream(device)))
        nbytes = memory.size * memory.dtype.itemsize
        pointer = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.address, nbytes, owner, memory.device), 0)
        return cupy.ndarray(memory.shape, self.held(memory.dtype), pointer, memory.strides)

    def is_capturing(self, device: int) -> bool:
        return bool(current_stream(device).is_capturing())

    def array(
        self, values: object, dtype: np.dtype | None, order: Literal["C", "F"] | None = None, like: Any = None
    ) -> cupy.ndarray:
        host: np.ndarray = np.array(values, cast("Any", dtype), order=cast("Any", order))  # stubs refuse None and str
        with contextlib.nullcontext() if like is None else like.device:
            return cupy.asarray(host.view(self.held(host.dtype)))

    def on_device_of(self, array: cupy.ndarray) -> contextlib.AbstractContextManager[object]:
        device: contextlib.AbstractContextManager[object] = array.device
        return device

    @staticmethod
    @functools.cache
    def held(dtype: np.dtype) -> np.dtype:
        """See `Backend.held`.  CuPy lacks the 8-bit floats, for example."""
        try:
            cupy.ndarray((0,), dtype)
        except (TypeError, ValueError):
            return np.dtype(f"u{dtype.itemsize}")
        return dtype

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Any = None) -> cupy.ndarray:
        """See `Backend.empty`.  CuPy's pool hands out memory in the order of the current stream, which writes it."""
        if like is None or like.data.device_id == _current_device():
            return cupy.empty(shape, dtype)
        with like.device:
            return cupy.empty(shape, dtype)

    def zeros(self, length: int, dtype: np.dtype, align: int) -> cupy.ndarray:
        if align == 1:
            return cupy.zeros(length, dtype)
        room = cupy.zeros(length * dtype.itemsize + align, np.uint8)
        return cupy.ndarray(length, dtype, room.data + -room.data.ptr % align)

    def device(self, array: cupy.ndarray) -> str:
        return f"cuda:{array.data.device_id}"

    def strided(self, array: cupy.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> cupy.ndarray:
        return cupy.lib.stride_tricks.as_strided(array, shape, strides)

    def contiguous(self, array: cupy.ndarray) -> cupy.ndarray:
        if array.flags.c_contiguous:
            return array
        with array.device:
            return cupy.ascontiguousarray(array)

    @contextlib.contextmanager
    def lanes(self, count: int, host_bytes: int, device_bytes: int, like: Any = None) -> Iterator[Sequence[CupyLane]]:
        """See `Backend.lanes`."""
        with contextlib.ExitStack() as entered:
            if like is not None:
                entered.enter_context(like.device)
            if current_stream().is_capturing():
                raise RuntimeError("plan.stream waits for copies: a graph cannot capture it")
            lanes = [CupyLane(host_bytes, device_bytes) for _ in range(count)]
            yield [entered.enter_context(lane) for lane in lanes]

    def linearize_broadcast(
        self, program: IndexProgram, operands: Sequence[cupy.ndarray], result: cupy.ndarray, mode: str
    ) -> int | None:
        """Linearize one index array per dimension.  The arrays broadcast, in one pass and without copies."""
        with result.device:
            if mode == "raise":
                flag, _ = self.runtime.new_flag(result.data.device_id)
            else:  # the kernel never touches its flag, so any memory will do
                flag = cupy.ndarray((1,), cupy.uint64, result.data)
            _broadcast_kernel(program.rank)(*operands, *linearize_scalars(program, mode), result, flag)
        if mode != "raise":
            return None
        offender = self.runtime.read_flag(flag)
        return None if offender == NO_OFFENDER else offender


class _Pointer:
    """A CUDA stream of another library, in the form that CuPy takes."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


@functools.lru_cache(maxsize=64)
def _stream_at(pointer: int) -> Any:
    return cupy.cuda.Stream.from_external(_Pointer(pointer))


@contextlib.contextmanager
def on_stream(device: int, pointer: int) -> Iterator[None]:
    """A context in which work goes to this device, and there to another library's stream."""
    with _on_device(device), _stream_at(pointer):
        yield


def lent(array: cupy.ndarray, finish: Wait) -> cupy.ndarray:
    """The array for a library that does not say in which stream it is done with it.

    When the library drops it, its memory goes back to CuPy's pool after `finish()`, which waits for that library.
    """
    device = array.data.device_id

    def wait() -> None:
        try:
            finish()
        except Exception:
            _on_device(device).synchronize()  # the last resort: it waits for all libraries

    memory = cupy.cuda.UnownedMemory(array.data.ptr, array.nbytes, Held(array, lambda: wait), device)
    return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0), array.strides)


def _work_so_far(device: int, stream: Any) -> Wait | None:
    """A function that waits for the work in a stream up to now; None while a graph is captured, which runs later."""
    if stream.is_capturing():
        return None
    with _on_device(device):
        event = cupy.cuda.Event(block=True, disable_timing=True)
        event.record(stream)

    def wait() -> None:
        cupy.cuda.runtime.setDevice(device)  # or waiting would make a context on device 0
        event.synchronize()

    return wait


def enter_context(device: int) -> None:
    """Enter the context of the current device in this thread.  A runtime call that uses the context enters it; a driver
    call does not.
    """
    cupy.cuda.runtime.memGetInfo()
    _thread.devices |= {device}


def _compiled(device: int, file: str, kernel: str, macros: Macros) -> cupy.RawKernel:
    """A kernel compiled for the current device.  Threads compile one at a time, so none sees an unfinished kernel."""
    key = (device, kernel, macros)
    if key not in _kernels:
        with _compiling:
            if key not in _kernels:
                options = tuple(f"-D{name}={value}" for name, value in macros)
                compiled = cupy.RawKernel(kernel_text(file), kernel, options)
                compiled.compile()
                _kernels[key] = compiled
    return _kernels[key]


@functools.cache
def _broadcast_kernel(rank: int) -> cupy.ElementwiseKernel:
    return cupy.ElementwiseKernel(
        *linearize_text(rank), f"gpl_linearize_broadcast_{rank}", preamble=kernel_text("coordinate.cuh")
    )


def _device_of(memory: ForeignMemory, stated: int | None = None) -> int:
    """The device on which foreign memory is used.  BufferError unless it is CUDA memory, on the stated device."""
    runtime = cupy.cuda.runtime
    current: int = _current_device()
    if not memory.size:  # empty arrays may have no address
        return current
    if current not in _thread.devices:
        enter_context(current)
    attributes = runtime.pointerGetAttributes(memory.address)
    if attributes.devicePointer != memory.address:
        raise BufferError(f"its address {memory.address:#x} is not CUDA memory")
    device: int = attributes.device
    if stated is None or device == stated:
        return device
    if attributes.type != runtime.memoryTypeDevice:  # memory that all devices share
        return stated
    raise BufferError(f"it claims to be on cuda:{stated}, but its address {memory.address:#x} is on cuda:{device}")


def probe() -> str:
    """Compile and run a kernel on the current device and return the device's name.  Raises when anything is wrong."""
    if not cupy.cuda.runtime.getDeviceCount():
        raise RuntimeError("no CUDA device")
    check = cupy.ElementwiseKernel("int64 x", "int64 y", "y = x + 1", "gpl_probe")(cupy.arange(4))
    if check.get().tolist() != [1, 2, 3, 4]:
        raise RuntimeError("a test kernel gave wrong results")
    return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode())


def current_attributes() -> tuple[str, dict[str, Any]] | None:
    """The name and the attributes of the current device, or None if CUDA does not report them."""
    with contextlib.suppress(Exception):
        device = cupy.cuda.Device()
        return str(cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()), dict(device.attributes)
    return None


def versions() -> dict[str, Any]:
    """The versions of CuPy and CUDA, and the devices, as far as CUDA reports them."""
    facts: dict[str, Any] = {"cupy": cupy.__version__}
    with contextlib.suppress(Exception):
        runtime = cupy.cuda.runtime
        facts["cuda_runtime"], facts["cuda_driver"] = runtime.runtimeGetVersion(), runtime.driverGetVersion()
        facts["devices"] = [runtime.getDeviceProperties(i)["name"].decode() for i in range(runtime.getDeviceCount())]
    return facts
