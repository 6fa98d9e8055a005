"""Moves whose places are looked up: packed moves by NumPy, and `LookupMove`s by the native engine or NumPy.

NumPy goes chunk by chunk through the places of the target: it computes where their elements are, reads them, one per
byte if a side is packed, and packs them if the target is.  A chunk has a multiple of 8 places, so that no two chunks
share a byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.index import RowStep, native_program, run, steps_of, word_of_bits
from gpulayout.cpu.threads import MOST_THREADS, SCRATCH_BYTES, share_chunks
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.packed_move import PackedMove

CHUNK = 1 << 15  # slots of a packed move; fewer if the arrays of all threads would exceed SCRATCH_BYTES
SLOT_BYTES = 64  # of these arrays, for each slot
BLOCK = 1 << 16  # places of a look-up, likewise
SHARE = 1 << 18  # the fewest places that justify another thread
NATIVE_SHARE = 1 << 14  # and one of the engine
_BYTE = word_of(1)


def _in_eights(places: int) -> int:
    return max(places // 8, 1) * 8


# ---- packed moves ----------------------------------------------------------------------------------------------------


class PackedPlan(NamedTuple):
    """How a packed move is cut into chunks of so many slots, for at most `threads` threads."""

    move: PackedMove
    threads: int
    chunk: int

    @property
    def most_threads(self) -> int:
        return min(max(-(-self.move.slots // self.chunk), 1), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        move, per = self.move, 8 // self.move.target_bits

        def move_chunk(begin: int, end: int) -> None:
            values = packed(_elements(move, source, source_offset, begin, end), move.target_bits, move.target_big)
            if move.is_dense:
                strided_view(target, _BYTE, values.shape, target_offset + begin // per, (1,))[...] = values
                return
            places = np.arange(begin, end, per, dtype=np.int64)  # the first of each byte
            slots, _ = _slots(move, places, [axis.target_stride for axis in move.axes])
            low, high = move.target_span
            strided_view(target, _BYTE, (high - low,), target_offset + low, (1,))[slots // per - low] = values

        share_chunks(move_chunk, move.slots, self.chunk, self.threads)

    def describe(self) -> str:
        text = f"chunks of up to {counted(min(self.chunk, self.move.slots), 'element')}"
        text += ", unpacked to bytes" if self.move.source_bits < 8 else ", copied"
        return text + ", then packed" * (self.move.target_bits < 8)

    def as_json(self) -> dict[str, Any]:
        return {"chunk": self.chunk}


def numpy_packed_plan(move: PackedMove, threads: int = 1) -> PackedPlan:
    """The plan of a packed move for NumPy, for at most `threads` threads."""
    return PackedPlan(move, threads, _in_eights(min(CHUNK, SCRATCH_BYTES // SLOT_BYTES // threads)))


def _elements(move: PackedMove, source: np.ndarray, offset: int, begin: int, end: int) -> np.ndarray:
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
    words = np.zeros(-(-len(values) // per), _BYTE)
    for slot in range(per):
        elements = values[slot::per] & (1 << bits) - 1
        words[: len(elements)] |= elements << (per - 1 - slot if big else slot) * bits
    return words


# ---- look-ups --------------------------------------------------------------------------------------------------------


class LookupPlan(NamedTuple):
    """A look-up with at most `threads` threads: by the native engine, see kernels/cpu/index_program.cpp, or by NumPy.

    steps      of the move's program
    compiled   the engine's program; None where it does not run
    """

    move: LookupMove
    steps: tuple[RowStep, ...]
    compiled: Any
    threads: int

    @property
    def most_threads(self) -> int:
        return max(self.move.place_count // (SHARE if self.compiled is None else NATIVE_SHARE), 1)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between whole arrays.  A look-up is the only piece, so both offsets are 0."""
        move = self.move
        if self.compiled is not None:
            self.compiled.look_up(source, target, *move.packing, move.has_strided_target, move.pad, self.threads)
            return
        word, index_word = word_of(move.itemsize), word_of_bits(move.program.index_bits)

        def move_block(begin: int, end: int) -> None:
            places = np.empty(end - begin, f"i{move.program.index_bits // 8}")  # signed: strides may be negative
            # Without the last step, which stores the place in the target.
            padding = run(self.steps[:-1], index_word, end - begin, np.arange(begin, end)[None], places[None])
            if padding is not None:
                places[padding] = move.source_span[0] * 8 // min(move.source_bits, 8)  # any readable place
            values = _read(move, source, places, word)
            if padding is not None:
                values[padding] = np.frombuffer(move.pad, word)[0]
            if move.target_bits < 8:
                values = packed(values, move.target_bits, move.target_big)
            if move.has_strided_target:
                target.view(word).flat[begin:end] = values
            else:
                first = begin * move.target_bits // 8
                strided_view(target, word, values.shape, first, (move.itemsize,))[...] = values

        threads = min(self.threads, self.most_threads)
        share_chunks(move_block, move.place_count, self.block(threads), threads)

    def block(self, threads: int) -> int:
        """Places in a block of NumPy's."""
        rows = 10 + max(step.into for step in self.steps)
        place_bytes = self.move.program.index_bits // 8 * rows + 2 * self.move.itemsize
        return _in_eights(min(BLOCK, SCRATCH_BYTES // threads // place_bytes))

    def describe(self) -> str:
        text = f"{counted(self.move.place_count, 'place')} looked up one by one"
        return text + ", then packed" if self.move.target_bits < 8 else text

    def as_json(self) -> dict[str, Any]:
        return {"looked_up": True} if self.compiled is None else {"engine": "native", "looked_up": True}


def lookup_plan_of(move: LookupMove, threads: int = 1) -> LookupPlan:
    """The plan of a look-up with at most `threads` threads: of the engine, or of NumPy where that does not run."""
    module, steps = native.module(), steps_of(move.program)
    compiled = module and native_program(module, steps, move.program.index_bits, move.place_count)
    return LookupPlan(move, steps, compiled, threads)


def _read(move: LookupMove, source: np.ndarray, places: np.ndarray, word: np.dtype) -> np.ndarray:
    """The elements at these places of the source; in the low bits of a byte when a side is packed."""
    low, high = move.source_span
    if not move.element_count:
        return np.zeros(len(places), word)  # only padding
    if move.source_bits < 8:
        memory = strided_view(source, word, (high - low,), low, (1,))
        return slots_at(memory, places - low * (8 // move.source_bits), move.source_bits, move.source_big)
    every_address = strided_view(source, word, (high - low - move.itemsize + 1,), low, (1,))
    values: np.ndarray = every_address[places - low]
    if move.bits < 8:
        values &= (1 << move.bits) - 1
    return values
