"""What each machine instruction does, for all threads of a group at once.

An operation is a function (machine, instruction, group).  It returns nothing; "wait" at a barrier; or, for branches and
exits, which of the group's lanes take them; or, for returns, the instruction at which each lane goes on.  Registers
hold unsigned numbers of 32 bits.

Meanings that are easy to get wrong, each with the place in the kernels' code where it matters:

    IMAD.HI.U32 d, a, b, c     c is a pair of registers: (a * b + c) >> 32, a division in one instruction
    IADD3 d, P, Q, a, b, c     P is the first carry, Q the second; -a is ~a + 1, so that a - b carries unless it borrows
    ISETP.GT.EX P, Q, a, b, R, S   a > b, or a == b and S: the upper half of a comparison of 64 bits
    LEA.HI d, a, b, c, s       the upper half of (c, a) << s, plus b
    LOP3.LUT P, d, a, b, c, table, Q   P is whether a bit of d is set, or Q, which is !PT unless words are joined
    SHF.R.U32.HI d, a, s, b    b >> s;  SHF.R.W.U32 d, a, s, b: the lower half of (b, a) >> s % 32
"""

import operator

import numpy as np

from tests.support.sass import arrivals, memory
from tests.support.sass.conversions import CONVERSIONS
from tests.support.sass.decode import Bits, Immediate, Predicate
from tests.support.sass.floats import FLOATS, literal
from tests.support.sass.operands import I64, MASK, U32, U64, Unknown, decide, guarded, halves, pair, read, truth, write

_LANES = 32
_INSTRUCTION_BYTES = 16


def _split(operands):
    """(predicates before the first other operand, the others, predicates after them)."""
    before, rest = [], list(operands)
    while rest and isinstance(rest[0], Predicate):
        before.append(rest.pop(0))
    after = []
    while rest and isinstance(rest[-1], Predicate):
        after.insert(0, rest.pop())
    return before, rest, after


def arithmetic(compute):
    """An operation on registers and predicates, uniform or not, from a function of operands and modifiers.

    compute   (values, modifiers, carries in) -> (words, carries out)
    """

    def operation(machine, instruction, group):
        uniform = instruction.opcode.startswith("U")
        target, (outs, sources, ins) = instruction.operands[0], _split(instruction.operands[1:])
        fetch = Fetch(machine, group, uniform, sources)
        given = [truth(machine, each, group, uniform) for each in ins]
        words, carries = compute(fetch, instruction.modifiers, given)
        for out, carry in zip(outs, carries):
            decide(machine, out, carry, instruction, group, uniform)
        write(machine, target, words, instruction, group, uniform)

    return operation


class Fetch:
    """The source operands of an instruction: `fetch(k)` is the k-th, `fetch.pair(k)` with the next register."""

    def __init__(self, machine, group, uniform, sources):
        self._given, self.sources = (machine, group, uniform), sources

    def __call__(self, k):
        machine, group, uniform = self._given
        return read(machine, self.sources[k], group, uniform)

    def pair(self, k):
        machine, group, uniform = self._given
        return pair(machine, self.sources[k], group, uniform)

    def addend(self, k):
        """A summand of 33 bits: -a is ~a + 1, whose carry counts."""
        source = self.sources[k]
        value = self(k).astype(U64)
        if getattr(source, "sign", "") == "-":
            negated_zero = getattr(source, "number", 0) is not None
            return np.where(value == 0, U64(1 << 32), value) if negated_zero else value
        return value

    def number(self, k):
        return int(self.sources[k].value)


# ---- sums and products ----------------------------------------------------------------------------------------------


def _carry(ins, k):
    return ins[k].astype(U64) if k < len(ins) else U64(0)


def _iadd3(fetch, modifiers, ins):
    total = fetch.addend(0) + fetch.addend(1) + fetch.addend(2)
    if "X" in modifiers:
        total = total + _carry(ins, 0) + _carry(ins, 1)
    over = total >> U64(32)
    return [halves(total)[0]], [over >= 1, over >= 2]


