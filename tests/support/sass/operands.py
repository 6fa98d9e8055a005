"""Registers, constants and predicates of machine code: reading and writing them for a group of threads.

A value is an array over the group's lanes, or over its warps for a uniform instruction, or a single number.
"""

import numpy as np

from tests.support.sass.decode import Constant, Immediate, Register

U32, U64, I64 = np.uint32, np.uint64, np.int64
MASK = 0xFFFFFFFF


class Fault(Exception):
    """The code did something that a device would refuse, or that has no defined result."""


class Unknown(Exception):
    """An instruction in a form that is not implemented."""


def read(machine, operand, group, uniform=False):
    """The value of an operand."""
    if isinstance(operand, Immediate):
        return np.asarray(operand.value & MASK, U32)
    if getattr(operand, "absolute", False) or getattr(operand, "part", ""):
        raise Unknown(f"operand {operand}")
    if isinstance(operand, Constant):
        return _signed(constant(machine, operand, group, 4, uniform)[0], operand.sign)
    if not isinstance(operand, Register):
        raise Unknown(f"operand {operand}")
    return _signed(plain(machine, operand.number, operand.uniform, group, uniform), operand.sign)


def plain(machine, number, is_uniform, group, uniform=False):
    """A register as it is."""
    if number is None:
        return np.asarray(0, U32)
    if is_uniform:
        return machine.uniform[number][group.first_lanes if uniform else group.index]
    if uniform:
        raise Unknown("a uniform instruction reads a register of lanes")
    return machine.registers[number][group.index]


def pair(machine, operand, group, uniform=False):
    """Two registers as a number of 64 bits."""
    if getattr(operand, "absolute", False) or getattr(operand, "part", ""):
        raise Unknown(f"operand {operand}")
    if isinstance(operand, Register) and operand.number is not None:
        low, high = (plain(machine, operand.number + k, operand.uniform, group, uniform) for k in (0, 1))
        value = low.astype(U64) | high.astype(U64) << U64(32)
        return U64(0) - value if operand.sign == "-" else ~value if operand.sign == "~" else value
    if isinstance(operand, Constant):
        low, high = constant(machine, operand, group, 8, uniform)
        return low.astype(U64) | high.astype(U64) << U64(32)
    value = read(machine, operand, group, uniform).astype(np.int32).astype(I64).astype(U64)
    return value


def _signed(value, sign):
    return U32(0) - value if sign == "-" else ~value if sign == "~" else value


def truth(machine, operand, group, uniform=False):
    """The value of a predicate."""
    if operand.uniform:
        value = machine.uniform_predicates[operand.number][group.first_lanes if uniform else group.index]
    elif uniform:
        raise Unknown("a uniform instruction reads a predicate of lanes")
    else:
        value = machine.predicates[operand.number][group.index]
    return ~value if operand.negated else value


def guarded(machine, instruction, group, uniform=False):
    """Which lanes, or warps, the guard lets through; None for all."""
    return None if instruction.guard is None else truth(machine, instruction.guard, group, uniform)


def write(machine, operand, values, instruction, group, uniform=False):
    """Put results, one word for each register from the operand on, into registers."""
    if operand.number is None:
        return
    allowed = guarded(machine, instruction, group, uniform)
    for k, value in enumerate(values):
        row = machine.uniform[operand.number + k] if uniform else machine.registers[operand.number + k]
        _put(row, group, value, allowed, uniform)


def decide(machine, operand, value, instruction, group, uniform=False):
    """Put a result into a predicate."""
    if operand.number == 7:
        return
    row = machine.uniform_predicates[operand.number] if uniform else machine.predicates[operand.number]
    _put(row, group, value, guarded(machine, instruction, group, uniform), uniform)


def _put(row, group, value, allowed, uniform):
    if uniform:  # one value for each warp, for all its lanes in the group
        value, allowed = (each[group.own_warp_of] if np.ndim(each) else each for each in (value, allowed))
    row[group.index] = value if allowed is None else np.where(allowed, value, row[group.index])


def halves(value):
    return (value & U64(MASK)).astype(U32), (value >> U64(32)).astype(U32)


# ---- constants ------------------------------------------------------------------------------------------------------


def constant(machine, operand, group, nbytes, uniform, allowed=None):
    """The words of a constant of `nbytes` bytes; a shorter one fills the lower part of a word.

    allowed   which lanes read it; the others get anything
    """
    bank = machine.constants.get(operand.bank)
    if bank is None:
        raise Unknown(f"constant bank {operand.bank}")
    place = np.asarray(operand.offset)
    if operand.register is not None:
        place = place + read(machine, operand.register, group, uniform).view(np.int32).astype(I64)
    if allowed is not None:
        place = np.where(allowed, place, 0)
    if place.min() < 0 or place.max() + nbytes > bank.size:
        raise Fault(f"constants {place.min():#x} to {place.max():#x} are outside bank {operand.bank}")
    data = np.zeros((*place.shape, max(nbytes, 4)), np.uint8)
    data[..., :nbytes] = bank[place[..., None] + np.arange(nbytes)]
    return [data.view(U32)[..., k] for k in range(data.shape[-1] // 4)]
