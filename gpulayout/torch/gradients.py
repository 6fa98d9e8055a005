"""Calls on tensors that require a gradient or have a tangent: the kernels of every call, inside of autograd.

A move is linear, so its gradient is a move too, the way back, and so is the gradient of that.  Nothing is saved but the
sizes.

With arithmetic on the way, kernels move and compute in one pass.  The gradient takes two or three: moves by kernels,
and between them torch's own product and cast, in the type that the kernels compute in.  A cast to a float type passes
gradients straight on, where it rounds and where it saturates too.  So do torch's own casts, and nothing has to be saved
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpulayout.arrays import arrays
from gpulayout.arrays.library import RequiresGrad, TracedArray
from gpulayout.arrays.torch_tensors import TORCH, check_tensor, plain_address
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.requests.reading import Call
from gpulayout.running.kept import Kept
from gpulayout.running.request import Request, request_of
from gpulayout.running.running import call_key, run
from gpulayout.torch.moves import (
    TensorMove,
    TensorRelayout,
    TensorTranspose,
    called_relayout,
    called_transpose,
    library,
    row_major,
)
from gpulayout.traced.traced import check_no_box, traced


class MoveFunction(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """A move that autograd knows of."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, move: TensorMove) -> Any:
        ctx.move = move
        ctx.set_materialize_grads(False)
        return _run(tensor, move)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None if gradient is None else moved(gradient, ctx.move.adjoint), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return None if tangent is None else moved(tangent, ctx.move.linear)


# torch's own `apply` looks whether torch.func is at work: here it is not, and that takes as long as all else of it.
apply_move = super(torch.autograd.Function, MoveFunction).apply


def moved(tensor: Any, move: TensorMove) -> Any:
    """The result of a move on any tensor: in memory or traced, with a gradient or without."""
    if is_compiling():  # compiled autograd
        return move.lowered(tensor)
    if not plain_address(tensor):
        try:
            check_tensor(tensor, "gradient")
        except TracedArray:
            return move.lowered(tensor)
        except RequiresGrad:
            return MoveFunction.apply(_resolved(tensor), move)
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


def _called(tensor: Any, move: TensorMove) -> Any:
    """The result of an operator that was called by its name."""
    if torch._C._are_functorch_transforms_active():
        return move.lowered(tensor)
    if TORCH.requires_grad(tensor):
        return MoveFunction.apply(_resolved(tensor), move)
    return _by_operator(tensor, move)


def _resolved(tensor: Any) -> Any:
    """The tensor without bits that delay its values, as the gradient of a product of complex numbers may have."""
    return tensor.resolve_conj().resolve_neg()


library.impl("relayout", lambda *call: _called(call[0], called_relayout(*call)), "Autograd")
library.impl("transpose", lambda *call: _called(call[0], called_transpose(*call)), "Autograd")


# ---- with arithmetic -------------------------------------------------------------------------------------------------


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
        """The linear part of the arithmetic, on the logical array.

        The factors become tensors anew each time: those made inside of a mode of torch belong to it.
        """
        arithmetic = self.change.arithmetic
        factors = [step for step in arithmetic.steps if step.operation in ("multiply", "divide")]
        if factors:
            tensor = tensor.to(_torch_type(arithmetic.compute))
        for operation, number in factors:
            assert number is not None
            parameter = self.change.parameters[number]
            factor = torch.tensor(parameter.values, device=tensor.device)
            factor = _spread(factor, parameter.blocks, tuple(tensor.shape))
            tensor = tensor * factor if operation == "multiply" else tensor / factor
        return tensor.to(_torch_type(element_type))


def _spread(factor: Any, blocks: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """A parameter that broadcasts against the array: the numbers of blocks are repeated."""
    for axis, (block, size) in enumerate(zip(blocks, sizes)):
        if block > 1:
            factor = factor.repeat_interleave(block, axis).narrow(axis, 0, size)
    return factor


def _torch_type(element_type: ElementType) -> Any:
    return getattr(torch, element_type.dtype.name)


class ChangeFunction(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """A call with arithmetic that autograd knows of."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, made: list[Any], change: TensorChange) -> Any:
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


# ---- from a call to what autograd knows of ---------------------------------------------------------------------------


def differentiable(call: Call, tensor: Any, out: Any) -> Any:
    """The result of a call on a tensor that requires a gradient: the result has it too.

    Results with arithmetic in a type without gradients, such as integers, have no history.  BufferError for an `out`.
    """
    check_no_box(call, tensor)
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return traced(call, tensor, out)  # a tensor from outside of the function that is transformed
    if out is not None:
        raise RequiresGrad(
            f"out is given, and {call.role} ({type(tensor).__name__}) requires a gradient or has a tangent, which "
            "would not follow its values there: drop out=, or call gpulayout inside torch.no_grad()"
        )
    move = _kept_move(call, tensor)
    if not isinstance(move, TensorChange):
        return apply_move(tensor, move)
    made = run(call.verb, tensor.detach(), call.source, call.target, None, call.options, call.sizes, None, call.strict)
    if not (made.is_floating_point() or made.is_complex()):
        return made
    return ChangeFunction.apply(tensor, [made], move)


def _kept_move(call: Call, tensor: Any) -> TensorMove | TensorChange:
    """The move of a call on this tensor; planning it costs more than a small move."""
    key = call_key(call.verb, tensor, call.source, call.target, None, call.options, call.sizes, call.strict)
    if key is None:
        return _planned(call, tensor)
    key = *key, tensor.dtype, tensor.device, tensor.shape, tensor.stride()
    move = _moves.get(key)
    if move is None:
        move = _planned(call, tensor)
        _moves.keep(key, move)
    return move


_moves: Kept[TensorMove | TensorChange] = Kept()


def _planned(call: Call, tensor: Any) -> TensorMove | TensorChange:
    """The move of a call on the tensor's memory, with every error."""
    backend, array = arrays.open_array(tensor.detach(), call.role)
    request = request_of(call, arrays.label(tensor, array), array, None)
    request.check_lengths(request.source_memory(backend, array), None)
    if not (request.read.is_buffer or request.write.is_buffer):
        move = _planned_transpose(tensor, request)
        return move if request.change is None else TensorChange(None, request.change, move)
    source, target, sizes = request.read.shape, request.write.shape, tuple(tensor.shape)
    is_flat = request.read.is_buffer and len(sizes) == 1  # an N-d buffer is the array itself
    if request.change is None:
        return TensorRelayout(source if is_flat else row_major(source), target, sizes, request.write.dimensions)
    before = TensorRelayout(source, row_major(source), sizes, source.dimensions) if is_flat else None
    after = None
    if request.write.is_buffer:
        after = TensorRelayout(row_major(target), target, target.dimensions, request.write.dimensions)
    return TensorChange(before, request.change, after)


def _planned_transpose(tensor: Any, request: Request) -> TensorTranspose:
    """The move between two arrays: its parts are the digits of what is written."""
    digits = request.write.digits or ()
    placed = sorted(range(len(digits)), key=lambda part: -digits[part].stride)  # in the order of the result
    parts = sorted(placed, key=lambda part: (digits[part].dim, -digits[part].step))  # in the order of the tensor
    split = tuple([digits[part].extent for part in parts])
    order = tuple([parts.index(part) for part in placed])
    return TensorTranspose(tuple(tensor.shape), split, order, request.write.dimensions)