def _imad(fetch, modifiers, ins):
    if "WIDE" in modifiers or "HI" in modifiers:
        return _imad_wide(fetch, modifiers, ins)
    result = fetch(0) * fetch(1) + fetch(2)
    return [result + ins[0].astype(U32) if "X" in modifiers else result], []


def _imad_wide(fetch, modifiers, ins):
    kind = U64 if "U32" in modifiers else I64
    extend = (lambda value: value.astype(U64)) if kind is U64 else (lambda value: value.view(np.int32).astype(I64))
    product = (extend(np.asarray(fetch(0))) * extend(np.asarray(fetch(1)))).astype(U64)
    result = product + fetch.pair(2)
    over = result < product
    if "X" in modifiers:
        more = result + _carry(ins, 0)
        over, result = over | (more < result), more
    low, high = halves(result)
    return ([high] if "HI" in modifiers else [low, high]), [over]


def _lea(fetch, modifiers, ins):
    if "HI" in modifiers:
        return _lea_high(fetch, modifiers, ins)
    shifted = fetch(0) << U32(fetch.number(2))
    value = shifted.astype(U64)
    if getattr(fetch.sources[0], "sign", "") == "-":  # the register's own negative, shifted: -(a << s)
        value = np.where(value == 0, U64(1 << 32), value)
    total = value + fetch.addend(1)
    return [halves(total)[0]], [total >> U64(32) >= 1]


def _lea_high(fetch, modifiers, ins):
    if "SX32" in modifiers:
        wide = np.asarray(fetch(0)).view(np.int32).astype(I64).astype(U64)
    elif fetch.sources[0].sign:
        raise Unknown("LEA.HI of a negative")
    else:
        wide = fetch(0).astype(U64) | fetch(2).astype(U64) << U64(32)
    shift = fetch.number(2 if "SX32" in modifiers else 3)
    total = (wide << U64(shift) >> U64(32)) + fetch.addend(1) + (_carry(ins, 0) if "X" in modifiers else U64(0))
    return [halves(total)[0]], [total >> U64(32) >= 1]


def _minmax(values, modifiers, least):
    kind = U32 if "U32" in modifiers else np.int32
    a, b = (np.asarray(value).view(kind) for value in values)
    return np.where(least, np.minimum(a, b), np.maximum(a, b)).astype(kind).view(U32)


def _imnmx(fetch, modifiers, ins):
    return [_minmax((fetch(0), fetch(1)), modifiers, ins[-1])], []


def _vimnmx3(fetch, modifiers, ins):
    return [_minmax((_minmax((fetch(0), fetch(1)), modifiers, ins[-1]), fetch(2)), modifiers, ins[-1])], []


def _viaddmnmx(fetch, modifiers, ins):
    return [_minmax((fetch(0) + fetch(1), fetch(2)), modifiers, ins[-1])], []


# ---- bits -----------------------------------------------------------------------------------------------------------


def table_of_bits(values, table):
    """For each bit the one of `table` that three bits, of a, b and c, choose; a is the highest."""
    a, b, c = values
    result = a ^ a
    for number in range(8):
        if table >> number & 1:
            bits = [value if number >> place & 1 else ~value for value, place in ((a, 2), (b, 1), (c, 0))]
            result = result | (bits[0] & bits[1] & bits[2])
    return result


def _lop3(machine, instruction, group):
    uniform = instruction.opcode.startswith("U")
    outs, (target, *rest), (given,) = _split(instruction.operands)
    values = [read(machine, each, group, uniform) for each in rest[:3]]
    result = table_of_bits(values, rest[3].value)
    for out in outs:
        decide(machine, out, (result != 0) | truth(machine, given, group, uniform), instruction, group, uniform)
    write(machine, target, [result], instruction, group, uniform)


def _plop3(machine, instruction, group):
    uniform = instruction.opcode.startswith("U")
    first, second, *inputs = instruction.operands[:5]
    values = [np.asarray(truth(machine, each, group, uniform)) for each in inputs]
    results = [table_of_bits(values, each.value) for each in instruction.operands[5:]]
    for out, result in zip((first, second), results):
        decide(machine, out, result, instruction, group, uniform)


