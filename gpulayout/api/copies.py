"""Copies between logical arrays with any strides on both sides: `transpose`, once it knows the axes."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayout.api.kept import Kept
from gpulayout.api.sides import ArraySide
from gpulayout.api.transfer import Transfer
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Array, Backend
from gpulayout.moves.kinds import Piece
from gpulayout.moves.move import strided_move

# By the shape of the logical array, its strides in the source, and the dimensions and strides of the target; with the
# strides of the logical array in the target.
kept_copies: Kept[tuple[Transfer, tuple[int, ...]]] = Kept()


def copy(backend: Backend, source: Array, strides: tuple[int, ...], shape: Shape, target: Array) -> None:
    """Copy a logical array between two arrays that passed every check and have elements.

    shape     of the logical array; its elements are as wide as the arrays', and move as opaque bytes
    strides   its byte strides in the memory of `source`
    target    of its dimensions, or with neighbouring ones joined
    """
    key = shape, strides, target.shape, target.strides
    transfer, placed = kept_copies.get(key) or _kept(key)
    if target.flags.c_contiguous:
        split = target.reshape(shape.dimensions)  # a plain view costs a small call less than `strided`
    else:
        split = backend.strided(target, shape.dimensions, placed)
    taken = backend.strided(source.view(shape.dtype), shape.dimensions, strides)
    transfer.prepared_by(backend).execute(taken, split.view(shape.dtype))


def _kept(
    key: tuple[Shape, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> tuple[Transfer, tuple[int, ...]]:
    shape, strides, *target = key
    placed = split_strides(shape.dimensions, *target)
    pieces = (Piece(strided_move(shape, strides, placed, shape.dimensions)),)
    made = Transfer(ArraySide(shape, strides), ArraySide(shape, placed), pieces), placed
    kept_copies.keep(key, made, len(pieces))
    return made


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
