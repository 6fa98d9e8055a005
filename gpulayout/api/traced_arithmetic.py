"""Arithmetic on traced arrays: its keywords as constants of a graph, and the operations that they ask for.

Compilers make one pass of these and of the moves around them.  The parameters are constants of the graph, so a traced
one is an error.  But torch.compile traces all of NumPy's arrays, which may have other numbers in the next call: they
are inputs of the graph.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpulayout.api.arithmetic import PARAMETERS, Asked, ElementChange
from gpulayout.api.library import no_constant
from gpulayout.api.traced_operations import Operations, computed, operations_of, zero_point_check
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs, is_compiling, refusal, refusing_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.moves.lowered_run import is_torch

Constants = tuple[tuple[str, Any], ...]  # keywords and their values


def changed(options: Mapping[str, Any], array: Any) -> Any:
    """The array before a transpose, its elements changed.  Only sizes that a parameter has numbers for become fixed."""
    constants = constants_of(options)
    sizes = _sizes_for(constants, array)
    return computed(_changes(array.dtype, sizes, constants, is_torch(array)), array, inputs_of(options))


def change_refusal(options: Mapping[str, Any], array: Any) -> str:
    """Why the elements of a transpose in a graph cannot change so, or nothing."""
    constants = constants_of(options)
    if not refusal("_changes", array.dtype, _sizes_for(constants, array), constants, True):
        return ""
    sizes = tuple([operator.index(size) for size in array.shape])  # a message shows all sizes
    return refusal("_changes", array.dtype, sizes, constants, True)


def _sizes_for(constants: Constants, array: Any) -> tuple[int, ...]:
    """The sizes that are known, or that parameters have several numbers for; 1 for the others, which stay open."""
    fixed, is_known = _fixed_axes(constants, array.ndim), not is_compiling()
    return tuple(
        [
            operator.index(size) if is_fixed or (is_known and type(size) is int) else 1
            for size, is_fixed in zip(array.shape, fixed)
        ]
    )


def no_constants(options: Mapping[str, Any]) -> str:
    """Why torch.compile cannot take keywords into a graph, or nothing."""
    for name, value in options.items():
        if _holds(value, is_torch):
            return str(no_constant(name, "a tensor inside torch.compile, which traces it"))
        if not _holds(value, _is_array):
            continue
        if name not in PARAMETERS:
            return str(no_constant(name, "a NumPy array inside torch.compile, which traces it"))
        if _holds(value, _is_of_subclass):
            return str(no_constant(name, "of a subclass of NumPy's array, which torch.compile cannot trace"))
        if sys.modules["torch"].compiler.is_exporting():  # it would keep an array without its numbers
            return str(no_constant(name, "a NumPy array inside torch.export, which traces it and loses its numbers"))
    return ""


def kept_in_graph(value: Any) -> Any:
    """A keyword of a plan that a graph makes, whatever becomes of the caller's array or list."""
    if isinstance(value, (tuple, list)):
        return tuple([kept_in_graph(part) for part in value])
    return value.copy() if _is_array(value) else value


def constants_of(options: Mapping[str, Any]) -> Constants:
    """The keywords as torch.compile takes constants."""
    if not is_compiling():
        return tuple(options.items())
    return tuple([(name, _constant(value)) for name, value in options.items()])


