"""An `Array` in a function that torch.compile traces: its shape is a constant of the graph, its buffer a tensor.

Shapes travel as text here.  Dynamo takes the text that one function of constants returns, and gives it to the next; a
`Shape` it could not give.  An array that such a function returns holds the text, and reads it when it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayout.api.arithmetic import Asked
from gpulayout.api.array_checks import BufferFacts, check_facts, is_flat
from gpulayout.api.array_types import TargetLike
from gpulayout.api.own_shapes import own_shape, sides_of
from gpulayout.api.shaped_buffer import Pair, ShapedBuffer
from gpulayout.api.targets import as_target, converted_target
from gpulayout.api.traced import TracedCall, traced
from gpulayout.layout.arguments import as_shape, is_only_layout
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides

Sizes = tuple[int, ...]


def relayout_in_graph(
    array: Pair, source: TargetLike | None, target: TargetLike | None, out: Any, options: Mapping[str, Any]
) -> Any:
    """`relayout` of an array: another one, or `out`."""
    kept, source, target = plain(array.shape_or_text), plain(source), plain(target)
    text = _target_text(kept, source, target, options.get("dtype"))
    call = TracedCall("relayout", array.shape_or_text, text, {}, options)
    return _moved(array, call if is_flat(array.buffer) else TracedCall("pack", None, text, {}, options), text, out)


def plan_in_graph(plan: Any, array: Pair, out: Any) -> Any:
    """The call of a plan for an array."""
    text = _plan_text(plain(plan.source), plain(plan.target), plain(array.shape_or_text))
    call = TracedCall("plan", plan) if is_flat(array.buffer) else TracedCall("pack", None, text)
    return _moved(array, call, text, out)


def _moved(array: Pair, call: TracedCall, text: str, out: Any) -> Any:
    if not isinstance(out, ShapedBuffer):
        return array.holding(traced(call, array.buffer, out), text)
    _check_out(plain(out.shape_or_text), text)
    traced(call, array.buffer, out.buffer)
    return out


def own_in_graph(array: ShapedBuffer[Any], given: TargetLike | None, role: str) -> Any:
    """The shape of an array, or its text, if the shape that is also given is no other."""
    _check_own(plain(array.shape_or_text), plain(given), role)
    return array.shape_or_text


def shape_in_graph(tensor: Any, shape: TargetLike | None) -> str:
    """The text of the shape of a tensor that is a buffer of it, or that lies so."""
    sizes, steps = tuple([int(size) for size in tensor.shape]), tuple([int(step) for step in tensor.stride()])
    return (
        _text_as_it_lies(tensor.dtype, sizes, steps)
        if shape is None
        else _text(tensor.dtype, sizes, steps, plain(shape))
    )


def packed_in_graph(tensor: Any, layout: TargetLike) -> tuple[Any, str]:
    """A tensor packed in a layout, and the text of its shape."""
    text = _packed_text(tensor.dtype, tuple([int(size) for size in tensor.shape]), plain(layout))
    return traced(TracedCall("pack", None, text), tensor, None), text


def is_same_in_graph(array: ShapedBuffer[Any], target: TargetLike) -> bool:
    """True if a target is the shape that an array has."""
    return _is_same(plain(array.shape_or_text), plain(target))


# ---- functions of constants ------------------------------------------------------------------------------------------


def _whole(kept: Any) -> Shape:
    """The shape of an array, from its text or its tuples."""
    return as_shape(from_plain(kept))


@constant_in_graphs
def _is_same(kept: Any, target: Any) -> bool:
    shape = _whole(kept)
    return as_target(from_plain(target), shape) == shape


@constant_in_graphs
def _target_text(kept: Any, source: Any, target: Any, dtype: Any) -> str:
    shape, found = sides_of(_whole(kept), from_plain(source), from_plain(target))
    if dtype is None:
        return str(as_target(found, shape))
    return str(converted_target(found, shape, Asked({"dtype": dtype})))


@constant_in_graphs
def _plan_text(source: Any, target: Any, kept: Any) -> str:
    check_source(_whole(kept), from_plain(source))
    return str(from_plain(target))


def check_source(shape: Shape, source: Shape) -> None:
    """LayoutError unless an array has the shape that a plan moves."""
    if shape != source:
        raise LayoutError(f"buffer is a gl.Array of {shape}, but the plan moves {source}")


@constant_in_graphs
def _check_out(kept: Any, text: str) -> None:
    if _whole(kept) != as_shape(text):
        raise LayoutError(f"out is a gl.Array of {_whole(kept)}, but the result is {text}")


@constant_in_graphs
def _check_own(kept: Any, given: Any, role: str) -> None:
    own_shape(_whole(kept), from_plain(given), role)


@constant_in_graphs
def _text(dtype: Any, sizes: Sizes, steps: Sizes, shape: Any) -> str:
    own, shape = ElementType.of(dtype), from_plain(shape)
    if is_only_layout(shape) and len(sizes) == 1:
        raise LayoutError(f"shape {shape} is only a layout, and a flat buffer does not say the sizes")
    found = as_target(shape, Shape(own, sizes), "shape")
    check_facts(BufferFacts(own.dtype, sizes, tuple([step * own.itemsize for step in steps])), found)
    return str(found)


@constant_in_graphs
def _text_as_it_lies(dtype: Any, sizes: Sizes, steps: Sizes) -> str:
    return str(Shape(dtype, sizes, layout_from_strides(sizes, steps)))


@constant_in_graphs
def _packed_text(dtype: Any, sizes: Sizes, layout: Any) -> str:
    return str(as_target(from_plain(layout), Shape(dtype, sizes), "layout"))
