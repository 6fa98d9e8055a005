"""What a planned launch does, and its expected speed as a range: a model with stated doubts, never a measurement.

The model's figures are known only roughly.  Each is set to both ends of what it may be, and the differences add up as
those of independent causes do: by the root of the sum of their squares.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpulayout.gpu.cost_model import LAUNCH, MEMORY, LaunchWork, predicted
from gpulayout.gpu.devices import Device, device_at_hand
from gpulayout.gpu.kernel_costs import arithmetic_instructions, copy_cost, cost_of
from gpulayout.gpu.kernel_numbers import ITEMS, LANES, THREADS
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import Requests, requests, sector_fraction

# The ends of what a figure may be, relative to the one in the table.
DOUBTS: dict[str, tuple[float, float]] = {
    "issue_use": (0.75, 1.4),
    "latency": (0.75, 1.75),  # more when memory is busy
    "step": (0.6, 1.7),  # from independent instructions to those that wait for shared memory
    "l2_rate": (0.7, 1.3),
    "row_bytes": (0.0, 2.0),  # nothing where other blocks read the neighbouring runs at the same time
    "partial": (0.2, 1.5),
    "clock": (0.8, 1.0),  # a GPU that copies all day runs below its boost clock
    "launch": (0.6, 2.0),
}
# What is left when all figures are known: the root mean square error in the simulation of tests/gpu/test_cost_model.py.
LAW_ERROR = 0.04


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
    low, middle, high = fraction(work, copy_work(work.read + work.written), device)
    prediction = predicted(work, device)
    return Estimate(
        device.name,
        min(low, 1),
        min(high, 1),
        min(middle, 1),
        (prediction.seconds * middle / high, prediction.seconds * middle / low),
        prediction.binding,
        sector_fraction(plan),
    )


def copy_work(nbytes: float) -> LaunchWork:
    """A plain copy that reads and writes as many bytes together."""
    cost, half = copy_cost(), nbytes / 2
    blocks = math.ceil(half / (16 * ITEMS * THREADS)) or 1
    issued = cost.instructions(blocks * THREADS // LANES, 1, 1, half / 512)
    sectors = half / 32
    return LaunchWork(blocks, THREADS, cost.registers, cost.shared_bytes, half, half, (sectors, sectors), 0, issued)


def fraction(work: LaunchWork, copy: LaunchWork, device: Device) -> tuple[float, float, float]:
    """(low, middle, high) of the copy's time over the launch's."""
    middle = _ratio(work, copy, device)
    down = up = LAW_ERROR**2
    for field, ends in DOUBTS.items():
        others = [device._replace(**{field: getattr(device, field) * end}) for end in ends]
        differences = [_ratio(work, copy, other) - middle for other in others]
        down += min(*differences, 0) ** 2
        up += max(*differences, 0) ** 2
    return max(middle - math.sqrt(down), middle / 10), middle, middle + math.sqrt(up)


def _ratio(work: LaunchWork, copy: LaunchWork, device: Device) -> float:
    return predicted(copy, device).seconds / predicted(work, device).seconds


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
    blocks = math.prod(plan.grid)
    traffic = [(target, written)] if source is None else [(source, read), (target, written)]
    return LaunchWork(
        blocks,
        THREADS,
        cost.registers,
        cost.shared_bytes,
        read,
        written,
        (_sectors(source, asked) if source else 0, _sectors(target, written)),
        # a run that begins where the one before ends is none
        sum((nbytes / (asking.run * asking.useful) for asking, nbytes in traffic if asking.step > asking.run), 0.0),
        instructions,
        sum(nbytes * (asking.cost(plan.kind.wasted) - 1) for asking, nbytes in traffic),
        max(1, math.ceil(asked / (blocks * THREADS) / cost.in_flight)),
    )


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


def _sectors(asking: Requests, nbytes: float) -> float:
    """Sectors that all requests of a side touch."""
    return nbytes / (asking.lanes * asking.access * asking.useful) * asking.sectors
