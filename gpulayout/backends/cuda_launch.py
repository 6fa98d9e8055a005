"""The launch code of the CUDA kernels, whoever runs them.

`CudaBackend` turns plans into launches through a `Runtime`: CuPy on a device, or in the tests a host compiler that runs
the very same kernel files on the CPU.  Nothing here knows which.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from gpulayout.backends.base import Job
from gpulayout.planning.index_plan import KERNELS, IndexPlan
from gpulayout.planning.kernel_plan import kernel_plan
from gpulayout.planning.many_plan import ManyPlan, Request, many_plan
from gpulayout.planning.move import Move

Macros = tuple[tuple[str, int], ...]
NO_OFFENDER = 2**64 - 1


class Runtime(Protocol):
    """What launching needs from whoever has the device."""

    def launch(self, like: Any, file: str, kernel: str, macros: Macros, grid: tuple[int, int], arguments: tuple) -> None:
        """Start a kernel where the array `like` lives; arguments are addresses (ints) and parameter structs (bytes)."""

    def new_flag(self, like: Any) -> tuple[Any, int]:
        """A 64-bit word holding NO_OFFENDER, and its address."""

    def read_flag(self, flag: Any) -> int:
        """Wait for the launches before it and return the word."""

    def address(self, array: Any) -> int:
        """Device address of the first element of an array."""


class CudaBackend:
    """Carries out moves and index conversion by launching kernels; arrays and memory are the subclass's matter."""

    def __init__(self, runtime: Runtime):
        self.runtime = runtime

    def address(self, array: Any) -> int:
        return self.runtime.address(array)

    def move(self, move: Move, source: Any, target: Any) -> None:
        """Carry out a move: at most one launch, none when the target has no places."""
        from_address, to_address = self.address(source), self.address(target)
        plan = kernel_plan(move, *_phases(move, from_address, to_address))
        if plan:
            self.runtime.launch(target, plan.file, plan.kernel, plan.macros, plan.grid,
                                (from_address, to_address, plan.parameters))

    def prepare(self, jobs: Sequence[Job]) -> Callable[[], None]:
        """See `Backend.prepare`: small moves share launches."""
        pointers = [(self.address(job.source), self.address(job.target)) for job in jobs]
        plan = many_plan(tuple([Request(job.number, job.move, *_phases(job.move, *pair)) for job, pair in zip(jobs, pointers)]))
        return lambda: self._carry_out(plan, jobs, pointers)

    def _carry_out(self, plan: ManyPlan, jobs: Sequence[Job], pointers: Sequence[tuple[int, int]]) -> None:
        for launch in plan.shared:
            parameters = launch.parameters([pointers[place] for place in launch.members])
            like = jobs[launch.members[0]].target
            self.runtime.launch(like, launch.file, launch.kernel, launch.macros, launch.grid, (parameters,))
        for place in plan.alone:
            self.move(*jobs[place][1:])

    def convert(self, plan: IndexPlan, given: Any, result: Any | None, mode: str) -> int | None:
        """See `Backend.convert`: one launch, and no synchronisation unless the mode must raise."""
        count = given.shape[-1]
        if not count:
            return None
        given_type = np.dtype(given.dtype)
        result_bytes = 8 if result is None else np.dtype(result.dtype).itemsize
        for role, array, itemsize in (("index", given, given_type.itemsize), ("out", result, result_bytes)):
            if array is not None and self.address(array) % itemsize:
                raise BufferError(f"{role} address is {self.address(array) % itemsize} past a multiple of {itemsize}: "
                                  f"indices of {itemsize} bytes must be aligned to {itemsize}")
        looks = mode not in ("wrap", "clip")                 # in these modes every index has a place, and no flag is needed
        flag, flag_address = self.runtime.new_flag(given) if looks else (None, 0)
        self.runtime.launch(given, "index.cu", KERNELS[plan.direction],
                            plan.macros(given_type.itemsize, given_type.kind == "i", result_bytes), plan.grid(count),
                            (self.address(given), 0 if result is None else self.address(result), flag_address,
                             plan.parameters(count, mode)))
        if not looks:
            return None
        offender = self.runtime.read_flag(flag)
        return None if offender == NO_OFFENDER else offender


def _phases(move: Move, from_address: int, to_address: int) -> tuple[int, int]:
    """Both addresses modulo 16; an empty source may have no address at all, and 0 stands for it."""
    return from_address % 16 if move.element_count else 0, to_address % 16
