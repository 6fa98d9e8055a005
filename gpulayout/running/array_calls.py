"""Calls on an `Array`: it is taken apart, its buffer moves, and the result is an `Array` again.

Here on memory; `traced/array_graphs.py` does the same where torch.compile traces the call.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gpulayout.arrays.array_types import TargetLike
from gpulayout.arrays.memory_checks import is_flat
from gpulayout.arrays.shaped_buffer import Pair, ShapedBuffer, buffer_to_write
from gpulayout.layout.checks import ByteCount
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.shape import Shape
from gpulayout.requests.arithmetic import KEYWORDS, Asked
from gpulayout.requests.shape_arguments import as_target, check_is_layout, check_planned, own_shape, sides_of
from gpulayout.running.kept import KEY_TYPES, Kept, with_values
from gpulayout.running.running import run
from gpulayout.traced.array_graphs import is_same_in_graph, moved_in_graph, own_in_graph, plan_in_graph, relayout_call
from gpulayout.traced.traced import between_graphs


def unpack_array(
    array: ShapedBuffer[Any], shape: TargetLike | None, out: Any, options: Mapping[str, Any], at: Any = None
) -> Any:
    """`unpack` of an `Array`.  One that holds an N-d array is the logical array already."""
    own = own_in_graph(array, shape, "shape") if is_compiling() else own_shape(array.layout_shape, shape, "shape")
    if is_flat(array.buffer) or at is not None:
        return run("unpack", array.buffer, own, None, out, options, at=at)
    return run("transpose", array.buffer, None, tuple(range(len(array.buffer.shape))), out, options)


def relayout_array(
    array: Pair,
    source: TargetLike | None,
    target: TargetLike | None,
    out: Any,
    options: Mapping[str, Any],
    max_bytes: ByteCount | None = None,
    strict: bool = True,
) -> Any:
    """`relayout` of an `Array`: another one, or `out` if that is one."""
    if is_compiling():
        call, text, reason = relayout_call(array, source, target, out, options, max_bytes, strict)
        if reason:
            anew = functools.partial(relayout_array, array, source, target, out, options, max_bytes, strict)
            return between_graphs(reason, anew)
        return moved_in_graph(array, call, text, out)
    own, shape = shapes_of_move(array.layout_shape, source, target, options)
    if may_be_packed(array, out, max_bytes):
        return array.holding(run("pack", array.buffer, None, shape, None, options, strict=strict), shape)
    written = buffer_to_write(out, shape)
    moved = run("relayout", array.buffer, own, shape, written, options, max_bytes=max_bytes, strict=strict)
    return out if isinstance(out, ShapedBuffer) else array.holding(moved, shape)


def is_laid_out(array: ShapedBuffer[Any], target: TargetLike | None, options: Mapping[str, Any]) -> bool:
    """True if an array has the shape that a call asks for, and no element of it changes."""
    if is_compiling():
        anew = functools.partial(is_laid_out, array, target, options)
        return target is not None and is_same_in_graph(array, target, anew) and not options
    check_is_layout(target, array.layout_shape)
    own, shape = shapes_of_move(array.layout_shape, None, target, options)
    if own != shape or not options:
        return own == shape
    asked = Asked(options)
    return not asked.parameters and asked.change(own, shape.element_type) is None


def run_plan_on_array(plan: Any, array: Pair, out: Any, max_bytes: ByteCount | None, strict: bool) -> Any:
    """The call of a plan for an `Array`: another one, or `out` if that is one."""
    if is_compiling():
        anew = functools.partial(plan, array, out=out, max_bytes=max_bytes, strict=strict)
        return plan_in_graph(plan, array, out, max_bytes, strict, anew)
    check_planned(array.layout_shape, plan.source)
    if may_be_packed(array, out, max_bytes) and plan.change is None:
        return array.holding(run("pack", array.buffer, None, plan.target, None), plan.target)
    moved = plan(array.buffer, out=buffer_to_write(out, plan.target), max_bytes=max_bytes, strict=strict)
    return out if isinstance(out, ShapedBuffer) else array.holding(moved, plan.target)


def may_be_packed(array: ShapedBuffer[Any], out: Any, max_bytes: ByteCount | None) -> bool:
    """True for an N-d array, unless a call says where to write: `pack` takes it with strides out of reach too."""
    return out is max_bytes is None and not is_flat(array.buffer)


def shapes_of_move(
    own: Shape, source: TargetLike | None, target: TargetLike | None, options: Mapping[str, Any]
) -> tuple[Shape, Shape]:
    """The source and the target of a call on an `Array` of the shape `own`: (array, target), or with a source too."""
    own, wanted = sides_of(own, source, target, options)
    key: tuple[object, ...] | None = (own, wanted) if type(wanted) in KEY_TYPES else None
    if key is not None and options:  # of which the type counts, and what is asked for, but no number
        key = with_values(key, {"dtype": options.get("dtype")})
        key = key and (*key, *[(name, value is None or value is False) for name, value in options.items()])
    shape = None if key is None else kept_targets.get(key)
    if shape is None:
        shape = as_target(wanted, own, asked=Asked(options, KEYWORDS["relayout"]))
        if key is not None:
            kept_targets.keep(key, shape)
    return own, shape


kept_targets: Kept[Shape] = Kept()  # to read a layout takes longer than to pack a small array
