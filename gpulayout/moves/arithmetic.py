"""Arithmetic on the way: how each element changes while it moves.

    x is cast to C, the steps are done in C, the result is cast to the target; every cast rounds once

C is f32, or f64 if either side is f64 or an integer of 32 bits or more.  A step is one IEEE operation of C, and two
steps are never fused into one rounding.  A plain cast has no steps and no C: it goes from the source's exact value to
the target's nearest one.

    u8 -> f32, scale 0.5, shift -1:    f32(x) * f32(0.5), rounded, then + f32(-1), rounded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.frozen import Frozen, cached_property

Operation = Literal["multiply", "add", "subtract", "divide", "round"]


class Step(NamedTuple):
    """One IEEE operation on every element.

    operation   "round" is to the nearest integer, half to even
    parameter   the number of the array with the other operand; None for "round"
    """

    operation: Operation
    parameter: int | None = None


@dataclass(frozen=True)
class Arithmetic(Frozen):
    """What happens to each element.  Its parameters are arrays of type `compute` and not part of it.

    saturate   what a float type without infinities gets for a number that is too large: True its largest number, False
               its nan
    steps      in order; () for a plain cast
    form       their name in messages
    """

    source: ElementType
    target: ElementType
    saturate: bool = True
    steps: tuple[Step, ...] = ()
    form: str = "cast"

    def __hash__(self) -> int:
        return self._kept_hash

    @cached_property
    def _kept_hash(self) -> int:  # cached: each call looks its arithmetic up
        return hash((self.source, self.target, self.saturate, self.steps, self.form))

    @cached_property
    def compute(self) -> ElementType:
        """The type C of the steps and of the parameters."""
        wide = any(
            side is ElementType.F64 or (side.is_integral and side.itemsize >= 4) for side in (self.source, self.target)
        )
        return ElementType.F64 if wide else ElementType.F32

    @property
    def parameter_count(self) -> int:
        """The number of parameter arrays."""
        return sum(step.parameter is not None for step in self.steps)
