"""Predicts how long a launch takes.  A model, never a measurement, and no plan depends on it.

    time = launch + start + root(longest^2 + waiting^2)

    longest   memory moves sectors, or schedulers issue warp instructions: whichever takes longer
    waiting   a block keeps its place for TURN cycles for each wait, and STEP for each instruction of a warp; as many
              are resident as registers, shared memory and threads allow
    start     the first blocks wait for a memory that is idle

So bytes in flight count: 32 KB under way on a multiprocessor for 1200 cycles are 27 bytes a cycle, and an H100's memory
reads 6.  In a kernel with a barrier a block waits twice: for its loads, then for the others and its stores.

The constants are fitted to what an H100 measured (tests/gpu/test_cost_model.py); elsewhere they are assumed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpulayout.gpu.devices import Device
from gpulayout.gpu.kernel_numbers import LANES, THREADS

TURN = 1200  # cycles from a load to its use, while memory is busy
IDLE = 0.5  # of them, while it is idle
STEP = 5  # cycles from an instruction of a warp to the next one, which mostly needs its result
SLOTS = 4  # instructions that a multiprocessor issues per cycle
RUN = 12  # bytes that memory could move while it goes on to a run that is far from the last one
CUT = 90  # the same for a sector that a block writes in part: the cache reads it, and writes it again
REGISTER_UNIT = 8  # registers are handed out to the threads of a warp in units of this
NEARLY = 0.75  # of the longest bound
MEMORY, ISSUE, LATENCY, LAUNCH = "memory", "instruction issue", "too few bytes in flight", "the launch"


class LaunchWork(NamedTuple):
    """What a launch does, as far as the model knows.

    nbytes          that must be read and written
    blocks          of 256 threads
    registers       of a thread
    shared_bytes    of a block
    sector_bytes    that memory moves: whole sectors
    runs            of either side that are far from the one before
    cuts            sectors that a block writes in part
    instructions    warp instructions of the whole launch
    waits           of a block; the loads between two waits are under way together
    """

    nbytes: float
    blocks: int
    registers: int
    shared_bytes: int
    sector_bytes: float
    runs: float
    cuts: float
    instructions: float
    waits: float


class Prediction(NamedTuple):
    """A launch's time in seconds, and the time that each bound alone would take."""

    seconds: float
    bounds: dict[str, float]

    @property
    def binding(self) -> tuple[str, ...]:
        """The bound that takes longest, then those that take nearly as long.

        >>> Prediction(9, {"memory": 7, "instruction issue": 6, "the launch": 2}).binding
        ('memory', 'instruction issue')
        """
        names = sorted(self.bounds, key=lambda name: -self.bounds[name])
        return tuple(name for name in names if self.bounds[name] >= NEARLY * self.bounds[names[0]])


def resident_blocks(registers: int, shared_bytes: int, device: Device) -> int:
    """The blocks of so many registers of a thread and bytes of shared memory that fit a multiprocessor.

    >>> from gpulayout.gpu.devices import DEVICES
    >>> resident_blocks(48, 16384, DEVICES["V100 SXM2"])
    5
    """
    unit = -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT
    shared = max(shared_bytes + device.kept_bytes, 1)
    fits = device.registers // (unit * THREADS), device.shared_bytes // shared, device.threads // THREADS
    return max(1, min(*fits, device.blocks))


def predicted(work: LaunchWork, device: Device) -> Prediction:
    """The time of a launch on a device that does nothing else, with data that no cache holds."""
    resident = resident_blocks(work.registers, work.shared_bytes, device)
    rounds = max(work.blocks / device.multiprocessors / resident, 1)
    in_warp = work.instructions * LANES / THREADS / work.blocks
    start = (IDLE * TURN * work.waits + STEP * in_warp) / device.clock
    bounds = {
        MEMORY: (work.sector_bytes + RUN * work.runs + CUT * work.cuts) / (device.bandwidth * device.efficiency),
        ISSUE: work.instructions / SLOTS / device.clock / device.multiprocessors,
        LATENCY: rounds * (TURN * work.waits + STEP * in_warp) / device.clock,
        LAUNCH: device.launch,
    }
    together = math.hypot(max(bounds[MEMORY], bounds[ISSUE]), bounds[LATENCY])
    return Prediction(device.launch + start + together, bounds)
