"""Tiles of fixed sizes, for moves whose minor axes differ and which are aligned to 16 bytes on both sides.

A tile is a matrix of the target's minor axis b and the source's minor axis a, or several such matrices if they are
small.  Blocks run in an order in which those that are at work together write few pages of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpulayout.gpu.element_width import VECTOR_BYTES, MoveWork
from gpulayout.gpu.kernel_numbers import (
    A_FIRST,
    A_LAST,
    B_FIRST,
    FEW_BLOCKS,
    FIXED_TILES,
    FLAT_GRID,
    LEAST_TILE_RUN,
    MOST_PAGES,
    RESIDENT_BLOCKS,
    THREADS,
)
from gpulayout.gpu.launch import KernelPlan, MoveFields, planned, tile_kernel
from gpulayout.gpu.parameters import ThreadSteps
from gpulayout.moves.move import Axis

_TILE = tile_kernel("tile.cu", "gpl_tile_vector")
_MACROS = "GPL_TILE_A", "GPL_TILE_B", "GPL_DEPTH", "GPL_RAGGED", "GPL_ORDER"
_WORD = 4  # bytes; a thread reads shared memory in these or in larger elements
_PAGE = 1 << 21  # bytes of a page of device memory


class FixedTile(NamedTuple):
    """The sizes of a tile in elements; `depth` matrices follow each other along the axis `stack`."""

    along_a: int
    along_b: int
    depth: int = 1
    stack: Axis | None = None


def fixed_plan(work: MoveWork) -> KernelPlan | None:
    """The plan of kernels/tile.cu; None if the axes fill too little of its tiles.  Axes are b, a, then the others."""
    (b, a, *others), per_chunk = work.axes, VECTOR_BYTES // work.width
    # a tile may have places of pad, or chunks of 16 bytes that are cut by a bound or an extent
    ragged = any(axis.is_padded for axis in work.axes) or bool(a.bound % per_chunk or b.extent % per_chunk)
    tile = fixed_tile(work.width, work.axes, ragged)
    # each extent must fill at least half of the tiles that it is cut into
    if any(2 * axis.extent < _up(axis.extent, size) for size, axis in ((tile.along_a, a), (tile.along_b, b))):
        return None
    steps, looped = None, others
    depths: tuple[int, ...] = ()
    if tile.stack:
        stack, depth = tile.stack, tile.depth
        others = [stack, *[axis for axis in others if axis is not stack]]
        steps = ThreadSteps(2, stack.extent, stack.bound, 1, *stack[2:])
        tiles = math.ceil(stack.extent / depth)
        looped = [Axis(tiles, tiles, depth * stack.source_stride, depth * stack.target_stride), *others[1:]]
        depths = (depth,)
    counts, rest = tile_counts(tile, b, a), math.prod(axis.extent for axis in looped)
    total, order = math.prod(counts) * rest, blocks_order(work.width, tile, (b, a, *looped))
    counts = {B_FIRST: counts, A_FIRST: counts[::-1], A_LAST: (counts[0], rest)}[order]
    fields = MoveFields(total, counts, (tile.along_b, tile.along_a, *depths), steps, (b, a, *looped))
    variant = tuple(zip(_MACROS, (tile.along_a, tile.along_b, tile.depth, int(ragged), order)))
    return planned(work._replace(axes=(b, a, *others)), _TILE, VECTOR_BYTES, total, fields, variant=variant)


def fixed_tile(width: int, axes: Sequence[Axis], ragged: bool) -> FixedTile:
    """The tile for axes b, a, then the others, of elements of `width` bytes.

    A side is halved while half of it holds its whole axis, down to 64 bytes.  The tile then has as many matrices as
    make up for it, or half of them if each thread still has work.  They are neighbours along an axis that fills five
    eighths of the places for them, the one with the shortest steps in the source, so that runs there go on from matrix
    to matrix.  `ragged` tiles have one matrix.

    >>> axes = [Axis(extent, extent, 1, 1) for extent in (32, 9000, 15)]
    >>> fixed_tile(4, axes, False)[:3], fixed_tile(4, axes, True)[:3]
    ((64, 32, 2), (64, 64, 1))
    """
    along_a, along_b = FIXED_TILES[width]
    places, least = along_a * along_b, least_side(width)
    sizes = tuple(_halved(size, axis.extent, least) for size, axis in zip((along_a, along_b), axes[1::-1]))
    for depth in (places // math.prod(sizes), places // math.prod(sizes) // 2):
        stacks = [axis for axis in axes[2:] if 8 * axis.extent >= 5 * _up(axis.extent, depth or 1)]
        if stacks and depth > 1 and math.prod(sizes) * depth >= least_places(width) and not ragged:
            return FixedTile(sizes[0], sizes[1], depth, min(stacks, key=lambda axis: abs(axis.source_stride)))
    return _smaller(width, FixedTile(along_a, along_b), axes)


def least_side(width: int) -> int:
    """Elements of the shortest side of a matrix: runs of 64 bytes, and 8 places for the swizzle of shared memory.

    >>> [least_side(width) for width in (1, 2, 4, 8, 16)]
    [64, 32, 16, 8, 8]
    """
    return max(LEAST_TILE_RUN // width, 8)


def least_places(width: int) -> int:
    """Places of a tile in which each thread writes once: whole chunks of as many rows as a word has elements.

    >>> [least_places(width) * width for width in (1, 2, 4, 8, 16)]
    [16384, 8192, 4096, 4096, 4096]
    """
    return THREADS * VECTOR_BYTES // width * max(_WORD // width, 1)


def _halved(size: int, extent: int, least: int) -> int:
    return _halved(size // 2, extent, least) if size // 2 >= max(extent, least) else size


def _smaller(width: int, tile: FixedTile, axes: Sequence[Axis]) -> FixedTile:
    """The tile, halved until there are enough blocks, or until each thread writes once.

    >>> axes = [Axis(256, 256, 256, 1), Axis(256, 256, 1, 256)]
    >>> _smaller(4, FixedTile(64, 64), axes)
    FixedTile(along_a=32, along_b=32, depth=1, stack=None)
    """
    blocks = math.prod(tile_counts(tile, *axes[:2])) * math.prod(axis.extent for axis in axes[2:])
    if blocks >= FEW_BLOCKS or tile.along_a * tile.along_b <= least_places(width):
        return tile
    along_a, along_b = tile[:2]
    halved = (along_a // 2, along_b) if along_a > along_b else (along_a, along_b // 2)
    return _smaller(width, FixedTile(*halved), axes)


def tile_counts(tile: FixedTile, b: Axis, a: Axis) -> tuple[int, int]:
    """Tiles along b and along a."""
    return math.ceil(b.extent / tile.along_b), math.ceil(a.extent / tile.along_a)


def blocks_order(width: int, tile: FixedTile, loops: Sequence[Axis]) -> int:
    """In which order blocks run through the tiles: first along b, then along a, then along the other axes in the
    target's order.

    Along a last, if the blocks that are at work together would write to many pages of memory, and to half of them so:
    >>> axes = [Axis(384, 384, 136880, 1), Axis(2320, 2320, 1, 22656), Axis(59, 59, 2320, 384)]
    >>> blocks_order(4, FixedTile(64, 64), axes) == A_LAST
    True
    """
    b, a, *others = loops
    across, down = tile_counts(tile, b, a)
    if across > FLAT_GRID * down:
        return A_FIRST
    along = (across, tile.along_b * width), (down, tile.along_a * a.target_stride * width)
    outer = [(axis.extent, axis.target_stride * width) for axis in others]
    inside = (tile.along_b, width), (tile.along_a, a.target_stride * width)
    first, last = (_pages([*inside, *_together(order)]) for order in ((*along, *outer), (along[0], *outer, along[1])))
    return A_LAST if first > MOST_PAGES and 2 * last <= first else B_FIRST


def _together(loops: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The part of these loops, of so many blocks and so many bytes apart, that is at work at the same time."""
    left = RESIDENT_BLOCKS
    for count, apart in loops:
        yield min(count, left), apart
        left = math.ceil(left / count)


def _pages(places: Iterable[tuple[int, int]]) -> int:
    """Pages of memory that a box of so many places, so many bytes apart, touches: about as many.

    >>> _pages([(64, 4), (64, 1 << 20)]), _pages([(64, 4), (64, 1 << 23)])
    (32, 64)
    """
    pages, span = 1, 1
    for apart, count in sorted((abs(apart), count) for count, apart in places):
        if apart > max(span, _PAGE):
            pages *= count
        else:
            span += (count - 1) * apart
    return pages * math.ceil(span / _PAGE)


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step
