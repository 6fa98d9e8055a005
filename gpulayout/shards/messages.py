"""Messages: what one rank sends to another, as bytes in a row.

A message has a part for each box that it brings.  The bytes of a part are a buffer of their own, whose shape is its
*wire*.  The wire is chosen so that as little as possible is copied on the way:

    the box is one run of bytes on a side      its wire is that run, and no byte is staged there
    on both sides, with the same bytes         nothing is staged anywhere
    on neither                                 the elements without gaps, in the order of the target

Elements that change do so on the side where this makes fewer bytes: the wire has the narrower type.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from gpulayout.layout.checks import ByteCount
from gpulayout.layout.frozen import cached_property
from gpulayout.layout.layout import Layout
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.moves.listing import run_list
from gpulayout.moves.placement import Box, Placement
from gpulayout.moves.run_list import RunList
from gpulayout.moves.windows import window_of
from gpulayout.plans.plan_runs import Pages
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.running.request import Request, request
from gpulayout.running.running import run_request
from gpulayout.shards.buffers import bytes_of, flat, is_padded, new_buffer, typed
from gpulayout.shards.sharding import Sharding


class Sides(NamedTuple):
    """What all messages of an exchange share.

    change   of elements, for the whole array; None for none
    """

    source: Sharding
    target: Sharding
    change: ElementChange | None

    def bits(self, source: int, target: int) -> tuple[int, int]:
        """Bits of an element in the buffers of two ranks.  The fewer of them travel."""
        shards = self.source.shards[source], self.target.shards[target]
        assert shards[0] is not None and shards[1] is not None
        return shards[0].bits_per_element, shards[1].bits_per_element

    def change_of(self, box: Box) -> ElementChange | None:
        """The change for a box: parameters have the numbers of its elements."""
        return None if self.change is None else self.change.part(self.source.shape.dimensions, box)


class Direct(NamedTuple):
    """A box that is one run of bytes of a buffer: a buffer of its own, without padding."""

    shape: Shape
    first: int
    last: int


class MessagePart(NamedTuple):
    """A box of a message.

    Attributes
    ----------
    box : tuple
        (first, last) for each dimension of the logical array.
    wire : Shape
        Of the bytes that travel, as a buffer of their own.
    begin : int
        Where these bytes begin in the message.
    """

    box: Box
    wire: Shape
    begin: int


class _Way(NamedTuple):
    """How a part leaves a buffer or comes into one.

    run    the bytes of the buffer that are the part's, as they travel; None where they are moved
    move   the request that moves them; None where they need none
    """

    run: Direct | None
    move: Request | None


class Message:
    """What one rank sends to another: at most one message for each pair.  Made by `exchange`; frozen.

    Attributes
    ----------
    source, target : int
        The ranks.
    nbytes : int
        The bytes that travel.
    parts : tuple of MessagePart
        The boxes, and the layout of their bytes.
    sends_directly, lands_directly : bool
        Whether the bytes lie in the source's buffer, or in the target's, exactly as they travel: in one run.  That side
        then needs no staging memory.

    Examples
    --------
    >>> import numpy as np, gpulayout as gl
    >>> rows = gl.Sharding("f32[4,6]", [slice(0, 2), slice(2, 4)])
    >>> columns = gl.Sharding("f32[4,6]", [(..., slice(0, 3)), (..., slice(3, 6))])
    >>> message = gl.exchange(rows, columns).sends(0)[0]
    >>> message
    <Message from rank 0 to rank 1, 24 bytes>
    >>> packed = message.pack(np.arange(12, dtype=np.float32))
    >>> out = message.unpack(packed, np.zeros(12, np.float32))
    >>> out.reshape(4, 3)[0]
    array([3., 4., 5.], dtype=float32)
    """

    __slots__ = ("source", "target", "boxes", "nbytes", "_sides", "__dict__")

    def __init__(self, sides: Sides, source: int, target: int, boxes: tuple[Box, ...]):
        values = source, target, boxes, sum(wire_bytes(sides, source, target, box) for box in boxes), sides
        for name, value in zip(self.__slots__, values):
            object.__setattr__(self, name, value)

    source: int
    target: int
    boxes: tuple[Box, ...]
    nbytes: int
    _sides: Sides

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a message cannot be changed")

    def __repr__(self) -> str:
        return f"<Message from rank {self.source} to rank {self.target}, {self.nbytes} bytes>"

    def of(self, boxes: tuple[Box, ...]) -> Message:
        """A message of some of the boxes, or of parts of them."""
        return Message(self._sides, self.source, self.target, boxes)

    @cached_property
    def _planned(self) -> list[tuple[MessagePart, _Way, _Way]]:
        planned, begin = [], 0
        for box in self.boxes:
            wire, sending, landing = _planned(self._sides, self.source, self.target, box)
            planned.append((MessagePart(box, wire, begin), sending, landing))
            begin += wire.nbytes
        return planned

    @property
    def parts(self) -> tuple[MessagePart, ...]:
        """See the class."""
        return tuple([part for part, _, _ in self._planned])

    @property
    def changes_first(self) -> bool:
        """Whether elements that change do so before they travel."""
        before, after = self._sides.bits(self.source, self.target)
        return after <= before

    @property
    def sends_directly(self) -> bool:
        """See the class."""
        return len(self._planned) == 1 and self._planned[0][1].run is not None

    @property
    def lands_directly(self) -> bool:
        """See the class."""
        return len(self._planned) == 1 and self._planned[0][2].run is not None

    def send_view(self, buffer: Any) -> Any:
        """The bytes of the source's buffer that travel, as uint8 over its memory; None unless `sends_directly`."""
        run = self._planned[0][1].run if self.sends_directly else None
        return None if run is None else bytes_of(self._read(buffer))[run.first : run.last]

    def receive_view(self, out: Any) -> Any:
        """The bytes of the target's buffer that arrive, as uint8 over its memory; None unless `lands_directly`."""
        run = self._planned[0][2].run if self.lands_directly else None
        return None if run is None else bytes_of(self._written(out))[run.first : run.last]

    def pack(self, buffer: Any, out: Any = None) -> Any:
        """The bytes that travel.

        Parameters
        ----------
        buffer : array
            The buffer of the source rank, of NumPy, CuPy or PyTorch.
        out : array, optional
            1-D uint8 of `nbytes` bytes, on the same device.

        Returns
        -------
        array
            `out`, or else 1-D uint8 of the library of `buffer`: new memory, or that of the buffer where the message
            `sends_directly`.

        Raises
        ------
        TypeError, BufferError
            When `buffer` does not fit the source's shard, or `out` is not `nbytes` of uint8.
        """
        if out is None and self.sends_directly:
            return self.send_view(buffer)
        source = self._read(buffer)
        wanted = Shape("u8", (self.nbytes,))
        memory = new_buffer(wanted, source) if out is None else flat(out, wanted, "out", writing=True)
        for part, way, _ in self._planned:
            data = memory[part.begin : part.begin + part.wire.nbytes]
            if way.run is not None:
                data[:] = bytes_of(source)[way.run.first : way.run.last]
            elif way.move is not None:
                run_request(way.move, source, typed(data, part.wire))
        return memory if out is None else out

    def unpack(self, packed: Any, out: Any) -> Any:
        """Bring bytes that arrived to their places, and write nothing else of the target's buffer.

        Parameters
        ----------
        packed : array
            1-D uint8 of `nbytes` bytes, as `pack` made it.
        out : array
            The buffer of the target rank.

        Returns
        -------
        array
            `out`.

        Raises
        ------
        TypeError, BufferError
            When `packed` is not `nbytes` of uint8, or `out` does not fit the target's shard.
        """
        arrived = flat(packed, Shape("u8", (self.nbytes,)), "packed")
        target = self._written(out)
        for part, _, way in self._planned:
            data = arrived[part.begin : part.begin + part.wire.nbytes]
            if way.run is not None:
                bytes_of(target)[way.run.first : way.run.last] = data
            elif way.move is not None:
                run_request(way.move, typed(data, part.wire), target)
        return out

    def copy(self, buffer: Any, out: Any) -> Any:
        """Bring the boxes from the source's buffer to the target's, both in reach of this process."""
        source = self._read(buffer)
        target = self._written(out)
        for box in self.boxes:
            run_request(_between(self._sides, self.source, self.target, box), source, target)
        return out

    def run_list(
        self, *, longest: ByteCount | None = None, align: ByteCount | None = None, least: ByteCount | None = None,
        pages: Pages = None, page_bytes: Pages = None,
    ) -> RunList:  # fmt: skip
        """Plan a list of the runs from the source's buffer to the target's.

        Parameters
        ----------
        longest, align, least, pages, page_bytes
            See `Exchange.runs`.

        Returns
        -------
        RunList
            Its `array` has rows of source byte, target byte and bytes, counted from the first byte of each buffer, or
            of its pool of pages.

        Raises
        ------
        LayoutError
            As `Exchange.runs` raises it.
        """
        moves = [_between(self._sides, self.source, self.target, box).pieces for box in self.boxes]
        pieces = tuple(itertools.chain.from_iterable(moves)) if all(moves) else ()
        shards = self._shard(self._sides.source, self.source), self._shard(self._sides.target, self.target)
        return run_list(pieces, *shards, longest=longest, align=align, least=least, pages=pages, page_bytes=page_bytes)

    @staticmethod
    def _shard(side: Sharding, rank: int) -> Shape:
        shard = side.shards[rank]
        assert shard is not None  # a rank that holds nothing has no messages
        return shard

    def _read(self, buffer: Any) -> Any:
        return flat(buffer, self._shard(self._sides.source, self.source), "buffer")

    def _written(self, out: Any) -> Any:
        return flat(out, self._shard(self._sides.target, self.target), "out", writing=True)


