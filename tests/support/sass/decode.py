"""Machine code as nvdisasm prints it, decoded: instructions with their guards, operands and branch targets."""

import dataclasses
import functools
import re

_INSTRUCTION = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][A-Z0-9]*)((?:\.\w+)*)\s*([^;]*?)\s*;"
)
_LABEL = re.compile(r"^(\.L_\w+|\$[\w$]+):")
_REGISTER = re.compile(r"^([-~]?)(\|?)(U?R)(\d+|Z)((?:\.\w+)*)\|?((?:\.\w+)*)$")
_PREDICATE = re.compile(r"^(!?)(U?P)(\d|T)$")
_CONSTANT = re.compile(r"^([-~]?)(\|?)c\[(0x[0-9a-f]+)\]\[(?:(U?R)(\d+)\+?)?(-?0x[0-9a-f]+)?\]\|?$")
_ADDRESS = re.compile(r"^(?:desc\[UR\d+\])?\[([^\]]*)\]$")
_TERM = re.compile(r"^(U?R)(\d+|Z)((?:\.\w+)*)$")
_INTEGER = re.compile(r"^-?0x[0-9a-f]+$|^-?\d+$")
_PARTS = {**{name: name for name in ("B0", "B1", "B2", "B3", "H0", "H1")}, "H0_H0": "H0", "H1_H1": "H1"}
_TARGET = re.compile(r"`\((\S+)\)")


class DecodeError(Exception):
    """The disassembler printed something that the decoder does not know."""


@dataclasses.dataclass(frozen=True)
class Register:
    """A register of a lane, or a uniform one of a warp; `number` is None for the one that is always zero."""

    number: int | None
    uniform: bool = False
    sign: str = ""  # "-", "~" or nothing
    absolute: bool = False  # the absolute value of a float; the sign comes after it
    part: str = ""  # "B1" for its second byte, "H0" for its lower half


@dataclasses.dataclass(frozen=True)
class Predicate:
    number: int  # 7 is always true
    uniform: bool = False
    negated: bool = False


@dataclasses.dataclass(frozen=True)
class Immediate:
    value: int


@dataclasses.dataclass(frozen=True)
class Constant:
    """A place in a constant bank: an offset, plus a register if there is one."""

    bank: int
    offset: int
    register: Register | None = None
    sign: str = ""
    absolute: bool = False


@dataclasses.dataclass(frozen=True)
class Address:
    """A sum of registers, each (register, is 64 bits wide, factor), and an offset in bytes."""

    terms: tuple
    offset: int


@dataclasses.dataclass(frozen=True)
class Word:
    """Anything else: the name of a special register or of a convergence barrier, or a number with a fraction."""

    text: str


@dataclasses.dataclass(frozen=True)
class Bits:
    """A number of an instruction that is printed as a nan, which leaves its bits open: half of a double may look so."""

    word: int


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction; `target` is the instruction that it branches to, `touched` are the registers that it names.

    control   the bits that tell the scheduler when it may issue the next one (timing.py)
    """

    number: int
    opcode: str
    modifiers: tuple
    guard: Predicate | None
    operands: tuple
    target: int | None
    text: str
    touched: tuple
    control: int = 0


def decoded(text, kernel, words):
    """The instructions of one kernel from the disassembler's text.

    words    the machine code, four words of 32 bits for each instruction; the second one has a number that it contains
    """
    body = re.search(rf"^\.text\.{re.escape(kernel)}:\n(.*?)(?=^//-----|\Z)", text, re.DOTALL | re.MULTILINE)[1]
    labels, found = {}, []
    for line in body.splitlines():
        label, instruction = _LABEL.match(line), _INSTRUCTION.match(line)
        if label:
            labels[label[1]] = len(found)
        if instruction:
            if int(instruction[1], 16) != 16 * len(found):
                raise DecodeError(f"an instruction is missing before: {line.strip()}")
            found.append(instruction)
    return [_instruction(number, match, labels, words[4 * number :]) for number, match in enumerate(found)]


def _instruction(number, match, labels, words):
    _, negated, guard, opcode, modifiers, operands = match.groups()
    target = _TARGET.search(operands)
    operands, modifiers = _TARGET.sub("", operands).replace(".reuse", ""), tuple(modifiers.split(".")[1:])
    parts = [part.strip() for part in re.split(r",\s*(?![^\[]*\])", operands)]
    return Instruction(
        number,
        opcode,
        modifiers,
        _predicate(_PREDICATE.match(negated + guard)) if guard else None,
        tuple(Bits(int(words[1])) if part.endswith("NAN") else _operand(part) for part in parts if part),
        labels.get(target[1]) if target else None,
        match[0].split("*/", 1)[1].strip(),
        _touched(opcode, modifiers, operands),
        int(words[3]) >> 9 & 0x1FFFFF,
    )


@functools.cache  # an operand stands in many instructions, and an instruction in many kernels
def _touched(opcode, modifiers, operands):
    """The numbers of the registers of lanes that an instruction names, all words of those that are stored."""
    doubles = opcode in ("DADD", "DMUL", "DFMA", "DSETP")
    named = [(int(number), 2 if wide or doubles else 1) for number, wide in re.findall(r"\bR(\d+)\b(\.64)?", operands)]
    if named and opcode in ("STS", "STG", "STL"):
        named[-1] = named[-1][0], 4 if "128" in modifiers else 2 if "64" in modifiers else 1
    return tuple({first + k for first, count in named for k in range(count)})


@functools.cache
def _operand(text):
    if match := _REGISTER.match(text):
        return _register(match)
    if match := _PREDICATE.match(text):
        return _predicate(match)
    if _INTEGER.match(text):
        return Immediate(int(text, 0))
    if match := _CONSTANT.match(text):
        sign, absolute, bank, file, register, offset = match.groups()
        base = Register(int(register), file == "UR") if register else None
        return Constant(int(bank, 16), int(offset or "0", 16), base, sign, bool(absolute))
    if match := _ADDRESS.match(text):
        return _address(match[1])
    return Word(text)


def _register(match):
    sign, absolute, file, number, *suffixes = match.groups()
    part = "".join(suffixes).lstrip(".")
    if part and part not in _PARTS:
        raise DecodeError(f"a register with a suffix: {match[0]}")
    return Register(None if number == "Z" else int(number), file == "UR", sign, bool(absolute), _PARTS.get(part, ""))


def _predicate(match):
    negated, file, number = match.groups()
    return Predicate(7 if number == "T" else int(number), file == "UP", negated == "!")


def _address(text):
    terms, offset = [], 0
    for part in filter(None, text.replace("+-", "+ -").split("+")):
        part = part.strip()
        if _INTEGER.match(part):
            offset += int(part, 0)
            continue
        match = _TERM.match(part)
        if not match:
            raise DecodeError(f"an address with {part}")
        file, number, suffix = match.groups()
        factor = int(suffix[2:]) if suffix.startswith(".X") else 1
        terms.append((Register(None if number == "Z" else int(number), file == "UR"), suffix == ".64", factor))
    return Address(tuple(terms), offset)
