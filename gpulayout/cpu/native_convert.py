"""Plans of moves with arithmetic: for the native engine, see kernels/cpu/convert_move.cpp, else for NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.convert import ConvertPlan, numpy_convert_plan
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.layout.checks import counted
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.convert_numbers import steps_number, type_number


class NativeConvertPlan(NamedTuple):
    """The engine's plan of a move with arithmetic, for at most `threads` threads.

    parameters   of a call: the arrays that the steps take
    """

    move: ConvertMove
    compiled: Any
    threads: int
    parameters: Sequence[np.ndarray] = ()

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(int(self.compiled.describe()["most_threads"]), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        self.compiled.run(source, source_offset, target, target_offset, self.parameters, self.threads)

    def describe(self) -> str:
        """The plan in words."""
        found: dict[str, Any] = self.compiled.describe()
        text = f"{self.move.arithmetic.form} in {counted(found['boxes'], 'box')} of {counted(found['box'], 'element')}"
        text += ", gathered before" if found["gathers"] else ""
        text += ", scattered after" if found["scatters"] else ""
        text += ", written around the caches" if found["streams"] else ""
        text += f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else ""
        return text

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {"engine": "native", "arithmetic": self.move.arithmetic.form, **self.compiled.describe()}


def convert_plan_of(move: ConvertMove, threads: int = 1) -> NativeConvertPlan | ConvertPlan:
    """The plan of a move with arithmetic for the engine, or for NumPy where the engine does not run."""
    module = native.module()
    if module is None:
        return numpy_convert_plan(move, threads)
    module.set_caches(*machine_caches())
    parts = move.of_parts
    axes = [
        (axis.extent, axis.source_stride, axis.target_stride, *strides)
        for axis, *strides in zip(parts.axes, *parts.parameter_strides)
    ]
    types = parts.arithmetic
    compiled = module.Convert(
        axes,
        type_number(types.source),
        type_number(types.target),
        steps_number(types.steps),
        types.saturate,
        parts.parameter_offsets,
    )
    return NativeConvertPlan(move, compiled, threads)
