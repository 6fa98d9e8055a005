"""A placement: where the elements of a logical array lie.  A move goes from one placement to another.

    a buffer of f32[2,3]{0,1}              placed by the shape's layout
    an array of 2 x 3, strides (12, 4)     placed by digits: (dim 0, step 1, extent 2, stride 12), ...
    the same after "(h w) c -> w h c"      the digits of dimension 0 have two strides

So pack, unpack, relayout and transpose are one operation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.digits import Digit, Digits, StrideTable
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big, stride_table
from gpulayout.moves.regions import Region, SideTable, element_regions, regions
from gpulayout.moves.supported import is_plain


class Placement(NamedTuple):
    """The elements of a logical array in a buffer, or in an array with strides.

    shape        the logical array; of a buffer, its layout too
    digits       of an array: of the logical coordinates, strides in bytes; None for a buffer
    dimensions   of what holds the elements
    """

    shape: Shape
    digits: Digits | None
    dimensions: tuple[int, ...]

    @staticmethod
    def buffer(shape: Shape) -> Placement:
        """A 1-D buffer of a shape."""
        return Placement(shape, None, (shape.buffer_length,))

    @staticmethod
    def array(shape: Shape, strides: Sequence[int]) -> Placement:
        """An array with these byte strides.  Elements that a buffer packs take a byte each."""
        digits = tuple([Digit(dim, 1, size, strides[dim]) for dim, size in enumerate(shape.dimensions)])
        return Placement(dense_shape(shape.element_type, shape.dimensions), digits, shape.dimensions)

    @property
    def is_buffer(self) -> bool:
        return self.digits is None

    @property
    def is_plain(self) -> bool:
        """True for an array, and for a buffer without tiles and tail padding: a loop for each digit is all of it."""
        return self.digits is not None or is_plain(self.shape)

    @property
    def is_packed(self) -> bool:
        """True when elements share bytes."""
        return self.digits is None and self.shape.is_packed

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of an array that holds the elements."""
        return self.shape.buffer_dtype if self.digits is None else self.shape.dtype

    @property
    def bits(self) -> int:
        """Bits that an element takes."""
        return self.shape.bits_per_element if self.digits is None else 8 * self.shape.itemsize

    @property
    def is_big(self) -> bool:
        """True when the first element of a byte has its highest bits."""
        return self.digits is None and is_big(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each dimension of the logical array: slots of a packed buffer, or else bytes.

        For a buffer without tiles, and for an array whose dimensions have one digit each, as `array` makes it.
        """
        if self.digits is None:
            return self.shape.strides if self.shape.is_packed else self.shape.byte_strides
        return tuple([digit.stride for digit in self.digits])

    @property
    def table(self) -> SideTable:
        """Where elements lie, in bytes, or in slots of a packed buffer."""
        if self.digits is None:
            return SideTable(stride_table(self.shape), self.shape.itemsize)
        return SideTable(StrideTable(self.digits, self.shape.dimensions, 0), 1)

    def parts(self, sources: Sequence[SideTable]) -> Iterator[tuple[Region, bool]]:
        """Regions of all places to write, each with whether it holds elements; see `regions`."""
        if self.digits is None:
            return regions(sources, self.table)
        return ((part, True) for part in element_regions(sources, self.table))

    @property
    def dense(self) -> Placement:
        """The elements in an array in C order, one in each byte or more."""
        return Placement.array(self.shape, contiguous_strides(self.shape.dimensions, self.shape.itemsize))


@functools.lru_cache(maxsize=1024)  # to make a shape costs as much as to plan a small move
def dense_shape(element_type: ElementType, dimensions: tuple[int, ...]) -> Shape:
    """The shape of an array in C order."""
    return Shape(element_type, dimensions, _descending(len(dimensions)))


_descending = functools.lru_cache(maxsize=128)(Layout.descending)


def contiguous_strides(dimensions: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte strides of an array in C order."""
    found, stride = [], itemsize
    for size in reversed(dimensions):
        found.append(stride)
        stride *= size
    return tuple(reversed(found))
