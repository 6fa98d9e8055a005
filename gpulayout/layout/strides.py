"""From strides to a layout: of dimensions, where gaps are padding, or of digits, where gaps are tiles too.

`layout_from_strides` orders dimensions by their strides.  Example: dimensions (2, 3) with strides (1, 3) elements.
Dimension 0 is minor; dimension 1 steps over 3 places where dimension 0 needs only 2, so dimension 0 is padded to 3.
Nothing lies above the most major dimension to show a gap, so its width is its size.

Any stride fits a dimension of size 1, because nothing ever steps along it.  But libraries write the stride that the
dimension would have if it were longer, and that tells apart orders with the same bytes.  Sizes (8, 1, 4, 4):

    strides (16, 16, 4, 1)     dimension 1 lies above 2 and 3: descending, {3,2,1,0}
    strides (16,  1, 4, 1)     dimension 1 is the most minor: channels last, {1,3,2,0}

`shape_from_strides` reads them so.  Several orders may have the same strides, as those of sizes (8, 1, 1, 1) and
strides (1, 1, 1, 1).  Then the descending one is preferred, and after it those that the library has names for.

`layout_of` sorts the digits of all dimensions by their strides, the largest first.  Memory is a row-major array of
them: tiles must bring the digits into this order.  A tile cuts every entry of a list in two and moves the lower halves
behind the upper ones: with size 1 an entry stays in front, with its whole size it moves behind.  So a row of tiles can
sort any list, and the sorting goes from the front, with as many digits for each tile as it can:

    rows r, columns c of (4, 6)         wanted: r1, c1, r0, c0, with strides 12, 4, 2, 1
    dimensions (4, 6)                   have:   r, c
    T(2,2)                              have:   r1, c1, r0, c0

A gap above a digit makes it wider.  The highest digit of a dimension is widened by a padded dimension, before all
tiles.  The others are widened by one last tile, which is larger than what it cuts and leaves everything in its order.
A gap below all digits is a digit that is always 0, which a tile of 1 makes:

    8 elements, i // 2 * 5 + i % 2      T(2) makes c1, c0; (5) widens c0 to 5 places
    8 elements, i * 3                   T(1) makes c, 0; (3) widens the 0 to 3 places

Where a stride is not a multiple of the next smaller one, no digit can be widened.  Then `*` joins all digits below the
gap to one number, and this is widened:

    (4, 5, 3), r * 16 + c * 3 + b       T(*,16) joins c and b to the number c * 3 + b, and gives it 16 places
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.digits import Digit
from gpulayout.layout.element_type import ElementType, TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.tile import COMBINE, Combine, Tile

Entry = tuple[Digit, ...]  # digits of one dimension, highest first


def layout_from_strides(
    dimensions: Iterable[SupportsIndex],
    strides: Iterable[SupportsIndex],
    *,
    itemsize: SupportsIndex = 1,
    padding: bool = True,
) -> Layout:
    """The layout that puts elements where `strides` put them.

    Parameters
    ----------
    dimensions : iterable of int
        Logical sizes in elements.
    strides : iterable of int
        The distance between neighbours along each dimension: in bytes, or in elements if `itemsize` is 1.
    itemsize : int, optional
        Bytes of one element when strides are in bytes; 1 (the default) when they are in elements.
    padding : bool, optional
        True (the default) turns gaps between strides into padded dimensions; False refuses them.

    Returns
    -------
    Layout

    Raises
    ------
    LayoutError
        No layout has these strides: they are negative, zero, not whole elements or overlapping, or a gap is not a
        multiple of the stride below it.

    See Also
    --------
    gpulayout.shape_of : the shape of an array.

    Notes
    -----
    Strides of dimensions of size 1 are ignored; these dimensions are placed beside their neighbours.  An array without
    elements gets the descending layout.

    Examples
    --------
    >>> layout_from_strides((2, 3), (4, 12), itemsize=4)
    Layout((0, 1), padded_dimensions=(3, 3))
    """
    dimensions = checks.sizes("dimensions", dimensions)
    strides = checks.whole_numbers("strides", strides)
    itemsize = checks.whole_number("itemsize", itemsize)
    if itemsize < 1:
        raise LayoutError(f"itemsize {itemsize} is not a number of bytes: it must be at least 1")
    shown = f"strides {checks.shown(strides)} cannot be a layout of dimensions {checks.shown(dimensions)}"
    if len(strides) != len(dimensions):
        raise LayoutError(
            f"{shown}: {checks.counted(len(strides), 'stride')} for {checks.counted(len(dimensions), 'dimension')}"
        )
    if 0 in dimensions:
        return Layout.descending(len(dimensions))
    real = [dim for dim, size in enumerate(dimensions) if size > 1]
    for dim in real:
        if strides[dim] <= 0:
            raise LayoutError(
                f"{shown}: dimension {dim} has the "
                + (f"negative stride {strides[dim]}" if strides[dim] else "stride 0, so its elements share one place")
            )
        if strides[dim] % itemsize:
            raise LayoutError(
                f"{shown}: the stride {strides[dim]} of dimension {dim} is not a multiple of "
                f"the element's {itemsize} bytes"
            )
    real.sort(key=lambda dim: strides[dim])
    widths = _widths(dimensions, [strides[dim] // itemsize for dim in range(len(dimensions))], real, shown)
    if widths != dimensions and not padding:
        dim = next(d for d in real if widths[d] != dimensions[d])
        raise LayoutError(f"{shown} without padding: dimension {dim} would be padded to {widths[dim]}")
    return Layout(with_degenerate(real, dimensions), padded_dimensions=widths if widths != dimensions else None)


def _widths(dimensions: Sequence[int], steps: list[int], real: list[int], shown: str) -> tuple[int, ...]:
    """The width of every dimension; `steps` are strides in elements, `real` the sizes above 1, minor first."""
    widths = list(dimensions)
    if real and steps[real[0]] != 1:
        ones = [dim for dim, size in enumerate(dimensions) if size == 1]
        if not ones:
            raise LayoutError(
                f"{shown}: no dimension steps by one element, dimension {real[0]} is the most minor "
                f"and steps by {steps[real[0]]}"
            )
        real.insert(0, ones[-1])  # a padded dimension of size 1 can lie below all others
        steps[ones[-1]] = 1
    for lower, upper in zip(real, real[1:]):
        below = steps[lower]
        width, rest = divmod(steps[upper], below)
        if rest:
            raise LayoutError(
                f"{shown}: dimension {upper} steps by {steps[upper]} elements, which is not a multiple "
                f"of {below}, the step of dimension {lower} below it"
            )
        if width < dimensions[lower]:
            raise LayoutError(
                f"{shown}: dimensions {lower} and {upper} overlap, {upper} steps by {steps[upper]} elements "
                f"over the {dimensions[lower] * below} of dimension {lower}"
            )
        widths[lower] = width
    return tuple(widths)


def with_degenerate(real: Sequence[int], dimensions: Sequence[int]) -> tuple[int, ...]:
    """All dimensions, minor first: those of size 1 go beside a neighbour, so that a descending order stays one."""
    ascending = len(real) > 1 and list(real) == sorted(real)
    step, before = (1, -1) if ascending else (-1, len(dimensions))
    placed, order = set(real), []
    for dim in (before, *real):  # each is followed by the dimensions of size 1 beside it
        order.append(dim)
        while 0 <= order[-1] + step < len(dimensions) and order[-1] + step not in placed:
            order.append(order[-1] + step)
    return tuple(order[1:])


def shape_from_strides(
    strides: Iterable[SupportsIndex],
    dimensions: Iterable[SupportsIndex],
    element_type: str | DTypeLike | TorchDType,
    *,
    itemsize: int = 1,
    named: Iterable[Layout] = (),
) -> Shape:
    """The shape whose elements lie where `strides` put them; LayoutError when there is none.

    itemsize    bytes of an element when strides are in bytes; 1 when they count elements
    named       layouts without padding that the library has names for, the first one preferred

    >>> [str(shape_from_strides(strides, (8, 1, 4, 4), "f32").layout) for strides in ((16, 16, 4, 1), (16, 1, 4, 1))]
    ['{3,2,1,0}', '{1,3,2,0}']
    """
    sizes, steps = checks.sizes("dimensions", dimensions), checks.whole_numbers("strides", strides)
    if len(sizes) == len(steps):
        by_stride = sorted(range(len(sizes)), key=lambda dim: (steps[dim], sizes[dim] != 1, -dim))
        for layout in (*named, Layout(by_stride)):
            dense = Shape(element_type, sizes, layout)
            if steps == tuple(stride * itemsize for stride in dense.strides):
                return dense
    return Shape(element_type, sizes, layout_from_strides(sizes, steps, itemsize=itemsize))


def byte_strides_is_major_to_minor(
    byte_strides: Iterable[SupportsIndex], dimensions: Iterable[SupportsIndex], element_type: str | DTypeLike
) -> bool:
    """True when elements are contiguous in row-major order: C-contiguous in NumPy's terms.

    Parameters
    ----------
    byte_strides : iterable of int
        Bytes between neighbours along each dimension.
    dimensions : iterable of int
        Logical sizes in elements.
    element_type : str or DTypeLike
        An XLA name, or what `ElementType.of` takes.

    Returns
    -------
    bool
        True also for an array without elements.

    Raises
    ------
    LayoutError
        The number of strides is not the number of dimensions.

    Notes
    -----
    XLA: `ByteStridesIsMajorToMinor`.  It also checks the strides of dimensions of size 1, which are ignored here.

    Examples
    --------
    >>> byte_strides_is_major_to_minor((12, 4), (2, 3), "f32"), byte_strides_is_major_to_minor((99, 4), (1, 3), "f32")
    (True, True)
    """
    dimensions = checks.sizes("dimensions", dimensions)
    strides = checks.whole_numbers("byte_strides", byte_strides)
    if len(strides) != len(dimensions):
        raise LayoutError(
            f"byte_strides {checks.shown(strides)} has {checks.counted(len(strides), 'entry')} for "
            f"{checks.counted(len(dimensions), 'dimension')} {checks.shown(dimensions)}"
        )
    if 0 in dimensions:
        return True
    step = ElementType.of(element_type).itemsize
    for size, stride in zip(reversed(dimensions), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


# ---- strides of digits ----------------------------------------------------------------------------------

# A tile doubles the entries from the first one that it cuts.  Most of them are then empty.  So 60 digits of a dimension
# in reverse order would take a tile of 2^59 sizes; no layout of a kernel comes near this limit.
_MOST_EMPTY = 1000


def layout_of(digits: Sequence[Digit], sizes: Sequence[int], what: str, instead: str) -> Layout:
    """The layout of dimensions `sizes` with these digits.

    what      names it in errors
    instead   what to do where no layout is small enough

    >>> str(layout_of([Digit(0, 1, 2, 1), Digit(0, 2, 4, 5)], (8,), "a mode", "split it"))
    '{0:T(2)(5)}'
    """
    minor_first = sorted(digits, key=lambda digit: digit.stride)
    padded, widths = _widened(minor_first, sizes, f"{what} is not a Layout: mode")
    by_highest_place = list(dict.fromkeys(digit.dim for digit in reversed(padded)))
    order = with_degenerate(by_highest_place[::-1], sizes)
    entries: list[Entry] = []
    padded_sizes = list(sizes)
    for dim in reversed(order):
        own = sorted((digit for digit in padded if digit.dim == dim), key=lambda digit: -digit.step)
        entries.append(tuple(own))
        padded_sizes[dim] = own[0].step * own[0].extent if own else 1
    tiles, entries = _sorting_tiles(entries, padded[::-1], what, instead)
    widening, entries = _widening_tiles(entries, widths, padded[0].stride)
    tiles += widening + _joining_tiles(entries, padded)
    return Layout(order, padded_dimensions=padded_sizes if padded_sizes != list(sizes) else None, tiles=tiles)


def _widened(digits: Sequence[Digit], sizes: Sequence[int], problem: str) -> tuple[list[Digit], dict[Digit, int]]:
    """Digits, most minor first, the highest of each dimension as wide as its gap, and the widths of the others."""
    widened, widths = [], {}
    for lower, upper in zip(digits, digits[1:]):
        width, rest = divmod(upper.stride, lower.stride)
        if width < lower.extent:
            pair = f"{upper.dim} ({upper.extent}:{upper.stride}) and mode {lower.dim} ({lower.extent}:{lower.stride})"
            raise LayoutError(f"{problem} {pair} overlap or interleave")
        if rest:
            widened.append(lower)
            continue
        if lower.step * lower.extent == sizes[lower.dim]:
            lower = lower._replace(extent=width)
        elif width > lower.extent:
            widths[lower] = width
        widened.append(lower)
    return [*widened, digits[-1]], widths


def _widening_tiles(entries: list[Entry], widths: dict[Digit, int], lowest: int) -> tuple[list[Tile], list[Entry]]:
    """Tiles that give sorted digits their widths, and the most minor one the stride `lowest`, and the entries then."""
    if not widths and lowest == 1:
        return [], entries
    tiles = []
    if lowest > 1 and entries[-1]:
        tiles, entries = [Tile([1])], [*entries, ()]
    sizes = [widths.get(entry[0], entry[0].extent) if entry else 1 for entry in entries]
    if lowest > 1:
        sizes[-1] = lowest
    first = next((number for number, entry in enumerate(entries) if entry and entry[0] in widths), len(entries) - 1)
    empty: list[Entry] = [()] * len(sizes[first:])
    return [*tiles, Tile(sizes[first:])], entries[:first] + empty + entries[first:]


def _sorting_tiles(
    entries: list[Entry], wanted: list[Digit], what: str, instead: str
) -> tuple[list[Tile], list[Entry]]:
    """Tiles that bring the digits of `entries`, most major first, into the order `wanted`, and the entries then."""
    tiles: list[Tile] = []
    settled: list[Entry] = []
    most = len(entries) + _MOST_EMPTY
    while True:
        in_place = 0
        for entry in entries:
            if len(entry) > 1 or list(entry) != wanted[: len(entry)]:
                break
            wanted = wanted[len(entry) :]  # an entry without digits is always in place
            in_place += 1
        settled += entries[:in_place]
        entries = entries[in_place:]
        if not entries:
            return tiles, settled
        upper, lower = _longest_run(entries, wanted)
        run = sum(map(len, upper))
        if not run:
            upper, lower = _cut_above(wanted[0], entries)
        if len(lower) > most:
            raise LayoutError(f"{what} needs tiles of more than {most} sizes to reorder its parts: {instead}")
        tiles.append(Tile([checks.product(digit.extent for digit in entry) for entry in lower]))
        settled += upper if run else []
        entries = lower if run else upper + lower
        wanted = wanted[run:]


def _joining_tiles(entries: list[Entry], digits: Sequence[Digit]) -> list[Tile]:
    """Tiles for the gaps, minor first, below strides that are not multiples of the next smaller one."""
    tiles = []
    for lower, upper in zip(digits, digits[1:]):
        if upper.stride % lower.stride:
            above = entries.index((upper,)) + 1
            joined: list[int | Combine] = [COMBINE] * (len(entries) - above - 1)
            tiles.append(Tile([*joined, upper.stride]))
            entries = [*entries[:above], (), (lower,)]  # the last one stands for the number
    return tiles


def _longest_run(entries: list[Entry], wanted: list[Digit]) -> tuple[list[Entry], list[Entry]]:
    """What one tile leaves in front of each entry and what it moves behind.

    In front stays the longest run of wanted digits that lead their entries, in the order of the entries.
    """
    upper: list[Entry] = [()] * len(entries)
    lower = list(entries)
    after = 0
    for digit in wanted:
        leading = next((number for number in range(after, len(entries)) if entries[number][:1] == (digit,)), None)
        if leading is None:
            break
        upper[leading], lower[leading] = entries[leading][:1], entries[leading][1:]
        after = leading + 1
    return upper, lower


def _cut_above(digit: Digit, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The same for a tile that cuts only above a digit, which then leads an entry."""
    cuts = [entry.index(digit) if digit in entry else 0 for entry in entries]
    return [entry[:cut] for entry, cut in zip(entries, cuts)], [entry[cut:] for entry, cut in zip(entries, cuts)]
