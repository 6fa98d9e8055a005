"""What a planned launch does, for the cost model: bytes, sectors, runs, blocks and instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.gpu.arithmetic_costs import arithmetic_instructions
from gpulayout.gpu.cost_model import LaunchWork
from gpulayout.gpu.kernel_costs import cost_of
from gpulayout.gpu.kernel_numbers import LANES, THREADS
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import Requests, requests
from gpulayout.moves.move import Axis


def launch_work(plan: KernelPlan, source_phase: int = 0, target_phase: int = 0) -> LaunchWork | None:
    """The work of a launch between two addresses, given modulo 16; None for a kernel without figures."""
    cost = cost_of(plan)
    if cost is None or not plan.kind.is_estimated:
        return None
    source, target = requests(plan, source_phase, target_phase)
    given, made = plan.in_memory
    read = distinct_bytes(plan.axes, given) if source else 0
    written = math.prod(axis.extent for axis in plan.axes) * made
    asked = math.prod(axis.bound for axis in plan.axes) * given  # more than `read` where places share it
    blocks = math.prod(plan.grid)
    sides = [(side, nbytes) for side, nbytes in ((source, read), (target, written)) if side]
    return LaunchWork(
        blocks,
        THREADS,
        cost.registers,
        cost.shared_bytes,
        read,
        written,
        (_sectors(source, asked) if source else 0, _sectors(target, written)),
        sum(_runs(side, nbytes) for side, nbytes in sides),
        cost.instructions(*work_items(plan)) + _arithmetic(plan),
        sum(nbytes * (side.cost(plan.kind.wasted) - 1) for side, nbytes in sides),
        max(1, math.ceil(asked / (blocks * THREADS) / cost.in_flight)),
    )


def _arithmetic(plan: KernelPlan) -> float:
    """Warp instructions that compute elements on the way."""
    if plan.arithmetic is None:
        return 0
    return arithmetic_instructions(plan.arithmetic) * math.prod(axis.extent for axis in plan.axes) / LANES


def distinct_bytes(axes: Sequence[Axis], width: int) -> int:
    """Bytes of the source that are read, each counted once: an axis with stride 0 reads the same ones again."""
    return math.prod(axis.bound for axis in axes if axis.source_stride) * width


def work_items(plan: KernelPlan) -> tuple[int, float, int, float]:
    """Warps, the fraction of them in whole blocks, axes of the struct, and accesses of warps on an average side.

    Blocks at the ends of the axes of a tile are partial.
    """
    elements = math.prod(axis.extent for axis in plan.axes)
    whole = 1.0
    if plan.tile and plan.kind.in_tiles and len(plan.tile) == 2:
        for size, axis in zip(plan.tile, plan.axes):
            whole *= (axis.extent // size) / math.ceil(axis.extent / size)
    elif plan.tile and plan.kind.in_tiles:  # a box of many axes
        whole = min(1.0, elements / (math.prod(plan.grid) * math.prod(plan.tile)))
    warps = math.prod(plan.grid) * THREADS // LANES
    nbytes = elements * plan.element_bytes
    accesses = nbytes / (plan.lanes[0] * plan.reads.nbytes) + nbytes / (plan.lanes[1] * plan.vector_bytes)
    return warps, whole, dict(plan.macros)["GPL_AXES"], accesses / 2


def _sectors(side: Requests, nbytes: float) -> float:
    """Sectors that all requests of a side touch."""
    return nbytes / (side.lanes * side.access * side.useful) * side.sectors


def _runs(side: Requests, nbytes: float) -> float:
    """Runs of a side that do not begin where the one before ends."""
    return nbytes / (side.run * side.useful) if side.step > side.run else 0.0
