"""Executes the steps of a relayout in place.

Threads share a step in three ways.  Slabs and parts that stay where they are go to different threads, each with its
own part of the workspace.  Of every block a thread moves the same bytes, so that none waits for another.  In all other
steps, threads share the single moves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gpulayout.cpu.threads import SCRATCH_BYTES, share, thread_count
from gpulayout.moves.move import Move
from gpulayout.moves.steps import BlockCycles, Step, Steps

SLAB_BYTES = 1 << 19  # a slab and its copy fit the second-level cache
AT_ONCE = 16  # the most slabs or parts, and so threads, that the workspace has room for
SHARE_BYTES = 1 << 16  # the fewest bytes of each block for a thread

Execute = Callable[[np.ndarray, np.ndarray], None]


class HostSteps:
    """`PreparedSteps` of the CPU."""

    __slots__ = ("steps", "_prepare", "_moves")

    def __init__(self, steps: Steps, prepare: Callable[[Move], Execute]):
        self.steps, self._prepare = steps, prepare
        self._moves: dict[Move, Execute] = {}

    def execute(self, buffer: np.ndarray, workspace: np.ndarray) -> None:
        """See `PreparedSteps.execute`.  A bad number of threads, or no memory for what follows, is an error here."""
        threads = thread_count()
        bitmaps = [step.bitmap_bytes for step in self.steps if isinstance(step, BlockCycles)]
        np.empty(max(min(SCRATCH_BYTES, buffer.size), *bitmaps, 0), np.uint8)
        for step in self.steps:
            if isinstance(step, BlockCycles):
                least = max(SHARE_BYTES, step.part_bytes // threads)  # a portion for each: it visits every block
                share(functools.partial(_move_blocks, step, buffer, workspace), step.part_bytes, least, threads)
            else:
                turns = min(step.at_once, threads)
                share(functools.partial(self._take_turns, step, turns, buffer, workspace), turns, 1, threads)

    def _take_turns(
        self, step: Step, turns: int, buffer: np.ndarray, workspace: np.ndarray, first: int, last: int
    ) -> None:
        """The slabs or parts of the turns `first` to `last - 1`; each turn has its own part of the workspace."""
        for turn in range(first, last):
            memory = buffer, workspace[turn * step.part_bytes :] if turns > 1 else workspace
            for move, from_workspace, source, to_workspace, target in step.copies(turn, turns):
                execute = self._moves.get(move) or self._moves.setdefault(move, self._prepare(move))
                execute(memory[from_workspace][source:], memory[to_workspace][target:])


def _move_blocks(step: BlockCycles, buffer: np.ndarray, workspace: np.ndarray, first: int, last: int) -> None:
    """Move the bytes `first` to `last - 1` of every block."""
    size = step.part_bytes
    blocks, kept = buffer[: step.count * size].reshape(-1, size)[:, first:last], workspace[first:last]
    for source, target in step.numbers():
        if target is None:
            kept[...] = blocks[source]
        else:
            blocks[target] = kept if source is None else blocks[source]
