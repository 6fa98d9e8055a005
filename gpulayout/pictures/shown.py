"""Which coordinates and places of a large array are drawn: its corners, and both sides of every kind of edge.

A dimension of 4096 in tiles of 128 shows 0 1 ... 127 128 ... 4095: a tile ends at 127, and the next begins at 128.
What is left out is None in the list.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpulayout.layout.checks import product
from gpulayout.layout.digits import StrideTable, cuts
from gpulayout.layout.shape import Shape

_MOST_ENDS = 64


def tile_blocks(shape: Shape) -> tuple[int, ...]:
    """The places in a tile of each level, outermost first: a tile is a block of memory that is as large.

    >>> from gpulayout import parse_shape
    >>> tile_blocks(parse_shape("bf16[64,512]{1,0:T(8,128)(2,1)}"))
    (1024, 2)

    A tile that a later `*` joins with others is no block of memory any more, and is left out.
    """
    tiles = shape.layout.tiles
    blocks = {product(cuts(tile.sizes, tiles[level + 1 :]).sizes) for level, tile in enumerate(tiles)}
    blocks &= set(itertools.accumulate(reversed(shape.physical_dimensions), operator.mul))
    return tuple(sorted((block for block in blocks if block > 1), reverse=True))


def row_length(table: StrideTable) -> int:
    """Places until the second digit changes: the row of the dimension that varies fastest, padding included.

    >>> from gpulayout import stride_table
    >>> row_length(stride_table("f32[2,3]{0,1:PD(3,5)}")), row_length(stride_table("f32[7]"))
    (3, 7)
    """
    strides = [digit.stride for digit in table.digits if digit.extent > 1]
    return strides[1] if len(strides) > 1 else table.buffer_size


def tile_edges(table: StrideTable, dim: int, width: int, blocks: Iterable[int]) -> list[int]:
    """The first coordinate of a second tile along a dimension, for the two outermost levels that have one.

    >>> from gpulayout import stride_table
    >>> tile_edges(stride_table("bf16[64,512]{1,0:T(8,128)(2,1)}"), 0, 64, (1024, 2))
    [8, 2]
    """
    candidates = [point for point in _digit_ends(table)[dim] if point < width]

    edges: list[int] = []
    for block in blocks:
        edges += [c for c in candidates if place_at(table, dim, c - 1) // block != place_at(table, dim, c) // block][:1]
    return list(dict.fromkeys(edges))[:2]


def place_at(table: StrideTable, dim: int, coordinate: int) -> int:
    """The place at a coordinate of one dimension and 0 in all others."""
    return int(table.linear_of([coordinate if other == dim else 0 for other in range(len(table.dimensions))]))


def chosen(width: int, wanted: Sequence[int], room: int, cell: int, gap: int) -> list[int | None]:
    """All of 0..width-1 if there is room, else those of `wanted` that fit, first come first served; None for a gap.

    The first one that exists is kept in any case.

    room, cell, gap   the length of the list when drawn, and what a number and a gap take of it

    >>> chosen(4, (), 12, 3, 1), chosen(4096, (127, 128, 0, 4095, 1, 2), 17, 3, 1)
    ([0, 1, 2, 3], [0, 1, None, 127, 128, None, 4095])
    """
    if width * cell <= room:
        return list(range(width))

    def length(points: Iterable[int]) -> int:
        return sum(gap if point is None else cell for point in with_gaps(points, width))

    kept: set[int] = set()
    for point in wanted:
        if 0 <= point < width and (not kept or length(kept | {point}) <= room):
            kept.add(point)
    return list(with_gaps(kept, width))


def wanted_coordinates(width: int, size: int, edges: Sequence[int]) -> list[int]:
    """The coordinates of a dimension that say most, most telling first.

    width, size   with and without padding
    edges         from `tile_edges`
    """
    beside = [coordinate for edge in edges for coordinate in (edge - 1, edge)]
    at_end = [size - 1, size] if size < width else []
    return [*beside[:2], 0, width - 1, *at_end, *beside[2:], 1, 2, width - 2, 3]


def chosen_panels(
    widths: Sequence[int], order: Iterable[int], edges: Mapping[int, Sequence[int]], most: int
) -> list[tuple[int, ...] | None]:
    """Coordinates of at most `most` panels in row-major order: all, or the most telling ones; None for those left out.

    widths   of the dimensions that number the panels
    order    these dimensions, fastest first: a step along them shows what lies next to each other in memory
    edges    of each, from `tile_edges`

    >>> chosen_panels((64, 3), (1, 0), {}, 4)
    [(0, 0), (0, 1), None, (1, 0), None, (63, 2)]
    """
    first = tuple(0 for _ in widths)

    def step(dim: int, coordinate: int) -> tuple[int, ...]:
        return (*first[:dim], coordinate, *first[dim + 1 :])

    if product(widths) <= most:
        return list(itertools.product(*map(range, widths)))
    order = [dim for dim in order if widths[dim] > 1]
    at_edges = [step(dim, point) for dim in order for edge in edges.get(dim, ())[:1] for point in (edge - 1, edge)]
    wanted = [*at_edges[:2], first, tuple(width - 1 for width in widths), *at_edges, *(step(dim, 1) for dim in order)]
    kept = {row_major_number(panel, widths): panel for panel in list(dict.fromkeys(wanted))[:most]}
    return [None if number is None else kept[number] for number in with_gaps(kept, product(widths))]


def row_major_number(index: Iterable[int], sizes: Iterable[int]) -> int:
    """The number of an index in row-major order.

    >>> row_major_number((1, 2), (2, 3))
    5
    """
    number = 0
    for coordinate, size in zip(index, sizes):
        number = number * size + coordinate
    return number


def wanted_places(table: StrideTable, blocks: Sequence[int], row: int) -> list[int]:
    """The places of the buffer that say most, most telling first: ends of tiles and rows, and the first padding."""
    ends = [*blocks[:1], row, *blocks[1:2]]
    past_sizes = [place_at(table, dim, size) for dim, size in enumerate(table.dimensions)]
    ends += sorted(place for place in past_sizes if place < table.buffer_size and table.is_padding(place))[:1]
    beside, near = ([end + step for end in ends for step in steps] for steps in ((-1, 0), (-2, 1, -3, 2)))
    return [0, table.buffer_size - 1, *beside, 1, 2, 3, *near, 4, 5, table.buffer_size - 2]


def _digit_ends(table: StrideTable) -> list[list[int]]:
    """For every coordinate, then every number of the table, the values at which a digit of it changes, ascending.

    Numbers are composed from the values before them, so the last one comes first.  Deep tiles would double the values
    at every level, hence the limit.
    """
    ends_of: list[list[int]] = [[] for _ in table.sizes]
    for value in reversed(range(len(ends_of))):
        ends = {1}
        for into, digits in enumerate((*table.numbers, table.digits), len(table.dimensions)):
            for dim, step, extent, stride in digits:
                if dim == value:
                    ends |= {step, step * extent}
                    ends |= {-(-end // stride) * step for end in (ends_of[into] if into < len(ends_of) else ())}
        ends_of[value] = sorted(ends)[:_MOST_ENDS]
    return ends_of


def with_gaps(points: Iterable[int], width: int) -> Iterator[int | None]:
    """The points in ascending order, with None where one or more are left out."""
    expected = 0
    for point in sorted(points):
        if point != expected:
            yield None
        yield point
        expected = point + 1
    if expected < width:
        yield None
