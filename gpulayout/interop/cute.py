"""CuTe layouts: shapes and strides, nested where a dimension is tiled.

A mode is a dimension, and the parts of a mode are its digits in the stride table, the lowest first.  So

    f32[2,3]{0,1:PD(3,5)}               (2,3):(1,3)
    f32[4,6]{1,0:T(2,2)}                ((2,2),(2,3)):((2,12),(1,4))
                                        row = r0 + 2 * r1, column = c0 + 2 * c1
                                        place = 2 * r0 + 12 * r1 + c0 + 4 * c1

To read a nested layout, sort all parts of all modes by stride, the largest first.  Memory is a row-major array of these
parts, and tiles must bring the digits of the dimensions into this order.  A tile cuts every entry of a list in two and
moves the lower halves behind the upper ones: with size 1 an entry stays in front, with its whole size it moves behind.
So a row of tiles can sort any list, and the sorting goes from the front, with as many parts for each tile as it can:

    ((2,2),(2,3)):((2,12),(1,4))        wanted: r1, c1, r0, c0
    dimensions (4, 6)                   have:   r, c
    T(2,2)                              have:   r1, c1, r0, c0

Gaps between strides are padding.  They can only lie at the end of a dimension, so above its highest part.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import DTypeLike

from gpulayout.interop.cute_text import Mode, Part, modes_text, parse_modes
from gpulayout.interop.strides_to_shape import shape_from_strides
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.checks import product, value_text
from gpulayout.layout.digits import Digit
from gpulayout.layout.element_type import TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.strides import with_degenerate
from gpulayout.layout.tile import Tile

Entry = tuple[Digit, ...]  # digits of one dimension, highest first

# A tile doubles the entries from the first one that it cuts.  Most of them are then empty.  So 60 parts of a mode in
# reverse order would take a tile of 2^59 sizes; no layout of a kernel comes near this limit.
_MOST_EMPTY = 1000


def from_cute(text: str, element_type: str | DTypeLike | TorchDType) -> Shape:
    """The shape of a CuTe layout.

    Parameters
    ----------
    text : str
        Sizes, a colon and strides in elements, such as ``(2,3):(1,2)`` or ``((2,2),3):((1,4),2)``.  Without strides the
        layout is compact, and the leftmost size is the most minor.
    element_type : str, DTypeLike or torch.dtype
        An XLA name, or anything `numpy.dtype` takes; CuTe's text has none.

    Returns
    -------
    Shape
        One dimension for every mode.  Nested modes become tiles, gaps become padded dimensions.

    Raises
    ------
    ShapeTextError
        The text is not a CuTe layout.
    LayoutError
        A stride is zero or negative, modes overlap, a gap lies inside a dimension, the layout is swizzled, or its parts
        are in an order that takes tiles of more than 1000 sizes.  The message names the mode.

    See Also
    --------
    to_cute : the inverse.

    Notes
    -----
    The places are CuTe's.  Nesting beyond that is not kept: ``((2,3),4):((1,2),6)`` gives the same shape as
    ``(6,4):(1,6)``.

    Examples
    --------
    >>> str(from_cute("(2,3):(1,3)", "f32")), str(from_cute("((2,2),(2,3)):((2,12),(1,4))", "f32"))
    ('f32[2,3]{0,1:PD(3,3)}', 'f32[4,6]{1,0:T(2,2)}')
    """
    given = parse_modes(text)
    for number, mode in enumerate(given):
        _check(number, mode, text)
    modes = [_coalesced(mode) for mode in given]
    sizes = tuple(product(part.extent for part in mode) for mode in modes)
    if all(len(mode) == 1 for mode in modes):
        try:
            return shape_from_strides([mode[0].stride for mode in modes], sizes, element_type)
        except LayoutError as error:
            raise LayoutError(
                f"CuTe layout {value_text(text)} is not a Layout, with mode n as dimension n: {error}"
            ) from None
    digits = [digit for number, mode in enumerate(modes) for digit in _digits(number, mode)]
    digits.sort(key=lambda digit: digit.stride)
    widened = _without_gaps(digits, sizes, text)
    return Shape(element_type, sizes, _tiled(widened, sizes, text))


def to_cute(shape: Shape | str) -> str:
    """The CuTe layout of a shape: where every element lies, as text.

    Parameters
    ----------
    shape : Shape or str
        A shape, or its text.

    Returns
    -------
    str
        Such as ``(2,3):(1,2)``: one mode for every dimension, strides in elements.  A tiled dimension is a nested mode.

    Raises
    ------
    LayoutError
        The shape has no elements, or its tiles are not strides of single coordinates: a tile does not divide a
        dimension, or ``*`` joins two.

    See Also
    --------
    from_cute : the inverse.

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
    table = stride_table(shape)
    if any(reach > 1 for reach in table.reaches[shape.rank :]):
        raise LayoutError(
            f"{_tiles_of(shape)} have no CuTe layout: a tile that does not divide what it cuts, or that joins "
            "dimensions with *, has no strides"
        )
    digits: list[list[Digit]] = [[] for _ in shape.dimensions]
    for digit in sorted(table.digits, key=lambda digit: digit.step):
        if digit.dim < shape.rank:
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
    found: list[Part] = []
    for part in mode:
        if found and part.stride == found[-1].extent * found[-1].stride:
            found[-1] = Part(found[-1].extent * part.extent, found[-1].stride)
        elif part.extent > 1:
            found.append(part)
    return tuple(found) or mode[:1] or (Part(1, 0),)


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
        parts.append(Part(extent, digit.stride))
    return tuple(parts)


