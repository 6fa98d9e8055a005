"""Calls on tensors that a gradient or a tangent follows: what moves, and what becomes of gradients."""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.api import arrays
from gpulayout.api.arithmetic import Asked, ElementChange
from gpulayout.api.not_memory import FollowedArray
from gpulayout.api.packing import pack, unpack
from gpulayout.api.relayout import relayout
from gpulayout.api.sides import ArraySide, BufferSide
from gpulayout.api.targets import as_target, converted_target
from gpulayout.api.traced import TracedCall, traced
from gpulayout.api.transpose import axis_numbers, rearranged, transpose
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.torch.changes import FollowedChange, TensorChange
from gpulayout.torch.gradients import apply_followed
from gpulayout.torch.moves import TensorMove, TensorRelayout, TensorTranspose


def followed(call: TracedCall, given: Any, out: Any) -> Any:
    """See `gpulayout.api.followed`."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return traced(call, given, out)  # a tensor from outside of the function that is transformed
    if out is not None:
        raise FollowedArray(
            f"out is given, and {_role(call)} ({type(given).__name__}) requires a gradient or has a tangent, which "
            "would not follow its values there: drop out=, or call gpulayout inside torch.no_grad()"
        )
    if call.options:
        return _changed(call, given)
    return apply_followed(given, _kept_move(call, given))


def _kept_move(call: TracedCall, given: Any) -> TensorMove:
    """The move of a call on this tensor; planning it costs more than a small move."""
    axes = call.target
    if call.kind == "transpose" and not isinstance(axes, str):
        axes = axis_numbers(axes, call.sizes, given)
    if call.sizes and not all(type(size) is int for size in call.sizes.values()):  # True and 2.0 equal ints
        return _planned(call, axes, given)
    key = call.kind, call.source, axes, given.dtype, given.shape, given.stride(), *call.sizes.items()
    move = _moves.get(key)
    if move is None:
        if len(_moves) >= 1024:
            _moves.clear()
        move = _moves[key] = _planned(call, axes, given)
    return move


_moves: dict[tuple[Any, ...], TensorMove] = {}


def _planned(call: TracedCall, target: Any, given: Any) -> TensorMove:
    """The move of a call, with the errors of a call on the tensor's memory."""
    backend, array = arrays.open_array(given.detach(), _role(call))
    sizes = tuple(array.shape)
    if call.kind == "transpose":
        return _planned_transpose(call, target, array)
    if call.kind == "pack":
        shape = as_target(target, Shape(arrays.label(given, array), sizes), "shape")
        ArraySide(shape, array.strides).check(array, "array")
        return TensorRelayout(_row_major(shape), shape, sizes, BufferSide(shape).dimensions)
    source = call.source
    BufferSide(source).memory(backend, array, "buffer")
    read = source if len(sizes) == 1 else _row_major(source)  # an N-d buffer is the logical array, with any strides
    if call.kind == "unpack":
        return TensorRelayout(read, _row_major(source), sizes, source.dimensions)
    return TensorRelayout(read, target, sizes, BufferSide(target).dimensions)


def _planned_transpose(call: TracedCall, axes: Any, array: Any) -> TensorTranspose:
    sizes = tuple(array.shape)
    found = rearranged.__wrapped__(axes, array.dtype, sizes, tuple(array.strides), tuple(call.sizes.items()))
    if not isinstance(axes, str):
        order = tuple([axis % len(sizes) for axis in axes])
        return TensorTranspose(sizes, sizes, order, found.shape)
    pattern = read_pattern(axes, len(sizes))
    named = pattern.axis_sizes(sizes, call.sizes)
    parts = [name for group in pattern.before for name in group]
    split = tuple([named[name] for name in parts])
    return TensorTranspose(sizes, split, tuple([parts.index(name) for name in pattern.order]), found.shape)


def _row_major(shape: Shape) -> Shape:
    return Shape(shape.element_type, shape.dimensions)


def _role(call: TracedCall) -> str:
    return "array" if call.kind in ("pack", "transpose") else "buffer"


# ---- with arithmetic -------------------------------------------------------------------------------------------------


def _changed(call: TracedCall, given: Any) -> Any:
    """The result of a call with arithmetic.  Results in a type without gradients, such as integers, have no history."""
    found = _run_changed(call, given.detach())
    if not (found.is_floating_point() or found.is_complex()):
        return found
    planned = _planned_change(call, given)
    if planned is None:
        return followed(call._replace(options={}), given, None)
    return FollowedChange.apply(given, [found], planned)


def _run_changed(call: TracedCall, tensor: Any) -> Any:
    """The call on a tensor in memory that nothing follows, with its errors."""
    if call.kind == "pack":
        return pack(tensor, call.target, **call.options)
    if call.kind == "unpack":
        return unpack(tensor, call.source, **call.options)
    if call.kind == "relayout":
        return relayout(tensor, call.source, call.target, **call.options)
    keywords: dict[str, Any] = {**call.sizes, **call.options}
    return transpose(tensor, call.target, **keywords)


def _planned_change(call: TracedCall, given: Any) -> TensorChange | None:
    """What becomes of gradients: the moves before and after the arithmetic.  None for a call that changes nothing."""
    asked, sizes = Asked(call.options), tuple(given.shape)
    own = Shape(given.dtype, sizes)
    if call.kind == "transpose":
        change = asked.change(own, asked.dtype or own.element_type)
        axes = call.target if isinstance(call.target, str) else axis_numbers(call.target, call.sizes, given)
        array = arrays.open_array(given.detach(), "array")[1]
        return change and TensorChange(None, change, _planned_transpose(call, axes, array))
    if call.kind == "pack":
        target = converted_target(call.target, own, asked, "shape")
        return _change_of(asked.change(own, target.element_type), None, target)
    change = asked.change(call.source, call.target.element_type)
    read = None
    if len(sizes) == 1:
        read = TensorRelayout(call.source, _row_major(call.source), sizes, call.source.dimensions)
    return _change_of(change, read, call.target if call.kind == "relayout" else None)


def _change_of(change: ElementChange | None, read: TensorMove | None, target: Shape | None) -> TensorChange | None:
    if change is None:
        return None
    written = None
    if target is not None:
        written = TensorRelayout(_row_major(target), target, target.dimensions, BufferSide(target).dimensions)
    return TensorChange(read, change, written)
