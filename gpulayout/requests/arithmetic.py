"""Arithmetic that a call asks for: its keywords as steps, and the numbers or arrays that the steps take.

Four forms, told apart by their keywords:

    cast               dtype
    scale and shift    scale, shift              x * scale + shift; with divide=True, x / scale + shift
    normalise          unit, mean, std           (x / 255 - mean) / std, where only `unit` divides by 255
    quantise           scale, zero_point         rint(x / scale) + zero_point, from a float
    dequantise         scale, zero_point         (x - zero_point) * scale, from an integer to a float
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays.array_types import ArithmeticOptions, HostArray
from gpulayout.layout.checks import value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import Arithmetic, Operation, Step
from gpulayout.requests.parameters import Parameter, block_sizes, read_parameter

OPTIONS = tuple(ArithmeticOptions.__annotations__)  # dtype first
# What each form does, in order: the operation, and the name of its parameter.
FORMS: dict[str, tuple[tuple[Operation, str | None], ...]] = {
    "scale and shift": (("multiply", "scale"), ("add", "shift")),
    "normalise": (("divide", "unit"), ("subtract", "mean"), ("divide", "std")),
    "quantise": (("divide", "scale"), ("round", None), ("add", "zero_point")),
    "dequantise": (("subtract", "zero_point"), ("multiply", "scale")),
}
PARAMETERS = ("scale", "shift", "mean", "std", "zero_point")
OTHER_WORDS = {  # of other libraries
    "bias": "shift",
    "offset": "shift",
    "add": "shift",
    "multiply": "scale",
    "factor": "scale",
    "group_size": "block",
    "block_size": "block",
    "astype": "dtype",
}
KEYWORDS = {  # of calls, beside those of arithmetic
    **dict.fromkeys(("pack", "unpack", "transpose"), ("out",)),
    "relayout": ("out", "max_bytes"),
    "plan": ("names",),
}
SHAPE_WORDS = ("shape", "layout", "source", "target", "order", "to")  # in other calls, and in other libraries
_ELSEWHERE = {  # keywords of some calls only
    "out": "out belongs to the call that moves, as in plan(buffer, out=out)",
    "max_bytes": "max_bytes is for gl.relayout, plans and gl.relayout_file",
    "chunk_size": "chunk_size is for pack, unpack and relayout of gl.dask",
    "names": "names are for gl.plan and draw",
    "axes": "axes are for gl.transpose, and belong to each job of gl.transpose_many: (array, axes)",
    "pattern": "a pattern is the second argument of gl.transpose, by position",
    "device": "results stay where the array is: move that first; an Array by gl.Array(array.buffer.to(device), "
    "array.layout_shape)",
}
_OF_SHAPES = {  # what shapes have, or are: in a transpose, such words are sizes of axes
    **dict.fromkeys(("bit_order", "bitorder"), "layouts say it, E(4,big) in text, or gl.Layout(..., bit_order='big')"),
    **{name: f"it belongs to the shape, as in gl.Shape('f32', (2, 3), {name}=64)" for name in ("pitch", "align")},
    **dict.fromkeys(SHAPE_WORDS, "shapes and layouts come before the keywords, by position"),
}
PIXELS = 255  # of u8: `unit` divides by it


class ElementChange(NamedTuple):
    """What a call asks for, for its array.

    arithmetic   what happens to each element
    parameters   the operands of its steps
    """

    arithmetic: Arithmetic
    parameters: tuple[Parameter, ...]

    @property
    def values(self) -> tuple[HostArray, ...]:
        """The numbers of each parameter."""
        return tuple([parameter.values for parameter in self.parameters])

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The blocks of each parameter."""
        return tuple([parameter.blocks for parameter in self.parameters])

    @property
    def key(self) -> tuple[object, ...]:
        """What equal conversions have in common, hashable."""
        return self.arithmetic, self.blocks, tuple([values.tobytes() for values in self.values])

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of a call that asks for the same."""
        options: dict[str, Any] = {"dtype": self.arithmetic.target}
        if not self.arithmetic.saturate:
            options["saturate"] = False
        for name, values, _ in self.parameters:
            options[name] = True if name == "unit" else self._integers(values) if name == "zero_point" else values
        if self.arithmetic.form == "scale and shift" and self.arithmetic.steps[0].operation == "divide":
            options["divide"] = True
        several = [{*blocks} - {0, 1} for blocks in zip(*self.blocks)]  # of each dimension
        if any(several) and all(len(blocks) < 2 for blocks in several):  # others divide the array exactly
            options["block"] = tuple([max(blocks, default=1) for blocks in several])
        return options

    def _integers(self, values: HostArray) -> HostArray:
        """The zero points that became these floats, 2^63 - 1 for 2^63: they become the same floats again."""
        arithmetic = self.arithmetic
        quantised = arithmetic.source if arithmetic.form == "dequantise" else arithmetic.target
        integer = np.int64 if quantised.is_signed else np.uint64
        largest = np.iinfo(integer).max
        with np.errstate(invalid="ignore"):
            return np.where(values < float(largest), values.astype(integer), integer(largest))

    def part(self, dimensions: Sequence[int], box: Sequence[tuple[int, int]]) -> ElementChange:
        """The same for a box of an array of these dimensions: parameters have the numbers of its elements.

        box   the first coordinate in each dimension and one past the last; () for no elements
        """
        return self._replace(parameters=tuple([parameter.part(dimensions, box) for parameter in self.parameters]))


def swapped(change: ElementChange | None, source: ElementType) -> ElementChange:
    """The same change of elements of type `source` whose bytes are in the other order than the machine's."""
    if change is None:
        return ElementChange(Arithmetic(source, source, swapped=True), ())
    return change._replace(arithmetic=replace(change.arithmetic, swapped=True))


