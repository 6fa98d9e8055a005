"""Look-up moves on the CPU, by the native engine or NumPy: source places are computed from target places, in blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.index import RowStep, native_program, run, steps_of, word_of_bits
from gpulayout.cpu.packed_run import packed, slots_at
from gpulayout.cpu.threads import SCRATCH_BYTES, share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.checks import counted
from gpulayout.moves.lookup_move import LookupMove

BLOCK = 1 << 16  # places; fewer if the scratch arrays of all threads would exceed SCRATCH_BYTES
SHARE = 1 << 18  # the fewest places that justify another thread
NATIVE_SHARE = 1 << 14  # and one of the engine


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
        """The most threads that speed the move up."""
        return max(self.move.place_count // (SHARE if self.compiled is None else NATIVE_SHARE), 1)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between whole arrays.  A look-up is the only piece, so both offsets are 0."""
        move = self.move
        if self.compiled is not None:
            self.compiled.look_up(source, target, *move.packing, move.has_strided_target, move.pad, self.threads)
            return
        threads = min(self.threads, self.most_threads)
        block, count = self.blocks(threads)

        def move_blocks(first: int, last: int) -> None:
            for begin in range(first * block, min(last * block, move.place_count), block):
                self._move_places(source, target, begin, min(begin + block, move.place_count))

        share(move_blocks, count, 1, threads)

    def _move_places(self, source: np.ndarray, target: np.ndarray, begin: int, end: int) -> None:
        """Move to the places `begin` to `end - 1`, by NumPy."""
        move = self.move
        word, index_word = word_of(move.itemsize), word_of_bits(move.program.index_bits)
        found = np.empty(end - begin, f"i{move.program.index_bits // 8}")  # signed: strides may be negative
        # Without the last step, which stores the place in the target.
        padding = run(self.steps[:-1], index_word, end - begin, np.arange(begin, end)[None], found[None])
        if padding is not None:
            found[padding] = move.source_span[0] * 8 // min(move.source_bits, 8)  # any readable place
        values = _read(move, source, found, word)
        if padding is not None:
            values[padding] = np.frombuffer(move.pad, word)[0]
        if move.target_bits < 8:
            values = packed(values, move.target_bits, move.target_big)
            strided_view(target, word, values.shape, begin * move.target_bits // 8, (1,))[...] = values
        elif move.has_strided_target:
            target.view(word).flat[begin:end] = values
        else:
            strided_view(target, word, (end - begin,), begin * move.itemsize, (move.itemsize,))[...] = values

    def blocks(self, threads: int) -> tuple[int, int]:
        """Places in a block of NumPy's, a multiple of 8 so that no two share a byte, and the number of blocks."""
        rows = 10 + max(step.into for step in self.steps)
        place_bytes = self.move.program.index_bits // 8 * rows + 2 * self.move.itemsize
        block = max(min(BLOCK, SCRATCH_BYTES // threads // place_bytes) // 8, 1) * 8
        return block, -(-self.move.place_count // block)

    def describe(self) -> str:
        """The plan in words."""
        text = f"{counted(self.move.place_count, 'place')} looked up one by one"
        return text + ", then packed" if self.move.target_bits < 8 else text

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
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
        return slots_at(strided_view(source, word, (high,), 0, (1,)), places, move.source_bits, move.source_big)
    every_address = strided_view(source, word, (high - low - move.itemsize + 1,), low, (1,))
    values: np.ndarray = every_address[places - low]
    if move.bits < 8:
        values &= (1 << move.bits) - 1
    return values
