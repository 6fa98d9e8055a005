"""The launch code of the CUDA kernels, for a device and for the host shim alike.

`CudaBackend` turns plans into launches through a `Runtime`: CuPy on a device, or in the tests a host compiler that runs
the very same kernel files on the CPU.  Nothing here knows which.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.index_run import IndexLaunches
from gpulayout.gpu.many import ManyPlan, Request, many_plan
from gpulayout.gpu.runtime import Launch, Runtime, Start
from gpulayout.moves.backend import Job
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.move import Move, Pieces


class CudaBackend:
    """Carries out moves and index conversion by launching kernels; arrays and memory are the subclass's matter.

    Launches are kept once they are prepared: a plan that was used before is looked up and started.
    """

    def __init__(self, runtime: Runtime):
        self.runtime = runtime
        self._mover = functools.lru_cache(maxsize=4096)(self._prepared_move)
        self._pieces_mover = functools.lru_cache(maxsize=1024)(self._prepared_pieces)

    def address(self, array: Any) -> int:
        return self.runtime.place(array)[0]

    def move(self, pieces: Pieces, source: Any, target: Any) -> None:
        """Carry out all pieces: at most one launch for a single one, none when the target has no places."""
        addresses, start = self.launch_of(pieces, source, target)
        if start:
            start(*addresses)

    def launch_of(self, pieces: Pieces, source: Any, target: Any) -> tuple[tuple[int, int], Start | None]:
        """The addresses of both arrays, and what moves between any two that are aligned like them."""
        (from_address, _), (to_address, device) = self.runtime.place(source), self.runtime.place(target)
        if len(pieces) == 1:                             # it begins where the arrays begin
            move = pieces[0].move
            return (from_address, to_address), self._mover(move, *_phases(move, from_address, to_address), device)
        return (from_address, to_address), self._pieces_mover(pieces, from_address % 16, to_address % 16, device)

    def _prepared_move(self, move: Move, source_phase: int, target_phase: int, device: int) -> Start | None:
        plan = kernel_plan(move, source_phase, target_phase)
        return plan and self.runtime.prepare(device, Launch(plan.file, plan.kernel, plan.macros, plan.grid, plan.parameters, 2))

    def _prepared_pieces(self, pieces: Pieces, source_phase: int, target_phase: int, device: int) -> Start:
        requests = [Request("", piece.move, *_phases(piece.move, source_phase + piece.source_offset, target_phase + piece.target_offset))
                    for piece in pieces]
        plan = many_plan(tuple(requests))

        def start(source: int, target: int) -> None:
            addresses = [(source + piece.source_offset, target + piece.target_offset) for piece in pieces]
            for begin, given in self._starts(plan, requests, addresses, device):
                begin(*given)
        return start

    def repeated(self, pieces: Pieces) -> Repeated:
        """What carries these pieces out again without checking again."""
        return Repeated(self, pieces)

    def prepare(self, jobs: Sequence[Job]) -> Callable[[], None]:
        """See `Backend.prepare`: small moves share launches."""
        requests: list[Request] = []
        addresses: list[tuple[int, int]] = []
        for label, pieces, *arrays in jobs:
            source, target = map(self.address, arrays)
            for move, source_offset, target_offset in pieces:
                addresses.append((source + source_offset, target + target_offset))
                requests.append(Request(label, move, *_phases(move, *addresses[-1])))
        device = self.runtime.place(jobs[0].target)[1]
        starts = self._starts(many_plan(tuple(requests)), requests, addresses, device)

        def carry_out() -> None:
            for start, given in starts:
                start(*given)
        return carry_out

    def _starts(self, plan: ManyPlan, requests: Sequence[Request], addresses: Sequence[tuple[int, int]], device: int
                ) -> list[tuple[Start, tuple[int, ...]]]:
        """The launches of a plan for moves between these addresses, each with what it is called with."""
        starts: list[tuple[Start, tuple[int, ...]]] = []
        for shared in plan.shared:
            parameters = shared.parameters([addresses[place] for place in shared.members])
            launch = Launch(shared.file, shared.kernel, shared.macros, shared.grid, parameters, 0)
            starts.append((self.runtime.prepare(device, launch), ()))
        for place in plan.alone:
            starts.append((self._mover(*requests[place][1:], device), addresses[place]))
        return starts

    def prepare_conversion(self, program: IndexProgram) -> IndexLaunches:
        """See `Backend.prepare_conversion`."""
        return IndexLaunches(program, self.runtime)


class Repeated:
    """The calls of one relayout that passed every check: a call like one of them is started at once.

    Alike are calls with the same dtypes, shapes, strides, devices and alignments of both arrays.  All that the checks and
    the launch depend on is the same then, but for one thing, whether the arrays overlap, and that is looked at anew.
    """

    MOST = 64                        # callers with buffers of ever new lengths begin anew

    def __init__(self, backend: CudaBackend, pieces: Pieces):
        self._backend, self._pieces, self._place = backend, pieces, backend.runtime.place
        self._starts: dict[tuple, tuple[Start, int, int]] = {}

    def __call__(self, source: Any, target: Any) -> bool:
        """Start the relayout; False when the call has to go through the checks."""
        kind, from_address, to_address = self._kind(source, target)
        found = self._starts.get(kind)
        if found is None:
            return False
        start, source_bytes, target_bytes = found
        if from_address < to_address + target_bytes and to_address < from_address + source_bytes:
            return False
        start(from_address, to_address)
        return True

    def remember(self, source: Any, target: Any) -> None:
        """Take a call that was carried out as an example."""
        _, start = self._backend.launch_of(self._pieces, source, target)
        if len(self._starts) >= self.MOST:
            self._starts.clear()
        if start:
            self._starts[self._kind(source, target)[0]] = start, source.nbytes, target.nbytes

    def _kind(self, source: Any, target: Any) -> tuple[tuple, int, int]:
        """What calls that are alike have in common, and both addresses."""
        (from_address, from_device), (to_address, to_device) = self._place(source), self._place(target)
        return (from_address & 15, to_address & 15, from_device, to_device, *_form(source), *_form(target)), from_address, to_address


_form = operator.attrgetter("dtype", "shape", "strides")


def _phases(move: Move, from_address: int, to_address: int) -> tuple[int, int]:
    """Both addresses modulo 16; an empty source may have no address at all, and 0 stands for it."""
    return from_address % 16 if move.element_count else 0, to_address % 16
