"""Loads and stores of machine code: constants, global memory and shared memory.

An access outside a buffer, to a buffer that may only be read, or at an address that is not a multiple of its size is a
Fault.  Each access counts what its warps touch:

    global   sectors of 32 bytes; 32 lanes x 4 bytes in a row, from the start of a sector on: 4
    shared   cycles: 32 banks of 4 bytes; two lanes that want different words of one bank take two cycles, lanes that
             want the same word take one.  Accesses of 8 and 16 bytes take at least 2 and 4 cycles.
"""

import numpy as np

from tests.support.sass import operands
from tests.support.sass.operands import Fault

_SECTOR, _BANKS = 32, 32
WORDS = {"64": 2, "128": 4}
_NARROW = {
    "U8": (np.uint8, np.uint32),
    "S8": (np.int8, np.int32),
    "U16": (np.uint16, np.uint32),
    "S16": (np.int16, np.int32),
}


def load_constant(machine, instruction, group):
    uniform = instruction.opcode != "LDC"
    target, source = instruction.operands
    nbytes = next((4 * WORDS[each] for each in instruction.modifiers if each in WORDS), 4)
    for name, (kind, _) in _NARROW.items():
        if name in instruction.modifiers:
            nbytes = np.dtype(kind).itemsize
    allowed = operands.guarded(machine, instruction, group, uniform)
    words = operands.constant(machine, source, group, nbytes, uniform, allowed)
    operands.write(machine, target, words, instruction, group, uniform)


def access(machine, instruction, group):
    """Loads and stores of global (G), shared (S) and local (L) memory: LDG, STS, ..."""
    allowed = operands.guarded(machine, instruction, group)
    lanes = group.lanes if allowed is None else group.lanes[allowed]
    is_store, space = instruction.opcode[:2] == "ST", instruction.opcode[2]
    is_global = space == "G"
    where, other = instruction.operands if is_store else instruction.operands[::-1]
    words = next((WORDS[each] for each in instruction.modifiers if each in WORDS), 1)
    narrow = next((_NARROW[each] for each in instruction.modifiers if each in _NARROW), None)
    if not lanes.size:
        return
    nbytes = np.dtype(narrow[0]).itemsize if narrow else 4 * words
    address = addresses(machine, where, group, is_global, allowed)
    if (address % nbytes).any():
        raise Fault(f"an address is no multiple of {nbytes}: {instruction.text}")
    if space != "L":
        count, name = (sectors, "global") if is_global else (cycles, "shared")
        machine.counted.traffic[f"{name} {'write' if is_store else 'read'}"].add(*count(lanes, address, nbytes))
        machine.touched(lanes, address, nbytes, is_global)
    if is_global:
        data, place = buffer_of(machine, address, nbytes, is_store, instruction)
    else:
        data, size, owner = machine.own_memory(space)
        if address.min() < 0 or address.max() + nbytes > size:
            raise Fault(f"memory of {size} bytes ends before {address.max():#x}: {instruction.text}")
        place = owner[lanes] * size + address
    if is_store:
        _store(machine, data, place, other, lanes, nbytes, words, narrow)
    else:
        _load(machine, data, place, other, lanes, nbytes, words, narrow)
        if is_global and other.number is not None:
            machine.loads(other.number, words, lanes, nbytes)


