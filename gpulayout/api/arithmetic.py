"""Arithmetic that a call asks for: its keywords as steps, and the numbers or arrays that the steps take.

Four forms, told apart by their keywords:

    cast               dtype
    scale and shift    scale, shift              x * scale + shift
    normalise          unit, mean, std           (x / 255 - mean) / std, where only `unit` divides by 255
    quantise           scale, zero_point         rint(x / scale) + zero_point, from a float
    dequantise         scale, zero_point         (x - zero_point) * scale, from an integer to a float
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.backends import host_backend
from gpulayout.api.not_memory import FollowedArray, TracedArray, no_constant
from gpulayout.api.values import array_of_values
from gpulayout.cpu.casts import cast_values
from gpulayout.layout.checks import counted, type_text, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.memory.foreign_memory import CUDA_INTERFACE, DLPACK, offers
from gpulayout.moves.arithmetic import Arithmetic, Operation, Step

if TYPE_CHECKING:
    from gpulayout.api.array_types import HostArray

OPTIONS = ("dtype", "scale", "shift", "mean", "std", "unit", "zero_point", "saturate")
SIMPLE = ("dtype", "scale", "shift")  # for files and Dask arrays
FORMS: dict[str, tuple[str, ...]] = {
    "scale and shift": ("scale", "shift"),
    "normalise": ("unit", "mean", "std"),
    "quantise": ("scale", "zero_point"),
}
PIXELS = 255  # of u8: `unit` divides by it


class ElementChange(NamedTuple):
    """What a call asks for, for its array.

    arithmetic   what happens to each element
    parameters   arrays of the type `arithmetic.compute`, on the host
    """

    arithmetic: Arithmetic
    parameters: tuple[HostArray, ...]

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of each parameter."""
        return tuple([parameter.shape for parameter in self.parameters])

    @property
    def key(self) -> tuple[object, ...]:
        """What equal conversions have in common, hashable."""
        return self.arithmetic, self.sizes, tuple([parameter.tobytes() for parameter in self.parameters])

    @property
    def names(self) -> tuple[str, ...]:
        """The keyword of each parameter; "unit" for 255."""
        steps, form = self.arithmetic.steps, self.arithmetic.form
        asked = list(STEPS[form]) if steps else []
        if form == "normalise" and (len(steps) == 1 or steps[0].operation == "subtract"):
            del asked[0]  # a number to divide by alone is a `std`, also 255
        found: list[str] = []
        for operation, _ in steps:
            while asked[0][0] != operation:
                del asked[0]
            name = asked.pop(0)[1]
            if name is not None:
                found.append(name)
        return tuple(found)

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of a call that asks for the same."""
        given: dict[str, Any] = {"dtype": self.arithmetic.target}
        if not self.arithmetic.saturate:
            given["saturate"] = False
        if self.arithmetic.form == "quantise" and self.arithmetic.target.is_floating:
            given["zero_point"] = 0
        for name, found in zip(self.names, self.parameters):
            given[name] = True if name == "unit" else found.astype(np.int64) if name == "zero_point" else found
        return given

    def part(self, dimensions: Sequence[int], box: Sequence[tuple[int, int]]) -> ElementChange:
        """The same for a box of an array of these dimensions: parameters have the numbers of its elements.

        box   the first coordinate in each dimension and one past the last; () for no elements
        """
        found = tuple([_part_of(parameter, dimensions, box) for parameter in self.parameters])
        return ElementChange(self.arithmetic, found)


class Asked:
    """The keywords of a call that were given; None counts as not given.

    dtype   the element type of the result, if given
    given   the others by name, but for saturate
    form    "cast", "scale and shift", "normalise" or "quantise", which includes the way back
    """

    __slots__ = ("dtype", "form", "given", "_saturate")

    def __init__(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"{value_text(name)} is not a keyword of this call{meant(name)}")
        self.given = {name: value for name, value in options.items() if value is not None}
        dtype = self.given.pop("dtype", None)
        self.dtype = None if dtype is None else _element_type(dtype)
        saturate = self.given.pop("saturate", None)
        self._saturate = True if saturate is None else _flag("saturate", saturate)
        if "unit" in self.given and not _flag("unit", self.given["unit"]):
            del self.given["unit"]
        self.form = self._form()

    def __bool__(self) -> bool:
        return self.dtype is not None or bool(self.given)

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of a call that asks for the same."""
        found = dict(self.given)
        if self.dtype is not None:
            found["dtype"] = self.dtype
        if not self._saturate:
            found["saturate"] = False
        return found

    def _form(self) -> str:
        given = set(self.given)
        if not given:
            return "cast"
        if "zero_point" in given and "scale" not in given:
            raise TypeError("zero_point is part of a quantisation, which needs scale too")
        for form, names in FORMS.items():
            if given <= {*names}:
                return form
        raise TypeError(
            f"{_listed(self.given)} do not go together: write scale and shift; or mean, std and unit; or scale and "
            "zero_point"
        )

    def target_type(self, source: ElementType, given: ElementType | None, about: object) -> ElementType:
        """The element type of the result; `given` is that of a whole target shape.  Errors say what to write."""
        if self.dtype is not None and given is not None and self.dtype is not given:
            raise LayoutError(f"dtype is {self.dtype}, but the target {about} has elements of {given}")
        if given is None:
            self.check_type(source)
        return self.dtype or given or source

    def check_type(self, source: ElementType) -> None:
        """TypeError where the result would have the array's own type, to some surprise: the call has to name a type."""
        if self.form == "cast" or self.dtype is not None:
            return
        if self.form == "quantise":
            raise TypeError(
                "scale and zero_point quantise to dtype, or dequantise to it: write dtype, such as dtype='s8'"
            )
        if not (source.is_floating or source.is_complex):
            either = f", or dtype='{source}' if you mean that" if self.form == "scale and shift" else ""
            raise TypeError(
                f"{_listed(self.given)} of {source} elements {'gives' if len(self.given) == 1 else 'give'} numbers "
                f"that would be rounded to {source}: write dtype, such as dtype='f32'{either}"
            )

    def change(self, shape: Shape, target: ElementType) -> ElementChange | None:
        """The arithmetic on an array of this shape, whose dimensions the parameters fit; None for no change at all."""
        source = shape.element_type
        form = self._checked_form(source, target)
        if form == "cast":
            return None if source is target else ElementChange(Arithmetic(source, target, self._saturate), ())
        arithmetic, names = _arithmetic(form, source, target, self._saturate, tuple(self.given))
        found = [_parameter(name, PIXELS if name == "unit" else self.given[name], arithmetic, shape) for name in names]
        return ElementChange(arithmetic, tuple(found))

    def _checked_form(self, source: ElementType, target: ElementType) -> str:
        """The form between two types; TypeError for types that it does not suit."""
        pair = f"from {source} to {target}"
        if source.is_complex != target.is_complex:
            advice = "pass .real or .imag" if source.is_complex else "pass an array of complex numbers"
            raise TypeError(f"no cast {pair}: complex numbers become complex numbers, and only these do; {advice}")
        if self.form != "cast" and source.is_complex:
            raise TypeError(f"no arithmetic {pair}: complex numbers can only be cast")
        if not self._saturate and (target.is_integral or target.value[:2] in ("f4", "f6")):
            raise TypeError(f"saturate=False for {target}: {target} has no nan, so numbers out of range saturate")
        if self.form == "normalise":
            if not target.is_floating:
                raise TypeError(f"normalised elements are fractions, not {target}: write dtype='f32', 'f16' or 'bf16'")
            if "unit" in self.given and source is not ElementType.U8:
                raise TypeError(f"unit divides by 255, which suits u8 and not {source}")
        return self.form if self.form != "quantise" else self._quantised_form(source, target)

    def _quantised_form(self, source: ElementType, target: ElementType) -> str:
        if source.is_floating and (target.is_integral or target.is_floating):
            if target.is_floating and np.any(_numbers("zero_point", self.given["zero_point"])[0]):
                raise TypeError(
                    f"zero_point of {target}, a float type, must be 0: quantise to an integer type, such as dtype='s8'"
                )
            if target.is_floating and source.bits < target.bits:
                raise TypeError(
                    f"scale and zero_point would divide {source}, as quantising does, but {source} to {target} is the "
                    "way back: write scale alone, which multiplies"
                )
            return "quantise"
        if source.is_integral and target.is_floating:
            return "dequantise"
        raise TypeError(
            f"scale and zero_point quantise a float type, or dequantise an integer type to a float type: {source} to "
            f"{target} is neither" + ("; write scale and shift" if source.is_integral and target.is_integral else "")
        )


