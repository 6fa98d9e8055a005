"""Packed moves whose minor axes differ, as transposes of square blocks of slots.

A byte of the source holds neighbours along the source's minor axis, and a byte of the target along the target's.  A
square block of slots is whole bytes, or whole words, on both sides.  Its rows are read, transposed in registers, and
written as rows of the target.  Here a unit is one such byte or word.

    s4[64,64]{1,0:E(4)} to {0,1:E(4)}, in units of 8 slots:  8 x 8 blocks, whose 8 rows are 8 words apart on both sides

Distances between blocks must be whole units, so sizes and strides have to be multiples of a unit's slots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpulayout.moves.move import Axis
from gpulayout.moves.packed_move import PackedMove

TILE = 8  # units along the target that the lanes of a warp write side by side: a sector of 32 bytes


class Turn(NamedTuple):
    """A packed move in blocks; strides and steps count units.

    unit_bytes     bytes of a unit
    side           slots of a unit, and rows of a block
    axes           loops over blocks: the minor axis of the target, that of the source, and the others, minor first
    source_step    from a row of a block to the next in the source; target_step likewise
    """

    unit_bytes: int
    side: int
    axes: tuple[Axis, ...]
    source_step: int
    target_step: int


def source_minor(move: PackedMove) -> Axis | None:
    """The minor axis of the source, if blocks can be turned: another axis than the minor one of the target, both sides
    packed, no tail padding.
    """
    minor, *others = move.axes
    if (
        move.source_bits != move.target_bits
        or minor.target_stride != 1
        or move.slots != math.prod(axis.extent for axis in move.axes)
    ):
        return None
    return next((axis for axis in others if axis.source_stride == 1 and axis.bound > 1), None)


def turned(move: PackedMove, unit_bits: int) -> Turn | None:
    """The move in blocks; None if its blocks are not whole units, or both sides have the same minor axis."""
    side = unit_bits // move.bits
    found = source_minor(move)
    if not found:
        return None
    minor, others = move.axes[0], [axis for axis in move.axes[1:] if axis is not found]
    sizes = (*minor[:2], *found[:2], minor.source_stride, found.target_stride, move.start)
    if any(number % side for axis in others for number in axis[2:]) or any(number % side for number in sizes):
        return None
    axes = (
        Axis(minor.extent // side, minor.bound // side, minor.source_stride, 1),
        Axis(found.extent // side, found.bound // side, 1, found.target_stride),
        *(Axis(axis.extent, axis.bound, axis.source_stride // side, axis.target_stride // side) for axis in others),
    )
    return Turn(unit_bits // 8, side, axes, minor.source_stride // side, found.target_stride // side)


def tiled(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The same loops, with the first split in two: as many units as lanes write side by side stay in it, and the loop
    over these groups becomes the third.
    """
    minor, second, *others = axes
    size = max(size for size in range(1, TILE + 1) if minor.extent % size == 0 and minor.bound % size == 0)
    upper = Axis(minor.extent // size, minor.bound // size, minor.source_stride * size, minor.target_stride * size)
    loops = (Axis(size, size, minor.source_stride, minor.target_stride), second, upper, *others)
    return tuple(loop for loop in loops if loop.extent > 1) or loops[:1]
