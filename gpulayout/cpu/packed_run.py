"""Packed moves by NumPy, in chunks of the target: each element is looked up by its place, and the chunk is packed.

A chunk is a range of slots whose length is a multiple of 8, so that no two chunks share a byte of the target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.threads import MOST_THREADS, SCRATCH_BYTES, share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.packed_move import PackedMove

CHUNK = 1 << 15  # slots; fewer if the arrays of all threads would exceed SCRATCH_BYTES
SLOT_BYTES = 64  # of these arrays, for each slot
_BYTE = word_of(1)


class PackedPlan(NamedTuple):
    """How a packed move is cut into chunks of so many slots, for at most `threads` threads."""

    move: PackedMove
    threads: int
    chunk: int

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(-(-self.move.slots // self.chunk), 1), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        move, per = self.move, 8 // self.move.target_bits

        def move_chunks(first: int, last: int) -> None:
            for begin in range(first * self.chunk, min(last * self.chunk, move.slots), self.chunk):
                end = min(begin + self.chunk, move.slots)
                values = packed(_read(move, source, source_offset, begin, end), move.target_bits, move.target_big)
                if move.is_dense:
                    strided_view(target, _BYTE, values.shape, target_offset + begin // per, (1,))[...] = values
                    continue
                places = np.arange(begin, end, per, dtype=np.int64)  # the first of each byte
                slots, _ = _slots(move, places, [axis.target_stride for axis in move.axes])
                low, high = move.target_span
                strided_view(target, _BYTE, (high - low,), target_offset + low, (1,))[slots // per - low] = values

        share(move_chunks, -(-move.slots // self.chunk), 1, self.threads)

    def describe(self) -> str:
        """The plan in words."""
        text = f"chunks of up to {counted(min(self.chunk, self.move.slots), 'element')}"
        text += ", unpacked to bytes" if self.move.source_bits < 8 else ", copied"
        return text + ", then packed" * (self.move.target_bits < 8)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"chunk": self.chunk}


def numpy_packed_plan(move: PackedMove, threads: int = 1) -> PackedPlan:
    """The plan of a packed move for NumPy, for at most `threads` threads."""
    return PackedPlan(move, threads, max(min(CHUNK, SCRATCH_BYTES // SLOT_BYTES // threads) // 8, 1) * 8)


def _read(move: PackedMove, source: np.ndarray, offset: int, begin: int, end: int) -> np.ndarray:
    """The elements of the places begin..end-1, one per byte, and the pad in places without one."""
    if not move.element_count:
        return np.full(end - begin, move.pad[0], _BYTE)
    low, high = move.source_span
    places, strides = np.arange(begin, end, dtype=np.int64), [axis.source_stride for axis in move.axes]
    slots, inside = _slots(move, places, strides)
    slots[~inside] = 0  # that of the first element, which may be read
    slots += move.start - low * (8 // move.source_bits)
    memory = strided_view(source, _BYTE, (high - low,), offset + low, (1,))
    values = slots_at(memory, slots, move.source_bits, move.source_big)
    values &= (1 << move.bits) - 1
    values[~inside] = move.pad[0]
    return values


def _slots(move: PackedMove, places: np.ndarray, strides: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The slots of places, with one stride for each axis, and whether they are elements.

    Place 7 of extents 5, 3 has the coordinates 7 % 5 and 7 // 5: (2, 1).
    """
    slots, inside = np.zeros_like(places), np.full(places.shape, True)
    for axis, stride in zip(move.axes, strides):
        upper = places // axis.extent
        coordinates = places - upper * axis.extent
        slots += coordinates * stride
        inside &= coordinates < axis.bound
        places = upper
    return slots, inside


def slots_at(memory: np.ndarray, slots: np.ndarray, bits: int, big: bool) -> np.ndarray:
    """The elements in these slots of packed bytes, one per byte.

    big    whether slot 0 of a byte is its highest bits
    """
    last = 8 // bits - 1  # slot of a byte
    elements = memory.take(slots >> last.bit_length())
    elements >>= ((~slots if big else slots) & last).astype(np.uint8) * np.uint8(bits)
    elements &= (1 << bits) - 1
    return elements


def packed(values: np.ndarray, bits: int, big: bool) -> np.ndarray:
    """Packed bytes of elements, of which the low bits count; zeros fill the last byte.  The inverse of `slots_at`.

    The 4-bit values 1, 2, 3 are the bytes 0x21 0x03, or big ones 0x12 0x30.
    """
    per = 8 // bits
    found = np.zeros(-(-len(values) // per), _BYTE)
    for slot in range(per):
        elements = values[slot::per] & (1 << bits) - 1
        found[: len(elements)] |= elements << (per - 1 - slot if big else slot) * bits
    return found
