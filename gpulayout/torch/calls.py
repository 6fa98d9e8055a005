"""Calls on tensors that a gradient or a tangent follows: what moves, and what becomes of gradients."""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.api import arrays
from gpulayout.api.arithmetic import ElementChange
from gpulayout.api.call import Call
from gpulayout.api.library import FollowedArray
from gpulayout.api.reading import axis_numbers, parts_of_result
from gpulayout.api.request import Request, request_of
from gpulayout.api.running import run, words
from gpulayout.api.traced import traced
from gpulayout.layout.shape import Shape
from gpulayout.torch.changes import FollowedChange, TensorChange
from gpulayout.torch.gradients import apply_followed
from gpulayout.torch.moves import TensorMove, TensorRelayout, TensorTranspose


def followed(call: Call, given: Any, out: Any) -> Any:
    """See `gpulayout.api.followed`."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return traced(call, given, out)  # a tensor from outside of the function that is transformed
    if out is not None:
        raise FollowedArray(
            f"out is given, and {call.role} ({type(given).__name__}) requires a gradient or has a tangent, which "
            "would not follow its values there: drop out=, or call gpulayout inside torch.no_grad()"
        )
    if call.options:
        return _changed(call, given)
    return apply_followed(given, _kept_move(call, given))


def _kept_move(call: Call, given: Any) -> TensorMove:
    """The move of a call on this tensor; planning it costs more than a small move."""
    key = words(call.verb, given, call.source, call.target, None, {}, call.sizes)
    if key is None:
        return _planned(call, given)
    key = *key, given.dtype, given.shape, given.stride()
    move = _moves.get(key)
    if move is None:
        if len(_moves) >= 1024:
            _moves.clear()
        move = _moves[key] = _planned(call, given)
    return move


_moves: dict[tuple[Any, ...], TensorMove] = {}


def _read(call: Call, given: Any) -> Request:
    """The request of a call on the tensor's memory, with every error."""
    backend, array = arrays.open_array(given.detach(), call.role)
    found = request_of(call, arrays.label(given, array), array, None)
    found.source_memory(backend, array)
    return found


def _planned(call: Call, given: Any) -> TensorMove:
    """The move of a call."""
    found, sizes = _read(call, given), tuple(given.shape)
    if call.verb == "transpose":
        return _planned_transpose(call, given, found)
    source = found.read.shape if len(sizes) == 1 else _row_major(found.read.shape)  # an N-d buffer is the array itself
    return TensorRelayout(source, found.write.shape, sizes, found.write.dimensions)


def _planned_transpose(call: Call, given: Any, found: Request) -> TensorTranspose:
    sizes = tuple(given.shape)
    axes = call.target if isinstance(call.target, str) else axis_numbers(call.target, call.sizes, given)
    parts = [part for group in parts_of_result(axes, sizes, call.sizes) for part in group]
    order = sorted(range(len(parts)), key=lambda part: (parts[part].dim, -parts[part].step, parts[part].size == 1))
    split = tuple([parts[part].size for part in order])
    return TensorTranspose(
        sizes, split, tuple([order.index(part) for part in range(len(parts))]), found.write.dimensions
    )


def _row_major(shape: Shape) -> Shape:
    return Shape(shape.element_type, shape.dimensions)


# ---- with arithmetic -------------------------------------------------------------------------------------------------


def _changed(call: Call, given: Any) -> Any:
    """The result of a call with arithmetic.  Results in a type without gradients, such as integers, have no history."""
    found = _read(call, given)
    if found.change is None:
        return followed(call._replace(options={}), given, None)
    made = run(call.verb, given.detach(), call.source, call.target, None, call.options, call.sizes)
    if not (made.is_floating_point() or made.is_complex()):
        return made
    return FollowedChange.apply(given, [made], _planned_change(call, given, found, found.change))


def _planned_change(call: Call, given: Any, found: Request, change: ElementChange) -> TensorChange:
    """What becomes of gradients: the moves before and after the arithmetic."""
    if call.verb == "transpose":
        return TensorChange(None, change, _planned_transpose(call, given, found))
    source, target, sizes, before, after = found.read.shape, found.write.shape, tuple(given.shape), None, None
    if found.read.is_buffer and len(sizes) == 1:
        before = TensorRelayout(source, _row_major(source), sizes, source.dimensions)
    if found.write.is_buffer:
        after = TensorRelayout(_row_major(target), target, target.dimensions, found.write.dimensions)
    return TensorChange(before, change, after)
