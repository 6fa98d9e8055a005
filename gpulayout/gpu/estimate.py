"""The expected speed of a launch as a range: a model with stated doubts, never a measurement.

The model's figures are known only roughly.  Each is set to both ends of what it may be, and the differences add up as
those of independent causes do: by the root of the sum of their squares.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpulayout.gpu.cost_model import LAUNCH, MEMORY, LaunchWork, predicted
from gpulayout.gpu.devices import Device, device_at_hand
from gpulayout.gpu.kernel_costs import copy_cost
from gpulayout.gpu.kernel_numbers import ITEMS, LANES, THREADS
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.launch_work import launch_work
from gpulayout.gpu.traffic import sector_fraction

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

    @property
    def launch_binds(self) -> bool:
        """True if starting the launch takes longer than its work."""
        return self.binding[0] == LAUNCH

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


def estimate(
    plan: KernelPlan, source_phase: int = 0, target_phase: int = 0, device: Device | None = None
) -> Estimate | None:
    """The expected speed of a launch, or None for kernels whose memory traffic or instructions are not known.

    Without a device it is that of `devices.device_at_hand`.
    """
    work = launch_work(plan, source_phase, target_phase)
    if work is None:
        return None
    device = device or device_at_hand()
    low, middle, high = fraction(work, copy_work(work.read + work.written), device)
    found = predicted(work, device)
    return Estimate(
        device.name,
        min(low, 1),
        min(high, 1),
        min(middle, 1),
        (found.seconds * middle / high, found.seconds * middle / low),
        found.binding,
        sector_fraction(plan, source_phase, target_phase),
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
        found = [_ratio(work, copy, device._replace(**{field: getattr(device, field) * end})) - middle for end in ends]
        down += min(*found, 0) ** 2
        up += max(*found, 0) ** 2
    return max(middle - math.sqrt(down), middle / 10), middle, middle + math.sqrt(up)


def _ratio(work: LaunchWork, copy: LaunchWork, device: Device) -> float:
    return predicted(copy, device).seconds / predicted(work, device).seconds


def estimate_text(found: Estimate) -> str:
    """The estimate in one line.

    >>> print(estimate_text(Estimate("H100 SXM", 0.62, 0.72, 0.67, (1e-5, 2e-5), ("instruction issue",), 0.98))[35:])
    0.62 to 0.72 of a plain copy (instruction issue binds; memory alone would allow 0.98)
    """
    words = f"model, not measured, for {found.device}:"
    if found.launch_binds:
        return f"{words} the launch takes longer than moving the bytes"
    bounds = " and ".join(found.binding[:2])
    alone = "" if found.binding == (MEMORY,) else f"; memory alone would allow {found.memory_alone:.2f}"
    verb = "binds" if len(found.binding) == 1 else "bind"
    return f"{words} {found.low:.2f} to {found.high:.2f} of a plain copy ({bounds} {verb}{alone})"
