"""Pieces of packed elements: planned in slots, turned into bytes and words.

Untiled layouts need one piece.  Tiles cut the array into several, and no two of them may write the same byte.  A place
holds an element or padding, and belongs to a run of one piece.  Three rules give every byte one writer:

    a run that begins at a byte boundary fills its last byte       s4[3]{0:T(4)E(4)}: 3 elements and a pad, 2 bytes
    padding that would begin inside a byte begins at the next      the elements before it write the pad
    elements that begin inside a byte are looked up one by one     T(3) and 4 bits: a tile ends inside a byte

So a byte with elements has one writer: the piece whose run covers it from its first slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpulayout.layout.shape import Shape
from gpulayout.moves.join_pieces import as_fill
from gpulayout.moves.kinds import Piece, Pieces, StridedPiece
from gpulayout.moves.lookup_move import NotInRegions
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.packed_move import PackedMove, packed_move


def whole_piece(unit: Move, bits: tuple[int, int], big: tuple[bool, bool], slots: int | None = None) -> Pieces:
    """The only piece between two untiled sides.  `unit` is in slots; `slots` counts those of the target, with its
    tail padding.
    """
    return (Piece(packed_move(unit, *bits, slots, big=big)),)


def packed_pieces(
    copies: Iterable[StridedPiece],
    fills: Iterable[StridedPiece],
    bits: tuple[int, int],
    big: tuple[bool, bool],
    target: Shape,
) -> list[Piece]:
    """Pieces in bytes, from pieces in slots that write every place of `target` once; `fills` are the padding.

    Raises NotInRegions if two pieces with elements would write the same byte.
    """
    per_source, per_target = (8 // side for side in bits)
    found = []
    for unit in [*copies, *map(as_fill, fills)]:
        whole = _with_whole_bytes(unit, per_target)
        if whole is None:
            raise NotInRegions(
                f"elements of {bits[1]} bits are looked up one by one: a run of the target begins at place "
                f"{_first_inside(unit, per_target)}, inside a byte"
            )
        if whole.move.place_count:
            if per_target > 1 and whole.target_offset + whole.move.target_span[1] > target.buffer_size:
                part = _last_part(whole, bits, big, target)
            else:
                part = packed_move(whole.move, *bits, start=whole.source_offset % per_source, big=big)
            found.append(Piece(part, whole.source_offset // per_source, whole.target_offset // per_target))
    return found


def _last_part(whole: StridedPiece, bits: tuple[int, int], big: tuple[bool, bool], target: Shape) -> Move | PackedMove:
    """The move of the piece that ends with the buffer, inside a byte."""
    minor, *others = whole.move.axes
    if others:
        raise NotInRegions(
            f"elements of {bits[1]} bits are looked up one by one: rows are padded at the end of the target, whose "
            f"{target.buffer_size} places are not a whole number of bytes"
        )
    run = replace(whole.move, axes=(minor._replace(extent=target.buffer_size - whole.target_offset),))
    return packed_move(run, *bits, start=whole.source_offset % (8 // bits[0]), big=big)


def _first_inside(unit: StridedPiece, per: int) -> int:
    """The first place where a run begins inside a byte."""
    steps = [axis.target_stride for axis in unit.move.axes if axis.target_stride > 1]
    return next(place for place in (unit.target_offset + step for step in (0, *steps)) if place % per)


def _with_whole_bytes(unit: StridedPiece, per: int) -> StridedPiece | None:
    """The piece with runs of whole bytes, of `per` places each; None when elements begin inside a byte."""
    if per == 1:
        return unit
    axes = unit.move.axes
    runs, others = (axes[0], axes[1:]) if axes and axes[0].target_stride == 1 else (Axis(1, 1, 1, 1), axes)
    skipped = -unit.target_offset % per
    if any(axis.target_stride % per for axis in others) or (skipped and unit.move.element_count):
        return None
    left = max(runs.extent - skipped, 0)
    grown = runs._replace(extent=-(-left // per) * per, bound=max(runs.bound - skipped, 0))
    dimensions = unit.move.dimensions if len(axes) > len(others) else ((), *unit.move.dimensions)
    return StridedPiece(
        replace(unit.move, axes=(grown, *others), dimensions=dimensions),
        unit.source_offset,
        unit.target_offset + skipped,
    )
