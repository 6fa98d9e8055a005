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

from gpulayout.arrays.library import dtype_of
from gpulayout.arrays.memory_checks import (
    ArrayFacts,
    check_buffer_dtype,
    check_dtype,
    check_exact,
    other_size,
    too_short,
)
from gpulayout.arrays.torch_tensors import TORCH
from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import attempt, constant_in_graphs, is_compiling, refusing_in_graphs
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.moves.lowered import Lowered, plain_steps
from gpulayout.moves.lowered_run import PlainSteps, is_jax, is_torch, run_in_jax, run_in_torch
from gpulayout.moves.lowering import lowered_pack, lowered_relayout, lowered_unpack
from gpulayout.requests.reading import (
    WRITES_ARRAY,
    Call,
    Read,
    axis_order,
    read_arguments,
    read_plan,
    transpose_pattern,
)
from gpulayout.traced.traced_arithmetic import Operations, change_refusal, changed, computed, operations_for
from gpulayout.traced.traced_parameters import (
    Constants,
    constants_of,
    inputs_of,
    kept_in_graph,
    no_constants,
    read_constants,
    traced_numbers,
)

# To the logical array, its elements, and to the result; without arithmetic, the first is all of it.
Way = tuple[Lowered | None, Operations, Lowered | None]
# The names and sizes of the parts of an axis; None for the size that follows from the others.
PartSizes = tuple[tuple[str, int | None], ...]
Made = TypeVar("Made")


def traced(call: Call, array: Any, out: Any, anew: Callable[[], Any] | None = None) -> Any:
    """The result of a call on a traced array.  A torch.Tensor `out` is written to.

    anew   the call anew: where torch.compile cannot trace it, the graph breaks, and it runs on memory
    """
    if anew is not None:
        reason = untraceable(call, array, out) if is_compiling() else ""
        if reason or not (is_torch(array) or is_jax(array)):  # torch.compile skips frames that have no tensor
            return between_graphs(reason, anew)
    check_no_box(call, array)
    if call.verb == "transpose":
        result = _transposed(changed(call.options, array) if call.options else array, call.target, call.sizes)
    else:
        result = _moved(call, array)
    if out is None:
        return result
    if not is_torch(out):
        raise BufferError("out cannot be written to inside a traced function: use the result of the call")
    is_buffer = call.verb not in WRITES_ARRAY
    is_longer = is_buffer and out.ndim == result.ndim == 1 and bool(out.shape[0] > result.shape[0])
    error = _wrong_out(out, result, is_longer, call.strict)
    if error is not None:
        if anew is not None and is_compiling():
            return between_graphs(str(error), anew)
        raise error
    (out[: result.shape[0]] if is_longer else out).copy_(result)
    return out


def check_no_box(call: Call, array: Any) -> None:
    """BufferError for a box where there is no memory, or where a gradient would have to follow it."""
    if call.at is not None:
        instead = "array[box] of what gl.unpack gives" if call.role == "buffer" else "gl.pack of the whole array"
        raise BufferError(
            f"at= is for memory, and {call.role} ({type(array).__name__}) is traced or requires a gradient: take "
            f"{instead}"
        )


def _wrong_out(out: Any, result: Any, is_longer: bool, strict: bool) -> Exception | None:
    """The error of an `out` that cannot take the result, or None."""
    if out.dtype != result.dtype:
        return TypeError(
            f"out has dtype {out.dtype}, but the result has {result.dtype}: dtype= converts the elements on the way"
        )
    if is_longer and strict:
        length = int(result.shape[0])
        return BufferError(
            f"out has {int(out.shape[0])} elements, but the result has {length}: pass out[:{length}], or strict=False "
            f"to write the first {length}"
        )
    if is_longer or out.shape == result.shape:
        return None
    return BufferError(f"out has shape {tuple(out.shape)}, but the result has shape {tuple(result.shape)}")


def between_graphs(reason: str, anew: Callable[[], Any]) -> Any:
    """What `anew` returns.  torch.compile breaks its graph here; with fullgraph=True it says the reason."""
    return TORCH.disable_compiler(_run, reason)(anew)


def _run(anew: Callable[[], Any]) -> Any:
    return anew()


def untraceable(call: Call, array: Any, out: Any) -> str:
    """Why a call cannot be part of a graph of torch.compile, or nothing."""
    if not is_torch(array) or not (out is None or is_torch(out)):
        return "gpulayout takes tensors inside of graphs, and other arrays outside of them"
    if call.at is not None:
        return "gpulayout reads and writes boxes of buffers outside of graphs, on memory"
    if call.max_bytes is not None:
        return "gpulayout works in place outside of graphs, on memory: leave max_bytes out, and use the result"
    options = _options(call)
    reason = no_constants(options, array)
    if reason:
        return reason
    if call.verb != "transpose":
        return attempt("_outline", *_arguments(call, array, options))[1]
    reason = traced_numbers(call.target, call.sizes)
    if not reason and options:
        reason = change_refusal(options, array)
    return reason or _transpose_refusal(call.target, call.sizes, array)


