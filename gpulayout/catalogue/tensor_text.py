"""The tensor of an entry as text: in which element type and dimensions its owner keeps an array.

    tensor    := array [" if " choice ["=" value] " else " array]
    array     := type "[" dimension ("," dimension)* "]"
    type      := the name of an element type, or "dtype" for that of the logical array
    dimension := factor (("*" | "/") factor)*
    factor    := number | name of a size | name of a choice | "bits" | "ceil(" name of a size "," multiple ")"
    multiple  := (number | name of a choice) ("*" (number | name of a choice))*

`s32[rows/16,columns*bits/2]` is Marlin's: words of 32 bits, 2 for each column of 4 bits.  Each size stands in one
dimension, and a dimension has one size or none.  `ceil` is a size that the owner rounds up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError

_ARRAY = re.compile(r"(\w+)\[(.*)\]")
_COMMA = re.compile(r",(?![^(]*\))")  # not between parentheses
_WORD = r"(?:ceil\((\w+),([\w*]+)\)|(\w+))"
_FACTOR = re.compile(rf"([*/]?){_WORD}")
_PRODUCT = re.compile(rf"{_WORD}(?:[*/]{_WORD})*")


class Dimension(NamedTuple):
    """A dimension of a tensor: a size, rounded up to a multiple of `whole`, times `ratio`; or `ratio` alone."""

    size: str
    ratio: Fraction
    whole: int = 1

    def rounded(self, sizes: Mapping[str, int]) -> int:
        """The size with what its owner adds; 1 if there is none."""
        return -(-sizes[self.size] // self.whole) * self.whole if self.size else 1

    def length(self, sizes: Mapping[str, int]) -> Fraction:
        """How long the dimension is, for the sizes of an array."""
        return self.rounded(sizes) * self.ratio

    def size_of(self, number: int, count: int) -> int:
        """The size of an array whose tensor has this dimension; LayoutError where there is none."""
        piece = self.whole * self.ratio
        if not self.size and count != self.ratio:
            raise LayoutError(f"dimension {number} is {count}, not {self.ratio}")
        if count % piece.numerator:
            raise LayoutError(f"dimension {number} is {count}, not a multiple of {piece.numerator}")
        return int(count / self.ratio)


def read_tensor(
    text: str, element_type: ElementType, choices: Mapping[str, int | str]
) -> tuple[ElementType, tuple[Dimension, ...]]:
    """The element type and the dimensions of a text, for arrays of a type; `choices` has a value for every choice.

    >>> stored, (rows, columns) = read_tensor("s32[rows/16,columns*bits/2]", ElementType.U4, {})
    >>> stored, str(rows.ratio), columns.length({"columns": 64})
    (ElementType('s32'), '1/16', Fraction(128, 1))
    """
    array, _, rest = text.partition(" if ")
    condition, _, other = rest.partition(" else ")
    name, _, value = condition.partition("=")
    if rest and not (str(choices[name]) == value if value else choices[name]):
        array = other
    match = _ARRAY.fullmatch(array)
    if match is None:
        raise ValueError(f"tensor {text!r} is not a type and dimensions in brackets")
    values = {name: value for name, value in choices.items() if isinstance(value, int)} | {"bits": element_type.bits}
    dimensions = tuple(_dimension(part, values) for part in _COMMA.split(match[2]))
    return element_type if match[1] == "dtype" else ElementType.of(match[1]), dimensions


def _dimension(text: str, values: Mapping[str, int]) -> Dimension:
    if not _PRODUCT.fullmatch(text):
        raise ValueError(f"{text!r} is not a dimension of a tensor")
    size, ratio, whole = "", Fraction(1), 1
    for sign, rounded, multiple, word in _FACTOR.findall(text):
        if word in values or word.isdigit():
            number = Fraction(values[word] if word in values else int(word))
            ratio = ratio / number if sign == "/" else ratio * number
        elif size or sign == "/":
            raise ValueError(f"{text!r} is not one size, times and over numbers")
        else:
            size = rounded or word
            whole = int(_dimension(multiple, values).ratio) if rounded else 1
    return Dimension(size, ratio, whole)
