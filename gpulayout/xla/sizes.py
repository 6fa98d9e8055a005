"""Sizes of the data in a buffer: without the padding behind the last element, and of the parts of a split array.

The element that lies last in memory does not always have the last index.  The first tile of f32[5]{0:T(4)(2,2)} cuts 5
elements into a (2, 4) array.  The second tile, (2, 2), makes that array (1, 2, 2, 2).  Element 4 has index (1, 0) in
the first array and (0, 0, 1, 0) in the second, which is place 2.  Element 3 has (0, 3), then (0, 1, 0, 1), place 5.

To find the farthest place, look at the coordinates 0..c digit by digit.  Either the most major digit has its largest
value, and the digits below it run up to the remainder; or it is smaller, and the digits below it run over their whole
range.  So only a few values of each digit have to be tried.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpulayout.layout.digits import Share, StrideTable
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.same_places import element_loops, period, row_major_indices
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.text import as_shape


def data_nbytes(shape: Shape | str) -> int:
    """Bytes from the beginning of the buffer to the end of the element that lies last; 0 for an array without elements.

    XLA: `ArrayDataSize`, which takes the place of the last index under the first tile only.  Here all tiles count.
    Where a tile combines dimensions unevenly, every element of the last period of the tiling is checked.

    Parameters
    ----------
    shape : Shape or str

    See Also
    --------
    gpulayout.Shape.nbytes : The whole buffer, with the padding at its end.

    Examples
    --------
    >>> data_nbytes("f32[3,5]{1,0:T(2,2)}"), data_nbytes("f32[5]{0:T(4)(2,2)}"), data_nbytes("s4[5]{0:L(64)E(4)}")
    (84, 24, 3)
    """
    shape = as_shape(shape)
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
    # Elements one period later are farther away, so the last period holds the farthest place.
    last = [min(size, period(shape, [dim])) for dim, size in enumerate(shape.dimensions)]
    return 1 + max(
        int(np.max(table.linear_of([size - 1 - back for size, back in zip(shape.dimensions, index)])))
        for index in row_major_indices(last)
    )


def _farthest(table: StrideTable) -> int:
    """The farthest place of an element, for a separable table: no value combines digits of two others."""

    def place(share: Share, digit: int) -> int:
        if share.into == len(table.sizes):
            return digit * share.stride
        return sum(place(part, digit // part.step % part.extent) for part in table.shares[share.into])

    def farthest_of(share: Share, count: int) -> int:
        return (count - 1) * share.stride if share.into == len(table.sizes) else farthest(share.into, 0, count)

    @functools.cache
    def farthest(value: int, at: int, count: int) -> int:
        """The most that digits `at` and below add to the place, over the values 0..count-1."""
        if at == len(table.shares[value]):
            return 0
        share = table.shares[value][at]
        last, rest = divmod(count - 1, share.step)
        at_last = place(share, last) + farthest(value, at + 1, rest + 1)
        return max(at_last, farthest_of(share, last) + farthest(value, at + 1, share.step)) if last else at_last

    return sum(farthest(dim, 0, size) for dim, size in enumerate(table.dimensions))


def max_split_size(shape: Shape | str, dimension: int) -> int:
    """The size of the largest part that a dimension is split into; the whole size where it is not split.

    Parameters
    ----------
    shape : Shape or str
    dimension : int
        A logical dimension; negative numbers count from the end.

    Examples
    --------
    >>> max_split_size("f32[150,200]{0,1:SC(0:40,130)}", 1)
    90
    """
    shape = as_shape(shape)
    dim = shape.dimension_number(dimension)
    physical = shape.layout.logical_to_physical()[dim]
    points = next((split.split_indices for split in shape.layout.split_configs if split.dimension == physical), ())
    return max(end - start for start, end in zip((0, *points), (*points, shape.bounds[dim])))


def max_elements_in_split(shape: Shape | str) -> int:
    """The number of elements in the largest part that the array is split into.  XLA: `MaxElementsInPerSplit`.

    Parameters
    ----------
    shape : Shape or str

    Examples
    --------
    >>> max_elements_in_split("f32[150,200]{0,1:SC(0:40,130)}")
    13500
    """
    shape = as_shape(shape)
    return math.prod(max_split_size(shape, dim) for dim in range(shape.rank))


def packed_factor_for_1d_interleaved_array(shape: Shape | str) -> int:
    """How many rows of a one-dimensional array are interleaved: the k of its tiles T(a)(b)(k,1).

    So many elements, one from each of k rows of b elements, are adjacent in memory.
    XLA: `PackedFactorFor1DInterleavedArray`, which checks only the number of tiles and the length of the last.

    Parameters
    ----------
    shape : Shape or str
        A one-dimensional array with tiles T(a)(b)(k,1), or its text.

    Raises
    ------
    LayoutError
        If the shape has other tiles or another rank.

    Examples
    --------
    >>> packed_factor_for_1d_interleaved_array("bf16[2048]{0:T(1024)(128)(2,1)}")
    2
    """
    shape = as_shape(shape)
    tiles = shape.layout.tiles
    if shape.rank != 1 or [len(tile) for tile in tiles] != [1, 1, 2] or tiles[-1].sizes[1:] != (1,):
        text = f"tiles {''.join(map(str, tiles))}" if tiles else "no tiles"
        raise LayoutError(
            f"{text} of {shape} are not those of an interleaved array: one dimension with tiles T(a)(b)(k,1)"
        )
    return tiles[-1].sizes[0]
