"""Plans of ordinary moves: for the native engine, see kernels/cpu/strided_move.cpp, where it runs, else for NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.strided_plan import StridedPlan, strided_plan_of
from gpulayout.cpu.thread_count import MOST_THREADS, thread_count
from gpulayout.layout.checks import counted
from gpulayout.moves.backend import Again
from gpulayout.moves.move import Move

# What a kernel does with the elements of a box, by its name.
_WORDS = {
    "any": "one element at a time",
    "run": "runs as they are",
    "copy": "long runs as they are",
    "step": "reversed, stepped or repeated in rows",
    "turn": "turned in registers",
    "zip": "channels zipped in registers",
    "unzip": "channels parted in registers",
    "fill": "padding",
}


class NativePlan(NamedTuple):
    """The engine's plan of a move, for at most `threads` threads."""

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
        found = self.compiled.describe()
        text = f"{counted(found['boxes'], 'box')} of {found['along_target']}x{found['along_source']} places"
        text += f" of {counted(found['element_bytes'], 'byte')}, {_WORDS[found['kernel']]}"
        text += ", through a scratch tile" if found["scratch_bytes"] else ""
        text += ", written around the caches" if found["streams"] else ""
        text += f", and {counted(found['fills'], 'fill')} of padding" if found["fills"] else ""
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"engine": "native", **self.compiled.describe()}


class Make(NamedTuple):
    """How a call makes its target: `function(*arguments, **words)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    words: dict[str, Any] | None = None


def native_again(
    compiled: Any, source: Any, target: Any, make: Make | None, tensors: Any = None, writes: Any = None
) -> Again | None:
    """What runs a call again, as `Prepared.again`, that passed all checks and moved from `source` to `target`.

    It belongs to the caller that checked: other callers of the same plan take other arrays.  None if arrays like these
    cannot be recognised.

    make      None if the target was given, as others will be
    tensors   the engine's `Tensors`, if both are such; then writes(target) comes before a given target is written
    """
    threads = thread_count if compiled.describe()["most_threads"] > 1 else None
    call = compiled.call(source, target, *(make or (None, None, None)), tensors, writes, threads)
    again: Again | None = None if call is None else call.again
    return again


def ordinary_plan_of(move: Move, threads: int = 1) -> NativePlan | StridedPlan:
    """The plan of a move for the engine, or for NumPy where the engine does not run."""
    module = native.module()
    if module is None:
        return strided_plan_of(move, threads)
    module.set_caches(*machine_caches())
    return NativePlan(module.Plan(move.axes, move.itemsize, move.pad), threads)