class Asked:
    """The keywords of a call; None counts as not given.

    dtype        the element type of the result, if given
    parameters   those that were given, by name
    form         "cast", "scale and shift", "normalise" or "quantise", which includes the way back
    """

    __slots__ = ("dtype", "form", "parameters", "_saturate", "_divide", "_block")

    def __init__(self, options: Mapping[str, Any], others: Collection[str] = ()) -> None:
        """`others` are the call's other keywords, one of which a wrong one may mean."""
        check_keywords(options, others)
        given = {name: value for name, value in options.items() if value is not None}
        dtype = given.pop("dtype", None)
        self.dtype = None if dtype is None else _element_type(dtype)
        self._saturate = _flag("saturate", given.pop("saturate", True))
        self._divide = given.pop("divide", None)
        self._block = given.pop("block", None)
        if "unit" in given and not _flag("unit", given["unit"]):
            del given["unit"]
        self.parameters = given
        self.form = self._form()

    def __bool__(self) -> bool:
        return self.dtype is not None or bool(self.parameters)

    def _form(self) -> str:
        given = set(self.parameters)
        if self._divide is not None:
            self._divide = _flag("divide", self._divide)
            if "scale" not in given:
                raise TypeError(f"divide={value_text(self._divide)} is about scale, x / scale: give scale too")
        if self._block is not None and not given - {"unit"}:
            raise TypeError(
                f"block={value_text(self._block)} says how many elements share a number of a parameter, such as scale: "
                "give one too"
            )
        if not given:
            return "cast"
        if "zero_point" in given and "scale" not in given:
            raise TypeError("zero_point is part of a quantisation, which needs scale too")
        for form, steps in FORMS.items():
            if given <= {name for _, name in steps}:
                return form
        raise TypeError(
            f"{_listed(given)} do not go together: write scale and shift; or mean, std and unit; or scale and "
            "zero_point"
        )

    def target_type(self, source: ElementType, target: Shape | None = None) -> ElementType:
        """The element type of the result: that of a whole target shape, `dtype`, or the array's own.

        TypeError where the array's own would be a surprise: the call has to name a type.
        """
        if target is not None:
            if self.dtype is not None and self.dtype is not target.element_type:
                raise LayoutError(
                    f"dtype is {self.dtype}, but the target {target} has elements of {target.element_type}"
                )
            return target.element_type
        if self.form == "cast" or self.dtype is not None:
            return self.dtype or source
        if self.form == "quantise":
            likely = "s8" if source.is_floating else "bf16"
            raise TypeError(
                f"scale and zero_point quantise to dtype, or dequantise to it: write dtype, such as dtype='{likely}'"
            )
        if not (source.is_floating or source.is_complex):
            either = f", or dtype='{source}' if you mean that" if self.form == "scale and shift" else ""
            raise TypeError(
                f"{_listed(self.parameters)} of {source} elements {'gives' if len(self.parameters) == 1 else 'give'} "
                f"numbers that would be rounded to {source}: write dtype, such as dtype='f32'{either}"
            )
        return source

    def change(self, shape: Shape, target: ElementType) -> ElementChange | None:
        """The arithmetic on an array of this shape, whose dimensions the parameters fit; None for no change at all."""
        source = shape.element_type
        form = self._checked_form(source, target)
        if form == "cast":
            return None if source is target else ElementChange(Arithmetic(source, target, self._saturate), ())
        block = None if self._block is None else block_sizes(self._block, shape.dimensions)
        given = tuple(self.parameters)
        arithmetic, names = _arithmetic(form, source, target, self._saturate, bool(self._divide), given)
        values = self.parameters | {"unit": PIXELS}
        return ElementChange(
            arithmetic, tuple([read_parameter(name, values[name], arithmetic, shape, block) for name in names])
        )

    def _checked_form(self, source: ElementType, target: ElementType) -> str:
        """The form between two types; TypeError for types that it does not suit."""
        pair = f"from {source} to {target}"
        if source.is_complex != target.is_complex:
            advice = "pass .real or .imag" if source.is_complex else "pass an array of complex numbers"
            raise TypeError(f"no cast {pair}: complex numbers become complex numbers, and only these do; {advice}")
        if self.form != "cast" and source.is_complex:
            raise TypeError(f"no arithmetic {pair}: complex numbers can only be cast")
        if not self._saturate and (target.is_integral or (target.is_floating and not target.holds(math.nan))):
            raise TypeError(f"saturate=False for {target}: {target} has no nan, so numbers out of range saturate")
        if self.form == "normalise":
            if not target.is_floating:
                back = "; the way back is scale=std*255, shift=mean*255" if source.is_floating else ""
                raise TypeError(
                    f"normalised elements are fractions, not {target}: write dtype='f32', 'f16' or 'bf16'{back}"
                )
            if "unit" in self.parameters and source is not ElementType.U8:
                instead = f": write {self._without_unit(source)}" if source.kind == "unsigned" else ""
                raise TypeError(f"unit divides by 255, which suits u8 and not {source}{instead}")
        return self.form if self.form != "quantise" else self._quantised_form(source, target)

    def _without_unit(self, source: ElementType) -> str:
        """What divides by the largest number of an unsigned type."""
        largest = 2**source.bits - 1
        if not {"mean", "std"} & {*self.parameters}:
            return f"scale=1/{largest}"
        std = f"std=std*{largest}" if "std" in self.parameters else f"std={largest}"
        return f"mean=mean*{largest}, {std}" if "mean" in self.parameters else std

    def _quantised_form(self, source: ElementType, target: ElementType) -> str:
        """Quantise or dequantise, between two types that it suits."""
        if source.is_floating and target.is_integral:
            if self._divide is False:
                raise TypeError(
                    f"divide=False with zero_point: from {source} to {target} they quantise, rint(x / scale) + "
                    "zero_point, which divides; leave divide out"
                )
            return "quantise"
        if source.is_integral and target.is_floating:
            if self._divide:
                raise TypeError(
                    f"divide=True with zero_point: from {source} to {target} they dequantise, (x - zero_point) * "
                    "scale, which multiplies; leave divide out"
                )
            return "dequantise"
        if source.is_floating and target.is_floating:
            raise TypeError(
                f"zero_point is an integer that stands for 0, and {source} and {target} are float types: write "
                "divide=True for x / scale, or scale alone for x * scale"
            )
        raise TypeError(
            f"scale and zero_point quantise a float type, or dequantise an integer type to a float type: {source} to "
            f"{target} is neither" + ("; write scale and shift" if source.is_integral and target.is_integral else "")
        )


