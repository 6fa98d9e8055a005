"""The speed that a launch may be expected to have: some of its blocks executed, and timed on a multiprocessor.

What memory moves is more than the bytes of a launch.  The weights are a fit to what an H100 measured:

    10 bytes        for each stretch of neighbouring sectors that a block touches: f32 64 x 64 tiles lose 0.05 so
    80 bytes        for each sector that a block writes in part: the rest is read, or another block's part comes late
    0.6 of a byte   in the other half of aligned 64 bytes of which a block reads 32 only

A partial sector costs less where the block that writes the rest runs soon after; that is not seen here.
"""

import dataclasses
import math

import numpy as np

from tests.support.sass import launches
from tests.support.sass.machine import LANES, Machine
from tests.support.sass.timing import MEMORY, Chip, Multiprocessor

ROUNDS, SECTOR = 5, 32  # blocks that run for each that is resident
_RUN_BYTES, _PARTIAL_BYTES, _PAIR_PART = 10, 80, 0.6
_KEPT_BYTES = 1 << 20  # of a buffer: what addresses it matters here, not what is there


@dataclasses.dataclass(frozen=True)
class Touched:
    """What a block touches on average; each sector counts once.

    read, written   sectors
    pairs           aligned pairs of sectors of which it reads one or both
    partial         sectors that it writes in part
    runs            stretches of neighbouring sectors, of both sides
    """

    read: float
    pairs: float
    written: float
    partial: float
    runs: float

    @property
    def wasted(self):
        """Bytes that memory moves, or could move in the same time, beside those that are needed."""
        halves = 2 * SECTOR * self.pairs - SECTOR * self.read
        return _PAIR_PART * halves + _PARTIAL_BYTES * self.partial + _RUN_BYTES * self.runs


@dataclasses.dataclass(frozen=True)
class Executed:
    """Some blocks of a launch of `total`, with what the assembler reports of it."""

    program: list
    blocks: list  # for each, the steps of its warps
    total: int
    registers: int
    shared_bytes: int
    in_flight: int
    issued: float  # warp instructions of a block

    @property
    def touched(self):
        found = [_touched(self.program, block) for block in self.blocks]
        return Touched(*(sum(values) / len(found) for values in zip(*found)))

    def resident(self, device):
        """Blocks of 256 threads that fit a multiprocessor."""
        registers, shared = 256 * 8 * -(-self.registers // 8), self.shared_bytes + device.kept_bytes
        return min(device.registers // registers, device.shared_bytes // max(shared, 1), device.threads // 256)


@dataclasses.dataclass(frozen=True)
class Expected:
    """Times in cycles.

    alone      of a block that has the multiprocessor for itself
    step       from the end of a block to the next one's while all resident ones run
    memory     of the multiprocessor's share of memory, for the bytes of a block
    fraction   of a plain copy's speed
    busy       the part of the time that each station works
    """

    alone: float
    step: float
    memory: float
    fraction: float
    busy: dict

    @property
    def binds(self):
        """The station that works most, or "latency" if none works for three quarters of the time."""
        name = max(self.busy, key=self.busy.get)
        return name if self.busy[name] >= 0.75 else "latency"


def executed(record, architecture="sm_90", count=12):
    """Execute `count` blocks of a launch, evenly apart; buffers may be of any size, and no byte is compared."""
    launch, program, usage = launches.launched(record, architecture, _KEPT_BYTES)
    total = math.prod(launch.grid)
    numbers = sorted({int(total * (k + 0.5) / count) for k in range(count)})
    machine = Machine(launch, numbers, traced=True)
    counted = machine.run(program)
    warps = launch.threads // LANES
    blocks = [machine.steps_of[k * warps : (k + 1) * warps] for k in range(len(numbers))]
    issued = counted.issued / len(blocks)
    return Executed(program, blocks, total, usage.registers, usage.shared_bytes, counted.in_flight, issued)


def expected(launch, nbytes, device, chip=None):
    """The expected speed of an `Executed` launch that reads and writes so many bytes together."""
    chip, total, touched = chip or Chip(), launch.total, launch.touched
    rate = device.bandwidth * device.efficiency / device.multiprocessors / device.clock  # bytes in a cycle
    memory = (nbytes / total + touched.wasted) / rate
    chip = dataclasses.replace(chip, sector=memory / max(touched.read + touched.written, 1))
    own = math.ceil(total / device.multiprocessors)  # blocks of one multiprocessor
    resident = min(launch.resident(device), own)
    count = min(ROUNDS * resident, own)
    station = Multiprocessor(launch.program, launch.blocks, resident, chip)
    ends = station.run(count)
    all_done = max(ends[-1], station.free[MEMORY])  # the last stores too
    step = all_done / count
    if count >= 4 * resident:  # without the beginning and the end, when fewer run
        step = (ends[-1 - resident] - ends[resident - 1]) / (count - 2 * resident)
    alone = block_alone(launch, chip)
    seconds = (total / device.multiprocessors * step + alone / 2) / device.clock + device.launch
    copied = nbytes / device.bandwidth / device.efficiency + chip.latency / device.clock + device.launch
    return Expected(
        alone,
        step,
        memory,
        min(copied / seconds, 1),
        {name: cycles / all_done for name, cycles in station.busy.items()},
    )


def block_alone(launch, chip=None):
    """Cycles of a block that has the multiprocessor for itself, and memory that never is busy."""
    chip = dataclasses.replace(chip or Chip(), sector=0, begin=0)
    few = launch.blocks[:4]
    return Multiprocessor(launch.program, few, 1, chip).run(len(few))[-1] / len(few)


def _touched(program, block):
    read, written = [np.zeros(0, np.int64)], [np.zeros((2, 0), np.int64)]
    for number, touched in (step for warp in block for step in warp):
        if touched is not None and program[number].opcode.startswith("LDG"):
            read.append(touched[0])
        elif touched is not None and program[number].opcode == "STG":
            written.append(np.stack(touched))
    sectors, (places, nbytes) = np.unique(np.concatenate(read)), np.concatenate(written, axis=1)
    places, which = np.unique(places, return_inverse=True)
    partial = np.count_nonzero(np.bincount(which, nbytes) < SECTOR)
    runs = sum(1 + np.count_nonzero(np.diff(each) > 1) for each in (sectors, places) if each.size)
    return sectors.size, np.unique(sectors // 2).size, places.size, partial, runs
