"""Where the elements of a shape lie, in row-major logical order, in as few numbers as possible.

The numbers are nested loops over the elements, as (extent, stride) pairs, major first.  An untiled shape has one loop
per dimension; tiles add loops.  f32[4,6]{1,0:T(2,3)} is ((2, 12), (2, 3), (2, 6), (3, 1)): rows in two tiles of 2 rows,
columns in two tiles of 3.  Neighbouring loops that continue each other are joined: f32[16,128]{1,0:T(8,128)} is
((2048, 1),), row-major memory.

Some tilings are not nested loops and give None: rows of 6 in tiles of 4, where the last tile has fewer elements; a
sub-tile that leaves gaps inside its tile; joined dimensions with a cut where neither size divides the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpulayout.layout.digits import StrideTable
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table

Loops = tuple[tuple[int, int], ...]
Parts = list[tuple[int, int]]  # (step, stride) of digits


def join(pairs: Iterable[tuple[int, int]]) -> Loops:
    """The fewest (extent, stride) pairs, major first: extents of 1 are dropped, neighbours that chain are joined."""
    joined: list[tuple[int, int]] = []
    for extent, stride in pairs:
        if extent == 1:
            continue
        if joined and joined[-1][1] == extent * stride:
            joined[-1] = (joined[-1][0] * extent, stride)
        else:
            joined.append((extent, stride))
    return tuple(joined)


def element_loops(shape: Shape) -> Loops | None:
    """The loops of a shape that has elements, as few as possible; None when its tiles are not nested loops.

    >>> from gpulayout import parse_shape
    >>> for tiled in ("f32[4,6]{1,0:T(2,3)}", "f32[6]{0:T(4)(2)}", "f32[6]{0:T(4)(3)}"):
    ...     print(element_loops(parse_shape(tiled)))
    ((2, 12), (2, 3), (2, 6), (3, 1))
    ((6, 1),)
    None
    """
    if not shape.is_tiled:
        return join(zip(shape.dimensions, shape.strides))
    table = stride_table(shape)
    loops: list[tuple[int, int]] = []
    for dim, size in enumerate(shape.dimensions):
        found = _parts(table, dim)
        if found is None:
            return None
        for step, stride in found:
            if size % step:
                if not _continues(found, step, stride):
                    return None  # the last round of this loop is shorter than the others
                continue
            loops.append((size // step, stride))
            size = step
    return join(loops)


def _parts(table: StrideTable, value: int) -> Parts | None:
    """Steps and strides of the digits of a value, most major first; None when a number joins it with another value.

    A digit of a digit is a digit of the value: c % 3 // 2 steps by 2.
    """
    found: Parts = []
    for share in table.shares[value]:
        if share.into == len(table.sizes):
            found.append((share.step, share.stride))
            continue
        parts = _parts(table, share.into) if len(table.numbers[share.into - len(table.dimensions)]) == 1 else None
        if parts is None:
            return None
        found += [(share.step * step, stride) for step, stride in parts]
    return found


def _continues(parts: Parts, step: int, stride: int) -> bool:
    """True when all parts of a dimension up to `step` are contiguous, so that a shorter last round leaves no gap."""
    return all(stride * below == lower * step for below, lower in parts if below < step)
