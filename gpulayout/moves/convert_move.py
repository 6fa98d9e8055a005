"""A move with arithmetic: each element is read, changed and written in one pass.

The axes are loops over elements, as in `Move`, with a stride on each side in that side's bytes, and a stride in every
parameter of the arithmetic:

    u8[2,3] to f32[2,3]{0,1}, scale of shape (3,)
    Axis(2, 2, 3, 4) and 0 in scale, Axis(3, 3, 1, 8) and 1 in scale

Padding of the target is not part of it: other moves fill that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.moves.move import Axis, span


@dataclass(frozen=True)
class ConvertMove(Frozen):
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

    stride_unit: ClassVar = "byte"
    has_loops: ClassVar = True
    is_padded: ClassVar = False

    def __hash__(self) -> int:
        return self._kept_hash

    @cached_property
    def _kept_hash(self) -> int:
        return hash((self.axes, self.arithmetic, self.parameter_strides, self.parameter_offsets))

    @property
    def itemsize(self) -> int:
        """Bytes of an element of the target."""
        return self.arithmetic.target.itemsize

    @cached_property
    def element_count(self) -> int:
        """Elements that are read; each is written once."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def place_count(self) -> int:
        """Places of the target that are written: one for each element."""
        return self.element_count

    @property
    def of_parts(self) -> ConvertMove:
        """The same move of parts of complex numbers, of which there are twice as many."""
        source, target = self.arithmetic.source, self.arithmetic.target
        if not source.is_complex:
            return self
        parts = Axis(2, 2, source.component.itemsize, target.component.itemsize)
        arithmetic = replace(self.arithmetic, source=source.component, target=target.component)
        return ConvertMove((parts, *self.axes), arithmetic, dimensions=((), *self.dimensions))

    @property
    def bytes_read(self) -> int:
        return self.element_count * self.arithmetic.source.itemsize

    @property
    def bytes_written(self) -> int:
        return self.element_count * self.itemsize

    @cached_property
    def source_span(self) -> tuple[int, int]:
        """Byte offsets from the first element of the source: lowest read, and one past the highest."""
        return span([(axis.extent, axis.source_stride) for axis in self.axes], self.arithmetic.source.itemsize)

    @cached_property
    def target_span(self) -> tuple[int, int]:
        """Byte offsets from the first element of the target: lowest written, and one past the highest."""
        return span([(axis.extent, axis.target_stride) for axis in self.axes], self.itemsize)
