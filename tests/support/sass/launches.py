"""Runs kernel plans in machine code, checks the bytes they write, and counts what they take.

python -m tests.support.sass        prints a table of moves
"""

import dataclasses
import functools
import math
import pathlib
import re
import struct
import tempfile

import numpy as np

from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc
from tests.support.kernel_cases import BLOCK
from tests.support.sass.decode import decoded
from tests.support.sass.machine import Counted, Launch, Machine, Memory
from tests.support.simt.record import FRESH

_SOURCE, _TARGET = 0x7F0000000000, 0x7F8000000000  # multiples of the alignment that allocators give
_AT_ONCE = 64  # blocks


@dataclasses.dataclass(frozen=True)
class Taken:
    """What a launch took, in total; `per_element` counts instructions as a device issues them, for 32 lanes each."""

    elements: int
    warps: int
    registers: int
    shared_bytes: int
    counted: Counted

    @property
    def per_element(self):
        return 32 * self.counted.issued / self.elements

    @property
    def by_lanes(self):
        """Instructions of active lanes per element: less than `per_element` where lanes are idle."""
        return self.counted.by_lanes / self.elements

    def sectors(self, side):
        """Sectors of 32 bytes that requests touch, relative to the fewest; `side` is "read" or "write"."""
        found = self.counted.traffic[f"global {side}"]
        return found.parts / found.least if found.least else 1.0

    @property
    def conflicts(self):
        """Cycles of shared memory relative to the fewest."""
        found = [self.counted.traffic[f"shared {side}"] for side in ("read", "write")]
        return sum(each.parts for each in found) / (sum(each.least for each in found) or 1)


def taken(case, architecture="sm_90", text=None):
    """Run a case of `kernel_cases` in machine code; AssertionError if it writes wrong bytes."""
    plan = case.plan
    text = text or kernel_text(plan.file)
    compiled = nvrtc.compiled(text, architecture, dict(plan.macros), plan.file)
    usage = compiled.usage[plan.kernel]
    source, target, pointers = _memories(case)
    parameters = np.array(pointers, np.uint64).tobytes() + plan.parameters
    literals = sections(compiled.cubin, rf"\.nv\.constant([1-9])\.{plan.kernel}")
    launch = Launch(architecture, plan.grid, BLOCK, parameters, usage.shared_bytes, (source, target), literals)
    counted = executed(launch, code(compiled.cubin, plan.kernel))
    written = target.data[target.address - target.origin :][: case.target_bytes]
    assert written.tobytes() == case.expected(), f"{case.name}: wrong bytes from {architecture} machine code"
    elements = math.prod(axis.extent for axis in case.move.axes)
    return Taken(elements, math.prod(plan.grid) * BLOCK // 32, usage.registers, usage.shared_bytes, counted)


def executed(launch, instructions):
    """Execute all blocks of a launch; the counts of all of them."""
    blocks, total = range(math.prod(launch.grid)), None
    for first in range(0, len(blocks), _AT_ONCE):
        counted = Machine(launch, blocks[first : first + _AT_ONCE]).run(instructions)
        total = counted if total is None else total.plus(counted)
    return total


def sections(cubin, pattern):
    """The sections of machine code, an ELF file, whose names match: {the number in the name: array of bytes}."""
    table, entry, count, names = (
        *struct.unpack_from("<Q", cubin, 0x28),
        *struct.unpack_from("<HHH", cubin, 0x3A),
    )
    rows = [struct.unpack_from("<IIQQQQ", cubin, table + k * entry) for k in range(count)]
    found = {}
    for name, _, _, _, offset, size in rows:
        start = rows[names][4] + name
        match = re.fullmatch(pattern, cubin[start : cubin.index(b"\0", start)].decode())
        if match:
            found[int(match[1])] = np.frombuffer(cubin, np.uint8, size, offset)
    return found


@functools.lru_cache(maxsize=64)
def code(cubin, kernel):
    """The decoded instructions of one kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return decoded(nvrtc.disassembled(path), kernel)


def _memories(case):
    """Source and target of a case, and the addresses that the kernel gets."""
    found, pointers = [], []
    for base, phase, span, content in (
        (_SOURCE, case.source_phase, case.move.source_span, case.source),
        (_TARGET, case.target_phase, case.move.target_span, None),
    ):
        low, high = span
        pointer = base + 2**36 + phase
        address, end = pointer + low, pointer + high
        data = np.full(-(-end // 16) * 16 - (address & ~15), FRESH, np.uint8)
        if content is not None:
            data[address & 15 : (address & 15) + high - low] = content
        found.append(Memory(address, end, data, content is None))
        pointers.append(pointer)
    return *found, pointers
