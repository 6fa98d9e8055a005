"""Launches of the host-compiled kernels between guard bytes: what a move wrote, and that it touched nothing else."""
import numpy as np

from gpulayout.backends.kernel_source import kernel_text
from tests.kernel_cases import BLOCK, FILES
from tests.simt import host_module

GUARD, FRESH = 0x5C, 0xA5
AROUND = 2048                # guard bytes on either side: a store that goes astray by less does not end the process


def memory(values, phase):
    """(all of it, where the values start): a copy of bytes at `phase` past a multiple of 16, between guard bytes."""
    room = np.full(values.size + 2 * AROUND + 16, GUARD, np.uint8)
    start = AROUND + (phase - room.ctypes.data - AROUND) % 16
    room[start:start + values.size] = values
    return room, start


def content(room, start, nbytes, name):
    """The bytes between the guards; AssertionError when one of those changed."""
    end = start + nbytes
    assert (room[:start] == GUARD).all() and (room[end:] == GUARD).all(), f"{name}: written outside the target"
    return room[start:end]


class Buffers:
    """The memory of one move, at the addresses that its case asks for."""

    def __init__(self, case):
        self.case = case
        before = -case.move.source_span[0], -case.move.target_span[0]
        self.source, first = memory(case.source, case.source_phase - before[0])
        self.target, self.place = memory(np.full(case.target_bytes, FRESH, np.uint8), case.target_phase - before[1])
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
        return written(case, text) != case.expected(FRESH)
    except (AssertionError, host_module.LaunchError):
        return True
