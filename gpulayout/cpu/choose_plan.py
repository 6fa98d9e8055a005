"""Plans a move for the CPU: by the native engine where it runs, else by NumPy.

Of the engine, see strided_move.cpp, convert_move.cpp and packed_move.cpp in kernels/cpu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.blocks import strided_plan_of
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.convert import numpy_convert_plan
from gpulayout.cpu.lookup import lookup_plan_of, numpy_packed_plan
from gpulayout.cpu.threads import MOST_THREADS
from gpulayout.layout.checks import counted
from gpulayout.moves.arithmetic import ConvertMove, steps_number, type_number
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.pieces import AnyMove


class MovePlan(Protocol):
    """The interface of a plan."""

    @property
    def move(self) -> AnyMove:
        """The move to execute."""

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each.

        Plans of moves with arithmetic take the arrays of their parameters after these.
        """

    def describe(self) -> str:
        """The plan in words."""

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""


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
        return min(int(self.compiled.describe()["most_threads"]), MOST_THREADS)

    def execute(
        self,
        source: np.ndarray,
        source_offset: int,
        target: np.ndarray,
        target_offset: int,
        parameters: Sequence[np.ndarray] = (),
    ) -> None:
        self.compiled.run(source, source_offset, target, target_offset, self.threads, *parameters)

    def describe(self) -> str:
        return self.words(self.move, self.compiled.describe())

    def as_json(self) -> dict[str, Any]:
        return {"engine": "native", **self.compiled.describe()}


def plan_of(move: AnyMove, threads: int = 1) -> MovePlan:
    """The CPU's plan for a move, with at most `threads` threads."""
    if isinstance(move, LookupMove):
        return lookup_plan_of(move, threads)  # the same steps for both engines
    module = native.module()
    if module is None:
        return _NUMPY[type(move)](move, threads)
    module.set_caches(*machine_caches())
    compiled, words = _NATIVE[type(move)]
    return NativePlan(move, compiled(module, move), threads, words)


def describe(move: AnyMove) -> str:
    """The CPU's plan for a move, in words."""
    if not move.place_count:
        return "nothing to do"
    if not move.element_count:
        return f"one fill of {counted(move.place_count, 'place')}"
    plan = plan_of(move)
    return plan.describe() + (f"; worth up to {plan.most_threads} threads" if plan.most_threads > 1 else "")


def as_json(move: AnyMove) -> dict[str, Any] | None:
    """The CPU's plan for a move, as plain values; None if there is nothing to do."""
    if not move.place_count:
        return None
    form = {"arithmetic": move.arithmetic.form} if isinstance(move, ConvertMove) else {}
    return form | plan_of(move).as_json()


# ---- the engine, by the kind of move ---------------------------------------------------------------------------------


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


def _move_words(move: Move, plan: dict[str, Any]) -> str:
    text = f"{counted(plan['boxes'], 'box')} of {plan['along_target']}x{plan['along_source']} places"
    text += f" of {counted(plan['element_bytes'], 'byte')}, {_WORDS[plan['kernel']]}"
    text += ", through a scratch tile" if plan["scratch_bytes"] else ""
    text += ", written around the caches" if plan["streams"] else ""
    return text + (f", and {counted(plan['fills'], 'fill')} of padding" if plan["fills"] else "")


def _compiled_convert(module: ModuleType, move: ConvertMove) -> Any:
    parts, types = move.of_parts, move.of_parts.arithmetic
    axes = [
        (axis.extent, axis.source_stride, axis.target_stride, *strides)
        for axis, *strides in zip(parts.axes, *parts.parameter_strides)
    ]
    numbers = type_number(types.source), type_number(types.target), steps_number(types.steps)
    return module.convert_plan(axes, *numbers, types.saturate, parts.parameter_offsets, types.swapped)


def _convert_words(move: ConvertMove, plan: dict[str, Any]) -> str:
    text = f"{move.arithmetic.form} in {counted(plan['boxes'], 'box')} of {counted(plan['box'], 'element')}"
    text += ", gathered before" if plan["gathers"] else ""
    text += ", scattered after" if plan["scatters"] else ""
    return text + (", written around the caches" if plan["streams"] else "")


def _packed_words(move: PackedMove, plan: dict[str, Any]) -> str:
    stages = ["unpacked"] * (move.source_bits < 8) + ["moved as bytes"] * plan["turns"]
    stages += ["packed"] * (move.target_bits < 8)
    return f"{counted(plan['boxes'], 'box')} of up to {counted(plan['most'], 'place')}, {', '.join(stages)}"


# By the kind of move: NumPy's planner; how the engine plans it, and its plan in words.
_NUMPY: dict[type, Callable[[Any, int], MovePlan]] = {
    Move: strided_plan_of,
    PackedMove: numpy_packed_plan,
    ConvertMove: numpy_convert_plan,
}
_NATIVE: dict[type, tuple[Callable[[ModuleType, Any], Any], Callable[[Any, dict[str, Any]], str]]] = {
    Move: (lambda module, move: module.Plan(move.axes, move.itemsize, move.pad), _move_words),
    PackedMove: (
        lambda module, move: module.packed_plan(move.axes, move.slots, move.start, *move.packing, move.pad[0]),
        _packed_words,
    ),
    ConvertMove: (_compiled_convert, _convert_words),
}
