"""Launches CUDA kernels, on a device or through the host shim; what is prepared for a kind of call runs again.

`CudaBackend` turns plans into launches through a `Runtime`: CuPy on a device, or in the tests a host compiler that runs
the same kernel files on the CPU.  This module does not know which.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.index_launch import IndexLaunches
from gpulayout.gpu.many import JobMove, ManyPlan, many_plan
from gpulayout.gpu.runtime import Launch, Runtime, Start
from gpulayout.gpu.uploads import Parameters, Uploads
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.backend import Again, Make, PreparedJob
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.move import span
from gpulayout.moves.pieces import AnyMove, Piece, Pieces
from gpulayout.moves.steps import Steps

# Planning takes far longer than starting a launch, so plans of lists of up to 512 moves are kept.  A move takes about
# 400 bytes, 64 lists at most 13 MB.
MOST_MOVES_KEPT = 512
_kept_plan = functools.lru_cache(maxsize=64)(many_plan)
Kind = tuple[Any, ...]  # calls of one kind share a prepared launch
_form = operator.attrgetter("dtype", "shape", "strides")


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
        return self.runtime.locate(array)[0]

    def temporary(self, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> Any:
        """See `Backend.temporary`.  When a CUDA graph runs, the memory of the call that it captured may hold other
        arrays.
        """
        if self.is_capturing(self.runtime.locate(like)[1]):
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
            JobMove("", move, *phases(move, source_phase + source_offset, target_phase + target_offset))
            for move, source_offset, target_offset in pieces
        ]
        plan = many_plan(tuple(requests))
        alone = [self.start_of_move(*requests[number][1:], device) for number in plan.alone]

        def start_all(source: int, target: int) -> None:
            addresses = [(source + piece.source_offset, target + piece.target_offset) for piece in pieces]
            for start, arguments in self._starts(plan, alone, addresses, device):
                start(*arguments)

        return start_all

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
        device = self.runtime.locate(jobs[0].target)[1]
        plan = (_kept_plan if len(requests) <= MOST_MOVES_KEPT else many_plan)(tuple(requests))
        alone = [self._start_of_job(owners[number], requests[number], device) for number in plan.alone]
        starts = self._starts(plan, alone, addresses, device)

        def start_all() -> None:
            for start, arguments in starts:
                start(*arguments)

        return start_all

    def _start_of_job(self, job: PreparedJob, request: JobMove, device: int) -> Start:
        """The start of a piece of a job that gets its own launch."""
        if len(job.prepared.pieces) == 1:
            prepared: MoveLaunches = job.prepared  # this backend's own
            return prepared.start_between(job.source, job.target)
        return self.start_of_move(*request[1:], device)

    def _starts(
        self, plan: ManyPlan, alone: Sequence[Start], addresses: Sequence[tuple[int, int]], device: int
    ) -> list[tuple[Start, tuple[int, ...]]]:
        """The launches of a plan for moves between these addresses, each with its arguments."""
        starts: list[tuple[Start, tuple[int, ...]]] = []
        for shared in plan.shared:
            parameters = shared.parameters([addresses[number] for number in shared.members])
            launch = Launch(shared.file, shared.kernel, shared.macros, shared.grid, parameters, 0)
            starts.append((self.runtime.prepare(device, launch), ()))
        return starts + [(start, addresses[number]) for start, number in zip(alone, plan.alone)]

    def prepare_steps(self, steps: Steps) -> StepLaunches:
        return StepLaunches(self, steps)

    def is_capturing(self, device: int) -> bool:
        """True while launches are only recorded, in a CUDA graph that runs later."""
        return False

    def prepare_conversion(self, program: IndexProgram) -> IndexLaunches:
        """See `Backend.prepare_conversion`."""
        return IndexLaunches(program, self.runtime)


class MoveLaunches:
    """The launches of the pieces of one transfer: the GPU's `Prepared`.

    A call that passed every check is remembered by its kind: dtypes, shapes, strides, devices and alignments of both
    arrays.  In later calls of that kind everything that the checks and the launch depend on is the same, except whether
    the arrays overlap, which every call checks.
    """

    MOST = 64  # kinds that are kept, about 2 KB each, 6 KB for kernels of 64 axes; when full, all are dropped

    def __init__(self, backend: CudaBackend, pieces: Pieces) -> None:
        self.pieces, self._backend, self._locate = pieces, backend, backend.runtime.locate
        self.kinds: dict[Kind, tuple[Start, int, int]] = {}
        # keyed by the source only: shape and dtype of the new target, and the start
        self._made: dict[Kind, tuple[tuple[int, ...], np.dtype, Start]] = {}

    def execute(self, source: Any, target: Any, *, is_new: bool = False) -> None:
        """See `Prepared.execute`.  A single piece takes one launch, or none if the target has no places."""
        kind, from_address, to_address = self._kind(source, target)
        start, _, _ = self.kinds.get(kind) or self._remember(kind, source, target, from_address, to_address)
        if is_new and not to_address & 15:  # aligned, as allocators return it
            self._made[from_address & 15, kind[2], _form(source)] = target.shape, target.dtype, start
        start(from_address, to_address)

    def start_between(self, source: Any, target: Any) -> Start:
        """The start of the move between two arrays that passed every check, for `relayout_many`."""
        kind, *addresses = self._kind(source, target)
        return (self.kinds.get(kind) or self._remember(kind, source, target, *addresses))[0]

    def known_call(
        self, source: Any, target: Any, make: Make | None, tensors: Any = None, writes: Any = None
    ) -> Again | None:
        """See `Prepared.known_call`."""
        return self.again if tensors is None else None

    def again(self, source: Any, target: Any) -> Any:
        """The target of a call of a kind that passed every check, as `Again`; None for other kinds."""
        if target is None:
            return self._again_anew(source)
        (from_address, from_device), (to_address, to_device) = self._locate(source), self._locate(target)
        # As in `_kind`, without calling it: this is the path of every repeated call.
        kind = (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target))
        known = self.kinds.get(kind)
        if known is None:
            return None
        start, below, above = known
        if below < to_address - from_address < above:
            return None
        start(from_address, to_address)
        return target

    def _again_anew(self, source: Any) -> Any:
        """As `again`, into new memory, which passes every check and overlaps nothing."""
        from_address, device = self._locate(source)
        made = self._made.get((from_address & 15, device, _form(source)))
        if made is None:
            return None
        shape, dtype, start = made
        target = self._backend.empty(shape, dtype, source)
        to_address, _ = self._locate(target)
        if to_address & 15:
            self.execute(source, target)
        else:
            start(from_address, to_address)
        return target

    def _kind(self, source: Any, target: Any) -> tuple[Kind, int, int]:
        """The kind of a call, and both addresses."""
        (from_address, from_device), (to_address, to_device) = self._locate(source), self._locate(target)
        return (
            (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target)),
            from_address,
            to_address,
        )

    def _remember(
        self, kind: Kind, source: Any, target: Any, from_address: int, to_address: int
    ) -> tuple[Start, int, int]:
        """Prepare and keep the launch for a new kind of call."""
        start = self._start(from_address, to_address, kind[3])
        if len(self.kinds) >= self.MOST:
            self.kinds.clear()
            self._made.clear()
        known = self.kinds[kind] = start, *_overlapping(source, target)
        return known

    def _start(self, from_address: int, to_address: int, device: int) -> Start:
        """The start of all pieces, between addresses that are these modulo 16."""
        if len(self.pieces) == 1:
            [(move, read, written)] = self.pieces
            start = self._backend.start_of_move(move, *phases(move, from_address + read, to_address + written), device)
            if not (read or written):
                return start
            return lambda source, target: start(source + read, target + written)  # of a box
        return self._backend.start_of_pieces(self.pieces, from_address & 15, to_address & 15, device)


class ConvertLaunches:
    """The launches of the pieces of transfers that differ only in parameters: the GPU's `PreparedArithmetic`."""

    MOST = 64  # kinds of calls that are kept: both addresses modulo 16, and the device; when full, all are dropped

    def __init__(self, backend: CudaBackend, pieces: Pieces) -> None:
        self.backend = backend
        self.pieces, self.sizes = launch_pieces(pieces)
        self._starts: dict[tuple[int, int, int], list[Start]] = {}

    def with_parameters(self, parameters: Callable[[], Sequence[np.ndarray]]) -> BoundLaunches:
        """See `PreparedArithmetic.with_parameters`."""
        return BoundLaunches(self, parameters)

    def starts(self, source_phase: int, target_phase: int, device: int) -> list[Start]:
        """The start of every launch between arrays at these addresses, given modulo 16."""
        key = source_phase, target_phase, device
        starts = self._starts.get(key)
        if starts is None:
            if len(self._starts) >= self.MOST:
                self._starts.clear()
            addresses = [
                (source_phase + piece.source_offset, target_phase + piece.target_offset) for piece in self.pieces
            ]
            starts = self._starts[key] = [
                self.backend.start_of_move(piece.move, *phases(piece.move, *between), device)
                for piece, between in zip(self.pieces, addresses)
            ]
        return starts


