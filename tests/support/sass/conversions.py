"""Conversions between integers and floats in machine code, as NVIDIA's description of PTX has them (`cvt`).

To an integer: the nearest one, half to even, or the nearest one in range; nan becomes 0 (.NTZ).
To a shorter float: rounded once, half to even; nan has all ones.  .SATFINITE: what is too large becomes the largest.
"""

from typing import NamedTuple

import numpy as np

from tests.support.sass.decode import Register
from tests.support.sass.floats import F32, F64, known, put_f32, put_f64, read_f32, read_f64
from tests.support.sass.operands import I64, U32, U64, Unknown, halves, pair, read, write

_ZERO = Register(None)
_INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "SU" for bits in (8, 16, 32, 64)}


class Short(NamedTuple):
    """A float of 8 or 16 bits: bits of its mantissa, bias, and the codes of what is too large and of nan."""

    bits: int
    mantissa: int
    bias: int
    beyond: int
    nan: int


_F16, _BF16 = Short(16, 10, 15, 0x7C00, 0x7FFF), Short(16, 7, 127, 0x7F80, 0x7FFF)
_F8 = {"E4M3": Short(8, 3, 7, 0x7E, 0x7F), "E5M2": Short(8, 2, 15, 0x7B, 0x7F)}  # .SATFINITE


