"""Estimates the memory traffic of a launch: sectors per request on both sides, and what memory moves for them.

Memory is accessed in sectors of 32 bytes.  The 32 lanes of a warp make one request together; an ideal request touches
only as many sectors as its bytes fill.  A run is a stretch of memory that neighbouring lanes access in order.

    32 lanes x 4 bytes, runs of 128 bytes that start anywhere: 4.9 sectors on average, 4 at best
    32 lanes x 4 bytes, far apart:                            32 sectors

These are estimates from the plan, without a GPU; cost_model.py makes times of them.  tests/gpu/test_traffic.py compares
the sectors with those counted in the kernels' own accesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.gpu.element_width import SOURCE, TARGET
from gpulayout.gpu.kernel_numbers import LANES, SECTOR
from gpulayout.gpu.launch import Access, KernelPlan


class Requests(NamedTuple):
    """The requests of one side, in bytes.

    access   size of one lane's access
    run      length of a run
    start    every run starts at a multiple of this, a power of two up to a sector
    step     from the start of one run to the start of the next
    lanes    number of lanes that share a request
    span     from the sector in which the side's memory begins to its end
    useful   the fraction of the requested bytes that is needed
    """

    access: int
    run: int
    start: int
    step: int
    lanes: int = LANES
    span: int = 1 << 62
    useful: float = 1

    @property
    def ideal(self) -> float:
        """Sectors that the bytes of a request would fill."""
        return math.ceil(self.lanes * self.access * self.useful / SECTOR)

    @property
    def sectors(self) -> float:
        """Sectors that a request touches, averaged over the places where its runs may start.

        >>> Requests(4, 128, 4, 1000).sectors, Requests(16, 4096, 16, 8000).sectors, Requests(4, 4, 4, 1000).sectors
        (4.875, 16.5, 32.0)

        Runs that are close together share sectors.  12 bytes in every 16:
        >>> Requests(4, 12, 4, 16).sectors
        6.333333333333333
        """
        asked, starts = self.lanes * self.access, range(0, SECTOR, self.start)
        # a request that begins inside a sector touches one that the request before touches too
        unit = math.gcd(asked, self.run)
        places = range(0, min(self.run, 64 * unit), unit)
        cut = [place > 0 and (start + place) % SECTOR > 0 for start in starts for place in places]
        apart = asked / self.run * self.of_run[0] + sum(cut) / len(cut)
        together = asked / self.run * self.step / SECTOR + 1 if self.run < asked else apart
        most = self.lanes * -(-self.access // SECTOR) if self.start >= self.access else math.inf
        return max(min(apart, together, math.ceil(self.span / SECTOR), most), self.ideal)

    @property
    def of_run(self) -> tuple[float, float]:
        """Sectors that a run touches, and those of them that it does not fill; averages too.

        >>> Requests(4, 100, 4, 1000).of_run
        (4.0, 1.75)
        """
        ends = [(start, start + self.run) for start in range(0, SECTOR, self.start)]
        touched = sum(-(-end // SECTOR) for _, end in ends)
        full = sum(max(end // SECTOR - (start > 0), 0) for start, end in ends)
        return touched / len(ends), (touched - full) / len(ends)

    def traffic(self, nbytes: float) -> tuple[float, float, float]:
        """What memory moves for so many bytes that are needed: bytes of whole sectors, runs that are far from the one
        before, and sectors that these do not fill.

        The cache keeps a sector that two runs share, so memory moves no more than the whole span.  Runs less than a
        sector apart are not far.

        >>> Requests(4, 100, 4, 1000).traffic(1000), Requests(4, 12, 4, 16, span=16000).traffic(12000)
        ((1280.0, 10.0, 17.5), (16000, 0, 0))
        """
        whole = nbytes / self.useful
        if self.step <= self.run:
            return whole, 0, 0
        runs, (touched, cut) = whole / self.run, self.of_run
        moved = max(whole, min(runs * touched * SECTOR, self.span))
        return (moved, runs, runs * cut) if self.step - self.run >= SECTOR else (moved, 0, 0)


def requests(plan: KernelPlan, source_phase: int = 0, target_phase: int = 0) -> tuple[Requests | None, Requests]:
    """The requests of both sides, for addresses given modulo 16; None for a source that is not read.

    An address that is a multiple of 16 counts as a multiple of 32, since that is what allocators return.
    """
    reads = all(axis.bound for axis in plan.axes)
    return _requests(plan, SOURCE, source_phase) if reads else None, _requests(plan, TARGET, target_phase)


def _requests(plan: KernelPlan, side: int, phase: int) -> Requests:
    width, strides = plan.in_memory[side], [axis[2 + side] for axis in plan.axes]
    sizes = [axis.bound if side == SOURCE else axis.extent for axis in plan.axes]
    access, useful = plan.reads if side == SOURCE else Access(plan.vector_bytes)
    access = access * width // plan.element_bytes
    if plan.runs:
        run = plan.runs[side]
        steps = [abs(stride) for stride in strides if abs(stride) >= run]
        steps += [run] * (run < math.prod(sizes))
    else:
        run, steps = _run(plan, sizes, strides, side)
    start = math.gcd(SECTOR, phase, *(step * width for step in steps))
    if -1 in strides:  # a reversed run ends where the buffer begins
        start = width
    if plan.kind.in_vectors or access > width:  # accesses are aligned even if runs are not
        start = max(start, min(access, SECTOR))
    if side == TARGET:
        start = max(start, dict(plan.macros).get("GPL_ALIGN", 1))
    lanes = min(plan.lanes[side], math.ceil(math.prod(sizes) * width / access))
    run_bytes = run * width
    if not steps:  # a single run: every request but the last is full
        run_bytes = -(-run_bytes // (lanes * access)) * lanes * access
    span = phase + (1 + sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides))) * width
    following = next((abs(step) * width for step in steps if step), run_bytes)
    return Requests(access, run_bytes, start, following, lanes, span, useful)


def _run(plan: KernelPlan, sizes: Sequence[int], strides: Sequence[int], side: int) -> tuple[int, list[int]]:
    """The elements of a run, and the distances between starts of runs, that of the next one first."""
    # the axes in the order in which lanes follow them, and how far each reaches in one block
    block = [axis.extent for axis in plan.axes]
    order: Sequence[int] = range(len(block))
    if plan.kind.in_tiles and plan.tile:
        order = (1, 0) if side == SOURCE else (0, 1)
        block = [min(size, extent) for size, extent in zip(plan.tile, block)] + [1] * (len(block) - 2)
    run = 1
    steps: list[int] = []
    inside: set[int] = set()
    for k in order:
        if abs(strides[k]) != run:
            break
        inside.add(k)
        size = min(sizes[k], block[k])
        run *= size
        if size < plan.axes[k].extent:
            steps.append(run)  # the axis is cut or padded, so the run ends
            break
    others = [k for k in (*order, *range(len(plan.axes))) if k not in inside]
    return run, [*(strides[k] for k in dict.fromkeys(others)), *steps]
