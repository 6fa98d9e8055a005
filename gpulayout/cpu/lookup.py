"""Look-up moves on the CPU: source places are computed from target places, one block at a time."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import index_run
from gpulayout.cpu.packed_run import packed, slots_at
from gpulayout.cpu.threads import SCRATCH_BYTES, share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.lookup_move import LookupMove

BLOCK = 1 << 16  # places; fewer if the scratch arrays of all threads would exceed SCRATCH_BYTES
SHARE = 1 << 18  # the fewest places that justify another thread


class LookupPlan(NamedTuple):
    """How a look-up is cut into blocks.

    threads       number of threads
    block         places in a block: a multiple of 8, so that no two blocks share a byte
    block_count   number of blocks
    """

    move: LookupMove
    threads: int
    block: int
    block_count: int

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return max(self.move.place_count // SHARE, 1)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between whole arrays.  A look-up is the only piece, so both offsets are 0."""
        share(
            functools.partial(_move_blocks, self.move, source, target, self.block),
            self.block_count,
            1,
            self.threads,
            functools.partial(_scratch, self.move, self.block),
        )

    def describe(self) -> str:
        """The plan in words."""
        return f"{counted(self.move.place_count, 'place')} looked up one by one" + ", then packed" * (
            self.move.target_bits < 8
        )

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"looked_up": True}


def lookup_plan_of(move: LookupMove, threads: int = 1) -> LookupPlan:
    """The plan of a look-up for NumPy, for at most `threads` threads."""
    threads = max(min(threads, move.place_count // SHARE), 1)
    place_bytes = move.program.index_bits // 8 * (move.program.registers + 10) + 2 * move.itemsize
    block = max(min(BLOCK, SCRATCH_BYTES // threads // place_bytes) // 8, 1) * 8
    count = -(-move.place_count // block)
    return LookupPlan(move, threads, block, count)


def _scratch(move: LookupMove, block: int) -> tuple[index_run.Scratch, np.ndarray]:
    """The scratch arrays of a thread: for the arithmetic, and for the places of a block in the source."""
    program, size = move.program, min(move.place_count, block)
    word = np.int32 if program.index_bits == 32 else np.int64  # signed: strides may be negative
    return index_run.Scratch(program, size), np.empty(size, word)


def _move_blocks(
    move: LookupMove,
    source: np.ndarray,
    target: np.ndarray,
    block: int,
    first: int,
    last: int,
    scratch: index_run.Scratch,
    places: np.ndarray,
) -> None:
    program, word = move.program, word_of(move.itemsize)
    pad = np.frombuffer(move.pad, word)[0]
    for begin in range(first * block, min(last * block, move.place_count), block):
        end = min(begin + block, move.place_count)
        found = places[: end - begin]
        padding = index_run.padding_of(program, scratch, np.arange(begin, end, dtype=places.dtype), found)
        if padding is not None:
            found[padding] = move.source_span[0] * 8 // min(move.source_bits, 8)  # any readable place
        values = _read(move, source, found, word)
        if padding is not None:
            values[padding] = pad
        if move.target_bits < 8:
            values = np.append(values, np.zeros(-values.size % 8, word))  # a whole number of bytes
            count = -(-(end - begin) * move.target_bits // 8)
            strided_view(target, word, (count,), begin * move.target_bits // 8, (1,))[...] = packed(
                values, move.target_bits, np.empty_like(values), values
            )[:count]
        elif move.has_strided_target:
            target.view(word).flat[begin:end] = values
        else:
            strided_view(target, word, (end - begin,), begin * move.itemsize, (move.itemsize,))[...] = values


def _read(move: LookupMove, source: np.ndarray, places: np.ndarray, word: np.dtype) -> np.ndarray:
    """The elements at these places of the source; in the low bits of a byte when a side is packed."""
    low, high = move.source_span
    if not move.element_count:
        return np.zeros(len(places), word)  # only padding
    if move.source_bits < 8:
        return slots_at(strided_view(source, word, (high,), 0, (1,)), places, move.source_bits)
    every_address = strided_view(source, word, (high - low - move.itemsize + 1,), low, (1,))
    values: np.ndarray = every_address[places - low]
    if move.bits < 8:
        values &= (1 << move.bits) - 1
    return values
