"""The memory of a tensor: where it begins, how far it reaches, and whether it is plain memory at all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from gpulayout.arrays.torch_tensors import TORCH, check_tensor, plain_address
from gpulayout.layout.checks import type_text
from gpulayout.layout.graph_constants import is_compiling

Call = TypeVar("Call", bound=Callable[..., Any])
PLAIN = torch._C.DisableTorchFunctionSubclass  # a context in which packed tensors are tensors like others


def plainly(function: Call) -> Call:
    """A decorator: torch sees plain tensors inside of the call, and autograd does not look."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # memory that a compiled function was made for would get another layout
            return TORCH.disable_compiler(called)(*args, **kwargs)
        with torch.no_grad(), PLAIN():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def first_byte(tensor: Any) -> int:
    """Where a tensor begins in its storage."""
    return int(tensor.storage_offset() * tensor.element_size())


def bytes_reached(tensor: Any) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if not tensor.numel():
        return 0
    if tensor.is_contiguous():
        return int(tensor.numel() * tensor.element_size())
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((last + 1) * tensor.element_size())


def described(tensor: Any) -> str:
    """A tensor in messages: its dtype and sizes."""
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"


def as_made(tensor: Any) -> Any:
    """A context in which views of a tensor are of inference mode if it is.

    By `tensor.data = view` a tensor becomes one of inference mode, which torch does not change outside of it.
    """
    return torch.inference_mode(tensor.is_inference())


def memory(tensor: Any, capacity: int) -> Any:
    """The bytes from a tensor's first on, as a plain 1-D uint8 tensor."""
    storage, first = tensor.untyped_storage(), first_byte(tensor)
    held = storage.nbytes()
    if held < first + capacity:  # `set_` would make it longer, with any bytes
        raise BufferError(
            f"tensor {described(tensor)} has a storage of {held} bytes, but {first + capacity} are used: it was resized"
        )
    with as_made(tensor):
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, first, (capacity,), (1,))


def written(tensor: Any) -> None:
    """Tell autograd, which may have saved the values for a gradient."""
    TORCH.will_be_written(tensor)


def writes(tensor: Any) -> int | None:
    """How many writes have begun, as torch counts them; None where it does not, in inference mode."""
    return None if tensor.is_inference() else int(tensor._version)


def check_kind(tensor: Any, role: str) -> None:
    """TypeError for what is no tensor of its own: other values, and tensors of which a process has a part."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{role} is {type_text(tensor)}: pass a torch.Tensor")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and hasattr(tensor, "placements"):
        raise TypeError(
            f"{role} is a DTensor, of which this process has a part: pass {role}.to_local(), or pack the tensor before "
            "it is distributed"
        )
    if getattr(tensor, "_is_flat_param", False):
        raise TypeError(
            f"{role} is a flat parameter of FSDP, which has several parameters: pass one of them inside of "
            "FullyShardedDataParallel.summon_full_params(module), or pack the model before it is wrapped"
        )


def check_memory(tensor: Any, role: str) -> None:
    """TypeError or BufferError for a tensor without plain memory of its own."""
    if plain_address(tensor) and not tensor.is_quantized and not getattr(tensor, "_is_flat_param", False):
        return  # most tensors, in half of the time
    check_kind(tensor, role)
    if tensor.is_quantized:
        raise TypeError(f"{role} is a quantised tensor of torch: pass {role}.int_repr(), its codes")
    if tensor.is_meta and not torch.nn.parameter.is_lazy(tensor):
        raise TypeError(
            f"{role} is on the meta device, without memory: model.to_empty(device=...) gives it some, and "
            "gl.torch.load_packed(file, model, assign=True) takes that of a file"
        )
    check_tensor(tensor, role)


def check_changes(tensor: Any, dtype: Any, name: str) -> None:
    """TypeError or BufferError for a tensor that cannot get the dtype and the sizes of another form."""
    if first_byte(tensor) % dtype.itemsize:
        raise BufferError(
            f"tensor {described(tensor)} begins at byte {first_byte(tensor)} of its storage, and {name} is of {dtype}, "
            f"which begins at a multiple of {dtype.itemsize}: pass .clone()"
        )
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise TypeError(
            f"tensor {described(tensor)} was made in torch.inference_mode(), and torch changes it only there: call "
            "gpulayout inside of it, or pass .clone()"
        )
    if tensor.requires_grad and not tensor.is_leaf:
        raise TypeError(f"tensor {described(tensor)} is a result that autograd follows: pass .detach()")
    check_gradient(tensor, dtype, name)
    if tensor.grad is not None:
        raise TypeError(f"tensor {described(tensor)} has a gradient of its plain sizes: set tensor.grad = None first")


def check_gradient(tensor: Any, dtype: Any, name: str) -> None:
    """TypeError for a tensor that requires a gradient, which another dtype has not."""
    if tensor.requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(
            f"tensor {described(tensor)} requires a gradient, and {name} is of {dtype}, which has none: call "
            "tensor.requires_grad_(False) first"
        )
