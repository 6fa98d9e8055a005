"""Which dimensions a reshape leaves alone.

A reshape keeps the row-major order of the elements.  It leaves a dimension unmodified when a dimension of the result
has the same size and the same product of the sizes in front of it: every element has the same coordinate in both.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError


def dimensions_unmodified_by_reshape(source: Iterable[int], target: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Pairs of dimensions that a reshape does not change.

    Parameters
    ----------
    source, target : iterable of int
        Sizes before and after, major first, with the same product.

    Returns
    -------
    tuple of (int, int)
        (dimension of `source`, dimension of `target`), in ascending order.  For arrays without elements, only the
        leading dimensions that agree.

    Raises
    ------
    LayoutError
        If the products differ.

    Examples
    --------
    >>> dimensions_unmodified_by_reshape((4, 1, 3, 5, 6, 7), (2, 6, 1, 5, 1, 42))
    ((3, 3),)
    """
    source, target = checks.sizes("source", source), checks.sizes("target", target)
    if math.prod(source) != math.prod(target):
        raise LayoutError(
            f"target {checks.shown(target)} is not a reshape of source {checks.shown(source)}: "
            f"it has {checks.number_text(math.prod(target))} elements, not {checks.number_text(math.prod(source))}"
        )
    if 0 in source:
        leading = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(source, target))
        return tuple((dim, dim) for dim, _ in enumerate(leading))
    return _pairs(_marks(source, math.prod), _marks(target, math.prod))


def reshape_leaves_dimensions_unmodified(
    source: Iterable[int], target: Iterable[int], dimensions: Iterable[int]
) -> tuple[int, ...] | None:
    """Where the given dimensions of `source` are in `target`, when a reshape leaves all of them alone.

    XLA: `ReshapeLeavesDimensionsUnmodified`, which needs the dimensions sorted.

    Parameters
    ----------
    source, target : iterable of int
        Sizes before and after, major first, with the same product.
    dimensions : iterable of int
        Dimensions of `source`, in any order.

    Returns
    -------
    tuple of int, or None
        Dimensions of `target`, in the order of `dimensions`.  None when the reshape changes one of them.

    Raises
    ------
    LayoutError
        If the products differ.

    Examples
    --------
    >>> reshape_leaves_dimensions_unmodified((2, 3, 5, 7, 6), (6, 5, 1, 7, 2, 3), (3, 2))
    (3, 1)
    """
    source = checks.sizes("source", source)
    wanted = checks.dimension_numbers(dimensions, len(source), f" for source {checks.shown(source)}")
    unmodified = dict(dimensions_unmodified_by_reshape(source, target))
    return tuple(unmodified[dim] for dim in wanted) if unmodified.keys() >= {*wanted} else None


def inserted_or_deleted_1_sized_dimensions(
    source: Iterable[int], target: Iterable[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The dimensions of size 1 that a reshape removes and adds, when it does nothing else.

    Parameters
    ----------
    source, target : iterable of int
        Sizes before and after, major first.

    Returns
    -------
    (deleted, inserted) : tuple of int, tuple of int; or None
        Dimensions of `source` that are gone and dimensions of `target` that are new.  None when others change.

    Examples
    --------
    >>> inserted_or_deleted_1_sized_dimensions((9, 1, 4), (9, 4, 1, 1))
    ((1,), (2, 3))
    """
    source, target = checks.sizes("source", source), checks.sizes("target", target)
    if [size for size in source if size != 1] != [size for size in target if size != 1]:
        return None
    pairs = _pairs(_marks(source, _not_one), _marks(target, _not_one))
    kept = tuple(zip(*pairs)) or ((), ())
    return (
        tuple(dim for dim in range(len(source)) if dim not in kept[0]),
        tuple(dim for dim in range(len(target)) if dim not in kept[1]),
    )


def _marks(dimensions: Sequence[int], measure: Callable[[Sequence[int]], int]) -> list[tuple[int, int]]:
    """For every dimension, its size and a measure of the dimensions in front of it."""
    return [(size, measure(dimensions[:dim])) for dim, size in enumerate(dimensions)]


def _pairs(source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Positions of equal marks, paired in order: the first with the first."""
    waiting = defaultdict(list)
    for dim in reversed(range(len(target))):
        waiting[target[dim]].append(dim)
    return tuple((dim, waiting[mark].pop()) for dim, mark in enumerate(source) if waiting[mark])


def _not_one(dimensions: Sequence[int]) -> int:
    return sum(size != 1 for size in dimensions)
