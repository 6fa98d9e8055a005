"""A placement: where the elements of a logical array lie.  A move goes from one placement to another.

    a buffer of f32[2,3]{0,1}              placed by the shape's layout
    a box of such a buffer                 placed by the same layout, from the first coordinates of the box on
    words with strides, of such a buffer   placed by the same layout, but its places are those of the words
    an array of 2 x 3, strides (12, 4)     placed by digits: (dim 0, step 1, extent 2, stride 12), ...
    the same after "(h w) c -> w h c"      the digits of dimension 0 have two strides

So pack, unpack, relayout and transpose are one operation.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.digits import Digit, Digits, StrideTable
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big, stride_table
from gpulayout.moves.boxes import Interval, part_shape
from gpulayout.moves.move import check_storable, span
from gpulayout.moves.regions import Region, SideTable, element_regions, regions

Box = tuple[Interval, ...]


class Words(NamedTuple):
    """An array whose elements in C order are the bytes of a buffer; each holds one or more elements of the buffer.

    sizes      of the array
    strides    in elements of the buffer, which are any
    in_word    elements of the buffer in a word
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    in_word: int

    def table(self, shape: Shape) -> StrideTable:
        """Where the elements of a buffer of `shape` lie.

        The place in the buffer is one more number of its table.  The coordinates of the words are its digits.

        >>> table = Words((2, 3), (10, 1), 1).table(Shape("f32", (3, 2), "{0,1}"))
        >>> [table.linear_of(index) for index in ((0, 0), (1, 0), (2, 0), (0, 1))]
        [0, 1, 2, 10]
        """
        table = stride_table(shape)
        place = len(table.dimensions) + len(table.numbers)
        steps = *contiguous_strides(self.sizes, self.in_word), 1
        axes = zip(steps, (*self.sizes, self.in_word), (*self.strides, 1))
        digits = [Digit(place, *axis) for axis in axes if axis[1] != 1]  # one place has any stride, and no digit
        return StrideTable(tuple(digits[::-1]), table.dimensions, 0, (*table.numbers, table.digits))

    def span(self) -> tuple[int, int]:
        """Places from the first element to the lowest, and to one past the highest."""
        return span([*zip(self.sizes, self.strides), (self.in_word, 1)], 1)


