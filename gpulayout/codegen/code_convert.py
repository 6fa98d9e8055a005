"""What `convert` of generated code does, for any language: its parameters, the formula, and comments.

`convert` takes an element of the source and the numbers of the parameter arrays that apply to it.  A parameter with one
number for the whole array is a constant in the text.

    u8[8,3] to f32, scale 0.5, a shift for each column:    convert(x, shift) is x * scale + shift
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.requests.arithmetic import OPTIONS, ElementChange

SYMBOLS = {"multiply": "*", "add": "+", "subtract": "-", "divide": "/"}


class Operand(NamedTuple):
    """An operand of the steps.

    constant   its number if it is the same for all elements; else None, and the caller passes it
    position   of the number for an element in the plan's array, as text
    """

    name: str
    constant: float | None
    position: str = ""


class ConvertFunction(NamedTuple):
    """The arithmetic of a plan, and its parameters in order."""

    arithmetic: Arithmetic
    parameters: tuple[Operand, ...]

    @property
    def arguments(self) -> list[Operand]:
        """The parameters that a caller passes, in the order of the keywords: scale before zero_point."""
        arguments = [operand for operand in self.parameters if operand.constant is None]
        return sorted(arguments, key=lambda operand: OPTIONS.index(operand.name))

    @property
    def constants(self) -> list[tuple[str, float]]:
        """The names and numbers of the other ones."""
        return [(operand.name, operand.constant) for operand in self.parameters if operand.constant is not None]

    @property
    def steps(self) -> Iterator[tuple[str, str]]:
        """For each step its symbol and the name of its operand; ("", "") rounds to the nearest integer."""
        for operation, number in self.arithmetic.steps:
            yield ("", "") if number is None else (SYMBOLS[operation], self.parameters[number].name)

    @property
    def formula(self) -> str:
        """The steps as one line, such as (x - mean) / std."""
        text = "x"
        for symbol, name in self.steps:
            operand = f"({text})" if symbol in "*/" and ("+" in text or "-" in text) else text
            text = f"{operand} {symbol} {name}" if name else f"rint({text})"
        return text


def conversion_of(change: ElementChange, source: Shape) -> ConvertFunction:
    """What a plan does to an element of this source.

    TypeError for complex numbers, LayoutError for constants that have no literal.
    """
    arithmetic = change.arithmetic
    if arithmetic.source.is_complex:
        raise TypeError(
            f"convert from {arithmetic.source} to {arithmetic.target}: generated code converts real numbers; for the "
            f"parts, write the code of a plan from {arithmetic.source.component} to {arithmetic.target.component}"
        )
    operands = []
    for name, values, blocks in change.parameters:
        if values.size != 1:
            operands.append(Operand(name, None, _position(values.shape, blocks)))
        elif math.isfinite(values.item()):
            operands.append(Operand(name, values.item()))
        else:
            raise LayoutError(f"{name} is {values.item()}: generated code has finite constants")
    return ConvertFunction(arithmetic, tuple(operands))


def _position(sizes: tuple[int, ...], blocks: tuple[int, ...]) -> str:
    """Where the number for element (i0, i1, ...) stands in an array of these sizes; `/` rounds down."""
    terms, stride = [], 1
    for dim, (size, block) in reversed([*enumerate(zip(sizes, blocks))]):
        if block:
            terms.append(f"i{dim}" + (f" / {block}" if block > 1 else "") + (f" * {stride}" if stride > 1 else ""))
        stride *= size
    return " + ".join(reversed(terms)) or "0"


def comment_of(conversion: ConvertFunction, has_values: frozenset[ElementType]) -> list[str]:
    """What `convert` does, in paragraphs.

    has_values   the types that the language has; an element of another type is its code
    """
    sides = source, target = conversion.arithmetic.source, conversion.arithmetic.target
    steps = f", each step rounded to {conversion.arithmetic.compute}" if conversion.arithmetic.steps else ""
    lines = [f"An element of {source} as one of {target}: {conversion.formula}{steps}, and the result to {target}."]
    codes = [str(side) for side in dict.fromkeys(sides) if side not in has_values]
    if codes:
        low = ", in the low bits" if any(side.bits < 8 or side.value.startswith("f6e") for side in sides) else ""
        lines.append(f"Elements of {' and of '.join(codes)} are codes: the bits of one, as an unsigned integer{low}.")
    for name, _, position in conversion.arguments:
        lines.append(
            f"{name}: for element (i0, i1, ...) of the source, number {position} of the array that the plan took."
        )
    return lines
