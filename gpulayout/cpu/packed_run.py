"""Packed moves on the CPU: each chunk of the target is unpacked to bytes, moved, and packed again."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.packed_stretches import Stretch, parts, stretches, whole_bytes, written
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import Memory, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.packed_turn import Turn

_BYTE = word_of(1)


class PackedPlan(NamedTuple):
    """How a packed move is cut into chunks.

    move          the move to execute
    threads       number of threads
    chunk         slots of a chunk
    looked_up     slots are looked up one by one instead of read in parts
    in_place      elements are unpacked into the target, which has a byte for each and no gaps
    turn          the move in blocks of whole words, if possible; a chunk is then a cache block
    cache_block   blocks of a cache block along each axis of the turn
    """

    move: PackedMove
    threads: int
    chunk: int
    looked_up: bool
    in_place: bool
    turn: Turn | None = None
    cache_block: tuple[int, ...] = ()

    @property
    def chunk_count(self) -> int:
        """Number of chunks."""
        if self.turn:
            return math.prod(-(-axis.extent // size) for axis, size in zip(self.turn.axes, self.cache_block))
        return -(-self.move.slots // self.chunk)

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.chunk_count, 1), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        if self.move.slots:
            work = functools.partial(_move_chunks, self)
            if self.turn:
                starts = (range(0, axis.extent, step) for axis, step in zip(self.turn.axes, self.cache_block))
                work = functools.partial(_turn_cache_blocks, self, self.turn, list(itertools.product(*starts)))
            share(
                functools.partial(work, Memory(source, source_offset), Memory(target, target_offset)),
                self.chunk_count,
                1,
                self.threads,
                self._turn_scratch if self.turn else self._chunk_scratch,
            )

    def _chunk_scratch(self) -> tuple[np.ndarray, np.ndarray]:
        """The two scratch arrays of a thread for chunks."""
        size = -(-min(self.chunk, self.move.slots) // 8) * 8  # of slots that pack into whole bytes
        scratch = np.empty(0 if self.in_place else size, np.uint8)
        return scratch, np.empty(0 if self.move.bits == 1 else size, np.uint8)

    def _turn_scratch(self) -> tuple[np.ndarray]:
        """The scratch array of a thread for cache blocks: a row of blocks for each row of a block, and a spare one."""
        assert self.turn is not None
        return (np.empty((self.turn.side + 1, math.prod(self.cache_block)), word_of(self.turn.unit_bytes)),)

    def describe(self) -> str:
        """The plan in words."""
        if self.turn:
            elements = counted(self.chunk, "element")
            return f"{self.turn.side} x {self.turn.side} blocks transposed in cache blocks of up to {elements}"
        way = (
            "looked up one by one"
            if self.looked_up
            else "unpacked to bytes by shifts"
            if self.move.source_bits < 8
            else "copied"
        )
        return f"chunks of up to {counted(min(self.chunk, self.move.slots), 'element')}, {way}" + ", then packed" * (
            self.move.target_bits < 8
        )

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "chunk": self.chunk,
            "looked_up": self.looked_up,
            "blocks": self.turn and self.turn.side,
            "cache_block": self.cache_block or None,
        }


def _move_chunks(
    plan: PackedPlan,
    reading: Memory,
    writing: Memory,
    first: int,
    last: int,
    scratch: np.ndarray,
    spare: np.ndarray,
) -> None:
    move = plan.move
    for chunk in range(first, last):
        begin, end = chunk * plan.chunk, min((chunk + 1) * plan.chunk, move.slots)
        if plan.in_place:
            _read_chunk(plan, reading, begin, end, writing.view(_BYTE, (end - begin,), begin, (1,)), spare)
            continue
        values = _as_they_lie(plan, reading, begin, end)
        if values is None:
            values = scratch[: -(-(end - begin) // 8) * 8]
            values[end - begin :] = 0
            _read_chunk(plan, reading, begin, end, values[: end - begin], spare)
        found, done = packed(values, move.target_bits, spare, scratch), 0
        for places in written(move, begin, end):
            count = math.prod(places.shape)
            writing.view(_BYTE, places.shape, places.target_offset, places.target_strides)[...] = found[
                done : done + count
            ].reshape(places.shape)
            done += count


def _as_they_lie(plan: PackedPlan, reading: Memory, begin: int, end: int) -> np.ndarray | None:
    """The elements of the slots begin..end-1 in the source itself; None unless they are contiguous there, in whole
    bytes of the target, and no byte has bits above an element's.

    The maximum shows such bits.  It only reads the elements; a copy without those bits would write them too.
    """
    axis, bits = plan.move.axes[0], plan.move.target_bits
    if plan.move.source_bits < 8 or axis.source_stride != 1 or end > axis.bound or (end - begin) % 8:
        return None
    values = reading.view(_BYTE, (end - begin,), begin, (1,))
    return values if values.max() < 1 << bits else None


def _read_chunk(
    plan: PackedPlan, reading: Memory, begin: int, end: int, elements: np.ndarray, spare: np.ndarray
) -> None:
    """The elements of the slots begin..end-1, one per byte, and the pad in slots without one.

    spare   as long as a chunk, overwritten; not used for bits
    """
    move = plan.move
    mask = (1 << move.bits) - 1
    if move.is_padded:
        elements[...] = move.pad[0]
    for stretch in stretches(move, begin, end):
        if 0 in stretch.inside:
            continue
        places = np.ndarray(stretch.inside[::-1], _BYTE, elements, stretch.place, move.steps[::-1])
        if run := whole_bytes(move, stretch):
            read = reading.view(_BYTE, run.shape, run.target_offset, run.target_strides)
            _spread(read, places, move.source_bits, spare)
        elif plan.looked_up:
            _look_up(move, reading, stretch, places)
        elif move.source_bits == 8:
            strides = tuple([axis.source_stride for axis in reversed(move.axes)])
            np.bitwise_and(reading.view(_BYTE, places.shape, stretch.source, strides), mask, out=places)
        else:
            for part in parts(move, stretch):
                where = part.source
                read = reading.view(_BYTE, where.shape, where.target_offset, where.target_strides)
                np.right_shift(read, part.shift, out=places[part.elements[::-1]])
            places &= mask


def _look_up(move: PackedMove, reading: Memory, stretch: Stretch, places: np.ndarray) -> None:
    """Read the elements of a stretch one by one, by slot number."""
    slots = np.array(stretch.source)
    for axis, size in zip(move.axes, stretch.inside):
        slots = slots + (np.arange(size) * axis.source_stride).reshape(-1, *[1] * slots.ndim)
    places[...] = slots_at(reading.view(_BYTE, (move.source_span[1],), 0, (1,)), slots, move.source_bits)


def slots_at(memory: np.ndarray, slots: np.ndarray, bits: int) -> np.ndarray:
    """The elements in these slots of packed bytes, one per byte."""
    per = 8 // bits
    elements = memory.take(slots >> per.bit_length() - 1)
    elements >>= ((slots & per - 1) * bits).astype(np.uint8)
    elements &= (1 << bits) - 1
    return elements


def _spread(read: np.ndarray, places: np.ndarray, bits: int, spare: np.ndarray) -> None:
    """Unpack bytes to one element per byte of `places`; the inverse of `packed`.  `spare` is as in `_read_chunk`.

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
        field, width = bits << halving, 8 << halving  # bits of elements that stay together, before and after
        words |= np.left_shift(words, 8 - bits << halving, out=moved)
        words &= words.dtype.type(((1 << field) - 1) * ((1 << 8 * per) - 1) // ((1 << width) - 1))


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


# ---- square blocks of slots: transposed as in kernels/bits_turn.cu, with rows of many blocks instead of words --------


def _turn_cache_blocks(
    plan: PackedPlan,
    turn: Turn,
    corners: Sequence[tuple[int, ...]],
    reading: Memory,
    writing: Memory,
    first: int,
    last: int,
    scratch: np.ndarray,
) -> None:
    """Move cache block by cache block; the axes of arrays are those of the blocks, major first."""
    move, cache_block, unit = plan.move, plan.cache_block, turn.unit_bytes
    word = word_of(unit)
    pad = word.type(move.pad[0] * ((1 << 8 * unit) - 1) // ((1 << move.bits) - 1))
    steps = [[unit * axis[side] for axis in turn.axes] for side in (2, 3)]
    strides = [tuple(reversed(side)) for side in steps]
    for corner in corners[first:last]:
        sizes = [min(axis.extent - start, step) for axis, start, step in zip(turn.axes, corner, cache_block)]
        inside = [max(min(axis.bound - start, size), 0) for axis, start, size in zip(turn.axes, corner, sizes)]
        from_start, to_start = (sum(map(int.__mul__, corner, side)) for side in steps)
        places = [
            writing.view(word, tuple(sizes[::-1]), to_start + q * unit * turn.target_step, strides[1])
            for q in range(turn.side)
        ]
        if inside != sizes:
            for place in places:
                place[...] = pad
        if 0 in inside:
            continue
        *rows, spare = (_in_source_order(plane, inside) for plane in scratch)
        for p, row in enumerate(rows):
            row[...] = reading.view(word, tuple(inside[::-1]), from_start + p * unit * turn.source_step, strides[0])
        _turn(rows, move.bits, spare)
        part = tuple([slice(size) for size in reversed(inside)])
        for place, row in zip(places, rows):
            place[part] = row


def _in_source_order(memory: np.ndarray, minor_first: Sequence[int]) -> np.ndarray:
    """A dense array of these sizes, major first.  Its second minor axis, the minor one of the source, has stride 1."""
    along_target, along_source, *others = minor_first
    dense = memory[: math.prod(minor_first)].reshape(*reversed(others), along_target, along_source)
    return dense.swapaxes(-1, -2)


def _turn(rows: list[np.ndarray], bits: int, spare: np.ndarray) -> None:
    """Transpose blocks: in each column of words, element q of the word in row p becomes element p of the word in row q.
    Squares across the diagonal are swapped, half as large each time.
    """
    half, word = len(rows) // 2, spare.dtype.type
    while half:
        shift = word(half * bits)
        lower = word(((1 << 8 * spare.itemsize) - 1) // ((1 << half * bits) + 1))
        for p in range(len(rows)):
            if not p & half:
                np.right_shift(rows[p], shift, out=spare)
                spare ^= rows[p + half]
                spare &= lower
                rows[p + half] ^= spare
                spare <<= shift
                rows[p] ^= spare
        half //= 2
