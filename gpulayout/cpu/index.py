"""Index conversion on the CPU: by the native engine where it runs, see kernels/cpu/index_program.cpp, else by NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.index_run import outside, run
from gpulayout.cpu.index_steps import LOAD, RowStep, steps_of
from gpulayout.cpu.threads import share, thread_count
from gpulayout.moves.index_program import IndexProgram, Mode

BLOCK = 1 << 15  # indices of NumPy's arrays: those of a program stay in a second-level cache
SHARE = 1 << 18  # the fewest indices that justify another thread
ALONE = 1 << 14  # so many do not justify another thread of the engine

_MODES = {"raise": 0, "wrap": 1, "clip": 2, "mark": 3}  # in kernels/cpu/index_program.h


def native_program(module: ModuleType, steps: tuple[RowStep, ...], bits: int, places: int = -1) -> Any:
    """The steps, compiled by the engine; places: of a look-up."""
    module.set_caches(*machine_caches())
    return module.IndexProgram(steps, bits, places)


class HostConversion:
    """`PreparedConversion` of the CPU."""

    __slots__ = ("_program", "_steps", "_compiled")

    def __init__(self, program: IndexProgram):
        self._program, self._steps, self._compiled = program, steps_of(program), None

    def convert(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`; arrays may have any strides."""
        is_logical = self._program.direction == "linearize"
        if given.ndim != 1 + is_logical:
            count = math.prod(given.shape[1:]) if is_logical else given.size
            given = given.reshape((self._program.rank, count) if is_logical else (count,))
        module = native.module()
        if module is not None:
            compiled = self._compiled
            if compiled is None:
                compiled = self._compiled = native_program(module, self._steps, self._program.index_bits)
            threads = thread_count() if given.shape[-1] > ALONE else 1
            found: int | None = compiled.convert(given, result, _MODES[mode], checked, threads)
            return found
        if result is not None:
            result = result.reshape(-1, given.shape[-1]) if given.shape[-1] else None
        return self._by_numpy(given if is_logical else given[None], result, mode, checked)

    def again(self, given: np.ndarray, result: np.ndarray, mode: str) -> bool:
        """Always False: checking NumPy arrays takes no longer than recognising an earlier call."""
        return False

    def _by_numpy(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool) -> int | None:
        """`convert` of rows."""
        offenders = []

        def convert_part(first: int, last: int) -> None:
            for start in range(first, last, BLOCK):
                part = slice(start, min(start + BLOCK, last))
                offender = self._block(given[:, part], None if result is None else result[:, part], mode, checked)
                if offender is not None:
                    offenders.append(start + offender)
                    return

        share(convert_part, given.shape[-1], SHARE)
        return min(offenders, default=None)

    def _block(self, given: np.ndarray, result: np.ndarray | None, mode: Mode, checked: bool) -> int | None:
        """The first offender of a block.  Results in the same block as an offender are not written."""
        steps, word, count = self._steps, word_of_bits(self._program.index_bits), given.shape[-1]
        loads = [(step.side, step.bound) for step in steps if step.kind == LOAD]
        if mode in ("wrap", "clip"):
            inside = {side: _inside(given[side], bound, mode) for side, bound in loads}
            return _first([run(steps, word, count, inside, result)], None)
        if not checked:
            first = _first((outside(given[side], bound) for side, bound in loads), None)
            if first is not None:
                return first if mode == "mark" else _first([run(steps, word, first, given[:, :first], None)], first)
        if mode == "raise":
            return _first([run(steps, word, count, given, result, not checked)], None)
        if result is not None and (padding := run(steps, word, count, given, result)) is not None:
            result[:, padding] = -1
        return None


def word_of_bits(bits: int) -> type[np.unsignedinteger]:
    """The word in which NumPy computes."""
    return np.uint32 if bits == 32 else np.uint64


def _first(masks: Iterable[np.ndarray | None], otherwise: int | None) -> int | None:
    """The first position that is in any mask."""
    return min((int(np.argmax(mask)) for mask in masks if mask is not None), default=otherwise)


def _inside(values: np.ndarray, bound: int, mode: str) -> np.ndarray:
    """The coordinates, brought into bounds: -1 wraps to bound - 1 and clips to 0."""
    if mode == "clip":
        clipped: np.ndarray = np.clip(values, 0, min(bound - 1, np.iinfo(values.dtype).max))
        return clipped
    wide = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64, copy=False)
    whole = wide // wide.dtype.type(bound)  # done by multiplication; np.remainder divides
    wrapped: np.ndarray = wide - whole * wide.dtype.type(bound)
    return wrapped
