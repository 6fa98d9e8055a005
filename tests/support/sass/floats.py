"""Arithmetic of floats in machine code: IEEE 754, every operation rounded once.

Subnormal numbers are kept.  `.FTZ` makes zeros of them, on both sides, so that a test sees code that flushes.  Where a
device may choose, the harder case is taken: reciprocals flush, and FCHK sends every division that could go wrong on
its fast way, zeros included, to the slow one.

    FFMA d, a, b, c     the product of two f32 is exact in f64, and the sum is rounded to odd: so one rounding is left
    DFMA d, a, b, c     in whole numbers of any size, lane by lane
"""

import math
import operator
from fractions import Fraction

import numpy as np

from tests.support.sass.decode import Bits, Constant, Immediate, Register, Word
from tests.support.sass.operands import U32, U64, Unknown, constant, decide, halves, plain, truth, write

F32, F64 = np.float32, np.float64
_SIGN, _NAN = U32(1 << 31), U32(0x7FFFFFFF)
_ROUNDINGS = {"RM", "RP", "RZ"}


def known(instruction, *names):
    """The modifiers; Unknown if there is another one."""
    others = set(instruction.modifiers) - set(names)
    if others:
        raise Unknown(f"modifiers {sorted(others)}")
    return instruction.modifiers


# ---- operands -------------------------------------------------------------------------------------------------------


def read_f32(machine, operand, group, flush=False):
    """The float that an operand is, with its sign and as an absolute value where the code says so."""
    if isinstance(operand, Bits):
        return np.asarray(operand.word, U32).view(F32)
    value = literal(operand)
    if value is not None:
        return _flushed(np.asarray(value, F32), flush)
    if isinstance(operand, Constant):
        bits = constant(machine, operand, group, 4, False)[0]
    elif isinstance(operand, Register) and not operand.part:
        bits = np.asarray(plain(machine, operand.number, operand.uniform, group))
    else:
        raise Unknown(f"operand {operand}")
    bits = bits & ~_SIGN if operand.absolute else bits
    return _flushed((bits ^ _SIGN if operand.sign == "-" else bits).view(F32), flush)


def read_f64(machine, operand, group):
    """The double that an operand is: a pair of registers, or a constant."""
    if isinstance(operand, Bits):
        return np.asarray(operand.word << 32, U64).view(F64)
    value = literal(operand)
    if value is not None:
        return np.asarray(value, F64)
    if isinstance(operand, Constant):
        low, high = constant(machine, operand, group, 8, False)
    elif isinstance(operand, Register) and not operand.part:
        second = None if operand.number is None else operand.number + 1
        low, high = (np.asarray(plain(machine, k, operand.uniform, group)) for k in (operand.number, second))
    else:
        raise Unknown(f"operand {operand}")
    high = high & ~_SIGN if operand.absolute else high
    high = high ^ _SIGN if operand.sign == "-" else high
    return (low.astype(U64) | high.astype(U64) << U64(32)).view(F64)


def literal(operand):
    """A number in the text of an instruction, or None."""
    if isinstance(operand, Immediate):
        return float(operand.value)
    if not isinstance(operand, Word):
        return None
    return float(operand.text)


def _flushed(values, flush=True):
    """Zeros with the same sign instead of subnormal numbers."""
    return np.where(np.abs(values) < F32(2.0**-126), np.copysign(F32(0), values), values) if flush else values


def put_f32(machine, instruction, group, values):
    """Write floats to the first operand: all nans have the same bits."""
    word = np.where(np.isnan(values), _NAN, np.asarray(values, F32).view(U32))
    write(machine, instruction.operands[0], [word], instruction, group)


def put_f64(machine, instruction, group, values):
    write(machine, instruction.operands[0], halves(np.asarray(values, F64).view(U64)), instruction, group)


# ---- one rounding ---------------------------------------------------------------------------------------------------


