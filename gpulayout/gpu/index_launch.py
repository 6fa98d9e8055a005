"""Index conversion on a GPU: the launches of a program, each planned and prepared once per kind of call.

Programs in which every coordinate is one digit run in kernels/index.cu as a table of digits; all others run in
kernels/index_program.cu as instructions.

    f32[2,3]{0,1:PD(3,5)}   row = place - place // 3 * 3, column = place // 3
                            digits of 3 and 5 places, most minor first

Linear indices past 2^31 need 64 bits, and a 64-bit division takes three times the instructions of a 32-bit one.  So
the digits are divided into a lower and an upper part of fewer than 2^31 places each.  One 64-bit division splits an
index into these two numbers, and then 32 bits are enough for every digit.  With 70001 x 30000 x 70003 places the lower
part is 70001 x 30000 and the upper part 70003.

Index arrays that broadcast, one for each dimension, are linearized by an elementwise kernel of CuPy's, in one pass and
without copies; its source is here.
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.gpu.kernel_numbers import ITEMS, MODES, THREADS
from gpulayout.gpu.launch import grid_of
from gpulayout.gpu.parameters import axes_variant, index_program_struct, index_table_struct
from gpulayout.gpu.runtime import NO_OFFENDER, Launch, Runtime, Start
from gpulayout.moves.index_program import IndexProgram, Instruction

Kind = tuple[Any, ...]  # calls of one kind share a prepared launch
REFUSES_NONE = ("wrap", "clip")  # modes that accept every index
_form = operator.attrgetter("dtype", "shape", "strides")
# In CuPy, one upper-case letter names a type that the call decides; L is the result's.
_LETTERS = string.ascii_uppercase.replace("L", "")
MAX_OPERANDS = len(_LETTERS)


def index_launch(program: IndexProgram, count: int, mode: str, given: tuple[int, bool], result_bytes: int) -> Launch:
    """The launch for `count` indices; `given` is the size of a given index in bytes and whether it is signed.

    The kernel's arguments are the given indices, the result, a flag and the parameters.
    """
    table, scalars = index_table(program), (count, program.size, MODES[mode])
    index_bits = ("GPL_INDEX_BITS", program.index_bits)
    types = ("GPL_IN_BYTES", given[0]), ("GPL_IN_SIGNED", int(given[1])), ("GPL_OUT_BYTES", result_bytes)
    grid = grid_of(math.ceil(count / (THREADS * ITEMS)))
    if table is None:
        parameters = index_program_struct(program.index_bits, (*scalars, program.has_bounds), program.instructions)
        name = f"gpl_{program.direction}_program"
        return Launch("index_program.cu", name, (index_bits, *types), grid, parameters, 3)
    variant = axes_variant(max(len(table.digits), 1))
    macros = (index_bits, ("GPL_DIGIT_BITS", table.digit_bits), ("GPL_AXES", variant), *types)
    parameters = index_table_struct(table.digit_bits, scalars, table.low_digits, table.digits)
    return Launch("index.cu", f"gpl_{program.direction}", macros, grid, parameters, 3)


# ---- the table of digits ---------------------------------------------------------------------------------


class IndexDigit(NamedTuple):
    """A digit of the linear index: its width, the logical size, the stride in the result, the row of coordinates."""

    extent: int
    bound: int
    stride: int
    row: int


class IndexTable(NamedTuple):
    """The digits, most minor first, and the width of the numbers that they are taken from.

    digit_bits   32 if the linear indices, or both parts of them, fit 31 bits; else 64
    low_digits   digits in the lower part of an index that is split in two; 0 if it is not split
    """

    digits: tuple[IndexDigit, ...]
    digit_bits: int
    low_digits: int


def index_table(program: IndexProgram) -> IndexTable | None:
    """The program as a table; None when some coordinate is not one digit with one stride, as in tiled layouts."""
    digits = _coordinates(program) if program.direction == "linearize" else _digits(program)
    if digits is None:
        return None
    low_digits = low_part([digit.extent for digit in digits])
    if program.index_bits == 32 or not low_digits:
        return IndexTable(digits, program.index_bits, 0)
    return IndexTable(digits, 32, low_digits)


def low_part(extents: Sequence[int]) -> int:
    """How many digits, minor first, make the lower of two parts of fewer than 2^31 places each; 0 if there is no split.

    The lower part is as long as possible, since a shorter one leaves more for the upper part.

    >>> low_part((70001, 30000, 70003)), low_part((2**31, 2)), low_part((2**8, 2**24, 2**8))
    (2, 0, 0)
    """
    low = max(number for number in range(len(extents) + 1) if math.prod(extents[:number]) < 2**31)
    return low if math.prod(extents[low:]) < 2**31 else 0


def _coordinates(program: IndexProgram) -> tuple[IndexDigit, ...] | None:
    """The given coordinates as digits of their own sizes; linearizing divides by none of them."""
    if not program.is_dot_product:
        return None
    digits = [
        IndexDigit(bound, bound, _stride(instruction), load)
        for instruction in program.instructions
        if (bound := instruction.bound) is not None and (load := instruction.load) is not None
    ]
    return tuple(sorted(digits, key=lambda digit: digit.stride or program.size))


def _digits(program: IndexProgram) -> tuple[IndexDigit, ...] | None:
    """The digits of the given linear index; None unless they cover it, and each is a coordinate or has one stride.

    Digits of one place come last.  Nothing is left of the index by then, so no division by 1 is needed.
    """
    with_steps: list[tuple[int, IndexDigit]] = []
    ones: list[IndexDigit] = []
    for instruction in program.instructions:
        step, extent = _step_and_extent(instruction, program.size)
        _, _, bound, _, store, adds = instruction
        stored = store is not None or program.direction != "delinearize"
        if not extent or not stored or any(add.divisor > 1 for add in adds):
            return None
        digit = IndexDigit(extent, extent if bound is None else bound, _stride(instruction), store or 0)
        if instruction.terms:
            with_steps.append((step, digit))
        else:
            ones.append(digit)
    expected = 1
    for step, digit in sorted(with_steps):
        if step != expected:
            return None
        expected *= digit.extent
    return (*[digit for _, digit in sorted(with_steps)], *ones) if expected >= program.size else None


def _step_and_extent(instruction: Instruction, size: int) -> tuple[int, int]:
    """The digit index // step % extent that the terms of an instruction compute; extent 0 if they compute none."""
    if not instruction.terms:
        return 0, 1
    (register, step, weight), *others = instruction.terms
    if register is not None or weight != 1:
        return 0, 0
    if not others:
        return step, -(-size // step)
    extent = -others[0].weight
    return step, extent if others == [(None, step * extent, -extent)] else 0


def _stride(instruction: Instruction) -> int:
    return instruction.adds[0].weight if instruction.adds else 0


# ---- broadcast index arrays ------------------------------------------------------------------------------


def linearize_text(rank: int) -> tuple[str, str, str]:
    """(input parameters, output parameters, operation) in the notation of `cupy.ElementwiseKernel`.

    The operands are i0, i1, ... with bounds b0, b1, ... and strides s0, s1, ...; `i` is the number of the element.
    `rank` is at most `MAX_OPERANDS`.
    """
    inputs = [f"{_LETTERS[d]} i{d}" for d in range(rank)]
    inputs += [f"uint64 b{d}, uint64 s{d}" for d in range(rank)] + ["uint64 mode"]
    terms = "".join(
        f"c = gpl_coordinate(i{d}, b{d}, mode); valid = valid && c < b{d}; sum += c * s{d};\n" for d in range(rank)
    )
    operation = (
        "bool valid = true;\nunsigned long long c, sum = 0;\n"
        + terms
        + "if (valid) linear = sum;\nelse atomicMin(&offender[0], (unsigned long long)i);"
    )
    return ", ".join(inputs), "L linear, raw uint64 offender", operation


def linearize_scalars(program: IndexProgram, mode: str) -> tuple[np.uint64, ...]:
    """The arguments after the operands: bound and stride of every dimension, then the mode.

    The program is a dot product, so every instruction loads a coordinate and has a bound.
    """
    pairs = ((instruction.bound or 0, _stride(instruction)) for instruction in program.instructions)
    return (*(np.uint64(number) for pair in pairs for number in pair), np.uint64(MODES[mode]))


# ---- prepared launches -----------------------------------------------------------------------------------


class IndexLaunches:
    """The launches of one index conversion: the GPU's `PreparedConversion`.

    Calls are of one kind if mode, dtypes, shapes, strides, devices and alignments are the same.  Then everything that
    the checks and the launch depend on is the same too, except whether the arrays overlap, which every call checks.
    """

    MOST = 16  # kinds that are kept, 1 to 5 KB each; when full, all are dropped

    def __init__(self, program: IndexProgram, runtime: Runtime) -> None:
        self._program, self._runtime, self._locate = program, runtime, runtime.locate
        self.kinds: dict[Kind, tuple[Start, int, int]] = {}

    def convert(self, given: Any, result: Any | None, mode: str, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`.  One launch; only modes that reject indices use a flag and synchronize.

        After an earlier check, the kernel still needs the flag, but nobody waits for it.
        """
        count = math.prod(given.shape[1:]) if self._program.direction == "linearize" else given.size
        if not count:
            return None
        kind, *addresses = self._kind(given, result, mode)
        start, _, _ = self.kinds.get(kind) or self._remember(kind, count, given, result, mode)
        if mode in REFUSES_NONE:
            start(*addresses, 0)
            return None
        flag, flag_address = self._runtime.new_flag(kind[2])
        start(*addresses, flag_address)
        if checked:
            return None
        offender = self._runtime.read_flag(flag)
        return None if offender == NO_OFFENDER else offender

    def again(self, given: Any, result: Any, mode: str) -> bool:
        """See `PreparedConversion.again`."""
        if mode not in REFUSES_NONE:
            return False
        kind, from_address, to_address = self._kind(given, result, mode)
        known = self.kinds.get(kind)
        if known is None:
            return False
        start, given_bytes, result_bytes = known
        if from_address < to_address + result_bytes and to_address < from_address + given_bytes:
            return False
        start(from_address, to_address, 0)
        return True

    def _kind(self, given: Any, result: Any | None, mode: str) -> tuple[Kind, int, int]:
        """The kind of a call, and both addresses; the address of a missing result is 0."""
        from_address, device = self._locate(given)
        if result is None:
            return (mode, from_address & 7, device, _form(given)), from_address, 0
        to_address, to_device = self._locate(result)
        return (
            (mode, from_address & 7, device, _form(given), to_address & 7, to_device, _form(result)),
            from_address,
            to_address,
        )

    def _remember(self, kind: Kind, count: int, given: Any, result: Any | None, mode: str) -> tuple[Start, int, int]:
        """Prepare and keep the launch for a new kind of call."""
        for role, array in (("index" if self._program.direction == "linearize" else "linear", given), ("out", result)):
            if array is None:
                continue
            width = array.itemsize
            phase = self._locate(array)[0] % width
            if phase:
                raise BufferError(
                    f"{role} address is {phase} past a multiple of {width}: "
                    f"indices of {width} bytes must be aligned to {width}"
                )
        index_type, result_bytes = (given.itemsize, given.dtype.kind == "i"), 8 if result is None else result.itemsize
        launch = index_launch(self._program, count, mode, index_type, result_bytes)
        start = self._runtime.prepare(kind[2], launch)
        if len(self.kinds) >= self.MOST:
            self.kinds.clear()
        known = self.kinds[kind] = start, given.nbytes, 0 if result is None else result.nbytes
        return known
