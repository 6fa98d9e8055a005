"""CuTe layouts: shapes and strides, nested where a dimension is tiled.

A mode is a dimension, and the parts of a mode are its digits in the stride table, the lowest first.  So

    f32[2,3]{0,1:PD(3,5)}               (2,3):(1,3)
    f32[4,6]{1,0:T(2,2)}                ((2,2),(2,3)):((2,12),(1,4))
                                        row = r0 + 2 * r1, column = c0 + 2 * c1
                                        place = 2 * r0 + 12 * r1 + c0 + 4 * c1

Gaps between strides are padding; `layout.strides` finds the layout that has them.

The text is a shape, a colon, and strides in the same nesting:

    (2,3):(1,2)                 two modes
    ((2,2),3):((1,4),2)         mode 0 has two parts: 2 with stride 1 and 2 with stride 4
    (_8,_16):(_16,_1)           as CuTe's C++ prints numbers known at compile time
    Layout<Shape<_8,_16>,Stride<_16,_1>>        the same as a type, see `cute_types`
    (2,3)                       no strides: compact, and the leftmost part is the most minor, as (2,3):(1,2)

Nesting deeper than one level changes names and no places, so a mode is read as a flat list of parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from numpy.typing import DTypeLike

from gpulayout.interop.cute_types import notation_of_type
from gpulayout.layout.checks import INT64_MAX, counted, product, value_text
from gpulayout.layout.digits import Digit
from gpulayout.layout.element_type import TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.same_places import join
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big, stride_table
from gpulayout.layout.strides import layout_of, shape_from_strides
from gpulayout.layout.text import as_shape
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


def from_cute(text: str, element_type: str | DTypeLike | TorchDType) -> Shape:
    """The shape of a CuTe layout; the inverse of `to_cute`.

    Parameters
    ----------
    text : str
        Sizes, a colon and strides in elements, such as ``(2,3):(1,2)`` or ``((2,2),3):((1,4),2)``.  Without strides the
        layout is compact, and the leftmost size is the most minor.  Also as C++ has it: what `cute::print` writes, such
        as ``(_2,_3):(_1,_2)``, and a type, such as ``Layout<Shape<_2,_3>,Stride<_1,_2>>``.
    element_type : str, DTypeLike or torch.dtype
        An XLA name, or what `ElementType.of` takes; CuTe's text has none.

    Returns
    -------
    Shape
        One dimension for every mode.  Nested modes become tiles.  A gap at the end of a dimension becomes a padded
        dimension if that can say it; other gaps become tiles that are larger than what they cut.

    Raises
    ------
    ShapeTextError
        The text is not a CuTe layout.
    LayoutError
        A stride is zero or negative, modes overlap or interleave, the layout is swizzled, or its parts are in an order
        that takes tiles of more than 1000 sizes.  The message names the mode.

    Notes
    -----
    The places are CuTe's.  Nesting beyond that is not kept: ``((2,3),4):((1,2),6)`` gives the same shape as
    ``(6,4):(1,6)``.

    Examples
    --------
    >>> str(from_cute("(2,3):(1,3)", "f32")), str(from_cute("((2,2),(2,3)):((2,12),(1,4))", "f32"))
    ('f32[2,3]{0,1:PD(3,3)}', 'f32[4,6]{1,0:T(2,2)}')

    Gaps after every 2 elements, after every element, and after rows of 5 x 3:

    >>> [str(from_cute(text, "u8")) for text in ("((2,3)):((1,8))", "6:2", "(4,5,3):(16,3,1)")]
    ['u8[6]{0:T(2)(8)}', 'u8[6]{0:T(1)(2)}', 'u8[4,5,3]{2,1,0:T(*,16)}']
    """
    modes = parse_modes(text)
    for number, mode in enumerate(modes):
        _check(number, mode, text)
    modes = [_coalesced(mode) for mode in modes]
    sizes = tuple(product(part.extent for part in mode) for mode in modes)
    digits = [digit for number, mode in enumerate(modes) for digit in _digits(number, mode)]
    if all(len(mode) == 1 for mode in modes):
        try:
            return shape_from_strides([mode[0].stride for mode in modes], sizes, element_type)
        except LayoutError:  # padded dimensions alone cannot say it
            pass
    what, instead = f"CuTe layout {value_text(text)}", "split its modes into more of them"
    return Shape(element_type, sizes, layout_of(digits, sizes, what, instead))


def to_cute(shape: Shape | str) -> str:
    """The CuTe layout of a shape: where every element lies, as text; the inverse of `from_cute`.

    Parameters
    ----------
    shape : Shape or str

    Returns
    -------
    str
        Such as ``(2,3):(1,2)``: one mode for every dimension, strides in elements.  A tiled dimension is a nested mode.

    Raises
    ------
    LayoutError
        The shape has no elements, or its tiles are not strides of single coordinates: a tile cuts a dimension, or
        dimensions that ``*`` joins, and does not divide it.

    Notes
    -----
    The layout says where elements lie.  It does not say what fills padding, nor how long the buffer is: CuTe's `cosize`
    ends at the last element.

    Examples
    --------
    >>> to_cute("f32[2,3]{0,1:PD(3,5)}"), to_cute("f32[4,6]{1,0:T(2,2)}")
    ('(2,3):(1,3)', '((2,2),(2,3)):((2,12),(1,4))')
    """
    shape = as_shape(shape)
    if 0 in shape.bounds:
        raise LayoutError(f"{shape} has no CuTe layout: dimension {shape.bounds.index(0)} has size 0")
    if is_big(shape):
        raise LayoutError(f"{shape} has no CuTe layout: CuTe knows only the bit order 'little'")
    digits: list[list[Digit]] = [[] for _ in shape.dimensions]
    for digit in sorted(_coordinate_digits(shape), key=lambda digit: digit.step):
        digits[digit.dim].append(digit)
    return modes_text([_coalesced(_mode(dim, own, shape)) for dim, own in enumerate(digits)])


def _check(number: int, mode: Mode, text: str) -> None:
    """LayoutError for a part that has no places of its own."""
    for part in mode:
        wrong = (
            f"has size {part.extent}, it must be at least 1"
            if part.extent < 1
            else f"has the negative stride {part.stride}"
            if part.stride < 0
            else "has stride 0, so its elements share one place"
            if part.stride == 0 and part.extent > 1
            else ""
        )
        if wrong:
            inside = f" ({part})" if len(mode) > 1 else ""
            raise LayoutError(f"CuTe layout {value_text(text)} is not a Layout: mode {number}{inside} {wrong}")


def _coalesced(mode: Mode) -> Mode:
    """The same mode in the fewest parts: parts of size 1 go, and a part that continues the one below joins it."""
    joined = reversed(join(reversed(mode)))
    return tuple([ModeDigit(*part) for part in joined]) or mode[:1] or (ModeDigit(1, 0),)


def _coordinate_digits(shape: Shape) -> Iterator[Digit]:
    """The digits of the linear index that elements reach, all of them digits of coordinates.

    A number that is only widened has its own digits: T(2)(3) gives `c % 2` 3 places, T(*,16) gives `r * 5 + c` 16.
    """
    table = stride_table(shape)
    waiting = list(table.digits)
    while waiting:
        digit = waiting.pop()
        if digit.dim < shape.rank:
            yield digit
        elif table.reaches[digit.dim] > digit.step:
            if digit.step > 1 or digit.extent < table.reaches[digit.dim]:
                raise LayoutError(
                    f"{_tiles_of(shape)} have no CuTe layout: a tile that does not divide what it cuts, or what * "
                    "joins, has no strides"
                )
            below = table.numbers[digit.dim - shape.rank]
            waiting += (each._replace(stride=each.stride * digit.stride) for each in below)


def _mode(dim: int, digits: Sequence[Digit], shape: Shape) -> Mode:
    """The part of a dimension's digits, lowest first, that its elements reach."""
    parts, size = [], shape.bounds[dim]
    for digit in digits:
        extent = min(digit.extent, -(-size // digit.step))
        if digit.step < size < digit.step * digit.extent and size % digit.step:
            raise LayoutError(
                f"{_tiles_of(shape)} have no CuTe layout: dimension {dim} of size {size} ends inside a tile "
                f"of {digit.step}; whole tiles need {extent * digit.step}"
            )
        parts.append(ModeDigit(extent, digit.stride))
    return tuple(parts)


def _tiles_of(shape: Shape) -> str:
    return f"tiles {''.join(map(str, shape.layout.tiles))} of {shape}"


def _digits(number: int, mode: Mode) -> tuple[Digit, ...]:
    """The parts of a mode as digits of its coordinate, lowest first; parts of size 1 have none."""
    digits, step = [], 1
    for extent, stride in mode:
        if extent > 1:
            digits.append(Digit(number, step, extent, stride))
            step *= extent
    return tuple(digits)


# ---- the text ------------------------------------------------------------------------------------------


def parse_modes(text: str) -> list[Mode]:
    """The modes of a CuTe layout, with sizes and strides as they stand in the text.

    >>> parse_modes("((2,2),3):((1,4),2)")
    [(ModeDigit(extent=2, stride=1), ModeDigit(extent=2, stride=4)), (ModeDigit(extent=3, stride=2),)]
    """
    reader = Reader(text, "CuTe layout")
    if re.search(r"Sw|Composed|\bo\b", text):
        raise LayoutError(
            f"CuTe layout {value_text(text)} is swizzled or composed: a Layout has no swizzles, give sizes and strides"
        )
    if "<" in text:
        reader = Reader(notation_of_type(text), "CuTe layout")
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
    trees = []
    for field in range(2):  # sizes, strides
        texts = [_text([part[field] for part in mode]) for mode in modes]
        trees.append(texts[0] if is_number else f"({','.join(texts)})")
    return ":".join(trees)


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
