"""Tiles as digits: every tile cuts digits in two.

A digit of extent 8 cut by 4 becomes an outer digit of twice the step and an inner one of the same step:

    Digit(step=1, extent=8)  ->  Digit(step=4, extent=2), Digit(step=1, extent=4)

because c // 1 % 8 // 4 == c // 4 % 2.  bf16[4,8]{1,0:T(2,4)(2,1)}, most major first, as (dim, step, extent):

    (0, 1, 4) (1, 1, 8)                                              no tile
    (0, 2, 2) (1, 4, 2) (0, 1, 2) (1, 1, 4)                          T(2,4)
    (0, 2, 2) (1, 4, 2) (0, 2, 1) (1, 1, 4) (0, 1, 2) (1, 1, 1)      (2,1) cuts the last two

Three cases have no digit of a dimension, and need a number that is put together first:

- a cut that does not divide: T(3)(2) cuts c % 3 by 2, and c % 3 // 2 is no c // step % extent.  The number c % 3 is
  named, and its digits are (number, 2, 2) and (number, 1, 2).  There are 4 places for its 3 values.
- `*`, which joins digits: the number i * 7 + j for a minor digit j of extent 7.
- a tile longer than the list cuts a number that is always 0: it has no digits, and one value.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.model.tile import COMBINE, Tile
from gpulayout.planning.digit import Digit, size_of


def tiled_digits(major_to_minor: Sequence[int], widths: Sequence[int], tiles: Sequence[Tile], buffer_size: int
                 ) -> tuple[tuple[Digit, ...], tuple[tuple[Digit, ...], ...]]:
    """The digits of a linear index, most minor first, and the numbers they need besides the coordinates.

    widths        of every dimension, in logical order
    buffer_size   places of the buffer; those past the last tile are more values of the most major digit

    >>> tiled_digits((0,), (6,), [Tile((3,)), Tile((2,))], 8)[1]
    ((Digit(dim=0, step=1, extent=3, stride=1),),)
    """
    cutter = _Cutter(widths)
    digits = [Digit(dim, 1, widths[dim], 0) for dim in major_to_minor]          # strides come last
    for tile in tiles:
        digits = cutter.cut_by(tile, digits)
    places = math.prod(digit.extent for digit in digits)
    if places < buffer_size:
        digits = digits or [cutter.nothing()]
        below = places // digits[0].extent
        digits[0] = digits[0]._replace(extent=-(-buffer_size // below))
    return _with_strides([digit for digit in digits if digit.extent != 1 or not tiles]), tuple(cutter.numbers)


class _Cutter:
    """Cuts and joins digits; `numbers` are those it had to name."""

    def __init__(self, widths: Sequence[int]):
        self.sizes = list(widths)                      # how many values every dimension, then every number, has
        self.rank = len(widths)
        self.numbers: list[tuple[Digit, ...]] = []

    def cut_by(self, tile: Tile, digits: list[Digit]) -> list[Digit]:
        """The digits, most major first, after one more tile."""
        missing = max(len(tile) - len(digits), 0)
        digits = [self.nothing() for _ in range(missing)] + digits
        taken = len(digits) - len(tile)
        pairs, group = [], []
        for digit, size in zip(digits[taken:], tile):
            group.append(digit)
            if size is not COMBINE:
                pairs.append(self._cut(self._joined(group), size))
                group = []
        return digits[:taken] + [outer for outer, _ in pairs] + [inner for _, inner in pairs]

    def nothing(self) -> Digit:
        """The digit of a dimension of size 1 that is not there."""
        return self._named(())

    def _cut(self, digit: Digit, size: int) -> tuple[Digit, Digit]:
        """The outer and the inner part.  A digit above which nothing is left, c // step, can be cut by any size."""
        if digit.extent % size and digit.step * digit.extent < self.sizes[digit.dim]:
            digit = self._named((digit._replace(stride=1),))
        outer = Digit(digit.dim, digit.step * size, -(-digit.extent // size), 0)
        return outer, Digit(digit.dim, digit.step, size, 0)

    def _joined(self, digits: Sequence[Digit]) -> Digit:
        """One digit for several, the most major first: (first * second.extent + second) * third.extent + ..."""
        kept: list[Digit] = []
        for digit in digits:
            upper = kept[-1] if kept else None
            if upper and (upper.dim, upper.step) == (digit.dim, digit.step * digit.extent):
                kept[-1] = digit._replace(extent=upper.extent * digit.extent)
            elif digit.extent != 1:
                kept.append(digit)
        if len(kept) > 1:
            return self._named(_with_strides(kept))
        return kept[0] if kept else digits[-1]

    def _named(self, digits: tuple[Digit, ...]) -> Digit:
        if digits not in self.numbers:
            self.numbers.append(digits)
            self.sizes.append(size_of(digits))
        number = self.rank + self.numbers.index(digits)
        return Digit(number, 1, self.sizes[number], 0)


def _with_strides(major_first: Sequence[Digit]) -> tuple[Digit, ...]:
    """The digits, most minor first, each stepping over all below it; an extent of 0 counts as 1."""
    digits, stride = [], 1
    for digit in reversed(major_first):
        digits.append(digit._replace(stride=stride))
        stride *= max(digit.extent, 1)
    return tuple(digits)
