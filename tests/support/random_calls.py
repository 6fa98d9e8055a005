"""Random calls of the public front: what `recorded_calls` records and replays.

`drawn(seed, number)` is one call, the same in every process.  It depends on nothing but its seed, its number and public
names of the library.
"""

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import gpulayout as gl
from tests.support import random_arrays as arrays
from tests.support import random_texts as texts
from tests.support.foreign import Producer

WEIGHTS = {"transpose": 26, "pack": 20, "unpack": 14, "relayout": 16, "plan": 9, "view": 5, "many": 4, "to": 5}
WEIGHTS |= {"in_place": 3, "blocks": 2, "lower": 2, "shape_of": 2, "zeros": 2, "asarray": 2, "dask": 0.6}
TORCH_MODES = {"plain": 40, "no_grad": 6, "vmap": 8, "grad": 5, "jvp": 5, "fx_real": 8, "fx_fake": 8, "fake": 5}
JAX_MODES = {"plain": 40, "jaxpr": 20, "jaxpr_grad": 10, "eval_shape": 10, "jax_vmap": 5}
COMPILED = 0.018  # of the calls on tensors; each takes a second


class Call(NamedTuple):
    """A call that can run once.

    verb       its name in tables
    mode       how it runs: "plain", or inside of which function of PyTorch or JAX
    function   takes the first array, the other arguments and the options
    given      the first array
    rest       the other arguments
    options    the keywords
    """

    verb: str
    mode: str
    function: Callable[..., Any]
    given: Any
    rest: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def text(self):
        """The call in a line."""
        shown = [described(value) for value in (self.given, *self.rest)]
        shown += [f"{name}={described(value)}" for name, value in self.options.items()]
        return f"{self.verb}({', '.join(shown)})" + ("" if self.mode == "plain" else f" in {self.mode}")


def drawn(seed, number):
    """The call with a number."""
    rng = random.Random(f"{seed}:{number}")
    verb = arrays.pick(rng, WEIGHTS)
    function, given, rest, options = _DRAWN[verb](rng)
    mode = _mode(rng, given, verb)
    if mode not in ("plain", "no_grad") and rng.random() < 0.9:
        options.pop("out", None)  # it could not be written to
    if function in LENIENT and rng.random() < 0.15:
        options["strict"] = False
    return Call(verb, mode, function, given, tuple(rest), options)


def described(value):
    """An argument in a few words."""
    if isinstance(value, np.ndarray):
        words = f"{type(value).__name__} {value.dtype.str if value.dtype.isbuiltin == 1 else value.dtype.name}"
        strides = "" if value.flags.c_contiguous else f" strides {value.strides}"
        return f"<{words} {list(value.shape)}{strides}{'' if value.flags.writeable else ' read-only'}>"
    if isinstance(value, torch.Tensor):
        follows = " followed" if value.requires_grad else ""
        return f"<Tensor {str(value.dtype)[6:]} {list(value.shape)} strides {value.stride()}{follows}>"
    if isinstance(value, Producer):
        return f"<{type(value).__name__} of {described(value.array)}>"
    if isinstance(value, gl.Array):
        return f"<Array {value.layout_shape} of {described(value.buffer)}>"
    if type(value).__module__.startswith("jax"):
        return f"<jax {value.dtype} {list(value.shape)}>"
    if isinstance(value, (gl.Shape, gl.Layout)):
        return f"{type(value).__name__}({str(value)!r})"
    if isinstance(value, (tuple, list)) and any(
        hasattr(each, "shape") or isinstance(each, (list, Producer)) for each in value
    ):
        text = f"[{', '.join(map(described, value))}]"
        return text if len(text) < 500 else f"{text[:497]}..."
    text = repr(value)
    return text if len(text) < 90 else f"{text[:87]}..."


def _mode(rng, given, verb):
    if verb in ("many", "in_place", "blocks", "dask", "shape_of", "zeros"):
        return "plain"
    if isinstance(given, torch.Tensor):
        if not given.dtype.is_floating_point and rng.random() < 0.9:
            return arrays.pick(rng, TORCH_MODES | {"grad": 0, "jvp": 0})
        if rng.random() < COMPILED:
            return "compile"
        return arrays.pick(rng, TORCH_MODES)
    if type(given).__module__.startswith("jax"):
        return arrays.pick(rng, JAX_MODES if given.dtype.kind == "f" else JAX_MODES | {"jaxpr_grad": 0.5})
    return "plain"


def _typed(rng):
    """The element type and the dimensions of an array."""
    return arrays.random_type(rng), arrays.dimensions(rng)


def _array(rng, element_type, dims, kinds=arrays.KINDS):
    """An N-d array of some kind."""
    array = arrays.filled(rng, dims, arrays.dtype_of(element_type))
    return arrays.dressed(rng, array, arrays.pick(rng, kinds), element_type)