def rounded_f32(values, rounding=None):
    """Doubles as floats: to nearest, or down (RM), up (RP) or towards zero (RZ)."""
    near = values.astype(F32)
    back = near.astype(F64)
    if rounding == "RP":
        return np.where(back < values, np.nextafter(near, F32(np.inf)), near)
    if rounding == "RM":
        return np.where(back > values, np.nextafter(near, F32(-np.inf)), near)
    return np.where(np.abs(back) > np.abs(values), np.nextafter(near, F32(0)), near) if rounding == "RZ" else near


def sum_to_odd(a, b):
    """a + b in f64, an inexact one as the neighbour whose last bit is 1: rounded further, it is rounded once.

    The exact sum lies between the nearest double and the next one on the side of the error, and one of the two is odd.
    """
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)
    is_even = total.view(U64) & U64(1) == 0
    other = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(np.isfinite(total) & (error != 0) & is_even, other, total)


def fused_f32(a, b, c, rounding=None):
    """a * b + c, rounded once."""
    total = sum_to_odd(a.astype(F64) * b.astype(F64), c.astype(F64))
    if rounding == "RM":
        is_difference = np.signbit(a) ^ np.signbit(b) ^ np.signbit(c)
        total = np.where((total == 0) & is_difference, -0.0, total)
    return rounded_f32(total, rounding)


