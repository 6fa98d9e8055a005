"""A tensor's bytes as elements of another type, also inside torch.vmap, which not always has a rule for it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from gpulayout.layout.graph_constants import is_compiling


def viewed(tensor: Any, kind: Any) -> Any:
    """The tensor as one of another type of the same width."""
    if is_compiling() or not _is_mapped():
        return tensor.view(kind)
    return _copied_view().apply(tensor, kind)


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