def reduce(machine, instruction, group):
    """RED: the smaller of the number in global memory and the lane's, both of 64 bits."""
    if instruction.modifiers[1:3] != ("MIN", "64"):
        raise operands.Unknown("a reduction")
    allowed = operands.guarded(machine, instruction, group)
    address = addresses(machine, instruction.operands[0], group, True, allowed)
    if address.size:
        data, place = buffer_of(machine, address, 8, True, instruction)
        values = operands.pair(machine, instruction.operands[1], group) + np.zeros(group.lanes.size, np.uint64)
        np.minimum.at(data.view(np.uint64), place // 8, values[... if allowed is None else allowed])


def addresses(machine, operand, group, is_global, allowed):
    address = _address(machine, operand, group, is_global)
    return (address + np.zeros(group.lanes.size, address.dtype))[... if allowed is None else allowed]


def _load(machine, data, place, target, lanes, nbytes, words, narrow):
    if target.number is None:
        return
    if narrow:
        machine.registers[target.number][lanes] = (
            data.view(narrow[0])[place // nbytes].astype(narrow[1]).view(np.uint32)
        )
        return
    found = data.view(np.uint32).reshape(-1, words)[place // nbytes]
    for k in range(words):
        machine.registers[target.number + k][lanes] = found[:, k]


def _store(machine, data, place, source, lanes, nbytes, words, narrow):
    values = [
        machine.registers[source.number + k][lanes] if source.number is not None else np.zeros(lanes.size, np.uint32)
        for k in range(words)
    ]
    if narrow:
        data.view(f"u{nbytes}")[place // nbytes] = values[0].astype(f"u{nbytes}")
    else:
        data.view(np.uint32).reshape(-1, words)[place // nbytes] = np.stack(values, axis=1)


def _address(machine, operand, group, is_global):
    total = np.zeros((), np.uint64 if is_global else np.int64)
    for register, is_wide, factor in operand.terms:
        if is_wide:
            value = operands.pair(machine, register, group)
        else:
            value = operands.read(machine, register, group).view(np.int32)
            value = value.astype(np.int64).astype(np.uint64) if is_global else value.astype(np.int64)
        total = total + (value if factor == 1 else value * value.dtype.type(factor))
    return (
        total + total.dtype.type(operand.offset) if operand.offset >= 0 else total - total.dtype.type(-operand.offset)
    )


def buffer_of(machine, address, nbytes, is_store, instruction):
    """(bytes of the buffer that holds all addresses, places in it)."""
    for memory in machine.launch.memories:
        if int(address.min()) >= memory.address and int(address.max()) + nbytes <= memory.end:
            if is_store and not memory.writable:
                raise Fault(f"a store to the source: {instruction.text}")
            return memory.data, (address - np.uint64(memory.origin)).astype(np.int64) % memory.data.size
    raise Fault(f"addresses {address.min():#x} to {address.max():#x} are outside the buffers: {instruction.text}")


def distinct(values):
    """Each value once, in order: several times as quick as np.unique, which hashes integers."""
    values = np.sort(values)
    return values[_begins(values)]


def _begins(values):
    """True at the first of neighbours that are equal."""
    begins = np.empty(values.size, bool)
    begins[:1] = True
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins


def sectors(lanes, address, nbytes):
    """(requests, bytes, sectors, fewest sectors) of one instruction; the lanes are in order."""
    warps, sector = lanes // 32, address // _SECTOR  # one sector for each lane: accesses are aligned
    touched = distinct((warps.astype(np.uint64) << np.uint64(44)) + sector - sector.min()).size
    active = np.diff(np.flatnonzero(_begins(warps)), append=warps.size)
    return len(active), nbytes * len(address), touched, (-(-active * nbytes // _SECTOR)).sum()


def cycles(lanes, address, nbytes):
    """(requests, bytes, cycles, fewest cycles) of one instruction; the lanes are in order."""
    share = max(nbytes // 4, 1)  # cycles that a full warp takes at least; each serves as many lanes as fill the banks
    part = lanes * share // _BANKS
    key = (part << 20) + address // 4
    key = distinct(key if share == 1 else np.concatenate([key + k for k in range(share)]))
    bank = np.sort((key >> 20) * _BANKS + key % _BANKS)
    place = np.flatnonzero(_begins(bank))
    banks, degree = bank[place], np.diff(place, append=bank.size)
    start = np.flatnonzero(_begins(banks // _BANKS))
    requests = np.count_nonzero(_begins(lanes // 32))
    return requests, nbytes * len(address), np.maximum.reduceat(degree, start).sum(), start.size