def fused_f64(a, b, c, rounding=None):
    """a * b + c, rounded once, for single numbers: Python divides whole numbers with one rounding."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # the sign of zero
    sign = 1.0 if exact > 0 else -1.0
    try:
        near = exact.numerator / exact.denominator or sign * 0.0
    except OverflowError:
        near = sign * math.inf
    if rounding == "RP" and (near == -math.inf or math.isfinite(near) and Fraction(near) < exact):
        return math.nextafter(near, math.inf)
    return near


def _each(compute, *values):
    """A function of single numbers, for arrays."""
    values = np.broadcast_arrays(*values)
    found = [compute(*given) for given in zip(*(value.ravel().tolist() for value in values))]
    return np.array(found, F64).reshape(values[0].shape)


# ---- sums and products ----------------------------------------------------------------------------------------------


def _single(compute):
    """An operation on floats, from (values, rounding) -> values."""

    def operation(machine, instruction, group):
        modifiers = known(instruction, "FTZ", *_ROUNDINGS)
        flush, rounding = "FTZ" in modifiers, next(iter(_ROUNDINGS.intersection(modifiers)), None)
        values = [read_f32(machine, each, group, flush) for each in instruction.operands[1:]]
        put_f32(machine, instruction, group, _flushed(compute(*values, rounding), flush))

    return operation


def _double(compute):
    """An operation on doubles, from (values, rounding) -> values."""

    def operation(machine, instruction, group):
        modifiers = known(instruction, "RP")
        values = [read_f64(machine, each, group) for each in instruction.operands[1:]]
        put_f64(machine, instruction, group, compute(*values, "RP" if modifiers else None))

    return operation


def _sum_f32(a, b, rounding):
    return a + b if rounding is None else fused_f32(a, F32(1), b, rounding)


def _sum_f64(a, b, rounding):
    return a + b if rounding is None else _each(lambda x, y: fused_f64(x, 1.0, y, rounding), a, b)


def _product_f64(a, b, rounding):
    return a * b if rounding is None else _each(lambda x, y: fused_f64(x, y, math.copysign(0.0, x * y), rounding), a, b)


def _fused_f64(a, b, c, rounding):
    return _each(lambda x, y, z: fused_f64(x, y, z, rounding), a, b, c)


# ---- comparisons ----------------------------------------------------------------------------------------------------

_COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": lambda a, b: (a < b) | (a > b),
}
_COMBINE = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}


def compared(name, a, b):
    """A comparison as machine code names it: those that end in U hold for nans too."""
    is_nan = np.isnan(a) | np.isnan(b)
    if name in ("NAN", "NUM"):
        return is_nan if name == "NAN" else ~is_nan
    if name[:-1] in _COMPARE and name.endswith("U"):
        return is_nan | _COMPARE[name[:-1]](a, b)
    if name not in _COMPARE:
        raise Unknown(f"the comparison {name}")
    return _COMPARE[name](a, b)


def _set_predicate(machine, instruction, group):
    """FSETP.GT.AND P, Q, a, b, R: P is a > b and R, Q is not (a > b) and R."""
    first, second, a, b, given = instruction.operands
    name, combine = instruction.modifiers[0], _COMBINE[instruction.modifiers[-1]]
    if set(instruction.modifiers[1:-1]) - {"FTZ"}:
        raise Unknown("a mode of a comparison")
    if instruction.opcode == "DSETP":
        values = [read_f64(machine, each, group) for each in (a, b)]
    else:
        values = [read_f32(machine, each, group, "FTZ" in instruction.modifiers) for each in (a, b)]
    result, given = compared(name, *values), truth(machine, given, group)
    decide(machine, second, combine(~result, given), instruction, group)
    decide(machine, first, combine(result, given), instruction, group)


def _select(machine, instruction, group):
    known(instruction)
    _, a, b, chosen = instruction.operands
    values = [read_f32(machine, each, group).view(U32) for each in (a, b)]
    word = np.where(truth(machine, chosen, group), *values)
    write(machine, instruction.operands[0], [word], instruction, group)


def _minimum_or_maximum(machine, instruction, group):
    """FMNMX d, a, b, P: the minimum where P holds; -0 is below 0; a nan counts only with .NAN."""
    modifiers = known(instruction, "NAN", "FTZ")
    *given, least = instruction.operands[1:]
    a, b = (np.asarray(read_f32(machine, each, group, "FTZ" in modifiers)) for each in given)
    before = (a < b) | (a == b) & np.signbit(a)
    result = np.where(before == truth(machine, least, group), a, b)
    if "NAN" in modifiers:
        result = np.where(np.isnan(a) | np.isnan(b), F32(np.nan), result)
    else:
        result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))
    put_f32(machine, instruction, group, result)


# ---- division -------------------------------------------------------------------------------------------------------


def _approximate(machine, instruction, group):
    """MUFU.RCP: the nearest reciprocal.  MUFU.RCP64H: the upper word of a double's, from its upper word."""
    (name,) = instruction.modifiers
    operand = instruction.operands[1]
    if name == "RCP":
        put_f32(machine, instruction, group, _flushed(F32(1) / _flushed(read_f32(machine, operand, group))))
    elif name == "RCP64H":
        bits = np.asarray(read_f32(machine, operand, group)).view(U32)
        value = (bits.astype(U64) << U64(32)).view(F64)
        value = np.where(np.abs(value) < 2.0**-1022, np.copysign(0.0, value), value)
        result = 1 / value
        result = np.where(np.abs(result) < 2.0**-1022, np.copysign(0.0, result), result)
        write(machine, instruction.operands[0], [halves(np.asarray(result).view(U64))[1]], instruction, group)
    elif name == "RSQ" and np.isnan(read_f32(machine, operand, group)).all():  # how code makes a nan
        put_f32(machine, instruction, group, np.asarray(np.nan, F32))
    else:
        raise Unknown(name)


def _check_division(machine, instruction, group):
    """FCHK P, a, b: whether the quick way to a / b could go wrong: a zero, a special one, or near an end on the way."""
    known(instruction, "DIVIDE")
    target, a, b = instruction.operands
    bits = (np.asarray(read_f32(machine, each, group)).view(U32) for each in (a, b))
    a, b = ((each >> U32(23) & U32(255)).astype(np.int64) for each in bits)
    fine = (a > 32) & (a < 255) & (b > 1) & (b < 252) & (np.abs(a - b) < 125)
    decide(machine, target, ~fine, instruction, group)


FLOATS = {
    "FADD": _single(_sum_f32),
    "FMUL": _single(lambda a, b, rounding: rounded_f32(a.astype(F64) * b.astype(F64), rounding)),
    "FFMA": _single(fused_f32),
    "DADD": _double(_sum_f64),
    "DMUL": _double(_product_f64),
    "DFMA": _double(_fused_f64),
    "FSETP": _set_predicate,
    "DSETP": _set_predicate,
    "FSEL": _select,
    "FMNMX": _minimum_or_maximum,
    "MUFU": _approximate,
    "FCHK": _check_division,
}