class BoundLaunches(MoveLaunches):
    """The launches of one transfer with arithmetic, whose parameters every device gets once."""

    def __init__(self, shared: ConvertLaunches, parameters: Callable[[], Sequence[np.ndarray]]) -> None:
        super().__init__(shared.backend, shared.pieces)
        self._shared = shared

        def values() -> np.ndarray:
            return np.concatenate([array.ravel()[:size] for array, size in zip(parameters(), shared.sizes)])

        self._parameters = Parameters(values, shared.backend.uploads, shared.backend.runtime) if shared.sizes else None

    def _start(self, from_address: int, to_address: int, device: int) -> Start:
        """See `MoveLaunches._start`.  All kernels are compiled before the first launch."""
        parameters = self._parameters
        if parameters is not None:
            parameters.stream(device)  # no capture
        starts = self._shared.starts(from_address & 15, to_address & 15, device)
        if parameters is None and len(starts) == 1 and self.pieces[0][1:] == (0, 0):
            return starts[0]
        launches = [
            (start, source_offset, target_offset, int(isinstance(move, ConvertMove)))
            for (move, source_offset, target_offset), start in zip(self.pieces, starts)
        ]

        def start_all(source: int, target: int) -> None:
            copy = parameters.on(device) if parameters else ()  # held until all is launched
            for start, source_offset, target_offset, operands in launches:
                start(source + source_offset, target + target_offset, *copy[:operands])

        return start_all


