"""Arithmetic on the way, for tensors that a gradient follows: the gradient is scaled and cast back.

Kernels move and compute in one pass.  The gradient takes two or three: moves by kernels, and between them torch's own
product and cast, in the type that the kernels compute in.

A cast to a float type passes gradients straight on, where it rounds and where it saturates too.  So do torch's own
casts, and nothing has to be saved for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpulayout.api.arithmetic import ElementChange
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.frozen import cached_property
from gpulayout.torch.gradients import moved
from gpulayout.torch.moves import TensorMove


@dataclass(frozen=True)
class TensorChange:
    """A call with arithmetic, as three steps.

    before   from the tensor to the logical array, in the source's type; None if it is that already
    change   of each element
    after    from the logical array to the result, in the target's type; None if the array is the result
    """

    before: TensorMove | None
    change: ElementChange
    after: TensorMove | None

    def linear(self, tangent: Any) -> Any:
        """What becomes of a tangent."""
        if self.before is not None:
            tangent = moved(tangent, self.before.linear)
        tangent = self._scaled(tangent, self.change.arithmetic.target)
        return tangent if self.after is None else moved(tangent, self.after.linear)

    def adjoint(self, gradient: Any) -> Any:
        """What becomes of a gradient."""
        if self.after is not None:
            gradient = moved(gradient, self.after.adjoint)
        gradient = self._scaled(gradient, self.change.arithmetic.source)
        return gradient if self.before is None else moved(gradient, self.before.adjoint)

    def _scaled(self, tensor: Any, element_type: ElementType) -> Any:
        """The linear part of the arithmetic, on the logical array."""
        if self._factors:
            tensor = tensor.to(torch_type(self.change.arithmetic.compute))
        for operation, factor, blocks in self._factors:
            factor = _spread(factor.to(tensor.device), blocks, tuple(tensor.shape))
            tensor = tensor * factor if operation == "multiply" else tensor / factor
        return tensor.to(torch_type(element_type))

    @cached_property
    def _factors(self) -> list[tuple[str, Any, tuple[int, ...]]]:
        """What multiplies or divides, in order, each with its blocks."""
        found: list[tuple[str, Any, tuple[int, ...]]] = []
        for operation, number in self.change.arithmetic.steps:
            if number is not None and operation in ("multiply", "divide"):
                parameter = self.change.parameters[number]
                found.append((operation, torch.tensor(parameter.values), parameter.blocks))
        return found


def _spread(factor: Any, blocks: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """A parameter that broadcasts against the array: the numbers of blocks are repeated."""
    for axis, (block, size) in enumerate(zip(blocks, sizes)):
        if block > 1:
            factor = factor.repeat_interleave(block, axis).narrow(axis, 0, size)
    return factor


def torch_type(element_type: ElementType) -> Any:
    """torch's type."""
    return getattr(torch, element_type.dtype.name)


class FollowedChange(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """A call with arithmetic that autograd knows of."""

    @staticmethod
    def forward(ctx: Any, given: Any, made: list[Any], change: TensorChange) -> Any:
        """The result that the call has made, in a list: else torch would take it for an input."""
        ctx.change = change
        ctx.set_materialize_grads(False)
        return made.pop()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None if gradient is None else ctx.change.adjoint(gradient), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        return None if tangent is None else ctx.change.linear(tangent)
