"""Whether two shapes put every element at the same place, where `walk` cannot say it in a few numbers.

Without `*` in a tile the place of an element is a sum, one part for every dimension: each tile cuts each dimension alone.
Two such shapes of the same dimensions agree everywhere as soon as they agree along every dimension, all other coordinates
being 0: 4 + 6 comparisons for 4 x 6 elements instead of 24.  All others are compared element by element, in row-major
logical order.  Both stop at the first difference.  Where that would take more than 2^24 comparisons, about a second, only what is
written the same counts as the same.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from gpulayout.model.shape import Shape
from gpulayout.model.tile import COMBINE
from gpulayout.model.tiling import slot_of

CHUNK = 1 << 14              # elements looked at together
MOST = 1 << 24               # elements that are looked at, or none

Index = list[np.ndarray]


def same_places(source: Shape, target: Shape) -> bool:
    """True when element number k in row-major logical order has one place in both, for every k; both have as many elements.

    >>> from gpulayout import parse_shape
    >>> tiled = parse_shape("f32[9]{0:T(4)(3)}")
    >>> same_places(tiled, parse_shape("f32[9]{0:T(4)(3)(1)}")), same_places(tiled, parse_shape("f32[9]{0:T(4)}"))
    (True, False)
    """
    if _same_law(source, target):
        return True
    if source.dimensions == target.dimensions and is_separable(source) and is_separable(target):
        compared = sum(source.dimensions)
        pairs = ((index, index) for dim in range(source.rank) for index in _along(source.dimensions, dim))
    else:
        compared, pairs = source.element_count, zip(row_major_indices(source), row_major_indices(target))
    return compared <= MOST and all(np.array_equal(slot_of(one, source), slot_of(other, target)) for one, other in pairs)


def _same_law(source: Shape, target: Shape) -> bool:
    """True when both give the same index the same place, field by field."""
    return (source.dimensions == target.dimensions and source.layout.minor_to_major == target.layout.minor_to_major
            and source.buffer_dimensions == target.buffer_dimensions and source.layout.tiles == target.layout.tiles)


def is_separable(shape: Shape) -> bool:
    """True when the place of an element is a sum over its coordinates: no tile combines dimensions."""
    return not any(COMBINE in tile.dimensions for tile in shape.layout.tiles)


def _along(dimensions: Sequence[int], dim: int) -> Iterator[Index]:
    """The indices whose coordinates are 0 in every dimension but one, some at a time."""
    for numbers in _chunks(dimensions[dim]):
        yield [numbers if other == dim else np.zeros_like(numbers) for other in range(len(dimensions))]


def row_major_indices(shape: Shape) -> Iterator[Index]:
    """All logical indices in row-major order, some at a time: one array for every dimension."""
    for numbers in _chunks(shape.element_count):
        yield [numbers // math.prod(shape.dimensions[dim + 1:]) % shape.dimensions[dim] for dim in range(shape.rank)]


def _chunks(count: int) -> Iterator[np.ndarray]:
    for start in range(0, count, CHUNK):
        yield np.arange(start, min(start + CHUNK, count))
