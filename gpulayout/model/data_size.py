"""Bytes up to the end of the last element that a buffer holds: without the padding behind it.

The last element in memory is not always the last one by index.  f32[5]{0:T(4)(2,2)} cuts 5 elements into turns of 4, then the
list (turns, places in a turn), sizes (2, 4), by (2, 2), which makes it (1, 2, 2, 2): element 4, index (1, 0), comes to
(0, 0, 1, 0), which is place 2, and element 3, index (0, 3), to (0, 1, 0, 1), which is place 5.

A part of a coordinate that was cut by t is a pair: i // t, cut further or not, and i % t.  Up to some i either the quotient is
the largest, and the remainder goes up to i % t, or it is smaller, and the remainder goes up to t - 1.  So the farthest place
is found from few values of each part.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.same_places import is_separable, period, row_major_indices
from gpulayout.model.shape import Shape
from gpulayout.model.tiling import slot_of
from gpulayout.model.walk import walk


@takes_shapes("shape")
def data_nbytes(shape: Shape) -> int:
    """Bytes from the beginning of the buffer to the end of the element that lies last; 0 without elements.

    XLA: `ArrayDataSize`, which takes the place of the last index in the first tile alone.  All tiles count here; where a tile
    combines dimensions unevenly, the last elements are looked at one by one, as many as are between repetitions of the tiling.

    >>> data_nbytes("f32[3,5]{1,0:T(2,2)}"), data_nbytes("f32[5]{0:T(4)(2,2)}"), data_nbytes("s4[5]{0:L(64)E(4)}")
    (84, 24, 3)
    """
    return -(-_places(shape) * shape.bits_per_element // 8)


def _places(shape: Shape) -> int:
    if shape.is_zero_element_array:
        return 0
    loops = walk(shape)
    if loops is not None:
        return 1 + sum((extent - 1) * stride for extent, stride in loops)
    if is_separable(shape):
        return 1 + sum(_farthest(parts, size) for parts, size in zip(_parts(shape), shape.dimensions))
    last = [min(size, period(shape, [dim])) for dim, size in enumerate(shape.dimensions)]    # a period further on lies further away
    return 1 + max(int(np.max(slot_of([size - 1 - back for size, back in zip(shape.dimensions, index)], shape)))
                   for index in row_major_indices(last))


class _Part:
    """A part of a coordinate: places at a stride, or a quotient and a remainder by `size`, which are parts themselves."""

    def __init__(self) -> None:
        self.stride, self.size, self.above, self.below = 0, 0, None, None

    def cut(self, size: int) -> tuple[_Part, _Part]:
        self.size, self.above, self.below = size, _Part(), _Part()
        return self.above, self.below

    def place(self, value: int) -> int:
        if self.above is None:
            return value * self.stride
        return self.above.place(value // self.size) + self.below.place(value % self.size)


def _parts(shape: Shape) -> list[_Part]:
    """One part for every dimension, cut as the tiles say."""
    whole = [_Part() for _ in shape.dimensions]
    entries = [whole[dim] for dim in shape.layout.major_to_minor]
    for tile in shape.layout.tiles:
        entries[:0] = [_Part() for _ in range(len(tile) - len(entries))]
        cut = [part.cut(size) for part, size in zip(entries[-len(tile):], tile.sizes)]
        entries[-len(tile):] = [above for above, _ in cut] + [below for _, below in cut]
    sizes: Sequence[int] = shape.physical_dimensions
    for position, part in enumerate(entries):
        part.stride = math.prod(sizes[position + 1:])
    return whole


def _farthest(part: _Part, count: int) -> int:
    """The farthest place of the values 0..count-1."""
    @functools.cache
    def farthest(part: _Part, count: int) -> int:
        if part.above is None:
            return (count - 1) * part.stride
        quotient, remainder = divmod(count - 1, part.size)
        found = part.above.place(quotient) + farthest(part.below, remainder + 1)
        return max(found, farthest(part.above, quotient) + farthest(part.below, part.size)) if quotient else found
    return farthest(part, count)