# What each form does, in order: the operation, and the name of its parameter.
STEPS: dict[str, tuple[tuple[Operation, str | None], ...]] = {
    "scale and shift": (("multiply", "scale"), ("add", "shift")),
    "normalise": (("divide", "unit"), ("subtract", "mean"), ("divide", "std")),
    "quantise": (("divide", "scale"), ("round", None), ("add", "zero_point")),
    "dequantise": (("subtract", "zero_point"), ("multiply", "scale")),
}


@functools.lru_cache(maxsize=256)
def _arithmetic(
    form: str, source: ElementType, target: ElementType, saturate: bool, given: tuple[str, ...]
) -> tuple[Arithmetic, tuple[str, ...]]:
    """The arithmetic of a form whose parameters are partly given, and the names of those that it takes, in order."""
    found = [(operation, name) for operation, name in STEPS[form] if name is None or name in given]
    if form == "quantise" and target.is_floating:
        found = found[:1]
    names = tuple([name for _, name in found if name is not None])
    steps = [Step(operation, None if name is None else names.index(name)) for operation, name in found]
    return Arithmetic(source, target, saturate, tuple(steps), form), names


def _parameter(name: str, given: Any, arithmetic: Arithmetic, shape: Shape) -> HostArray:
    """A parameter as an array of C, each number rounded once; errors name it and the array's dimensions."""
    compute = arithmetic.compute
    if type(given) is np.ndarray and given.dtype == compute.dtype:
        values, kind = given, compute
    else:
        values, kind = _numbers(name, given)
    if name == "zero_point":
        side = arithmetic.source if arithmetic.form == "dequantise" else arithmetic.target
        _check_zero_point(values, kind, side)
    sizes = _fitting(name, values.shape, shape)
    values = values.reshape(sizes)
    # A plan keeps the numbers, whatever becomes of the caller's array.
    return np.array(values, order="C") if kind is compute else cast_values(values, kind, compute)


