"""Bytes up to the end of the last element that a buffer holds: without the padding behind it.

The last element in memory is not always the last one by index.  f32[5]{0:T(4)(2,2)} cuts 5 elements into turns of 4,
then the list (turns, places in a turn), sizes (2, 4), by (2, 2), which makes it (1, 2, 2, 2): element 4, index (1, 0),
comes to (0, 0, 1, 0), which is place 2, and element 3, index (0, 3), to (0, 1, 0, 1), which is place 5.

Up to some coordinate either its most major digit is the largest, and what is below it goes up to the rest, or that
digit is smaller, and what is below it goes as far as it can.  So the farthest place is found from few values of each
digit.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpulayout.layout.arguments import takes_shapes
from gpulayout.layout.digits import Share, StrideTable
from gpulayout.layout.element_loops import element_loops
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.same_places import period, row_major_indices
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table


@takes_shapes("shape")
def data_nbytes(shape: Shape) -> int:
    """Bytes from the beginning of the buffer to the end of the element that lies last; 0 without elements.

    XLA: `ArrayDataSize`, which takes the place of the last index in the first tile alone.  All tiles count here; where
    a tile combines dimensions unevenly, the last elements are looked at one by one, as many as are between repetitions
    of the tiling.

    >>> data_nbytes("f32[3,5]{1,0:T(2,2)}"), data_nbytes("f32[5]{0:T(4)(2,2)}"), data_nbytes("s4[5]{0:L(64)E(4)}")
    (84, 24, 3)
    """
    return -(-_places(shape) * shape.bits_per_element // 8)


def _places(shape: Shape) -> int:
    if shape.is_zero_element_array:
        return 0
    loops = element_loops(shape)
    if loops is not None:
        return 1 + sum((extent - 1) * stride for extent, stride in loops)
    table = stride_table(shape)
    if table.is_separable:
        return 1 + _farthest(table)
    # a period further on lies further away
    last = [min(size, period(shape, [dim])) for dim, size in enumerate(shape.dimensions)]
    return 1 + max(
        int(np.max(table.linear_of([size - 1 - back for size, back in zip(shape.dimensions, index)])))
        for index in row_major_indices(last)
    )


def _farthest(table: StrideTable) -> int:
    """The farthest place of an element; every number of the table is one digit of one value."""

    def place(share: Share, digit: int) -> int:
        if share.into == len(table.sizes):
            return digit * share.stride
        return sum(place(part, digit // part.step % part.extent) for part in table.shares[share.into])

    def farthest_of(share: Share, count: int) -> int:
        return (count - 1) * share.stride if share.into == len(table.sizes) else farthest(share.into, 0, count)

    @functools.cache
    def farthest(value: int, at: int, count: int) -> int:
        """What the digits of a value from number `at` on add at most, of the values 0..count-1."""
        if at == len(table.shares[value]):
            return 0
        share = table.shares[value][at]
        last, rest = divmod(count - 1, share.step)
        found = place(share, last) + farthest(value, at + 1, rest + 1)
        return max(found, farthest_of(share, last) + farthest(value, at + 1, share.step)) if last else found

    return sum(farthest(dim, 0, size) for dim, size in enumerate(table.dimensions))


@takes_shapes("shape")
def max_split_size(shape: Shape, dimension: int) -> int:
    """The size of the largest part that a logical dimension is cut into.  XLA: `MaxSplitSize`.

    >>> max_split_size("f32[150,200]{0,1:SC(0:40,130)}", 1)
    90
    """
    dim = shape.dimension_number(dimension)
    physical = shape.layout.logical_to_physical()[dim]
    points = next((split.split_indices for split in shape.layout.split_configs if split.dimension == physical), ())
    return max(end - start for start, end in zip((0, *points), (*points, shape.bounds[dim])))


@takes_shapes("shape")
def max_elements_in_split(shape: Shape) -> int:
    """The elements of the largest part that the array is cut into.  XLA: `MaxElementsInPerSplit`."""
    return math.prod(max_split_size(shape, dim) for dim in range(shape.rank))


@takes_shapes("shape")
def packed_factor_for_1d_interleaved_array(shape: Shape) -> int:
    """How many elements, one from each of as many rows, lie together: k of the tiles T(a)(b)(k,1) of one dimension.

    LayoutError for any other tiles.  XLA: `PackedFactorFor1DInterleavedArray`, which looks no closer than at the number
    of tiles and the length of the last.

    >>> packed_factor_for_1d_interleaved_array("bf16[2048]{0:T(1024)(128)(2,1)}")
    2
    """
    tiles = shape.layout.tiles
    if shape.rank != 1 or [len(tile) for tile in tiles] != [1, 1, 2] or tiles[-1].sizes[1:] != (1,):
        text = f"tiles {''.join(map(str, tiles))}" if tiles else "no tiles"
        raise LayoutError(
            f"{text} of {shape} are not those of an interleaved array: one dimension with tiles T(a)(b)(k,1)"
        )
    return tiles[-1].sizes[0]
