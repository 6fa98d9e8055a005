"""How many moves share few launches.  Every decision about that is made here; the kernel is kernels/many.cu.

A move is small when its bytes are soon moved whatever the kernel.  Small moves with elements of one width share
launches, as many in each as fit the 4 KB of a launch's parameters.  All others, and what would be alone, keep a launch
of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.launch import ITEMS, THREADS
from gpulayout.gpu.parameters import job_struct, many_struct, with_pointers
from gpulayout.layout.cached import cached_property
from gpulayout.moves.kinds import AnyMove
from gpulayout.moves.move import Axis

JOBS = {2: 44, 4: 29}  # number of axes compiled for -> jobs that fit 4 KB of parameters
_MOST_AXES = max(JOBS)


class Request(NamedTuple):
    """A move of a list between two addresses with these remainders modulo 16; messages begin with its label."""

    label: str
    move: AnyMove
    source_phase: int
    target_phase: int


@dataclass(frozen=True)
class SmallMove:
    """A move as a job of a shared launch; axes in elements of `element_bytes`, minor first in the target."""

    element_bytes: int
    axes: tuple[Axis, ...]
    pad: bytes

    @property
    def total(self) -> int:
        """Places of the target, in elements."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def blocks(self) -> int:
        return math.ceil(self.total / (THREADS * ITEMS))

    @cached_property
    def packed(self) -> dict[int, bytes]:
        """The job's bytes without its pointers, for each number of axes that it can be compiled for."""
        return {
            variant: job_struct(self.pad, self.total, self.axes, variant)
            for variant in JOBS
            if variant >= len(self.axes)
        }


@dataclass(frozen=True)
class SharedLaunch:
    """One launch of several moves, ready but for the pointers; `members` are their places in the list."""

    members: tuple[int, ...]
    macros: tuple[tuple[str, int], ...]
    grid: tuple[int, int]
    template: bytes = field(repr=False)
    file: str = "many.cu"
    kernel: str = "gpl_many"

    def parameters(self, pointers: Sequence[tuple[int, int]]) -> bytes:
        """The parameter struct with the (source, target) addresses of the members."""
        return with_pointers(self.template, dict(self.macros)["GPL_JOBS"], pointers)


@dataclass(frozen=True)
class ManyPlan:
    """The launches of a list of moves; `alone` are the places in the list of those that get one each."""

    shared: tuple[SharedLaunch, ...]
    alone: tuple[int, ...]

    @property
    def launch_count(self) -> int:
        return len(self.shared) + len(self.alone)


def many_plan(requests: tuple[Request, ...]) -> ManyPlan:
    """The launches for a list of moves.  BufferError as `kernel_plan` raises it, after the label of the move."""
    groups: dict[int, list[tuple[int, SmallMove]]] = {}
    alone = []
    for place, (label, *request) in enumerate(requests):
        try:
            plan = kernel_plan(*request)
        except BufferError as error:
            raise BufferError(f"{label}{error}") from None
        small = small_move(*request)
        if small:
            groups.setdefault(small.element_bytes, []).append((place, small))
        elif plan:
            alone.append(place)
    shared = []
    for width, members in sorted(groups.items()):
        variant = next(axes for axes in sorted(JOBS) if axes >= max(len(small.axes) for _, small in members))
        for start in range(0, len(members), JOBS[variant]):
            part = members[start : start + JOBS[variant]]
            if len(part) == 1:
                alone.append(part[0][0])  # no launch is saved, and its own kernel is no slower
            else:
                shared.append(_launch(width, variant, part))
    return ManyPlan(tuple(shared), tuple(sorted(alone)))


def small_move(move: AnyMove, source_phase: int, target_phase: int) -> SmallMove | None:
    """The move as a job of a shared launch; None when it needs no launch or one of its own."""
    plan = kernel_plan(move, source_phase, target_phase)
    if not plan or move.bytes_written > plan.kind.shared_bytes or len(plan.axes) > _MOST_AXES or plan.index_bits != 32:
        return None
    # tiles begin with two of their own
    axes = sorted(plan.axes, key=lambda axis: (abs(axis.target_stride), axis.extent))
    return SmallMove(plan.element_bytes, tuple(axes), move.pad)


def _launch(width: int, variant: int, part: Sequence[tuple[int, SmallMove]]) -> SharedLaunch:
    blocks, first_blocks = 0, []
    for _, small in part:
        first_blocks.append(blocks)
        blocks += small.blocks
    macros = (("GPL_ELEMENT_BYTES", width), ("GPL_INDEX_BITS", 32), ("GPL_AXES", variant), ("GPL_JOBS", JOBS[variant]))
    template = many_struct(first_blocks, [small.packed[variant] for _, small in part], JOBS[variant])
    return SharedLaunch(tuple(place for place, _ in part), macros, (blocks, 1), template)
