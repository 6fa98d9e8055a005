"""Logical indices of an array without regard to layout: the next one, and which of two comes first.

Both go by row-major logical order: the last coordinate runs fastest, whatever the layout.
"""
from __future__ import annotations

from collections.abc import Iterable

from gpulayout.model import checks
from gpulayout.model.arguments import takes_shapes
from gpulayout.model.errors import LayoutError
from gpulayout.model.shape import Shape


@takes_shapes("shape")
def bump_indices(shape: Shape, index: Iterable[int]) -> tuple[int, ...] | None:
    """The logical index after `index`, or None after the last one.  XLA: `BumpIndices`.

    IndexError for an index that is not in the array.

    >>> shape = Shape("f32", (2, 3))
    >>> bump_indices(shape, (0, 2)), bump_indices(shape, (1, 2))
    ((1, 0), None)
    """
    index = checks.whole_numbers("index", index, f" for {shape}")
    if len(index) != shape.rank:
        raise IndexError(f"index {checks.shown(index)} has {checks.counted(len(index), 'coordinate')} for {shape}: "
                         f"the shape has {checks.counted(shape.rank, 'dimension')}")
    for dim, (coordinate, size) in enumerate(zip(index, shape.bounds)):
        if not 0 <= coordinate < size:
            raise IndexError(out_of_bounds_text(index, dim, shape))
    for dim in reversed(range(shape.rank)):
        if index[dim] + 1 < shape.dimensions[dim]:
            return (*index[:dim], index[dim] + 1, *(0,) * (shape.rank - dim - 1))
    return None


def compare_indices(first: Iterable[int], second: Iterable[int]) -> int:
    """-1, 0 or 1 as the first index comes before the second, is the same, or comes after.  XLA: `CompareIndices`.

    >>> compare_indices((0, 1), (1, 0))
    -1
    """
    first, second = checks.whole_numbers("first", first), checks.whole_numbers("second", second)
    if len(first) != len(second):
        raise LayoutError(f"first {checks.shown(first)} and second {checks.shown(second)} are not indices of one array: "
                          f"they have {len(first)} and {len(second)} coordinates")
    return (first > second) - (first < second)


def out_of_bounds_text(index: tuple[int, ...], dim: int, shape: Shape, place: str = "") -> str:
    """What an error says about an index whose coordinate of dimension `dim` is outside; `place` says which of many it is."""
    size = shape.dimensions[dim]
    allowed = f"not in 0..{size - 1}" if size else "impossible, the dimension is empty"
    return (f"index {checks.shown(index)}{place} is out of bounds for {shape}: "
            f"coordinate {checks.number_text(index[dim])} of dimension {dim} is {allowed}")
