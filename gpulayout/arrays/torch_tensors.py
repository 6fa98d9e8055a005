"""PyTorch's tensors: which of them are memory that can be read or written, and results in torch's own memory."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays.library import WORK_THERE, DType, Library, RequiresGrad, Sizes, TracedArray, dtype_of
from gpulayout.choices.backends import gpu_module
from gpulayout.cpu import native
from gpulayout.layout.element_type import FLOAT4_X2, ElementType
from gpulayout.memory.foreign_memory import host_array
from gpulayout.moves.backend import Again, AnyArray, Backend, Make
from gpulayout.moves.move import span

_ON_MEMORY = "this call of gpulayout needs the memory of tensors: call it outside of the compiled function"
_INTEGERS = {1: "uint8", 2: "int16"}  # bytes of an element -> torch's integers of that width


class TorchTensors(Library):
    """See `Library`."""

    def will_be_written(self, tensor: Any) -> None:
        """See `Library.will_be_written`.  Autograd may have saved the tensor's values for a gradient."""
        if not tensor.is_inference():
            _torch().autograd.graph.increment_version(tensor)

    def plainly_requires_grad(self, tensor: Any) -> bool:
        """See `Library.plainly_requires_grad`.  The rest is asked of the tensor's values, when they move."""
        if not tensor.requires_grad:
            return False
        torch = _torch()
        core = torch._C
        return bool(
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and not tensor.is_meta
            and torch.is_grad_enabled()
            and tensor.layout is torch.strided
            and core._get_tracing_state() is None
            and not core._len_torch_dispatch_stack()
            and core._functorch.peek_interpreter_stack() is None
            and not core._functorch.is_functorch_wrapped_tensor(tensor)
        )

    def requires_grad(self, tensor: Any) -> bool:
        torch = _torch()
        return _has_gradient(torch, tensor) or _has_tangent(torch, tensor)

    def described(self, tensor: Any) -> Any:
        """See `Library.described`.  Gradients and tangents follow values, so they do not matter here."""
        return tensor.detach() if tensor.requires_grad or _torch().autograd.forward_ad._current_level >= 0 else tensor

    def exported(self, tensor: Any, role: str, writing: bool) -> Any:
        """See `Library.exported`.  `tensor.numpy()` would make the memory of the caller's tensor one of fixed size."""
        address = plain_address(tensor)
        if not address:
            check_tensor(tensor, role)
        dtype = self.dtype(tensor)
        if tensor.is_cpu:
            shape, strides = tuple(tensor.shape), None
            if 1 in shape or not tensor.is_contiguous():  # an axis of size 1 keeps the stride that torch gives it
                itemsize = dtype.itemsize
                strides = tuple([stride * itemsize for stride in tensor.stride()])
            # Not the tensor, to which another thread or a handler may give another storage while this one moves.
            storage = tensor.untyped_storage()
            address = address or tensor.data_ptr()
            array = host_array(address, shape, strides, dtype, storage)
            if array.size:
                _check_held(storage, array, address, role)
            return array
        tensor = self.described(tensor)  # torch's DLPack refuses gradients, also where none is recorded
        if dtype.type.__module__ == "numpy" and dtype != FLOAT4_X2:
            return tensor
        return tensor.view(getattr(_torch(), _INTEGERS[dtype.itemsize]))  # older releases export none of these types

    def disable_compiler(self, function: Callable[..., Any], reason: str = _ON_MEMORY) -> Callable[..., Any]:
        """See `Library.disable_compiler`.  With fullgraph=True, torch.compile reports the reason."""
        if "torch._dynamo" not in sys.modules:  # importing it is slow
            return function
        torch = _torch()
        if torch.compiler.is_dynamo_compiling():
            torch._dynamo.graph_break(msg=reason)
        if function not in _disabled:
            _disabled[function] = torch.compiler.disable(function)
        return _disabled[function]

    def running_on(self, tensor: Any) -> contextlib.AbstractContextManager[object] | None:
        """See `Library.running_on`.  torch then reads and writes the same memory in the same order, without waiting."""
        if not tensor.is_cuda:
            return None
        cuda = _torch().cuda
        if cuda.is_initialized():  # it is not for tensors without memory
            with contextlib.suppress(ImportError):  # to open the tensor will say that CuPy is missing
                stream = cuda.current_stream(tensor.device).cuda_stream
                context: contextlib.AbstractContextManager[object] = gpu_module().on_stream(tensor.device.index, stream)
                return context
        return None

    def used_on(self, tensor: Any, stream: int) -> bool:
        """See `Library.used_on`.  For the stream that the memory was allocated on, torch has nothing to record."""
        cuda = _torch().cuda
        used = cuda.current_stream(tensor.device)
        if used.cuda_stream != stream:  # then it is CuPy's.  ExternalStream takes 0 for a missing argument
            used = cuda.ExternalStream(stream, device=tensor.device) if stream else cuda.default_stream(tensor.device)
        tensor.record_stream(used)
        return True

    def empty(
        self, tensor: Any, backend: Backend, shape: Sizes, dtype: DType, like: AnyArray, label: DType | None
    ) -> tuple[Any, AnyArray | None]:
        """See `Library.empty`.  A type that torch lacks becomes the unsigned integer of its width."""
        torch, kind = _torch(), tensor.dtype
        own = self.dtype(tensor)
        is_pairs = own == FLOAT4_X2 and dtype == np.uint8  # a buffer of two elements in a byte gives another
        if label is None and dtype is not own and dtype != backend.held(own) and not is_pairs:
            label = dtype
        if label is not None:
            element_type = ElementType.of(label)
            # torch has names for the types below a byte, but cannot compute with them or print them
            kind = None if element_type.is_sub_byte else getattr(torch, label.name, None)
            kind = kind or getattr(torch, element_type.carrier.name)
        sizes = shape or ((),)  # separate numbers, because torch takes longer to read a tuple of them
        made = torch.empty(*sizes, dtype=kind, device=tensor.device)
        address = _address(made)
        if not address and made.numel():
            raise TracedArray(f"the result would be a tensor without memory of its own: {WORK_THERE}")
        return made, host_array(address, shape, None, dtype, made) if type(like) is np.ndarray else None

    def again(self, known_call: Any, tensor: Any, result: Any, is_new: bool) -> Again | None:
        torch = _torch()
        tensors = plain_memory(torch).tensors
        if tensors is None or type(tensor) is not torch.Tensor or type(result) is not torch.Tensor:
            return None
        kinds = tensor.dtype, result.dtype
        if FLOAT4_X2 in map(dtype_of, kinds) or any(ElementType.of(kind).is_sub_byte for kind in kinds):
            return None
        # Separate numbers, because torch takes longer to read a tuple of them; no mode is there to choose a device.
        make = Make(torch.empty, tuple(result.shape) or ((),), {"dtype": result.dtype}) if is_new else None
        again: Again | None = known_call(tensor, result, make, tensors, None if is_new else self.will_be_written)
        if again is None or not {torch.uint8, torch.int8} & {*kinds}:
            return again
        known = again  # the engine cannot tell a byte from torch's types below one

        def again_on_bytes(tensor: Any, out: Any) -> Any:
            return known(tensor, out) if (tensor.dtype, kinds[1] if out is None else out.dtype) == kinds else None

        return again_on_bytes

    def part_of(self, tensor: Any, other: Any, length: int, places: slice) -> Any:
        torch = _torch()
        if type(tensor) is not torch.Tensor or tensor.shape != (length,) or not plain_memory(torch).asks(tensor):
            return None
        first, itemsize = _address(tensor), tensor.element_size()
        if not first or not tensor.is_contiguous():
            return None
        if (tensor.storage_offset() + length) * itemsize > tensor.untyped_storage().nbytes():
            return None
        if other is not None:  # two storages may be the same memory
            there = _address(other)
            if not there or (there < first + length * itemsize and first < there + _bytes_reached(other, 0)):
                return None
        return tensor[places]

    def view(self, tensor: Any, backend: Backend, opened: AnyArray, shape: Sizes, strides: Sizes) -> Any:
        return tensor.as_strided(shape, tuple([stride // opened.itemsize for stride in strides]))


TORCH = TorchTensors()  # it has no state


_disabled: dict[Callable[..., Any], Callable[..., Any]] = {}  # no cache of functools, about which torch.compile warns


def _torch() -> Any:
    return sys.modules["torch"]


def plain_address(tensor: Any) -> int:
    """The address of a tensor that passes `check_tensor`, the usual case, asked in fewer words; 0 says nothing."""
    torch = _torch()
    if type(tensor) is not torch.Tensor or not plain_memory(torch).asks(tensor):
        return 0
    address = _address(tensor)
    return address if address and _bytes_reached(tensor) <= tensor.untyped_storage().nbytes() else 0


class PlainMemory(NamedTuple):
    """How tensors are asked whether they are plain memory.

    questions   (function, its arguments or None for the tensor, answer); they say no more than `check_tensor` does
    tensors     the engine's `Tensors`, which asks them; None without it, and for releases of torch before 2.9
    """

    questions: Sequence[tuple[Callable[..., Any], tuple[Any, ...] | None, Any]]
    tensors: Any

    def asks(self, tensor: Any) -> bool:
        """True if the answers are those of plain memory."""
        if self.tensors is not None:
            return bool(self.tensors.are_plain(tensor))
        return all(
            function(*((tensor,) if arguments is None else arguments)) == answer
            for function, arguments, answer in self.questions
        )


@functools.cache
def plain_memory(torch: Any) -> PlainMemory:
    """The questions to tensors of a `torch`."""
    core = torch._C
    questions = (
        (operator.attrgetter("requires_grad"), None, False),
        (operator.attrgetter("layout"), None, torch.strided),
        (operator.attrgetter("is_nested"), None, False),
        (torch.Tensor.is_conj, None, False),
        (torch.Tensor.is_neg, None, False),
        (torch._is_functional_tensor, None, False),
        (core._get_tracing_state, (), None),
        (core._len_torch_dispatch_stack, (), 0),
        (core._len_torch_function_stack, (), 0),  # `with torch.device("meta")` puts new tensors elsewhere
        (operator.attrgetter("_current_level"), (torch.autograd.forward_ad,), -1),
    )
    engine, exchange = native.module(), getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    return PlainMemory(questions, engine.Tensors(exchange, questions) if engine and exchange else None)


def _address(tensor: Any) -> int:
    """The address of a tensor; 0 if it is no memory, as wrapped tensors and new ones inside torch.func may be."""
    try:
        address: int = tensor.data_ptr()
    except (RuntimeError, ValueError):
        return 0
    return address


def _bytes_reached(tensor: Any, offset: int | None = None) -> int:
    """Bytes from the beginning of a tensor's storage to the end of its last element, or so many elements before it."""
    offset = tensor.storage_offset() if offset is None else offset
    itemsize: int = tensor.element_size()
    if tensor.is_contiguous():
        size: int = tensor.numel()  # torch.compile knows no nbytes of open sizes
        return (offset + size) * itemsize
    last: int = sum([(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())], offset)
    return (last + 1) * itemsize


def check_tensor(tensor: Any, role: str) -> None:
    """TypeError or BufferError unless the tensor's memory holds its values and nothing else has to know of the call."""
    torch, kind = _torch(), type(tensor).__name__
    if torch.nn.parameter.is_lazy(tensor):
        raise TypeError(f"{role} is an {kind}, which has no shape yet: call its module once, which gives it one")
    if tensor.is_nested:
        raise BufferError(
            f"{role} ({kind}) is a nested tensor, which is not one array: pass each of .unbind(), or "
            ".to_padded_tensor(0)"
        )
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        raise BufferError(f"{role} ({kind}) is a {layout} tensor, which is not one array in memory: pass .to_dense()")
    if _is_recording(torch):
        raise TracedArray(
            f"{role} ({kind}) is used while torch records calls, as in torch.jit.trace and make_fx, or makes no "
            f"memory, as in FakeTensorMode: {WORK_THERE}; call this one outside of them, on plain tensors"
        )
    wrapped = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or (
        torch._is_functional_tensor(tensor)  # of torch.func.functionalize: its clones are no memory either
    )
    if not wrapped:
        try:
            tensor.data_ptr()
        except (RuntimeError, ValueError):  # of torch.func, and of parameters without a shape yet
            wrapped = True
    if wrapped:
        raise TracedArray(
            f"{role} is a tensor without memory of its own ({kind}), as inside torch.compile, torch.export and "
            f"torch.func: {WORK_THERE}; call this one outside of them, on plain tensors"
        )
    if tensor.is_meta:
        raise TracedArray(f"{role} ({kind}) is on torch's meta device: it has a shape, but no memory; {WORK_THERE}")
    _check_not_followed(torch, tensor, f"{role} ({kind})")
    for bit in ("neg", "conj"):  # torch delays negation and conjugation
        if getattr(tensor, f"is_{bit}")():
            raise BufferError(
                f"{role} ({kind}) has its {bit} bit set: its memory does not hold its values, pass .resolve_{bit}()"
            )
    _check_storage(tensor, f"{role} ({kind})")


def _check_not_followed(torch: Any, tensor: Any, name: str) -> None:
    """RequiresGrad for a tensor with a gradient or a tangent."""
    if _has_gradient(torch, tensor):
        raise RequiresGrad(
            f"{name} requires a gradient, which would not follow its values through the call: pass .detach(), or call "
            "gpulayout inside torch.no_grad()"
        )
    if _has_tangent(torch, tensor):
        raise RequiresGrad(
            f"{name} has a tangent of forward-mode autograd, which would not follow its values through the call: pass "
            ".detach()"
        )


def _has_gradient(torch: Any, tensor: Any) -> bool:
    return bool(tensor.requires_grad and torch.is_grad_enabled())


def _is_recording(torch: Any) -> bool:
    """True while torch.jit.trace or make_fx records torch's own calls, so not ours, or calls make no memory."""
    modes = torch._C._TorchDispatchModeKey
    return torch.jit.is_tracing() or any(torch._C._get_dispatch_mode(mode) for mode in (modes.FAKE, modes.PROXY))


def _has_tangent(torch: Any, tensor: Any) -> bool:
    """True if forward-mode autograd follows the tensor, as it does inside torch.no_grad() too."""
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and forward.unpack_dual(tensor).tangent is not None


def _check_held(storage: Any, array: np.ndarray[Any, Any], address: int, role: str) -> None:
    """BufferError unless all of an array is in the storage that keeps its memory."""
    first, reach = storage.data_ptr(), array.nbytes
    if not array.flags.c_contiguous:  # else its size says the same, in a tenth of the time
        reach = span([*zip(array.shape, array.strides)], array.itemsize)[1]
    if not first <= address <= first + storage.nbytes() - reach:
        raise BufferError(f"{role} was given other memory by another thread while it was opened")


def _check_storage(tensor: Any, name: str) -> None:
    """BufferError unless the tensor's storage has all its elements: it may have been resized."""
    if not tensor.numel():
        return
    needed, held = _bytes_reached(tensor), tensor.untyped_storage().nbytes()
    if held < needed:
        raise BufferError(f"{name} has a storage of {held} bytes, but its shape and strides need {needed}")
    if not tensor.data_ptr():
        raise BufferError(f"{name} has a shape, but no memory: pass .clone()")