class Placement(NamedTuple):
    """The elements of a logical array in a buffer, in a box of one, in words of one, or in an array with strides.

    shape        the logical array; its layout too, unless it is an array with strides
    digits       of an array: of the logical coordinates, strides in bytes; None for all others
    dimensions   of what holds the elements
    whole, box   of a box: the shape of the whole buffer, and its coordinates there; None for all others
    words        of words, which hold the bytes of a buffer; None for all others
    """

    shape: Shape
    digits: Digits | None
    dimensions: tuple[int, ...]
    whole: Shape | None = None
    box: Box | None = None
    words: Words | None = None

    @staticmethod
    def buffer(shape: Shape) -> Placement:
        """A 1-D buffer of a shape."""
        return Placement(shape, None, (shape.buffer_length,))

    @staticmethod
    def part_of(shape: Shape, box: Box) -> Placement:
        """A box of a buffer of a shape: its elements and nothing else, no padding."""
        return Placement(_part_shape(shape, box), None, (shape.buffer_length,), shape, box)

    @staticmethod
    def array(shape: Shape, strides: Sequence[int]) -> Placement:
        """An array with these byte strides.  Elements that a buffer packs take a byte each."""
        digits = tuple([Digit(dim, 1, size, strides[dim]) for dim, size in enumerate(shape.dimensions)])
        return Placement(dense_shape(shape.element_type, shape.dimensions), digits, shape.dimensions)

    @staticmethod
    def in_words(shape: Shape, sizes: tuple[int, ...], strides: Sequence[int], itemsize: int) -> Placement:
        """A buffer of a shape in an array of these sizes and byte strides, whose elements hold as many or more bits."""
        bits = shape.bits_per_element
        words = Words(sizes, tuple([8 * stride // bits for stride in strides]), 8 * itemsize // bits)
        return Placement(shape, None, sizes, words=words)

    @property
    def is_buffer(self) -> bool:
        """True for a buffer, and for a box of one: their places are in a row."""
        return self.digits is None and self.words is None

    @property
    def memory_shape(self) -> Shape:
        """The shape of the whole buffer, for a box too."""
        return self.whole or self.shape

    @property
    def is_plain(self) -> bool:
        """True for an array, and for a buffer without tiles and tail padding: a loop for each digit is all of it."""
        shape = self.shape
        return self.digits is not None or (
            self.box is None
            and self.words is None
            and not shape.is_tiled
            and shape.buffer_size == math.prod(shape.buffer_dimensions)
        )

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
            places = stride_table(self.memory_shape) if self.words is None else self.words.table(self.memory_shape)
            return SideTable(places, self.shape.itemsize, self.box)
        return SideTable(StrideTable(self.digits, self.shape.dimensions, 0), 1)

    def parts(self, sources: Sequence[SideTable]) -> Iterator[tuple[Region, bool]]:
        """Regions of all places to write, each with whether it holds elements; see `regions`."""
        if self.digits is None and self.box is None:
            return regions(sources, self.table)
        return ((part, True) for part in element_regions(sources, self.table))

    def part(self, box: Box) -> Placement:
        """A box of the logical array in the same memory; in a part of it for an array, see `part_memory`."""
        if self.digits is not None:
            sizes = tuple([last - first for first, last in box])
            return Placement.array(dense_shape(self.shape.element_type, sizes), self.strides)
        corner = [first for first, _ in self.box] if self.box is not None else [0] * len(box)
        moved = tuple([(first + begin, last + begin) for (first, last), begin in zip(box, corner)])
        return Placement.part_of(self.memory_shape, moved)._replace(words=self.words)

    def part_memory(self, memory: Any, box: Box) -> Any:
        """What `part` of this box places elements in; `memory` is that of the whole."""
        return memory if self.digits is None else memory[(..., *[slice(first, last) for first, last in box])]

    @property
    def dense(self) -> Placement:
        """The elements in an array in C order, one in each byte or more."""
        return Placement.array(self.shape, contiguous_strides(self.shape.dimensions, self.shape.itemsize))


@functools.lru_cache(maxsize=1024)  # to make a shape costs as much as to plan a small move
def dense_shape(element_type: ElementType, dimensions: tuple[int, ...]) -> Shape:
    """The shape of an array in C order."""
    return Shape(element_type, dimensions, _descending(len(dimensions)))


_part_shape = functools.lru_cache(maxsize=1024)(part_shape)
_descending = functools.lru_cache(maxsize=128)(Layout.descending)


def contiguous_strides(dimensions: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte strides of an array in C order."""
    return tuple(itertools.accumulate(reversed(dimensions), operator.mul, initial=itemsize))[-2::-1]


def view_strides(shape: Shape) -> tuple[int, ...]:
    """Byte strides of the logical array over a buffer of `shape`; LayoutError if no strides reach all elements.

    A tiled shape has strides when its tiles cut no dimension: T(1,128), or tiles as wide as the array.  The stride of a
    dimension, if it has one, is the place of the element with coordinate 1 along it and 0 elsewhere.  Then every other
    element is checked against these strides.
    """
    check_storable(shape)
    if shape.is_packed:
        raise LayoutError(
            f"element_size_in_bits {shape.bits_per_element} of {shape} has no strides in bytes: "
            f"{8 // shape.bits_per_element} elements share a byte; use gl.unpack to copy the array"
        )
    if not shape.is_tiled:
        return shape.byte_strides
    if not shape.element_count:
        return shape.with_layout(None).byte_strides
    table, zero = stride_table(shape), [0] * shape.rank
    strides = tuple(
        shape.itemsize * table.linear_of([*zero[:dim], int(size > 1), *zero[dim + 1 :]])
        for dim, size in enumerate(shape.dimensions)
    )
    for part in element_regions([Placement.array(shape, strides).table], Placement.buffer(shape).table):
        (start, *steps), (place, *place_steps) = part.rows
        if start != place or any(extent > 1 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):
            raise LayoutError(
                f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} have no single stride per dimension: "
                "neighbours are not the same distance apart inside and across tiles; use gl.unpack to copy the array"
            )
    return strides
