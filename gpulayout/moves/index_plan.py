"""Index conversion: the digits a kernel or a NumPy loop needs, for the three directions.

    linearize        logical index -> linear index: sum of coordinate * stride
    delinearize      linear index -> logical index: digit by digit
    convert_linear   linear index in one layout -> linear index in another: digits of the first, strides of the second

Linear indices past 2^31 need 64 bits, and a 64-bit division takes three times the instructions of a 32-bit one.  So digits are cut
into a lower and an upper part with fewer than 2^31 places each, one 64-bit division splits an index into these two numbers,
and every digit is then taken in 32 bits: of 70001 x 30000 x 70003 places the lower part is 70001 x 30000, the upper 70003.

All of this is for layouts with one digit for every dimension; tiled ones get an `index_program.IndexProgram` instead.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.index_program import IndexProgram, convert_program, shape_program
from gpulayout.moves.index_width import index_bits
from gpulayout.moves.move import MAX_AXES, Axis, check_same_array, coalesce

KERNELS = {"linearize": "gpl_linearize", "delinearize": "gpl_delinearize", "convert_linear": "gpl_convert_linear"}


class IndexDigit(NamedTuple):
    """A digit of the linear index: its width, the logical size, the stride of the result, the logical dimension."""

    extent: int
    bound: int
    stride: int
    dim: int


@dataclass(frozen=True)
class IndexPlan:
    """One direction of index conversion for one shape (or two) in which every dimension is one digit.

    digits   most minor first
    size     places of the buffer a linear index may point into
    reach    the largest linear index that can come in or go out, plus one
    """

    direction: str
    digits: tuple[IndexDigit, ...]
    rank: int
    size: int
    reach: int

    file = "index.cu"

    @property
    def kernel(self) -> str:
        return KERNELS[self.direction]

    @property
    def index_bits(self) -> int:
        """32 when linear indices on both sides fit 31 bits, else 64."""
        return index_bits(self.reach)

    @property
    def digit_bits(self) -> int:
        """32 when the numbers that digits are taken from fit 31 bits: the linear indices, or both parts of them."""
        return 32 if self.index_bits == 32 or low_part(self._extents) else 64

    @property
    def _extents(self) -> tuple[int, ...]:
        return tuple(max(digit.extent, 1) for digit in self.kernel_digits)

    @property
    def kernel_digits(self) -> list[IndexDigit]:
        """Digits of one place come last: nothing is left of the index by then, and a division by 1 is never asked for."""
        return sorted(self.digits, key=lambda digit: digit.extent == 1)

    @property
    def low_digits(self) -> int:
        """How many digits make the lower part of an index that is split in two; 0 when it is not."""
        return low_part(self._extents) if self.digit_bits < self.index_bits else 0


def low_part(extents: Sequence[int]) -> int:
    """How many digits, minor first, make the lower of two parts that both have fewer than 2^31 places; 0 when none do.

    The longest lower part is the best: a shorter one leaves more to the upper.

    >>> low_part((70001, 30000, 70003)), low_part((2**31, 2)), low_part((2**8, 2**24, 2**8))
    (2, 0, 0)
    """
    low = max(number for number in range(len(extents) + 1) if math.prod(extents[:number]) < 2**31)
    return low if math.prod(extents[low:]) < 2**31 else 0


@functools.lru_cache(maxsize=4096)
def linearize_plan(shape: Shape) -> IndexPlan | IndexProgram:
    """Logical index to linear index."""
    return _shape_plan("linearize", shape)


@functools.lru_cache(maxsize=4096)
def delinearize_plan(shape: Shape) -> IndexPlan | IndexProgram:
    """Linear index to logical index."""
    return _shape_plan("delinearize", shape)


@functools.lru_cache(maxsize=4096)
def convert_plan(source: Shape, target: Shape) -> IndexPlan | IndexProgram:
    """Linear index in `source` to linear index in `target`, in as few digits as possible.

    LayoutError unless both describe the same logical array.
    """
    check_same_array(source, target)
    table, target_table = stride_table(source), stride_table(target)
    if not (table.is_strided and target_table.is_strided):
        return convert_program(source, target)
    strides = {digit.dim: digit.stride for digit in target_table.digits}
    axes = [Axis(digit.extent, source.dimensions[digit.dim], strides[digit.dim], digit.stride) for digit in table.digits]
    joined, made_of = coalesce(axes, [(digit.dim,) for digit in table.digits]) if source.element_count else (axes, [(0,)] * len(axes))
    digits = tuple(IndexDigit(axis.extent, axis.bound, axis.source_stride, dims[0]) for axis, dims in zip(joined, made_of))
    return _checked(IndexPlan("convert_linear", digits, source.rank, source.buffer_size,
                              max(source.buffer_size, target.buffer_size)), source)


def _shape_plan(direction: str, shape: Shape) -> IndexPlan | IndexProgram:
    table = stride_table(shape)
    if not table.is_strided:
        return shape_program(direction, shape)
    digits = tuple(IndexDigit(digit.extent, shape.dimensions[digit.dim], digit.stride, digit.dim) for digit in table.digits)
    return _checked(IndexPlan(direction, digits, shape.rank, shape.buffer_size, shape.buffer_size), shape)


def _checked(plan: IndexPlan, shape: Shape) -> IndexPlan:
    if len(plan.digits) > MAX_AXES:
        raise LayoutError(f"{shape} has {len(plan.digits)} digits: {MAX_AXES} is the limit for index conversion")
    return plan
