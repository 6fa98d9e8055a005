"""Where the elements of a shape lie, in row-major logical order, in as few numbers as possible.

A walk is a list of (extent, stride) pairs, major first: nested loops over the elements.  An untiled shape has one loop for every
dimension, a tiled one more.  f32[4,6]{1,0:T(2,3)} is ((2, 12), (2, 3), (2, 6), (3, 1)): rows in two tiles of 2 rows, columns in
two tiles of 3.  Neighbours that continue each other are joined: f32[16,128]{1,0:T(8,128)} is ((2048, 1),), row-major memory.

Some tilings are no nest of loops, and their walk is None: rows of 6 in tiles of 4 whose last turn is shorter than the others, a
sub-tile that leaves gaps inside of its tile, merged dimensions cut where neither divides the other.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from gpulayout.model.shape import Shape
from gpulayout.model.tile import Tile

Walk = tuple[tuple[int, int], ...]


class Piece(NamedTuple):
    """Places for a part of a dimension's coordinate, which counts in `step`s; without a dimension, places that nothing fills.

    Padding makes the extent larger than what the coordinate reaches: 2 numbers in T(2)(8) have 8 places.
    """

    dim: int | None
    step: int
    extent: int
    reach: int


def join(pairs: Iterable[tuple[int, int]]) -> Walk:
    """(extent, stride) pairs, major first, in as few as possible: extents of 1 go, neighbours that chain are joined."""
    joined: list[tuple[int, int]] = []
    for extent, stride in pairs:
        if extent == 1:
            continue
        if joined and joined[-1][1] == extent * stride:
            joined[-1] = (joined[-1][0] * extent, stride)
        else:
            joined.append((extent, stride))
    return tuple(joined)


def walk(shape: Shape) -> Walk | None:
    """The joined walk of a shape that has elements, or None when its tiles are no nest of loops.

    >>> from gpulayout import parse_shape
    >>> walk(parse_shape("f32[4,6]{1,0:T(2,3)}")), walk(parse_shape("f32[6]{0:T(4)(2)}")), walk(parse_shape("f32[6]{0:T(4)(3)}"))
    (((2, 12), (2, 3), (2, 6), (3, 1)), ((6, 1),), None)
    """
    if not shape.is_tiled:
        return join(zip(shape.dimensions, shape.strides))
    pieces = _pieces(shape)
    if pieces is None:
        return None
    parts: list[list[tuple[int, int]]] = [[] for _ in shape.dimensions]      # (step, stride) of every dimension
    stride = 1
    for piece in reversed(pieces):
        if piece.dim is not None:
            parts[piece.dim].append((piece.step, stride))
        stride *= piece.extent
    loops: list[tuple[int, int]] = []
    for size, found in zip(shape.dimensions, parts):
        for step, stride in sorted(found, reverse=True):
            if size > step and size % step:
                if not _continues(found, step, stride):
                    return None                       # the last turn of this loop is shorter than the others
                continue
            loops.append((-(-size // step), stride))
            size = min(size, step)
    return join(loops)


def _continues(parts: list[tuple[int, int]], step: int, stride: int) -> bool:
    """True when all parts of a dimension up to `step` lie as one: then a shorter last turn is no gap."""
    return all(stride * below == lower * step for below, lower in parts if below < step)


def _pieces(shape: Shape) -> list[Piece] | None:
    """What the physical dimensions are made of, major first."""
    entries = [[Piece(dim, 1, *[shape.buffer_dimensions[dim]] * 2)] for dim in shape.layout.major_to_minor]
    for tile in shape.layout.tiles:
        entries[:0] = [[] for _ in range(len(tile) - len(entries))]
        cut = _cut_all(entries[-len(tile):], tile)
        if cut is None:
            return None
        entries[-len(tile):] = [outer for outer, _ in cut] + [inner for _, inner in cut]
    return [piece for entry in entries for piece in entry]


def _cut_all(entries: list[list[Piece]], tile: Tile) -> list[tuple[list[Piece], list[Piece]]] | None:
    """Every group of the tile, cut by its size."""
    taken = iter(entries)
    cut = []
    for length, size in zip(tile.groups, tile.sizes):
        parts = _cut([piece for _ in range(length) for piece in next(taken)], size)
        if parts is None:
            return None
        cut.append(parts)
    return cut


def _cut(pieces: list[Piece], size: int) -> tuple[list[Piece], list[Piece]] | None:
    """Pieces, major first, as those above and those below a cut at `size`; None when it falls inside of a piece unevenly."""
    above, below = list(pieces), []
    while size > 1:
        if not above:
            below.insert(0, Piece(None, 0, size, 1))
            break
        piece = above.pop()
        if math.prod(part.extent for part in above) == 1:
            piece = piece._replace(extent=-(-piece.extent // size) * size)       # the padding is at its high end
        if size % piece.extent == 0:
            below.insert(0, piece)
            size //= piece.extent
        elif piece.extent % size == 0:
            upper = piece._replace(step=piece.step * size, extent=piece.extent // size, reach=-(-piece.reach // size))
            above.append(upper if upper.reach > 1 else upper._replace(dim=None))
            below.insert(0, piece._replace(extent=size, reach=min(piece.reach, size)))
            break
        else:
            return None
    return above, below
