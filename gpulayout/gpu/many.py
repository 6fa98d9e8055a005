"""Lets many small moves share a few launches.  All decisions about that are made here; the kernel is kernels/many.cu.

A move is small if its bytes take little time whichever kernel moves them.  Small moves with elements of the same width
share launches, as many in each as fit the 4 KB of launch parameters.  Other moves get a launch each, and so does a
small move that has no other to share with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_numbers import ITEMS, THREADS
from gpulayout.gpu.parameters import job_struct, many_struct, with_pointers
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import AnyMove

JOBS = {2: 44, 4: 29}  # compiled number of axes -> jobs that fit the 4 KB of parameters
_MOST_AXES = max(JOBS)


class JobMove(NamedTuple):
    """A move of a list between two addresses, given modulo 16; error messages begin with its label."""

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


@dataclass(frozen=True)
class SharedLaunch:
    """One launch of several moves, complete except for the pointers; `members` are their indices in the list."""

    members: tuple[int, ...]
    macros: Macros
    grid: tuple[int, int]
    template: bytes = field(repr=False)
    file: str = "many.cu"
    kernel: str = "gpl_many"

    def parameters(self, pointers: Sequence[tuple[int, int]]) -> bytes:
        """The parameter struct with the (source, target) addresses of the members."""
        return with_pointers(self.template, dict(self.macros)["GPL_JOBS"], pointers)


@dataclass(frozen=True)
class ManyPlan:
    """The launches of a list of moves; `alone` holds the indices of the moves that get one each."""

    shared: tuple[SharedLaunch, ...]
    alone: tuple[int, ...]

    @property
    def launch_count(self) -> int:
        return len(self.shared) + len(self.alone)


def many_plan(requests: tuple[JobMove, ...]) -> ManyPlan:
    """The launches for a list of moves.  A BufferError of `kernel_plan` gets the move's label in front."""
    groups: dict[int, list[tuple[int, SmallMove]]] = {}
    alone = []
    for number, request in enumerate(requests):
        try:
            plan = kernel_plan(*request[1:])
        except BufferError as error:
            raise BufferError(f"{request.label}{error}") from None
        small = small_move(*request[1:])
        if small:
            groups.setdefault(small.element_bytes, []).append((number, small))
        elif plan:
            alone.append(number)
    shared = []
    for width, members in sorted(groups.items()):
        variant = next(axes for axes in sorted(JOBS) if axes >= max(len(small.axes) for _, small in members))
        for start in range(0, len(members), JOBS[variant]):
            part = members[start : start + JOBS[variant]]
            if len(part) == 1:
                alone.append(part[0][0])  # sharing saves no launch, and its own kernel is at least as fast
            else:
                shared.append(_launch(width, variant, part))
    return ManyPlan(tuple(shared), tuple(sorted(alone)))


def small_move(move: AnyMove, source_phase: int, target_phase: int) -> SmallMove | None:
    """The move as a job of a shared launch; None if it needs no launch, or one of its own."""
    plan = kernel_plan(move, source_phase, target_phase)
    if (
        not plan
        or isinstance(move, ConvertMove)
        or move.bytes_written > plan.kind.shared_bytes
        or len(plan.axes) > _MOST_AXES
        or plan.index_bits != 32
    ):
        return None
    # plans of tiles list the two axes of the tile first
    axes = sorted(plan.axes, key=lambda axis: (abs(axis.target_stride), axis.extent))
    return SmallMove(plan.element_bytes, tuple(axes), move.pad)


def _launch(width: int, variant: int, part: Sequence[tuple[int, SmallMove]]) -> SharedLaunch:
    *first_blocks, blocks = itertools.accumulate((small.blocks for _, small in part), initial=0)
    macros = (("GPL_ELEMENT_BYTES", width), ("GPL_INDEX_BITS", 32), ("GPL_AXES", variant), ("GPL_JOBS", JOBS[variant]))
    jobs = [job_struct(small.pad, small.total, small.axes, variant) for _, small in part]
    template = many_struct(first_blocks, jobs, JOBS[variant])
    return SharedLaunch(tuple(number for number, _ in part), macros, (blocks, 1), template)
