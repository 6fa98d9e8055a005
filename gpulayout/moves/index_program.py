"""An index conversion as a program: a short list of instructions, each of which computes one number per index.

    linearize        logical index -> linear index
    delinearize      linear index -> logical index
    convert_linear   linear index in one layout -> linear index in another

A digit of a number, number // step % extent, is a difference of two quotients,

    number // step % extent == number // step - number // (step * extent) * extent

so every sum of digits is a sum of `number // divisor * weight`.  Quotients that are always 0 are left out.
f32[2,3]{0,1:PD(3,5)} has digits of 3 and 5 places:

    row = place - place // 3 * 3        column = place // 3        place = row + column * 3

f32[16,256]{1,0:T(8,128)} has the digits (dim 1, step 1, extent 128, stride 1), (0, 1, 8, 128), (1, 128, 2, 1024) and
(0, 8, 2, 2048):

    place = row * 128 + row // 8 * 1024 + column + column // 128 * 896                      (9, 130) -> 3202
    column = place - place // 128 * 128 + place // 1024 * 128 - place // 2048 * 256         3202 -> 130

At a place without an element, a number can exceed its bound; every number that can is checked.

Programs are built from the stride tables of the shapes, strided or tiled.  Delinearizing gives each coordinate as a sum
of quotients of the linear index.  Linearizing gives the linear index as a sum of quotients of the coordinates.  A
conversion between two layouts does both.  A backend executes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpulayout.layout.digits import Digit, StrideTable
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.move import MAX_AXES, Axis, check_same_array, coalesce, keeps_hash

# What fits the 4 KB of kernel parameters; registers are a thread's local memory.
MOST_INSTRUCTIONS, MOST_TERMS, MOST_REGISTERS = 56, 112, 16
MOST_VALUES = 256  # dimensions and numbers; most need no instruction

Mode = Literal["raise", "wrap", "clip", "mark"]  # what happens to an index outside the array


def index_bits(*reaches: int) -> int:
    """How many bits the offsets of a move or an index conversion need: 32 when all of these fit 31 bits, else 64.

    Distances decide, not element counts: ten elements 2^30 apart need 64 bits.

    >>> index_bits(2**31 - 1), index_bits(-2**31), index_bits(2**31)
    (32, 64, 64)
    """
    return 32 if all(abs(reach) < 2**31 for reach in reaches) else 64


class Term(NamedTuple):
    """number // divisor * weight.  The number is in a register; a `register` of None is the given linear index."""

    register: int | None
    divisor: int
    weight: int


class Quotient(NamedTuple):
    """number // divisor * weight, where the number is what the instruction computes."""

    divisor: int
    weight: int


class Instruction(NamedTuple):
    """Computes one number, and uses it.

    load       the row of the given coordinates to read it from; None computes the sum of `terms`
    bound      the place has no element unless the number is below this; None if the number always is
    register   where the number is kept for later instructions, if at all
    store      the row of the resulting coordinates to write it to, if any; in a look-up, its stride in the target
    adds       what it adds to the resulting linear index
    """

    load: int | None
    terms: tuple[Term, ...]
    bound: int | None
    register: int | None
    store: int | None
    adds: tuple[Quotient, ...]


@keeps_hash
@dataclass(frozen=True)
class IndexProgram(Frozen):
    """One index conversion, as instructions in the order of execution.

    size     number of places in the buffer that a given linear index points into
    reach    the largest linear index, given or resulting, plus one
    """

    direction: str
    instructions: tuple[Instruction, ...]
    rank: int
    size: int
    reach: int

    @property
    def index_bits(self) -> int:
        """32 when all linear indices of both sides fit 31 bits, else 64."""
        return index_bits(self.reach)

    @property
    def has_bounds(self) -> bool:
        """True when a sum can exceed its bound: some places hold no element."""
        return any(instruction.bound is not None and instruction.load is None for instruction in self.instructions)

    @cached_property
    def is_dot_product(self) -> bool:
        """True when the linear index is the sum of coordinates times strides, without a division."""
        return self.direction == "linearize" and all(
            instruction.load is not None and all(add.divisor == 1 for add in instruction.adds)
            for instruction in self.instructions
        )

    @property
    def registers(self) -> int:
        """The largest number of values that are kept at the same time."""
        registers = (instruction.register for instruction in self.instructions)
        return 1 + max((register for register in registers if register is not None), default=-1)


# ---- building --------------------------------------------------------------------------------------------------------


def linearize_program(shape: Shape, for_kernel: bool = True) -> IndexProgram:
    """Logical index to linear index.

    for_kernel   LayoutError for a program that does not fit in kernel parameters
    """
    table, builder = checked_table(shape, for_kernel=for_kernel), _Builder()
    builder.values += [_Value(size, load=dim, is_checked=True) for dim, size in enumerate(table.dimensions)]
    sums = builder.linearized(table, builder.values)
    return builder.program("linearize", sums, shape, is_limited=for_kernel and not table.is_strided)