def _shf(fetch, modifiers, ins):
    low, amount, high = fetch(0), fetch(1).astype(U64), fetch(2)
    if "W" in modifiers:
        amount = amount & U64(31)
    wide = low.astype(U64) | high.astype(U64) << U64(32)
    if modifiers[0] == "L":
        moved = np.where(amount >= 64, U64(0), wide << (amount & U64(63)))
        if "HI" not in modifiers and "W" not in modifiers:
            moved = np.where(amount >= 32, U64(0), moved) if "U32" in modifiers else moved
    elif "S32" in modifiers or "S64" in modifiers:
        moved = (wide.astype(I64) >> np.minimum(amount, 63).astype(I64)).astype(U64)
    else:
        moved = np.where(amount >= 64, U64(0), wide >> (amount & U64(63)))
    return [halves(moved)[1 if "HI" in modifiers else 0]], []


def _prmt(fetch, modifiers, ins):
    if modifiers:
        raise Unknown("a mode of PRMT")
    eight, selector = fetch(0).astype(U64) | fetch(2).astype(U64) << U64(32), fetch(1)
    result = U32(0)
    for place in range(4):
        choice = (selector >> U32(4 * place) & U32(15)).astype(U64)
        byte = (eight >> (U64(8) * (choice & U64(7))) & U64(0xFF)).astype(U32)
        byte = np.where(choice & U64(8), U32(0xFF) * (byte >> U32(7)), byte)  # the sign of a byte, eight times
        result = result | byte.astype(U32) << U32(8 * place)
    return [result], []


def _first_one(fetch, modifiers, ins):
    """FLO.U32: the place of the highest bit that is set, or all ones for 0."""
    if modifiers != ("U32",):
        raise Unknown("FLO of signed numbers, or from above")
    value = np.asarray(fetch(0))
    place = np.frexp(value.astype(np.float64))[1] - 1
    return [np.where(value == 0, U32(MASK), place.astype(U32))], [value != 0]


def _select(fetch, modifiers, ins):
    return [np.where(ins[0], fetch(0), fetch(1))], []


def _move(fetch, modifiers, ins):
    return [fetch(0)], []


def _halves_of_float(machine, instruction, group):
    """HFMA2 d, -RZ, RZ, x, y: two constants of 16 bits, used to load a small number."""
    *zeros, high, low = instruction.operands[1:]
    if any(each.number is not None for each in zeros):
        raise Unknown("HFMA2 with registers")
    nans = [each.word for each in (high, low) if isinstance(each, Bits)]  # the word has both numbers
    values = [] if nans else [np.float16(literal(each)) for each in (high, low)]
    word = nans[0] if nans else int(values[0].view(np.uint16)) << 16 | int(values[1].view(np.uint16))
    write(machine, instruction.operands[0], [np.asarray(word, U32)], instruction, group)


# ---- predicates -----------------------------------------------------------------------------------------------------

_COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
_COMBINE = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}


def _isetp(machine, instruction, group):
    uniform = instruction.opcode.startswith("U")
    first, second, a, b, *ins = instruction.operands
    compare, combine = (
        instruction.modifiers[0],
        next(_COMBINE[each] for each in instruction.modifiers if each in _COMBINE),
    )
    kind = U32 if "U32" in instruction.modifiers else np.int32
    values = [np.asarray(read(machine, each, group, uniform)).view(kind) for each in (a, b)]
    given = [truth(machine, each, group, uniform) for each in ins]
    result = _COMPARE[compare](*values)
    if "EX" in instruction.modifiers:  # equal upper halves: the lower halves decide
        strict = _COMPARE[{"LE": "LT", "GE": "GT"}.get(compare, compare)](*values)
        equal = values[0] == values[1]
        result = (
            strict | given[1] if compare == "NE" else equal & given[1] if compare == "EQ" else strict | equal & given[1]
        )
    decide(machine, second, combine(~np.asarray(result), given[0]), instruction, group, uniform)
    decide(machine, first, combine(result, given[0]), instruction, group, uniform)


