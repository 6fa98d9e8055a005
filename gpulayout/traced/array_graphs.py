"""An `Array` in a function that torch.compile traces: its shape is a constant of the graph, its buffer a tensor.

Shapes travel as text here.  Dynamo takes the text that one function of constants returns, and gives it to the next; a
`Shape` it could not give.  An array that such a function returns holds the text, and reads it when it is asked.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from gpulayout.arrays.array_types import TargetLike
from gpulayout.arrays.memory_checks import ArrayFacts, check_pair, is_flat
from gpulayout.arrays.shaped_buffer import Pair, ShapedBuffer
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import attempt, constant_in_graphs, refusing_in_graphs
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.requests.arithmetic import Asked
from gpulayout.requests.reading import Call
from gpulayout.requests.shape_arguments import as_target, check_is_layout, check_planned, own_shape, sides_of
from gpulayout.traced.traced import between_graphs, options_of_plan, traced, untraceable

Sizes = tuple[int, ...]


def relayout_call(
    array: ShapedBuffer[Any],
    source: TargetLike | None,
    target: TargetLike | None,
    out: Any,
    options: Mapping[str, Any],
    max_bytes: Any = None,
    strict: bool = True,
) -> tuple[Any, str, str]:
    """The call that moves an array's buffer, the text of the result's shape, and why it is in no graph, or nothing."""
    kept = array.shape_or_text
    given = tuple([name for name, value in options.items() if value is not None and value is not False])
    text, reason = attempt("_target_text", plain(kept), plain(source), plain(target), options.get("dtype"), given)
    if reason:
        return None, "", reason
    call = Call("pack", None, text, {}, options, max_bytes, strict)
    if is_flat(array.buffer):
        call = Call("relayout", kept, text, {}, options, max_bytes, strict)
    return call, text, _move_refusal(array, call, text, out)


def plan_in_graph(plan: Any, array: Pair, out: Any, max_bytes: Any, strict: bool, anew: Callable[[], Any]) -> Any:
    """The call of a plan for an array."""
    text, reason = attempt("_plan_text", plain(plan.source), plain(plan.target), plain(array.shape_or_text))
    if reason:
        return between_graphs(reason, anew)
    call = Call("plan", plan, max_bytes=max_bytes, strict=strict)
    if not is_flat(array.buffer):
        call = Call("pack", None, text, {}, options_of_plan(plan), max_bytes, strict)
    reason = _move_refusal(array, call, text, out)
    return between_graphs(reason, anew) if reason else moved_in_graph(array, call, text, out)


def _move_refusal(array: ShapedBuffer[Any], call: Call, text: str, out: Any) -> str:
    if not isinstance(out, ShapedBuffer):
        return untraceable(call, array.buffer, out)
    return attempt("_check_out", plain(out.shape_or_text), text)[1] or untraceable(call, array.buffer, out.buffer)


def moved_in_graph(array: Pair, call: Call, text: str, out: Any) -> Any:
    """Another array of the shape that the text says, or `out`, after a call on the buffer."""
    if not isinstance(out, ShapedBuffer):
        return array.holding(traced(call, array.buffer, out), text)
    traced(call, array.buffer, out.buffer)
    return out


def own_in_graph(array: ShapedBuffer[Any], claimed: TargetLike | None, role: str) -> Any:
    """The shape of an array, or its text, if the shape that is also given is no other."""
    reason = attempt("_check_own", plain(array.shape_or_text), plain(claimed), role)[1]
    if reason:
        return between_graphs(reason, functools.partial(_own_shape, array.shape_or_text, claimed, role))
    return array.shape_or_text


def _own_shape(kept: Shape | str, claimed: TargetLike | None, role: str) -> Shape:
    return own_shape(as_shape(kept), claimed, role)


def shape_in_graph(tensor: Any, shape: TargetLike | None, anew: Callable[[], Any]) -> str:
    """The text of the shape of a tensor that is a buffer of it, or that lies so; `anew` raises the errors."""
    sizes, steps = _fixed(tensor.shape), _fixed(tensor.stride())
    if shape is None:
        text, reason = attempt("_text_as_it_lies", tensor.dtype, sizes, steps)
    else:
        text, reason = attempt("_text_of_shape", tensor.dtype, sizes, steps, plain(shape))
    made: str = between_graphs(reason, anew) if reason else text
    return made


def _fixed(sizes: Any) -> Sizes:
    """Sizes that a compiler left open, as constants of the graph."""
    return tuple([operator.index(size) for size in sizes])


def packed_in_graph(tensor: Any, layout: TargetLike, anew: Callable[[], Any]) -> tuple[Any, str]:
    """A tensor packed in a layout, or as it is if it lies so, and the text of its shape; `anew` does it on memory."""
    sizes = _fixed(tensor.shape)
    text, reason = attempt("_packed_text", tensor.dtype, sizes, plain(layout))
    if not reason and attempt("_text_as_it_lies", tensor.dtype, sizes, _fixed(tensor.stride()))[0] == text:
        return tensor, text
    if not reason:
        call = Call("pack", None, text)
        reason = untraceable(call, tensor, None)
        if not reason:
            return traced(call, tensor, None), text
    made: tuple[Any, str] = between_graphs(reason, anew)
    return made


def is_same_in_graph(array: ShapedBuffer[Any], target: TargetLike, anew: Callable[[], bool]) -> bool:
    """True if a target is the shape that an array has; False for what is no target of it.

    anew   raises the errors of a target that is a device or an element type
    """
    kept, wanted = plain(array.shape_or_text), plain(target)
    reason = attempt("_check_layout", kept, wanted)[1]
    return between_graphs(reason, anew) if reason else _is_same(kept, wanted)


# ---- functions of constants ------------------------------------------------------------------------------------------


def _whole(kept: Any) -> Shape:
    """The shape of an array, from its text or its tuples."""
    return as_shape(from_plain(kept))


@constant_in_graphs
def _is_same(kept: Any, target: Any) -> bool:
    shape = _whole(kept)
    try:
        return as_target(from_plain(target), shape) == shape
    except (LayoutError, TypeError):
        return False


@refusing_in_graphs
def _check_layout(kept: Any, target: Any) -> None:
    check_is_layout(from_plain(target), _whole(kept))


@refusing_in_graphs
def _target_text(kept: Any, source: Any, target: Any, dtype: Any, given: tuple[str, ...]) -> str:
    options = {**dict.fromkeys(given, True), "dtype": dtype}  # which parameters there are decides, and no number
    shape, wanted = sides_of(_whole(kept), from_plain(source), from_plain(target), options)
    return str(as_target(wanted, shape, asked=Asked(options)))


@refusing_in_graphs
def _plan_text(source: Any, target: Any, kept: Any) -> str:
    check_planned(_whole(kept), from_plain(source))
    return str(from_plain(target))


@refusing_in_graphs
def _check_out(kept: Any, text: str) -> None:
    if _whole(kept) != as_shape(text):
        raise LayoutError(f"out is a gl.Array of {_whole(kept)}, but the result is {text}")


@refusing_in_graphs
def _check_own(kept: Any, claimed: Any, role: str) -> None:
    own_shape(_whole(kept), from_plain(claimed), role)


@refusing_in_graphs
def _text_of_shape(dtype: Any, sizes: Sizes, steps: Sizes, shape: Any) -> str:
    own, shape = ElementType.of(dtype), from_plain(shape)
    if is_only_layout(shape) and len(sizes) == 1:
        raise LayoutError(f"shape {shape} is only a layout, and a flat buffer does not say the sizes")
    target = as_target(shape, Shape(own, sizes), "shape")
    check_pair(ArrayFacts(own.dtype, sizes, tuple([step * own.itemsize for step in steps]), True), target)
    return str(target)


@refusing_in_graphs
def _text_as_it_lies(dtype: Any, sizes: Sizes, steps: Sizes) -> str:
    return str(Shape(dtype, sizes, layout_from_strides(sizes, steps)))


@refusing_in_graphs
def _packed_text(dtype: Any, sizes: Sizes, layout: Any) -> str:
    return str(as_target(from_plain(layout), Shape(dtype, sizes), "layout"))
