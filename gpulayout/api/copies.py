"""Copies between logical arrays with any strides on both sides: `transpose`, once it knows the axes."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayout.api.kept import Kept
from gpulayout.api.sides import ArraySide
from gpulayout.api.transfer import Transfer
from gpulayout.layout.shape import Shape
from gpulayout.moves.pieces import pieces
from gpulayout.moves.placement import Placement

# By the shape of the logical array, its strides in the source, and the dimensions and strides of the target.
kept_copies: Kept[Transfer] = Kept()


def copy_between(
    shape: Shape, strides: tuple[int, ...], dimensions: tuple[int, ...], target_strides: tuple[int, ...]
) -> Transfer:
    """The copy of a logical array between two arrays that have elements: the elements move as opaque bytes.

    shape        of the logical array; its elements are as wide as the arrays'
    strides      its byte strides in the source
    dimensions   of the target: those of the logical array, or with neighbouring ones joined; with their byte strides
    """
    key = shape, strides, dimensions, target_strides
    found = kept_copies.get(key)
    if found is None:
        placed = split_strides(shape.dimensions, dimensions, target_strides)
        moves = pieces(Placement.array(shape, strides), Placement.array(shape, placed))
        found = Transfer(ArraySide(shape, strides), ArraySide(shape, placed), moves)
        kept_copies.keep(key, found, len(moves))
    return found


def split_strides(dimensions: Sequence[int], joined: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of `dimensions` in an array whose dimensions `joined` are products of neighbours among them.

    (2, 3, 4) in an array of (2, 12) with strides (100, 4): 3 and 4 share the stride 4, so theirs are (100, 16, 4).
    Dimensions of size 1 never step; there are no empty ones.
    """
    found: list[int] = []
    axes = [(size, stride) for size, stride in zip(joined, strides) if size > 1]
    room = step = 1
    for size in reversed(dimensions):
        if size > 1 and room == 1:
            room, step = axes.pop()
        found.append(step if size > 1 else 0)
        if size > 1:
            room, step = room // size, step * size
    return tuple(reversed(found))
