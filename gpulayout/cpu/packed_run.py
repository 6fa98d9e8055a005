"""Packed moves by NumPy: each chunk of the target is unpacked to bytes, one for each element, moved, and packed again.

A chunk is a range of slots whose length is a multiple of 8, so that no two chunks share a byte of the target.  Along
the axes of a move it is a few stretches: slots 3 to 11 of 3 rows of 5 are 3..4 of row 0, all of row 1, and 0..1 of
row 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import SCRATCH_BYTES, share
from gpulayout.cpu.views import Memory, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.packed_move import PackedMove

CHUNK = 1 << 17  # slots; fewer if the scratch arrays of all threads would exceed SCRATCH_BYTES
SLOT_BYTES = 32  # of scratch arrays, for a slot that is looked up
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
        memory = Memory(source, source_offset), Memory(target, target_offset)
        count = -(-self.move.slots // self.chunk)
        share(functools.partial(_move_chunks, self, *memory), count, 1, self.threads, self._scratch)

    def _scratch(self) -> tuple[np.ndarray, ...]:
        """The scratch arrays of a thread: a byte for each slot of a chunk that packs into whole bytes, twice."""
        size = -(-min(self.chunk, self.move.slots) // 8) * 8
        return np.empty(size, np.uint8), np.empty(size, np.uint8)

    def describe(self) -> str:
        """The plan in words."""
        text = f"chunks of up to {counted(min(self.chunk, self.move.slots), 'element')}"
        text += ", unpacked to bytes" if self.move.source_bits < 8 else ", copied"
        return text + ", then packed" * (self.move.target_bits < 8)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"chunk": self.chunk}


def numpy_plan_of(move: PackedMove, threads: int = 1) -> PackedPlan:
    """The plan of a packed move for NumPy, for at most `threads` threads."""
    return PackedPlan(move, threads, max(min(CHUNK, SCRATCH_BYTES // SLOT_BYTES // threads) // 8, 1) * 8)


def _move_chunks(
    plan: PackedPlan, reading: Memory, writing: Memory, first: int, last: int, scratch: np.ndarray, spare: np.ndarray
) -> None:
    move = plan.move
    for begin in range(first * plan.chunk, min(last * plan.chunk, move.slots), plan.chunk):
        end = min(begin + plan.chunk, move.slots)
        values = scratch[: -(-(end - begin) // 8) * 8]
        values[end - begin :] = 0
        _read_chunk(move, reading, begin, end, values, spare)
        found, done = packed(values, move.target_bits, spare, scratch), 0
        for shape, offset, strides in _written(move, begin, end):
            count = math.prod(shape)
            writing.view(_BYTE, shape, offset, strides)[...] = found[done : done + count].reshape(shape)
            done += count


def _read_chunk(move: PackedMove, reading: Memory, begin: int, end: int, values: np.ndarray, spare: np.ndarray) -> None:
    """The elements of the slots begin..end-1, one per byte, and the pad in slots without one."""
    if move.is_padded:
        values[: end - begin] = move.pad[0]
    steps, strides = move.steps, [axis.source_stride for axis in move.axes]
    for first, sizes in _ranges([axis.extent for axis in move.axes], begin, end):
        inside = [max(min(size, axis.bound - start), 0) for size, start, axis in zip(sizes, first, move.axes)]
        if 0 in inside:
            continue
        place, slot = (sum(map(int.__mul__, first, each)) for each in (steps, strides))
        places = np.ndarray(inside[::-1], _BYTE, values, place - begin, steps[::-1])
        _read_stretch(move, reading, move.start + slot, places, spare)


def _read_stretch(move: PackedMove, reading: Memory, slot: int, places: np.ndarray, spare: np.ndarray) -> None:
    """Read elements from this slot on: the axes of `places` are those of the move, major first."""
    per, (*others, stride) = 8 // move.source_bits, [axis.source_stride for axis in reversed(move.axes)]
    if per == 1:
        mask = (1 << move.bits) - 1
        np.bitwise_and(reading.view(_BYTE, places.shape, slot, (*others, stride)), mask, out=places)
    elif stride == 1 and not any(number % per for number in (slot, places.shape[-1], *others)):  # whole bytes
        shape, steps = (*places.shape[:-1], places.shape[-1] // per), (*(step // per for step in others), 1)
        _spread(reading.view(_BYTE, shape, slot // per, steps), places, move.source_bits, spare)
    else:
        slots = np.array(slot)
        for size, step in zip(places.shape, (*others, stride)):
            slots = slots[..., np.newaxis] + np.arange(size) * step
        places[...] = slots_at(reading.view(_BYTE, (move.source_span[1],), 0, (1,)), slots, move.source_bits)


def _written(move: PackedMove, begin: int, end: int) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    """(shape, offset, strides), in order, of the bytes of the target that hold the slots begin..end-1."""
    per = 8 // move.target_bits
    if move.is_dense:
        yield (-(-(end - begin) // per),), begin // per, (1,)
        return
    minor, *others = move.axes
    extents = [minor.extent // per, *(axis.extent for axis in others)]
    strides = [1 if per > 1 else minor.target_stride, *(axis.target_stride // per for axis in others)]
    for first, sizes in _ranges(extents, begin // per, end // per):
        yield sizes[::-1], sum(map(int.__mul__, first, strides)), tuple(reversed(strides))


def _ranges(extents: Sequence[int], begin: int, end: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first coordinates, sizes), minor first, of the stretches that make up the places begin..end-1, in order."""
    if begin >= end:
        return
    *below, _ = extents
    if not below:
        yield (begin,), (end - begin,)
        return
    inner = math.prod(below)
    row, start = divmod(begin, inner)
    if start or end - begin < inner:  # the rest of the first row
        for first, sizes in _ranges(below, start, min(inner, start + end - begin)):
            yield (*first, row), (*sizes, 1)
        yield from _ranges(extents, min((row + 1) * inner, end), end)
        return
    rows = (end - begin) // inner
    yield (*[0] * len(below), row), (*below, rows)
    yield from _ranges(extents, begin + rows * inner, end)