def short_codes(values, kind):
    """The codes of doubles in a shorter float."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 0)
    exponent = np.where(magnitude > 0, np.frexp(magnitude)[1] - 1, 1 - kind.bias)
    exponent = np.maximum(exponent, 1 - kind.bias)  # that of subnormal numbers
    units = np.rint(np.ldexp(magnitude, kind.mantissa - exponent)).astype(I64)
    codes = (exponent.astype(I64) + kind.bias - 1 << kind.mantissa) + units
    codes = np.where(np.isinf(values), kind.beyond, np.minimum(codes, kind.beyond))
    codes = codes | np.signbit(values).astype(I64) << kind.bits - 1
    return np.where(np.isnan(values), kind.nan, codes).astype(U32)


# ---- integers -------------------------------------------------------------------------------------------------------


def _part(machine, operand, group, nbytes):
    """The low bytes of a register, or those that a suffix names."""
    if not isinstance(operand, Register) or not operand.part:
        return read(machine, operand, group)
    place = 8 * int(operand.part[1]) * (2 if operand.part[0] == "H" else 1)
    if operand.sign or nbytes != (2 if operand.part[0] == "H" else 1):
        raise Unknown(f"operand {operand}")
    return read(machine, Register(operand.number, operand.uniform), group) >> U32(place)


def _integer(machine, operand, group, sign, bits):
    """The number that an operand is."""
    if bits == 64:
        word = pair(machine, operand, group)
        return word.astype(I64) if sign == "S" else word
    word = np.asarray(_part(machine, operand, group, bits // 8)).astype(U64).astype(I64) & ((1 << bits) - 1)
    return word - ((word >> bits - 1) << bits) if sign == "S" else word


def _to_float(machine, instruction, group):
    """I2F.F64.U16 d, a: the double d of the lower 16 bits of a, without a sign."""
    modifiers = known(instruction, "F32", "F64", *_INTEGERS)
    kind = next((each for each in modifiers if each in _INTEGERS), "S32")
    value = _integer(machine, instruction.operands[1], group, *_INTEGERS[kind])
    if "F64" in modifiers:
        put_f64(machine, instruction, group, value.astype(F64))
    else:
        put_f32(machine, instruction, group, value.astype(F32))


def _nearest_integer(machine, operand, instruction, group, kind):
    """The words of the integers that are next to floats."""
    sign, bits = _INTEGERS[kind]
    if "NTZ" not in instruction.modifiers or bits == 64:
        raise Unknown("a conversion to an integer in which nan is not 0")
    value = np.asarray(read_f32(machine, operand, group, "FTZ" in instruction.modifiers)).astype(F64)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "S" else (0, (1 << bits) - 1)
    value = np.clip(np.trunc(value) if "TRUNC" in instruction.modifiers else np.rint(value), low, high)
    return halves(np.where(np.isnan(value), 0, value).astype(I64).astype(U64))[0]


def _to_integer(machine, instruction, group):
    """F2I.U8.NTZ d, a: the nearest integer from 0 to 255."""
    modifiers = known(instruction, "NTZ", "FTZ", "TRUNC", *_INTEGERS)
    kind = next((each for each in modifiers if each in _INTEGERS), "S32")
    word = _nearest_integer(machine, instruction.operands[1], instruction, group, kind)
    write(machine, instruction.operands[0], [word], instruction, group)


def _to_packed_integers(machine, instruction, group):
    """F2IP.U8.F32.NTZ d, a, b, c: b in the lowest byte of d, a in the next one."""
    kind, *_ = known(instruction, "U8", "S8", "F32", "NTZ")
    target, a, b, merged = instruction.operands
    if kind not in ("U8", "S8") or merged != _ZERO:
        raise Unknown("F2IP with other types, or a register above")
    high, low = (_nearest_integer(machine, each, instruction, group, kind) & U32(0xFF) for each in (a, b))
    write(machine, target, [high << U32(8) | low], instruction, group)


# ---- floats ---------------------------------------------------------------------------------------------------------


def _to_other_float(machine, instruction, group):
    """F2F.F32.F64 d, a: from the last type to the first one."""
    target, source = known(instruction, "F16", "BF16", "F32", "F64")
    operand = instruction.operands[1]
    value = read_f64(machine, operand, group) if source == "F64" else read_f32(machine, operand, group).astype(F64)
    if source not in ("F32", "F64"):
        raise Unknown(source)
    if target == "F64":
        put_f64(machine, instruction, group, value)
    elif target == "F32":
        put_f32(machine, instruction, group, value.astype(F32))
    else:
        word = short_codes(value, _F16 if target == "F16" else _BF16)
        write(machine, instruction.operands[0], [word], instruction, group)


def _packed(machine, instruction, group):
    """F2FP.BF16.PACK_AB d, a, b: a in the upper half of d, b in the lower one; those of 8 bits in the lower half."""
    modifiers = set(
        known(instruction, "F16", "BF16", "F32", "PACK_AB", "SATFINITE", "PACK_AB_MERGE_C", "UNPACK_B", *_F8)
    )
    if "UNPACK_B" in modifiers:
        return _unpacked(machine, instruction, group)
    target, high, low, *merged = instruction.operands
    if any(each != _ZERO for each in merged):
        raise Unknown("F2FP with another register below")
    narrow = modifiers.intersection(_F8)
    if bool(narrow) != ("SATFINITE" in modifiers):
        raise Unknown("F2FP with another end of the range")
    kind = _F8[narrow.pop()] if narrow else _BF16 if "BF16" in modifiers else _F16
    upper, lower = (short_codes(read_f32(machine, each, group).astype(F64), kind) for each in (high, low))
    write(machine, target, [upper << U32(kind.bits) | lower], instruction, group)
    return None


def _unpacked(machine, instruction, group):
    """F2FP.F16.E4M3.UNPACK_B d, a: two f16 from the two lowest bytes of a."""
    if set(instruction.modifiers) != {"F16", "E4M3", "UNPACK_B"}:
        raise Unknown("an unpacked type")
    operand = instruction.operands[1]
    word = read(machine, Register(operand.number, operand.uniform), group)
    if operand.part not in ("", "H0"):
        word = word >> U32(16 if operand.part == "H1" else 8 * int(operand.part[1]))
    codes = [word >> U32(place) & U32(0xFF) for place in (0, 8)]
    low, high = (_e4m3_values()[code].astype(np.float16).view(np.uint16) for code in codes)
    low, high = (np.where(half & 0x7FFF > 0x7C00, 0x7FFF, half).astype(U32) for half in (low, high))
    write(machine, instruction.operands[0], [high << U32(16) | low], instruction, group)


def _e4m3_values():
    """The values of all codes: four bits of exponent with bias 7, three of mantissa; only all ones are nan."""
    codes = np.arange(256)
    field, fraction = codes >> 3 & 15, codes & 7
    values = np.ldexp(np.where(field > 0, 8 + fraction, fraction), np.maximum(field, 1) - 10)
    values[codes & 127 == 127] = np.nan
    return np.where(codes > 127, -values, values)


def _half_to_float(machine, instruction, group):
    """HADD2.F32 d, -RZ, a.H0_H0: the float of the f16 in one half of a."""
    target, zero, operand = instruction.operands
    if known(instruction, "F32") != ("F32",) or zero != Register(None, False, "-") or operand.part not in ("H0", "H1"):
        raise Unknown("a sum of halves")
    if operand.sign or operand.absolute:
        raise Unknown("a sum of halves with a sign")
    half = _part(machine, operand, group, 2).astype(np.uint16).view(np.float16)
    put_f32(machine, instruction, group, half.astype(F32))


def _rounded(machine, instruction, group):
    """FRND d, a: the nearest whole number, half to even, with the sign of a."""
    modifiers = known(instruction, "F64")
    if modifiers:
        put_f64(machine, instruction, group, np.rint(read_f64(machine, instruction.operands[1], group)))
    else:
        put_f32(machine, instruction, group, np.rint(read_f32(machine, instruction.operands[1], group)))


CONVERSIONS = {
    "FRND": _rounded,
    "I2F": _to_float,
    "I2FP": _to_float,
    "F2I": _to_integer,
    "F2IP": _to_packed_integers,
    "F2F": _to_other_float,
    "F2FP": _packed,
    "HADD2": _half_to_float,
}
