"""Boxes of buffers that one pass cannot move: cell by cell, in a workspace.

One pass moves a box whose elements lie in whole bytes, wherever it begins.  Two kinds of boxes need more:

    u4[8,6], columns 1 to 4         an element shares its byte with one outside of the box, which has to stay
    tiles without common divisor    they cut the box into more loops than a plan may have

The first kind is cut into a part of whole bytes, which moves in one pass, and its borders.  A border, and a box of the
second kind, are cut into cells that the workspace has room for.  A cell has a cover: the smallest box around it that is
bytes of its own.  To write it, the bytes of the cover are copied, the bits of the cell are replaced, and they go back.
To read it, they are copied and unpacked.

Arithmetic of packed elements needs dense arrays between its stages.  If they are larger than the workspace, such a box
is cut into cells too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.boxes import Boxes, Interval, boxes, rounded
from gpulayout.moves.pieces import Pieces
from gpulayout.moves.placement import Box, Placement, dense_shape
from gpulayout.moves.runs import Runs
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.running.in_place import default_limit

ROOM = 16  # each array in the workspace begins at a multiple of it

Plan = Callable[[Placement, Placement, "ElementChange | None"], Any]  # `request`, whose file imports this one
BYTES = np.dtype(np.uint8)


def around_of(cut: Boxes, box: Sequence[Interval]) -> Box:
    """The smallest box around another that begins and ends where a shape may be cut."""
    return tuple(
        [
            (first // unit * unit, min(rounded(last, unit), width))
            for (first, last), unit, width in zip(box, cut.align, cut.widths)
        ]
    )


class Cover(NamedTuple):
    """The smallest box around another that is bytes of its own.

    shape   of these bytes, as a buffer of their own; its padding is zeros
    runs    where they lie in the whole buffer
    inner   the box, in the coordinates of the cover
    """

    shape: Shape
    runs: Runs
    inner: Box

    @property
    def dense(self) -> Placement:
        """The elements of the cover in an array."""
        return Placement.buffer(self.shape).dense

    @property
    def dense_bytes(self) -> int:
        return self.shape.element_count * self.shape.itemsize


def cover_of(cut: Boxes, box: Box) -> Cover:
    """The cover of a box of a shape, see `boxes`.

    >>> cover = cover_of(boxes(Shape("u4", (8, 6), "{1,0:E(4)}")), ((2, 3), (1, 4)))
    >>> str(cover.shape), cover.runs.offset, cover.inner
    ('u4[1,4]{1,0:E(4)}', 6, ((0, 1), (1, 4)))
    """
    around = around_of(cut, box)
    shape = cut.part(around)
    inner = tuple([(first - begin, last - begin) for (first, last), (begin, _) in zip(box, around)])
    return Cover(shape.with_layout(shape.layout.replace(padding_value=None)), cut.runs(around), inner)


class BoxCell(NamedTuple):
    """A box that moves at a time.

    box     its coordinates in the array that moves
    read    its cover where it is read; None if it can be read at once
    write   its cover where it is written, likewise
    """

    box: Box
    read: Cover | None
    write: Cover | None

    @property
    def workspace(self) -> int:
        """Bytes that the cell needs."""
        read = 0 if self.read is None else self.read.shape.nbytes + self.read.dense_bytes
        write = 0 if self.write is None else 2 * self.write.shape.nbytes + self.write.dense_bytes
        return read + write + 5 * ROOM


class Scratch:
    """Bytes from which arrays are taken, one behind the other."""

    def __init__(self, backend: Backend, nbytes: int, like: AnyArray):
        self._backend, self._memory, self._taken = backend, backend.temporary((nbytes,), BYTES, like), 0

    def clear(self) -> None:
        """Take from the beginning again."""
        self._taken = 0

    def bytes(self, nbytes: int) -> AnyArray:
        """So many bytes."""
        first = self._taken
        self._taken = first + rounded(nbytes, ROOM)
        return self._memory[first : first + nbytes]

    def array(self, dimensions: Sequence[int], dtype: np.dtype[Any]) -> tuple[AnyArray, AnyArray]:
        """An array in C order; and the same as bytes, with one axis more."""
        taken = self.bytes(math.prod(dimensions) * dtype.itemsize)
        held = self._backend.held(dtype)
        return taken.view(held).reshape(dimensions), taken.reshape(*dimensions, dtype.itemsize)


class BoxMoves:
    """`Prepared` of a request between boxes, cell by cell.

    limit   the most bytes of the workspace; None for the default, or what the smallest cell needs
    plan    the request between two placements
    """

    pieces: Pieces = ()

    def __init__(
        self,
        backend: Backend,
        read: Placement,
        write: Placement,
        change: ElementChange | None,
        limit: int | None,
        plan: Plan,
    ):
        self._backend, self.read, self.write, self.change, self._plan = backend, read, write, change, plan
        self.limit = default_limit(read, write) if limit is None else limit
        self._is_strict = limit is not None
        self._lead = write if write.is_buffer else read  # whose bytes decide where cells begin
        self._cuts = {side: boxes(side.memory_shape) for side in (read, write) if side.is_buffer}
        whole = tuple([(0, size) for size in read.shape.dimensions])
        self.cells = [cell for part in self._whole_bytes(whole) for cell in self._cells_of_part(part)]

    # ---- which cells -------------------------------------------------------------------------------------------------

    def _whole_bytes(self, box: Box) -> list[Box]:
        """A box in parts: borders, where elements share bytes with others, then what lies between them."""
        if not self.write.is_packed:
            return [box]
        parts, rest = [], list(box)
        units = self._cuts[self.write].align
        for dim, (begin, unit, (first, last)) in enumerate(zip(corner_of(self.write), units, box)):
            from_whole = rounded(begin + first, unit) - begin
            to_whole = (begin + last) // unit * unit - begin
            if from_whole < to_whole:
                ends = (first, from_whole), (to_whole, last)
                parts += [(*rest[:dim], end, *rest[dim + 1 :]) for end in ends if end[0] < end[1]]
                rest[dim] = from_whole, to_whole
        return [*parts, tuple(rest)]

    def _cells_of_part(self, box: Box) -> Iterator[BoxCell]:
        """The cells of a part; all of it if it is one pass."""
        request = self._request(box)
        if request.is_one_pass and request.dense_bytes <= self.limit:
            yield BoxCell(box, None, None)
            return
        for cell in self._cells(box):
            if self._request(cell).is_one_pass:
                yield BoxCell(cell, None, None)
            else:
                yield from self._covered_cells(cell)

    def _covered_cells(self, box: Box) -> Iterator[BoxCell]:
        """A cell with its covers; of words, which have none, halves of it, over and over, until one pass reads each."""
        cell = self._covered(box)
        if self.read.words is None or cell.write is None or self._request(box, cell.write).is_one_pass:
            yield cell
            return
        dim = max(range(len(box)), key=lambda dim: box[dim][1] - box[dim][0])
        first, last = box[dim]
        for half in ((first, (first + last) // 2), ((first + last) // 2, last)):
            yield from self._covered_cells((*box[:dim], half, *box[dim + 1 :]))

    def _request(self, box: Box, cover: Cover | None = None) -> Any:
        """The request for a box, or for what becomes of it in the elements of a cover."""
        change = None if self.change is None else self.change.part(self.read.shape.dimensions, box)
        written = self.write.part(box) if cover is None else cover.dense.part(cover.inner)
        return self._plan(self.read.part(box), written, change)

    def _covered(self, box: Box) -> BoxCell:
        """A cell with the covers that it needs: of a side that one pass cannot move, or else of the one that leads."""
        covers = {}
        for side in self._cuts:
            part = side.part(box)
            pair = (part, part.dense) if side is self.read else (part.dense, part)
            if not self._plan(*pair, None).is_one_pass:
                covers[side] = self._cover(side, box)
        if not covers:
            covers[self._lead] = self._cover(self._lead, box)
        return BoxCell(box, covers.get(self.read), covers.get(self.write))

    def _cover(self, side: Placement, box: Box) -> Cover:
        there = side.part(box).box
        assert there is not None
        return cover_of(self._cuts[side], there)

    def _cells(self, box: Box) -> Iterator[Box]:
        """A box cut into cells that the workspace has room for."""
        cut, corner = self._cuts[self._lead], corner_of(self._lead)
        there = [(begin + first, begin + last) for begin, (first, last) in zip(corner, box)]
        around = around_of(cut, there)
        intervals = []
        for begin, (first, last), (start, end), size in zip(corner, there, around, self._sizes(cut, around)):
            cells = [(max(cell, first), min(cell + size, last)) for cell in range(start, end, size)]
            intervals.append([(low - begin, high - begin) for low, high in cells if low < high])
        return itertools.product(*intervals)

    def _sizes(self, cut: Boxes, around: Box) -> list[int]:
        """The sizes of a cell of a box: all of it, or halves of its most major dimensions, over and over.

        LayoutError if even the smallest is too large.
        """
        sizes = [last - first for first, last in around]
        leads = sorted([(lead.position, dim) for dim, lead in enumerate(cut.leads) if lead], reverse=True)
        for _, dim in leads:
            while self._cost(cut, sizes) > self.limit and sizes[dim] > cut.align[dim]:
                sizes[dim] = rounded(-(-sizes[dim] // 2), cut.align[dim])
        if self._is_strict and self._cost(cut, sizes) > self.limit:
            raise LayoutError(
                f"max_bytes {self.limit} is too small for a box of {cut.shape}: the smallest cell, of "
                f"{'x'.join(map(str, sizes)) or '1'} coordinates, takes {self._cost(cut, sizes)} bytes"
            )
        return sizes

    def _cost(self, cut: Boxes, sizes: Sequence[int]) -> int:
        """Bytes that a cell needs: its elements on both sides, and three times its bytes in the buffer."""
        items = self.read.shape.itemsize + self.write.shape.itemsize
        return math.prod(sizes) * items + 3 * cut.nbytes([(0, size) for size in sizes]) + 5 * ROOM

    # ---- moving them -------------------------------------------------------------------------------------------------

    def execute(self, source: AnyArray, target: AnyArray, *, is_new: bool = False) -> None:
        """See `Prepared.execute`."""
        with self._backend.on_device_of(target):
            needed = [cell.workspace for cell in self.cells if cell.read or cell.write]
            workspace = Scratch(self._backend, max(needed, default=ROOM), target)
            if self.write.is_buffer and self.write.box is None:
                self._fill(target, workspace)
            for cell in self.cells:
                workspace.clear()
                self._move(cell, source, target, workspace)

    def known_call(self, *call: Any) -> None:
        """Always None: see `Prepared.known_call`."""

    def _move(self, cell: BoxCell, source: AnyArray, target: AnyArray, workspace: Scratch) -> None:
        read, write = self.read.part(cell.box), self.write.part(cell.box)
        given, written = self.read.part_memory(source, cell.box), self.write.part_memory(target, cell.box)
        change = None if self.change is None else self.change.part(self.read.shape.dimensions, cell.box)
        if cell.read is not None:
            read, given = self._unpacked(cell.read, given, workspace)
        if cell.write is None:
            self._run(read, write, given, written, change)
            return
        self._replace(cell.write, read, given, self._bytes(cell.write.runs, written), change, workspace)

    def _unpacked(self, cover: Cover, memory: AnyArray, workspace: Scratch) -> tuple[Placement, AnyArray]:
        """The elements of a cell that is read, in an array."""
        packed = workspace.bytes(cover.shape.nbytes)
        dense, _ = workspace.array(cover.shape.dimensions, cover.shape.dtype)
        there = self._bytes(cover.runs, memory)
        spread = Placement.array(dense_shape(ElementType.U8, there.shape), there.strides)
        self._run(spread, spread.dense, there, packed)
        self._run(Placement.buffer(cover.shape), cover.dense, self._typed(packed, cover), dense)
        return cover.dense.part(cover.inner), cover.dense.part_memory(dense, cover.inner)

    def _replace(
        self,
        cover: Cover,
        read: Placement,
        given: AnyArray,
        there: AnyArray,
        change: ElementChange | None,
        workspace: Scratch,
    ) -> None:
        """Write the elements of a cell into the bytes of its cover, which lie `there`."""
        packed, bits = workspace.bytes(cover.shape.nbytes), workspace.bytes(cover.shape.nbytes)
        dense, dense_bytes = workspace.array(cover.shape.dimensions, cover.shape.dtype)
        spread = Placement.array(dense_shape(ElementType.U8, there.shape), there.strides)
        pack = cover.dense, Placement.buffer(cover.shape), dense, self._typed(bits, cover)
        self._run(spread, spread.dense, there, packed)
        dense_bytes[...] = 0
        dense_bytes[tuple([slice(first, last) for first, last in cover.inner])] = 255
        self._run(*pack)  # the bits of the cell are 1, all others 0
        bits ^= 255
        packed &= bits
        dense_bytes[...] = 0
        inner = cover.dense.part_memory(dense, cover.inner)
        self._run(read, cover.dense.part(cover.inner), given, inner, change)
        self._run(*pack)
        packed |= bits
        self._run(spread.dense, spread, packed, there)

    def _fill(self, target: AnyArray, workspace: Scratch) -> None:
        """Fill the padding of a whole buffer, and all of it with one element."""
        shape = self.write.shape
        element, as_bytes = workspace.array((1,), shape.dtype)
        as_bytes[...] = 0
        everywhere = Placement.array(dense_shape(shape.element_type, shape.dimensions), (0,) * shape.rank)
        self._run(everywhere, self.write, element, target)

    def _run(
        self,
        read: Placement,
        write: Placement,
        source: AnyArray,
        target: AnyArray,
        change: ElementChange | None = None,
    ) -> None:
        request = self._plan(read, write, change)
        prepared = request.prepared_by if change is None else request.in_one_pass  # no smaller cells
        prepared(self._backend).execute(source, target)

    def _bytes(self, runs: Runs, memory: AnyArray) -> AnyArray:
        """The bytes of a cover in the whole buffer: one axis for every loop over runs, and the bytes of a run last."""
        counts, strides = zip(*runs.loops, (runs.length, 1))
        return self._backend.strided(memory.view(BYTES)[runs.offset :], counts, strides)

    def _typed(self, memory: AnyArray, cover: Cover) -> AnyArray:
        """Bytes as the buffer of a cover."""
        return memory.view(self._backend.held(cover.shape.buffer_dtype))


def corner_of(side: Placement) -> Sequence[int]:
    """The first coordinates of a box; zeros for a whole array."""
    return [0] * side.shape.rank if side.box is None else [first for first, _ in side.box]