def slots_at(memory: np.ndarray, slots: np.ndarray, bits: int) -> np.ndarray:
    """The elements in these slots of packed bytes, one per byte."""
    per = 8 // bits
    elements = memory.take(slots >> per.bit_length() - 1)
    elements >>= ((slots & per - 1) * bits).astype(np.uint8)
    elements &= (1 << bits) - 1
    return elements


def _spread(read: np.ndarray, places: np.ndarray, bits: int, spare: np.ndarray) -> None:
    """Unpack bytes to one element per byte of `places`; the inverse of `packed`.  `spare` is overwritten.

    Each byte becomes a word.  Its upper half of elements moves away from the lower half, then the same in each half:
    0xe4, or-ed with itself << 12, gives 0x....0e04 and then, with << 6, 0x03020100.
    """
    if bits == 1:
        places[...] = np.unpackbits(read, axis=-1, bitorder="little")
        return
    per = 8 // bits
    words = places.view(word_of(per))
    moved = spare[: words.nbytes].view(words.dtype).reshape(words.shape)
    words[...] = read
    for halving in reversed(range(per.bit_length() - 1)):
        words |= np.left_shift(words, 8 - bits << halving, out=moved)
    words &= words.dtype.type(((1 << bits) - 1) * ((1 << 8 * per) - 1) // 255)


def packed(values: np.ndarray, bits: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pack bytes with values below 2**bits, the first into the lowest bits of a byte.

    first, second   as long as the values or longer, overwritten, but not used for bits; the second may be the values

    Returns one word for each packed byte, which is the lowest byte of the word: an assignment to bytes keeps it.

    The values of one packed byte are one word.  Its halves are moved together, first within each half, then overall:
    4 values of 2 bits, 0x03020100, or-ed with themselves >> 6 give 0x....0e04 and then, with >> 12, 0x......e4.
    """
    if bits == 8:
        return values
    if bits == 1:
        return np.packbits(values, bitorder="little")
    per = 8 // bits
    words, first, second = (array[: len(values)].view(word_of(per)) for array in (values, first, second))
    for halving in range(per.bit_length() - 1):
        np.right_shift(words, 8 - bits << halving, out=first)
        first |= words
        words, first, second = first, second, first
    return words
