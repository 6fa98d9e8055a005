"""Calls on traced arrays: inside torch.compile, torch.export, torch.func, jax.jit, jax.grad and the like.

Such an array has a type and sizes, and no memory.  The calls run as lowered steps, which the library traces.
torch.compile looks into these functions: it takes planning as a constant of the graph, and what remains are operations
on the tensor.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from gpulayout.api.call import Call
from gpulayout.api.reading import read_shapes
from gpulayout.api.targets import axis_names
from gpulayout.api.torch_tensors import TorchTensors
from gpulayout.api.traced_arithmetic import (
    Constants,
    arithmetic_refusal,
    asked_for,
    changed,
    constants_of,
    converted,
    kept_in_graph,
    no_constants,
)
from gpulayout.api.traced_sides import check_fixed, read_traced
from gpulayout.layout import checks
from gpulayout.layout.dimension_labels import named_dimensions
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs, is_compiling
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.text import as_shape, parse_array_shape
from gpulayout.moves.lowered import Lowered, PlainSteps, is_torch, moves_as_integers, plain_steps, run_in_torch
from gpulayout.moves.lowered_jax import JaxStep, is_jax, run_in_jax
from gpulayout.moves.lowering import lowered_pack, lowered_relayout, lowered_unpack
from gpulayout.moves.torch_views import viewed

Made = TypeVar("Made")


_TORCH = TorchTensors()


def traced(call: Call, given: Any, out: Any, again: Callable[[], Any] | None = None) -> Any:
    """The result of a call on a traced array.  A torch.Tensor `out` is written to.

    again   the call anew: where torch.compile cannot trace it, the graph breaks, and it runs on memory
    """
    if again is not None and is_compiling():
        reason = untraceable(call, given, out)
        if reason:
            return between_graphs(reason, again)
    if call.verb == "transpose":
        found = _transposed(changed(call.options, given) if call.options else given, call.target, call.sizes)
    else:
        found = _moved(call, given)
    if out is None:
        return found
    if not is_torch(out):
        raise BufferError("out cannot be written to inside a traced function: use the result of the call")
    is_longer = call.verb not in ("transpose", "unpack") and _is_longer(out, found)
    error = _wrong_out(out, found, is_longer)
    if error is not None:
        if again is not None and is_compiling():
            return between_graphs(str(error), again)
        raise error
    (out[: found.shape[0]] if is_longer else out).copy_(found)
    return out


def _is_longer(out: Any, found: Any) -> bool:
    """True for a buffer that is longer than the result."""
    return bool(out.ndim == found.ndim == 1 and out.shape[0] > found.shape[0])


def _wrong_out(out: Any, found: Any, is_longer: bool) -> Exception | None:
    """The error of an `out` that cannot take the result, or None."""
    if out.dtype != found.dtype:
        return TypeError(
            f"out has dtype {out.dtype}, but the result has {found.dtype}: dtype= converts the elements on the way"
        )
    if is_longer or out.shape == found.shape:
        return None
    return BufferError(f"out has shape {tuple(out.shape)}, but the result has shape {tuple(found.shape)}")


def between_graphs(reason: str, again: Callable[[], Any]) -> Any:
    """What `again` returns.  torch.compile breaks its graph here; with fullgraph=True it says the reason."""
    return _TORCH.untraced(_run, reason)(again)


def outside_of_graphs(function: Callable[..., Made], reason: str = "") -> Callable[..., Made]:
    """The function, whose inside torch.compile leaves alone: it breaks its graph, or says the reason."""
    return _TORCH.untraced(function, reason) if reason else _TORCH.untraced(function)


def _run(again: Callable[[], Any]) -> Any:
    return again()


def untraceable(call: Call, given: Any, out: Any) -> str:
    """Why a call cannot be part of a graph of torch.compile, or nothing."""
    if not is_torch(given) or not (out is None or is_torch(out)):
        return "gpulayout takes tensors inside of graphs, and other arrays outside of them"
    if call.max_bytes is not None:
        return "gpulayout works in place outside of graphs, on memory: leave max_bytes out, and use the result"
    options = _options(call)
    if options:
        return arithmetic_refusal(*_ends(call), options, given)
    if call.verb == "transpose":
        return _transpose_refusal(call.target, call.sizes, given)
    return _refusal(*_arguments(call, given))


@constant_in_graphs
def _refusal(kind: str, source: Any, target: Any, dtype: Any, sizes: tuple[int, ...]) -> str:
    try:
        _lowered_call(kind, source, target, dtype, sizes)
    except (LayoutError, TypeError, BufferError) as error:
        return str(error)
    return ""


def _moved(call: Call, given: Any) -> Any:
    """A pack, unpack or relayout.  Sizes that a compiler left open become fixed here: a layout has fixed sizes."""
    check_fixed(given)
    options = _options(call)
    if options:
        kind, source, target = _ends(call)
        return converted(kind, source, target, options, given)
    arguments = _arguments(call, given)
    if is_torch(given):
        return run_in_torch(_plain_call, arguments, given)
    return _lowered_call(*arguments)(given)


def _options(call: Call) -> Mapping[str, Any]:
    """The keywords of arithmetic, or none."""
    return call.options if call.verb != "plan" else options_of_plan(call.source)


def options_of_plan(plan: Any) -> Mapping[str, Any]:
    """The keywords of a plan's arithmetic, or none.

    torch.compile cannot hand a plan to a function of constants in all releases, but it can ask the plan.
    """
    change = plan.own_change
    if change is None:
        return {}
    if isinstance(change, dict):  # the graph made the plan
        return change
    id(plan)  # another plan compiles again
    return dict(plan.plain_options())


def _ends(call: Call) -> tuple[str, Any, Any]:
    """The kind, and both sides; a plan is a relayout."""
    if call.verb == "plan":
        return "relayout", call.source.source, call.source.target
    return call.verb, call.source, call.target


def _arguments(call: Call, given: Any) -> tuple[str, Any, Any, Any, tuple[int, ...]]:
    """Of `_lowered_call`, all plain."""
    kind, source, target = _ends(call)
    sizes = tuple([operator.index(size) for size in given.shape])
    return kind, plain(source), plain(target), given.dtype, sizes


@constant_in_graphs
def _plain_call(
    kind: str, source: Any, target: Any, dtype: Any, sizes: tuple[int, ...], as_integers: bool
) -> PlainSteps:
    return plain_steps(_lowered_call(kind, source, target, dtype, sizes), as_integers)


@functools.lru_cache(maxsize=1024)  # as planning of other calls is kept
def _lowered_call(kind: str, source: Any, target: Any, dtype: Any, sizes: tuple[int, ...]) -> Lowered:
    """The steps of a call on an array of this type and these sizes, with the errors of a call on memory."""
    (read, write, _), is_logical = read_traced(Call(kind, from_plain(source), from_plain(target)), dtype, sizes)
    if write.is_buffer:
        return lowered_pack(write.shape) if is_logical else lowered_relayout(read.shape, write.shape, sizes[0])
    return Lowered(read.shape.element_type, sizes, ()) if is_logical else lowered_unpack(read.shape, sizes[0])


def traced_plan(
    plan: Made, source: Any, target: Any, names: Any, options: Mapping[str, Any], again: Callable[[], Made]
) -> Made:
    """Fill in a new plan with what its calls need where a compiler traces them.

    again   makes it outside of the graph, with the errors of a plan that cannot be
    """
    reason = no_constants(options)
    if not reason:
        names = names if names is None or isinstance(names, str) else tuple(names)
        arguments = plain(source), plain(target), names, constants_of(options)
        reason = _no_plan(*arguments)
    if reason:
        return cast(Made, between_graphs(reason, again))
    texts = _planned_texts(*arguments)
    change = {name: kept_in_graph(value) for name, value in options.items()} if texts[3] else None
    values = parse_array_shape(texts[0]), parse_array_shape(texts[1]), texts[2], change
    for name, value in zip(("source", "target", "names", "own_change"), values):
        object.__setattr__(plan, name, value)
    return plan


@constant_in_graphs
def _planned_texts(
    source: Any, target: Any, names: Any, options: Constants
) -> tuple[str, str, tuple[str, ...] | None, bool]:
    """The shapes and the names of a plan, and whether its elements change."""
    shape, asked = as_shape(from_plain(source), "source"), asked_for(options)
    target = from_plain(target)
    _, write, change = read_shapes(shape, target, asked)
    labels = axis_names(target, shape.rank) if names is None else named_dimensions(names, shape.rank, shape)
    return str(shape), str(write.shape), labels, change is not None


@constant_in_graphs
def _no_plan(*arguments: Any) -> str:
    try:
        _planned_texts(*arguments)
    except (LayoutError, TypeError, BufferError) as error:
        return str(error)
    return ""


# ---- transposes, whose sizes may stay open ---------------------------------------------------------------------------


def _transposed(array: Any, axes: Any, sizes: Mapping[str, int]) -> Any:
    """A reshape if axes are split, one permute, and a reshape if axes are joined."""
    before, order, after, about = _arrangement(*_plain_axes(axes, sizes, array))
    if is_jax(array):
        return _transposed_in_jax(array, before, order, after, about)
    kind, as_integers = array.dtype, moves_as_integers(array)
    if as_integers:
        array = viewed(array, _integer(kind.itemsize))
    if before:
        array = array.reshape(_split(array.shape, before, about))
    array = array.permute(order)
    if after:
        array = array.reshape([math.prod(array.shape[first:last]) for first, last in after])
    array = array.clone(memory_format=sys.modules["torch"].contiguous_format)
    return viewed(array, kind) if as_integers else array


def _plain_axes(axes: Any, sizes: Mapping[str, int], array: Any) -> tuple[Any, int, dict[str, int]]:
    """Of `_arrangement`, all plain."""
    if axes is not None and not isinstance(axes, str):
        axes = tuple(axes)
    return axes, array.ndim, {name: operator.index(size) for name, size in sizes.items()}


def _transpose_refusal(axes: Any, sizes: Mapping[str, int], array: Any) -> str:
    """Why a transpose cannot be, or nothing: torch.compile would not show an error that is raised inside of a graph."""
    arguments = _plain_axes(axes, sizes, array)
    reason = _arrangement_refusal(*arguments)
    if reason:
        return reason
    before, _, _, about = _arrangement(*arguments)
    if not _misfit(array.shape, before, about):
        return ""
    return _misfit([operator.index(size) for size in array.shape], before, about)  # open sizes are no text


@constant_in_graphs
def _arrangement_refusal(axes: Any, rank: int, sizes: Mapping[str, int]) -> str:
    try:
        _arrangement(axes, rank, sizes)
    except (LayoutError, TypeError) as error:
        return str(error)
    return ""


def _transposed_in_jax(
    array: Any, before: tuple[Known, ...], order: tuple[int, ...], after: tuple[tuple[int, int], ...], about: str
) -> Any:
    steps: list[JaxStep] = []
    parts = _split(array.shape, before, about) if before else array.shape
    if before:
        steps.append(("reshape", tuple(parts), None))
    if order != tuple(range(len(order))):
        steps.append(("permute", order, None))
    if after:
        sizes = [parts[part] for part in order]
        steps.append(("reshape", tuple([math.prod(sizes[first:last]) for first, last in after]), None))
    return run_in_jax(tuple(steps), array)


def _integer(itemsize: int) -> Any:
    torch = sys.modules["torch"]
    return torch.uint8 if itemsize == 1 else torch.int16


# The names and sizes of the parts of an axis; None for the size that follows from the others.
Known = tuple[tuple[str, int | None], ...]


@constant_in_graphs
def _arrangement(
    axes: Any, rank: int, sizes: Mapping[str, int]
) -> tuple[tuple[Known, ...], tuple[int, ...], tuple[tuple[int, int], ...], str]:
    """What a transpose does, without the sizes of the array.

    The parts of each axis, () if none is split; the permutation of all parts; the first and last part of each axis of
    the result, () if none is joined; and the argument for messages.
    """
    if not isinstance(axes, str):
        axes = range(rank - 1, -1, -1) if axes is None else axes
        context = checks.Later(lambda: f" for an array of rank {rank}")
        return (), checks.permutation("axes", axes, rank, context, from_end=True), (), "axes"
    pattern = read_pattern(axes, rank)
    known = pattern.known(sizes)
    parts = [name for group in pattern.before for name in group]
    before = tuple([tuple([(name, known.get(name)) for name in group]) for group in pattern.before])
    for names in pattern.before:
        unknown = [name for name in names if name not in known]
        if len(unknown) > 1:
            raise LayoutError(pattern.open_sizes(unknown))
    if all(len(group) == 1 and group[0][1] is None for group in before):
        before = ()
    ends = [0]
    for group in pattern.after:
        ends.append(ends[-1] + len(group))
    after = tuple(zip(ends, ends[1:]))
    if all(last == first + 1 for first, last in after):
        after = ()
    return before, tuple([parts.index(name) for name in pattern.order]), after, pattern.shown


def _split(shape: Iterable[int], before: tuple[Known, ...], about: str) -> list[int]:
    """The size of every part; LayoutError where they do not make up their axis."""
    wrong = _misfit(shape, before, about)
    if wrong:
        raise LayoutError(wrong)
    found = []
    for size, group in zip(shape, before):
        product = _product(group)
        for _, part in group:
            found.append(part if part is not None else size // product if product else 0)
    return found


def _misfit(shape: Iterable[int], before: tuple[Known, ...], about: str) -> str:
    """The message about the first axis that its parts do not make up, or nothing."""
    for axis, (size, group) in enumerate(zip(shape, before)):
        product = _product(group)
        is_open = None in [part for _, part in group]
        if (size % product if product else size) if is_open else product != size:
            parts = " x ".join([name if part is None else str(part) for name, part in group])
            return (
                f"{about} does not fit the array's shape {tuple(shape)}: axis {axis} of size {size} is not {parts or 1}"
            )
    return ""


def _product(group: Known) -> int:
    """The product of the sizes that are known."""
    return math.prod([part for _, part in group if part is not None])
