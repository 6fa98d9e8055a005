"""All indices of an array, or of a part of it with steps, as one array."""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpulayout.model import checks
from gpulayout.model.arguments import takes_shapes
from gpulayout.model.errors import LayoutError
from gpulayout.model.index import out_of_bounds_text
from gpulayout.model.shape import Shape


@takes_shapes("shape")
def each_index(shape: Shape, base: Iterable[int] | None = None, count: Iterable[int] | None = None,
               increment: Iterable[int] | None = None) -> np.ndarray:
    """The logical indices that `ForEachIndex` visits, in its order: the most minor dimension of the layout runs fastest.

    base        the first coordinate in every dimension; 0 by default
    count       coordinates go from base to below base + count; by default to the end of the dimension
    increment   from one coordinate to the next; 1 by default

    An int64 array of shape (rank, number of indices), as `linearize` takes it.  A count of 0 keeps the dimension at its base,
    and its increment may be 0.  An array without elements has no index, a scalar has one.  The order is that of
    `minor_to_major`, as in XLA; places of tiles are in order in `delinearize(np.arange(shape.buffer_size), shape,
    padding="mark")`.

    IndexError for a first or last index outside of the array, where XLA goes on.  LayoutError for an increment below 1, with
    which XLA never ends.  XLA: `ForEachIndex`, `ForEachIndexWithStatus`, `ForEachIndexNoStatus`, `ForEachIndexParallel`.

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
            raise LayoutError(f"count {checks.shown(count)} is negative for {shape}: dimension {dim} has {checks.number_text(length)}")
        if step < 1 and length:
            raise LayoutError(f"increment {checks.shown(increment)} never ends for {shape}: dimension {dim} goes by "
                              f"{checks.number_text(step)}")
    if shape.is_zero_element_array:
        return np.empty((shape.rank, 0), np.int64)
    turns = [-(-length // step) if length else 1 for length, step in zip(count, increment)]
    last = tuple(start + (turn - 1) * step for start, turn, step in zip(base, turns, increment))
    for index in (base, last):
        for dim, (coordinate, size) in enumerate(zip(index, shape.bounds)):
            if not 0 <= coordinate < size:
                raise IndexError(out_of_bounds_text(index, dim, shape))
    order = shape.layout.major_to_minor
    steps = np.indices([turns[dim] for dim in order], np.int64).reshape(shape.rank, -1) if order else np.empty((0, 1), np.int64)
    found = np.empty_like(steps)
    for row, dim in enumerate(order):
        found[dim] = base[dim] + steps[row] * increment[dim]
    return found


def _numbers(field: str, values: Iterable[int] | None, default: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    if values is None:
        return default
    found = checks.whole_numbers(field, values, f" for {shape}")
    if len(found) != shape.rank:
        raise LayoutError(f"{field} {checks.shown(found)} has {checks.counted(len(found), 'entry')} for {shape}: "
                          f"the shape has {checks.counted(shape.rank, 'dimension')}")
    return found