@functools.lru_cache(maxsize=256)
def _arithmetic(
    form: str, source: ElementType, target: ElementType, saturate: bool, divide: bool, given: tuple[str, ...]
) -> tuple[Arithmetic, tuple[str, ...]]:
    """The arithmetic of a form whose parameters are partly given, and the names of those that it takes, in order."""
    named = [(operation, name) for operation, name in FORMS[form] if name is None or name in given]
    if divide and form == "scale and shift":
        named[0] = ("divide", "scale")
    names = tuple([name for _, name in named if name is not None])
    steps = [Step(operation, None if name is None else names.index(name)) for operation, name in named]
    return Arithmetic(source, target, saturate, tuple(steps), form), names


def check_keywords(options: Mapping[str, Any], others: Collection[str] = ()) -> None:
    """TypeError for keywords that are not those of arithmetic; `others` are the call's other keywords."""
    for name in options:
        if name not in OPTIONS:
            hint = f": {_OF_SHAPES[name]}" if name in _OF_SHAPES else meant(name, others)
            raise TypeError(f"{value_text(name)} is not a keyword of this call{hint}")


def _listed(names: Collection[str]) -> str:
    """The names of keywords, as in "mean, std and unit"."""
    *others, last = [name for name in OPTIONS if name in names]
    return f"{', '.join(others)} and {last}" if others else last


def _element_type(value: Any) -> ElementType:
    try:
        return ElementType.of(value)
    except TypeError as error:
        raise TypeError(f"dtype: {error}") from None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value_text(value)}: it must be True or False")
    return bool(value)


def missing(call: str, name: str, options: Mapping[str, Any]) -> str:
    """The message of a call without the argument `name`: that it was given by another word, if it was.

    call   as it is to be written, with "..." for the argument: "pack(array, ...)"
    """
    verb = call.partition("(")[0]
    error = f"{verb}() missing 1 required positional argument: {name!r}"
    for word, value in options.items():
        if word in SHAPE_WORDS:
            return f"{error}: write gl.{call.replace('...', value_text(value))}"
        if word in ("pitch", "align"):
            return f"{error}: {_OF_SHAPES[word]}"
    return error


@constant_in_graphs
def meant(name: str, others: Collection[str] = ()) -> str:
    """What a keyword that a call lacks was meant to be, or where it belongs; or nothing.

    others   the call's keywords beside those of arithmetic
    """
    if name in _ELSEWHERE and name not in others:
        return f": {_ELSEWHERE[name]}"
    close = [OTHER_WORDS[name]] if name in OTHER_WORDS else difflib.get_close_matches(name, (*OPTIONS, *others), 1)
    if close:
        return f": did you mean {close[0]}?"
    elsewhere = difflib.get_close_matches(name, _ELSEWHERE, 1)
    return f": {_ELSEWHERE[elsewhere[0]]}" if elsewhere else ""
