"""JAX's arrays: read where they are, never written to.  Results are given to JAX without a copy."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from typing import Any

import numpy as np

from gpulayout.arrays.library import WORK_THERE, DType, Library, Sizes, TracedArray
from gpulayout.choices.backends import gpu_backend, gpu_module
from gpulayout.layout.checks import counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.memory import dlpack
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.move import span

_SIX_BITS, _ONE_BIT = (ElementType.F6E3M2FN, ElementType.F6E2M3FN), (ElementType.S1, ElementType.U1)
_ALIGNMENT = 64  # bytes: XLA's CPU client copies memory that is aligned to less


class JaxArrays(Library):
    """See `Library`.  jax.grad and jax.jit call functions with tracers, which have no memory.

    XLA cannot be told that a stream uses memory; and JAX hands its memory out in a way that costs more than the checks
    of a call.
    """

    def exported(self, array: Any, role: str, writing: bool) -> Any:
        """See `Library.exported`.  XLA packs the types below a byte, so NumPy gets a copy with one element per byte."""
        if any(base.__name__ == "Tracer" for base in type(array).__mro__):
            raise TracedArray(
                f"{role} is a tracer ({type(array).__name__}), as inside jax.jit, jax.vmap and jax.grad, and has no "
                f"memory: {WORK_THERE}; call this one outside of them, on arrays"
            )
        if writing:
            raise BufferError(f"{role} is read-only: JAX arrays never change")
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{role} holds JAX's random keys: pass jax.random.key_data({role})")
        if array.is_deleted():
            raise BufferError(f"{role} is a JAX array that was deleted or donated")
        devices = len(array.sharding.device_set)
        if devices > 1 or not array.is_fully_addressable:
            raise BufferError(
                f"{role} is a JAX array on {counted(devices, 'device')}: pass each shard, such as "
                f"{role}.addressable_shards[0].data, or the whole array on one device, "
                f"jax.device_put({role}, jax.local_devices()[0])"
            )
        if ElementType.of(array.dtype).is_sub_byte and next(iter(array.sharding.device_set)).platform == "cpu":
            return np.asarray(array)
        return array

    def adopted(self, array: np.ndarray[Any, Any]) -> Any:
        """See `Library.adopted`.  JAX itself takes NumPy's arrays so, but would round 64-bit types to 32 bits."""
        made = sys.modules["jax"].numpy.asarray(array)
        if made.dtype != array.dtype:
            raise TypeError(f"array has dtype {array.dtype}, which JAX has only with jax_enable_x64: set that")
        return made

    def empty(
        self, array: Any, backend: Backend, shape: Sizes, dtype: DType, like: AnyArray, label: DType | None
    ) -> tuple[Any, AnyArray | None]:
        """See `Library.empty`.  Without jax_enable_x64, JAX's indices have 32 bits, and so have those made here."""
        if label is None:
            if dtype == np.int64 and dtype != array.dtype and not sys.modules["jax"].config.jax_enable_x64:
                dtype = np.dtype(np.int32)
            label = self.dtype(array)
        made = _aligned(shape, dtype) if type(like) is np.ndarray else backend.empty(shape, dtype, like)
        if _is_lacked(label):  # JAX gets the codes as bytes
            label = np.dtype(np.uint8)
            return (made.view(label), label), made
        return (made, label), made

    def give_back(self, made: Any, array: Any) -> Any:
        """See `Library.give_back`.  XLA reads memory of CuPy after the current stream.

        But XLA drops memory while kernels that read it may still wait for their turn, since its own memory is reused in
        their stream only.  So CuPy gets the memory back after those kernels.
        """
        jax, device = sys.modules["jax"], next(iter(array.sharding.device_set))
        memory, label = made
        with _wide(memory.dtype):
            if type(memory) is np.ndarray:
                return jax.device_put(memory, device if array.committed else None, may_alias=True)
            backend = gpu_backend()
            lent = gpu_module().lent(memory, functools.partial(_finish, device))
            with backend.on_device_of(memory):  # CuPy may hold integers of the type's width
                return _imported(
                    dlpack.Relabeled(lent, label) if memory.dtype == backend.held(label) != label else lent
                )

    def view(self, array: Any, backend: Backend, opened: AnyArray, shape: Sizes, strides: Sizes) -> Any:
        """See `Library.view`.  JAX keeps arrays without gaps, in any order; LayoutError for others."""
        view = backend.strided(opened, shape, strides)
        if ElementType.of(array.dtype).is_sub_byte:
            raise LayoutError(
                f"array of {array.dtype} has no view, because XLA packs elements below a byte: use gl.unpack to copy it"
            )
        if span([*zip(view.shape, view.strides)], view.itemsize) != (0, view.nbytes):
            raise LayoutError(
                f"array of shape {tuple(view.shape)} with strides {tuple(view.strides)} has gaps, and JAX's arrays "
                "have none: use gl.unpack to copy it"
            )
        dtype = self.dtype(array)
        is_numpys = dtype.type.__module__ == "numpy"
        with _wide(dtype):
            return _imported(view if is_numpys else dlpack.Relabeled(view.view(f"u{dtype.itemsize}"), dtype))


def _wide(dtype: DType) -> contextlib.AbstractContextManager[object]:
    """The context in which JAX takes an array of this type: elsewhere it would round 64-bit types to 32 bits."""
    if dtype.itemsize < 8:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[object] = sys.modules["jax"].enable_x64(True)
    return context


def _is_lacked(dtype: DType) -> bool:
    """Whether JAX lacks an element type: most releases have no floats of 6 bits, and 0.8 no integers of 1 bit."""
    kind = ElementType.of(dtype)
    return kind in _SIX_BITS or kind in _ONE_BIT and not hasattr(sys.modules["jax"].numpy, dtype.name)


def _imported(exporter: Any) -> Any:
    return sys.modules["jax"].dlpack.from_dlpack(exporter)


def _finish(device: Any) -> None:
    """Wait until a device of JAX has done everything it was given: its kernels run one after the other."""
    jax = sys.modules["jax"]
    jax.block_until_ready(jax.jit(_next)(jax.device_put(np.int32(0), device)))


def _next(number: Any) -> Any:
    return number + 1


def _aligned(shape: Sizes, dtype: DType) -> AnyArray:
    """An uninitialised NumPy array in C order whose memory JAX takes without a copy."""
    memory = np.empty(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return np.ndarray(shape, dtype, memory, start)
