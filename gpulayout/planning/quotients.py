"""The place of an element in a tiled buffer as a sum over the dimensions, each a sum of quotients of its coordinate.

A tile cuts a coordinate c in two, c // 8 and c % 8, and c % 8 is c - c // 8 * 8: so every place is a sum of c // step * weight.
f32[16,256]{1,0:T(8,128)}, index (9, 130):

    9 * 128 + 9 // 8 * 1024  +  130 + 130 // 128 * 896  =  3202

There are layouts without such a sum: `*` joins coordinates, and T(3)(2) cuts what 3 left by 2, which does not divide it.
"""
from __future__ import annotations

import collections
import math
from typing import NamedTuple

from gpulayout.model import tiling
from gpulayout.model.shape import Shape

Quotients = tuple[tuple[int, int], ...]


class _Digit(NamedTuple):
    """c // step % extent of a dimension's coordinate c; an extent of 0 is no limit, a dimension of -1 is always 0."""

    dim: int
    step: int
    extent: int


_NOTHING = _Digit(-1, 1, 1)


def place_quotients(shape: Shape) -> tuple[Quotients, ...] | None:
    """For every dimension (step, weight) by step, 1 first, weights in places; None where there is no such sum."""
    digits = [_Digit(dim, 1, 0) for dim in shape.layout.major_to_minor]
    steps, sizes = tiling.steps(shape.physical_widths, shape.layout.tiles)
    for step in steps:
        digits = [_NOTHING] * step.front + digits
        if any(len(group) > 1 for group in step.groups):
            return None
        cut = [_cut(digit, size) for digit, size in zip(digits[len(digits) - len(step.tile):], step.tile)]
        if None in cut:
            return None
        digits = digits[:len(digits) - len(step.tile)] + [outer for outer, _ in cut] + [inner for _, inner in cut]
    found = [collections.Counter({1: 0}) for _ in shape.dimensions]
    for number, (dim, step, extent) in enumerate(digits):
        if dim >= 0:
            stride = math.prod(sizes[number + 1:])
            found[dim][step] += stride
            if extent:
                found[dim][step * extent] -= stride * extent
    return tuple(tuple(sorted((step, weight) for step, weight in terms.items() if weight or step == 1)) for terms in found)


def _cut(digit: _Digit, size: int) -> tuple[_Digit, _Digit] | None:
    """The outer and the inner part of a digit that a tile of this size cuts; None when it does not divide the digit."""
    dim, step, extent = digit
    if dim < 0 or (extent and extent <= size):
        return _NOTHING, digit
    if extent % size:
        return None
    return _Digit(dim, step * size, extent // size), _Digit(dim, step, size)