def inner(box: Box, whole: Box) -> Box:
    """A box in the coordinates of another one around it."""
    return tuple([(first - begin, last - begin) for (first, last), (begin, _) in zip(box, whole)])


def placed(side: Sharding, rank: int, box: Box) -> Placement:
    """Where a rank holds a box."""
    own, shard = side.boxes[rank], side.shards[rank]
    assert own is not None and shard is not None
    local = inner(box, own)
    if all(part == (0, size) for part, size in zip(local, shard.dimensions)) and not is_padded(shard):
        return Placement.buffer(shard)
    return Placement.part_of(shard, local)


def wire_bytes(sides: Sides, source: int, target: int, box: Box) -> int:
    """The bytes of a box as it travels."""
    return -(-volume(box) * min(sides.bits(source, target)) // 8)


def volume(box: Box) -> int:
    """The number of elements in a box."""
    return math.prod([max(last - first, 0) for first, last in box])


def _run_of(side: Sharding, rank: int, box: Box) -> Direct | None:
    """The run of bytes that a box is in a rank's buffer; None for several, and where padding is between."""
    own, shard = side.boxes[rank], side.shards[rank]
    assert own is not None and shard is not None
    local = inner(box, own)
    if all(part == (0, size) for part, size in zip(local, shard.dimensions)):
        return None if is_padded(shard) else Direct(shard, 0, shard.nbytes)
    window = window_of(shard, local)
    if window is None or is_padded(window.shape):
        return None
    if any(part != (0, size) for part, size in zip(window.box, window.shape.dimensions)):
        return None
    unit = 1 if shard.is_packed else shard.itemsize
    return Direct(window.shape, window.first * unit, window.last * unit)


def _between(sides: Sides, source: int, target: int, box: Box) -> Request:
    read, write = placed(sides.source, source, box), placed(sides.target, target, box)
    return request(read, write, sides.change_of(box))


def _planned(sides: Sides, source: int, target: int, box: Box) -> tuple[Shape, _Way, _Way]:
    """The wire of a box, and how it leaves and lands."""
    read, write = placed(sides.source, source, box), placed(sides.target, target, box)
    sent, landed = _run_of(sides.source, source, box), _run_of(sides.target, target, box)
    (before, after), change = sides.bits(source, target), sides.change_of(box)
    if change is None and sent and landed and same_buffer(sent.shape, landed.shape):
        return sent.shape, _Way(sent, None), _Way(landed, None)
    first = after <= before
    landed = landed if first else None  # a run travels as it lies only if its side has the narrower type
    sent = sent if landed is None and (not first or (change is None and before == after)) else None
    if landed is not None:
        wire = landed.shape
    elif sent is not None:
        wire = sent.shape
    else:
        wire = _dense((write if first else read).shape, write.shape)
    packing = None if sent else request(read, Placement.buffer(wire), change if first else None)
    landing = None if landed else request(Placement.buffer(wire), write, None if first else change)
    return wire, _Way(sent, packing), _Way(landed, landing)


def _dense(own: Shape, target: Shape) -> Shape:
    """The elements of a box without gaps, of the type and in the bits of one shape and in the order of another."""
    layout = own.layout
    order = Layout(
        target.layout.minor_to_major, element_size_in_bits=layout.element_size_in_bits, bit_order=layout.bit_order
    )
    return Shape(own.element_type, own.dimensions, order)