def delinearize_program(shape: Shape, for_kernel: bool = True) -> IndexProgram:
    """Linear index to logical index; `for_kernel` as above."""
    table, builder = checked_table(shape, for_kernel=for_kernel), _Builder()
    for dim, value in enumerate(builder.delinearized(table)):
        value.store = dim
    return builder.program("delinearize", {}, shape, is_limited=for_kernel and not table.is_strided)


def convert_program(source: Shape, target: Shape) -> IndexProgram:
    """Linear index in `source` to linear index in `target`; LayoutError unless both describe the same logical array."""
    check_same_array(source, target)
    builder, tables = _Builder(), (checked_table(source), checked_table(target))
    is_strided = all(table.is_strided for table in tables)
    if is_strided:
        table, strides = _merged(*tables)
        _check_digits(table, source)
        sums = _weighted(builder.delinearized(table), strides)
    else:
        sums = builder.linearized(tables[1], builder.delinearized(tables[0]))
    return builder.program("convert_linear", sums, source, target.buffer_size, is_limited=not is_strided)


def place_program(
    numbered: Shape, source: StrideTable | Sequence[int], unit: int, target_strides: Sequence[int], reach: int
) -> IndexProgram:
    """From the linear index of each place of `numbered` to its place in the source, a buffer or an array.

    source           a table, whose places are counted in `unit`s; or the strides of an array
    target_strides   of the target, if it is an array with its own strides; each coordinate stores its stride there
    reach            the largest distance between two places on either side
    """
    builder = _Builder()
    coordinates = builder.delinearized(checked_table(numbered))
    if isinstance(source, StrideTable):
        sums = {term: unit * weight for term, weight in builder.linearized(source, coordinates).items()}
    else:
        sums = _weighted(coordinates, source)
    for value, stride in zip(coordinates, target_strides):
        value.store = stride or None
    return builder.program("lookup", sums, numbered, reach)


def _merged(source: StrideTable, target: StrideTable) -> tuple[StrideTable, Sequence[int]]:
    """The source's linear index in as few digits as possible, one per dimension, and their strides in the target.

    Dimensions that are contiguous in both layouts become one digit: f32[4,6,8]{2,1,0} to {2,1,0:PD(4,6,9)} has digits
    of 8 and of 24 places.
    """
    strides = {digit.dim: digit.stride for digit in target.digits}
    axes: Sequence[Axis] = [
        Axis(digit.extent, source.dimensions[digit.dim], strides[digit.dim], digit.stride) for digit in source.digits
    ]
    if not all(source.dimensions):
        axes = [Axis(source.buffer_size, 0, 0, 1)]  # every place is padding
    axes = coalesce(axes)[0]
    digits = tuple(Digit(dim, 1, axis.extent, axis.target_stride) for dim, axis in enumerate(axes))
    return StrideTable(digits, tuple(axis.bound for axis in axes), source.buffer_size), [
        axis.source_stride for axis in axes
    ]


# ---- limits --------------------------------------------------------------------------------------------------------


def checked_table(shape: Shape, table: StrideTable | None = None, *, for_kernel: bool = False) -> StrideTable:
    """The stride table of a shape, or one of it in words; LayoutError when it has too many numbers, since building the
    program takes quadratic time.
    """
    table = table or stride_table(shape)
    if not table.is_strided and len(table.sizes) > MOST_VALUES:
        raise LayoutError(
            f"{shape} has {len(table.sizes)} dimensions and numbers: "
            f"{MOST_VALUES} is the limit for index conversion of tiled layouts"
        )
    if for_kernel:
        _check_digits(table, shape)
    return table


def _check_digits(table: StrideTable, shape: Shape) -> None:
    """LayoutError if a kernel cannot take that many digits.  In untiled layouts, dimensions of size 1 count too."""
    if len(table.digits) > MAX_AXES:
        raise LayoutError(f"{shape} has {len(table.digits)} digits: {MAX_AXES} is the limit for index conversion")


def _check_program(program: IndexProgram, shape: Shape) -> None:
    """LayoutError for a program that does not fit in kernel parameters."""
    terms = sum(len(instruction.terms) + len(instruction.adds) for instruction in program.instructions)
    for count, limit, what in (
        (len(program.instructions), MOST_INSTRUCTIONS, "numbers"),
        (terms, MOST_TERMS, "quotients"),
        (program.registers, MOST_REGISTERS, "numbers at once"),
    ):
        if count > limit:
            raise LayoutError(
                f"{shape} needs {count} {what}: {limit} is the limit for index conversion of tiled layouts"
            )


# ---- sums of quotients ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Value:
    """A number of the program.  `terms` maps (value, divisor) to a weight; value None is the given linear index."""

    size: int
    load: int | None = None
    terms: _Sum = field(default_factory=dict)
    is_checked: bool = False
    store: int | None = None


