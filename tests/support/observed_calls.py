"""Runs a call of `random_calls` and notes everything that can be seen of it, for `recorded_calls`.

    result   kind, dtype, shape, strides and a digest of the bytes of what is returned; texts of plans
    error    type and text of an exception
    arrays   digests of all arguments after the call, with the whole memory of slices
    gradient of the sum of a followed result, with weights
    lowered  the jaxpr or the graph of a traced call
    pieces   what the host's backend was asked to prepare; labels: the same with the dimensions that axes belong to
    cpu, gpu the plans of these pieces
    again    what the second and the third equal call give, without clearing caches in between
    near     after these, a call that differs in one respect: what is kept of the others must not be taken for it

Everything is cleared that the library keeps between calls, before each first call.  Plans of the CPU depend on the
machine, so a recording belongs to one machine.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import pathlib
import pkgutil
import random
import re
import sys
import types
import warnings

import numpy as np
import torch

import gpulayout as gl
from gpulayout.choices.backends import host_backend
from gpulayout.cpu import choose_plan
from gpulayout.gpu.choose_kernel import kernel_plan
from tests.support import traced_calls
from tests.support.foreign import Producer
from tests.support.near_calls import near
from tests.support.random_calls import drawn

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}")
_PLACE = re.compile(re.escape(str(pathlib.Path(__file__).parents[2])) + r"[^\s:]*(:\d+)?")
_SOURCE_LINES = re.compile(r"\n\s*(?:from user code|Developer debug context|-{10})")
_PREPARING = ("prepare", "prepare_arithmetic", "prepare_steps", "prepare_conversion")
_LEFT_OUT = ("gpulayout.gpu.cupy_runtime", "gpulayout.__main__")
MOST_PLANS = 6  # pieces of a call whose plans are made
SHOWN = 300  # characters of texts that are kept beside their digest


def digest(text):
    """A short digest of a text or of bytes."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:12]


# ---- what the library keeps ------------------------------------------------------------------------------------------


@functools.cache
def modules():
    """All modules of the library."""
    for found in pkgutil.walk_packages(gl.__path__, "gpulayout."):
        if found.name not in _LEFT_OUT and ".kernels" not in found.name:
            importlib.import_module(found.name)
    return [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "gpulayout"]


@functools.cache
def keepers():
    """What forgets everything that the library keeps between calls.

    These are caches of functools, of functions that take arguments: others keep what is true of the machine.  And
    objects of the library's classes that can be cleared, and annotated dictionaries of modules that are no constants.
    """
    found = {}
    for module in modules():
        owners = [module, *(each for each in vars(module).values() if isinstance(each, type))]
        for value in (value for owner in owners for value in vars(owner).values()):
            value = getattr(value, "__func__", value)
            wrapped = getattr(value, "__wrapped__", None)
            if hasattr(value, "cache_clear"):
                if isinstance(wrapped, types.FunctionType) and wrapped.__module__.startswith("gpulayout"):
                    if wrapped.__code__.co_argcount:
                        found[id(value)] = value.cache_clear
            elif type(value).__module__.startswith("gpulayout") and callable(getattr(type(value), "clear", None)):
                found[id(value)] = value.clear
        for name, value in vars(module).items():
            is_cache = name.lower() == name and name in vars(module).get("__annotations__", ())
            if type(value) is dict and is_cache:
                found[id(value)] = value.clear
    return list(found.values())


def forget():
    """Every later call makes its plans anew."""
    for clear in keepers():
        clear()


# ---- what the backend prepares ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def noted_pieces():
    """A list that gets (method, what it was given) whenever the host's backend prepares something."""
    kind, noted = type(host_backend()), []
    before = {name: getattr(kind, name) for name in _PREPARING}

    def noting(name):
        def prepare(backend, given):
            noted.append((name, given))
            made = before[name]
            return made(given) if isinstance(made, type) else made(backend, given)

        return prepare

    for name in _PREPARING:
        setattr(kind, name, noting(name))
    try:
        yield noted
    finally:
        for name, method in before.items():
            setattr(kind, name, method)


