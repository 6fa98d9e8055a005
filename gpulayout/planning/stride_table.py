"""The stride table: a layout as a mixed-radix number.

The linear index of an element is read digit by digit, most minor digit first; each digit is a piece of one
logical coordinate:

    linear     += index[dim] // step % extent * stride          index -> linear index
    index[dim] += linear // stride % extent * step              linear index -> index

f32[2,3]{0,1} with padded dimensions (3, 5) has two digits and 15 places:

    Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3)

Place 5 is index (5 // 1 % 3, 5 // 3 % 5) = (2, 1).  Row 2 is past the logical size 2, so the place is padding.

Everything downstream reads this table: the NumPy backend, the CUDA kernels and the text that explains a plan.
A digit has a step because a dimension can be more than one digit: a tile of 8 would split it into an inner digit of
extent 8 and step 1 and an outer one of step 8.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.shape import Shape
from gpulayout.planning.supported import check_indexable


class Digit(NamedTuple):
    """One digit of the linear index.  `stride` is in elements of the buffer."""

    dim: int
    step: int
    extent: int
    stride: int


@dataclass(frozen=True)
class StrideTable:
    """All digits of a layout, most minor first, with the logical sizes that tell elements from padding."""

    digits: tuple[Digit, ...]
    dimensions: tuple[int, ...]
    buffer_size: int

    def linear_of(self, index: Sequence[int]) -> int:
        """The linear index of one logical index, unchecked."""
        return sum(index[d.dim] // d.step % d.extent * d.stride for d in self.digits)

    def index_of(self, linear: int) -> tuple[int, ...]:
        """The logical index of one place, unchecked; past `dimensions` in padding."""
        index = [0] * len(self.dimensions)
        for d in self.digits:
            index[d.dim] += linear // d.stride % d.extent * d.step
        return tuple(index)


@takes_shapes("shape")
@functools.lru_cache(maxsize=4096)
def stride_table(shape: Shape) -> StrideTable:
    """The stride table of a shape.

    >>> table = stride_table("f32[2,3]{0,1:PD(3,5)}")
    >>> table.digits
    (Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3))
    >>> table.linear_of((1, 2)), table.index_of(5)
    (7, (2, 1))
    """
    check_indexable(shape)
    digits = tuple(Digit(dim, 1, shape.buffer_dimensions[dim], shape.strides[dim])
                   for dim in shape.layout.minor_to_major)
    return StrideTable(digits, shape.dimensions, shape.buffer_size)