def _transpose(rng):
    element_type, dims = _typed(rng)
    given = _array(rng, element_type, dims)
    if rng.random() < 0.65:
        axes, options, result = texts.pattern(rng, dims)
        if rng.random() < 0.06:
            axes = texts.edited(rng, axes)
        if options and rng.random() < 0.06:
            name = rng.choice(list(options))
            options[name] = rng.choice((options[name] + 1, 0, -1, float(options[name]), True, str(options[name])))
        if rng.random() < 0.02:
            options |= {"zz": 2}
    else:
        (axes, result), options = texts.order(rng, dims), {}
    if rng.random() < 0.25:
        options |= texts.arithmetic(rng, element_type, dims)
    if rng.random() < 0.3:
        options["out"] = arrays.output(rng, result, texts.result_dtype(options, element_type), given)
    rest = () if axes is None and rng.random() < 0.5 else (axes,)
    return gl.transpose, given, rest, options


def _pack(rng):
    element_type, dims = _typed(rng)
    given = _array(rng, element_type, dims)
    options = texts.arithmetic(rng, element_type, dims) if rng.random() < 0.28 else {}
    named = options.get("dtype", element_type)
    named = named if isinstance(named, str) and rng.random() < 0.7 else element_type
    target = texts.target(rng, named, dims)
    if rng.random() < 0.3:
        options["out"] = _flat_output(rng, target, element_type, dims, options, given)
    return gl.pack, given, (target,), options


def _flat_output(rng, target, element_type, dims, options, given):
    """An output for the buffer of a target."""
    layout = "{" + ",".join(map(str, range(len(dims))[::-1])) + "}"
    for text in (
        target,
        f"{texts.shape_text(element_type, dims)}{target}",
        texts.shape_text(element_type, dims) + layout,
    ):
        try:
            shape = gl.parse_shape(text) if isinstance(text, str) else text
            length, dtype = shape.buffer_length, gl.zeros(shape).dtype
        except (gl.LayoutError, AttributeError, TypeError):
            continue
        dtype = dtype if shape.is_packed else texts.result_dtype(options, element_type)
        return arrays.output(rng, (length,), dtype, given)
    return arrays.output(rng, dims, texts.result_dtype(options, element_type), given)


def _buffer(rng, tiles=True):
    """(element type, dimensions, text of a shape, buffer): of NumPy, PyTorch or JAX, or an N-d array that lies so."""
    element_type, dims = _typed(rng)
    is_packed = element_type in arrays.PACKED and rng.random() < 0.7
    text = texts.shape_text(element_type, dims)
    for plain in (not tiles or rng.random() < 0.4, True):
        whole = text + texts.layout_text(rng, element_type, dims, is_packed, plain)
        try:
            zeros = gl.zeros(whole)
            break
        except gl.LayoutError:
            zeros = np.zeros(math.prod(dims), arrays.dtype_of(element_type))
    array = arrays.filled(rng, (zeros.size + (rng.random() < 0.1) - (rng.random() < 0.012 < zeros.size),), zeros.dtype)
    kinds = arrays.KINDS | {"F": 0, "Array": 0.2, "asarray": 0, "list": 0.3, "generic": 0}
    kinds |= {"strided": 1, "negative": 1, "torch_strided": 1}
    if rng.random() < 0.12 and not is_packed and plain:
        array = np.array(arrays.filled(rng, dims, arrays.dtype_of(element_type)), order=rng.choice("CF"))
        orders = [range(len(dims)), range(len(dims))[::-1]]
        if rng.random() < 0.8 and dims:
            whole = text + "{" + ",".join(map(str, orders[array.flags.c_contiguous])) + "}"
            kinds = {"plain": 4, "torch": 2, "torch_grad": 1, "jax": 1, "readonly": 1}
    buffer = arrays.dressed(rng, array, arrays.pick(rng, kinds), element_type)
    return element_type, dims, whole, buffer


def _source(rng, whole):
    """A source for a call: its text, a Shape, or a text that is wrong."""
    kind = rng.random()
    if kind < 0.04:
        return texts.edited(rng, whole)
    if kind < 0.055:
        return _layout_of(whole)
    return gl.parse_shape(whole) if kind > 0.8 else whole


def _layout_of(whole):
    """The layout in the text of a shape."""
    return whole[whole.index("{") :] if "{" in whole else "{}"


def _unpack(rng):
    element_type, dims, whole, buffer = _buffer(rng)
    options = texts.arithmetic(rng, element_type, dims) if rng.random() < 0.25 else {}
    source = _source(rng, whole)
    if rng.random() < 0.3:
        options["out"] = arrays.output(rng, dims, texts.result_dtype(options, element_type), buffer)
    (paired,) = _paired(buffer, whole)
    if rng.random() < 0.1 and (isinstance(paired, gl.Array) or rng.random() < 0.05):
        return gl.unpack, paired, () if rng.random() < 0.5 else (source,), options
    return gl.unpack, buffer, (source,), options