_Sum = dict[tuple[_Value | None, int], int]


class _Builder:
    """Collects values in the order in which they are computed."""

    def __init__(self) -> None:
        self.values: list[_Value] = []

    def program(
        self, direction: str, sums: _Sum, shape: Shape, reach: int = 0, *, is_limited: bool = True
    ) -> IndexProgram:
        """The program of what was collected, for places of `shape`; its result is the linear index `sums`.

        is_limited   LayoutError if it does not fit in kernel parameters.  Kernels take strided tables as digits, not as
                     programs
        """
        size = shape.buffer_size
        program = IndexProgram(direction, self._instructions(sums), shape.rank, size, max(reach, size))
        if is_limited:
            _check_program(program, shape)
        return program

    def linearized(self, table: StrideTable, coordinates: Iterable[_Value]) -> _Sum:
        """The terms of the linear index; adds the table's numbers as values."""
        values = list(coordinates)
        for digits, size in zip(table.numbers, table.sizes[len(table.dimensions) :]):
            values.append(_Value(size, terms=_terms_of(digits, values)))
            self.values.append(values[-1])
        return _terms_of(table.digits, values)

    def delinearized(self, table: StrideTable) -> list[_Value]:
        """The coordinates of the given linear index.  The table's numbers are computed first, in reverse order."""
        values = [_Value(size) for size in table.sizes]
        rank, largest = len(table.dimensions), [0] * len(values)
        numbers = [(value, value.size, digits) for value, digits in zip(values[rank:], table.numbers)]
        for number, size, digits in [(None, table.buffer_size, table.digits), *numbers]:
            for digit in digits:
                _add_quotients(values[digit.dim].terms, (number, size), digit.stride, digit.extent, digit.step)
                largest[digit.dim] += (digit.extent - 1) * digit.step
        for value, most in zip(values, largest):
            value.is_checked = most >= value.size
        self.values += values[rank:][::-1] + values[:rank]
        return values[:rank]

    def _instructions(self, sums: _Sum) -> tuple[Instruction, ...]:
        """The instructions.  A value that later ones need gets a register, which is freed after its last use."""
        self._write_sums_out()
        numbers = {value: number for number, value in enumerate(self.values)}
        last_use = {of: number for value, number in numbers.items() for of, _ in value.terms}
        adds = {
            value: tuple(sorted(Quotient(divisor, weight) for (of, divisor), weight in sums.items() if of is value))
            for value in numbers
        }
        registers: dict[_Value | None, int] = {}
        instructions = []
        for value, number in numbers.items():
            if value.load is None and not (
                value.is_checked or value.store is not None or adds[value] or value in last_use
            ):
                continue
            terms = [Term(registers.get(of), divisor, weight) for (of, divisor), weight in value.terms.items()]
            terms.sort(key=lambda term: (term.register is not None, term))
            registers = {kept: register for kept, register in registers.items() if last_use[kept] > number}
            if value in last_use:
                registers[value] = min(set(range(len(registers) + 1)) - set(registers.values()))
            bound = value.size if value.is_checked else None
            register = registers.get(value)
            instructions.append(Instruction(value.load, tuple(terms), bound, register, value.store, adds[value]))
        return tuple(instructions)

    def _write_sums_out(self) -> None:
        """Inline the terms of each value that is never divided by more than 1, so that it needs no register."""
        for value in self.values:
            users = [user for user in self.values if any(of is value for of, _ in user.terms)]
            if value.load is None and all(divisor == 1 for user in users for of, divisor in user.terms if of is value):
                for user in users:
                    weight = user.terms.pop((value, 1))
                    for term, other in value.terms.items():
                        _add(user.terms, term, weight * other)


def _weighted(values: Iterable[_Value], strides: Iterable[int]) -> _Sum:
    """The sum of values times strides."""
    return {(value, 1): stride for value, stride in zip(values, strides) if stride}


def _terms_of(digits: Sequence[Digit], values: Sequence[_Value]) -> _Sum:
    """The terms of a number with these digits."""
    terms: _Sum = {}
    for digit in digits:
        value = values[digit.dim]
        _add_quotients(terms, (value, value.size), digit.step, digit.extent, digit.stride)
    return terms


def _add_quotients(terms: _Sum, value: tuple[_Value | None, int], step: int, extent: int, weight: int) -> None:
    """Add value // step % extent * weight as quotients, except those whose divisor the value never reaches."""
    number, size = value
    for divisor, factor in (step, weight), (step * extent, -extent * weight):
        if divisor < size:
            _add(terms, (number, divisor), factor)


def _add(terms: _Sum, term: tuple[_Value | None, int], weight: int) -> None:
    weight += terms.pop(term, 0)
    if weight:
        terms[term] = weight
