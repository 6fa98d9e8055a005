"""Logical indices of an array: all of them, the next one, and which of two comes first.

`bump_indices` and `compare_indices` follow row-major logical order: the last coordinate varies fastest, whatever the
layout.  `each_index` follows the layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape


def bump_indices(shape: Shape | str, index: Iterable[int]) -> tuple[int, ...] | None:
    """The logical index after `index` in row-major order; None after the last index.

    XLA: `BumpIndices`, which changes its argument and returns false after the last index.

    Parameters
    ----------
    shape : Shape or str
    index : iterable of int
        One coordinate per dimension, dimension 0 first.

    Examples
    --------
    >>> bump_indices("f32[2,3]", (0, 2)), bump_indices("f32[2,3]", (1, 2))
    ((1, 0), None)
    """
    shape = as_shape(shape)
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
    """-1 when `first` comes before `second` in row-major order, 0 when they are equal, 1 when it comes after.

    Parameters
    ----------
    first, second : iterable of int
        Indices of one array: the same number of coordinates, dimension 0 first.

    Raises
    ------
    LayoutError
        If they differ in length.

    Examples
    --------
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


def each_index(
    shape: Shape | str,
    base: Iterable[int] | None = None,
    count: Iterable[int] | None = None,
    increment: Iterable[int] | None = None,
) -> NDArray[np.int64]:
    """The logical indices of an array, or of a box in it, in the order of its layout.

    XLA: `ForEachIndex`, `ForEachIndexWithStatus`, `ForEachIndexNoStatus`, `ForEachIndexParallel`.  XLA visits indices
    outside the array, and never ends on an increment below 1.  The order is that of `minor_to_major`, as in XLA; tiles
    are ignored.  `delinearize(np.arange(shape.buffer_size), shape, padding="mark")` follows them.

    Parameters
    ----------
    shape : Shape or str
    base : iterable of int, optional
        The first coordinate in every dimension; 0 by default.
    count : iterable of int, optional
        Coordinates run from base to below base + count; by default to the end of the dimension.  A count of 0 keeps the
        dimension at its base.
    increment : iterable of int, optional
        The step between coordinates, at least 1 where the count is not 0; 1 by default.

    Returns
    -------
    numpy.ndarray
        int64 of shape (rank, number of indices), as `gpulayout.linearize` takes it.  The most minor dimension of the
        layout varies fastest.  An array without elements has no index, a scalar has one.

    Raises
    ------
    IndexError
        If the first or the last index is outside the array.
    LayoutError
        If a count is negative, an increment is below 1, or a sequence does not have one entry per dimension.

    Examples
    --------
    >>> each_index("f32[2,3]{0,1}").tolist()
    [[0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]]
    >>> each_index("f32[4,6]", base=(1, 0), count=(0, 6), increment=(0, 2)).tolist()
    [[1, 1, 1], [0, 2, 4]]
    """
    shape = as_shape(shape)
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
                f"increment {checks.shown(increment)} never ends for {shape}: dimension {dim} steps by "
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
    steps = np.indices([turns[dim] for dim in order], np.int64).reshape(shape.rank, math.prod(turns))
    indices = np.empty_like(steps)
    for row, dim in enumerate(order):
        indices[dim] = base[dim] + steps[row] * increment[dim]
    return indices


def _numbers(field: str, values: Iterable[int] | None, default: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    if values is None:
        return default
    numbers = checks.whole_numbers(field, values, f" for {shape}")
    if len(numbers) != shape.rank:
        raise LayoutError(
            f"{field} {checks.shown(numbers)} has {checks.counted(len(numbers), 'entry')} for {shape}: "
            f"the shape has {checks.counted(shape.rank, 'dimension')}"
        )
    return numbers
