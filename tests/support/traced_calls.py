"""Runs a call on tensors and JAX arrays: eagerly, with gradients, under transforms and traced; for `observed_calls`."""

import hashlib

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


def run(call):
    """(result, texts of its gradient and of what was traced) of a call in its mode."""

    def function(given):
        return call.function(given, *call.rest, **call.options)

    runner = _RUNNERS.get(call.mode)
    if runner is not None:
        return runner(lambda given: _last(function(given)), call.given)
    result = function(call.given)
    return result, _gradient(call.given, result)


def _last(found):
    """The array among the parts of a result."""
    return found[-1] if isinstance(found, tuple) else found


def _memory(found):
    """The buffer of an `Array`, or the array itself."""
    return getattr(found, "buffer", found)


def _gradient(given, result):
    """The gradient of a weighted sum of the result, if a tensor with a gradient was given."""
    result = _memory(_last(result))
    if not isinstance(given, torch.Tensor) or not isinstance(result, torch.Tensor):
        return {}
    if not given.requires_grad or not result.requires_grad:
        return {}
    wide = result.to(torch.complex64).real if result.is_complex() else result.to(torch.float32)
    weights = torch.arange(1, wide.numel() + 1, dtype=torch.float32).reshape(wide.shape) % 7
    (found,) = torch.autograd.grad((wide * weights).sum(), given, allow_unused=True)
    return {"gradient": seen_tensor(found) if found is not None else "none"}


def seen_tensor(tensor):
    """A tensor in words, with a digest of its bytes if it has some."""
    words = f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}"
    words += " followed" if tensor.requires_grad else ""
    words += f" by {type(tensor.grad_fn).__name__}" if tensor.grad_fn is not None else ""
    if isinstance(tensor, FakeTensor):
        return words
    held = tensor.new_empty(tensor.numel(), requires_grad=False)
    held.copy_(tensor.detach().reshape(-1))
    return f"{words} {_digest(held.view(torch.uint8).numpy().tobytes() if held.numel() else b'')}"


def seen_in_jax(value):
    """An array or a type of JAX in words, with a digest of its bytes if it has some."""
    import numpy as np

    if not hasattr(value, "dtype"):
        return f"{type(value).__name__} {value}"
    words = f"{type(value).__name__} {value.dtype} {tuple(value.shape)}"
    return words if type(value).__name__ == "ShapeDtypeStruct" else f"{words} {_digest(np.asarray(value).tobytes())}"


def graph_text(graph):
    """The nodes of a graph of torch.fx, numbered: names come from names in the library's source."""
    numbers, lines = {}, []
    for node in graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        value = node.meta.get("val", node.meta.get("example_value"))
        form = f" {value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if node.op == "placeholder":
            target = "given"
        arguments = torch.fx.node.map_arg((node.args, dict(sorted(node.kwargs.items()))), lambda each: numbers[each])
        lines.append(f"{numbers[node]}{form} = {node.op} {target} {arguments}")
    return "\n".join(lines)


def _digest(held):
    return hashlib.sha256(held).hexdigest()[:12]


def _no_grad(function, given):
    with torch.no_grad():
        return function(given), {}


def _vmap(function, given):
    return torch.func.vmap(function)(torch.stack([given.detach(), given.detach()])), {}


def _sum(function):
    def total(given):
        found = function(given)
        found = _memory(found)
        return (found * found).sum()

    return total


def _grad(function, given):
    return torch.func.grad(_sum(function))(given.detach()), {}


def _jvp(function, given):
    return torch.func.jvp(function, (given.detach(),), (torch.ones_like(given),)), {}


def _fx(mode):
    def run_traced(function, given):
        traced = make_fx(lambda each: _memory(function(each)), tracing_mode=mode)(given.detach())
        return None, {"lowered": graph_text(traced.graph)}

    return run_traced


def _fake(function, given):
    given = given.detach()
    with FakeTensorMode() as mode:
        return function(mode.from_tensor(given)), {}


def _compiled(function, given):
    graphs = []

    def keeping(module, inputs):
        graphs.append(graph_text(module.graph))
        return module.forward

    torch._dynamo.reset()
    result = torch.compile(function, fullgraph=True, backend=keeping)(given)
    return result, {"lowered": "\n".join(graphs)} | _gradient(given, result)


def _jaxpr(function, given):
    import jax

    return None, {"lowered": str(jax.make_jaxpr(function)(given))}


def _jaxpr_grad(function, given):
    import jax

    return None, {"lowered": str(jax.make_jaxpr(jax.grad(lambda each: _sum(function)(each).real))(given))}


def _eval_shape(function, given):
    import jax

    return jax.eval_shape(function, given), {}


def _jax_vmap(function, given):
    import jax

    return None, {"lowered": str(jax.make_jaxpr(jax.vmap(function))(given[None]))}


_RUNNERS = {
    "no_grad": _no_grad,
    "vmap": _vmap,
    "grad": _grad,
    "jvp": _jvp,
    "fx_real": _fx("real"),
    "fx_fake": _fx("fake"),
    "fake": _fake,
    "compile": _compiled,
    "jaxpr": _jaxpr,
    "jaxpr_grad": _jaxpr_grad,
    "eval_shape": _eval_shape,
    "jax_vmap": _jax_vmap,
}
