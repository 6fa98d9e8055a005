"""Relayouts, packs and unpacks of packed elements as pieces: what is planned in slots, in bytes and words.

Untiled layouts are one piece.  Tiles cut the array into several, and no two of them may write one byte.  Places are elements or
padding, each in the runs of one piece, so every byte gets one writer by three rules:

    a run that begins at a byte goes on to the end of its last byte      s4[3]{0:T(4)E(4)}: 3 elements and a pad, 2 bytes
    padding that begins inside of a byte begins at the next one          the pad is written by the elements before it
    elements that begin inside of a byte are looked up one by one        T(3) and 4 bits: a tile ends inside of a byte

The pieces of elements write the bytes that hold some, and only one does so, because its run covers the byte from its first slot.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpulayout.model.shape import Shape
from gpulayout.planning.bits_move import BitsMove, packed_move, packed_part
from gpulayout.planning.lookup_move import NotInBoxes
from gpulayout.planning.move import Axis, Move
from gpulayout.planning.piece import Piece, Pieces, as_fill


def whole_piece(unit: Move, source_bits: int, target_bits: int, slots: int | None = None) -> Pieces:
    """The only piece between two untiled sides; `unit` is in slots, and `slots` those of the target, tail padding included."""
    return (Piece(packed_move(unit, source_bits, target_bits, slots)),)


def packed_pieces(copies: Iterable[Piece], fills: Iterable[Piece], source_bits: int, target_bits: int, target: Shape) -> list[Piece]:
    """Pieces in slots, which write every place of `target` once, as pieces in bytes; fills are the places of padding.

    NotInBoxes where two pieces of elements would have to write one byte.
    """
    per_source, per_target = 8 // source_bits, 8 // target_bits
    found = []
    for unit in [*copies, *map(as_fill, fills)]:
        whole = _with_whole_bytes(unit, per_target)
        if whole is None:
            raise NotInBoxes(f"elements of {target_bits} bits are looked up one by one: a run of the target begins at place "
                             f"{_first_inside(unit, per_target)}, inside of a byte")
        if whole.move.place_count:
            part = packed_part(whole.move, source_bits, target_bits, whole.source_offset % per_source)
            if per_target > 1 and whole.target_offset + whole.move.target_span[1] > target.buffer_size:
                part = _last_part(whole, source_bits, target_bits, target)
            found.append(Piece(part, whole.source_offset // per_source, whole.target_offset // per_target))
    return found


def _last_part(whole: Piece, source_bits: int, target_bits: int, target: Shape) -> Move | BitsMove:
    """The piece whose last run ends with the buffer, inside of a byte."""
    if len(whole.move.axes) > 1:
        raise NotInBoxes(f"elements of {target_bits} bits are looked up one by one: rows are padded at the end of the target, whose "
                         f"{target.buffer_size} places are no whole bytes")
    run = replace(whole.move, axes=(whole.move.axes[0]._replace(extent=target.buffer_size - whole.target_offset),))
    return packed_move(run, source_bits, target_bits, start=whole.source_offset % (8 // source_bits))


def _first_inside(unit: Piece, per: int) -> int:
    """The first place inside of a byte that a run begins at."""
    steps = [axis.target_stride for axis in unit.move.axes if axis.target_stride > 1]
    return next(place for place in (unit.target_offset + step for step in (0, *steps)) if place % per)


def _with_whole_bytes(unit: Piece, per: int) -> Piece | None:
    """The piece with runs that begin and end with bytes of `per` places; None for what cannot."""
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
    return Piece(replace(unit.move, axes=(grown, *others), dimensions=dimensions), unit.source_offset, unit.target_offset + skipped)
