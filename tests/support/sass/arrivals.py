"""Asynchronous copies from global to shared memory: LDGSTS begins one, LDGDEPBAR ends a group, DEPBAR waits for groups.

A copy may arrive at any time from its beginning until its thread has waited for its group.  So shared memory holds
0xA5 from the beginning on, and the bytes from the wait on: code that reads too early reads 0xA5, and code that begins a
copy into memory that others still read takes it from them.
"""

import numpy as np

from tests.support.sass import memory, operands
from tests.support.sass.operands import Fault, Unknown


class Arrivals:
    """Copies under way, each with the number of its group among its thread's."""

    def __init__(self, threads):
        self.ended = np.zeros(threads, np.int64)  # groups that each thread has ended
        self.waiting = []  # (lanes, numbers of groups, places in shared memory, rows of bytes)

    def begin(self, lanes, places, rows):
        """Copies of lanes begin: a row of bytes for each."""
        self.waiting.append((lanes, self.ended[lanes], places, rows))

    def arrived(self, lanes, left):
        """(lanes, places, rows) of the copies in all but the last `left` groups of these lanes; they are not under way
        any more."""
        is_here = np.zeros(self.ended.size, bool)
        is_here[lanes] = True
        kept = []
        for found in self.waiting:
            ready = is_here[found[0]] & (found[1] < self.ended[found[0]] - left)
            if ready.any():
                yield tuple(part[ready] for part in (found[0], *found[2:]))
            if not ready.all():
                kept.append(tuple(part[~ready] for part in found))
        self.waiting = kept


def begin(machine, instruction, group):
    """LDGSTS [to], [from]."""
    allowed = operands.guarded(machine, instruction, group)
    lanes = group.lanes if allowed is None else group.lanes[allowed]
    if not lanes.size:
        return
    nbytes = 4 * next((memory.WORDS[each] for each in instruction.modifiers if each in memory.WORDS), 1)
    to, given = instruction.operands
    address = memory.addresses(machine, given, group, True, allowed)
    place = memory.addresses(machine, to, group, False, allowed)
    if (address % nbytes).any() or (place % nbytes).any():
        raise Fault(f"an address is no multiple of {nbytes}: {instruction.text}")
    counted = machine.counted.traffic
    counted["global read"].add(*memory.sectors(lanes, address, nbytes))
    counted["shared write"].add(*memory.cycles(lanes, place, nbytes))
    source, offset = memory.buffer_of(machine, address, nbytes, False, instruction)
    shared, size, owner = machine.own_memory("S")
    if place.min() < 0 or place.max() + nbytes > size:
        raise Fault(f"memory of {size} bytes ends before {place.max():#x}: {instruction.text}")
    span = np.arange(nbytes)
    place = (owner[lanes] * size + place)[:, None] + span
    shared[place] = 0xA5
    machine.arrivals.begin(lanes, place, source[offset[:, None] + span])
    machine.reads(lanes, nbytes)
    machine.touched(lanes, address, nbytes, True)


def end_group(machine, instruction, group):
    """LDGDEPBAR: the copies begun since the last one are a group."""
    if instruction.guard is not None:
        raise Unknown("a group that some lanes end")
    machine.arrivals.ended[group.index] += 1


def wait(machine, instruction, group):
    """DEPBAR.LE SB0, n: all but the last n groups have arrived."""
    board, left = instruction.operands
    if instruction.guard is not None or getattr(board, "text", "") != "SB0" or instruction.modifiers != ("LE",):
        raise Unknown("a wait for something else than copies")
    for lanes, places, rows in machine.arrivals.arrived(group.lanes, left.value):
        machine.own_memory("S")[0][places] = rows
        machine.under_way[lanes] -= rows.shape[1]
    for _, _, places, _ in machine.arrivals.waiting:  # to the same places, perhaps
        machine.own_memory("S")[0][places] = 0xA5
