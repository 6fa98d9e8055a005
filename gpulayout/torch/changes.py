"""Arithmetic on the way, for tensors that a gradient follows: the gradient is scaled and cast back.

Kernels move and compute in one pass.  The gradient takes two or three: moves by kernels, and between them torch's own
product and cast, in the type that the kernels compute in.

A cast to a float type passes gradients straight on, where it rounds and where it saturates too.  So do torch's own
casts, and nothing has to be saved for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from gpulayout.api.arithmetic import ElementChange
from gpulayout.layout.element_type import ElementType
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
        for operation, factor in self._factors:
            factor = _spread(factor.to(tensor.device), tuple(tensor.shape))
            tensor = tensor * factor if operation == "multiply" else tensor / factor
        return tensor.to(torch_type(element_type))

    @cached_property
    def _factors(self) -> list[tuple[str, Any]]:
        """What multiplies or divides, in order."""
        steps = self.change.arithmetic.steps
        parameters = self.change.parameters
        return [
            (step.operation, torch.tensor(parameters[step.parameter]))
            for step in steps
            if step.parameter is not None and step.operation in ("multiply", "divide")
        ]


def _spread(factor: Any, sizes: tuple[int, ...]) -> Any:
    """A parameter with one number for each element: those for each block of an axis are repeated."""
    for axis in range(1, factor.ndim + 1):
        if factor.shape[-axis] not in (1, sizes[-axis]):
            factor = factor.repeat_interleave(sizes[-axis] // factor.shape[-axis], -axis)
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
