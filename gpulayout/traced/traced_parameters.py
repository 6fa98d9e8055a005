"""Keywords of arithmetic where a function is traced: constants of its graph, or inputs of it.

Numbers, lists and JAX's and PyTorch's arrays in memory are constants.  What the library traces is an input: a tracer, a
tensor without memory or one that requires a gradient, and everything inside torch.compile, which traces tensors and
NumPy's arrays.  Only the type and the sizes of an input are known.  So the numbers may be others in the next call,
nothing compiles again, and no check can look at them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpulayout.layout.checks import type_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.moves.lowered_run import is_torch
from gpulayout.requests.arithmetic import PARAMETERS, ElementChange
from gpulayout.requests.parameters import Unknown, follower

Constants = tuple[tuple[str, Any], ...]  # keywords and their values
_INPUTS = "array", "tensor"  # the first part of what stands for an input


def no_constants(options: Mapping[str, Any], array: Any) -> str:
    """Why torch.compile cannot take keywords into a graph, or nothing.

    array   that they change; None for a plan
    """
    for name, value in options.items():
        has_tensor, has_array = _holds(value, is_torch), _holds(value, _is_array)
        if not (has_tensor or has_array):
            continue
        if name not in PARAMETERS:
            kind = "tensor" if has_tensor else "NumPy array"
            return f"{name} is a {kind} inside torch.compile, which traces it: gpulayout takes {name} as a constant"
        if _holds(value, _is_of_subclass):
            return f"{name} is of a subclass of NumPy's array, which torch.compile cannot trace"
        if has_array and sys.modules["torch"].compiler.is_exporting():  # it would keep an array without its numbers
            return (
                f"{name} is a NumPy array inside torch.export, which traces it and loses its numbers: pass a tensor, "
                "such as a buffer of the module"
            )
        if array is not None and is_torch(value) and _misplaced(name, value, array):
            return _misplaced(name, value, array)
    return ""


def traced_numbers(axes: Any, sizes: Mapping[str, Any]) -> str:
    """Why the axes of a transpose in a graph of torch.compile are no constants, or nothing."""
    for name, value in (("axes", axes), *sizes.items()):
        if _holds(value, is_torch) or _holds(value, _is_array):
            return f"{name} holds an array or a number of one, which torch.compile traces: write plain numbers"
    return ""


def kept_in_graph(value: Any) -> Any:
    """A keyword of a plan that a graph makes, whatever becomes of the caller's array or list."""
    if isinstance(value, (tuple, list)):
        return tuple([kept_in_graph(part) for part in value])
    if is_torch(value):
        return value.clone()
    return value.copy() if _is_array(value) else value


def constants_of(options: Mapping[str, Any]) -> Constants:
    """The keywords as torch.compile takes constants; inputs of the graph get a stand-in."""
    if is_compiling():
        return tuple([(name, _constant(value)) for name, value in options.items()])
    return tuple([(name, _stand_in(name, value) if _is_input(value) else value) for name, value in options.items()])


def _constant(value: Any) -> Any:
    """torch.compile may have made a variable of a number; this makes a constant again."""
    if _is_input(value):
        return _stand_in("", value)
    if isinstance(value, (tuple, list)):
        return "list", *[_constant(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return operator.index(value)
    return ("float", value.hex()) if isinstance(value, float) else value


def _is_input(value: Any) -> bool:
    if is_compiling():
        return _holds(value, is_torch) or _holds(value, _is_array)
    return follower(value) is not None


def _stand_in(name: str, value: Any) -> Any:
    array = _as_array(value)
    if not is_compiling() and not all(isinstance(size, int) for size in array.shape) and not is_torch(array):
        raise LayoutError(f"{name} has shape {array.shape}, and parameters have fixed sizes: export those")
    kind = "tensor" if _holds(value, is_torch) else "array"
    return kind, array.dtype, *[operator.index(size) for size in array.shape]


def is_stand_in(value: Any) -> bool:
    """True for what stands for an input of the graph in the constants of a call."""
    return isinstance(value, tuple) and len(value) > 1 and value[0] in _INPUTS


def inputs_of(options: Mapping[str, Any], array: Any) -> dict[str, Any]:
    """The parameters that are inputs of the graph, by name; BufferError for those that cannot meet the array."""
    inputs = {name: _as_array(value) for name, value in options.items() if _is_input(value)}
    if not is_compiling():
        for name, value in inputs.items():
            if is_torch(value) != is_torch(array):
                raise BufferError(f"{name} is {type_text(value)}, and the array is {type_text(array)}: of one library")
            wrong = _misplaced(name, value, array)
            if wrong:
                raise BufferError(wrong)
    return inputs


def _misplaced(name: str, value: Any, array: Any) -> str:
    """Why a tensor cannot meet an array, or nothing: only what is on the host goes to another device by itself."""
    if not is_torch(value) or value.device.type == "cpu" or value.device == array.device:
        return ""
    return f"{name} is on {value.device} and the array on {array.device}: pass {name}.to(array.device)"


def _holds(value: Any, test: Callable[[Any], bool]) -> bool:
    """True if `test` holds for the value, or for an entry of a list at any depth."""
    if isinstance(value, (tuple, list)):
        return True in [_holds(part, test) for part in value]
    return test(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _is_of_subclass(value: Any) -> bool:
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray


def _as_array(value: Any) -> Any:
    """An input as one array of its library; of a list with one, with NumPy's choice of a common type."""
    if is_compiling() or not isinstance(value, (tuple, list)):
        return _tensor(value) if is_compiling() else value
    library = follower(value)
    assert library is not None
    return _tensor(value) if "torch" in type(library).__module__ else _jax_array(value)


def _tensor(value: Any) -> Any:
    torch = sys.modules["torch"]
    if isinstance(value, (tuple, list)):
        parts = [_tensor(part) for part in value]
        kind = torch.float64 if True in [part.dtype.is_floating_point for part in parts] else torch.int64
        return torch.stack([part.to(kind) for part in parts])
    if is_torch(value):
        return value
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def _jax_array(value: Any) -> Any:
    """Without jax_enable_x64 the arithmetic has 32 bits, and so have the numbers."""
    numpy = sys.modules["jax"].numpy
    if not isinstance(value, (tuple, list)):
        return numpy.asarray(value)
    parts = [_jax_array(part) for part in value]
    is_floating = any(numpy.issubdtype(part.dtype, numpy.floating) for part in parts)
    return numpy.stack([part.astype(float if is_floating else int) for part in parts])


def read_constants(options: Constants) -> dict[str, Any]:
    """The keywords again, of what `constants_of` made of them."""
    return {name: _option(value) for name, value in options}


def _option(value: Any) -> Any:
    if is_stand_in(value):
        return Unknown(ElementType.of(value[1]).dtype, tuple(value[2:]), value[0] == "tensor")
    if not isinstance(value, tuple) or value[:1] not in (("list",), ("float",)):
        return value
    return float.fromhex(value[1]) if value[0] == "float" else [_option(part) for part in value[1:]]


def plain_options(change: ElementChange) -> Constants:
    """The keywords of a call that asks for the same, their numbers as tuples."""
    return tuple([(name, _plain_option(value)) for name, value in change.options.items()])


def _plain_option(value: Any) -> Any:
    if isinstance(value, ElementType):
        return value.value
    return _tuples(value.tolist()) if isinstance(value, np.ndarray) else value


def _tuples(numbers: Any) -> Any:
    return tuple([_tuples(number) for number in numbers]) if isinstance(numbers, list) else numbers
