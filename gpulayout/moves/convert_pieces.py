"""A transfer with arithmetic as pieces: moves of elements, and fills of the target's padding.

The places in the source, in the target and in every parameter are all linear in the loops of a region, so a parameter
is one more side.  One factor for each block of 128 is a side with the digit `index // 128`.

Where a side is packed, or tiles cut the array into too many regions, an ordinary transfer unpacks the source to a dense
array before, or packs one into the target after.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.layout.digits import Digit, StrideTable
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove
from gpulayout.moves.lookup_move import NotInRegions
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import Piece, Pieces, as_fill, cut, in_order, joined
from gpulayout.moves.pieces import pieces as move_pieces
from gpulayout.moves.placement import Placement
from gpulayout.moves.regions import Region, SideTable

Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Stages:
    """A transfer with arithmetic, in up to three stages through dense arrays in C order.

    arithmetic   what happens to each element in the second stage
    counts       how many numbers each parameter has
    before       pieces from the source to a dense array of its type; () if `pieces` read the source
    pieces       moves with arithmetic, and fills
    after        pieces from a dense array of the target's type to the target; () if `pieces` write the target
    blocks       as `pieces` read the parameters: for each dimension how many elements share a number, 0 for all.  A
                 block may have to be spread over its elements
    """

    arithmetic: Arithmetic
    counts: tuple[int, ...]
    before: Pieces
    pieces: Pieces
    after: Pieces
    blocks: Blocks

    @property
    def first(self) -> Pieces:
        """The pieces that read the source."""
        return self.before or self.pieces

    @property
    def last(self) -> Pieces:
        """The pieces that write the target."""
        return self.after or self.pieces


def parameter_side(dimensions: Sequence[int], blocks: Sequence[int]) -> SideTable:
    """A parameter with a number for each block of an array of these dimensions.  Places count its numbers.

    >>> parameter_side((4, 300, 3), (0, 128, 1)).table.digits
    (Digit(dim=1, step=128, extent=3, stride=3), Digit(dim=2, step=1, extent=3, stride=1))
    """
    digits, stride = [], 1
    for dim in reversed(range(len(dimensions))):
        size = -(-dimensions[dim] // blocks[dim]) if blocks[dim] else 1
        if size > 1:
            digits.append(Digit(dim, blocks[dim], size, stride))
            stride *= size
    return SideTable(StrideTable(tuple(reversed(digits)), tuple(dimensions), 0), 1)


def convert_stages(source: Placement, target: Placement, arithmetic: Arithmetic, parameters: Blocks) -> Stages:
    """The stages of a transfer; `parameters` are the blocks of each.  As few as possible.

    Blocks of two parameters, or of one and of a split dimension, may have no common divisor: 103 blocks of 101 elements
    and 101 of 103.  If they cut the array into too many regions, every element gets a value of its own.
    """
    dimensions = source.shape.dimensions
    single = tuple([tuple([min(block, 1) for block in blocks]) for blocks in parameters])
    for read, from_dense, to_dense in itertools.product(
        (parameters, single), _through_dense(source), _through_dense(target)
    ):
        reading, writing = (side.dense if dense else side for side, dense in ((source, from_dense), (target, to_dense)))
        try:
            pieces = _pieces(reading, writing, arithmetic, [parameter_side(dimensions, blocks) for blocks in read])
        except NotInRegions:
            continue
        before = move_pieces(source, reading) if from_dense else ()
        after = move_pieces(writing, target) if to_dense else ()
        cuts = [[-(-own // block) for own, block in zip(dimensions, blocks) if block] for blocks in parameters]
        return Stages(arithmetic, tuple(map(math.prod, cuts)), before, pieces, after, read)
    raise AssertionError("two dense arrays and a value for each element are one region")


def _through_dense(side: Placement) -> tuple[bool, ...]:
    """Whether elements pass through a dense array, the better answer first.  An array is strided already."""
    if side.digits is not None:
        return (False,)
    return (True,) if side.is_packed else (False, True)


def _pieces(source: Placement, target: Placement, arithmetic: Arithmetic, parameters: Sequence[SideTable]) -> Pieces:
    """The pieces of one pass, the largest first, then the fills.  Raises NotInRegions if there are too many."""
    copies, fills = cut(target.shape, target.parts((source.table, *parameters)))
    filling = joined(target.shape, [part._replace(rows=(part.rows[0], part.rows[-1])) for part in fills])
    return in_order(target.shape, [*(_piece(arithmetic, part) for part in copies), *map(as_fill, filling)])


def _piece(arithmetic: Arithmetic, part: Region) -> Piece[ConvertMove]:
    """The move of a region whose rows are the places in the source, in the parameters and in the target."""
    starts, loops = [row[0] for row in part.rows], part.loops()
    axes = tuple(Axis(extent, extent, steps[0], steps[-1]) for extent, steps, _ in loops)
    strides = tuple(tuple(steps[1 + number] for _, steps, _ in loops) for number in range(len(starts) - 2))
    move = ConvertMove(axes, arithmetic, strides, tuple(starts[1:-1]), tuple(dimensions for *_, dimensions in loops))
    return Piece(move, starts[0], starts[-1])