def launch_pieces(pieces: Pieces) -> tuple[Pieces, tuple[int, ...]]:
    """The pieces that write something, for one array of all parameters, and how many values of each are in it."""
    pieces = tuple(piece for piece in pieces if piece.move.place_count)
    highest = [  # places of each parameter that a move reads
        [
            start + sum((axis.extent - 1) * max(step, 0) for axis, step in zip(move.axes, steps))
            for start, steps in zip(move.parameter_offsets, move.parameter_strides)
        ]
        for move, *_ in pieces
        if isinstance(move, ConvertMove)
    ]
    sizes = tuple(max(column) + 1 for column in zip(*highest))
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(_from(piece, starts) for piece in pieces), sizes


def _from(piece: Piece[AnyMove], starts: Sequence[int]) -> Piece[AnyMove]:
    """The piece, whose parameters begin at these places of one array."""
    move = piece.move
    if not isinstance(move, ConvertMove):
        return piece
    offsets = tuple(start + offset for start, offset in zip(starts, move.parameter_offsets))
    return piece._replace(move=dataclasses.replace(move, parameter_offsets=offsets))


class StepLaunches:
    """`PreparedSteps` of the GPU: one launch after the other on the current stream, which keeps their order."""

    def __init__(self, backend: CudaBackend, steps: Steps) -> None:
        self._backend, self._steps = backend, steps
        self._start_of_move = functools.cache(backend.start_of_move)

    def execute(self, buffer: Any, workspace: Any) -> None:
        """See `PreparedSteps.execute`.  All kernels are compiled before the first launch.

        When a CUDA graph runs, the workspace of the call that it captured may hold other arrays, so that is an error.
        """
        locate = self._backend.runtime.locate
        (buffer_address, device), (workspace_address, _) = locate(buffer), locate(workspace)
        memory = buffer_address, workspace_address
        if self._backend.is_capturing(device):
            raise BufferError(
                "a relayout in place cannot be captured in a CUDA graph, because its workspace is given back after the "
                "call: pass other memory as out"
            )
        launches = []
        for step in self._steps:
            for move, from_workspace, source, to_workspace, target in step.copies():
                addresses = memory[from_workspace] + source, memory[to_workspace] + target
                launches.append((self._start_of_move(move, *phases(move, *addresses), device), addresses))
        for start, addresses in launches:
            start(*addresses)


def phases(move: AnyMove, from_address: int, to_address: int) -> tuple[int, int]:
    """Both addresses modulo 16; 0 for an empty source, which may have no address."""
    return from_address % 16 if move.element_count else 0, to_address % 16


def _overlapping(source: Any, target: Any) -> tuple[int, int]:
    """Such arrays overlap if the distance from the source's address to the target's is between these bounds.

    Strided arrays span gaps too, and negative strides reach below the address.  8 elements of 4 bytes, 8 bytes apart,
    span 60 bytes: two such arrays overlap if their distance is between -60 and 60.
    """
    (source_low, source_high), (target_low, target_high) = (
        span(list(zip(array.shape, array.strides)), array.itemsize) for array in (source, target)
    )
    return source_low - target_high, source_high - target_low


def _nothing(*addresses: int) -> None:
    """The start of a move without places."""
