"""Launches CUDA kernels, on a device or through the host shim.

`CudaBackend` turns plans into launches through a `Runtime`: CuPy on a device, or in the tests a host compiler that runs
the same kernel files on the CPU.  This module does not know which.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.convert_run import ConvertLaunches
from gpulayout.gpu.index_run import IndexLaunches
from gpulayout.gpu.many import JobMove, ManyPlan, many_plan
from gpulayout.gpu.move_run import MoveLaunches, phases
from gpulayout.gpu.runtime import Launch, Runtime, Start
from gpulayout.gpu.uploads import Uploads
from gpulayout.moves.backend import PreparedJob
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.pieces import AnyMove, Pieces
from gpulayout.moves.steps import Steps

# Planning takes far longer than starting a launch, so plans of lists of up to 512 moves are kept.  A move takes about
# 400 bytes, 64 lists at most 13 MB.
MOST_MOVES_KEPT = 512
_kept_plan = functools.lru_cache(maxsize=64)(many_plan)


class CudaBackend(abc.ABC):
    """Executes moves and index conversions by launching kernels; a subclass handles arrays and memory.

    The launches prepared for a transfer are kept by its `MoveLaunches`.
    """

    slab_bytes = 1 << 24  # the second-level cache holds the workspace, and launches take less time
    slabs_at_once = 1  # launches follow each other

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.uploads = runtime, Uploads(runtime)

    @abc.abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Any, like: Any = None) -> Any:
        """See `Backend.empty`."""

    @abc.abstractmethod
    def array(
        self, values: object, dtype: np.dtype | None, order: Literal["C", "F"] | None = None, like: Any = None
    ) -> Any:
        """See `Backend.array`."""

    def address(self, array: Any) -> int:
        return self.runtime.place(array)[0]

    def temporary(self, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> Any:
        """See `Backend.temporary`.  When a CUDA graph runs, the memory of the call that it captured may hold other
        arrays.
        """
        if self.is_capturing(self.runtime.place(like)[1]):
            raise BufferError(
                "a call with arithmetic cannot be captured in a CUDA graph if it needs temporary arrays, because their "
                "memory is given back after the call: run it before the capture"
            )
        return self.empty(shape, dtype, like)

    def prepare(self, pieces: Pieces) -> MoveLaunches:
        return MoveLaunches(self, pieces)

    def prepare_arithmetic(self, pieces: Pieces) -> ConvertLaunches:
        return ConvertLaunches(self, pieces)

    def start_of_move(self, move: AnyMove, source_phase: int, target_phase: int, device: int) -> Start:
        """The start of a move between two addresses, given modulo 16: one launch, or none for a move without places."""
        plan = kernel_plan(move, source_phase, target_phase)
        if plan is None:
            return _nothing
        return self.runtime.prepare(
            device, Launch(plan.file, plan.kernel, plan.macros, plan.grid, plan.parameters, 2, plan.operands)
        )

    def start_of_pieces(self, pieces: Pieces, source_phase: int, target_phase: int, device: int) -> Start:
        """As `start_of_move`, for several pieces; small ones share launches."""
        requests = [
            JobMove(
                "",
                piece.move,
                *phases(piece.move, source_phase + piece.source_offset, target_phase + piece.target_offset),
            )
            for piece in pieces
        ]
        plan = many_plan(tuple(requests))
        alone = [self.start_of_move(*requests[place][1:], device) for place in plan.alone]

        def start(source: int, target: int) -> None:
            addresses = [(source + piece.source_offset, target + piece.target_offset) for piece in pieces]
            for begin, given in self._starts(plan, alone, addresses, device):
                begin(*given)

        return start

    def prepare_jobs(self, jobs: Sequence[PreparedJob]) -> Callable[[], None]:
        """See `Backend.prepare_jobs`.  Small moves share launches."""
        requests: list[JobMove] = []
        addresses: list[tuple[int, int]] = []
        owners: list[PreparedJob] = []
        for job in jobs:
            source, target = self.address(job.source), self.address(job.target)
            for move, source_offset, target_offset in job.prepared.pieces:
                addresses.append((source + source_offset, target + target_offset))
                requests.append(JobMove(job.label, move, *phases(move, *addresses[-1])))
                owners.append(job)
        device = self.runtime.place(jobs[0].target)[1]
        plan = (_kept_plan if len(requests) <= MOST_MOVES_KEPT else many_plan)(tuple(requests))
        alone = [self._start_of_job(owners[place], requests[place], device) for place in plan.alone]
        starts = self._starts(plan, alone, addresses, device)

        def start_all() -> None:
            for start, given in starts:
                start(*given)

        return start_all

    def _start_of_job(self, job: PreparedJob, request: JobMove, device: int) -> Start:
        """The start of a piece of a job that gets its own launch."""
        if len(job.prepared.pieces) == 1:
            prepared: Any = job.prepared  # this backend's own: a `MoveLaunches`
            start: Start = prepared.start_between(job.source, job.target)
            return start
        return self.start_of_move(*request[1:], device)

    def _starts(
        self, plan: ManyPlan, alone: Sequence[Start], addresses: Sequence[tuple[int, int]], device: int
    ) -> list[tuple[Start, tuple[int, ...]]]:
        """The launches of a plan for moves between these addresses, each with its arguments."""
        starts: list[tuple[Start, tuple[int, ...]]] = []
        for shared in plan.shared:
            parameters = shared.parameters([addresses[place] for place in shared.members])
            launch = Launch(shared.file, shared.kernel, shared.macros, shared.grid, parameters, 0)
            starts.append((self.runtime.prepare(device, launch), ()))
        starts += [(start, addresses[place]) for start, place in zip(alone, plan.alone)]
        return starts

    def prepare_steps(self, steps: Steps) -> StepLaunches:
        return StepLaunches(self, steps)

    def is_capturing(self, device: int) -> bool:
        """True while launches are only recorded, in a CUDA graph that runs later."""
        return False

    def prepare_conversion(self, program: IndexProgram) -> IndexLaunches:
        """See `Backend.prepare_conversion`."""
        return IndexLaunches(program, self.runtime)


class StepLaunches:
    """`PreparedSteps` of the GPU: one launch after the other on the current stream, which keeps their order."""

    def __init__(self, backend: CudaBackend, steps: Steps) -> None:
        self._backend, self._steps = backend, steps
        self._starts: dict[tuple[Any, ...], Start] = {}

    def execute(self, buffer: Any, workspace: Any) -> None:
        """See `PreparedSteps.execute`.  All kernels are compiled before the first launch.

        When a CUDA graph runs, the workspace of the call that it captured may hold other arrays, so that is an error.
        """
        place = self._backend.runtime.place
        (*_, device), memory = place(buffer), (place(buffer)[0], place(workspace)[0])
        if self._backend.is_capturing(device):
            raise BufferError(
                "a relayout in place cannot be captured in a CUDA graph, because its workspace is given back after the "
                "call: pass other memory as out"
            )
        launches = []
        for step in self._steps:
            for move, from_workspace, source, to_workspace, target in step.copies():
                addresses = memory[from_workspace] + source, memory[to_workspace] + target
                key = (move, device, *phases(move, *addresses))
                start = self._starts.get(key)
                if start is None:
                    start = self._starts[key] = self._backend.start_of_move(move, *key[2:], device)
                launches.append((start, addresses))
        for start, addresses in launches:
            start(*addresses)


def _nothing(*addresses: int) -> None:
    """The start of a move without places."""
