"""An index conversion as a program: a short list of instructions, each of which computes one number of every index.

    linearize        logical index -> linear index
    delinearize      linear index -> logical index
    convert_linear   linear index in one layout -> linear index in another

A digit of a number, number // step % extent, is a difference of two quotients,

    number // step % extent == number // step - number // (step * extent) * extent

so whatever is made of digits is a sum of `number // divisor * weight`.  Quotients that are always 0 are left out.
f32[2,3]{0,1:PD(3,5)} has digits of 3 and 5 places:

    row = place - place // 3 * 3        column = place // 3        place = row + column * 3

f32[16,256]{1,0:T(8,128)} has the digits (dim 1, step 1, extent 128, stride 1), (0, 1, 8, 128), (1, 128, 2, 1024), (0,
8, 2, 2048):

    place = row * 128 + row // 8 * 1024 + column + column // 128 * 896                      (9, 130) -> 3202
    column = place - place // 128 * 128 + place // 1024 * 128 - place // 2048 * 256         3202 -> 130

Numbers of a place that holds no element may be past their bounds, and those that may are checked.  `index_builder`
makes the programs; a backend carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpulayout.layout.cached import cached_property
from gpulayout.layout.frozen import Frozen
from gpulayout.moves.index_width import index_bits

DIRECTIONS = ("linearize", "delinearize", "convert_linear")

Mode = Literal["raise", "wrap", "clip", "mark"]  # what becomes of an index outside the array


class Term(NamedTuple):
    """number // divisor * weight.  The number is the given linear index, where `register` is None, or what the register
    holds.
    """

    register: int | None
    divisor: int
    weight: int


class Quotient(NamedTuple):
    """number // divisor * weight, of the number that the instruction computes."""

    divisor: int
    weight: int


class Instruction(NamedTuple):
    """Computes one number, and says what becomes of it.

    load       the row of given coordinates it is read from; None for the sum of `terms` bound      the place holds no
    element when the number is not below; None for numbers that always are register   where it is kept for later
    instructions, if anywhere store      the row of coordinates it is a result for, if any; of a move that looks places
    up, its stride in the target adds       what it adds to the linear index that comes out
    """

    load: int | None
    terms: tuple[Term, ...]
    bound: int | None
    register: int | None
    store: int | None
    adds: tuple[Quotient, ...]


@dataclass(frozen=True)
class IndexProgram(Frozen):
    """One index conversion: instructions that are carried out one after the other.

    size     places of the buffer a linear index may point into
    reach    the largest linear index that can come in or go out, plus one
    """

    direction: str
    instructions: tuple[Instruction, ...]
    rank: int
    size: int
    reach: int

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # kept: programs are looked up in every call
        return hash((self.direction, self.instructions, self.rank, self.size, self.reach))

    @cached_property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """Row and bound of each given coordinate that is read, in the order of the instructions."""
        return tuple(
            (each.load, each.bound) for each in self.instructions if each.load is not None and each.bound is not None
        )

    @property
    def index_bits(self) -> int:
        """32 when linear indices on both sides fit 31 bits, else 64."""
        return index_bits(self.reach)

    @property
    def has_bounds(self) -> bool:
        """True when a sum may be past its bound: some places hold no element."""
        return any(each.bound is not None and each.load is None for each in self.instructions)

    @cached_property
    def is_dot_product(self) -> bool:
        """True when the linear index is the sum of coordinates times strides: nothing is divided."""
        return self.direction == "linearize" and all(
            each.load is not None and all(add.divisor == 1 for add in each.adds) for each in self.instructions
        )

    @property
    def registers(self) -> int:
        """How many numbers are kept at once."""
        return 1 + max((each.register for each in self.instructions if each.register is not None), default=-1)
