"""Logical indices of an array without regard to layout: the next one, and which of two comes first.

Both go by row-major logical order: the last coordinate runs fastest, whatever the layout.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.arguments import takes_shapes
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape


@takes_shapes("shape")
def bump_indices(shape: Shape, index: Iterable[int]) -> tuple[int, ...] | None:
    """The logical index after `index`, or None after the last one.  XLA: `BumpIndices`.

    IndexError for an index that is not in the array.

    >>> from gpulayout import Shape
    >>> shape = Shape("f32", (2, 3))
    >>> bump_indices(shape, (0, 2)), bump_indices(shape, (1, 2))
    ((1, 0), None)
    """
    index = checks.whole_numbers("index", index, f" for {shape}")
    if len(index) != shape.rank:
        raise IndexError(
            f"index {checks.shown(index)} has {checks.counted(len(index), 'coordinate')} for {shape}: "
            f"the shape has {checks.counted(shape.rank, 'dimension')}"
        )
    for dim, (coordinate, size) in enumerate(zip(index, shape.bounds)):
        if not 0 <= coordinate < size:
            raise IndexError(checks.out_of_bounds_text(index, dim, size, shape))
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
        raise LayoutError(
            f"first {checks.shown(first)} and second {checks.shown(second)} are not indices of one array: "
            f"they have {len(first)} and {len(second)} coordinates"
        )
    return (first > second) - (first < second)


@takes_shapes("shape")
def each_index(
    shape: Shape,
    base: Iterable[int] | None = None,
    count: Iterable[int] | None = None,
    increment: Iterable[int] | None = None,
) -> np.ndarray:
    """The logical indices that `ForEachIndex` visits, in its order: the most minor dimension of the layout runs
    fastest.

    base        the first coordinate in every dimension; 0 by default
    count       coordinates go from base to below base + count; by default to the end of the dimension
    increment   from one coordinate to the next; 1 by default

    An int64 array of shape (rank, number of indices), as `linearize` takes it.  A count of 0 keeps the dimension at its
    base, and its increment may be 0.  An array without elements has no index, a scalar has one.  The order is that of
    `minor_to_major`, as in XLA; places of tiles are in order in `delinearize(np.arange(shape.buffer_size), shape,
    padding="mark")`.

    IndexError for a first or last index outside of the array, where XLA goes on.  LayoutError for an increment below 1,
    with which XLA never ends.  XLA: `ForEachIndex`, `ForEachIndexWithStatus`, `ForEachIndexNoStatus`,
    `ForEachIndexParallel`.

    >>> each_index("f32[2,3]{0,1}").tolist()
    [[0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]]
    >>> each_index("f32[4,6]", base=(1, 0), count=(0, 6), increment=(0, 2)).tolist()
    [[1, 1, 1], [0, 2, 4]]
    """
    base = _numbers("base", base, (0,) * shape.rank, shape)
    rest = tuple(max(size - start, 0) for size, start in zip(shape.bounds, base))
    count = _numbers("count", count, rest, shape)
    increment = _numbers("increment", increment, (1,) * shape.rank, shape)
    for dim, (length, step) in enumerate(zip(count, increment)):
        if length < 0:
            raise LayoutError(
                f"count {checks.shown(count)} is negative for {shape}: dimension {dim} has {checks.number_text(length)}"
            )
        if step < 1 and length:
            raise LayoutError(
                f"increment {checks.shown(increment)} never ends for {shape}: dimension {dim} goes by "
                f"{checks.number_text(step)}"
            )
    if shape.is_zero_element_array:
        return np.empty((shape.rank, 0), np.int64)
    turns = [-(-length // step) if length else 1 for length, step in zip(count, increment)]
    last = tuple(start + (turn - 1) * step for start, turn, step in zip(base, turns, increment))
    for index in (base, last):
        for dim, (coordinate, size) in enumerate(zip(index, shape.bounds)):
            if not 0 <= coordinate < size:
                raise IndexError(checks.out_of_bounds_text(index, dim, size, shape))
    order = shape.layout.major_to_minor
    steps = (
        np.indices([turns[dim] for dim in order], np.int64).reshape(shape.rank, -1)
        if order
        else np.empty((0, 1), np.int64)
    )
    found = np.empty_like(steps)
    for row, dim in enumerate(order):
        found[dim] = base[dim] + steps[row] * increment[dim]
    return found


def _numbers(field: str, values: Iterable[int] | None, default: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    if values is None:
        return default
    found = checks.whole_numbers(field, values, f" for {shape}")
    if len(found) != shape.rank:
        raise LayoutError(
            f"{field} {checks.shown(found)} has {checks.counted(len(found), 'entry')} for {shape}: "
            f"the shape has {checks.counted(shape.rank, 'dimension')}"
        )
    return found