def _numbers(name: str, given: Any) -> tuple[HostArray, ElementType]:
    """The numbers of a parameter as a host array, and their type."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is {value_text(given)}, not a number or an array of numbers")
    numbers = given
    if isinstance(given, arrays.PLAIN):  # on a machine with a GPU the default backend is not the host's
        numbers = _plain_numbers(name, given)
    elif not (hasattr(given, "__array__") or offers(given, *DLPACK) or offers(given, CUDA_INTERFACE)):
        raise TypeError(f"{name} is {type_text(given)}: it must be a number, such as a float, or an array of numbers")
    try:
        backend, array = arrays.open_array(numbers, name)
    except TracedArray:
        raise no_constant(name, f"an array without memory ({type(given).__name__})") from None
    except FollowedArray:
        raise FollowedArray(
            f"{name} requires a gradient or has a tangent, which would not follow it into the call: move without "
            f"{name} and compute with it in torch, or pass {name}.detach()"
        ) from None
    if backend is not host_backend():
        raise BufferError(f"{name} is on {backend.device(array)}: parameters are read on the host, pass a NumPy array")
    try:
        kind = ElementType.of(arrays.label(numbers, array))
    except TypeError as error:
        raise TypeError(f"{name} is {type_text(given)}, not a number or an array of numbers: {error}") from None
    if kind is ElementType.PRED or kind.is_complex:
        raise TypeError(f"{name} holds {kind} elements: it must hold real numbers")
    return array, kind


def _plain_numbers(name: str, given: Any) -> HostArray:
    """Plain numbers and lists of them, as NumPy reads them; f64 for integers of more than 64 bits."""
    arrays.check_no_dask(given, name)
    found = array_of_values(given, name, None)
    return array_of_values(given, name, np.dtype(np.float64)) if found.dtype == object else found


def _check_zero_point(values: HostArray, kind: ElementType, side: ElementType) -> None:
    if not kind.is_integral:
        raise TypeError(f"zero_point holds {kind} elements: it must hold integers, of the range of {side}")
    if side.is_integral and values.size:
        lowest, highest = (
            (-1 << side.bits - 1, (1 << side.bits - 1) - 1) if side.is_signed else (0, (1 << side.bits) - 1)
        )
        for found in (int(values.min()), int(values.max())):
            if not lowest <= found <= highest:
                raise LayoutError(f"zero_point {found} is outside the range of {side}, {lowest}..{highest}")


def _fitting(name: str, sizes: Sequence[int], shape: Shape) -> tuple[int, ...]:
    """The sizes of a parameter, one for each of the array's last dimensions, or LayoutError."""
    dimensions, kept = shape.dimensions, tuple(sizes)
    while len(kept) > len(dimensions) and kept[0] == 1:
        kept = kept[1:]
    problem = f"it has {counted(len(kept), 'dimension')}" if len(kept) > len(dimensions) else ""
    for size, (dim, own) in zip(reversed(kept), reversed(list(enumerate(dimensions)))):
        if size != own and (size == 0 or own % size):
            problem = f"its size {size} does not divide the size {own} of dimension {dim}"
    if problem:
        raise LayoutError(
            f"{name} of shape {tuple(sizes)} does not fit an array of shape {dimensions}: {problem}.  Its sizes, last "
            f"one first, must equal those of the array before the move, be 1, or divide them{_hint(sizes, dimensions)}"
        )
    return kept


