"""The stride table: a layout as a mixed-radix number.  Only this file knows where an element lies.

The linear index of an element is read digit by digit, most minor digit first.  Each digit is a piece of one logical
coordinate:

    linear     += index[dim] // step % extent * stride          index -> linear index
    index[dim] += linear // stride % extent * step              linear index -> index

f32[2,3]{0,1} with padded dimensions (3, 5) has two digits and 15 places:

    Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3)

Place 5 is index (5 // 1 % 3, 5 // 3 % 5) = (2, 1).  Row 2 is past the logical size 2, so the place is padding.

Tiles cut digits in two.  Write down one entry for every dimension, in physical order, most major first.  Then apply
every tile in order:

  1. if the tile is longer than the list, put empty entries (size 1, index 0) in front
  2. take the most minor entries, one for each size of the tile
  3. `*` joins an entry with the next more minor one: sizes (a, b) and indices (i, j) become a * b and i * b + j
  4. a size t cuts an entry of size d in two: ceil(d / t) with index i // t stays, t with index i % t goes to the end

bf16[4,8]{1,0:T(2,4)(2,1)}, as (dim, step, extent):

    (0, 1, 4) (1, 1, 8)                                              no tile
    (0, 2, 2) (1, 4, 2) (0, 1, 2) (1, 1, 4)                          T(2,4)
    (0, 2, 2) (1, 4, 2) (0, 2, 1) (1, 1, 4) (0, 1, 2) (1, 1, 1)      (2,1) cuts the last two

The extents, read as row-major sizes, give the strides.  The product of all extents is the number of places.

Some cuts do not give digits of a coordinate.  They give digits of another number, which is itself composed of digits,
as the linear index is.  `numbers` lists these numbers; in a digit, `dim` is `rank` for the first, `rank + 1` for the
next:

- a cut that does not divide: T(3)(2) cuts c % 3 by 2, and c % 3 // 2 is not of the form c // step % extent
- a `*` whose cut falls inside a joined digit: T(*,4) on rows of 6 cuts the number i * 6 + j
- places that no element fills, such as the last three of f32[]{:T(4)}: digits of a number that is always 0

f32[6]{0:T(3)(2)} has 8 places: tiles of 3 elements, each cut into sub-tiles of 2, the last of which has an empty place.

    number 1       Digit(dim=0, step=1, extent=3, stride=1)                                  index[0] % 3
    linear index   Digit(dim=1, step=1, extent=2, stride=1), Digit(dim=1, step=2, extent=2, stride=2),
                   Digit(dim=0, step=3, extent=2, stride=4)

Index 5 has the number 5 % 3 = 2, so its place is 2 % 2 * 1 + 2 // 2 * 2 + 5 // 3 * 4 = 6.  Back: place 6 gives the
number 6 // 1 % 2 * 1 + 6 // 2 % 2 * 2 = 2 and the index 2 + 6 // 4 % 2 * 3 = 5.  Place 3 gives the number 3, but the
number only has the values 0..2, so the place is padding.

The tail padding gives the most major digit more values: f32[6]{0:T(4)L(16)} has 4 tiles; elements fill one and a half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpulayout.layout import checks
from gpulayout.layout.frozen import cached_property
from gpulayout.layout.tile import COMBINE, Tile


class Digit(NamedTuple):
    """One digit of the linear index, or of one of a stride table's `numbers`.

    Attributes
    ----------
    dim : int
        The logical dimension whose coordinate has this digit; from `rank` on, one of the table's `numbers`.
    step, extent : int
        The digit is `index[dim] // step % extent`.
    stride : int
        What one step of the digit adds to the linear index, in elements.

    See Also
    --------
    stride_table : the digits of a shape.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.stride_table("f32[2,3]{0,1}").digits[1]
    Digit(dim=1, step=1, extent=3, stride=2)
    """

    dim: int
    step: int
    extent: int
    stride: int


Digits = tuple[Digit, ...]
BareDigit = tuple[int, int, int]  # (dim, step, extent): a digit before its stride is known; plain, as many are made
Entry = Sequence[BareDigit]  # what tiles have made of a size, most major first


def size_of(digits: Sequence[Digit] | Entry) -> int:
    """The number of values that a number with these digits, or an entry, can have.

    >>> size_of([Digit(0, 1, 3, 1), Digit(1, 1, 5, 3)]), size_of([])
    (15, 1)
    """
    return digits[0][2] if len(digits) == 1 else checks.product(digit[2] for digit in digits)


# ---- the table -------------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """A digit seen from its value: value // step % extent * stride is added to a sum.

    into    one of the table's `numbers`, as in `Digit.dim`; after the last of them, the linear index
    """

    into: int
    step: int
    extent: int
    stride: int


@dataclass(frozen=True)
class StrideTable:
    """A layout as digits of the linear index, with the sizes that tell elements from padding.

    Attributes
    ----------
    digits : tuple of Digit
        The digits of the linear index, most minor first.
    dimensions : tuple of int
        The logical sizes.
    buffer_size : int
        Places in the buffer, padding included, in elements.
    numbers : tuple of tuple of Digit
        Numbers other than coordinates that have digits, for tiles that do not divide what they cut.  Each is composed
        from coordinates and from the numbers before it.

    See Also
    --------
    stride_table : the table of a shape.

    Examples
    --------
    >>> import gpulayout as gl
    >>> table = gl.stride_table("f32[2,3]{0,1}")
    >>> table.digits, table.buffer_size
    ((Digit(dim=0, step=1, extent=2, stride=1), Digit(dim=1, step=1, extent=3, stride=2)), 6)
    >>> table.linear_of((1, 2)), table.index_of(5)
    (5, (1, 2))
    """

    digits: Digits
    dimensions: tuple[int, ...]
    buffer_size: int
    numbers: tuple[Digits, ...] = ()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """For every coordinate, then for every number: how many values it can have for an element."""
        return (*self.dimensions, *map(size_of, self.numbers))

    @cached_property
    def reaches(self) -> tuple[int, ...]:
        """Like `sizes`, but a number's range ends at its largest value for an element: padded widths are ignored."""
        reaches = list(self.dimensions)
        for digits in self.numbers:
            reaches.append(1 + sum(min(d.extent - 1, (reaches[d.dim] - 1) // d.step) * d.stride for d in digits))
        return tuple(reaches)

    @cached_property
    def is_strided(self) -> bool:
        """True when every dimension is one digit, so that one stride per dimension describes the layout."""
        return not self.numbers and sorted(digit.dim for digit in self.digits) == list(range(len(self.dimensions)))

    @property
    def is_separable(self) -> bool:
        """True when the place of an element is a sum of one term per coordinate: no number joins two of them."""
        return all(len(digits) <= 1 for digits in self.numbers)

    @cached_property
    def turning(self) -> tuple[list[tuple[int, int, int | None, int]], ...]:
        """The digits of every number, the linear index last; the most major digit of a value has an extent of None."""
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
        """For every coordinate, then every number, its digits, most major first, without those that are always 0."""
        unsorted: list[list[Share]] = [[] for _ in self.sizes]
        for into, digits in enumerate((*self.numbers, self.digits), len(self.dimensions)):
            for dim, *others in digits:
                unsorted[dim].append(Share(into, *others))
        return tuple(
            tuple(sorted((share for share in shares if share.step < size), key=lambda share: -share.step))
            for shares, size in zip(unsorted, self.reaches)
        )

    def linear_of(self, index: Sequence[Any]) -> Any:
        """The linear index of a logical index, in elements; nothing is checked.

        Parameters
        ----------
        index : sequence of int or of integer arrays
            One coordinate for every dimension.  Arrays have the same shape, and 64 bits if places need them.
        """
        values = list(index)
        for digits in self.turning:
            total = 0
            for dim, step, extent, stride in digits:
                digit = values[dim] if step == 1 else values[dim] // step
                total = total + (digit if extent is None else digit % extent) * stride
            values.append(total)
        return values[-1]

    def index_of(self, linear: Any) -> tuple[Any, ...]:
        """The logical index of a place or an array of places; nothing is checked.

        For padding the result is meaningless; check with `is_element`.  The coordinate of a dimension of size 1 may
        be the int 0.
        """
        return tuple(self.values_of(linear)[: len(self.dimensions)])

    def is_element(self, linear: Any) -> Any:
        """True where a place holds an element and not padding; False outside the buffer.

        Parameters
        ----------
        linear : int or array of signed integers

        Examples
        --------
        >>> from gpulayout import stride_table
        >>> table = stride_table("f32[6]{0:T(3)(2)}")
        >>> [place for place in range(table.buffer_size) if table.is_element(place)]
        [0, 1, 2, 4, 5, 6]
        """
        is_element = (linear >= 0) & (linear < self.buffer_size)
        if self.buffer_size:
            for value, size in zip(self.values_of(linear), self.sizes):
                is_element = is_element & (value < size)
        return is_element

    def is_padding(self, linear: int) -> bool:
        """True when a place holds no element.

        Examples
        --------
        >>> from gpulayout import stride_table
        >>> table = stride_table("f32[6]{0:T(3)(2)}")
        >>> [place for place in range(table.buffer_size) if table.is_padding(place)]
        [3, 7]
        """
        return not self.is_element(linear)

    def why_padding(self, linear: int) -> str:
        """Why a place holds no element, for an error message.

        >>> from gpulayout import stride_table
        >>> stride_table("f32[6]{0:T(4)}").why_padding(7), stride_table("f32[6]{0:T(3)(2)}").why_padding(3)
        ('coordinate 7 of dimension 0 is past the size 6', 'the tiles leave it empty')
        """
        for dim, (coordinate, size) in enumerate(zip(self.index_of(linear), self.dimensions)):
            if coordinate >= size:
                return f"coordinate {coordinate} of dimension {dim} is past the size {size}"
        return "the tiles leave it empty"

    def values_of(self, linear: Any) -> list[Any]:
        """The coordinates of a place, then its numbers, unchecked; those of an element are below `sizes`."""
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

    dimensions, widths    logical sizes and padded sizes, in logical order
    tail                  the number of places is rounded up to a multiple of it

    >>> table_of((9,), (9,), (0,), (Tile((8,)),), 32).digits
    (Digit(dim=0, step=1, extent=8, stride=1), Digit(dim=0, step=8, extent=4, stride=8))
    """
    physical = [widths[dim] for dim in major_to_minor]
    tiled = cuts(physical, tiles)
    bare, numbers = [digit for entry in tiled.entries for digit in entry], tiled.numbers
    places = checks.product(tiled.sizes)
    buffer_size = -(-places // tail) * tail
    if buffer_size > places:
        bare, numbers = _with_tail(bare, numbers, physical, buffer_size)
    # `cuts` numbers the dimensions by their position in memory.
    names = [*major_to_minor, *range(len(widths), len(widths) + len(numbers))]
    kept = [(names[dim], step, extent) for dim, step, extent in bare if extent != 1 or not tiles]
    named = tuple(tuple(Digit(names[dim], *others) for dim, *others in digits) for digits in numbers)
    return StrideTable(_with_strides(kept), dimensions, buffer_size, named)


def _with_tail(
    digits: list[BareDigit], numbers: tuple[Digits, ...], widths: Sequence[int], buffer_size: int
) -> tuple[list[BareDigit], tuple[Digits, ...]]:
    """The digits, most major first, with another extent of the first one, or one digit more, for `buffer_size` places.

    Places of the tail hold no element.  So their index must be past the end of its dimension, or of its number:

        f32[6]{0:T(4)}         (0, 4, 2) (0, 1, 4)              indices 0..7, of which 6 and 7 are padding
        f32[6]{0:T(4)L(16)}    (0, 4, 4) (0, 1, 4)              indices 0..15: the first digit gets more values

    That is so if the first digit is the most major one of its value.  A digit of extent 1 is always 0 and can become
    that, with a step past all indices of the other digits: f32[1]{0:T(2)(4)} has (0, 2, 1) (0, 4, 1) (0, 1, 4), indices
    0..3.  With L(16) its first digit is (0, 4, 4); (0, 2, 4) would give indices 2 and 3 twice.

    Otherwise the tail is a digit of a number that is always 0: f32[]{:T(2,3)L(16)} has (0, 1, 2) (0, 1, 3) from the
    tile, and (1, 1, 3) in front of them.
    """
    sizes = [*widths, *map(size_of, numbers)]
    if digits:
        (dim, step, extent), *minor = digits
        # Past all values that the digits of this dimension or number can have.
        end = max(step * extent for entry in (digits, *numbers) for of, step, extent, *_ in entry if of == dim)
        step = step if extent > 1 else end
        if extent <= 1 or step * extent >= max(sizes[dim], end):
            return [(dim, step, -(-buffer_size // size_of(minor))), *minor], numbers
    always_0 = len(sizes)
    return [(always_0, 1, -(-buffer_size // size_of(digits))), *digits], (*numbers, ())


def widths_in_tiles(widths: Sequence[int], major_to_minor: Sequence[int], tiles: tuple[Tile, ...]) -> tuple[int, ...]:
    """The sizes, in logical order, with the last tile of each dimension filled up.

    The table gives each of these indices a place of its own; those beyond the dimensions are padding.  Other padding
    has no index: gaps inside a tile, places of entries that tiles put in front or that `*` joins, and the tail.

    >>> [widths_in_tiles((5, 3), (0, 1), (Tile(tile),)) for tile in ((2, 2), ("*", 2), (6,))]
    [(6, 4), (5, 3), (5, 6)]
    """
    tiled = cuts([widths[dim] for dim in major_to_minor], tiles)
    reached = [1] * (len(widths) + len(tiled.numbers))
    bare = [digit[:3] for digits in (*tiled.entries, *tiled.numbers) for digit in digits]
    for dim, step, extent in sorted(bare, key=lambda digit: digit[1:]):
        if step == reached[dim]:
            reached[dim] *= extent
    return tuple(size for _, size in sorted(zip(major_to_minor, reached)))


# ---- the law of tiles ------------------------------------------------------------------------------------------


class CutSizes(NamedTuple):
    """The result of cutting a list of sizes by tiles.

    entries    most major first; the `dim` of a digit is the position of a size, or that of a number after the sizes
    sizes      of the entries
    numbers    as in a `StrideTable`
    """

    entries: tuple[Entry, ...]
    sizes: tuple[int, ...]
    numbers: tuple[Digits, ...]


def cuts(sizes: Sequence[int], tiles: Sequence[Tile]) -> CutSizes:
    """Physical sizes, most major first, cut by one tile after the other.

    >>> tiled = cuts((4, 8), (Tile((2, 4)), Tile((2, 1))))
    >>> tiled.sizes, tiled.numbers
    ((2, 2, 1, 4, 2, 1), ())
    >>> cuts((6,), (Tile((3,)), Tile((2,)))).numbers
    ((Digit(dim=0, step=1, extent=3, stride=1),),)
    """
    cutter = _Cutter(sizes)
    entries: list[Entry] = [((position, 1, size),) for position, size in enumerate(sizes)]
    for tile in tiles:
        cutter.cut_by(tile, entries)
    return CutSizes(tuple(entries), tuple(map(size_of, entries)), tuple(cutter.numbers))


class _Cutter:
    """Cuts and joins entries; `numbers` collects the numbers that cuts need."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = list(sizes)  # the number of values of every position, then of every number
        self.numbers: dict[Digits, int] = {}  # with the `dim` of each

    def cut_by(self, tile: Tile, entries: list[Entry]) -> None:
        """Apply one tile to the entries, in place."""
        entries[:0] = [()] * (len(tile) - len(entries))
        outer: list[Entry] = []
        inner: list[Entry] = []
        joined: list[BareDigit] = []
        for entry, size in zip(entries[-len(tile) :], tile):
            joined += entry
            if size is not COMBINE:
                above, below = self._cut(_merged(joined), size)
                outer.append(above)
                inner.append(below)
                joined = []
        entries[-len(tile) :] = outer + inner

    def _cut(self, entry: Entry, size: int) -> tuple[Entry, Entry]:
        """The digits above a cut, which count blocks of `size` values, and those below it, which count inside a block.

        The value v of an entry becomes v // size and v % size.  From the most minor digit up, there are five cases:

            the cut divides the digit     12 rows by 4               (0, 1, 12)          (0, 4, 3) | (0, 1, 4)
            the digit divides the cut     rows of 2 x 4 by 8         (0, 1, 2) (1, 1, 4) (0, 2, 1) | (0, 1, 2) (1, 1, 4)
            the last block is not full    6 rows by 4                (0, 1, 6)           (0, 4, 2) | (0, 1, 4)
            neither divides the other     6 rows by 3, these by 2    (0, 1, 3)           (1, 2, 2) | (1, 1, 2)
            nothing is left to cut        f32[] by 4                 ()                  () | (0, 1, 4)

        In the second case the whole digit lies below the cut, and the digits above it are cut by the rest, 8 // 4 = 2.
        The third needs the most major digit of a value: the last block has only rows 4 and 5.  In the fourth a digit
        lies above, index // 3, so every block of 3 would be cut, and index % 3 // 2 is not of the form index // step %
        extent.  So the entry becomes a number of its own, n = index % 3, called 1 here: n // 2 and n % 2 are its
        digits.  In the fifth no element fills the places: they get a digit of a number that is always 0, here 0.
        """
        below: Entry = ()
        while entry:
            *major, digit = entry
            dim, step, extent = digit
            if extent % size == 0:
                outer, inner = _halves(digit, size)
                return (*major, outer), (inner, *below)
            if major and size % extent == 0:
                entry, below, size = major, (digit, *below), size // extent
                continue
            is_most_major = not major and step * extent >= self.sizes[dim]
            if not is_most_major:
                digit = self._named(entry if major or extent > 1 else ())
            outer, inner = _halves(digit, size)
            return (outer,), (inner, *below)
        if size == 1:
            return (), below
        _, inner = _halves(self._named(()), size)
        return (), (inner, *below)

    def _named(self, entry: Entry) -> BareDigit:
        """The one digit of a number that consists of these digits; no digits are a number that is always 0."""
        digits = _with_strides(entry)
        if digits not in self.numbers:
            self.numbers[digits] = len(self.sizes)
            self.sizes.append(size_of(digits))
        number = self.numbers[digits]
        return number, 1, self.sizes[number]


def _halves(digit: BareDigit, size: int) -> tuple[BareDigit, BareDigit]:
    """A digit cut by a size: which block of `size` values, and the value inside the block.

    >>> _halves((0, 1, 12), 4), _halves((0, 1, 6), 4)
    (((0, 4, 3), (0, 1, 4)), ((0, 4, 2), (0, 1, 4)))
    """
    dim, step, extent = digit
    return (dim, min(step * size, checks.TOO_LARGE), -(-extent // size)), (dim, step, size)


def _merged(entry: Entry) -> Entry:
    """The same entry in fewer digits: one that continues the next more minor one joins it.

    >>> _merged([(0, 4, 3), (0, 1, 4), (1, 1, 5)])
    [(0, 1, 12), (1, 1, 5)]
    """
    if len(entry) < 2:
        return entry
    merged: list[BareDigit] = []
    for dim, step, extent in entry:
        if merged and merged[-1][:2] == (dim, step * extent):
            merged[-1] = dim, step, merged[-1][2] * extent
        elif extent != 1:
            merged.append((dim, step, extent))
    return merged or entry[-1:]


def _with_strides(major_first: Entry) -> Digits:
    """The digits, most minor first, with the product of the extents below as stride; an extent of 0 counts as 1."""
    digits, stride = [], 1
    for dim, step, extent in reversed(major_first):
        digits.append(Digit(dim, step, extent, stride))
        stride = min(stride * max(extent, 1), checks.TOO_LARGE)
    return tuple(digits)
