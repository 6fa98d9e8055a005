"""Predicts how long a launch takes.  A model, never a measurement, and no plan depends on it.

The blocks of a launch are customers of a multiprocessor.  Each needs three things and waits in between:

    memory    its bytes, from a memory that all multiprocessors share; a sector that is used in part costs more, and so
              does each run that is far from the last one, because memory switches rows
    cache     its sectors, over the multiprocessor's connection to the level-2 cache
    issue     its warp instructions, one at a time
    waiting   the latency of memory, once for each time that its threads load and wait, and that of its instructions

As many blocks are resident as registers, shared memory and threads allow.  Mean value analysis (Reiser and Lavenberg
1980) says how much of the waiting of one is hidden by the work of the others.  Example: a block that needs 1705 cycles
of memory, 1724 of issue and 3100 of waiting takes 6529 alone; with 4 others beside it, one ends every 2244 cycles.  So
memory is busy for 0.76 of the time: neither bound alone explains the speed.

The end of a launch is slower: the last blocks have fewer and fewer beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.gpu.devices import Device
from gpulayout.gpu.kernel_numbers import LANES, SECTOR, THREADS

REGISTER_UNIT = 8  # registers are handed out to the threads of a warp in units of this
NEARLY = 0.75  # of the longest bound


class LaunchWork(NamedTuple):
    """What a launch does, as far as the model knows.

    blocks          of which `threads` threads each
    registers       of a thread
    shared_bytes    of a block
    read, written   bytes that are needed
    requested       sectors that are read through the connection to the level-2 cache, and that are written
    runs            runs of either side that are far from the one before
    instructions    warp instructions of the whole launch
    partial         bytes of sectors that a run does not need, as far as the cache does not keep them for another run
    waits           how often a thread waits for memory: the loads between two waits are under way together
    """

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    read: float
    written: float
    requested: tuple[float, float]
    runs: float
    instructions: float
    partial: float = 0
    waits: float = 1


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


MEMORY, CACHE, ISSUE = "memory", "the path to the cache", "instruction issue"
LATENCY, TAIL, LAUNCH = "too few bytes in flight", "too few blocks", "the launch"


def resident_blocks(registers: int, shared_bytes: int, device: Device, threads: int = THREADS) -> int:
    """The blocks of so many registers of a thread, bytes of shared memory and threads that fit a multiprocessor.

    >>> from gpulayout.gpu.devices import DEVICES
    >>> resident_blocks(48, 16384, DEVICES["V100 SXM2"])
    5
    """
    unit = -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT
    shared = max(shared_bytes + device.kept_bytes, 1)
    fits = device.registers // (unit * threads), device.shared_bytes // shared, device.threads // threads
    return max(1, min(*fits, device.blocks))


def predicted(work: LaunchWork, device: Device) -> Prediction:
    """The time of a launch on a device that does nothing else, with data that no cache holds."""
    blocks = work.blocks / device.multiprocessors  # of one multiprocessor
    together = min(resident_blocks(work.registers, work.shared_bytes, device, work.threads), math.ceil(blocks))
    wasted = work.partial * device.partial + work.runs * device.row_bytes
    held = device.l2_bytes * work.written / max(work.read + work.written, 1)  # by the cache, at the end
    moved = work.read + max(work.written - held, 0) + wasted
    share = device.bandwidth * device.efficiency / device.multiprocessors / device.clock  # bytes per cycle
    in_warp = work.instructions * LANES / work.threads / work.blocks  # instructions of one warp
    memory = moved / work.blocks / share
    cache = max(work.requested) * SECTOR / work.blocks / device.l2_rate
    issue = work.instructions / work.blocks / (device.issue_slots * device.issue_use)
    waiting = work.waits * device.latency + max(in_warp * device.step - issue, 0)
    steps = mean_values((memory, cache, issue), waiting, together)
    # Memory serves loads and stores in turn, and a block ends when its stores are under way: so the last blocks wait
    # for their loads, and at most for as many bytes of stores.
    ending = min(memory, 2 * work.read / work.blocks / share)
    begun = max(blocks - together, 0)  # blocks that begin when another one ends
    steady = begun * steps[-1]
    ends = sum(mean_values((ending, cache, issue), waiting, together)) * (blocks - begun) / together
    alone = memory + cache + issue + waiting
    cycles = {
        MEMORY: memory * blocks,
        CACHE: cache * blocks,
        ISSUE: issue * blocks,
        LATENCY: alone * blocks / together,
        TAIL: max(ends - (blocks - begun) * max(memory, cache, issue), 0),
    }
    bounds = {name: value / device.clock for name, value in cycles.items()} | {LAUNCH: device.launch}
    return Prediction((steady + ends) / device.clock + device.launch, bounds)


def mean_values(stations: Sequence[float], waiting: float, most: int) -> list[float]:
    """Cycles between the ends of two blocks, while 1, 2, ... `most` blocks are resident.

    A block needs each station for this long, and waits elsewhere.  On average it finds as many others at a station as
    are there when it is absent; stations serve one block after the other.

    >>> [round(step) for step in mean_values((1705, 1724), 3100, 5)]
    [6529, 3715, 2842, 2451, 2244]
    """
    queues = [0.0] * len(stations)
    steps = []
    for count in range(1, most + 1):
        stays = [need * (1 + queue) for need, queue in zip(stations, queues)]
        step = (sum(stays) + waiting) / count
        queues = [stay / max(step, 1e-30) for stay in stays]
        steps.append(step)
    return steps
