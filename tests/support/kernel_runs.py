"""Launches of the host-compiled kernels between guard bytes: a move must write its target and touch nothing else."""

import numpy as np

from gpulayout.gpu.kernel_source import kernel_text
from tests.support.kernel_cases import BLOCK, FILES
from tests.support.simt import host_module
from tests.support.simt.record import FRESH

# Bytes around the source and around the target.  They differ from each other, from FRESH and from the garbage in shared
# memory: a stray copy between any two of these shows up.
AROUND_SOURCE, AROUND_TARGET = 0xC3, 0x5C
ROOM = 2048  # bytes on either side: a store that misses by less does not end the process


def source_memory(values, phase):
    """(the memory, where the values start): a copy of bytes at `phase` past a multiple of 16, between AROUND_SOURCE."""
    return _memory(values, phase, AROUND_SOURCE)


def target_memory(nbytes, phase):
    """The same for a target of `nbytes` FRESH bytes, between AROUND_TARGET."""
    return _memory(np.full(nbytes, FRESH, np.uint8), phase, AROUND_TARGET)


def _memory(values, phase, around):
    room = np.full(values.size + 2 * ROOM + 16, around, np.uint8)
    start = ROOM + (phase - room.ctypes.data - ROOM) % 16
    room[start : start + values.size] = values
    return room, start


def content(room, start, nbytes, name):
    """The bytes of a target; AssertionError when one of those around it changed."""
    end = start + nbytes
    assert (room[:start] == AROUND_TARGET).all() and (room[end:] == AROUND_TARGET).all(), (
        f"{name}: written outside the target"
    )
    return room[start:end]


class Buffers:
    """The memory of one move, at the addresses of its case."""

    def __init__(self, case):
        self.case = case
        before = -case.move.source_span[0], -case.move.target_span[0]
        self.source, first = source_memory(case.source, case.source_phase - before[0])
        self.target, self.place = target_memory(case.target_bytes, case.target_phase - before[1])
        self.addresses = self.source.ctypes.data + first + before[0], self.target.ctypes.data + self.place + before[1]
        self._untouched = self.source.copy()

    def written(self):
        """The target's bytes after a launch; AssertionError when bytes around it or in the source changed."""
        assert np.array_equal(self.source, self._untouched), f"{self.case.name}: the source was written"
        return content(self.target, self.place, self.case.target_bytes, self.case.name).tobytes()


def written(case, text=None, order=host_module.ASCENDING, seed=1):
    """The target's bytes after the launch of a case; AssertionError as `Buffers.written` raises it."""
    plan, buffers = case.plan, Buffers(case)
    kernel = host_module.load(text or kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (*buffers.addresses, plan.parameters), order, seed)
    return buffers.written()


def goes_wrong(case, text):
    """True when these kernels give wrong bytes, write outside the target or end with an error."""
    try:
        return written(case, text) != case.expected()
    except (AssertionError, host_module.LaunchError):
        return True