def canonical(value, labels=False):
    """A text of plain data, equal in every process; with `labels`, also which dimensions axes belong to."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        names = value._fields
    elif isinstance(value, (tuple, list)):
        return f"({', '.join(canonical(each, labels) for each in value)})"
    elif isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{digest(value.tobytes())}"
    elif isinstance(value, dict):
        return canonical([(str(name), value[name]) for name in sorted(value, key=str)], labels)
    else:
        return plain(repr(value))
    shown = [f"{name}={canonical(getattr(value, name), labels)}" for name in names if labels or name != "dimensions"]
    return f"{type(value).__name__}({', '.join(shown)})"


def plain(text):
    """A text without addresses, and without places in files of this folder."""
    return _PLACE.sub("", _ADDRESS.sub("0x…", text))


def with_digest(text):
    """The digest of a text, and its beginning, which can be read."""
    return f"{digest(text)} {text[:SHOWN]}"


_plans = {}


def planned(noted, key):
    """(plans of the CPU, of the GPU) of noted pieces, as digests; they are functions of the pieces, whose digest is
    `key`.
    """
    if key not in _plans:
        moves = [move for _, given in noted for move in moves_in(given)]
        cpu = [_attempt(choose_plan.as_json, move) for move in moves[:MOST_PLANS]]
        gpu = [_attempt(kernel_plan, move) for move in moves[:MOST_PLANS]]
        _plans[key] = with_digest(canonical(cpu)), with_digest(canonical(gpu))
    return _plans[key]


def moves_in(value):
    """The moves within pieces or steps."""
    if hasattr(value, "place_count"):
        return [value]
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [move for each in value for move in moves_in(each)] if isinstance(value, (tuple, list)) else []


def _attempt(function, move):
    try:
        return function(move)
    except (BufferError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


# ---- values ----------------------------------------------------------------------------------------------------------


def seen(value):
    """A value in words: an array with its form and a digest of its bytes, others as text."""
    if isinstance(value, np.ma.MaskedArray):
        return f"{seen(value.view(np.ndarray))} masked {seen(np.ma.getmaskarray(value))}"
    if isinstance(value, (np.ndarray, np.generic)):
        name = value.dtype.str if value.dtype.isbuiltin == 1 else value.dtype.name
        bits = digest(repr(value)) if value.dtype.hasobject else digest(value.tobytes())
        writes = "" if isinstance(value, np.generic) or value.flags.writeable else " read-only"
        return f"{type(value).__name__} {name} {value.shape} {value.strides} {bits}{writes}"
    if isinstance(value, torch.Tensor):
        return traced_calls.seen_tensor(value)
    if isinstance(value, gl.Array):
        return f"Array {value.layout_shape} of {seen(value.buffer)}"
    if isinstance(value, Producer):
        return f"{type(value).__name__} of {seen(value.array)}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} [{', '.join(map(seen, value))}]"
    if type(value).__module__.startswith("jax"):
        return traced_calls.seen_in_jax(value)
    text = plain(str(value) if isinstance(value, (gl.Shape, gl.Layout)) else repr(value))
    return f"{type(value).__name__} {text if len(text) < SHOWN else with_digest(text)}"


def memory_of(value):
    """The array that owns the memory of a NumPy array, so that writes beside a slice are seen."""
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    if isinstance(value, gl.Array):
        return memory_of(value.buffer)
    return [memory_of(each) for each in value] if isinstance(value, (tuple, list)) else value


def error_text(error):
    """The type and the text of an exception, with its notes."""
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    text = _SOURCE_LINES.split(text)[0]
    return plain(f"{type(error).__name__}: {text}")


# ---- a call ----------------------------------------------------------------------------------------------------------


def ran(call):
    """What can be seen of one run of a call, apart from pieces."""
    found, out = {}, call.options.get("out")
    try:
        result, more = traced_calls.run(call)
        words = seen(result)
        found["result"] = f"{words}{' is out' if result is out is not None else ''}"
        found |= {name: with_digest(plain(text)) for name, text in more.items()}
    except Exception as error:  # every kind is recorded
        found["error"] = error_text(error)
    given = [call.given, *call.rest, *call.options.values()]
    found["arrays"] = digest(" ".join(seen(memory_of(value)) for value in given if not isinstance(value, str)))
    return found


@contextlib.contextmanager
def quiet():
    """One thread, NumPy, no warnings: what is seen must not depend on the machine's load."""
    modules(), keepers()
    with warnings.catch_warnings(), np.errstate(all="ignore"), gl.use_threads(1), gl.use_backend("numpy"):
        warnings.simplefilter("ignore")
        yield


def observed(seed, number, call):
    """All fields of a call that was just drawn with this seed and number.  Unless compiled, it runs
    three times, and then a call near it."""
    with noted_pieces() as noted:
        forget()
        found = ran(call)
    if noted:
        text = "; ".join(f"{name} {canonical(given)}" for name, given in noted)
        found["pieces"] = with_digest(text)
        found["labels"] = digest("; ".join(f"{name} {canonical(given, True)}" for name, given in noted))
        found["cpu"], found["gpu"] = planned(noted, digest(text))
    if call.mode != "compile":
        others = [ran(drawn(seed, number)) for _ in range(2)]
        found["again"] = "; ".join(_differences(found, other) or "same" for other in others)
        words, other = near(drawn(seed, number), random.Random(f"{seed}:{number}:near"))
        seen_there = ran(other)
        found["near"] = f"{words}: {' '.join(f'{name} {text}' for name, text in sorted(seen_there.items()))}"
    return found


def _differences(first, other):
    """What another run of the same call gave instead."""
    names = [
        name for name in ("result", "error", "arrays", "gradient", "lowered") if first.get(name) != other.get(name)
    ]
    return "".join(f"{name}: {other.get(name)} " for name in names).strip()
