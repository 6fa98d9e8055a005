"""Which order of the dimensions wastes the least memory under the same tiles.

A tile rounds the dimensions it covers up to its own sizes, so it matters which dimensions it covers.
f32[16,256]{0,1:T(8,128)} has dimension 0 under the 128: 16 becomes 128, eight times what it needs.
f32[16,256]{1,0:T(8,128)} has 256 there, two tiles, and 16 under the 8: nothing is wasted.

The law: tiles cover the r most minor dimensions (`tile.reach`) and leave the others alone.  The number of places is the
product of the other widths times the places that the tiles make of the r covered ones.  It depends only on which r
dimensions are the most minor, and in which order.  n dimensions allow n! / (n - r)! such choices: 30 for
T(8,128) on 6 dimensions.  Padded widths stay with their dimension.  The tail is rounded up last, which changes no
comparison.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from gpulayout.layout.digits import cuts
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import SplitConfig
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.layout.tile import reach

MOST_SIZES = 20_000  # covered sizes in all orders that are tried: bounds the time of a call


def least_waste(shape: Shape | str) -> Shape:
    """The same array in the order of dimensions that needs the fewest bytes under the same tiles and padded widths.

    Parameters
    ----------
    shape : Shape or str

    Returns
    -------
    Shape
        `shape` itself when no order needs fewer bytes.  Among equally good orders, one that changes the fewest of the
        dimensions that the tiles cover.

    Raises
    ------
    LayoutError
        If a dimension has no bound.

    Notes
    -----
    The answer is exact when tiles cover 2 dimensions up to rank 100, 3 up to rank 19, 4 up to rank 9, 5 up to rank 7:
    while the choices of r covered dimensions number at most 20000 / r.  Beyond that, two dimensions at a time are
    exchanged while that helps.  The result then never needs more than `shape`, but another order may need less.

    Examples
    --------
    >>> str(least_waste("f32[16,256]{0,1:T(8,128)}"))
    'f32[16,256]{1,0:T(8,128)}'
    """
    shape = as_shape(shape)
    widths, order = shape.buffer_dimensions, shape.layout.minor_to_major
    touched = min(reach(shape.layout.tiles), shape.rank)
    if not touched or not shape.buffer_size:
        return shape
    under = order[:touched]

    @functools.cache
    def places(sizes: tuple[int, ...]) -> int:
        """All places when the tiles cover dimensions of these widths."""
        return math.prod(cuts(sizes[::-1], shape.layout.tiles).sizes) * (total // math.prod(sizes))

    def cost(minor: Sequence[int]) -> tuple[int, int]:
        return places(tuple(widths[dim] for dim in minor)), sum(map(int.__ne__, minor, under))

    total, most = math.prod(widths), MOST_SIZES // touched
    best: Sequence[int]
    if math.perm(shape.rank, touched) <= most:
        best = min(itertools.permutations(order, touched), key=cost)
    else:
        best = _exchanged(order, touched, cost, most)
    if tuple(best) == under:
        return shape
    above = [dim for dim in order if dim not in set(best)]
    reordered = shape.with_layout(_reordered(shape.layout, (*best, *above)))
    return reordered if reordered.nbytes < shape.nbytes else shape


def _exchanged(
    order: Sequence[int], touched: int, cost: Callable[[Sequence[int]], tuple[int, int]], most: int
) -> Sequence[int]:
    """The covered dimensions after exchanges that help, each the best one possible; at most `most` are tried."""
    current = order[:touched]
    while tried := list(itertools.islice(exchanges(current, order), most)):
        most -= len(tried)
        best = min(tried, key=cost)
        if cost(best)[0] >= cost(current)[0]:
            break
        current = best
    return current


def exchanges(minor: Sequence[int], order: Sequence[int]) -> Iterator[Sequence[int]]:
    """The covered dimensions after every exchange of one of them with another dimension."""
    for first, before in enumerate(minor):
        for second in range(first + 1, len(minor)):
            yield (*minor[:first], minor[second], *minor[first + 1 : second], before, *minor[second + 1 :])
        yield from ((*minor[:first], dim, *minor[first + 1 :]) for dim in order if dim not in minor)


@functools.lru_cache(256)  # programs have thousands of shapes in a few layouts, which are then shared
def _reordered(layout: Layout, minor_to_major: tuple[int, ...]) -> Layout:
    """The layout in another order.  Splits name physical dimensions, so they are renumbered to stay with theirs."""
    splits = [
        SplitConfig(layout.rank - 1 - minor_to_major.index(layout.major(split.dimension)), split.split_indices)
        for split in layout.split_configs
    ]
    return layout.replace(minor_to_major=minor_to_major, split_configs=splits)