def _tiles_of(shape: Shape) -> str:
    return f"tiles {''.join(map(str, shape.layout.tiles))} of {shape}"


def _digits(number: int, mode: Mode) -> Entry:
    """The parts of a mode as digits of its coordinate, lowest first; parts of size 1 have none."""
    digits, step = [], 1
    for extent, stride in mode:
        if extent > 1:
            digits.append(Digit(number, step, extent, stride))
            step *= extent
    return tuple(digits)


def _without_gaps(digits: Sequence[Digit], sizes: Sequence[int], text: str) -> list[Digit]:
    """Digits, most minor first, with the highest of each dimension widened over the gap above it."""
    problem = f"CuTe layout {value_text(text)} is not a Layout: mode"
    if digits[0].stride != 1:
        raise LayoutError(f"{problem} {digits[0].dim} has the smallest stride, {digits[0].stride}; it must be 1")
    found = []
    for lower, upper in zip(digits, digits[1:]):
        width, rest = divmod(upper.stride, lower.stride)
        pair = f"{upper.dim} ({upper.extent}:{upper.stride}) and mode {lower.dim} ({lower.extent}:{lower.stride})"
        if width < lower.extent:
            raise LayoutError(f"{problem} {pair} overlap or interleave")
        if rest:
            raise LayoutError(f"{problem} {pair} leave a gap that is not a whole number of steps of {lower.stride}")
        if width > lower.extent and lower.step * lower.extent != sizes[lower.dim]:
            raise LayoutError(
                f"{problem} {pair} leave a gap inside dimension {lower.dim}: padding can only lie at its end"
            )
        found.append(lower._replace(extent=width))
    return [*found, digits[-1]]


def _tiled(digits: Sequence[Digit], sizes: Sequence[int], text: str) -> Layout:
    """The layout with these digits, most minor first and without gaps."""
    by_highest_place = list(dict.fromkeys(digit.dim for digit in reversed(digits)))
    order = with_degenerate(by_highest_place[::-1], sizes)
    entries: list[Entry] = []
    widths = list(sizes)
    for dim in reversed(order):
        own = sorted((digit for digit in digits if digit.dim == dim), key=lambda digit: -digit.step)
        entries.append(tuple(own))
        widths[dim] = own[0].step * own[0].extent if own else 1
    padded = tuple(widths) if tuple(widths) != tuple(sizes) else None
    return Layout(order, padded_dimensions=padded, tiles=_sorting_tiles(entries, list(reversed(digits)), text))


def _sorting_tiles(entries: list[Entry], wanted: list[Digit], text: str) -> list[Tile]:
    """Tiles that bring the digits of `entries`, most major first, into the order `wanted`."""
    tiles: list[Tile] = []
    most = len(entries) + _MOST_EMPTY
    while True:
        settled = 0
        for entry in entries:
            if list(entry) != wanted[: len(entry)]:
                break
            wanted = wanted[len(entry) :]  # in place; an entry without digits always is
            settled += 1
        entries = entries[settled:]
        if not entries:
            return tiles
        upper, lower = _longest_run(entries, wanted)
        run = sum(map(len, upper))
        if not run:
            upper, lower = _cut_above(wanted[0], entries)
        if len(lower) > most:
            raise LayoutError(
                f"CuTe layout {value_text(text)} needs tiles of more than {most} sizes to reorder its parts: split its "
                "modes into more of them"
            )
        tiles.append(Tile([product(digit.extent for digit in entry) for entry in lower]))
        entries = lower if run else upper + lower
        wanted = wanted[run:]


def _longest_run(entries: list[Entry], wanted: list[Digit]) -> tuple[list[Entry], list[Entry]]:
    """What one tile leaves in front of each entry and what it moves behind.

    In front stays the longest run of wanted digits that lead their entries, in the order of the entries.
    """
    upper: list[Entry] = [()] * len(entries)
    lower = list(entries)
    after = 0
    for digit in wanted:
        place = next((n for n in range(after, len(entries)) if entries[n][:1] == (digit,)), None)
        if place is None:
            break
        upper[place], lower[place] = entries[place][:1], entries[place][1:]
        after = place + 1
    return upper, lower


def _cut_above(digit: Digit, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The same for a tile that cuts only above a digit, which then leads an entry."""
    cuts = [entry.index(digit) if digit in entry else 0 for entry in entries]
    return [entry[:cut] for entry, cut in zip(entries, cuts)], [entry[cut:] for entry, cut in zip(entries, cuts)]