def check_simple(options: Mapping[str, Any], takers: str) -> None:
    """TypeError for keywords of arithmetic beyond a cast, scale and shift.

    takers   what the call is for: "files"
    """
    for name, value in options.items():
        if name not in OPTIONS:
            raise TypeError(f"{value_text(name)} is not a keyword of this call{meant(name)}")
        if value is not None and name not in SIMPLE:
            raise TypeError(f"{name} is for arrays in memory: {takers} take dtype, scale and shift")


def _hint(sizes: Sequence[int], dimensions: tuple[int, ...]) -> str:
    """Names the shape that puts a number for each index, such as one for each channel, at its dimension."""
    several = [size for size in sizes if size != 1]
    places = [dim for dim, own in enumerate(dimensions) if several == [own]]
    if len(places) != 1:
        return ""
    fitting = (*several, *(1,) * (len(dimensions) - 1 - places[0]))
    return f": for a number for each index of dimension {places[0]}, reshape it to {fitting}"


def _listed(given: Collection[str]) -> str:
    """The names of keywords, as in "mean, std and unit"."""
    *names, last = [name for name in OPTIONS if name in given]
    return f"{', '.join(names)} and {last}" if names else last


def _part_of(parameter: HostArray, dimensions: Sequence[int], box: Sequence[tuple[int, int]]) -> HostArray:
    """The numbers of a parameter for a box.

    One number for each block of 128 stays that where the box begins and ends between blocks.  If it begins at 64, there
    is one for each 64 elements.
    """
    if dimensions and (not box or any(first >= last for first, last in box)):
        found = np.ones((), parameter.dtype)
    else:
        found, skipped = parameter, len(dimensions) - parameter.ndim
        for axis, size in enumerate(parameter.shape):
            (first, last), whole = box[skipped + axis], dimensions[skipped + axis]
            if (first, last) != (0, whole):
                step = whole // size
                places = np.arange(first, last, math.gcd(first, last, step)) // step
                found = np.take(found, places[:1] if places[0] == places[-1] else places, axis)
    found.setflags(write=False)
    return found


def _element_type(value: Any) -> ElementType:
    try:
        return ElementType.of(value)
    except TypeError as error:
        raise TypeError(f"dtype: {error}") from None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value_text(value)}: it must be True or False")
    return bool(value)


@constant_in_graphs
def meant(name: str) -> str:
    """What a misspelt keyword was meant to be, or nothing."""
    close = difflib.get_close_matches(name, (*OPTIONS, "out"), 1)
    return f": did you mean {close[0]}?" if close else ""
