"""The text of a CuTe layout: a shape, a colon, and strides in the same nesting.

    (2,3):(1,2)                 two modes
    ((2,2),3):((1,4),2)         mode 0 has two parts: 2 with stride 1 and 2 with stride 4
    (_8,_16):(_16,_1)           as CuTe's C++ prints numbers known at compile time
    (2,3)                       no strides: compact, and the leftmost part is the most minor, as (2,3):(1,2)

The parts of a mode are digits of its coordinate, the leftmost the lowest.  So nesting deeper than one level changes
names and no places, and a mode is read as a flat list of parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.layout.checks import INT64_MAX, counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.text_reader import Reader

MAX_DEPTH = 32  # of parentheses; every level is a call


class ModeDigit(NamedTuple):
    """A digit of a mode's coordinate: `extent` values, each `stride` elements after the one before."""

    extent: int
    stride: int

    def __str__(self) -> str:
        return f"{self.extent}:{self.stride}"


Mode = tuple[ModeDigit, ...]  # lowest part first; the leftmost in text
Tree = int | list["Tree"]


def parse_modes(text: str) -> list[Mode]:
    """The modes of a CuTe layout, with sizes and strides as they stand in the text.

    >>> parse_modes("((2,2),3):((1,4),2)")
    [(ModeDigit(extent=2, stride=1), ModeDigit(extent=2, stride=4)), (ModeDigit(extent=3, stride=2),)]
    """
    reader = Reader(text, "CuTe layout")
    if re.search(r"Sw|\bo\b", text):
        raise LayoutError(
            f"CuTe layout {value_text(text)} is swizzled or composed: a Layout has no swizzles, give sizes and strides"
        )
    sizes = _tree(reader, "a size")
    if not reader.accept(":"):
        reader.end()
        return _compact(_modes(sizes), text)
    start = reader.position
    strides = _tree(reader, "a stride")
    reader.end()
    if not _congruent(sizes, strides):
        raise reader.error("the strides are not nested as the sizes are", start)
    return [tuple(map(ModeDigit, *mode)) for mode in zip(_modes(sizes), _modes(strides))]


def modes_text(modes: Sequence[Mode]) -> str:
    """The text of modes: the inverse of `parse_modes`, without spaces.

    >>> modes_text([(ModeDigit(2, 1), ModeDigit(2, 4)), (ModeDigit(3, 2),)])
    '((2,2),3):((1,4),2)'
    >>> modes_text([(ModeDigit(6, 1),)]), modes_text([])
    ('6:1', '():()')
    """
    is_number = [len(mode) for mode in modes] == [1]
    sides = []
    for side in range(2):
        texts = [_text([part[side] for part in mode]) for mode in modes]
        sides.append(texts[0] if is_number else f"({','.join(texts)})")
    return ":".join(sides)


def _text(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"({','.join(map(str, numbers))})"


def _tree(reader: Reader, what: str, depth: int = 0) -> Tree:
    """A number, or a list of trees in parentheses."""
    if not reader.ahead("("):
        return _number(reader, what)
    if depth == MAX_DEPTH:
        raise reader.error(f"more than {counted(MAX_DEPTH, 'level')} of parentheses")
    reader.mark("(")
    branches: list[Tree] = []
    while not reader.ahead(")") or branches:
        branches.append(_tree(reader, what, depth + 1))
        if not reader.accept(","):
            break
    reader.mark(")")
    return branches


def _number(reader: Reader, what: str) -> int:
    """An integer, also as CuTe prints one known at compile time: `_8`."""
    position = reader.position
    digits = reader.value.removeprefix("_") if reader.kind == "name" else reader.value
    if reader.kind not in ("number", "name") or not re.fullmatch("-?[0-9]+", digits):
        raise reader.error(f"expected {what}")
    reader.advance()
    if reader.value == "@":
        raise reader.error("basis strides such as 1@0 are coordinates, not places in memory", position)
    if len(digits) > 20 or abs(int(digits)) > INT64_MAX:
        raise reader.error(f"{what} of {len(digits)} digits does not fit in 63 bits", position)
    return int(digits)


def _congruent(a: Tree, b: Tree) -> bool:
    """True when two trees have the same nesting."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(_congruent, a, b))


def _modes(tree: Tree) -> list[list[int]]:
    """The numbers of each mode, in the order of the text; a number alone is one mode."""
    return [_leaves(mode) for mode in ([tree] if isinstance(tree, int) else tree)]


def _leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for branch in tree for leaf in _leaves(branch)]


def _compact(sizes: list[list[int]], text: str) -> list[Mode]:
    """The modes with the strides of a layout without gaps, the leftmost part the most minor.

    `LayoutError` as soon as a stride has more than 63 bits: numbers that grow with every size take quadratic time.
    """
    modes, stride = [], 1
    for number, mode in enumerate(sizes):
        parts = []
        for size in mode:
            parts.append(ModeDigit(size, stride))
            stride *= size
            if stride > INT64_MAX:
                raise LayoutError(
                    f"CuTe layout {value_text(text)} has 2^63 elements or more: mode {number} is the first one too many"
                )
        modes.append(tuple(parts))
    return modes