def _p2r(machine, instruction, group):
    target, _, source, mask = instruction.operands
    bits = sum(machine.predicates[k][group.index].astype(U32) << U32(k) for k in range(7))
    kept, chosen = U32(~mask.value & MASK), U32(mask.value & MASK)
    write(machine, target, [read(machine, source, group) & kept | bits & chosen], instruction, group)


def _r2p(machine, instruction, group):
    _, source, mask = instruction.operands
    bits = read(machine, source, group)
    for k in range(7):
        if mask.value >> k & 1:
            decide(machine, Predicate(k), (bits >> U32(k) & U32(1)).astype(bool), instruction, group)


def _to_uniform(machine, instruction, group):
    """A register of lanes that all have the same value, into a uniform one."""
    values = read(machine, instruction.operands[-1], group) + np.zeros(group.lanes.size, U32)
    row, allowed = machine.uniform[instruction.operands[0].number], guarded(machine, instruction, group)
    same = values[group.first][group.own_warp_of]
    row[group.index] = same if allowed is None else np.where(allowed, same, row[group.index])


# ---- special registers, lanes, ways ---------------------------------------------------------------------------------


def _special(machine, instruction, group):
    uniform, name = instruction.opcode == "S2UR", instruction.operands[1].text
    block = (machine.block_of[::_LANES][group.own_warps]) if uniform else machine.block_of[group.index]
    if name in ("SRZ", "SR_CgaCtaId"):
        value = np.asarray(0, U32)
    elif name == "SR_TID.X" and not uniform:
        value = machine.thread[group.index]
    elif name == "SR_LANEID" and not uniform:
        value = machine.thread[group.index] % U32(_LANES)
    elif name in ("SR_CTAID.X", "SR_CTAID.Y"):
        value = (machine.block_x if name.endswith("X") else machine.block_y)[block]
    else:
        raise Unknown(name)
    words = [value, value] if instruction.opcode == "CS2R" and "32" not in instruction.modifiers else [value]
    write(machine, instruction.operands[0], words, instruction, group, uniform)


def _vote(machine, instruction, group):
    """VOTE.ANY P, Q: whether Q holds in any lane of the warp; ALL in all of them.  VOTEU.ANY: for the warp."""
    target, source = instruction.operands
    if not isinstance(target, Predicate) or instruction.guard is not None:
        raise Unknown("a vote into a register, or of some lanes")
    join = {"ANY": np.logical_or, "ALL": np.logical_and}[instruction.modifiers[0]]
    holds = truth(machine, source, group) & np.ones(group.lanes.size, bool)
    decided = join.reduceat(holds, group.first)[group.own_warp_of]
    if target.uniform:
        machine.uniform_predicates[target.number][group.index] = decided
    else:
        decide(machine, target, decided, instruction, group)


def _shuffle(machine, instruction, group):
    """SHFL d, a, b, c with all lanes of each warp: the value of lane b, or of lane `own ^ b`."""
    target, value, lane, limit = instruction.operands[1:]
    if group.lanes.size != _LANES * group.warp_count or not isinstance(limit, Immediate) or limit.value != 31:
        raise Unknown("a shuffle of some lanes only")
    own, other = group.lanes % _LANES, read(machine, lane, group).astype(I64)
    if instruction.modifiers[0] == "IDX":
        chosen = other % _LANES + 0 * own
    elif instruction.modifiers[0] == "BFLY":
        chosen = own ^ other
    else:
        raise Unknown(instruction.modifiers[0])
    values = (read(machine, value, group) + np.zeros(group.lanes.size, U32)).reshape(-1, _LANES)
    result = np.take_along_axis(values, chosen.reshape(-1, _LANES), 1).ravel()
    decide(machine, instruction.operands[0], True, instruction, group)
    write(machine, target, [result], instruction, group)


