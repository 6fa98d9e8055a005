"""Joins pieces: those that continue one another become one, and padding becomes part of the copy before it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpulayout.moves.kinds import StridedPiece
from gpulayout.moves.move import Axis, Move, coalesce

Offsets = tuple[int, int]


def joined(pieces: Iterable[StridedPiece]) -> list[StridedPiece]:
    """The pieces, joined where possible: two become one if, on both sides, the second begins where an axis of the first
    ends.  The pieces must have no padding.

    1000 elements cut into 7 tiles of 128 and a remainder of 104 become one run again if the tiles are contiguous.
    """
    found: list[StridedPiece] = []
    starts: dict[Offsets, list[int]] = {}
    ends: dict[Offsets, list[int]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.target_offset):
        near = [
            *ends.get(piece[1:], ()),
            *(number for begin in _offsets(piece, -1) for number in starts.get(begin, ())),
        ]
        number, whole = len(found), piece
        for before in near:
            longer = _continued(found[before], piece)
            if longer:
                number, whole = before, longer
                break
        found[number : number + 1] = [whole]
        starts.setdefault(whole[1:], []).append(number)
        for end in _offsets(whole, 1):
            ends.setdefault(end, []).append(number)
    return found


def _offsets(piece: StridedPiece, direction: int) -> Iterator[Offsets]:
    """Where a piece that continues this one would begin.  With direction -1: where a piece with a single coordinate
    would begin if this one continued it.
    """
    for axis in piece.move.axes:
        steps = axis.extent if direction > 0 else -1
        yield piece.source_offset + steps * axis.source_stride, piece.target_offset + steps * axis.target_stride


def _continued(first: StridedPiece, second: StridedPiece) -> StridedPiece | None:
    """Both as one piece; None if the second does not continue the first along an axis.

    Either piece may lack that axis, if it has only one coordinate along it.
    """
    some, others = first.move.axes, second.move.axes
    if abs(len(some) - len(others)) > 1:
        return None
    longer = max(some, others, key=len)
    for number, (extent, _, *strides) in enumerate(longer):
        single = Axis(1, 1, *strides)
        left, right = (
            axes if len(axes) == len(longer) else (*axes[:number], single, *axes[number:]) for axes in (some, others)
        )
        rest = left[:number] + left[number + 1 :]
        steps = [left[number].extent * stride for stride in strides]
        begins = [second.source_offset - first.source_offset, second.target_offset - first.target_offset]
        if rest == right[:number] + right[number + 1 :] and right[number][2:] == left[number][2:] and steps == begins:
            extent = left[number].extent + right[number].extent
            axes = (*left[:number], Axis(extent, extent, *strides), *left[number + 1 :])
            model = max(first.move, second.move, key=lambda move: len(move.axes))
            return first._replace(move=Move(axes, model.itemsize, model.pad, model.dimensions))
    return None


def absorbed(copies: Iterable[StridedPiece], fills: Iterable[StridedPiece]) -> list[StridedPiece]:
    """The copies and fills, joined where possible: a fill that begins where an axis of a copy ends becomes the padding
    of that axis.

    104 elements in a tile of 128 absorb the 24 places after them: an axis of extent 128 and bound 104.
    """
    waiting: dict[int, list[StridedPiece]] = {}
    for fill in fills:
        waiting.setdefault(fill.target_offset, []).append(fill)
    grown = [_with_padding(copy, waiting) for copy in copies]
    return grown + [as_fill(fill) for left in waiting.values() for fill in left]


def _with_padding(copy: StridedPiece, waiting: dict[int, list[StridedPiece]]) -> StridedPiece:
    """The copy with every fill that can become its padding; these are removed from `waiting`."""
    axes = copy.move.axes
    for number, axis in enumerate(axes):
        for fill in waiting.get(copy.target_offset + axis.extent * axis.target_stride, ()):
            others = math.prod(other.extent for other in axes) // axis.extent
            more = fill.move.place_count // others
            lacking = [Axis(other.extent, other.extent, 0, other.target_stride) for other in axes]
            lacking[number] = Axis(more, more, 0, axis.target_stride)
            if more * others == fill.move.place_count and coalesce(lacking)[0] == fill.move.axes:
                waiting[fill.target_offset].remove(fill)
                larger = (*axes[:number], axis._replace(extent=axis.extent + more), *axes[number + 1 :])
                return _with_padding(copy._replace(move=replace(copy.move, axes=larger)), waiting)
    return copy


def as_fill(piece: StridedPiece) -> StridedPiece:
    """A piece that fills the same places with padding."""
    *minor, major = piece.move.axes or (Axis(1, 1, 0, piece.move.itemsize),)
    dimensions = piece.move.dimensions or ((),)
    return piece._replace(move=replace(piece.move, axes=(*minor, major._replace(bound=0)), dimensions=dimensions))
