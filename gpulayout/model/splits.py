"""How large the parts are that split configurations cut an array into."""
from __future__ import annotations

import math

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.shape import Shape


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
