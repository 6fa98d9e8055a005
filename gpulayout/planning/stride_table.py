"""The stride table: a layout as a mixed-radix number.

The linear index of an element is read digit by digit, most minor digit first; each digit is a piece of one
logical coordinate:

    linear     += index[dim] // step % extent * stride          index -> linear index
    index[dim] += linear // stride % extent * step              linear index -> index

f32[2,3]{0,1} with padded dimensions (3, 5) has two digits and 15 places:

    Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3)

Place 5 is index (5 // 1 % 3, 5 // 3 % 5) = (2, 1).  Row 2 is past the logical size 2, so the place is padding.

Everything downstream reads this table: the NumPy backend, the CUDA kernels and the text that explains a plan.
A digit has a step because a dimension can be more than one digit: a tile of 8 splits it into an inner digit of
extent 8 and step 1 and an outer one of step 8.

A piece of a piece, and a piece of two coordinates joined by `*`, are digits too: of a number that is itself put together
from digits, in the same way as the linear index.  `numbers` lists them; the first is called `rank` in a digit's `dim`.
f32[6]{0:T(3)(2)} has 8 places: tiles of 3 elements, and in each tile sub-tiles of 2, whose last place is empty.

    number 1       Digit(dim=0, step=1, extent=3, stride=1)                                  index[0] % 3
    linear index   Digit(dim=1, step=1, extent=2, stride=1), Digit(dim=1, step=2, extent=2, stride=2),
                   Digit(dim=0, step=3, extent=2, stride=4)

Index 5 has the number 5 % 3 = 2, so its place is 2 % 2 * 1 + 2 // 2 * 2 + 5 // 3 * 4 = 6.  Back, place 6 gives the number
6 // 1 % 2 * 1 + 6 // 2 % 2 * 2 = 2, and the index 2 + 6 // 4 % 2 * 3 = 5.  Place 3 gives the number 3, but it has only the
values 0..2: the place is padding.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.cached import cached_property
from gpulayout.model.shape import Shape
from gpulayout.planning.digit import Digit, number_of, size_of, take_apart
from gpulayout.planning.tile_digits import tiled_digits


@dataclass(frozen=True)
class StrideTable:
    """All digits of a layout, most minor first, with the logical sizes that tell elements from padding.

    numbers    the numbers that digits are taken from besides the coordinates; each one's digits are pieces of coordinates
               and of numbers before it
    """

    digits: tuple[Digit, ...]
    dimensions: tuple[int, ...]
    buffer_size: int
    numbers: tuple[tuple[Digit, ...], ...] = ()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values every coordinate, and after them every number, of an element can have."""
        return (*self.dimensions, *map(size_of, self.numbers))

    @property
    def is_strided(self) -> bool:
        """True when every dimension is one digit: then one stride for each says all."""
        return not self.numbers and sorted(digit.dim for digit in self.digits) == list(range(len(self.dimensions)))

    def linear_of(self, index: Sequence[int]) -> int:
        """The linear index of one logical index, unchecked."""
        if self.numbers:
            index = list(index)
            for digits in self.numbers:
                index.append(number_of(digits, index))
        return number_of(self.digits, index)

    def index_of(self, linear: int) -> tuple[int, ...]:
        """The logical index of one place, unchecked; for what it gives in padding see `is_padding`."""
        return tuple(self.values_of(linear)[:len(self.dimensions)])

    def is_padding(self, linear: int) -> bool:
        """True when no element is at a place: a coordinate is past its dimension, or a number past its size.

        >>> table = stride_table("f32[6]{0:T(3)(2)}")
        >>> [place for place in range(table.buffer_size) if table.is_padding(place)]
        [3, 7]
        """
        return any(value >= size for value, size in zip(self.values_of(linear), self.sizes))

    def why_padding(self, linear: int) -> str:
        """What an error says about a place without an element.

        >>> stride_table("f32[6]{0:T(4)}").why_padding(7), stride_table("f32[6]{0:T(3)(2)}").why_padding(3)
        ('coordinate 7 of dimension 0 is past the size 6', 'the tiles leave it empty')
        """
        for dim, (coordinate, size) in enumerate(zip(self.index_of(linear), self.dimensions)):
            if coordinate >= size:
                return f"coordinate {coordinate} of dimension {dim} is past the size {size}"
        return "the tiles leave it empty"

    def values_of(self, linear: int) -> list[int]:
        """The coordinates and then the numbers of a place, unchecked; those of an element are below `sizes`."""
        rank = len(self.dimensions)
        values = [0] * (rank + len(self.numbers))
        take_apart(linear, self.digits, values)
        for number in reversed(range(len(self.numbers))):
            take_apart(values[rank + number], self.numbers[number], values)
        return values


@takes_shapes("shape")
@functools.lru_cache(maxsize=4096)
def stride_table(shape: Shape) -> StrideTable:
    """The stride table of a shape.

    >>> table = stride_table("f32[2,3]{0,1:PD(3,5)}")
    >>> table.digits
    (Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3))
    >>> table.linear_of((1, 2)), table.index_of(5)
    (7, (2, 1))

    A tiled dimension has several digits, here a tile's two columns, two rows, then three tiles side by side:

    >>> for digit in stride_table("f32[3,5]{1,0:T(2,2)}").digits:
    ...     print(digit)
    Digit(dim=1, step=1, extent=2, stride=1)
    Digit(dim=0, step=1, extent=2, stride=2)
    Digit(dim=1, step=2, extent=3, stride=4)
    Digit(dim=0, step=2, extent=2, stride=12)
    """
    widths, layout = shape.buffer_dimensions, shape.layout
    if shape.is_tiled or layout.tail_padding_alignment != 1:
        digits, numbers = tiled_digits(layout.major_to_minor, widths, layout.tiles, shape.buffer_size)
    else:
        digits = tuple(Digit(dim, 1, widths[dim], shape.strides[dim]) for dim in layout.minor_to_major)
        numbers = ()
    return StrideTable(digits, shape.dimensions, shape.buffer_size, numbers)
