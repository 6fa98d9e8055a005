"""What the cost model must know of a GPU, for a few of them and for the one at hand.

Counts, clocks and memory are those of the makers' data sheets and architecture papers (V100, A100, H100, Ada, Turing),
and of the table of limits per compute capability in the CUDA programming guide.  Figures that no data sheet has:

    efficiency   a copy reaches 0.87 to 0.90 of the peak: A100 80GB PCIe 1674 of 1935 GB/s, H100 3.03 of 3.35 TB/s,
                 H200 4.3 of 4.8 TB/s.
    launch       1.8 microseconds from an empty kernel's begin to the next one's, on an H100.

The model is for comparison and explanation only: no plan reads this table.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

_KB = 2**10


class Device(NamedTuple):
    """A GPU.

    name              as it is printed
    multiprocessors   how many there are
    clock             cycles per second, at boost
    bandwidth         peak bytes per second of the memory, reading and writing together
    shared_bytes      shared memory of a multiprocessor
    kept_bytes        shared memory that each block takes besides its own
    threads, blocks   most that are resident on a multiprocessor
    registers         32-bit registers of a multiprocessor
    efficiency        the part of the bandwidth that a plain copy reaches
    launch            seconds of a launch that does nothing
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    shared_bytes: int
    kept_bytes: int = _KB
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    efficiency: float = 0.9
    launch: float = 1.8e-6


REFERENCE = "H100 SXM"
DEVICES = {
    device.name: device
    for device in (
        Device("V100 SXM2", 80, 1.53e9, 0.9e12, 96 * _KB, 0),
        Device("A100 SXM 80GB", 108, 1.41e9, 2.039e12, 164 * _KB),
        Device("A100 PCIe 80GB", 108, 1.41e9, 1.935e12, 164 * _KB),
        Device(REFERENCE, 132, 1.98e9, 3.352e12, 228 * _KB),
        Device("H200", 132, 1.98e9, 4.8e12, 228 * _KB),
        Device("B200", 148, 1.965e9, 8.0e12, 228 * _KB),
        Device("RTX 4090", 128, 2.52e9, 1.008e12, 100 * _KB, _KB, 1536, 24),
        Device("L4", 58, 2.04e9, 0.3e12, 100 * _KB, _KB, 1536, 24),
        Device("T4", 40, 1.59e9, 0.32e12, 64 * _KB, 0, 1024, 16),
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
        shared_bytes=attributes.get("MaxSharedMemoryPerMultiprocessor", alike.shared_bytes),
        threads=attributes.get("MaxThreadsPerMultiProcessor", alike.threads),
        blocks=attributes.get("MaxBlocksPerMultiprocessor", alike.blocks),
        registers=attributes.get("MaxRegistersPerMultiprocessor", alike.registers),
    )