def _constant(value: Any) -> Any:
    """torch.compile may have made a variable of a number; this makes a constant again.  Arrays get a stand-in."""
    if _holds(value, _is_array):
        tensor = _tensor(value)
        return "array", tensor.dtype, *[operator.index(size) for size in tensor.shape]
    if isinstance(value, (tuple, list)):
        return "list", *[_constant(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return operator.index(value)
    return ("float", value.hex()) if isinstance(value, float) else value


def inputs_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that torch.compile makes inputs of the graph, by name."""
    if not is_compiling():
        return {}
    return {name: _tensor(value) for name, value in options.items() if _holds(value, _is_array)}


def _holds(value: Any, test: Callable[[Any], bool]) -> bool:
    """True for such a value, and for a list that has one at any depth."""
    if isinstance(value, (tuple, list)):
        return True in [_holds(part, test) for part in value]
    return test(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _is_of_subclass(value: Any) -> bool:
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray


def _tensor(value: Any) -> Any:
    """What torch.compile makes of an array of NumPy, or of a list with one, with NumPy's choice of a common type."""
    torch = sys.modules["torch"]
    if isinstance(value, (tuple, list)):
        parts = [_tensor(part) for part in value]
        kind = torch.float64 if True in [part.dtype.is_floating_point for part in parts] else torch.int64
        return torch.stack([part.to(kind) for part in parts])
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def read_constants(options: Constants) -> dict[str, Any]:
    """The keywords again, of what `constants_of` made of them."""
    return {name: _option(value) for name, value in options}


def _option(value: Any) -> Any:
    if not isinstance(value, tuple) or value[:1] not in (("list",), ("float",), ("array",)):
        return value
    if value[0] == "array":
        return np.zeros(value[2:], ElementType.of(value[1]).dtype)
    return float.fromhex(value[1]) if value[0] == "float" else [_option(part) for part in value[1:]]


# ---- what is planned -----------------------------------------------------------------------------------------------


def operations_for(
    change: ElementChange, dimensions: tuple[int, ...], in_torch: bool, options: Constants
) -> Operations:
    """The operations on a logical array of these dimensions, for a call with these keywords.

    LayoutError for types that the library cannot compute with.
    """
    inputs = [name for name, value in options if isinstance(value, tuple) and value[:1] == ("array",)]
    parameters = []
    for name, found, blocks in change.parameters:
        ends = tuple([own if block > 1 else size for own, size, block in zip(dimensions, found.shape, blocks)])
        numbers = name if name in inputs else tuple(found.reshape(-1).tolist())
        parameters.append((numbers, found.shape, tuple([block or 1 for block in blocks]), ends))
    operations = operations_of(change.arithmetic, parameters, in_torch)
    if "zero_point" in inputs:
        operations = (zero_point_check(change.arithmetic), *operations)
    if not in_torch and not sys.modules["jax"].config.jax_enable_x64:
        wide = [value for values in operations for value in values if value in ("float64", "int64", "uint64")]
        if wide:
            raise LayoutError(
                f"{change.arithmetic.form} from {change.arithmetic.source} to {change.arithmetic.target} computes in "
                f"{wide[0]}, which JAX has only with jax_enable_x64: set that, or call gpulayout outside of the traced "
                "function"
            )
    return operations


def plain_options(change: ElementChange) -> Constants:
    """The keywords of a call that asks for the same, their numbers as lists."""
    return tuple([(name, _plain_option(value)) for name, value in change.options.items()])


def _plain_option(value: Any) -> Any:
    if isinstance(value, ElementType):
        return value.value
    return _tuples(value.tolist()) if isinstance(value, np.ndarray) else value


def _tuples(numbers: Any) -> Any:
    return tuple([_tuples(number) for number in numbers]) if isinstance(numbers, list) else numbers


@constant_in_graphs
def _fixed_axes(options: Constants, rank: int) -> tuple[bool, ...]:
    """For each axis whether a parameter has several numbers along it, or more axes than the array."""
    shapes = [np.shape(value) for name, value in read_constants(options).items() if name in PARAMETERS]
    return tuple([any(len(shape) >= back and shape[-back] != 1 for shape in shapes) for back in range(rank, 0, -1)])


@refusing_in_graphs
def _changes(dtype: Any, sizes: tuple[int, ...], options: Constants, in_torch: bool) -> Operations:
    asked, source = Asked(read_constants(options)), Shape(ElementType.of(dtype).dtype, sizes)
    asked.check_type(source.element_type)
    change = asked.change(source, asked.dtype or source.element_type)
    return () if change is None else operations_for(change, sizes, in_torch, options)
