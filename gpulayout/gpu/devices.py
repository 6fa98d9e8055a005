"""What the cost model must know of a GPU, for a few of them and for the one at hand.

Counts, clocks, memory and caches are those of the makers' data sheets and architecture papers (V100, A100, H100, Ada,
Turing), and of the table of limits per compute capability in the CUDA programming guide.  Figures that no data sheet
has:

    latency        400 cycles on V100, A100 and H100: doi 10.1016/j.ultsonch.2023.106546, table 3, which also has the
                   bandwidth of the level-2 cache: 24, 40 and 36 bytes per cycle and multiprocessor.  Elsewhere assumed:
                   500 cycles with GDDR memory and on B200, 24 bytes.
    step           4 cycles from an arithmetic instruction to one that needs its result (same table), and some 25 to 30
                   for shared memory: 6 on average in a kernel that mostly computes addresses.
    issue_use      0.6 of the 4 slots per cycle.  The units for integer addition, logic and shifts have 64 lanes in a
                   multiprocessor (programming guide, throughput of native instructions), so code of nothing else
                   fills half of the slots; multiplications, loads and stores have units of their own.
    efficiency     a copy reaches 0.87 to 0.90 of the peak: A100 80GB PCIe 1674 of 1935 GB/s, H200 4.3 of 4.8 TB/s.
    launch         2 microseconds from an empty kernel's begin to the next one's.

The model is for comparison and explanation only: no plan reads this table.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

_KB, _MB = 2**10, 2**20


class Device(NamedTuple):
    """A GPU.

    name              as it is printed
    multiprocessors   how many there are
    clock             cycles per second, at boost
    bandwidth         peak bytes per second of the memory, reading and writing together
    l2_bytes          size of the level-2 cache
    shared_bytes      shared memory of a multiprocessor
    kept_bytes        shared memory that each block takes besides its own
    threads, blocks   most that are resident on a multiprocessor
    latency           cycles until a load from memory returns
    l2_rate           bytes per cycle between a multiprocessor and the level-2 cache, in each direction
    registers         32-bit registers of a multiprocessor
    issue_slots       warp instructions that a multiprocessor can issue per cycle: one for each of its 4 schedulers
    issue_use         the part of the slots that code which waits for nothing else fills
    step              cycles from an instruction of a warp to the next one, which mostly needs its result
    row_bytes         bytes that memory could move while it switches to the row of another run
    partial           the cost of a byte that is moved in vain, relative to what traffic.py expects
    efficiency        the part of the bandwidth that a plain copy reaches
    launch            seconds of a launch that does nothing
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    l2_bytes: int
    shared_bytes: int
    kept_bytes: int = _KB
    threads: int = 2048
    blocks: int = 32
    latency: float = 400
    l2_rate: float = 24
    registers: int = 65536
    issue_slots: float = 4
    issue_use: float = 0.6
    step: float = 6
    row_bytes: float = 12
    partial: float = 1
    efficiency: float = 0.9
    launch: float = 2e-6


REFERENCE = "H100 SXM"
DEVICES = {
    device.name: device
    for device in (
        Device("V100 SXM2", 80, 1.53e9, 0.9e12, 6 * _MB, 96 * _KB, 0),
        Device("A100 SXM 80GB", 108, 1.41e9, 2.039e12, 40 * _MB, 164 * _KB, l2_rate=40),
        Device("A100 PCIe 80GB", 108, 1.41e9, 1.935e12, 40 * _MB, 164 * _KB, l2_rate=40),
        Device(REFERENCE, 132, 1.98e9, 3.352e12, 50 * _MB, 228 * _KB, l2_rate=36),
        Device("H200", 132, 1.98e9, 4.8e12, 50 * _MB, 228 * _KB, l2_rate=36),
        Device("B200", 148, 1.965e9, 8.0e12, 126 * _MB, 228 * _KB, latency=500, l2_rate=36),
        Device("RTX 4090", 128, 2.52e9, 1.008e12, 72 * _MB, 100 * _KB, _KB, 1536, 24, latency=500),
        Device("L4", 58, 2.04e9, 0.3e12, 48 * _MB, 100 * _KB, _KB, 1536, 24, latency=500),
        Device("T4", 40, 1.59e9, 0.32e12, 4 * _MB, 64 * _KB, 0, 1024, 16, latency=500),
    )
}


def device_at_hand() -> Device:
    """The GPU that this process uses, or the reference device as long as it has used none.

    CuPy is never imported for this: a process that has not used a GPU gets the same answer on every machine.

    >>> DEVICES[REFERENCE].name
    'H100 SXM'
    """
    used = sys.modules.get("gpulayout.gpu.cupy_runtime")
    described = used.current_attributes() if used else None
    return device_of(*described) if described else DEVICES[REFERENCE]


def device_of(name: str, attributes: dict[str, Any]) -> Device:
    """A device as CUDA describes it.  What CUDA does not say is taken from a listed device of the same name, or from
    the reference.

    >>> device_of("NVIDIA H200", {"MultiProcessorCount": 132, "ClockRate": 1_980_000}).bandwidth
    4800000000000.0
    """
    words = re.findall(r"[A-Z]+\d+\w*|\d{4}\b", name)
    alike = next((device for device in DEVICES.values() if set(device.name.split()) & set(words)), DEVICES[REFERENCE])
    memory = attributes.get("MemoryClockRate", 0) * 1e3 * attributes.get("GlobalMemoryBusWidth", 0) / 8 * 2
    return alike._replace(
        name=name.removeprefix("NVIDIA "),
        multiprocessors=attributes.get("MultiProcessorCount", 0) or alike.multiprocessors,
        clock=attributes.get("ClockRate", 0) * 1e3 or alike.clock,
        bandwidth=memory or alike.bandwidth,
        l2_bytes=attributes.get("L2CacheSize", alike.l2_bytes),
        shared_bytes=attributes.get("MaxSharedMemoryPerMultiprocessor", alike.shared_bytes),
        threads=attributes.get("MaxThreadsPerMultiProcessor", alike.threads),
        blocks=attributes.get("MaxBlocksPerMultiprocessor", alike.blocks),
        registers=attributes.get("MaxRegistersPerMultiprocessor", alike.registers),
    )
