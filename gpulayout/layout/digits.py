"""The stride table: a layout as a mixed-radix number.  This file alone knows where an element lies.

The linear index of an element is read digit by digit, most minor digit first.  Each digit is a piece of one logical
coordinate:

    linear     += index[dim] // step % extent * stride          index -> linear index
    index[dim] += linear // stride % extent * step              linear index -> index

f32[2,3]{0,1} with padded dimensions (3, 5) has two digits and 15 places:

    Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3)

Place 5 is index (5 // 1 % 3, 5 // 3 % 5) = (2, 1).  Row 2 is past the logical size 2, so the place is padding.

Tiles cut digits in two.  Write down one entry for every dimension, in physical order, most major first.  For every
tile, in order:

  1. a tile longer than the list puts empty entries (size 1, index 0) in front
  2. the tile takes as many of the most minor entries as it is long
  3. `*` joins an entry with the next more minor one: sizes (a, b), indices (i, j) become a * b and i * b + j
  4. every entry of size d, cut by t, becomes two: ceil(d / t) with i // t, and later, after all of these, t with i % t

bf16[4,8]{1,0:T(2,4)(2,1)}, as (dim, step, extent):

    (0, 1, 4) (1, 1, 8)                                              no tile
    (0, 2, 2) (1, 4, 2) (0, 1, 2) (1, 1, 4)                          T(2,4)
    (0, 2, 2) (1, 4, 2) (0, 2, 1) (1, 1, 4) (0, 1, 2) (1, 1, 1)      (2,1) cuts the last two

The extents, read as row-major sizes, give the strides.  The product of all extents is the number of places.

Some cuts have no digit of a coordinate.  They need a number that is put together first, from digits, in the same way as
the linear index.  `numbers` lists them; a digit's `dim` calls the first one `rank`, the next one `rank + 1`:

- a cut that does not divide: T(3)(2) cuts c % 3 by 2, and c % 3 // 2 is not of the form c // step % extent
- `*` with a cut that falls inside of a joined digit: T(*,4) on rows of 6 cuts the number i * 6 + j
- places that nothing fills, such as the last three of f32[]{:T(4)}: digits of a number that is always 0

f32[6]{0:T(3)(2)} has 8 places: tiles of 3 elements, and in each tile sub-tiles of 2, whose last place is empty.

    number 1       Digit(dim=0, step=1, extent=3, stride=1)                                  index[0] % 3
    linear index   Digit(dim=1, step=1, extent=2, stride=1), Digit(dim=1, step=2, extent=2, stride=2),
                   Digit(dim=0, step=3, extent=2, stride=4)

Index 5 has the number 5 % 3 = 2, so its place is 2 % 2 * 1 + 2 // 2 * 2 + 5 // 3 * 4 = 6.  Back, place 6 gives the
number 6 // 1 % 2 * 1 + 6 // 2 % 2 * 2 = 2, and the index 2 + 6 // 4 % 2 * 3 = 5.  Place 3 gives the number 3, but the
number only has the values 0..2: the place is padding.

The tail padding is more values of the most major digit: f32[6]{0:T(4)L(16)} has 4 tiles, of which elements fill one and
a half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpulayout.layout import checks
from gpulayout.layout.cached import cached_property
from gpulayout.layout.tile import COMBINE, Tile


class Digit(NamedTuple):
    """One digit of a number, above all of the linear index; `stride` is then in elements of the buffer.

    dim    a logical dimension; from the rank on, one of the table's `numbers`
    """

    dim: int
    step: int
    extent: int
    stride: int


Digits = tuple[Digit, ...]


def size_of(digits: Iterable[Digit]) -> int:
    """How many values a number of these digits has.

    >>> size_of([Digit(0, 1, 3, 1), Digit(1, 1, 5, 3)]), size_of([])
    (15, 1)
    """
    return checks.product(digit.extent for digit in digits)


# ---- the table -------------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """A digit, seen from the value that it is a piece of: value // step % extent * stride goes into a sum.

    into    a number, as digits call it; past all of them, the linear index
    """

    into: int
    step: int
    extent: int
    stride: int


@dataclass(frozen=True)
class StrideTable:
    """All digits of a layout, most minor first, with the logical sizes that tell elements from padding.

    numbers    the numbers that digits are taken from besides the coordinates; each one's digits are pieces of
    coordinates
               and of numbers before it
    """

    digits: Digits
    dimensions: tuple[int, ...]
    buffer_size: int
    numbers: tuple[Digits, ...] = ()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values every coordinate, and after them every number, of an element can have."""
        return (*self.dimensions, *map(size_of, self.numbers))

    @cached_property
    def reaches(self) -> tuple[int, ...]:
        """As `sizes`, but of a number only as far as it gets for elements: a padded width does not count."""
        found = list(self.dimensions)
        for digits in self.numbers:
            found.append(1 + sum(min(d.extent - 1, (found[d.dim] - 1) // d.step) * d.stride for d in digits))
        return tuple(found)

    @cached_property
    def is_strided(self) -> bool:
        """True when every dimension is one digit: then one stride for each says all."""
        return not self.numbers and sorted(digit.dim for digit in self.digits) == list(range(len(self.dimensions)))

    @property
    def is_separable(self) -> bool:
        """True when the place of an element is a sum with one part for every coordinate: no number joins two of
        them.
        """
        return all(len(digits) <= 1 for digits in self.numbers)

    @cached_property
    def _turning(self) -> tuple[list[tuple[int, int, int | None, int]], ...]:
        """The digits of every number, the linear index last; an extent of None where the digit is the most major one of
        its value.
        """
        sums = (*self.numbers, self.digits)
        ends = [0] * len(self.sizes)
        for dim, step, extent, _ in (digit for digits in sums for digit in digits):
            ends[dim] = max(ends[dim], step * extent)
        return tuple(
            [(dim, step, extent if step * extent < ends[dim] else None, stride) for dim, step, extent, stride in digits]
            for digits in sums
        )

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        """For every coordinate, and after them every number, its digits, most major first, without those that are 0 for
        all elements.
        """
        found: list[list[Share]] = [[] for _ in self.sizes]
        for into, digits in enumerate((*self.numbers, self.digits), len(self.dimensions)):
            for dim, *others in digits:
                found[dim].append(Share(into, *others))
        return tuple(
            tuple(sorted((share for share in shares if share.step < size), key=lambda share: -share.step))
            for shares, size in zip(found, self.reaches)
        )

    def linear_of(self, index: Sequence[Any]) -> Any:
        """The linear index of one logical index, unchecked.

        index    one coordinate for every dimension: ints, or integer arrays of one shape, of 64 bits where places need
        them
        """
        values = list(index)
        for digits in self._turning:
            total = 0
            for dim, step, extent, stride in digits:
                digit = values[dim] if step == 1 else values[dim] // step
                total = total + (digit if extent is None else digit % extent) * stride
            values.append(total)
        return values[-1]

    def index_of(self, linear: Any) -> tuple[Any, ...]:
        """The logical index of one place, or of an array of places, unchecked; for what it gives in padding see
        `is_element`.

        A coordinate without digits, of a dimension of size 1, is the int 0.
        """
        return tuple(self.values_of(linear)[: len(self.dimensions)])

    def is_element(self, linear: Any) -> Any:
        """True where a place holds an element: no coordinate is past its dimension, and no number past its size.

        linear    an int, or an array of signed integers; outside of the buffer there is no element

        >>> from gpulayout import stride_table
        >>> table = stride_table("f32[6]{0:T(3)(2)}")
        >>> [place for place in range(table.buffer_size) if table.is_element(place)]
        [0, 1, 2, 4, 5, 6]
        """
        found = (linear >= 0) & (linear < self.buffer_size)
        if self.buffer_size:
            for value, size in zip(self.values_of(linear), self.sizes):
                found = found & (value < size)
        return found

    def is_padding(self, linear: int) -> bool:
        """True when no element is at a place.

        >>> from gpulayout import stride_table
        >>> table = stride_table("f32[6]{0:T(3)(2)}")
        >>> [place for place in range(table.buffer_size) if table.is_padding(place)]
        [3, 7]
        """
        return not self.is_element(linear)

    def why_padding(self, linear: int) -> str:
        """What an error says about a place without an element.

        >>> from gpulayout import stride_table
        >>> stride_table("f32[6]{0:T(4)}").why_padding(7), stride_table("f32[6]{0:T(3)(2)}").why_padding(3)
        ('coordinate 7 of dimension 0 is past the size 6', 'the tiles leave it empty')
        """
        for dim, (coordinate, size) in enumerate(zip(self.index_of(linear), self.dimensions)):
            if coordinate >= size:
                return f"coordinate {coordinate} of dimension {dim} is past the size {size}"
        return "the tiles leave it empty"

    def values_of(self, linear: Any) -> list[Any]:
        """The coordinates and then the numbers of a place, unchecked; those of an element are below `sizes`."""
        values = [0] * len(self.sizes)
        for dim, step, extent, stride in self.digits:
            values[dim] = values[dim] + linear // stride % extent * step
        for number in range(len(self.numbers) - 1, -1, -1):
            value = values[len(self.dimensions) + number]
            for dim, step, extent, stride in self.numbers[number]:
                values[dim] = values[dim] + value // stride % extent * step
        return values


def table_of(
    dimensions: tuple[int, ...],
    widths: Sequence[int],
    major_to_minor: Sequence[int],
    tiles: tuple[Tile, ...] = (),
    tail: int = 1,
) -> StrideTable:
    """The table of a layout.

    dimensions, widths    of the array and as padded, in logical order
    tail                  what the number of places is rounded up to a multiple of

    >>> table_of((9,), (9,), (0,), (Tile((8,)),), 32).digits
    (Digit(dim=0, step=1, extent=8, stride=1), Digit(dim=0, step=8, extent=4, stride=8))
    """
    found = cuts([widths[dim] for dim in major_to_minor], tiles)
    parts, numbers = [part for entry in found.entries for part in entry], found.numbers
    places = checks.product(found.sizes)
    buffer_size = -(-places // tail) * tail
    if buffer_size > places:
        parts, numbers = _with_tail(parts, numbers, [widths[dim] for dim in major_to_minor], buffer_size)
    names = [*major_to_minor, *range(len(widths), len(widths) + len(numbers))]
    kept = [(names[dim], step, extent) for dim, step, extent in parts if extent != 1 or not tiles]
    named = tuple(tuple(Digit(names[dim], *others) for dim, *others in digits) for digits in numbers)
    return StrideTable(_with_strides(kept), dimensions, buffer_size, named)


def _with_tail(
    parts: list[Part], numbers: tuple[Digits, ...], widths: Sequence[int], buffer_size: int
) -> tuple[list[Part], tuple[Digits, ...]]:
    """The digits, most major first, with more values of the first one for the places of the tail.

    The first one has to be the most major digit of its value, or such a value would be one of an element.  If it is
    not, the tail is a digit of a number that is always 0.
    """
    sizes = [*widths, *map(size_of, numbers)]
    dim, step, extent = parts[0] if parts else (len(sizes), 1, 1)
    ends = [below * size for digits in (parts, *numbers) for value, below, size, *_ in digits if value == dim]
    if not ends or step * extent < max(sizes[dim], *ends) and extent > 1:
        return [(len(sizes), 1, -(-buffer_size // _size(parts))), *parts], (*numbers, ())
    others = parts[1:]
    # past all indices in tiles
    return [(dim, step if extent > 1 else max(ends), -(-buffer_size // _size(others))), *others], numbers


def widths_in_tiles(widths: Sequence[int], major_to_minor: Sequence[int], tiles: tuple[Tile, ...]) -> tuple[int, ...]:
    """How far each coordinate goes until the tiles at its end are full, in logical order: beyond its size it counts
    padding.

    The table gives each of these indices a place of its own.  Padding inside of a tile, of entries that tiles put in
    front or that `*` joins, and of the tail has no index.

    >>> [widths_in_tiles((5, 3), (0, 1), (Tile(tile),)) for tile in ((2, 2), ("*", 2), (6,))]
    [(6, 4), (5, 3), (5, 6)]
    """
    found = cuts([widths[dim] for dim in major_to_minor], tiles)
    reached = [1] * (len(widths) + len(found.numbers))
    parts = [part[:3] for parts in (*found.entries, *found.numbers) for part in parts]
    for dim, step, extent in sorted(parts, key=lambda part: part[1:]):
        if step == reached[dim]:
            reached[dim] *= extent
    return tuple(size for _, size in sorted(zip(major_to_minor, reached)))


# ---- the law of tiles ------------------------------------------------------------------------------------------

Part = tuple[int, int, int]  # a digit without its stride, which comes last: (dim, step, extent)
Entry = Sequence[Part]  # what a size has become, most major first


class Cuts(NamedTuple):
    """What tiles make of a list of sizes.

    entries    most major first; the `dim` of a part is the position of a size, or of a number behind the sizes
    sizes      of the entries
    numbers    as in a `StrideTable`
    """

    entries: tuple[Entry, ...]
    sizes: tuple[int, ...]
    numbers: tuple[Digits, ...]


def cuts(sizes: Sequence[int], tiles: Sequence[Tile]) -> Cuts:
    """What the tiles, one after the other, make of `sizes`, which are physical, most major first.

    >>> found = cuts((4, 8), (Tile((2, 4)), Tile((2, 1))))
    >>> found.sizes, found.numbers
    ((2, 2, 1, 4, 2, 1), ())
    >>> cuts((6,), (Tile((3,)), Tile((2,)))).numbers
    ((Digit(dim=0, step=1, extent=3, stride=1),),)
    """
    cutter = _Cutter(sizes)
    entries: list[Entry] = [((position, 1, size),) for position, size in enumerate(sizes)]
    for tile in tiles:
        cutter.cut_by(tile, entries)
    return Cuts(tuple(entries), tuple(map(_size, entries)), tuple(cutter.numbers))


class _Cutter:
    """Cuts and joins entries; `numbers` are those it had to name."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = list(sizes)  # how many values every position, then every number, has
        self.numbers: dict[Digits, int] = {}  # and what a part calls them

    def cut_by(self, tile: Tile, entries: list[Entry]) -> None:
        """One more tile."""
        entries[:0] = [()] * (len(tile) - len(entries))
        outer: list[Entry] = []
        inner: list[Entry] = []
        joined: list[Part] = []
        for entry, size in zip(entries[-len(tile) :], tile):
            joined += entry
            if size is not COMBINE:
                above, below = self._cut(_merged(joined), size)
                outer.append(above)
                inner.append(below)
                joined = []
        entries[-len(tile) :] = outer + inner

    def _cut(self, entry: Entry, size: int) -> tuple[Entry, Entry]:
        """The part of an entry above a cut, and the part below it."""
        below: Entry = ()
        while entry:
            *above, (dim, step, extent) = entry
            if extent % size:
                if above and size % extent == 0:
                    entry, below, size = above, (entry[-1], *below), size // extent  # all of it lies below the cut
                    continue
                if above or step * extent < self.sizes[dim]:  # c // step can be cut by any size
                    dim, step, extent = self._named(entry if above or extent > 1 else ())
                    above = []
            outer = dim, min(step * size, checks.TOO_LARGE), -(-extent // size)
            return (*above, outer), ((dim, step, size), *below)
        return (), ((*self._named(())[:2], size), *below) if size != 1 else below

    def _named(self, entry: Entry) -> Part:
        """The number that an entry makes, as one part of it all."""
        digits = _with_strides(entry)
        if digits not in self.numbers:
            self.numbers[digits] = len(self.sizes)
            self.sizes.append(size_of(digits))
        number = self.numbers[digits]
        return number, 1, self.sizes[number]


def _merged(entry: Entry) -> Entry:
    """The same number in fewer parts: one that continues the next more minor one joins it."""
    if len(entry) < 2:
        return entry
    kept: list[Part] = []
    for dim, step, extent in entry:
        if kept and kept[-1][:2] == (dim, step * extent):
            kept[-1] = dim, step, kept[-1][2] * extent
        elif extent != 1:
            kept.append((dim, step, extent))
    return kept or entry[-1:]


def _with_strides(major_first: Entry) -> Digits:
    """The digits, most minor first, each stepping over all below it; an extent of 0 counts as 1."""
    digits, stride = [], 1
    for dim, step, extent in reversed(major_first):
        digits.append(Digit(dim, step, extent, stride))
        stride = min(stride * max(extent, 1), checks.TOO_LARGE)
    return tuple(digits)


def _size(entry: Entry) -> int:
    """How many values an entry has."""
    return entry[0][2] if len(entry) == 1 else checks.product(extent for _, _, extent in entry)
