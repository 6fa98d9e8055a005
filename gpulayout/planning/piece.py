"""A piece: a move between parts of two buffers.  Pieces that continue one another are joined."""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from gpulayout.model.shape import Shape
from gpulayout.planning.move import Axis, Move, coalesce


class Piece(NamedTuple):
    """A move between two buffers, from the places where it begins in them; offsets in bytes."""

    move: Move
    source_offset: int = 0
    target_offset: int = 0


Pieces = tuple[Piece, ...]
Offsets = tuple[int, int]


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pieces without padding in fewer, where one goes on along an axis, on both sides, from where another ends.

    1000 elements that were cut into 7 tiles of 128 and a rest of 104 are one run again when the tiles lie in a row.
    """
    found: list[Piece] = []
    starts: dict[Offsets, list[int]] = {}
    ends: dict[Offsets, list[int]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.target_offset):
        near = [*ends.get(piece[1:], ()), *(number for begin in _offsets(piece, -1) for number in starts.get(begin, ()))]
        longer = ((number, _continued(found[number], piece)) for number in near)
        number, whole = next((pair for pair in longer if pair[1]), (len(found), piece))
        found[number:number + 1] = [whole]
        starts.setdefault(whole[1:], []).append(number)
        for end in _offsets(whole, 1):
            ends.setdefault(end, []).append(number)
    return found


def _offsets(piece: Piece, direction: int) -> Iterator[Offsets]:
    """Where a piece that goes on from this one would begin; or with -1, one of a single coordinate that this goes on from."""
    for axis in piece.move.axes:
        steps = axis.extent if direction > 0 else -1
        yield piece.source_offset + steps * axis.source_stride, piece.target_offset + steps * axis.target_stride


def _continued(first: Piece, second: Piece) -> Piece | None:
    """Both as one piece; None when the second does not go on from the first along one axis.

    One of them may lack the axis: it has one coordinate along it.
    """
    some, others = first.move.axes, second.move.axes
    if abs(len(some) - len(others)) > 1:
        return None
    longer = max(some, others, key=len)
    for number, (extent, _, *strides) in enumerate(longer):
        single = Axis(1, 1, *strides)
        left, right = (axes if len(axes) == len(longer) else (*axes[:number], single, *axes[number:]) for axes in (some, others))
        rest = left[:number] + left[number + 1:]
        steps = [left[number].extent * stride for stride in strides]
        begins = [second.source_offset - first.source_offset, second.target_offset - first.target_offset]
        if rest == right[:number] + right[number + 1:] and right[number][2:] == left[number][2:] and steps == begins:
            extent = left[number].extent + right[number].extent
            axes = (*left[:number], Axis(extent, extent, *strides), *left[number + 1:])
            model = max(first.move, second.move, key=lambda move: len(move.axes))
            return first._replace(move=Move(axes, model.itemsize, model.pad, model.dimensions))
    return None


def absorbed(copies: Iterable[Piece], fills: Iterable[Piece]) -> list[Piece]:
    """The same copies and fills of padding in fewer: a fill that lies where a copy ends along an axis becomes its padding.

    A row of 104 elements that end a tile of 128 takes the 24 places behind them: an axis of extent 128 and bound 104.
    """
    waiting: dict[int, list[Piece]] = {}
    for fill in fills:
        waiting.setdefault(fill.target_offset, []).append(fill)
    grown = [_with_padding(copy, waiting) for copy in copies]
    return grown + [as_fill(fill) for left in waiting.values() for fill in left]


def _with_padding(copy: Piece, waiting: dict[int, list[Piece]]) -> Piece:
    """The copy with all the fills that it can take, which are taken out of those that wait."""
    axes = copy.move.axes
    for number, axis in enumerate(axes):
        for fill in waiting.get(copy.target_offset + axis.extent * axis.target_stride, ()):
            others = math.prod(other.extent for other in axes) // axis.extent
            more = fill.move.place_count // others
            lacking = [Axis(other.extent, other.extent, 0, other.target_stride) for other in axes]
            lacking[number] = Axis(more, more, 0, axis.target_stride)
            if more * others == fill.move.place_count and coalesce(lacking)[0] == fill.move.axes:
                waiting[fill.target_offset].remove(fill)
                larger = (*axes[:number], axis._replace(extent=axis.extent + more), *axes[number + 1:])
                return _with_padding(copy._replace(move=replace(copy.move, axes=larger)), waiting)
    return copy


def as_fill(piece: Piece) -> Piece:
    """The same places, all of them padding."""
    *minor, major = piece.move.axes or (Axis(1, 1, 0, piece.move.itemsize),)
    dimensions = piece.move.dimensions or ((),)
    return piece._replace(move=replace(piece.move, axes=(*minor, major._replace(bound=0)), dimensions=dimensions))


def nothing(shape: Shape) -> Piece:
    """The piece of a target without places."""
    return Piece(Move((Axis(0, 0, 0, shape.itemsize),), shape.itemsize, shape.padding_bytes, ((),)))
