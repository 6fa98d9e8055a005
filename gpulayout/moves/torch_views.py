"""A tensor's bytes as elements of another type, also inside torch.vmap, which not always has a rule for it.

And what torch can do with elements of most types only if they are seen as integers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from gpulayout.layout.graph_constants import is_compiling


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
