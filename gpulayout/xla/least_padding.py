"""Which order of the dimensions wastes least under the same tiles.

A tile rounds the dimensions under it up to its own sizes, so it matters which ones those are.
f32[16,256]{0,1:T(8,128)} has dimension 0 under the 128: 16 becomes 128, eight times what it needs.
f32[16,256]{1,0:T(8,128)} has 256 there, two tiles, and 16 under the 8: nothing is wasted.

The law: tiles touch the r most minor dimensions (`tile.reach`) and leave the others as they are, so the number of
places is the product of the others' widths with what the tiles make of the r.  It depends on nothing but which
dimensions the r most minor ones are, and in which order: of n dimensions there are n! / (n - r)! such choices, 30 for
T(8,128) on 6 dimensions. Padded widths go with their dimension, and the tail is rounded up last, which changes no
comparison.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpulayout.layout.arguments import takes_shapes
from gpulayout.layout.digits import cuts
from gpulayout.layout.split_config import SplitConfig
from gpulayout.layout.tile import reach

if TYPE_CHECKING:
    from gpulayout.layout.layout import Layout
    from gpulayout.layout.shape import Shape

MOST_SIZES = 20_000  # in all orders that are tried, the sizes under the tiles counted: under a tenth of a second


@takes_shapes("shape")
def least_waste(shape: Shape) -> Shape:
    """The same array with its dimensions in the order that needs the fewest bytes under the same tiles and padded
    widths.

    It is `shape` itself when no order needs fewer; of several as good, one that changes the fewest of the dimensions
    under the tiles.  The answer is exact while all choices of r dimensions under the tiles are at most 20000 / r, which
    is so up to rank 100 for two dimensions under the tiles, 19 for three, 9 for four, 7 for five.  Beyond that two
    dimensions at a time are exchanged while that helps: the result never needs more than `shape`, but some other order
    may need less.

    LayoutError for a dimension without a bound.

    >>> str(least_waste("f32[16,256]{0,1:T(8,128)}"))
    'f32[16,256]{1,0:T(8,128)}'
    """
    widths, order = shape.buffer_dimensions, shape.layout.minor_to_major
    touched = min(reach(shape.layout.tiles), shape.rank)
    if not touched or not shape.buffer_size:
        return shape
    under = order[:touched]

    @functools.cache
    def places(sizes: tuple[int, ...]) -> int:
        """The part of the places that the order decides, from the widths under the tiles; those above are multiplied
        in.
        """
        return math.prod(cuts(sizes[::-1], shape.layout.tiles).sizes) * (total // math.prod(sizes))

    def cost(minor: Sequence[int]) -> tuple[int, int]:
        return places(tuple(widths[dim] for dim in minor)), sum(map(int.__ne__, minor, under))

    total, most = math.prod(widths), MOST_SIZES // touched
    if math.perm(shape.rank, touched) <= most:
        best = min(itertools.permutations(order, touched), key=cost)
    else:
        best = _exchanged(order, touched, cost, most)
    above = [dim for dim in order if dim not in set(best)]
    found = shape.with_layout(_reordered(shape.layout, (*best, *above)))
    return found if found.nbytes < shape.nbytes else shape


def _exchanged(
    order: Sequence[int], touched: int, cost: Callable[[Sequence[int]], tuple[int, int]], most: int
) -> Sequence[int]:
    """The dimensions under the tiles after the exchanges that help, each the best of all; at most `most` are tried."""
    current = order[:touched]
    while tried := list(itertools.islice(_exchanges(current, order), most)):
        most -= len(tried)
        best = min(tried, key=cost)
        if cost(best)[0] >= cost(current)[0]:
            break
        current = best
    return current


def _exchanges(minor: Sequence[int], order: Sequence[int]) -> Iterator[Sequence[int]]:
    """The dimensions under the tiles after one of them has changed places with each other dimension."""
    for first, before in enumerate(minor):
        for second in range(first + 1, len(minor)):
            yield (*minor[:first], minor[second], *minor[first + 1 : second], before, *minor[second + 1 :])
        yield from ((*minor[:first], dim, *minor[first + 1 :]) for dim in order if dim not in minor)


def _reordered(layout: Layout, minor_to_major: tuple[int, ...]) -> Layout:
    """The layout with its dimensions in another order; splits, which are counted in memory's order, go with their
    dimension.
    """
    splits = [
        SplitConfig(layout.rank - 1 - minor_to_major.index(layout.major(split.dimension)), split.split_indices)
        for split in layout.split_configs
    ]
    return layout.replace(minor_to_major=minor_to_major, split_configs=splits)
