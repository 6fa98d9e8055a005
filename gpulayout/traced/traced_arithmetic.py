"""Arithmetic on traced arrays: the operations of PyTorch and JAX that do it.

Compilers make one pass of these and of the moves around them.  `traced_parameters` says which parameters are constants
of the graph, and which are inputs.

Each element becomes a number of C, takes the steps, and is rounded to the target; see `moves.arithmetic`.  Libraries
round once from 32 bits to 16, but not from f64 to bf16, and not to 8 bits on every machine.  There a number is rounded
before it is converted: a large one, whose last place is that of the target at the number, is added and subtracted.

The derivative of a change of float type is 1, for every number, and that of a product with `scale` is `scale`: also out
of range, at infinities and at nans.  So each operation here has the derivative of what it stands for, whichever number
its choices depend on.

Compilers fuse a product and a sum into one rounding, XLA multiplies by the reciprocal of a constant divisor, and both
drop a sum with 0, which makes 0 of -0.  A choice that depends on the number keeps them from it, such as
`where(x <= max, x, x + max)`, which is x if `max` is the largest number.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.float_formats import FORMATS
from gpulayout.layout.graph_constants import attempt, constant_in_graphs, is_compiling, refusing_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import Arithmetic, range_of
from gpulayout.moves.lowered_run import is_torch, viewed
from gpulayout.requests.arithmetic import PARAMETERS, Asked, ElementChange
from gpulayout.traced.traced_parameters import Constants, constants_of, inputs_of, is_stand_in, read_constants

# The name of each, then plain values: what torch.compile takes as a constant of its graph.
Operations = tuple[tuple[Any, ...], ...]

_NO_INPUTS: Mapping[str, Any] = {}
_NATIVE = (ElementType.F32, ElementType.F64)
_NO_CAST_FROM = (ElementType.F6E3M2FN, ElementType.F6E2M3FN)
_NO_CAST_TO = (ElementType.F8E8M0FNU, *_NO_CAST_FROM)
_BINARY = {
    "multiply": operator.mul,
    "add": operator.add,
    "subtract": operator.sub,
    "divide": operator.truediv,
}
_WIDE = {"float32": ("int32", 23, 127), "float64": ("int64", 52, 1023)}  # integers, bits of the mantissa, bias


def changed(options: Mapping[str, Any], array: Any) -> Any:
    """The array before a transpose, its elements changed.  Only sizes that a parameter has numbers for become fixed."""
    constants = constants_of(options)
    sizes = _sizes_for(constants, array)
    return computed(_changes(array.dtype, sizes, constants, is_torch(array)), array, inputs_of(options, array))


def change_refusal(options: Mapping[str, Any], array: Any) -> str:
    """Why the elements of a transpose in a graph cannot change so, or nothing."""
    constants = constants_of(options)
    if not attempt("_changes", array.dtype, _sizes_for(constants, array), constants, True)[1]:
        return ""
    sizes = tuple([operator.index(size) for size in array.shape])  # a message shows all sizes
    reason: str = attempt("_changes", array.dtype, sizes, constants, True)[1]
    return reason


def _sizes_for(constants: Constants, array: Any) -> tuple[int, ...]:
    """The sizes that are known, or that parameters have several numbers for; 1 for the others, which stay open."""
    fixed, is_known = _fixed_axes(constants, array.ndim), not is_compiling()
    return tuple(
        [
            operator.index(size) if is_fixed or (is_known and type(size) is int) else 1
            for size, is_fixed in zip(array.shape, fixed)
        ]
    )


# ---- the operations that keywords ask for ----------------------------------------------------------------------------


def operations_for(
    change: ElementChange, dimensions: tuple[int, ...], in_torch: bool, options: Constants
) -> Operations:
    """The operations on a logical array of these dimensions, for a call with these keywords.

    LayoutError for types that the library cannot compute with.
    """
    inputs = [name for name, value in options if is_stand_in(value)]
    parameters = []
    for name, values, blocks in change.parameters:
        ends = tuple([own if block > 1 else size for own, size, block in zip(dimensions, values.shape, blocks)])
        numbers = name if name in inputs else tuple(values.reshape(-1).tolist())
        parameters.append((numbers, values.shape, tuple([block or 1 for block in blocks]), ends))
    operations = operations_of(change.arithmetic, parameters, in_torch)
    if "zero_point" in inputs and in_torch:  # JAX raises nothing when a function runs
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


@constant_in_graphs
def _fixed_axes(options: Constants, rank: int) -> tuple[bool, ...]:
    """For each axis whether a parameter has several numbers along it, or more axes than the array."""
    shapes = [np.shape(value) for name, value in read_constants(options).items() if name in PARAMETERS]
    return tuple([any(len(shape) >= back and shape[-back] != 1 for shape in shapes) for back in range(rank, 0, -1)])


@refusing_in_graphs
def _changes(dtype: Any, sizes: tuple[int, ...], options: Constants, in_torch: bool) -> Operations:
    asked, source = Asked(read_constants(options)), Shape(ElementType.of(dtype).dtype, sizes)
    change = asked.change(source, asked.target_type(source.element_type))
    return () if change is None else operations_for(change, sizes, in_torch, options)


def operations_of(arithmetic: Arithmetic, parameters: Sequence[tuple[Any, ...]], in_torch: bool) -> Operations:
    """The operations on an array of the source's type.

    parameters   of each: its numbers in C order, or the name of an input of the graph; its sizes, and how many elements
                 each number is for, in each dimension
    LayoutError for types that the library cannot convert.
    """
    source, target = arithmetic.source, arithmetic.target
    _check(source, target, in_torch)
    if not arithmetic.steps:
        return _cast(arithmetic, in_torch)
    wide = arithmetic.compute.dtype.name
    operations: list[tuple[Any, ...]] = [("cast", wide)] if source is not arithmetic.compute else []
    for name, parameter in arithmetic.steps:
        if name in ("add", "subtract") and len(operations) and operations[-1][0] == "multiply":
            operations.append(("apart", float(np.finfo(wide).max)))
        operations.append((name, *(() if parameter is None else (wide, *parameters[parameter]))))
    return *operations, *_written(target, wide, arithmetic.saturate)


def _check(source: ElementType, target: ElementType, in_torch: bool) -> None:
    for kind in (source, target):
        is_missing = kind in (_NO_CAST_FROM if kind is source else _NO_CAST_TO)
        if in_torch:
            is_missing |= (
                kind is ElementType.U64 or kind.is_sub_byte or not hasattr(sys.modules["torch"], kind.dtype.name)
            )
        if is_missing:
            raise LayoutError(
                f"{kind} elements cannot be computed inside a traced function, because "
                f"{'PyTorch' if in_torch else 'XLA'} does not: call gpulayout outside of it, on an array in memory"
            )


def _cast(arithmetic: Arithmetic, in_torch: bool) -> Operations:
    """A plain cast: from the exact value to the nearest one of the target."""
    source, target = arithmetic.source, arithmetic.target
    is_integer = source.is_integral or source is ElementType.PRED
    if is_integer and target.is_integral:
        wide = "int64" if in_torch or source.itemsize == 8 else "int32"
        if source in (ElementType.U32, ElementType.U64) and not in_torch:
            wide = source.dtype.name
        has, takes = range_of(source), range_of(target)
        limits = max(has[0], takes[0]), min(has[1], takes[1])
        clip = () if limits == has else (("clip", *limits),)
        return ("cast", wide), *clip, ("cast", target.dtype.name)
    if source.is_complex or (target in _NATIVE and (is_integer or source not in (target, ElementType.F64))):
        return (("cast", target.dtype.name),)
    is_wide = source is ElementType.F64 or (source.is_integral and source.itemsize >= 4)
    wide = "float64" if is_wide else "float32"
    read: Operations = (("cast", wide),) if source.dtype.name != wide else ()
    if source.is_integral and source.itemsize == 8:
        read = (("odd", *((-1 << 53, 1 << 53) if source.is_signed else (0, 1 << 53))), *read)
    return *read, *_written(target, wide, arithmetic.saturate)


def _written(target: ElementType, wide: str, saturate: bool) -> Operations:
    """From numbers of f32 or f64 to the target."""
    name = target.dtype.name
    if target is ElementType.PRED:
        return (("nonzero",),)
    if target.is_integral:
        lowest, highest = range_of(target)
        digits = _WIDE[wide][1] + 1
        most = highest if highest.bit_length() <= digits else highest + 1 - (1 << highest.bit_length() - digits)
        return ("round",), ("integer", float(lowest), float(most), name, highest)
    if target in _NATIVE:
        return (("cast", name),) if name != wide else ()
    form = FORMATS[target]
    operations: list[tuple[Any, ...]] = []
    if (wide, target.bits) != ("float32", 16):
        word, mantissa, bias = _WIDE[wide]
        least, cut = bias + 1 - form.bias << mantissa, mantissa - form.mantissa_bits
        top = 2.0 ** ((form.largest >> form.mantissa_bits) - form.bias + 1)
        operations.append(
            ("near", word, 2 * bias + 1 << mantissa, least, (cut << mantissa) + (1 << mantissa - 1), wide, top)
        )
    if form.infinity is None:
        field = (1 << form.mantissa_bits) - 1
        power = (form.largest >> form.mantissa_bits) - form.bias
        largest = math.ldexp(1 + (form.largest & field) / (field + 1), power)
        operations.append(("clip", -largest, largest) if saturate or form.nan is None else ("finite", largest))
        if form.nan is None:
            operations.append(("no nan",))
    return *operations, ("cast", name)


def zero_point_check(arithmetic: Arithmetic) -> tuple[Any, ...]:
    """The operation that checks the numbers of a zero_point that is an input of the graph."""
    side = arithmetic.source if arithmetic.form == "dequantise" else arithmetic.target
    return "check", *range_of(side), side.value


def _check_zero_point(zero_point: Any, lowest: int, highest: int, name: str) -> None:
    """RuntimeError, from torch, when the graph runs: it knows the numbers only then.  torch.vmap has no such check."""
    if sys.modules["torch"]._C._functorch.is_batchedtensor(zero_point):
        return
    is_inside = ((zero_point >= lowest) & (zero_point <= highest)).all()
    sys.modules["torch"]._assert_async(is_inside, f"zero_point is outside the range of {name}, {lowest}..{highest}")


# ---- running them ----------------------------------------------------------------------------------------------------


def computed(operations: Operations, array: Any, inputs: Mapping[str, Any] = _NO_INPUTS) -> Any:
    """The array after the operations.

    inputs   of the graph that stand for parameters, by name
    """
    xp = sys.modules["torch"] if is_torch(array) else sys.modules["jax"].numpy
    for name, *numbers in operations:
        if name in _BINARY:
            array = _BINARY[name](array, _operand(xp, array, inputs, name, *numbers))
        elif name == "check":
            _check_zero_point(inputs["zero_point"], *numbers)
        elif name == "apart":
            array = xp.where(array <= numbers[0], array, array + numbers[0])
        elif name == "cast":
            array = _as(xp, array, numbers[0])
        elif name == "round":
            array = xp.round(array)
        elif name == "clip":
            array = _following(array, _clipped(xp, _held(array), *numbers))
        elif name == "near":
            array = _near(xp, array, *numbers)
        elif name == "integer":
            array = _integers(xp, array, *numbers)
        elif name == "odd":
            array = _odd(xp, array, *numbers)
        elif name == "finite":
            array = array + xp.where(abs(array) > numbers[0], math.nan, -0.0)
        elif name == "no nan":
            array = _following(array, xp.where(array != array, 0, _held(array)))
        elif name == "nonzero":
            array = array != 0
        else:
            raise AssertionError(f"no operation is called {name}")
    return array


def _as(xp: Any, array: Any, name: str) -> Any:
    kind = getattr(xp, name)
    return array.to(kind) if is_torch(array) else array.astype(kind)


def _operand(
    xp: Any, array: Any, inputs: Mapping[str, Any], operation: str, kind: str, numbers: Any, *places: Any
) -> Any:
    """A parameter, such that compilers keep the operation."""
    if isinstance(numbers, str):
        parameter, is_dropped = _spread(xp, _given(xp, array, inputs[numbers], kind), *places), True
    else:
        parameter, is_dropped = _parameter(xp, array, kind, numbers, *places), not any(numbers)
    is_dropped &= operation in ("add", "subtract")
    if not is_dropped and (operation != "divide" or is_torch(array)):
        return parameter
    return xp.where((array == array) | (array != array), parameter, math.nan)


def _given(xp: Any, array: Any, parameter: Any, kind: str) -> Any:
    """An input of the graph, in the type of the arithmetic."""
    if not is_torch(array):
        return parameter.astype(kind)
    if parameter.device != array.device:
        parameter = parameter.to(array.device)
    return parameter if parameter.dtype == getattr(xp, kind) else parameter.to(getattr(xp, kind))


def _parameter(
    xp: Any,
    array: Any,
    name: str,
    values: Sequence[float],
    *places: Sequence[int],
) -> Any:
    """A parameter of these numbers that broadcasts against the array."""
    if is_torch(array):
        parameter = xp.tensor(values, dtype=getattr(xp, name), device=array.device)
    else:
        parameter = xp.asarray(np.array(values, name))
    return _spread(xp, parameter, *places)


def _spread(xp: Any, parameter: Any, sizes: Sequence[int], blocks: Sequence[int], ends: Sequence[int]) -> Any:
    """Each number for the elements of its block, which ends with the array."""
    if max(blocks, default=1) == 1:
        return parameter.reshape(sizes)
    parameter = parameter.reshape([part for size in sizes for part in (size, 1)])
    parameter = xp.broadcast_to(parameter, [part for both in zip(sizes, blocks) for part in both])
    parameter = parameter.reshape([size * block for size, block in zip(sizes, blocks)])
    return parameter[tuple([slice(end) for end in ends])]


def _clipped(xp: Any, array: Any, lowest: float, highest: float) -> Any:
    """The limits for numbers beyond them."""
    return xp.where(array > highest, highest, xp.where(array < lowest, lowest, array))


def _held(array: Any) -> Any:
    """The same numbers, without a derivative."""
    return array.detach() if is_torch(array) else sys.modules["jax"].lax.stop_gradient(array)


def _following(array: Any, value: Any) -> Any:
    """The value, with the derivative of the array.

    No sum can do it: what has the derivative 1 at an infinity is infinite or nan there.  In torch a copy of the array
    is overwritten where autograd does not look, in operations that all transforms, compilers and exporters know.
    """
    if not is_torch(array):
        return _following_in_jax()(array, value)
    copy = array.clone()
    copy.detach().copy_(value)
    return copy


@functools.cache
def _following_in_jax() -> Any:
    function = sys.modules["jax"].custom_jvp(lambda array, value: value)
    function.defjvp(lambda arrays, tangents: (function(*arrays), tangents[0]))  # which a derivative of it follows too
    return function


def _near(xp: Any, array: Any, word: str, exponent: int, least: int, offset: int, wide: str, top: float) -> Any:
    """The nearest number with the target's mantissa."""
    if is_torch(array):
        bits = viewed(_held(array), getattr(xp, word))
        large = viewed((bits & exponent).clamp(min=least) + offset, getattr(xp, wide))
    else:
        lax = sys.modules["jax"].lax
        bits = lax.bitcast_convert_type(_held(array), word)
        large = lax.bitcast_convert_type(xp.maximum(bits & exponent, least) + offset, wide)
    rounded = (array + large) - large
    # The conversion makes a zero of a number that rounds to 0, with its sign, and an infinity of one above the top.
    return xp.where((rounded == 0) | (abs(array) > top), array, rounded)


