"""The GPU backend: the only module that imports CuPy, and it is imported only when a GPU is used.

Kernels are compiled by `cupy.RawKernel` when they are first needed, per device, and cached by CuPy on disk.  Every launch
goes to the array's own device and to CuPy's current stream there.
"""
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from gpulayout.backends.cuda_launch import NO_OFFENDER, CudaBackend, Macros
from gpulayout.backends.elementwise import MAX_OPERANDS, linearize_text
from gpulayout.backends.kernel_source import kernel_text
from gpulayout.model.shape import Shape
from gpulayout.planning.index_plan import MODES, IndexPlan

_kernels: dict[tuple, cupy.RawKernel] = {}
_compiling = threading.Lock()


class CupyRuntime:
    """Launches through `cupy.RawKernel`."""

    def launch(self, like: Any, file: str, kernel: str, macros: Macros, grid: tuple[int, int], arguments: tuple) -> None:
        with like.device:
            # A one-element NumPy array of any dtype is passed by value: the struct travels with the launch.
            values = tuple(np.frombuffer(a, f"V{len(a)}") if isinstance(a, bytes) else a for a in arguments)
            _compiled(like.device.id, file, kernel, macros)(grid, (256,), values)

    def new_flag(self, like: Any) -> tuple[Any, int]:
        with like.device:
            flag = cupy.empty(1, cupy.uint64)
            flag.data.memset_async(0xFF, flag.nbytes)            # every bit set is NO_OFFENDER; no kernel is needed
        return flag, flag.data.ptr

    def read_flag(self, flag: Any) -> int:
        with flag.device:
            return int(flag.get()[0])

    def address(self, array: Any) -> int:
        return array.data.ptr


class CupyBackend(CudaBackend):
    """CuPy arrays; every operation runs on the device its arrays live on."""

    name = "cupy"
    max_operands = MAX_OPERANDS          # index arrays that `linearize_broadcast` takes

    def __init__(self):
        super().__init__(CupyRuntime())

    def adopt(self, foreign: object) -> cupy.ndarray:
        """DLPack first: it orders the producer's stream before ours.  Else `__cuda_array_interface__`."""
        if isinstance(foreign, cupy.ndarray):
            return foreign
        if hasattr(foreign, "__dlpack__"):
            device = foreign.__dlpack_device__()[1]
            with cupy.cuda.Device(device):
                return cupy.from_dlpack(foreign)
        return cupy.asarray(foreign)

    def array(self, values: object, dtype: np.dtype | None, order: str | None = None) -> cupy.ndarray:
        host = np.array(values, dtype, order=order)
        if not _holds(host.dtype):
            host = host.view(f"u{host.itemsize}")
        return cupy.asarray(host)

    def dtype_for(self, shape: Shape) -> np.dtype:
        return shape.dtype if _holds(shape.dtype) else shape.element_type.carrier

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Any = None) -> cupy.ndarray:
        with like.device if like is not None else contextlib.nullcontext():
            return cupy.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> cupy.ndarray:
        return cupy.zeros(shape, dtype)

    def device(self, array: cupy.ndarray) -> str:
        return f"cuda:{array.device.id}"

    def is_writeable(self, array: cupy.ndarray) -> bool:
        return True

    def strided(self, array: cupy.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> cupy.ndarray:
        return cupy.lib.stride_tricks.as_strided(array, shape, strides)

    def contiguous(self, array: cupy.ndarray) -> cupy.ndarray:
        with array.device:
            return cupy.ascontiguousarray(array)

    def linearize_broadcast(self, plan: IndexPlan, operands: Sequence[cupy.ndarray], result: cupy.ndarray, mode: str) -> int | None:
        """`convert` for one index array per dimension: they broadcast, in one pass and without copies."""
        with result.device:
            flag, _ = self.runtime.new_flag(result)
            bounds = {digit.dim: (digit.bound, digit.stride) for digit in plan.digits}
            numbers = [np.uint64(number) for dim in range(plan.rank) for number in bounds[dim]]
            _broadcast_kernel(plan.rank)(*operands, *numbers, np.uint64(MODES[mode]), result, flag)
        if mode != "raise":
            return None
        offender = self.runtime.read_flag(flag)
        return None if offender == NO_OFFENDER else offender


def _compiled(device: int, file: str, kernel: str, macros: Macros) -> cupy.RawKernel:
    """A kernel compiled for the current device; one thread compiles at a time, so that none sees a half-made one."""
    key = (device, kernel, macros)
    found = _kernels.get(key)
    if found is None:
        with _compiling:
            found = _kernels.get(key)
            if found is None:
                found = cupy.RawKernel(kernel_text(file), kernel, tuple(f"-D{name}={value}" for name, value in macros))
                found.compile()
                _kernels[key] = found
    return found


@functools.cache
def _broadcast_kernel(rank: int) -> cupy.ElementwiseKernel:
    return cupy.ElementwiseKernel(*linearize_text(rank), f"gpl_linearize_broadcast_{rank}", preamble=kernel_text("coordinate.cuh"))


@functools.cache
def _holds(dtype: np.dtype) -> bool:
    """True when CuPy has arrays of this dtype: not the 8-bit floats, and bfloat16 only in recent versions."""
    try:
        cupy.ndarray((0,), dtype)
    except (TypeError, ValueError):
        return False
    return True


def probe() -> str:
    """A kernel compiled and run on the current device; its name comes back.  Raises whatever is wrong."""
    count = cupy.cuda.runtime.getDeviceCount()
    if not count:
        raise RuntimeError("no CUDA device")
    check = cupy.ElementwiseKernel("int64 x", "int64 y", "y = x + 1", "gpl_probe")(cupy.arange(4))
    if check.get().tolist() != [1, 2, 3, 4]:
        raise RuntimeError("a test kernel gave wrong results")
    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()


def versions() -> dict[str, Any]:
    """CuPy's and CUDA's versions and the devices, as far as they can be had."""
    found: dict[str, Any] = {"cupy": cupy.__version__}
    with contextlib.suppress(Exception):
        runtime = cupy.cuda.runtime
        found["cuda_runtime"], found["cuda_driver"] = runtime.runtimeGetVersion(), runtime.driverGetVersion()
        found["devices"] = [runtime.getDeviceProperties(i)["name"].decode() for i in range(runtime.getDeviceCount())]
    return found
