"""Plans of packed moves: for the native engine, see kernels/cpu/packed_move.cpp, where it runs, else for NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.packed_run import PackedPlan, numpy_plan_of
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.layout.checks import counted
from gpulayout.moves.packed_move import PackedMove


class NativePackedPlan(NamedTuple):
    """The engine's plan of a packed move, for at most `threads` threads."""

    move: PackedMove
    compiled: Any
    threads: int

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(int(self.compiled.describe()["most_threads"]), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        self.compiled.run(source, source_offset, target, target_offset, self.threads)

    def describe(self) -> str:
        """The plan in words."""
        found, is_packed = self.compiled.describe(), self.move.target_bits < 8
        ways = ["unpacked"] * (self.move.source_bits < 8) + ["moved as bytes"] * found["turns"] + ["packed"] * is_packed
        return f"{counted(found['boxes'], 'box')} of up to {counted(found['most'], 'place')}, {', '.join(ways)}"

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"engine": "native", **self.compiled.describe()}


def packed_plan_of(move: PackedMove, threads: int = 1) -> NativePackedPlan | PackedPlan:
    """The plan of a packed move for the engine, or for NumPy where the engine does not run."""
    module = native.module()
    if module is None:
        return numpy_plan_of(move, threads)
    compiled = module.Packed(move.axes, move.slots, move.start, *move.packing, move.pad[0])
    return NativePackedPlan(move, compiled, threads)
