"""The CPU backend: it executes plans with the native engine and with NumPy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from gpulayout.cpu.choose_plan import MovePlan, NativePlan, plan_of
from gpulayout.cpu.index import HostConversion
from gpulayout.cpu.threads import SCRATCH_BYTES, share, thread_count
from gpulayout.cpu.views import array_at, word_of
from gpulayout.memory import dlpack
from gpulayout.memory.foreign_memory import ForeignMemory
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.backend import Again, LinearizeBroadcast, Make, PreparedJob
from gpulayout.moves.pieces import AnyMove, Piece, Pieces
from gpulayout.moves.steps import BlockCycles, StepInPlace, Steps

SLAB_BYTES = 1 << 19  # a slab and its copy fit the second-level cache
AT_ONCE = 16  # the most slabs or parts, and so threads, that the workspace has room for
SHARE_BYTES = 1 << 16  # the fewest bytes of each block for a thread
MOST_KEPT = 1 << 16  # bytes of parameters that a call keeps for the next one
Planned = tuple[tuple[MovePlan, int, int], ...]  # plans, with their offsets in source and target


class HostMoves:
    """`Prepared` and `PreparedArithmetic` of the CPU."""

    __slots__ = ("pieces", "compiled", "_plans", "_is_large", "_parameters")

    def __init__(self, pieces: Pieces):
        self.pieces = pieces
        self._plans = functools.lru_cache(2)(functools.partial(_planned, pieces))  # by the number of threads
        self._is_large = any(plan.most_threads > 1 for plan, _, _ in self._plans(1))
        self.compiled = _only_native(self._plans(1))
        self._parameters: Callable[[], Sequence[np.ndarray]] = tuple

    def execute(
        self, source: np.ndarray, target: np.ndarray, *, is_new: bool = False, threads: int | None = None
    ) -> None:
        """See `Prepared.execute`.  The number of threads is read once, and only if there is work for two."""
        plans = self._plans((threads or thread_count()) if self._is_large else 1)
        parameters = self._parameters()
        for plan, source_offset, target_offset in plans:
            more = (parameters,) if isinstance(plan.move, ConvertMove) else ()
            plan.execute(source, source_offset, target, target_offset, *more)

    def with_parameters(self, parameters: Callable[[], Sequence[np.ndarray]]) -> HostMoves:
        """See `PreparedArithmetic.with_parameters`."""
        bound = HostMoves.__new__(HostMoves)  # a fifth of what `copy.copy` takes
        bound.pieces, bound.compiled, bound._parameters = self.pieces, self.compiled, parameters
        bound._plans, bound._is_large = self._plans, self._is_large
        return bound

    def known_call(
        self, source: Any, target: Any, make: Make | None, tensors: Any = None, writes: Any = None
    ) -> Again | None:
        """See `Prepared.known_call`.  None also where NumPy has a part of the work, or parameters many numbers."""
        if self.compiled is None:
            return None
        [(plan, *offsets)] = self._plans(1)
        parameters = self._parameters() if isinstance(plan.move, ConvertMove) else ()
        if sum(numbers.nbytes for numbers in parameters) > MOST_KEPT:
            return None
        threads = thread_count if self._is_large else None
        how = *(make or (None, None, None)), tensors, writes, threads
        call = self.compiled.call(source, target, *how, *offsets, *parameters)
        again: Again | None = None if call is None else call.again
        return again


def _only_native(plans: Planned) -> Any:
    """The compiled plan, if the native engine does everything in one move."""
    [(plan, *_), *others] = plans or [(None, 0, 0)]
    return plan.compiled if not others and isinstance(plan, NativePlan) else None


def _planned(pieces: Pieces, threads: int) -> Planned:
    """Plans of the pieces, in the order of execution.  Equal moves share a plan, since tiles can cut an array into
    thousands of pieces.
    """
    plans: dict[AnyMove, MovePlan] = {}
    for move, *_ in pieces:
        if move not in plans:
            plans[move] = plan_of(move, threads)
    return tuple([(plans[move], source_offset, target_offset) for move, source_offset, target_offset in pieces])


class HostSteps:
    """`PreparedSteps` of the CPU.

    Threads share a step in three ways.  Slabs and parts that stay where they are go to different threads, each with its
    own part of the workspace.  Of every block a thread moves the same bytes, so that none waits for another.  In all
    other steps, threads share the single moves.
    """

    __slots__ = ("steps", "_moves")

    def __init__(self, steps: Steps):
        self.steps = steps
        self._moves: dict[AnyMove, HostMoves] = {}

    def execute(self, buffer: np.ndarray, workspace: np.ndarray) -> None:
        """See `PreparedSteps.execute`.  A bad number of threads, or no memory for what follows, is an error here."""
        threads = thread_count()
        np.empty(max(min(SCRATCH_BYTES, buffer.size), *[step.bitmap_bytes for step in self.steps], 0), np.uint8)
        for step in self.steps:
            if isinstance(step, BlockCycles):
                least = max(SHARE_BYTES, step.part_bytes // threads)  # a portion for each: it visits every block
                share(functools.partial(_move_blocks, step, buffer, workspace), step.part_bytes, least, threads)
            else:
                turns = min(step.at_once, threads)
                share(functools.partial(self._take_turns, step, turns, buffer, workspace), turns, 1, threads)

    def _take_turns(
        self, step: StepInPlace, turns: int, buffer: np.ndarray, workspace: np.ndarray, first: int, last: int
    ) -> None:
        """The slabs or parts of the turns `first` to `last - 1`; each turn has its own part of the workspace."""
        for turn in range(first, last):
            memory = buffer, workspace[turn * step.part_bytes :] if turns > 1 else workspace
            for move, from_workspace, source, to_workspace, target in step.copies(turn, turns):
                moves = self._moves.get(move) or self._moves.setdefault(move, HostMoves((Piece(move),)))
                moves.execute(memory[from_workspace][source:], memory[to_workspace][target:])


def _move_blocks(step: BlockCycles, buffer: np.ndarray, workspace: np.ndarray, first: int, last: int) -> None:
    """Move the bytes `first` to `last - 1` of every block."""
    size = step.part_bytes
    blocks, kept = buffer[: step.count * size].reshape(-1, size)[:, first:last], workspace[first:last]
    for source, target in step.numbers():
        if target is None:
            kept[...] = blocks[source]
        else:
            blocks[target] = kept if source is None else blocks[source]


class HostLane:
    """`Lane` of the CPU: nothing has to be copied, and nothing to be waited for."""

    def __init__(self, nbytes: int):
        self.host = self.device = np.empty(nbytes, np.uint8)

    def running(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def upload(self, places: slice) -> None:
        """See `Lane.upload`, and `Lane.download`."""

    download = upload

    def wait(self) -> None:
        """See `Lane.wait`."""


class NumpyBackend:
    """Moves with copies between strided views, and converts indices in cache-sized blocks."""

    name = "numpy"
    is_one_device = True
    slab_bytes, slabs_at_once = SLAB_BYTES, AT_ONCE

    def foreign_memory(self, given: object) -> ForeignMemory:
        return dlpack.dlpack_memory(given, (dlpack.CPU, dlpack.PINNED))

    def adopt(self, memory: ForeignMemory) -> np.ndarray:
        if not memory.size:  # empty memory may have no address
            return np.empty(memory.shape, memory.dtype)
        address, shape, strides, dtype, read_only, owner, *_ = memory
        typestr = dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}"  # of opaque bytes: NumPy reads no others
        array = array_at(address, read_only, shape, strides, typestr, owner)
        return array if array.dtype == dtype else array.view(dtype)

    def array(
        self, values: object, dtype: np.dtype | None, order: Literal["C", "F"] | None = None, like: object = None
    ) -> np.ndarray:
        return np.array(values, dtype, order=order)

    def on_device_of(self, array: np.ndarray) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def held(self, dtype: np.dtype) -> np.dtype:
        return dtype

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: object = None) -> np.ndarray:
        return np.empty(shape, dtype)

    def temporary(self, shape: tuple[int, ...], dtype: np.dtype, like: object) -> np.ndarray:
        return np.empty(shape, dtype)

    def zeros(self, length: int, dtype: np.dtype, align: int) -> np.ndarray:
        if align == 1:
            return np.zeros(length, dtype)
        room: np.ndarray = np.zeros(length * dtype.itemsize + align, np.uint8)
        return np.ndarray(length, dtype, room, -self.address(room) % align)

    def device(self, array: np.ndarray) -> str:
        return "cpu"

    def address(self, array: np.ndarray) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def strided(self, array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        if array.flags.c_contiguous and array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
            return np.ndarray(shape, array.dtype, array, 0, strides)  # `as_strided` would make two arrays more
        writeable = array.flags.writeable
        if array.dtype.isbuiltin != 2:
            return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=writeable)
        # A type of ml_dtypes goes as words, because `as_strided` cannot read the code of f8e5m2, "<f1".
        words = array.view(word_of(array.itemsize))
        return np.lib.stride_tricks.as_strided(words, shape, strides, writeable=writeable).view(array.dtype)

    def contiguous(self, array: np.ndarray) -> np.ndarray:
        return array  # NumPy reads any strides

    max_operands = 0  # index arrays that broadcast are stacked first
    linearize_broadcast: LinearizeBroadcast | None = None

    def prepare(self, pieces: Pieces) -> HostMoves:
        return HostMoves(pieces)

    prepare_arithmetic = prepare

    def prepare_jobs(self, jobs: Sequence[PreparedJob]) -> Callable[[], None]:
        threads = thread_count()  # raises for a bad number before any job writes

        def execute() -> None:
            for job in jobs:
                job.prepared.execute(job.source, job.target, threads=threads)

        return execute

    def lanes(
        self, count: int, host_bytes: int, device_bytes: int, like: np.ndarray | None = None
    ) -> contextlib.AbstractContextManager[Sequence[HostLane]]:
        return contextlib.nullcontext([HostLane(max(host_bytes, device_bytes)) for _ in range(count)])

    prepare_steps = HostSteps
    prepare_conversion = HostConversion
