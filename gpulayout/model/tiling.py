"""The law of tiled layouts: which place of the buffer an element has, and which element a place holds.

Write the widths down in physical order, most major first, with the index beside them.  For every tile, in order:

  1. a tile longer than the list puts dimensions of size 1 (index 0) in front
  2. the tile takes as many of the most minor entries as it is long
  3. `*` merges an entry into the next more minor one: sizes (a, b), indices (i, j) become a * b and i * b + j
  4. every size d with index i, cut by t, becomes two: ceil(d / t) with i // t, and later, after all of these, t with i % t

What is left, read as row-major sizes and index, is the place; the product of the sizes is the number of places.
bf16[4,8]{1,0:T(2,4)(2,1)}, index (3, 6):

    sizes (4, 8)                 index (3, 6)
    (2, 2, 2, 4)      T(2,4)     (1, 1, 1, 2)
    (2, 2, 1, 4, 2, 1)   (2,1)   (1, 1, 0, 2, 1, 0)         place ((((1*2 + 1)*1 + 0)*4 + 2)*2 + 1)*1 + 0 = 29
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpulayout.model import checks
from gpulayout.model.tile import Tile

if TYPE_CHECKING:
    from gpulayout.model.shape import Shape

MOST_KEPT = 64               # sizes and entries of tiles whose expansion is kept: long ones would fill the memory


class Step(NamedTuple):
    """What one tile does to the list of sizes.

    front     sizes of 1 that are put in front first
    groups    the sizes it takes, major first, those that are merged together in one group
    tile      the size that cuts each group
    """

    front: int
    groups: tuple[tuple[int, ...], ...]
    tile: tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def steps(sizes: tuple[int, ...], tiles: tuple[Tile, ...]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """What every tile does to `sizes` (physical, major first), and the sizes in the end; see the law above."""
    current, done = list(sizes), []
    for tile in tiles:
        front = max(len(tile) - len(current), 0)
        current[:0] = [1] * front
        taken = iter(current[-len(tile):])
        groups = tuple(tuple(next(taken) for _ in range(length)) for length in tile.groups)
        current[-len(tile):] = [-(-checks.product(group) // size) for group, size in zip(groups, tile.sizes)]
        current += tile.sizes
        done.append(Step(front, groups, tile.sizes))
    return tuple(done), tuple(current)


def expand(sizes: Sequence[int], tiles: Sequence[Tile]) -> tuple[int, ...]:
    """The sizes after all tiles, major first; `sizes` are physical, major first.

    >>> expand((4, 8), (Tile((2, 4)), Tile((2, 1))))
    (2, 2, 1, 4, 2, 1)
    """
    is_short = len(sizes) + sum(map(len, tiles)) <= MOST_KEPT
    return (steps if is_short else steps.__wrapped__)(tuple(sizes), tuple(tiles))[1]


def widths_in_tiles(shape: Shape) -> tuple[int, ...]:
    """How far each coordinate goes until the tiles at its end are full, in logical order: beyond its size it counts padding.

    `slot_of` gives each of these indices a place of its own.  Padding inside of a tile, of dimensions that tiles put in front or
    that `*` merges, and of the tail has no index.

    >>> from gpulayout import parse_shape
    >>> [widths_in_tiles(parse_shape(f"f32[5,3]{{1,0:{tiles}}}")) for tiles in ("T(2,2)", "T(4)(2,2)", "T(*,2)", "T(6)(4)")]
    [(6, 4), (5, 8), (5, 3), (5, 6)]
    """
    done, _ = steps(shape.physical_widths, shape.layout.tiles)
    widths = dict(enumerate(shape.buffer_dimensions))
    tops: list[tuple[int | None, int]] = [(dim, 1) for dim in shape.layout.major_to_minor]   # whose last digit an entry is, and its step
    for step in done:
        tops[:0] = [(None, 1)] * step.front
        taken = iter(tops[-sum(map(len, step.groups)):])
        cut = []
        for group, size in zip(step.groups, step.tile):
            (dim, unit), *joined = [next(taken) for _ in group]
            if dim is not None and not joined:
                widths[dim] = -(-group[0] // size) * size * unit
            cut.append((None if joined else dim, unit * size))
        tops[-sum(map(len, step.groups)):] = [*cut, *[(None, 1)] * len(cut)]
    return tuple(widths.values())


def slot_of(index: Sequence[Any], shape: Shape) -> Any:
    """The place of a logical index in the buffer of `shape`, unchecked.

    index    one coordinate for every dimension: ints, or integer arrays of one shape, of 64 bits where places need them

    >>> from gpulayout import parse_shape
    >>> slot_of((3, 6), parse_shape("bf16[4,8]{1,0:T(2,4)(2,1)}"))
    29
    """
    done, sizes = steps(shape.physical_widths, shape.layout.tiles)
    entries = [index[dim] for dim in shape.layout.major_to_minor]
    for step in done:
        entries[:0] = [0] * step.front
        taken = merged(entries, step)
        entries[-sum(map(len, step.groups)):] = [entry // size for entry, size in zip(taken, step.tile)]
        entries += [entry % size for entry, size in zip(taken, step.tile)]
    slot = 0
    for entry, size in zip(entries, sizes):
        slot = slot * size + entry
    return slot


def merged(entries: Sequence[Any], step: Step) -> list[Any]:
    """The most minor entries that a tile takes, those of one group as one number."""
    taken = iter(entries[-sum(map(len, step.groups)):])
    return [functools.reduce(lambda high, size: high * size + next(taken), group[1:], next(taken)) for group in step.groups]


def index_of(slot: Any, shape: Shape) -> tuple[Any, ...]:
    """The logical index of the element at a place; every coordinate is -1 where the place is padding or no place at all.

    slot    an int, or an array of signed integers

    A place is padding when some index on the way back is past the size it had on the way there: T(3)(2) on 6 elements puts
    the 3 places of a tile into 4, and the fourth would read as the first element of the next tile.

    >>> from gpulayout import parse_shape
    >>> index_of(29, parse_shape("bf16[4,8]{1,0:T(2,4)(2,1)}")), index_of(3, parse_shape("f32[6]{0:T(3)(2)}"))
    ((3, 6), (-1,))
    """
    index, found = _way_back(slot, shape)
    return tuple((coordinate + 1) * found - 1 for coordinate in index)


def is_element(slot: Any, shape: Shape) -> Any:
    """True where a place holds an element; of a scalar's place too, which has no coordinate that could say so.

    >>> from gpulayout import parse_shape
    >>> [is_element(slot, parse_shape("f32[]{:T(2)}")) for slot in range(3)]
    [True, False, False]
    """
    return _way_back(slot, shape)[1]


def _way_back(slot: Any, shape: Shape) -> tuple[list[Any], Any]:
    """The index at a place, and whether it is one of an element."""
    done, sizes = steps(shape.physical_widths, shape.layout.tiles)
    found = (slot >= 0) & (slot < math.prod(sizes))
    entries = split_row_major(slot, sizes)
    for step in reversed(done):
        count = len(step.tile)
        before = []
        for outer, inner, size, group in zip(entries[-2 * count:-count], entries[-count:], step.tile, step.groups):
            coordinate = outer * size + inner
            found = found & (coordinate < math.prod(group))
            before += split_row_major(coordinate, group)
        entries[-2 * count:] = before
        del entries[:step.front]                      # these are 0, or the place was found to be padding just above
    index = [entries[position] for position in shape.layout.logical_to_physical()]
    for coordinate, size in zip(index, shape.dimensions):
        found = found & (coordinate < size)
    return index, found


def split_row_major(linear: Any, sizes: Sequence[int]) -> list[Any]:
    """A row-major linear index as one index for each size; the most major one takes all that is left."""
    found = []
    for size in reversed(sizes[1:]):
        found.append(linear % max(size, 1))
        linear = linear // max(size, 1)
    return [linear, *reversed(found)] if sizes else []
