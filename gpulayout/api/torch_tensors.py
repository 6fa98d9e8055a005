"""PyTorch's tensors: which of them are memory that can be read or written, and results in torch's own memory."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gpulayout.api.backends import gpu_module
from gpulayout.api.not_memory import WORK_THERE, FollowedArray, TracedArray
from gpulayout.cpu.thread_count import thread_count
from gpulayout.layout.element_type import ElementType
from gpulayout.memory.host_arrays import host_array
from gpulayout.moves.backend import AnyArray, Backend

_ON_MEMORY = "this call of gpulayout needs the memory of tensors: call it outside of the compiled function"
_INTEGERS = {1: "uint8", 2: "int16"}  # bytes of an element -> torch's integers of that width


class TorchTensors:
    """See `Library`."""

    def dtype(self, given: Any) -> np.dtype[Any]:
        return _dtype(given.dtype)

    def will_be_written(self, given: Any) -> None:
        """See `Library.will_be_written`.  Autograd may have saved the tensor's values for a gradient."""
        if not given.is_inference():
            _torch().autograd.graph.increment_version(given)

    has_gradients = True

    def is_plainly_followed(self, given: Any) -> bool:
        """See `Library.is_plainly_followed`.  What it does not ask is asked of the tensor's values, when they move."""
        torch = _torch()
        core = torch._C
        return bool(
            type(given) in (torch.Tensor, torch.nn.Parameter)
            and torch.is_grad_enabled()
            and given.layout is torch.strided
            and core._get_tracing_state() is None
            and not core._len_torch_dispatch_stack()
            and core._functorch.peek_interpreter_stack() is None
            and not core._functorch.is_functorch_wrapped_tensor(given)
        )

    def is_followed(self, given: Any) -> bool:
        """See `Library.is_followed`."""
        torch = _torch()
        return _has_gradient(torch, given) or _has_tangent(torch, given)

    def described(self, given: Any) -> Any:
        """See `Library.described`.  Gradients and tangents follow values, so they do not matter here."""
        return given.detach() if given.requires_grad or _torch().autograd.forward_ad._current_level >= 0 else given

    def exported(self, given: Any, role: str, writing: bool) -> Any:
        """See `Library.exported`.  `given.numpy()` would make the memory of the caller's tensor one of fixed size."""
        address = plain_address(given)
        if not address:
            check_memory(given, role)
        dtype = _dtype(given.dtype)
        if given.is_cpu:
            shape, strides = tuple(given.shape), None
            if 1 in shape or not given.is_contiguous():  # an axis of size 1 keeps the stride that torch gives it
                itemsize = dtype.itemsize
                strides = tuple([stride * itemsize for stride in given.stride()])
            return host_array(address or given.data_ptr(), shape, strides, dtype, given)
        given = self.described(given)  # torch's DLPack refuses gradients, also where none is recorded
        if dtype.type.__module__ == "numpy":
            return given
        return given.view(getattr(_torch(), _INTEGERS[dtype.itemsize]))  # older releases export none of these types

    def untraced(self, function: Callable[..., Any], reason: str = _ON_MEMORY) -> Callable[..., Any]:
        """See `Library.untraced`.  torch.compile runs the call as it is; with fullgraph=True it reports the reason."""
        if "torch._dynamo" not in sys.modules:  # importing it is slow
            return function
        torch = _torch()
        if torch.compiler.is_dynamo_compiling():
            torch._dynamo.graph_break(msg=reason)
        if function not in _untraced:
            _untraced[function] = torch.compiler.disable(function)
        return _untraced[function]

    def running_on(self, given: Any) -> contextlib.AbstractContextManager[object] | None:
        """See `Library.running_on`.  torch then reads and writes the same memory in the same order, without waiting."""
        if not given.is_cuda:
            return None
        cuda = _torch().cuda
        if cuda.is_initialized():  # it is not for tensors without memory
            with contextlib.suppress(ImportError):  # to open the tensor will say that CuPy is missing
                stream = cuda.current_stream(given.device).cuda_stream
                context: contextlib.AbstractContextManager[object] = gpu_module().on_stream(given.device.index, stream)
                return context
        return None

    def used_on(self, given: Any, stream: int) -> bool:
        """See `Library.used_on`.  For the stream that the memory was allocated on, torch has nothing to record."""
        cuda = _torch().cuda
        used = cuda.current_stream(given.device)
        if used.cuda_stream != stream:  # then it is CuPy's.  ExternalStream takes 0 for a missing argument
            used = cuda.ExternalStream(stream, device=given.device) if stream else cuda.default_stream(given.device)
        given.record_stream(used)
        return True

    def empty(
        self,
        given: Any,
        backend: Backend,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        like: AnyArray,
        label: np.dtype[Any] | None,
    ) -> tuple[Any, AnyArray | None]:
        """See `Library.empty`.  A type that torch lacks becomes the unsigned integer of its width."""
        torch, kind = _torch(), given.dtype
        own = _dtype(kind)
        if label is None and dtype is not own and dtype != backend.held(own):
            label = dtype
        if label is not None:
            element_type = ElementType.of(label)
            # torch has names for the types below a byte, but cannot compute with them or print them
            kind = None if element_type.is_sub_byte else getattr(torch, label.name, None)
            kind = kind or getattr(torch, element_type.carrier.name)
        sizes = shape or ((),)  # separate numbers, because torch takes longer to read a tuple of them
        made = torch.empty(*sizes, dtype=kind, device=given.device)
        address = _new_address(made)
        if not address and made.numel():
            raise TracedArray(f"the result would be a tensor without memory of its own: {WORK_THERE}")
        return made, host_array(address, shape, None, dtype, made) if type(like) is np.ndarray else None

    def give_back(self, made: Any, given: Any) -> Any:
        return made

    def recognised(self, compiled: Any, given: Any, result: Any) -> TensorCall | None:
        """See `Library.recognised`."""
        if not (given.is_cpu and plain_address(given) and type(result) is _torch().Tensor and plain_address(result)):
            return None
        return TensorCall(compiled, given, result)

    def view(
        self, given: Any, backend: Backend, array: AnyArray, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Any:
        itemsize = array.itemsize
        return given.as_strided(shape, tuple([stride // itemsize for stride in strides]))


class TensorCall:
    """A call on tensors, ready to run again for others of the same type, shape and strides.  See `Prepared.again`."""

    __slots__ = ("_compiled", "_asks", "_kind", "_given", "_result", "_is_dense", "_itemsize", "_bytes")

    def __init__(self, compiled: Any, given: Any, result: Any):
        self._compiled, self._asks = compiled, compiled.describe()["most_threads"] > 1
        self._kind = given.dtype, result.dtype
        self._given = given.shape, given.stride()
        self._result = result.shape, result.stride()
        self._is_dense, self._itemsize = result.is_contiguous(), given.element_size()
        # strides of tensors are never negative
        self._bytes = [_bytes_reached(each) - each.storage_offset() * each.element_size() for each in (given, result)]

    def again(self, source: Any, target: Any) -> Any:
        """See `Prepared.again`."""
        start = _plain_start(source)  # first: while torch records, sizes are tensors
        if not start or source.dtype is not self._kind[0] or (source.shape, source.stride()) != self._given:
            return None
        if source.storage_offset() * self._itemsize + self._bytes[0] > source.untyped_storage().nbytes():
            return None
        if target is not None:
            end = self._opened(start, target)
        else:
            if self._is_dense:  # the usual case, in which torch takes a third less time
                target = source.new_empty(*self._result[0] or ((),), dtype=self._kind[1])
            else:
                target = source.new_empty_strided(*self._result, dtype=self._kind[1])
            end = _new_address(target)
        if not end:
            return None
        self._compiled.run_at(start, end, thread_count() if self._asks else 1)
        return target

    def _opened(self, start: int, target: Any) -> int:
        """The address of a target that passes all checks, and lies in other memory; 0 says nothing."""
        torch = _torch()
        address = plain_address(target) if type(target) is torch.Tensor else 0
        if not address or target.dtype is not self._kind[1] or (target.shape, target.stride()) != self._result:
            return 0
        if address < start + self._bytes[0] and start < address + self._bytes[1]:
            return 0
        _TORCH.will_be_written(target)
        return address


@functools.cache
def _dtype(kind: Any) -> np.dtype[Any]:
    return ElementType.of(kind).dtype


_TORCH = TorchTensors()
_untraced: dict[Callable[..., Any], Callable[..., Any]] = {}  # no cache of functools, about which torch.compile warns


def _torch() -> Any:
    return sys.modules["torch"]


def plain_address(given: Any) -> int:
    """The address of a tensor that passes `check_memory`, the usual case, asked in fewer words; 0 says nothing."""
    address = _plain_start(given)
    return address if address and _bytes_reached(given) <= given.untyped_storage().nbytes() else 0


def _plain_start(given: Any) -> int:
    """The same without a look at the size of its storage."""
    torch = _torch()
    own = torch._C
    if (
        type(given) is not torch.Tensor
        or given.requires_grad
        or given.layout is not torch.strided
        or given.is_conj()
        or given.is_neg()
        or given.is_nested
        or own._get_tracing_state() is not None
        or own._len_torch_dispatch_stack()
        or own._len_torch_function_stack()  # one may put new tensors elsewhere, as `with torch.device("meta")` does
        or torch.autograd.forward_ad._current_level >= 0
        or torch._is_functional_tensor(given)
    ):
        return 0
    try:
        address: int = given.data_ptr()
    except (RuntimeError, ValueError):
        return 0
    return address


def _new_address(made: Any) -> int:
    """The address of a new tensor; 0 inside torch.func, whose new tensors may be no memory."""
    with contextlib.suppress(RuntimeError):
        address: int = made.data_ptr()
        return address
    return 0


def _bytes_reached(given: Any) -> int:
    """Bytes from the beginning of a tensor's storage to the end of its last element."""
    offset: int = given.storage_offset()
    itemsize: int = given.element_size()
    if given.is_contiguous():
        size: int = given.numel()  # torch.compile knows no nbytes of open sizes
        return (offset + size) * itemsize
    last: int = sum([(size - 1) * stride for size, stride in zip(given.shape, given.stride())], offset)
    return (last + 1) * itemsize


def check_memory(given: Any, role: str) -> None:
    """TypeError or BufferError unless the tensor's memory holds its values and nothing else has to know of the call."""
    torch, kind = _torch(), type(given).__name__
    if torch.nn.parameter.is_lazy(given):
        raise TypeError(f"{role} is an {kind}, which has no shape yet: call its module once, which gives it one")
    if given.layout is not torch.strided or given.is_nested:
        layout = "nested" if given.is_nested else str(given.layout).removeprefix("torch.")
        raise BufferError(f"{role} ({kind}) is a {layout} tensor, which is not one array in memory: pass .to_dense()")
    if _is_recording(torch):
        raise TracedArray(
            f"{role} ({kind}) is used while torch records calls, as in torch.jit.trace and make_fx, or makes no "
            f"memory, as in FakeTensorMode: {WORK_THERE}; call this one outside of them, on plain tensors"
        )
    wrapped = type(given).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or (
        torch._is_functional_tensor(given)  # of torch.func.functionalize: its clones are no memory either
    )
    if not wrapped:
        try:
            given.data_ptr()
        except (RuntimeError, ValueError):  # of torch.func, and of parameters without a shape yet
            wrapped = True
    if wrapped:
        raise TracedArray(
            f"{role} is a tensor without memory of its own ({kind}), as inside torch.compile, torch.export and "
            f"torch.func: {WORK_THERE}; call this one outside of them, on plain tensors"
        )
    if _has_gradient(torch, given):
        raise FollowedArray(
            f"{role} ({kind}) requires a gradient, which would not follow its values through the call: pass .detach(), "
            "or call gpulayout inside torch.no_grad()"
        )
    if _has_tangent(torch, given):
        raise FollowedArray(
            f"{role} ({kind}) has a tangent of forward-mode autograd, which would not follow its values through the "
            "call: pass .detach()"
        )
    for bit in ("neg", "conj"):  # torch delays negation and conjugation
        if getattr(given, f"is_{bit}")():
            raise BufferError(
                f"{role} ({kind}) has its {bit} bit set: its memory does not hold its values, pass .resolve_{bit}()"
            )
    if given.device.type == "meta":
        raise TracedArray(f"{role} ({kind}) is on torch's meta device: it has a shape, but no memory; {WORK_THERE}")
    _check_storage(given, f"{role} ({kind})")


def _has_gradient(torch: Any, given: Any) -> bool:
    return bool(given.requires_grad and torch.is_grad_enabled())


def _is_recording(torch: Any) -> bool:
    """True while torch.jit.trace or make_fx records torch's own calls, so not ours, or calls make no memory."""
    modes = torch._C._TorchDispatchModeKey
    return torch.jit.is_tracing() or any(torch._C._get_dispatch_mode(mode) for mode in (modes.FAKE, modes.PROXY))


def _has_tangent(torch: Any, given: Any) -> bool:
    """True if forward-mode autograd follows the tensor, as it does inside torch.no_grad() too."""
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and forward.unpack_dual(given).tangent is not None


def _check_storage(given: Any, name: str) -> None:
    """BufferError unless the tensor's storage has all its elements: it may have been resized."""
    if not given.numel():
        return
    needed, held = _bytes_reached(given), given.untyped_storage().nbytes()
    if held < needed:
        raise BufferError(f"{name} has a storage of {held} bytes, but its shape and strides need {needed}")
    if not given.data_ptr():
        raise BufferError(f"{name} has a shape, but no memory: pass .clone()")
