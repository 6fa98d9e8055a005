"""Lowered steps in the operations of PyTorch and of JAX, with every bit of every element.

Neither keeps all bits of narrow floats in a copy: compilers compute with them as f32, and so change the bits of nans.
Where that can happen, elements move as integers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gpulayout.layout.graph_constants import constant_in_graphs, is_compiling

# Name, sizes or axes, and what fills for a pad: a number for PyTorch, bytes for JAX.  Hashable, also where jax.export
# leaves a size open.
PlainStep = tuple[str, tuple[Any, ...], Any]
PlainSteps = tuple[PlainStep, ...]


def is_torch(array: Any) -> bool:
    """True for a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_jax(array: Any) -> bool:
    """True for an array of JAX, with memory or traced."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
#
# torch.compile looks into these functions.  It can follow loops over plain tuples, and operations on the array.


def run_in_torch(planned: Callable[..., PlainSteps], arguments: tuple[Any, ...], tensor: Any) -> Any:
    """A new contiguous tensor, as from the calls that move memory, also where nothing moves.

    planned   gives the steps for these arguments and `as_integers`.  torch.compile calls it while it traces; it cannot
              follow a call that returns anything but plain tuples.
    """
    torch, kind = sys.modules["torch"], tensor.dtype
    as_integers = moves_as_integers(tensor)
    if as_integers:
        tensor = viewed(tensor, torch.uint8 if kind.itemsize == 1 else torch.int16)
    for name, values, fill in planned(*arguments, as_integers):
        if name == "permute":
            tensor = tensor.permute(values)
        elif name == "reshape":
            tensor = tensor.reshape(values)
        elif name == "slice":
            tensor = tensor[tuple([slice(0, size) for size in values])]
        else:
            ends = [end for size, now in zip(values[::-1], tensor.shape[::-1]) for end in (0, size - now)]
            tensor = torch.constant_pad_nd(tensor, ends, fill)
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    return viewed(tensor, kind) if as_integers else tensor


def moves_as_integers(tensor: Any) -> bool:
    """True for types below a byte, which torch cannot copy, and for narrow floats whose gradients nobody asks for.

    Compilers compute with those as f32, and so change the bits of nans, even in a copy.
    """
    kind = tensor.dtype
    if kind.itemsize == 1 and not kind.is_floating_point and lacks_operations(kind):
        return True
    if kind.itemsize > 2 or not kind.is_floating_point or tensor.requires_grad:
        return False
    torch = sys.modules["torch"]
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    is_transformed = _is_transformed()
    if is_compiling():  # an exported program meets tensors later that may require a gradient
        return not (is_transformed or torch.compiler.is_exporting())
    return not _is_recorded(torch) and not (is_transformed and _requires_grad_within(torch, tensor))


@constant_in_graphs  # torch.compile itself would take the answer None for an object
def _is_transformed() -> bool:
    """True inside of torch.func."""
    return sys.modules["torch"]._C._functorch.peek_interpreter_stack() is not None


def _is_recorded(torch: Any) -> bool:
    """True where torch records calls that run later, also on tensors that require a gradient then."""
    mode = torch._C._TorchDispatchModeKey.PROXY  # of make_fx
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or bool(torch._C._get_dispatch_mode(mode))


def _requires_grad_within(torch: Any, tensor: Any) -> bool:
    """True if a tensor that torch.func wrapped, once or more, requires a gradient: only the innermost may say so."""
    while True:
        if tensor.requires_grad:
            return True
        if torch._is_functional_tensor(tensor):
            tensor = torch._from_functional_tensor(tensor)
        elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        else:
            return False


def viewed(tensor: Any, kind: Any) -> Any:
    """The tensor as one of another type of the same width."""
    if is_compiling() or not _is_mapped():
        return tensor.view(kind)
    return _copied_view().apply(tensor, kind)


def lacks_operations(kind: Any) -> bool:
    """True for types that torch holds and hardly computes with: those below a byte, floats of 8 bits, and unsigned
    integers of 16 bits and more.
    """
    if kind.is_complex or kind.is_floating_point:
        return bool(kind.itemsize == 1)
    torch = sys.modules["torch"]
    return kind not in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def rearranged(tensor: Any, operation: Callable[[Any], Any]) -> Any:
    """What an operation that only moves elements, such as a flip, gives for a tensor of any type."""
    kind = tensor.dtype
    if not lacks_operations(kind) or tensor.requires_grad:
        return operation(tensor)
    return viewed(operation(viewed(tensor, getattr(sys.modules["torch"], f"int{8 * kind.itemsize}"))), kind)


def _is_mapped() -> bool:
    """True inside a torch.vmap that has no rule for views of another type."""
    functorch = sys.modules["torch"]._C._functorch
    interpreter = functorch.peek_interpreter_stack()
    return interpreter is not None and interpreter.key() == functorch.TransformType.Vmap and not _has_rule()


@functools.cache
def _has_rule() -> bool:
    return bool(sys.modules["torch"]._C._dispatch_has_kernel_for_dispatch_key("aten::view.dtype", "FuncTorchBatched"))


@functools.cache
def _copied_view() -> Any:
    """The rule: the axis that is mapped stays where it is."""
    torch = sys.modules["torch"]

    class CopiedView(torch.autograd.Function):  # type: ignore[name-defined, misc]  # torch is not imported here
        @staticmethod
        def forward(tensor: Any, kind: Any) -> Any:
            return tensor.view(kind).clone()

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.mark_non_differentiable(output)

        @staticmethod
        def vmap(info: Any, axes: Any, tensor: Any, kind: Any) -> Any:
            return CopiedView.apply(tensor, kind), axes[0]

    return CopiedView


# ---- JAX -------------------------------------------------------------------------------------------------------------


def run_in_jax(steps: PlainSteps, array: Any) -> Any:
    """The result of the steps.

    XLA computes with floats of 8 bits as f32 where the machine does not know them, and so changes the bits of nans,
    even in a copy.  They move as integers, and their derivatives as numbers.  For bf16 that would change nothing: XLA's
    compiler for CPUs makes numbers of the integers again, and where something fills, all its nans become one.
    """
    if not steps:
        return array
    numpy, kind = sys.modules["jax"].numpy, array.dtype
    is_narrow = kind.itemsize == 1 and numpy.issubdtype(kind, numpy.floating) and numpy.finfo(kind).bits == 8
    return _as_integers(steps)(array) if is_narrow else _run_in_lax(steps, array)


@functools.lru_cache(maxsize=1024)  # JAX keeps what it traced by the function
def _as_integers(steps: PlainSteps) -> Any:
    jax = sys.modules["jax"]

    def moved(array: Any) -> Any:
        integers = jax.lax.bitcast_convert_type(array, "uint8")
        return jax.lax.bitcast_convert_type(_run_in_lax(steps, integers), array.dtype)

    # The derivative of a constant that fills is zero.
    linear = tuple([(name, values, fill and bytes(len(fill))) for name, values, fill in steps])

    def derivative(arrays: Any, tangents: Any) -> Any:
        return function(*arrays), _run_in_lax(linear, tangents[0])

    function = jax.custom_jvp(moved)
    function.defjvp(derivative)
    return function


def _run_in_lax(steps: PlainSteps, array: Any) -> Any:
    lax = sys.modules["jax"].lax
    for name, values, fill in steps:
        if name == "permute":
            array = lax.transpose(array, values)
        elif name == "reshape":
            array = lax.reshape(array, values)
        elif name == "slice":
            array = lax.slice(array, (0,) * len(values), values)
        else:
            ends = [(0, size - now, 0) for size, now in zip(values, array.shape)]
            array = lax.pad(array, np.frombuffer(fill or b"", array.dtype)[0], ends)
    return array
