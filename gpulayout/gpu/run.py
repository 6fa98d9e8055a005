"""The launch code of the CUDA kernels, for a device and for the host shim alike.

`CudaBackend` turns plans into launches through a `Runtime`: CuPy on a device, or in the tests a host compiler that runs
the very same kernel files on the CPU.  Nothing here knows which.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.index_run import IndexLaunches
from gpulayout.gpu.many import ManyPlan, Request, many_plan
from gpulayout.gpu.runtime import Launch, Runtime, Start
from gpulayout.moves.backend import PreparedJob
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.kinds import AnyMove, Pieces
from gpulayout.moves.move import span

# A list that was carried out before is not planned again, which takes 40 us for each of its moves.  A move of a list
# takes about 400 bytes, so that at most 13 MB are kept.
MOST_MOVES_KEPT = 512
_kept_plan = functools.lru_cache(maxsize=64)(many_plan)


class CudaBackend:
    """Carries out moves and index conversion by launching kernels; arrays and memory are the subclass's matter.

    The object that holds the pieces keeps the launches prepared for them: see `PreparedLaunches`.
    """

    def __init__(self, runtime: Runtime):
        self.runtime = runtime

    def address(self, array: Any) -> int:
        return self.runtime.place(array)[0]

    def prepare(self, pieces: Pieces) -> PreparedLaunches:
        return PreparedLaunches(self, pieces)

    def start_of_move(self, move: AnyMove, source_phase: int, target_phase: int, device: int) -> Start:
        """What moves between two addresses with these remainders modulo 16: one launch, or none when there are no
        places.
        """
        plan = kernel_plan(move, source_phase, target_phase)
        if plan is None:
            return _nothing
        return self.runtime.prepare(device, Launch(plan.file, plan.kernel, plan.macros, plan.grid, plan.parameters, 2))

    def start_of_pieces(self, pieces: Pieces, source_phase: int, target_phase: int, device: int) -> Start:
        """The same for several pieces, small ones of which share launches."""
        requests = [
            Request(
                "",
                piece.move,
                *_phases(piece.move, source_phase + piece.source_offset, target_phase + piece.target_offset),
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
        """See `Backend.prepare_jobs`: small moves share launches."""
        requests: list[Request] = []
        addresses: list[tuple[int, int]] = []
        owners: list[PreparedJob] = []
        for job in jobs:
            source, target = self.address(job.source), self.address(job.target)
            for move, source_offset, target_offset in job.prepared.pieces:
                addresses.append((source + source_offset, target + target_offset))
                requests.append(Request(job.label, move, *_phases(move, *addresses[-1])))
                owners.append(job)
        device = self.runtime.place(jobs[0].target)[1]
        plan = (_kept_plan if len(requests) <= MOST_MOVES_KEPT else many_plan)(tuple(requests))
        alone = [self._start_of_job(owners[place], requests[place], device) for place in plan.alone]
        starts = self._starts(plan, alone, addresses, device)

        def carry_out() -> None:
            for start, given in starts:
                start(*given)

        return carry_out

    def _start_of_job(self, job: PreparedJob, request: Request, device: int) -> Start:
        """What starts a piece of a job that has a launch of its own."""
        if len(job.prepared.pieces) == 1:
            return job.prepared.start_between(job.source, job.target)
        return self.start_of_move(*request[1:], device)

    def _starts(
        self, plan: ManyPlan, alone: Sequence[Start], addresses: Sequence[tuple[int, int]], device: int
    ) -> list[tuple[Start, tuple[int, ...]]]:
        """The launches of a plan for moves between these addresses, each with what it is called with."""
        starts: list[tuple[Start, tuple[int, ...]]] = []
        for shared in plan.shared:
            parameters = shared.parameters([addresses[place] for place in shared.members])
            launch = Launch(shared.file, shared.kernel, shared.macros, shared.grid, parameters, 0)
            starts.append((self.runtime.prepare(device, launch), ()))
        starts += [(start, addresses[place]) for start, place in zip(alone, plan.alone)]
        return starts

    def prepare_conversion(self, program: IndexProgram) -> IndexLaunches:
        """See `Backend.prepare_conversion`."""
        return IndexLaunches(program, self.runtime)


class PreparedLaunches:
    """The launches of the pieces of one transfer: `Prepared` of the GPU.

    A call that passed every check is remembered by its kind: dtypes, shapes, strides, devices and alignments of both
    arrays.  All that the checks and the launch depend on is the same in a call of the same kind, but for one thing,
    whether the arrays overlap, and that is looked at anew.
    """

    MOST = 64  # kinds that are kept, some 2 KB each, 6 KB where a kernel has 64 axes; with ever new ones it begins anew

    def __init__(self, backend: CudaBackend, pieces: Pieces):
        self.pieces, self._backend, self._place = pieces, backend, backend.runtime.place
        self._starts: dict[tuple, tuple[Start, int, int]] = {}
        # by the source alone: the new target's shape and dtype
        self._made: dict[tuple, tuple[tuple[int, ...], np.dtype, Start]] = {}

    def carry_out(self, source: Any, target: Any, *, is_new: bool = False) -> None:
        """See `Prepared.carry_out`: at most one launch for a single piece, none when the target has no places."""
        kind, from_address, to_address = self._kind(source, target)
        start, _, _ = self._starts.get(kind) or self._remember(kind, source, target, from_address, to_address)
        if is_new and not to_address & 15:  # as allocators give it
            self._made[from_address & 15, kind[2], _form(source)] = target.shape, target.dtype, start
        start(from_address, to_address)

    def start_between(self, source: Any, target: Any) -> Start:
        """What moves between two arrays that passed every check, for `relayout_many`."""
        kind, *addresses = self._kind(source, target)
        return (self._starts.get(kind) or self._remember(kind, source, target, *addresses))[0]

    def again(self, source: Any, target: Any) -> Any:
        """See `Prepared.again`."""
        if target is None:
            return self._again_anew(source)
        (from_address, from_device), (to_address, to_device) = self._place(source), self._place(target)
        # The kind as `_kind` has it, without the 0.1 us of a call.
        found = self._starts.get(
            (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target))
        )
        if found is None:
            return None
        start, below, above = found
        if below < to_address - from_address < above:
            return None
        start(from_address, to_address)
        return target

    def _again_anew(self, source: Any) -> Any:
        """The same into new memory, which no check can refuse and nothing overlaps."""
        from_address, device = self._place(source)
        made = self._made.get((from_address & 15, device, _form(source)))
        if made is None:
            return None
        shape, dtype, start = made
        target = self._backend.empty(shape, dtype, source)
        to_address, _ = self._place(target)
        if to_address & 15:
            self.carry_out(source, target)
        else:
            start(from_address, to_address)
        return target

    def _kind(self, source: Any, target: Any) -> tuple[tuple, int, int]:
        """What calls that are alike have in common, and both addresses."""
        (from_address, from_device), (to_address, to_device) = self._place(source), self._place(target)
        return (
            (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target)),
            from_address,
            to_address,
        )

    def _remember(
        self, kind: tuple, source: Any, target: Any, from_address: int, to_address: int
    ) -> tuple[Start, int, int]:
        """Prepare the launch for calls of a new kind."""
        device = kind[3]
        if len(self.pieces) == 1:  # it begins where the arrays begin
            move = self.pieces[0].move
            start = self._backend.start_of_move(move, *_phases(move, from_address, to_address), device)
        else:
            start = self._backend.start_of_pieces(self.pieces, from_address & 15, to_address & 15, device)
        if len(self._starts) >= self.MOST:
            self._starts.clear()
            self._made.clear()
        found = self._starts[kind] = start, *_overlapping(source, target)
        return found


def _overlapping(source: Any, target: Any) -> tuple[int, int]:
    """Arrays of these shapes and strides overlap when the distance from the source's address to the target's lies
    between both numbers.

    Gaps reach further than the bytes of the elements, and negative strides reach below the address.  At 0 and 100, 8
    elements of 4 bytes 8 bytes apart reach from 0 to 60 and from 100 to 160: they would overlap at distances from -59
    to 59.
    """
    (source_low, source_high), (target_low, target_high) = (
        span(list(zip(array.shape, array.strides)), array.itemsize) for array in (source, target)
    )
    return source_low - target_high, source_high - target_low


def _nothing(*addresses: int) -> None:
    """The start of a move without places."""


_form = operator.attrgetter("dtype", "shape", "strides")


def _phases(move: AnyMove, from_address: int, to_address: int) -> tuple[int, int]:
    """Both addresses modulo 16; an empty source may have no address at all, and 0 stands for it."""
    return from_address % 16 if move.element_count else 0, to_address % 16