def _branch(machine, instruction, group):
    if instruction.target is None:
        raise Unknown("a branch to somewhere else")
    taken = np.ones(group.lanes.size, bool)
    if "DIV" in instruction.modifiers or "CONV" in instruction.modifiers:
        if group.lanes.size != _LANES * group.warp_count:
            raise Unknown("warps that are apart where they should be together")
        return None if "DIV" in instruction.modifiers else taken
    if instruction.guard is not None:
        taken = taken & guarded(machine, instruction, group)
    for operand in instruction.operands:
        if not isinstance(operand, Predicate):
            raise Unknown("a branch with a register")
        taken = taken & truth(machine, operand, group)
    return taken


def _return(machine, instruction, group):
    """To the address in a register, which code set before a call; addresses count from the start of the kernel."""
    if instruction.guard is not None or instruction.modifiers[:1] != ("REL",):
        raise Unknown("a return by a predicate, or to an absolute address")
    places = read(machine, instruction.operands[0], group) + np.zeros(group.lanes.size, U32)
    return (places // U32(_INSTRUCTION_BYTES)).astype(I64)


def _exit(machine, instruction, group):
    taken = np.ones(group.lanes.size, bool)
    if instruction.guard is not None:
        taken = taken & guarded(machine, instruction, group)
    for operand in instruction.operands:  # @P EXIT Q: where both hold
        taken = taken & truth(machine, operand, group)
    return taken


def _barrier(machine, instruction, group):
    if instruction.guard is not None or instruction.operands != (Immediate(0),):
        raise Unknown("a barrier other than all threads' first")
    return "wait"


def _nothing(machine, instruction, group):
    """Convergence barriers: groups at the lowest instruction go first, so lanes meet by themselves."""


_ARITHMETIC = {
    "IADD3": _iadd3,
    "IMAD": _imad,
    "LEA": _lea,
    "SHF": _shf,
    "PRMT": _prmt,
    "FLO": _first_one,
    "SEL": _select,
    "MOV": _move,
    "IABS": lambda fetch, modifiers, ins: ([np.abs(np.asarray(fetch(0)).view(np.int32)).view(U32)], []),
    "IMNMX": _imnmx,
    "VIMNMX": _imnmx,
    "VIMNMX3": _vimnmx3,
    "VIADDMNMX": _viaddmnmx,
    "VIADD": lambda fetch, modifiers, ins: ([fetch(0) + fetch(1)], []),
}
OPERATIONS = {
    **{name: arithmetic(compute) for name, compute in _ARITHMETIC.items()},
    **{f"U{name}": arithmetic(compute) for name, compute in _ARITHMETIC.items()},
    **FLOATS,
    **CONVERSIONS,
    **{f"{prefix}LOP3": _lop3 for prefix in ("", "U")},
    **{f"{prefix}PLOP3": _plop3 for prefix in ("", "U")},
    **{f"{prefix}ISETP": _isetp for prefix in ("", "U")},
    **dict.fromkeys(("S2R", "S2UR", "CS2R"), _special),
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK", "WARPSYNC", "YIELD", "NOP", "ENDCOLLECTIVE"), _nothing),
    **dict.fromkeys(("LDC", "ULDC", "LDCU"), memory.load_constant),
    **dict.fromkeys(("LDG", "STG", "LDS", "STS", "LDL", "STL"), memory.access),
    **dict.fromkeys(("RED", "REDG"), memory.reduce),
    "LDGSTS": arrivals.begin,
    "LDGDEPBAR": arrivals.end_group,
    "DEPBAR": arrivals.wait,
    "HFMA2": _halves_of_float,
    "P2R": _p2r,
    "R2P": _r2p,
    "R2UR": _to_uniform,
    "VOTE": _vote,
    "VOTEU": _vote,
    "SHFL": _shuffle,
    "BRA": _branch,
    "CALL": _branch,  # the return address is in a register
    "RET": _return,
    "EXIT": _exit,
    "BAR": _barrier,
}