def _moved(call: Call, original: Any) -> Any:
    """A pack, unpack or relayout.  Sizes that a compiler left open become fixed here: a layout has fixed sizes."""
    check_fixed(original)
    options = _options(call)
    arguments = _arguments(call, original, options)
    if not is_torch(original):
        before, operations, after = _way(*arguments, False)
        inputs = inputs_of(options, original)
        array = computed(operations, original if before is None else before(original), inputs)
        return array if after is None else after(array)
    moves_before, operations, moves_after = _outline(*arguments)
    array = run_in_torch(_steps_before, arguments, original) if moves_before else original
    if operations:
        array = computed(operations, array, inputs_of(options, original))
    if moves_after:
        return run_in_torch(_steps_after, arguments, array)
    if array is original:
        return array.clone(memory_format=sys.modules["torch"].contiguous_format)
    return array.contiguous() if operations else array


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


def _arguments(call: Call, array: Any, options: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of `_planned_way`, all plain, without the last."""
    kind, source, target = call.verb, call.source, call.target
    if kind == "plan":  # a relayout
        kind, source, target = "relayout", source.source, source.target
    sizes = tuple([operator.index(size) for size in array.shape])
    return kind, plain(source), plain(target), array.dtype, sizes, constants_of(options), call.strict


def check_fixed(array: Any) -> None:
    """LayoutError for sizes that jax.export left open."""
    if not is_torch(array) and not all(isinstance(size, int) for size in array.shape):
        raise LayoutError(
            f"array has shape {array.shape}, and a layout has fixed sizes: export the function for those, or call "
            "gl.transpose, whose sizes may stay open"
        )


def read_traced(call: Call, dtype: Any, sizes: tuple[int, ...]) -> tuple[Read, bool]:
    """What a call on a traced array means, with the errors of a call on memory; and whether that is the logical array.

    An N-d array in C order is both the logical array and its buffer.
    """
    facts = ArrayFacts.in_c_order(dtype_of(dtype), sizes)
    flat = len(sizes) == 1
    read, write, change = read_arguments(call, facts.dtype, facts)
    shape = read.shape
    if not read.is_buffer:
        return (read, write, change), True
    if not flat:
        if size := other_size(facts, shape, "buffer"):
            raise BufferError(size)
        if sizes != shape.dimensions or shape != Shape(shape.element_type, shape.dimensions):
            raise BufferError(
                f"buffer has shape {sizes}, and a traced array is no buffer of {shape}: pass the 1-D buffer, or "
                "call gl.pack for an N-d array"
            )
        check_dtype(facts, shape, "buffer")
        return (read, write, change), True
    check_buffer_dtype(facts, shape, "buffer")
    if facts.size < shape.buffer_length:
        raise BufferError(too_short(facts, shape, "buffer"))
    if call.strict:
        check_exact(facts, shape, "buffer")
    return (read, write, change), False


def _way(*arguments: Any) -> Way:
    """See `_planned_way`; without keywords, whose values may be arrays, a kept one, as planning of other calls is."""
    try:
        hash(arguments)
    except TypeError:  # a list as a shape: the reader says what to write
        return _planned_way(*arguments)
    return _kept_way(*arguments) if not arguments[5] else _planned_way(*arguments)


def _planned_way(
    kind: str,
    source: Any,
    target: Any,
    dtype: Any,
    sizes: tuple[int, ...],
    options: Constants,
    strict: bool,
    in_torch: bool,
) -> Way:
    """What a call on an array of this type and these sizes does, with the errors of a call on memory."""
    call = Call(kind, from_plain(source), from_plain(target), {}, read_constants(options), None, strict)
    (read, write, change), is_logical = read_traced(call, dtype, sizes)
    assert read.is_buffer or write.is_buffer, f"{kind} goes from array to array: it has steps of its own"
    if change is None:
        if write.is_buffer:
            steps = lowered_pack(write.shape) if is_logical else lowered_relayout(read.shape, write.shape, sizes[0])
        else:
            steps = Lowered(read.shape.element_type, sizes, ()) if is_logical else lowered_unpack(read.shape, sizes[0])
        return steps, (), None
    before = None if is_logical else _kept_unpack(read.shape, sizes[0])
    operations = operations_for(change, read.shape.dimensions, in_torch, options)
    return before, operations, _kept_pack(write.shape) if write.is_buffer else None


_kept_way = functools.lru_cache(maxsize=1024)(_planned_way)
_kept_pack = functools.lru_cache(maxsize=1024)(lowered_pack)
_kept_unpack = functools.lru_cache(maxsize=1024)(lowered_unpack)


# torch.compile calls these while it traces, and takes what they return as constants.


@refusing_in_graphs
def _outline(*arguments: Any) -> tuple[bool, Operations, bool]:
    before, operations, after = _way(*arguments, True)
    return before is not None, operations, after is not None


@constant_in_graphs
def _steps_before(*arguments: Any) -> PlainSteps:
    return _steps(0, *arguments)


@constant_in_graphs
def _steps_after(*arguments: Any) -> PlainSteps:
    return _steps(2, *arguments)


def _steps(part: int, *arguments: Any) -> PlainSteps:
    lowered = _way(*arguments[:-1], True)[part]
    assert isinstance(lowered, Lowered)
    return plain_steps(lowered, arguments[-1])


def traced_plan(
    plan: Made, source: Any, target: Any, names: Any, options: Mapping[str, Any], anew: Callable[[], Made] | None
) -> Made:
    """Fill in a new plan with what its calls need where a function is traced.

    anew   makes it outside of a graph of torch.compile, with the errors of a plan that cannot be
    """
    texts: Any = None
    names = names if names is None or isinstance(names, str) else tuple(names)
    if anew is None:
        texts = _planned_texts(plain(source), plain(target), names, constants_of(options))
    else:
        reason = no_constants(options, None)
        if not reason:
            texts, reason = attempt("_planned_texts", plain(source), plain(target), names, constants_of(options))
        if reason:
            return cast(Made, between_graphs(reason, anew))
    change = {name: kept_in_graph(value) for name, value in options.items()} if texts[3] else None
    values = parse_array_shape(texts[0]), parse_array_shape(texts[1]), texts[2], change
    for name, value in zip(("source", "target", "names", "own_change"), values):
        object.__setattr__(plan, name, value)
    return plan


@refusing_in_graphs
def _planned_texts(
    source: Any, target: Any, names: Any, options: Constants
) -> tuple[str, str, tuple[str, ...] | None, bool]:
    """The shapes and the names of a plan, and whether its elements change."""
    shape, written, labels, change = read_plan(from_plain(source), from_plain(target), names, read_constants(options))
    return str(shape), str(written), labels, change is not None


# ---- transposes, whose sizes may stay open: split axes by a reshape, permute them, and join them ---------------------


def _transposed(array: Any, axes: Any, sizes: Mapping[str, int]) -> Any:
    """The result of `transpose`, in C order."""
    before, order, after, about = _arrangement(*_plain_axes(axes, sizes, array))
    parts = _split(array.shape, before, about) if before else array.shape
    steps: list[tuple[str, tuple[int, ...], None]] = []
    if before:
        steps.append(("reshape", tuple(parts), None))
    if order != tuple(range(len(order))):
        steps.append(("permute", order, None))
    if after:
        placed = [parts[part] for part in order]
        steps.append(("reshape", tuple([math.prod(placed[first:last]) for first, last in after]), None))
    if is_torch(array):  # asked first: a graph that asks for JAX is compiled again once JAX is imported
        return run_in_torch(_as_planned, (tuple(steps),), array)
    return run_in_jax(tuple(steps), array)


def _as_planned(steps: PlainSteps, as_integers: bool) -> PlainSteps:
    """The steps: they fill nothing, so they are the same for integers."""
    return steps


def _plain_axes(axes: Any, sizes: Mapping[str, Any], array: Any) -> tuple[Any, int, dict[str, Any]]:
    """The arguments of `_arrangement`, all plain."""
    if isinstance(axes, (list, tuple, range)):
        axes = tuple([_constant(axis) for axis in axes])
    return plain(axes), array.ndim, {name: _constant(size) for name, size in sizes.items()}


def _constant(value: Any) -> Any:
    """A number that torch.compile may have made a variable of, as a constant again; anything else as it is."""
    return operator.index(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _transpose_refusal(axes: Any, sizes: Mapping[str, int], array: Any) -> str:
    """Why a transpose cannot be, or nothing: torch.compile would not show an error that is raised inside of a graph."""
    arrangement, reason = attempt("_arrangement", *_plain_axes(axes, sizes, array))
    if reason:
        return reason
    before, _, _, about = arrangement
    if not _misfit(array.shape, before, about):
        return ""
    return _misfit([operator.index(size) for size in array.shape], before, about)  # open sizes are no text


@refusing_in_graphs
def _arrangement(
    axes: Any, rank: int, sizes: Mapping[str, int]
) -> tuple[tuple[PartSizes, ...], tuple[int, ...], tuple[tuple[int, int], ...], str]:
    """What a transpose does, without the sizes of the array.

    The parts of each axis, () if none is split; the permutation of all parts; the first and last part of each axis of
    the result, () if none is joined; and the argument for messages.
    """
    if not isinstance(axes, str):
        context = checks.Later(lambda: f" for an array of rank {rank}")
        return (), axis_order(from_plain(axes), sizes, rank, context), (), "axes"
    pattern = transpose_pattern(axes, rank)
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


def _split(shape: Iterable[int], before: tuple[PartSizes, ...], about: str) -> list[int]:
    """The size of every part; LayoutError where they do not make up their axis."""
    wrong = _misfit(shape, before, about)
    if wrong:
        raise LayoutError(wrong)
    sizes = []
    for size, group in zip(shape, before):
        product = _product(group)
        for _, part in group:
            sizes.append(part if part is not None else size // product if product else 0)
    return sizes


def _misfit(shape: Iterable[int], before: tuple[PartSizes, ...], about: str) -> str:
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


def _product(group: PartSizes) -> int:
    """The product of the sizes that are known."""
    return math.prod([part for _, part in group if part is not None])
