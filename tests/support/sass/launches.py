"""Runs recorded launches in machine code, and counts what they take.

A `Record` of the host shim (tests/support/simt/record.py) runs here as it runs there: the same text, macros and
buffers, but compiled by NVRTC for a device and executed instruction by instruction.
"""

import dataclasses
import functools
import math
import re
import struct

import numpy as np

from tests.support import nvrtc
from tests.support.sass.decode import decoded
from tests.support.sass.machine import Counted, Launch, Machine, Memory
from tests.support.simt.record import Buffer, Struct
from tests.support.simt.source_text import three

_FIRST, _APART = 0x7F0000000000, 1 << 36  # address of the first buffer, and from one to the next
_AT_ONCE = 64  # blocks
_PARAMETER = 0x17  # the attribute of a parameter's place in `.nv.info`


@dataclasses.dataclass(frozen=True)
class Run:
    """What a launch wrote, as a `Result` of the host shim has it, and what it took."""

    buffers: list
    registers: int
    shared_bytes: int
    counted: Counted


@dataclasses.dataclass(frozen=True)
class Taken:
    """What a move took, in total; `per_element` counts instructions as a device issues them, for 32 lanes each."""

    elements: int
    run: Run

    @property
    def counted(self):
        return self.run.counted

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
    found = run(case.record(text), architecture)
    assert found.buffers[1] == case.expected(), f"{case.name}: wrong bytes from {architecture} machine code"
    return Taken(math.prod(axis.extent for axis in case.move.axes), found)


def per_element(case, architecture="sm_90", every=1):
    """Executed instructions per element of a case, from every so many blocks; they write, but nothing compares it."""
    blocks = math.prod(case.plan.grid)
    issued = run(case.record(), architecture, every).counted.issued / len(range(0, blocks, every)) * blocks
    return 32 * issued / math.prod(axis.extent for axis in case.move.axes)


def run(record, architecture="sm_90", every=1):
    """Execute a record, or every so many of its blocks.

    Fault if it accesses memory outside its buffers, or does what the interpreter does not know.
    """
    launch, instructions, usage = launched(record, architecture)
    counted = executed(launch, instructions, every)
    buffers = [
        memory.data[memory.address - memory.origin :][: memory.end - memory.address] for memory in launch.memories
    ]
    return Run([buffer.tobytes() for buffer in buffers], usage.registers, usage.shared_bytes, counted)


def launched(record, architecture="sm_90", most=None):
    """(launch, instructions, usage) of a record; with `most`, buffers keep that many bytes only, used over and over."""
    compiled = nvrtc.compiled(record.text, architecture, record.macros)
    cubin, usage, memories = compiled.cubin, compiled.usage[record.kernel], []
    values = [_passed(argument, memories, most) for argument in record.arguments]
    launch = Launch(
        architecture,
        three(record.grid),
        math.prod(three(record.block)),
        _placed(values, parameter_places(cubin, record.kernel)),
        usage.shared_bytes,
        tuple(memories),
        {int(name[1]): data for name, data in sections(cubin, rf"\.nv\.constant([1-9])\.{record.kernel}")},
    )
    return launch, code(cubin, record.kernel), usage


def prepare(records, architecture="sm_90"):
    """Compile records and disassemble their machine code together, which takes less time than one by one."""
    nvrtc.disassemble([nvrtc.compiled(record.text, architecture, record.macros).cubin for record in records])


def executed(launch, instructions, every=1):
    """Execute all blocks of a launch, or every so many; the counts of all of them."""
    blocks, total = range(0, math.prod(launch.grid), every), None
    for first in range(0, len(blocks), _AT_ONCE):
        counted = Machine(launch, blocks[first : first + _AT_ONCE]).run(instructions)
        total = counted if total is None else total.plus(counted)
    return total


@functools.lru_cache(maxsize=64)
def code(cubin, kernel):
    """The decoded instructions of one kernel."""
    ((_, words),) = sections(cubin, rf"\.text\.{kernel}")
    return decoded(nvrtc.disassembled(cubin), kernel, words.view(np.uint32))


def _passed(argument, memories, most=None):
    """The bytes of an argument; a buffer's memory joins `memories`."""
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, Struct):
        return _passed(argument.buffer, memories, most) + argument.content[8:]
    if not isinstance(argument, Buffer):
        return struct.pack("<q" if argument < 0 else "<Q", argument)
    address = _FIRST + _APART * len(memories) + argument.phase
    end = address + argument.nbytes
    data = np.zeros(most or -(-end // 16) * 16 - (address & ~15), np.uint8)
    if most is None:
        data[address & 15 : (address & 15) + argument.nbytes] = np.frombuffer(argument.initial(), np.uint8)
    memories.append(Memory(address, end, data, argument.writable))
    return struct.pack("<Q", address + argument.offset)


def _placed(values, places):
    """The parameters of a launch, each at its place."""
    result = bytearray(max(place + size for place, size in places))
    for value, (place, size) in zip(values, places, strict=True):
        assert len(value) in (size, 8), "a parameter of another size"  # a number may be narrower than 8 bytes
        result[place : place + size] = value[:size]
    return bytes(result)


# ---- machine code as a file in ELF format ---------------------------------------------------------------------------


def sections(cubin, pattern):
    """The sections of machine code whose names match, as (match, array of bytes)."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", cubin, table + k * entry) for k in range(count)]
    for name, _, _, _, offset, size in rows:
        start = rows[names][4] + name
        match = re.fullmatch(pattern, cubin[start : cubin.index(b"\0", start)].decode())
        if match:
            yield match, np.frombuffer(cubin, np.uint8, size, offset)


def parameter_places(cubin, kernel):
    """(offset, bytes) of each parameter of a kernel, in order."""
    ((_, data),) = sections(cubin, rf"\.nv\.info\.{kernel}")
    data, place, found = data.tobytes(), 0, {}
    while place < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, place)
        if attribute == _PARAMETER:
            _, number, offset, flags = struct.unpack_from("<IHHI", data, place + 4)
            found[number] = offset, flags >> 18
        place += 4 + (size if form == 4 else 0)
    return [found[number] for number in range(len(found))]
