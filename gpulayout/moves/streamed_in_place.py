"""A relayout in place block by block, for two sides that have the same blocks in the same order.

A block is a box of the logical array that is one run of bytes on either side.  It goes from its run in the source to
its run in the target, through the workspace if the two overlap.  Padding and packed elements make runs of other
lengths:

    u8 codes to 4 bits      source  |  0  |  1  |  2  |  3  |      block 0 first: each leaves room for the next
                            target  |0 |1 |2 |3 |

    f32 rows of 5 to 8      source  | 0 | 1 | 2 | 3 |              block 3 first
                            target  |  0  |  1  |  2  |  3  |

Moving a block must not write on a block that has not been read yet.  Say "g waits" if block g must not be written
before block g + 1 is read: the target of g ends behind the start of g + 1's source.  Blocks lie in the same order on
both sides, so a block j < g that writes on a block k > g makes g wait too: j's target ends before g's, and k's source
begins behind that of g + 1.  Likewise g + 1 must come after g if the source of g ends behind the start of g + 1's
target.  Never both, since then

    start of target g + 1  >=  end of target g  >  start of source g + 1  >=  end of source g  >  start of target g + 1

So blocks that wait for each other, g to h, go in the order h to g, before all that come after h.  That is every order
that there is to keep, whatever the lengths of runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import BoxGrid
from gpulayout.moves.boxes import Boxes, boxes
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.pieces import AnyMove, Pieces, relayout_pieces
from gpulayout.moves.steps import Copy, StepInPlace, move_of

MOST_KEPT = 1 << 12  # blocks: to make one takes a tenth of the time of a copy of 512 KB


class StreamedBlock(NamedTuple):
    """A block: its pieces, and its runs in the buffer before and after; without source bytes it is only padding."""

    pieces: Pieces
    source_offset: int
    source_bytes: int
    target_offset: int
    target_bytes: int

    @property
    def source_end(self) -> int:
        return self.source_offset + self.source_bytes

    @property
    def target_end(self) -> int:
        return self.target_offset + self.target_bytes

    @property
    def is_separate(self) -> bool:
        """Whether it writes nothing that it reads."""
        return self.source_end <= self.target_offset or self.target_end <= self.source_offset or not self.source_bytes

    @property
    def stays(self) -> bool:
        """Whether all bytes stay where they are."""
        move = self.pieces[0].move
        return (
            self[1:3] == self[3:]
            and isinstance(move, Move)
            and move.bytes_read == self.source_bytes
            and all(axis.source_stride == axis.target_stride for axis in move.axes)
        )

    def copies(self) -> Iterator[Copy]:
        """Its moves.  The workspace holds the shorter of both runs."""
        source, target = self.source_offset if self.source_bytes else 0, self.target_offset
        if self.is_separate:
            yield from self._moves(False, source, False, target)
        elif self.stays:
            return
        elif self.target_bytes <= self.source_bytes:
            yield from self._moves(False, source, True, 0)
            yield Copy(_run(self.target_bytes), True, 0, False, target)
        else:
            yield Copy(_run(self.source_bytes), False, source, True, 0)
            yield from self._moves(True, 0, False, target)

    def _moves(self, from_workspace: bool, source: int, to_workspace: bool, target: int) -> Iterator[Copy]:
        for move, source_offset, target_offset in self.pieces:
            yield Copy(move, from_workspace, source + source_offset, to_workspace, target + target_offset)


def _run(nbytes: int) -> AnyMove:
    return move_of([Axis(nbytes, nbytes, 1, 1)], 1)


@dataclass(frozen=True)
class Streamed(StepInPlace):
    """Block by block; see above.  The first block is the largest, and overlaps itself, since both sides begin at 0.

    at_once   how many blocks the workspace holds, for as many threads: above 1 only if `are_fixed`
    """

    blocks: Sequence[StreamedBlock]
    at_once: int = 1
    kind: ClassVar[str] = "streamed"

    def __str__(self) -> str:
        largest = self.blocks[0]
        each = f"{counted(largest.source_bytes, 'byte')} to {counted(largest.target_bytes, 'byte')}"
        if self.count == 1:
            return f"{each}, all at once"
        behind = (block for block in itertools.islice(self.blocks, 1, None) if block.source_bytes)
        backwards = any(block.source_offset < largest.target_end for block in itertools.islice(behind, 1))
        return f"{counted(self.count, 'block')} of up to {each}{', the last one first' * backwards}"

    @property
    def count(self) -> int:
        return len(self.blocks)

    @property
    def part_bytes(self) -> int:
        return max(self.blocks[0].source_bytes, self.blocks[0].target_bytes)

    @property
    def workspace(self) -> int:
        return min(self.blocks[0].source_bytes, self.blocks[0].target_bytes) * self.at_once

    @property
    def are_fixed(self) -> bool:
        """Whether every block has the same bytes on both sides, so that they may go in any order."""
        return all(block[1:3] == block[3:] for block in self.blocks)

    @property
    def bytes_moved(self) -> int:
        return sum(block.source_bytes + block.target_bytes for block in self.blocks if not block.stays)

    def copies(self, first: int = 0, every: int = 1) -> Iterator[Copy]:
        """The moves of all blocks, in an order in which none writes on one that has not been read."""
        numbers = self.order() if self.at_once == 1 else range(self.count)
        for number in itertools.islice(numbers, first, None, every):
            yield from self.blocks[number].copies()

    def order(self) -> Iterator[int]:
        """The numbers of the blocks; those that are only padding come last, when everything has been read."""
        start, before = 0, None
        for number, block in enumerate(self.blocks):
            if not block.source_bytes:
                continue
            if before is not None and before.target_end <= block.source_offset:  # it need not wait for this one
                yield from self._backwards(start, number)
                start = number
            before = block
        yield from self._backwards(start, len(self.blocks))
        yield from (number for number, block in enumerate(self.blocks) if not block.source_bytes)

    def _backwards(self, first: int, last: int) -> Iterator[int]:
        return (number for number in reversed(range(first, last)) if self.blocks[number].source_bytes)


# ---- where to cut ----------------------------------------------------------------------------------------------------


def streamed(source: Shape, target: Shape, limit: int, enough: int, at_once: int = 1) -> tuple[Streamed | None, int]:
    """The relayout block by block in a workspace of `limit` bytes, if it can be, and the least limit.

    enough    bytes of a block; larger ones gain nothing
    at_once   the most blocks that the workspace has room for, if it can and they do not depend on one another
    """
    if not source.element_count:
        return Streamed((StreamedBlock(relayout_pieces(source, target), 0, 0, 0, target.nbytes),)), 0  # only padding
    reading, writing = boxes(source), boxes(target)
    grid = BoxGrid(reading, writing, target, tuple([max(width, 1) for width in writing.widths]), max(target.nbytes, 1))
    wanted = min(limit, enough)
    for dim, unit in _levels(reading, writing):
        if _needs(grid) <= wanted:
            break
        low, high = 1, -(-grid.sizes[dim] // unit)  # units: what may fit, and what does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _needs(_cut(grid, dim, middle * unit)) <= wanted else (low, middle)
        grid = _cut(grid, dim, low * unit)
    least = _needs(grid)
    if least > limit:
        return None, least
    step = Streamed(GridBlocks(grid, tuple(_cuts(grid))))
    return (replace(step, at_once=min(limit // least, step.count, at_once)) if step.are_fixed else step), least


def _cut(grid: BoxGrid, dim: int, size: int) -> BoxGrid:
    return replace(grid, sizes=(*grid.sizes[:dim], size, *grid.sizes[dim + 1 :]))


def _needs(grid: BoxGrid) -> int:
    """Bytes of the workspace for the first block, the largest."""
    first = grid.box(0)
    return min(grid.source.nbytes(grid.read_box(first)), grid.target.nbytes(first))


def _cuts(grid: BoxGrid) -> Iterator[CutDimension]:
    sides = grid.source, grid.target
    for dim in grid.target.shape.layout.minor_to_major:
        if grid.counts[dim] > 1:
            size = grid.sizes[dim]
            leads = [(lead, side.shape.bits_per_element) for side in sides if (lead := side.leads[dim])]
            steps = [lead.places(size) * bits // 8 for lead, bits in leads]
            yield CutDimension(grid.counts[dim], (grid.source.shape.dimensions[dim] - 1) // size, *steps)


def _levels(reading: Boxes, writing: Boxes) -> Iterator[tuple[int, int]]:
    """The dimensions that both sides can be cut along so that a box is one run, and the unit of cuts, major first.

    Below a dimension, another one can be cut only if a unit of the first is one value of its most major digit.  A digit
    that a cut makes shorter lies in no tile, so these digits have the order of the layout, in which boxes are numbered.
    """
    for dim, other in zip(_major_dimensions(reading), _major_dimensions(writing)):
        leads = [lead for lead in (reading.leads[dim], writing.leads[dim]) if lead]
        if dim != other:
            return
        unit = math.lcm(*(lead.align for lead in leads))
        yield dim, unit
        if any(lead.values(unit) > 1 for lead in leads):
            return


def _major_dimensions(side: Boxes) -> Iterator[int]:
    """The dimensions whose most major digits are the most major of all, major first, up to one that is never cut."""
    leads = {lead.position: dim for dim, lead in enumerate(side.leads) if lead}
    for position in reversed(range(len(side.table.digits))):
        if position in leads:
            yield leads[position]
        elif side.table.digits[position].extent > 1:
            return


class CutDimension(NamedTuple):
    """The boxes along a dimension that is cut.

    boxes                        how many there are
    full                         so many have only elements, and more elements behind them
    source_bytes, target_bytes   from the start of one to the next: a box begins at the sum over all dimensions
    """

    boxes: int
    full: int
    source_bytes: int
    target_bytes: int


@dataclass(frozen=True)
class GridBlocks(Sequence[StreamedBlock]):
    """The boxes of a grid as blocks; those of a kind share their pieces.  The tail of the target is one more.

    cuts   in the order in which boxes are numbered
    """

    grid: BoxGrid
    cuts: tuple[CutDimension, ...]
    made: dict[tuple[int, ...], StreamedBlock] = field(default_factory=dict, compare=False)  # one of each kind
    kept: dict[int, StreamedBlock] = field(default_factory=dict, compare=False)  # the first ones, for the next call

    def __len__(self) -> int:
        return self.grid.block_count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        block = self.kept.get(number)
        if block is None:
            block = self._block(number)
            if number < MOST_KEPT:
                self.kept[number] = block
        return block

    def _block(self, number: int) -> StreamedBlock:
        """A block, from another one of its kind, since a box that is cut out of the grid takes 20 times as long.

        Boxes of a kind have equal sizes, and as much padding.  The last box of a dimension is a kind of its own: it may
        be shorter, and end inside a byte.
        """
        if not 0 <= number < len(self):
            raise IndexError(number)
        if number >= self.grid.box_count:
            return self._anew(number)
        kind, rest, source, target = [], number, 0, 0
        for along, full, source_bytes, target_bytes in self.cuts:
            rest, place = divmod(rest, along)
            source += place * source_bytes
            target += place * target_bytes
            kind.append((place >= full) + (place > full) + (place + 1 == along))
        like = self.made.get(key := tuple(kind))
        if like is None:
            like = self.made[key] = self._anew(number)
        return StreamedBlock(like.pieces, source, like.source_bytes, target, like.target_bytes)

    def _anew(self, number: int) -> StreamedBlock:
        source, target, read, written, _ = self.grid.block(number)
        return StreamedBlock(relayout_pieces(source, target), read.offset, read.nbytes, written.offset, target.nbytes)
