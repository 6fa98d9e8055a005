"""Plans of moves, with arithmetic or without, and of packed ones: for the native engine where it runs, else for NumPy.

See strided_move.cpp, convert_move.cpp and packed_move.cpp in kernels/cpu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.convert import ConvertPlan, numpy_convert_plan
from gpulayout.cpu.packed_run import PackedPlan, numpy_packed_plan
from gpulayout.cpu.strided_plan import StridedPlan, strided_plan_of
from gpulayout.cpu.threads import MOST_THREADS
from gpulayout.layout.checks import counted
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.convert_numbers import steps_number, type_number
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove

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
    """The engine's plan of a move, for at most `threads` threads.

    compiled   the engine's own
    words      what `describe` says, from the move and what the engine says
    """

    move: Any
    compiled: Any
    threads: int
    words: Callable[[Any, dict[str, Any]], str]

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(int(self.compiled.describe()["most_threads"]), MOST_THREADS)

    def execute(
        self,
        source: np.ndarray,
        source_offset: int,
        target: np.ndarray,
        target_offset: int,
        parameters: Sequence[np.ndarray] = (),
    ) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        self.compiled.run(source, source_offset, target, target_offset, self.threads, *parameters)

    def describe(self) -> str:
        """The plan in words."""
        return self.words(self.move, self.compiled.describe())

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"engine": "native", **self.compiled.describe()}


def ordinary_plan_of(move: Move, threads: int = 1) -> NativePlan | StridedPlan:
    """The plan of a move for the engine, or for NumPy where the engine does not run."""
    module = _engine()
    if module is None:
        return strided_plan_of(move, threads)
    return NativePlan(move, module.Plan(move.axes, move.itemsize, move.pad), threads, _move_words)


def convert_plan_of(move: ConvertMove, threads: int = 1) -> NativePlan | ConvertPlan:
    """The plan of a move with arithmetic for the engine, or for NumPy where the engine does not run."""
    module = _engine()
    if module is None:
        return numpy_convert_plan(move, threads)
    parts, types = move.of_parts, move.of_parts.arithmetic
    axes = [
        (axis.extent, axis.source_stride, axis.target_stride, *strides)
        for axis, *strides in zip(parts.axes, *parts.parameter_strides)
    ]
    numbers = type_number(types.source), type_number(types.target), steps_number(types.steps)
    compiled = module.convert_plan(axes, *numbers, types.saturate, parts.parameter_offsets)
    return NativePlan(move, compiled, threads, _convert_words)


def packed_plan_of(move: PackedMove, threads: int = 1) -> NativePlan | PackedPlan:
    """The plan of a packed move for the engine, or for NumPy where the engine does not run."""
    module = native.module()
    if module is None:
        return numpy_packed_plan(move, threads)
    compiled = module.packed_plan(move.axes, move.slots, move.start, *move.packing, move.pad[0])
    return NativePlan(move, compiled, threads, _packed_words)


def _engine() -> Any:
    """The engine, told of this machine's caches; None where it does not run."""
    module = native.module()
    if module is not None:
        module.set_caches(*machine_caches())
    return module


def _move_words(move: Move, found: dict[str, Any]) -> str:
    text = f"{counted(found['boxes'], 'box')} of {found['along_target']}x{found['along_source']} places"
    text += f" of {counted(found['element_bytes'], 'byte')}, {_WORDS[found['kernel']]}"
    text += ", through a scratch tile" if found["scratch_bytes"] else ""
    text += ", written around the caches" if found["streams"] else ""
    return text + (f", and {counted(found['fills'], 'fill')} of padding" if found["fills"] else "")


def _convert_words(move: ConvertMove, found: dict[str, Any]) -> str:
    text = f"{move.arithmetic.form} in {counted(found['boxes'], 'box')} of {counted(found['box'], 'element')}"
    text += ", gathered before" if found["gathers"] else ""
    text += ", scattered after" if found["scatters"] else ""
    return text + (", written around the caches" if found["streams"] else "")


def _packed_words(move: PackedMove, found: dict[str, Any]) -> str:
    ways = ["unpacked"] * (move.source_bits < 8) + ["moved as bytes"] * found["turns"]
    ways += ["packed"] * (move.target_bits < 8)
    return f"{counted(found['boxes'], 'box')} of up to {counted(found['most'], 'place')}, {', '.join(ways)}"