def _paired(buffer, whole):
    """The buffer as a `gl.Array`, if it can be one; as one value in a tuple."""
    try:
        return (gl.Array(buffer, whole),)
    except (gl.LayoutError, TypeError, BufferError, ValueError):
        return (buffer,)


def _moved(rng, most_options=0.25):
    """The arguments of relayouts: buffer, source, target and keywords."""
    element_type, dims, whole, buffer = _buffer(rng)
    options = texts.arithmetic(rng, element_type, dims) if rng.random() < most_options else {}
    named = options.get("dtype", element_type)
    named = named if isinstance(named, str) and rng.random() < 0.85 else element_type
    target = texts.target(rng, named, dims)
    if rng.random() < 0.35:
        options["out"] = _flat_output(rng, target, element_type, dims, options, buffer)
    return buffer, _source(rng, whole), target, options, whole


def _in_itself(rng):
    """A relayout within a buffer."""
    element_type, dims = _typed(rng)
    whole = texts.shape_text(element_type, dims)
    source = whole + texts.layout_text(rng, element_type, dims, plain=rng.random() < 0.85)
    target = texts.layout_text(rng, element_type, dims, plain=rng.random() < 0.85) or "{}"
    try:
        count, dtype = gl.parse_shape(source).buffer_length, gl.zeros(source).dtype
    except gl.LayoutError:
        count, dtype = math.prod(dims), arrays.dtype_of(element_type)
    kind = arrays.pick(rng, {"plain": 80, "torch": 12, "torch_grad": 4, "readonly": 4, "jax": 2})
    return arrays.dressed(rng, arrays.filled(rng, (count,), dtype), kind, element_type), source, target


def _relayout(rng):
    if rng.random() < 0.22:
        buffer, source, target = _in_itself(rng)
        options = {"out": buffer}
        if rng.random() < 0.6:
            options["max_bytes"] = rng.choice(
                (64, 256, 1024, "1K", "64M", 512, 100, 4000, rng.choice((1, 0, "x", 16.0)))
            )
        if rng.random() < 0.1:
            options |= {"dtype": rng.choice(("s32", "u8", "f16", "f32"))}
        return gl.relayout, buffer, (source, target), options
    buffer, source, target, options, whole = _moved(rng)
    if rng.random() < 0.03:
        options["max_bytes"] = 64
    (paired,) = _paired(buffer, whole)
    if rng.random() < 0.08 and (isinstance(paired, gl.Array) or rng.random() < 0.05):
        return gl.relayout, paired, (target,), options
    return gl.relayout, buffer, (source, target), options


def plan_and_call(buffer, source, target, *, out=None, names=None, strict=True, **options):
    """The plan, and what a call of it gives."""
    plan = gl.plan(source, target, names=names, **options)
    return plan, plan.explain(), plan(buffer, out=out, strict=strict)


