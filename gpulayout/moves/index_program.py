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

At a place without an element, a number can exceed its bound; every number that can is checked.  `index_builder` builds
the programs, and a backend executes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.moves.index_width import index_bits

DIRECTIONS = ("linearize", "delinearize", "convert_linear")

Mode = Literal["raise", "wrap", "clip", "mark"]  # what happens to an index outside the array


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

    def __hash__(self) -> int:
        return self._kept_hash

    @cached_property
    def _kept_hash(self) -> int:  # cached: every call looks a program up
        return hash((self.direction, self.instructions, self.rank, self.size, self.reach))

    @property
    def index_bits(self) -> int:
        """32 when all linear indices of both sides fit 31 bits, else 64."""
        return index_bits(self.reach)

    @property
    def has_bounds(self) -> bool:
        """True when a sum can exceed its bound: some places hold no element."""
        return any(each.bound is not None and each.load is None for each in self.instructions)

    @cached_property
    def is_dot_product(self) -> bool:
        """True when the linear index is the sum of coordinates times strides, without a division."""
        return self.direction == "linearize" and all(
            each.load is not None and all(add.divisor == 1 for add in each.adds) for each in self.instructions
        )

    @property
    def registers(self) -> int:
        """The largest number of values that are kept at the same time."""
        return 1 + max((each.register for each in self.instructions if each.register is not None), default=-1)