def _integers(xp: Any, array: Any, lowest: float, most: float, name: str, highest: int) -> Any:
    """Whole numbers as integers: 0 for a nan, and the highest for all above the largest float below it."""
    numbers = xp.where(array != array, 0, _clipped(xp, array, lowest, most))
    integers = _as(xp, numbers, name)
    if most == highest:
        return integers
    if is_torch(integers) and name.startswith("uint"):  # which torch.where does not take in all releases
        signed = name.removeprefix("u")
        number = highest - (1 << int(signed.removeprefix("int")))  # the same bits
        return viewed(xp.where(array > most, number, viewed(integers, getattr(xp, signed))), getattr(xp, name))
    return xp.where(array > most, _number(xp, array, highest, name), integers)


def _number(xp: Any, like: Any, value: int, name: str) -> Any:
    if is_torch(like):
        return xp.tensor(value, dtype=getattr(xp, name), device=like.device)
    return xp.asarray(np.array(value, name))


def _odd(xp: Any, array: Any, lowest: int, highest: int) -> Any:
    """64-bit integers of more than 53 bits: the odd one of the two neighbours that f64 holds."""
    low = array & 0x7FF
    odd = (array - low) | xp.where(low != 0, 1 << 11, 0)
    is_small = (array < highest) & (array > lowest) if lowest else array < highest
    return xp.where(is_small, array, odd)
