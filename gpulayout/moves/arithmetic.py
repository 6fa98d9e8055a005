"""Arithmetic on the way: how each element changes while it moves.

    x is cast to C, the steps are done in C, the result is cast to the target; every cast rounds once

C is f32, or f64 if either side is f64 or an integer of 32 bits or more.  A step is one IEEE operation of C, and two
steps are never fused into one rounding.  A plain cast has no steps and no C: it goes from the source's exact value to
the target's nearest one.

    u8 -> f32, scale 0.5, shift -1:    f32(x) * f32(0.5), rounded, then + f32(-1), rounded

A move with arithmetic reads, changes and writes each element in one pass.  Its axes are loops over elements, as in
`Move`, with a stride on each side in that side's bytes, and a stride in every parameter of the arithmetic:

    u8[2,3] to f32[2,3]{0,1}, scale of shape (3,)
    Axis(2, 2, 3, 4) and 0 in scale, Axis(3, 3, 1, 8) and 1 in scale

Padding of the target is not part of it: other moves fill that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.moves.move import Axis, LoopMove, keeps_hash

Operation = Literal["multiply", "add", "subtract", "divide", "round"]


class Step(NamedTuple):
    """One IEEE operation on every element.

    operation   "round" is to the nearest integer, half to even
    parameter   the number of the array with the other operand; None for "round"
    """

    operation: Operation
    parameter: int | None = None


@keeps_hash
@dataclass(frozen=True)
class Arithmetic(Frozen):
    """What happens to each element.  Its parameters are arrays of type `compute` and not part of it.

    saturate   what a float type without infinities gets for a number that is too large: True its largest number, False
               its nan
    steps      in order; () for a plain cast
    form       their name in messages
    swapped    the bytes of the source's elements are in the other order than the machine's
    """

    source: ElementType
    target: ElementType
    saturate: bool = True
    steps: tuple[Step, ...] = ()
    form: str = "cast"
    swapped: bool = False

    @property
    def keeps_numbers(self) -> bool:
        """True for elements that only their bytes change places in."""
        return self.source is self.target and not self.steps

    @cached_property
    def compute(self) -> ElementType:
        """The type C of the steps and of the parameters."""
        wide = any(
            side is ElementType.F64 or (side.is_integral and side.itemsize >= 4) for side in (self.source, self.target)
        )
        return ElementType.F64 if wide else ElementType.F32


@keeps_hash
@dataclass(frozen=True)
class ConvertMove(LoopMove):
    """A coalesced move with arithmetic.  Immutable and hashable.

    axes                minor first in the target, strides in bytes of either side; none has padding
    arithmetic          what happens to each element
    parameter_strides   for each parameter, a stride for each axis, in elements of the parameter
    parameter_offsets   for each parameter, the element that belongs to the first element of the move
    dimensions          the logical dimensions that each axis covers, minor first
    """

    axes: tuple[Axis, ...]
    arithmetic: Arithmetic
    parameter_strides: tuple[tuple[int, ...], ...] = ()
    parameter_offsets: tuple[int, ...] = ()
    dimensions: tuple[tuple[int, ...], ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of an element of the target."""
        return self.arithmetic.target.itemsize

    @property
    def place_bits(self) -> tuple[int, int]:
        return 8 * self.arithmetic.source.itemsize, 8 * self.itemsize

    @property
    def of_parts(self) -> ConvertMove:
        """The same move of parts of complex numbers, of which there are twice as many."""
        source, target = self.arithmetic.source, self.arithmetic.target
        if not source.is_complex:
            return self
        parts = Axis(2, 2, source.component.itemsize, target.component.itemsize)
        arithmetic = replace(self.arithmetic, source=source.component, target=target.component)
        return ConvertMove((parts, *self.axes), arithmetic, dimensions=((), *self.dimensions))


@functools.cache
def range_of(element_type: ElementType) -> tuple[int, int]:
    """The lowest and the highest number of an integer type, or of pred."""
    if element_type.is_signed:
        return -1 << element_type.bits - 1, (1 << element_type.bits - 1) - 1
    return 0, (1 << element_type.bits) - 1


# ---- as numbers, which kernels/convert.cuh takes, in CUDA and in the native engine -----------------------------------

# Kinds of element types, what the special codes of a float mean, and the operations of a step.
KINDS = {"boolean": 0, "unsigned": 1, "signed": 2, "float": 3, "power": 4}
SPECIAL_CODES = {"ieee": 0, "nan": 1, "finite": 2, "unsigned_zero": 3}
OPERATIONS = {"multiply": 1, "add": 2, "subtract": 3, "divide": 4, "round": 5}


def type_number(element_type: ElementType) -> int:
    """An element type: kind, special codes, bits, bits of the mantissa, bias."""
    form = element_type.format
    if form is not None:
        special = SPECIAL_CODES[form.special] << 3
        return KINDS["float"] | special | form.bits << 5 | form.mantissa_bits << 12 | form.bias << 18
    if element_type is ElementType.F8E8M0FNU:
        return KINDS["power"] | 8 << 5 | 127 << 18
    kind = {"bool": "boolean"}.get(element_type.kind, element_type.kind)
    return KINDS[kind] | element_type.bits << 5


def steps_number(steps: Sequence[Step]) -> int:
    """The steps: five bits each.

    >>> oct(steps_number([Step("multiply", 0), Step("add", 1)]))
    '0o501'
    """
    codes = [OPERATIONS[step.operation] | (step.parameter or 0) << 3 for step in steps]
    return sum(code << 5 * number for number, code in enumerate(codes))
