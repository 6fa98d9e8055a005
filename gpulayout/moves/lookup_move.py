"""A move that looks up every place, for tiles that cut an array into too many regions or split bytes.

An index program maps the linear index of each place in the target to the place of its element in the source, or finds
that the place is padding:

    s4[4,6]{1,0:E(4)} to s4[4,6]{1,0:T(2,3)E(4)}
    place 9 of the target is element (1, 3), place 1 * 6 + 3 = 9 of the source; place 3 is element (1, 0), place 6

The target of an unpack is an array and has no linear index.  Its elements are numbered row-major, and the program also
computes their places.  Places count slots on a packed side, else bytes from the first element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpulayout.layout.digits import StrideTable
from gpulayout.layout.frozen import cached_property
from gpulayout.moves.index_program import IndexProgram, checked_table, place_program
from gpulayout.moves.move import Axis, keeps_hash, span
from gpulayout.moves.packed_move import SlotMove
from gpulayout.moves.placement import Placement


class NotInRegions(Exception):
    """Why a move cannot be cut into regions in which both sides are strided."""


@keeps_hash
@dataclass(frozen=True)
class LookupMove(SlotMove):
    """A move that looks up every place.  Immutable and hashable.

    program        from the linear index of a place to the place in the source; `store` gives the place in a target that
                   has its own strides
    source_bits    bits of a place in the source: 1, 2 or 4 if it is packed, else those of an element; target_bits
                   likewise
    pad            one padding element; in the low bits of a byte when a side is packed
    element_count  elements that are read; each is written once
    source_span    byte offsets from the first element: lowest read, and one past the highest; target_span likewise
    why            why the move is not cut into regions
    source_big     whether place 0 of a packed source's byte is its highest bits; target_big likewise
    """

    program: IndexProgram
    source_bits: int
    target_bits: int
    pad: bytes
    element_count: int
    source_span: tuple[int, int]
    target_span: tuple[int, int]
    why: str
    source_big: bool = False
    target_big: bool = False

    axes: ClassVar[tuple[Axis, ...]] = ()  # a look-up has no loops
    dimensions: ClassVar[tuple[tuple[int, ...], ...]] = ()
    has_loops: ClassVar[bool] = False

    @property
    def place_count(self) -> int:
        return self.program.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element; 1 when a side is packed."""
        return len(self.pad)

    @property
    def has_strided_target(self) -> bool:
        """True when the target is an array with its own strides."""
        return bool(self.strides[1])

    @cached_property
    def strides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Places of the source, and of the target, are sums of multiples of these; () when the source is packed."""
        instructions = self.program.instructions if self.source_bits >= 8 else ()
        source = tuple([add.weight for instruction in instructions for add in instruction.adds])
        stores = [instruction.store for instruction in self.program.instructions]
        return source, tuple([store for store in stores if store is not None])


def lookup(read: Placement, write: Placement, why: object) -> LookupMove:
    """The look-up from one placement to another; LayoutError if it needs too many instructions."""
    source, source_span = _places(read)
    target, target_span = _places(write)
    target_strides: Sequence[int] = ()
    if not isinstance(target, StrideTable) and target != _places(write.dense)[0]:
        target_strides = target
    # The distance from the lowest place to the highest, in bytes or slots.
    reach = max(
        (high - low) * (8 // side.bits if side.bits < 8 else 1)
        for (low, high), side in ((source_span, read), (target_span, write))
    )
    unit = max(read.bits // 8, 1)  # the bytes of a place, or 1 slot
    shape, bits, big = write.shape, (read.bits, write.bits), (read.is_big, write.is_big)
    program = place_program(shape, source, unit, target_strides, reach)
    pad, count = shape.padding_bytes, shape.element_count
    return LookupMove(program, *bits, pad, count, source_span, target_span, str(why), *big)


def _places(side: Placement) -> tuple[StrideTable | tuple[int, ...], tuple[int, int]]:
    """The table of a buffer or of words, or the byte strides of an array, 0 where they are never used; and the bytes
    that it spans.
    """
    if side.digits is None:
        low, high = (0, side.shape.nbytes * 8) if side.words is None else [end * side.bits for end in side.words.span()]
        return checked_table(side.shape, side.table.table), (low // 8, -(-high // 8))
    used = tuple([stride * (size > 1) for stride, size in zip(side.strides, side.dimensions)])
    return used, span(list(zip(side.dimensions, used)), side.shape.itemsize)
