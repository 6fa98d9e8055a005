"""Calls on tensors in memory that a gradient or a tangent follows: the kernels of every call, inside of autograd.

A move is linear, so its gradient is a move too, the way back, and so is the gradient of that.  Nothing is saved but the
sizes.
"""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.api.library import FollowedArray, TracedArray
from gpulayout.api.torch_tensors import TorchTensors, check_memory, plain_address
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.torch.moves import TensorMove, TensorRelayout, TensorTranspose
from gpulayout.torch.operators import library


class Followed(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """A move that autograd knows of."""

    @staticmethod
    def forward(ctx: Any, given: Any, move: TensorMove) -> Any:
        ctx.move = move
        ctx.set_materialize_grads(False)
        return _run(given, move)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None if gradient is None else moved(gradient, ctx.move.adjoint), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return None if tangent is None else moved(tangent, ctx.move.linear)


# torch's own `apply` looks whether torch.func is at work: here it is not, and that takes as long as all else of it.
apply_followed = super(torch.autograd.Function, Followed).apply


def moved(tensor: Any, move: TensorMove) -> Any:
    """The result of a move on any tensor: in memory or traced, followed or not."""
    if is_compiling():  # compiled autograd
        return move.lowered(tensor)
    if not plain_address(tensor):
        try:
            check_memory(tensor, "gradient")
        except TracedArray:
            return move.lowered(tensor)
        except FollowedArray:
            return Followed.apply(tensor, move)
        except BufferError:  # bits that delay values: torch gives the operator the values
            return _by_operator(tensor, move)
    return _run(tensor, move)


def _run(tensor: Any, move: TensorMove) -> Any:
    """The result for a tensor in memory.

    By the operator if a mode or the profiler looks at calls: torch's dispatcher takes half as long as a small move.
    """
    if torch._C._len_torch_dispatch_stack() or torch.autograd._profiler_enabled():
        return _by_operator(tensor, move)
    return move.run(tensor)


def _by_operator(tensor: Any, move: TensorMove) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return move.by_operator(tensor)


# ---- the operators, called by their names ----------------------------------------------------------------------------


def _relayout(given: Any, source: str, target: str, sizes: Any) -> Any:
    return _called(given, TensorRelayout(as_shape(source), as_shape(target), tuple(given.shape), tuple(sizes)))


def _transpose(given: Any, split: Any, order: Any, sizes: Any) -> Any:
    return _called(given, TensorTranspose(tuple(given.shape), tuple(split), tuple(order), tuple(sizes)))


def _called(given: Any, move: TensorMove) -> Any:
    if _TORCH.is_followed(given):
        return Followed.apply(given, move)
    return _by_operator(given, move)


_TORCH = TorchTensors()

library.impl("relayout", _relayout, "Autograd")
library.impl("transpose", _transpose, "Autograd")