def _names(rng, source):
    """Names for the dimensions of a source."""
    names = "nhwcd"[: source.rank if isinstance(source, gl.Shape) else str(source).count(",") // 2 + 1]
    return rng.choice((names, list(names), ",".join(names)))


def _plan(rng):
    buffer, source, target, options, _ = _moved(rng, 0.3)
    if rng.random() < 0.15:
        options["names"] = rng.choice(("ab", 5)) if rng.random() < 0.2 else _names(rng, source)
    return plan_and_call, buffer, (source, target), options


def plan_in_place(buffer, source, target, *, max_bytes):
    """The plan in place, and what a call of it gives."""
    steps = gl.plan(source, target).in_place(max_bytes)
    return steps, steps(buffer)


def _in_place(rng):
    return plan_in_place, *_three(_in_itself(rng)), {"max_bytes": rng.choice((None, None, 16, 64, 100, 512, "1K", 0))}


def _three(found):
    """(first, the rest) of three arguments."""
    return found[0], found[1:]


def plan_blocks(buffer, source, target, *, max_bytes, **options):
    """The blocks of a plan, and what they write together."""
    plan = gl.plan(source, target, **options)
    blocks = plan.blocks(max_bytes)
    out = np.zeros_like(gl.zeros(plan.target))
    for block in blocks:
        block(buffer, out=out)
    return len(blocks), [repr(block) for block in blocks[:3]], plan.passes(max_bytes), out


def _blocks(rng):
    buffer, source, target, options, whole = _moved(rng, 0.15)
    options.pop("out", None)
    if not isinstance(buffer, np.ndarray) and rng.random() < 0.9:
        buffer = gl.zeros(whole)
    return (
        plan_blocks,
        buffer,
        (source, target),
        options | {"max_bytes": rng.choice((64, 128, 500, 2048, 9000, 20000, "4K", "8K"))},
    )


def plan_lower(buffer, source, target, **options):
    """The steps of a plan, and what they give."""
    lowered = gl.plan(source, target, **options).lower()
    return str(lowered), lowered(buffer)


def _lower(rng):
    buffer, source, target, options, _ = _moved(rng, 0.05)
    options.pop("out", None)
    return plan_lower, buffer, (source, target), options


def _view(rng):
    if rng.random() < 0.4:
        element_type, dims = _typed(rng)
        axes, sizes, _ = texts.pattern(rng, dims)
        axes = texts.edited(rng, axes) if rng.random() < 0.15 else axes
        return gl.view, _array(rng, element_type, dims), (axes,), sizes
    _, _, whole, buffer = _buffer(rng, tiles=rng.random() < 0.3)
    return gl.view, buffer, (_source(rng, whole),), {}


def relayout_many(jobs, *, out=None, **options):
    """`gl.relayout_many`; an iterable of jobs may be used once."""
    return gl.relayout_many([tuple(job) for job in jobs], out=out, **options)


def _many(rng):
    jobs, outs = [], []
    for _ in range(rng.choice((0, 1, 2, 2, 3, 5))):
        buffer, source, target, options, whole = _moved(rng, 0)
        if rng.random() < 0.85:  # most of the jobs are right, else hardly any list would be
            source, target = whole, _layout_of(whole) if rng.random() < 0.3 else "C"
        if not isinstance(buffer, (np.ndarray, torch.Tensor)) and rng.random() < 0.9:
            buffer = gl.zeros(whole)
        jobs.append([buffer, source, target] if rng.random() < 0.9 else [*_paired(buffer, whole), target])
        outs.append(options.get("out") if rng.random() < 0.3 else None)
    options = {"dtype": rng.choice(("f32", "f16"))} if rng.random() < 0.12 else {}
    if rng.random() < 0.3:
        options["out"] = outs if rng.random() < 0.9 else outs[1:]
    return relayout_many, jobs, (), options


def array_to(buffer, source, target, **options):
    """An `Array` of the buffer in another layout."""
    return gl.Array(buffer, source).to(target, **options)


def _to(rng):
    buffer, source, target, options, _ = _moved(rng, 0.1)
    return array_to, buffer, (source, target), options


def _shape_of(rng):
    return gl.shape_of, _array(rng, *_typed(rng), arrays.KINDS | {"strided": 20, "wrong": 6}), (), {}


def _zeros(rng):
    element_type, dims = _typed(rng)
    options = {"align": rng.choice((1, 2, 64, 4096, 3, 0, "a", 2.0))} if rng.random() < 0.3 else {}
    return (
        gl.zeros,
        texts.target(
            rng, element_type, dims, {"whole": 80, "Shape": 20, "layout": 2, "name": 2, "wrong": 1, "catalogue": 3}
        ),
        (),
        options,
    )


def array_parts(given, layout=None):
    """What an `Array` of this array says."""
    found = gl.asarray(given, layout)
    return found, repr(found)[:200], found.nbytes, found.logical()


def _asarray(rng):
    element_type, dims = _typed(rng)
    layout = texts.target(rng, element_type, dims) if rng.random() < 0.6 else None
    return array_parts, _array(rng, element_type, dims), (layout,), {}


def dask_call(given, chunks, name, *rest, **options):
    """A call of `gl.dask`, computed in this thread."""
    import dask.array

    made = getattr(gl.dask, name)(dask.array.from_array(given, chunks=chunks), *rest, **options)
    return str(made.chunks), made.compute(scheduler="synchronous")


def _dask(rng):
    element_type, dims = rng.choice(("u8", "f32", "s16")), arrays.dimensions(rng, 400)
    given = arrays.filled(rng, dims, arrays.dtype_of(element_type))
    chunks = rng.choice((2, 3, 5, -1))
    options = {"dtype": "f32", "scale": 0.5} if rng.random() < 0.3 else {}
    if rng.random() < 0.5:
        axes, sizes, _ = texts.pattern(rng, dims)
        return dask_call, given, (chunks, "transpose", axes), options | sizes
    whole = texts.shape_text(element_type, dims) + texts.layout_text(rng, element_type, dims)
    return dask_call, given, (chunks, "pack", whole), options


LENIENT = gl.pack, gl.unpack, gl.relayout, plan_and_call, relayout_many, array_to  # what takes longer buffers

_DRAWN = {
    "transpose": _transpose,
    "pack": _pack,
    "unpack": _unpack,
    "relayout": _relayout,
    "plan": _plan,
    "view": _view,
    "many": _many,
    "to": _to,
    "in_place": _in_place,
    "blocks": _blocks,
    "lower": _lower,
    "shape_of": _shape_of,
    "zeros": _zeros,
    "asarray": _asarray,
    "dask": _dask,
}
