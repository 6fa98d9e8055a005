"""What a planned launch does, and its expected speed as a range: a model with a stated doubt, never a measurement."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpulayout.gpu.cost_model import LAUNCH, MEMORY, LaunchWork, predicted
from gpulayout.gpu.devices import Device, device_at_hand
from gpulayout.gpu.kernel_costs import Cost, arithmetic_instructions, copy_cost, cost_of
from gpulayout.gpu.kernel_numbers import ITEMS, LANES, THREADS
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import requests

# The range: what a launch takes beyond a copy is so many times what the model says, at least and at most, and either
# end is this part of a copy further out.  Nine of ten launches that the model is fitted to are within.
EXCESS, FURTHER = (0.4, 1.6), 0.04


class Estimate(NamedTuple):
    """The speed of a launch relative to a plain copy of as many bytes, and its time; modelled, not measured.

    device         name of the device
    low, high      the range of the fraction
    middle         the model's own figure
    seconds        the ends of the range of the time, if a copy is as fast as the table of devices expects
    binding        the bound that takes longest, then those that take nearly as long
    memory_alone   the fraction that memory sectors alone would allow
    """

    device: str
    low: float
    high: float
    middle: float
    seconds: tuple[float, float]
    binding: tuple[str, ...]
    memory_alone: float

    def as_json(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return {
            "measured": False,
            "device": self.device,
            "fraction_of_copy": [round(self.low, 3), round(self.high, 3)],
            "middle": round(self.middle, 3),
            "microseconds": [round(1e6 * seconds, 2) for seconds in self.seconds],
            "binds": list(self.binding),
            "memory_alone": round(self.memory_alone, 3),
        }


def estimate(plan: KernelPlan, device: Device | None = None) -> Estimate | None:
    """The expected speed of a launch between aligned addresses.

    None for kernels whose memory traffic or instructions are not known.  Without a device it is that of
    `devices.device_at_hand`.
    """
    work = launch_work(plan)
    if work is None:
        return None
    device = device or device_at_hand()
    copy, found = predicted(copy_work(work.nbytes), device), predicted(work, device)
    middle = copy.seconds / found.seconds
    low, high = ends(middle)
    return Estimate(
        device.name,
        low,
        high,
        min(middle, 1),
        (copy.seconds / high, copy.seconds / low),
        found.binding,
        min(copy.bounds[MEMORY] / found.bounds[MEMORY], 1),
    )


def copy_work(nbytes: float) -> LaunchWork:
    """A plain copy that reads and writes as many bytes together."""
    cost, half = copy_cost(), nbytes / 2
    blocks = math.ceil(half / (16 * ITEMS * THREADS)) or 1
    issued = cost.instructions(blocks * THREADS // LANES, half / 512)
    return LaunchWork(nbytes, blocks, cost.registers, cost.shared_bytes, nbytes, 0, 0, issued, 1)


def ends(middle: float) -> tuple[float, float]:
    """The range around the model's own figure.

    >>> [round(end, 2) for end in ends(0.8)], [round(end, 2) for end in ends(1.0)]
    ([0.69, 0.94], [0.96, 1.0])
    """
    excess = max(1 / middle - 1, 0)
    return 1 / (1 + EXCESS[1] * excess + FURTHER), 1 / max(1 + EXCESS[0] * excess - FURTHER, 1)


def estimate_text(speed: Estimate) -> str:
    """The estimate in one line.

    >>> print(estimate_text(Estimate("H100 SXM", 0.62, 0.72, 0.67, (1e-5, 2e-5), ("instruction issue",), 0.98))[35:])
    0.62 to 0.72 of a plain copy (instruction issue binds; memory alone would allow 0.98)
    """
    words = f"model, not measured, for {speed.device}:"
    if speed.binding[0] == LAUNCH:
        return f"{words} the launch takes longer than moving the bytes"
    bounds = " and ".join(speed.binding[:2])
    alone = "" if speed.binding == (MEMORY,) else f"; memory alone would allow {speed.memory_alone:.2f}"
    verb = "binds" if len(speed.binding) == 1 else "bind"
    return f"{words} {speed.low:.2f} to {speed.high:.2f} of a plain copy ({bounds} {verb}{alone})"


# ---- what a launch does ----------------------------------------------------------------------------------


def launch_work(plan: KernelPlan) -> LaunchWork | None:
    """The work of a launch between aligned addresses; None for a kernel without figures."""
    cost = cost_of(plan)
    if cost is None or not plan.kind.is_estimated:
        return None
    source, target = requests(plan)
    (read_width, written_width), elements = plan.in_memory, math.prod(axis.extent for axis in plan.axes)
    asked, written = math.prod(axis.bound for axis in plan.axes) * read_width, elements * written_width
    # an axis with stride 0 reads the same bytes again
    read = math.prod(axis.bound for axis in plan.axes if axis.source_stride) * read_width if source else 0
    instructions = cost.instructions(*work_items(plan))
    if plan.arithmetic:
        instructions += arithmetic_instructions(plan.arithmetic) * elements / LANES
    sectors, runs, cuts = target.traffic(written)
    read_sectors, read_runs, _ = source.traffic(read) if source else (0, 0, 0)
    return LaunchWork(
        read + written,
        math.prod(plan.grid),
        cost.registers,
        cost.shared_bytes,
        read_sectors + sectors,
        read_runs + runs,
        cuts,
        instructions,
        _waits(plan, cost, asked / math.prod(plan.grid)),
    )


def _waits(plan: KernelPlan, cost: Cost, asked: float) -> float:
    """How often a block waits that reads so many bytes, in boxes if its tile has many axes; twice at a barrier.

    A thread has the same bytes under way in each lane that reads, and no more are under way than a box has.
    """
    box = asked
    if plan.kind.in_tiles and plan.tile and len(plan.tile) > 2:
        box = min(asked, math.prod(plan.tile) * plan.in_memory[0])
    at_once = THREADS * cost.in_flight * plan.lanes[0] / LANES
    return (1 + plan.kind.in_tiles) * max(1, asked / max(box, 1)) * max(1, math.ceil(box / max(at_once, 1)))


def work_items(plan: KernelPlan) -> tuple[int, float]:
    """Warps, and accesses of warps on an average side."""
    nbytes = math.prod(axis.extent for axis in plan.axes) * plan.element_bytes
    accesses = nbytes / (plan.lanes[0] * plan.reads.nbytes) + nbytes / (plan.lanes[1] * plan.vector_bytes)
    return math.prod(plan.grid) * THREADS // LANES, accesses / 2
