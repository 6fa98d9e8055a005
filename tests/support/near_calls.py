"""Calls that differ from another one in one respect: what the library keeps of one must not be taken for the other."""

import numpy as np
import torch

from tests.support.random_arrays import Image


def near(call, rng):
    """(in which respect, the other call)."""
    ways = [(words, change) for words, change in _WAYS.items() if change(call, rng, only_asked=True)]
    parameters = [way for way in ways if way[0] == "another parameter"] * (rng.random() < 0.5)
    words, change = rng.choice(parameters or ways[1:] or ways)
    try:
        return words, change(call, rng, only_asked=False)
    except (TypeError, ValueError, RuntimeError):  # such as a ragged list, which is no array
        return "the same", call


def _same(call, rng, only_asked):
    """Always possible."""
    return call


def _without_out(call, rng, only_asked):
    out = call.options.get("out")
    return out is not None and call._replace(options={name: v for name, v in call.options.items() if name != "out"})


def _other_out(call, rng, only_asked):
    out = call.options.get("out")
    if not isinstance(out, np.ndarray):
        return False
    if only_asked:
        return True
    whole = np.zeros([size + 1 for size in out.shape], out.dtype)
    part = whole[(*(slice(0, size) for size in out.shape), ...)]
    others = [out.astype(np.int16), part, out.view(Image), np.zeros((*out.shape, 1), out.dtype)]
    return call._replace(options=call.options | {"out": rng.choice(others)})


def _other_parameter(call, rng, only_asked):
    kinds = (int, float, np.ndarray, list)
    names = [name for name in ("scale", "shift", "mean", "std") if type(call.options.get(name)) in kinds]
    if only_asked or not names:
        return bool(names)
    value = call.options[names[0]]
    value = np.multiply(value, 2).tolist() if isinstance(value, list) else value * 2
    return call._replace(options=call.options | {names[0]: value})


def _other_dtype(call, rng, only_asked):
    return "dtype" in call.options and call._replace(options=call.options | {"dtype": rng.choice(("f32", "f16", "s8"))})


def _other_array(call, rng, only_asked):
    given = call.given
    if type(given) is not np.ndarray or given.dtype.hasobject:
        return False
    if only_asked:
        return True
    kinds = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
    others = [given.view(Image), np.array(given, order="F"), np.repeat(given, 2, 0)[::2] if given.ndim else given]
    others += [given[1:] if given.ndim else given, given[..., None], given.view(kinds[given.itemsize])]
    others += [given.astype(np.float64) if given.dtype.kind in "iuf" else given]
    return call._replace(given=rng.choice(others))


def _other_tensor(call, rng, only_asked):
    given = call.given
    if not isinstance(given, torch.Tensor):
        return False
    if only_asked:
        return True
    others = [given.detach(), given.detach()[1:] if given.ndim else given, given.detach()[..., None]]
    others += [torch.nn.Parameter(given.detach(), requires_grad=False), given.detach().to(torch.float16)]
    if given.dtype.is_floating_point:
        others.append(given.detach().requires_grad_(not given.requires_grad))
    return call._replace(given=rng.choice(others))


def _other_mode(call, rng, only_asked):
    return isinstance(call.given, torch.Tensor) and call.mode == "plain" and call._replace(mode="no_grad")


_WAYS = {
    "the same": _same,
    "without out": _without_out,
    "another out": _other_out,
    "another parameter": _other_parameter,
    "another dtype": _other_dtype,
    "another array": _other_array,
    "another tensor": _other_tensor,
    "another mode": _other_mode,
}
