"""Moves with arithmetic as work for the planners of the other kernels.

A launch moves elements of the wider type, and its kernel was compiled for both types (kernels/element.cuh).  So a move
with arithmetic is planned like a move of the wider elements, except that they are never joined to still wider ones:

    u8[64,48] to f32[64,48]{0,1}    planned like f32[64,48] to f32[64,48]{0,1}; the source has a fourth of the bytes

The address of the narrower side counts in elements too: 3 bytes past a multiple of 16 are 3 elements, as 12 bytes are
on the other side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.gpu.change import Change
from gpulayout.gpu.element_width import VECTOR_BYTES, MoveWork, check_whole_elements
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.pieces import Piece, Pieces

MOST_AXES = 32  # with parameters: that fit the 4 KB of kernel parameters; 2^32 elements of two places each way


class LaunchPieces(NamedTuple):
    """The pieces of a transfer, all of whose parameters are in one array.

    sizes   how many values of each parameter are in it, one parameter after the other
    """

    pieces: Pieces
    sizes: tuple[int, ...]


def launch_pieces(pieces: Pieces) -> LaunchPieces:
    """The pieces that write something, for one array of parameters."""
    pieces = tuple(piece for piece in pieces if piece.move.place_count)
    moves = [piece.move for piece in pieces if isinstance(piece.move, ConvertMove)]
    sizes = tuple(max(column) + 1 for column in zip(*(_last_places(move) for move in moves)))
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return LaunchPieces(tuple(_from(piece, starts) for piece in pieces), sizes)


def _last_places(move: ConvertMove) -> list[int]:
    """The highest place of each parameter that a move reads."""
    return [
        start + sum((axis.extent - 1) * max(step, 0) for axis, step in zip(move.axes, steps))
        for start, steps in zip(move.parameter_offsets, move.parameter_strides)
    ]


def _from(piece: Piece, starts: Sequence[int]) -> Piece:
    """The piece, whose parameters begin at these places of one array."""
    move = piece.move
    if not isinstance(move, ConvertMove):
        return piece
    offsets = tuple(start + offset for start, offset in zip(starts, move.parameter_offsets))
    return piece._replace(move=dataclasses.replace(move, parameter_offsets=offsets))


def convert_work(move: ConvertMove, source_phase: int = 0, target_phase: int = 0) -> MoveWork:
    """The work of one launch between two addresses, given modulo 16.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element size.
    """
    move = joined(move.of_parts)
    given, made = (side.itemsize for side in (move.arithmetic.source, move.arithmetic.target))
    check_whole_elements(given, "source", source_phase, [axis.source_stride for axis in move.axes])
    check_whole_elements(made, "target", target_phase, [axis.target_stride for axis in move.axes])
    if move.parameter_strides and len(move.axes) > MOST_AXES:
        raise BufferError(f"a move with parameters of {len(move.axes)} axes: a launch has room for {MOST_AXES}")
    axes = tuple(
        Axis(axis.extent, axis.extent, axis.source_stride // given, axis.target_stride // made) for axis in move.axes
    )
    strides = tuple(zip(*move.parameter_strides)) or ((),) * len(axes)
    phases = source_phase // given, target_phase // made
    change = Change(move.arithmetic, axes, strides, move.parameter_offsets, phases)
    return _work(change, axes or (Axis(1, 1, 1, 1),), max(given, made), move.dimensions)


def as_pixels(work: MoveWork, side: str) -> MoveWork:
    """The work in elements of this side's type; the same for elements that do not change.

    For kernels whose elements are those of one side on both.
    """
    if work.change is None:
        return work
    return _work(work.change, work.axes, work.change.bytes_of(side), work.move.dimensions)._replace(
        reasons=work.reasons
    )


def _work(change: Change, axes: tuple[Axis, ...], width: int, dimensions: tuple[tuple[int, ...], ...]) -> MoveWork:
    """The work of a move whose sides both have elements of `width` bytes."""
    in_bytes = tuple(
        Axis(axis.extent, axis.bound, axis.source_stride * width, axis.target_stride * width) for axis in axes
    )
    source, target = (place * width % VECTOR_BYTES for place in change.phases)
    move = Move(in_bytes, width, bytes(width), dimensions)
    return MoveWork(move, width, axes, source, target, (), change)


def joined(move: ConvertMove) -> ConvertMove:
    """The same move in as few axes as possible: one steps exactly over the one below it on all sides."""
    columns: list[tuple[int, ...]] = []  # extent, then the strides of both sides and of the parameters
    names: list[tuple[int, ...]] = []
    dimensions = move.dimensions or ((),) * len(move.axes)
    for axis, *strides, name in zip(move.axes, *move.parameter_strides, dimensions):
        if axis.extent == 1:
            continue
        column = (axis.extent, axis.source_stride, axis.target_stride, *strides)
        below = columns[-1] if columns else None
        if below and all(step == below[0] * inner for step, inner in zip(column[1:], below[1:])):
            columns[-1] = (below[0] * axis.extent, *below[1:])
            names[-1] += name
        else:
            columns.append(column)
            names.append(name)
    return dataclasses.replace(
        move,
        axes=tuple(Axis(column[0], *column[:3]) for column in columns),
        parameter_strides=tuple(tuple(column[3 + p] for column in columns) for p in range(len(move.parameter_strides))),
        dimensions=tuple(names),
    )
