"""Moves of packed elements: slots of 1, 2 or 4 bits on one side or on both.

A slot is the place of one element: as wide as the element on a packed side, a byte on the other.  Slot 0 is in the
lowest bits of byte 0, or on a big side in the highest: the s4 values 1, 2, 3 are the bytes 0x21 0x03, or 0x12 0x30.
All axes count slots:

    s4[2,3]{1,0:E(4)} to s4[2,3]{0,1:E(4)}
    Axis(2, 2, 3, 1), Axis(3, 3, 1, 2)              6 slots of 4 bits: 3 bytes

When all contiguous runs are whole bytes on both sides, and neither side or both are big, packed elements move as
bytes, in an ordinary `Move`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gpulayout.layout.frozen import cached_property
from gpulayout.moves.move import Axis, BaseMove, LoopMove, Move, coalesce, keeps_hash, span


class SlotMove(BaseMove):
    """What packed moves and look-ups share: places of so many bits on either side, which can be packed."""

    source_bits: int
    target_bits: int
    source_big: bool
    target_big: bool

    stride_unit: ClassVar[str] = "place"

    @property
    def place_bits(self) -> tuple[int, int]:
        return self.source_bits, self.target_bits

    @property
    def packing(self) -> tuple[int, int, bool, bool]:
        """How the places of both sides lie in bytes."""
        return self.source_bits, self.target_bits, self.source_big, self.target_big

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return min(self.source_bits, self.target_bits)


@keeps_hash
@dataclass(frozen=True)
class PackedMove(SlotMove, LoopMove):
    """A coalesced move with a packed side.  Immutable and hashable.

    axes          minor first in the target, strides in slots
    slots         number of target slots that are written, in order; the most major axis may extend beyond them
    source_bits   bits of a slot in the source: 1, 2 or 4, or 8 with one element per byte; target_bits likewise
    pad           one padding element, in the low bits of a byte
    dimensions    the logical dimensions that each axis covers, minor first
    start         the slot within the source's first byte where the move begins
    source_big    whether slot 0 of a source byte is its highest bits; target_big likewise

    A packed target either has no gaps, or the runs of its minor axis are whole bytes.  Unused bits of its last byte
    become 0.
    """

    axes: tuple[Axis, ...]
    slots: int
    source_bits: int
    target_bits: int
    pad: bytes
    dimensions: tuple[tuple[int, ...], ...]
    start: int = 0
    source_big: bool = False
    target_big: bool = False

    @property
    def place_count(self) -> int:
        return self.slots

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """For each axis, the number of places from one coordinate to the next, when places are numbered in order."""
        return tuple(math.prod(below.extent for below in self.axes[:k]) for k in range(len(self.axes)))

    @cached_property
    def is_dense(self) -> bool:
        """True when the target has no gaps: its places are contiguous in the order of the axes."""
        return all(axis.target_stride == step for axis, step in zip(self.axes, self.steps))

    @cached_property
    def source_span(self) -> tuple[int, int]:
        """Byte offsets from the first slot of the source: lowest read, and one past the highest."""
        if not self.element_count:
            return 0, 0
        return _span([(axis.bound, axis.source_stride) for axis in self.axes], self.start, self.source_bits)

    @cached_property
    def target_span(self) -> tuple[int, int]:
        """Byte offsets from the first slot of the target: lowest written, and one past the highest."""
        if self.is_dense:
            return 0, self.bytes_written
        return _span([(axis.extent, axis.target_stride) for axis in self.axes], 0, self.target_bits)


def _span(loops: list[tuple[int, int]], start: int, bits: int) -> tuple[int, int]:
    low, end = span(loops, 1)
    return (start + low) * bits // 8, -(-(start + end) * bits // 8)


def packed_move(
    unit: Move,
    source_bits: int,
    target_bits: int,
    slots: int | None = None,
    start: int = 0,
    big: tuple[bool, bool] = (False, False),
) -> Move | PackedMove:
    """The move of packed elements; `unit` is the same move with one byte per element.

    unit    strides in slots; in a packed target it leaves no gaps, or its runs are whole bytes
    slots   number of slots in the target, if it has more than the unit's places: the rest is padding
    start   the slot where the move begins, within its first source byte
    big     whether slot 0 of a byte is its highest bits, in the source and in the target
    """
    slots = unit.place_count if slots is None else slots
    may_fit = slots == unit.place_count and not (unit.element_count and (start or big[0] != big[1]))
    in_bytes = _in_whole_bytes(unit, source_bits, target_bits) if may_fit else None
    axes, pad = _reaching(unit.axes, slots), _pad(unit, source_bits, target_bits)
    return in_bytes or PackedMove(axes, slots, source_bits, target_bits, pad, unit.dimensions, start, *big)


def _pad(unit: Move, source_bits: int, target_bits: int) -> bytes:
    return bytes([unit.pad[0] & (1 << min(source_bits, target_bits)) - 1])


def _reaching(axes: tuple[Axis, ...], slots: int) -> tuple[Axis, ...]:
    """The axes, with the most major one extended to cover all slots; at least one axis."""
    axes = axes or (Axis(1, 1, 1, 1),)
    inner = math.prod(axis.extent for axis in axes[:-1])
    return (*axes[:-1], axes[-1]._replace(extent=max(-(-slots // max(inner, 1)), axes[-1].bound)))


def _has_whole_bytes(unit: Move, bits: int, target: bool) -> bool:
    """Whether the runs of a side, along the minor axis of the target, begin and end at byte boundaries."""
    per = 8 // bits
    if per == 1:
        return True
    if not unit.axes:
        return False
    minor, *others = [
        (axis.target_stride, axis.extent) if target else (axis.source_stride, axis.bound) for axis in unit.axes
    ]
    return minor[0] == 1 and minor[1] % per == 0 and not any(stride % per for stride, size in others if size > 1)


def _in_whole_bytes(unit: Move, source_bits: int, target_bits: int) -> Move | None:
    """The move in bytes; None unless every byte of the target is a whole byte of the source or of padding.

    s4[64,6]{1,0} to s4[64,6]{1,0:PD(64,8)}: runs of 6 slots, 6 and 8 apart, are runs of 3 bytes, 3 and 4 apart.
    """
    if unit.element_count and (source_bits != target_bits or not _has_whole_bytes(unit, source_bits, target=False)):
        return None
    if not _has_whole_bytes(unit, target_bits, target=True):
        return None
    per, value_bits = 8 // target_bits, min(source_bits, target_bits)
    pad = _pad(unit, source_bits, target_bits)[0] * (255 // ((1 << value_bits) - 1) if per > 1 else 1)
    (extent, bound, *steps), *others = unit.axes or (Axis(1, 1, 1, 1),)
    axes = [Axis(extent // per, bound // per, *(steps if per == 1 else (1, 1)))]
    axes += [Axis(axis.extent, axis.bound, axis.source_stride // per, axis.target_stride // per) for axis in others]
    joined, made_of = coalesce(axes, unit.dimensions or ((),))
    return Move(joined, 1, bytes([pad]), made_of)
