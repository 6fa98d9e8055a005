"""A move from one placement to another as pieces that together write every place of the target once.

Layouts with only an order and padded dimensions need one piece, which begins where the buffers begin.  Tiled layouts
need one if the tiles of both sides divide each other and the array.  Otherwise the array is cut where a tile of either
side ends:

    f32[20,256] to T(8,128)     16 rows are 2 tiles, and 4 rows half a tile: two pieces; 4 rows of padding are a third

Pieces that continue one another become one, and padding becomes part of the copy before it.

Tiles without a common divisor give many pieces: T(7) and T(8) cut every 56 coordinates into 14.  If there would be too
many, or some would end inside a byte of a packed target, every place is looked up instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.lookup_move import LookupMove, NotInRegions, lookup
from gpulayout.moves.move import Axis, Move, check_same_array, check_storable, coalesce, strided_move
from gpulayout.moves.packed_move import PackedMove, packed_move
from gpulayout.moves.placement import Placement
from gpulayout.moves.regions import Region

LEAST_PIECES, MOST_PIECES = 64, 1 << 16
PLACES_A_PIECE = 512  # NumPy looks up this many in the time that it takes to begin a piece

AnyMove = Move | PackedMove | LookupMove | ConvertMove
Offsets = tuple[int, int]


KindOfMove = TypeVar("KindOfMove", bound=AnyMove, covariant=True)


class Piece(NamedTuple, Generic[KindOfMove]):
    """A move between two buffers, and where it begins in them; offsets in bytes."""

    move: KindOfMove
    source_offset: int = 0
    target_offset: int = 0


Pieces = tuple[Piece[AnyMove], ...]
# A piece before it is joined with others and converted to whole bytes: offsets and strides count slots when a side is
# packed.
StridedPiece = Piece[Move]


def pieces(read: Placement, write: Placement) -> Pieces:
    """The pieces that bring every element of a logical array to its new place, and fill the padding of a buffer.

    LayoutError unless both placements are of the same logical array, and for shapes that no buffer can hold.
    NotInRegions for boxes that need more than strided moves: no place of a box is looked up, and no byte half written.
    """
    check_same_array(read.shape, write.shape)
    for side in (read, write):
        if side.digits is None:
            check_storable(side.memory_shape)
    bits, big = (read.bits, write.bits), (read.is_big, write.is_big)
    has_box = read.box is not None or write.box is not None
    if min(bits) < 8 and not (has_box or read.words or read.shape.is_tiled or write.shape.is_tiled):
        slots = write.shape.buffer_size if write.is_buffer else None  # with its tail padding
        return (Piece(packed_move(_strided(read, write), *bits, slots, big=big)),)
    if read.is_plain and write.is_plain:
        return (Piece(_strided(read, write)),)
    try:
        copies, fills = [joined(write.shape, parts) for parts in cut(write.shape, write.parts([read.table]))]
        if min(bits) < 8:
            units = [*copies, *map(as_fill, fills)]
            if write.box is not None:
                _check_whole_bytes(units, 8 // bits[1])
            return in_order(write.shape, _packed(units, bits, big, write.memory_shape.buffer_size))
        return in_order(write.shape, absorbed(copies, fills))
    except NotInRegions as why:
        if has_box:
            raise
        return (Piece(lookup(read, write, why)),)


def relayout_pieces(source: Shape, target: Shape) -> Pieces:
    """The pieces from one buffer to another."""
    return pieces(Placement.buffer(source), Placement.buffer(target))


def _strided(read: Placement, write: Placement) -> Move:
    """The move between two placements without tiles, in slots if a side is packed: a loop for each digit."""
    shape = write.shape
    if write.digits is None:
        dims, widths, steps = range(shape.rank), shape.buffer_dimensions, write.strides
        return strided_move(shape, list(zip(dims, shape.dimensions, widths, read.strides, steps)))
    strides = read.strides
    return strided_move(
        shape, [(dim, size, size, strides[dim] * step, stride) for dim, step, size, stride in write.digits]
    )


def cut(shape: Shape, parts: Iterable[tuple[Region, bool]]) -> tuple[list[Region], list[Region]]:
    """The regions of a target that hold elements, and those of padding; NotInRegions if either are too many."""
    most = min(max(shape.buffer_size // PLACES_A_PIECE, LEAST_PIECES), MOST_PIECES)
    copies: list[Region] = []
    fills: list[Region] = []
    for part, is_element in parts:
        kind = copies if is_element else fills
        if len(kind) == most:
            raise NotInRegions(f"places are looked up one by one: tiles cut the array into more than {most} pieces")
        kind.append(part)
    return copies, fills


def in_order(shape: Shape, written: Iterable[Piece[AnyMove]]) -> Pieces:
    """The pieces that copy elements, then those that fill padding, each kind largest first."""
    order = sorted(written, key=lambda piece: (not piece.move.element_count, -piece.move.place_count))
    if not order:  # the target has no places
        order.append(Piece(Move((Axis(0, 0, 0, shape.itemsize),), shape.itemsize, shape.padding_bytes, ((),))))
    return tuple(order)


# ---- joining ---------------------------------------------------------------------------------------------------------


def joined(shape: Shape, regions: Iterable[Region]) -> list[StridedPiece]:
    """The pieces of regions, joined where possible: two become one if, on both sides, the second begins where an axis
    of the first ends.

    1000 elements cut into 7 tiles of 128 and a remainder of 104 become one run again if the tiles are contiguous.
    """
    wholes: list[StridedPiece] = []
    starts: dict[Offsets, list[int]] = {}
    ends: dict[Offsets, list[int]] = {}
    for piece in sorted((_strided_piece(shape, part) for part in regions), key=lambda piece: piece.target_offset):
        near = [
            *ends.get(piece[1:], ()),
            *(number for begin in _offsets(piece, -1) for number in starts.get(begin, ())),
        ]
        number, whole = len(wholes), piece
        for before in near:
            longer = _continued(wholes[before], piece)
            if longer:
                number, whole = before, longer
                break
        wholes[number : number + 1] = [whole]
        starts.setdefault(whole[1:], []).append(number)
        for end in _offsets(whole, 1):
            ends.setdefault(end, []).append(number)
    return wholes


def _strided_piece(shape: Shape, part: Region) -> StridedPiece:
    """The move of a region whose two rows are the places in the source and in the target, in bytes or slots."""
    loops = [(Axis(extent, extent, *steps), dimensions) for extent, steps, dimensions in part.loops()]
    axes, made_of = coalesce([axis for axis, _ in loops], [dimensions for _, dimensions in loops])
    return Piece(Move(axes, shape.itemsize, shape.padding_bytes, made_of), *[row[0] for row in part.rows])


def _offsets(piece: StridedPiece, direction: int) -> Iterator[Offsets]:
    """Where a piece that continues this one would begin.  With direction -1: where a piece with a single coordinate
    would begin if this one continued it.
    """
    for axis in piece.move.axes:
        steps = axis.extent if direction > 0 else -1
        yield piece.source_offset + steps * axis.source_stride, piece.target_offset + steps * axis.target_stride


def _continued(first: StridedPiece, second: StridedPiece) -> StridedPiece | None:
    """Both as one piece; None if the second does not continue the first along an axis.

    Either piece may lack that axis, if it has only one coordinate along it.
    """
    some, others = first.move.axes, second.move.axes
    if abs(len(some) - len(others)) > 1:
        return None
    longer = max(some, others, key=len)
    for number, (extent, _, *strides) in enumerate(longer):
        single = Axis(1, 1, *strides)
        left, right = (
            axes if len(axes) == len(longer) else (*axes[:number], single, *axes[number:]) for axes in (some, others)
        )
        rest = left[:number] + left[number + 1 :]
        steps = [left[number].extent * stride for stride in strides]
        begins = [second.source_offset - first.source_offset, second.target_offset - first.target_offset]
        if rest == right[:number] + right[number + 1 :] and right[number][2:] == left[number][2:] and steps == begins:
            extent = left[number].extent + right[number].extent
            axes = (*left[:number], Axis(extent, extent, *strides), *left[number + 1 :])
            model = max(first.move, second.move, key=lambda move: len(move.axes))
            return first._replace(move=Move(axes, model.itemsize, model.pad, model.dimensions))
    return None


def absorbed(copies: Iterable[StridedPiece], fills: Iterable[StridedPiece]) -> list[StridedPiece]:
    """The copies and fills, joined where possible: a fill that begins where an axis of a copy ends becomes the padding
    of that axis.

    104 elements in a tile of 128 absorb the 24 places after them: an axis of extent 128 and bound 104.
    """
    waiting: dict[int, list[StridedPiece]] = {}
    for fill in fills:
        waiting.setdefault(fill.target_offset, []).append(fill)
    grown = [_with_padding(copy, waiting) for copy in copies]
    return grown + [as_fill(fill) for left in waiting.values() for fill in left]


def _with_padding(copy: StridedPiece, waiting: dict[int, list[StridedPiece]]) -> StridedPiece:
    """The copy with every fill that can become its padding; these are removed from `waiting`."""
    axes = copy.move.axes
    for number, axis in enumerate(axes):
        for fill in waiting.get(copy.target_offset + axis.extent * axis.target_stride, ()):
            others = math.prod(other.extent for other in axes) // axis.extent
            more = fill.move.place_count // others
            lacking = [Axis(other.extent, other.extent, 0, other.target_stride) for other in axes]
            lacking[number] = Axis(more, more, 0, axis.target_stride)
            if more * others == fill.move.place_count and coalesce(lacking)[0] == fill.move.axes:
                waiting[fill.target_offset].remove(fill)
                larger = (*axes[:number], axis._replace(extent=axis.extent + more), *axes[number + 1 :])
                return _with_padding(copy._replace(move=replace(copy.move, axes=larger)), waiting)
    return copy


def as_fill(piece: StridedPiece) -> StridedPiece:
    """A piece that fills the same places with padding."""
    *minor, major = piece.move.axes or (Axis(1, 1, 0, piece.move.itemsize),)
    dimensions = piece.move.dimensions or ((),)
    return piece._replace(move=replace(piece.move, axes=(*minor, major._replace(bound=0)), dimensions=dimensions))


# ---- packed elements: planned in slots, turned into bytes and words --------------------------------------------------
#
# Untiled layouts need one piece.  Tiles cut the array into several, and no two of them may write the same byte.  A
# place holds an element or padding, and belongs to a run of one piece.  Three rules give every byte one writer:
#
#     a run that begins at a byte boundary fills its last byte       s4[3]{0:T(4)E(4)}: 3 elements and a pad, 2 bytes
#     padding that would begin inside a byte begins at the next      the elements before it write the pad
#     elements that begin inside a byte are looked up one by one     T(3) and 4 bits: a tile ends inside a byte
#
# So a byte with elements has one writer: the piece whose run covers it from its first slot.


def _packed(
    units: Iterable[StridedPiece], bits: tuple[int, int], big: tuple[bool, bool], places: int
) -> Iterator[Piece[Move | PackedMove]]:
    """Pieces in bytes, from pieces in slots that write each of so many places once.

    Raises NotInRegions if two pieces with elements would write the same byte.
    """
    per_source, per_target = (8 // side for side in bits)
    for unit in units:
        whole = _with_whole_bytes(unit, per_target)
        if whole is None:
            raise NotInRegions(
                f"elements of {bits[1]} bits are looked up one by one: a run of the target begins at place "
                f"{_first_inside(unit, per_target)}, inside a byte"
            )
        if whole.move.place_count:
            if per_target > 1 and whole.target_offset + whole.move.target_span[1] > places:
                part = _last_part(whole, bits, big, places)
            else:
                part = packed_move(whole.move, *bits, start=whole.source_offset % per_source, big=big)
            yield Piece(part, whole.source_offset // per_source, whole.target_offset // per_target)


def _check_whole_bytes(units: Iterable[StridedPiece], per: int) -> None:
    """NotInRegions if a piece writes only some of the `per` elements of a byte: the others have to stay."""
    for unit in units:
        whole = _with_whole_bytes(unit, per)
        if whole is None or whole.move.place_count != unit.move.place_count:
            raise NotInRegions("elements share bytes with others, which stay")


def _last_part(whole: StridedPiece, bits: tuple[int, int], big: tuple[bool, bool], places: int) -> Move | PackedMove:
    """The move of the piece that ends with the buffer, inside a byte."""
    minor, *others = whole.move.axes
    if others:
        raise NotInRegions(
            f"elements of {bits[1]} bits are looked up one by one: rows are padded at the end of the target, whose "
            f"{places} places are not a whole number of bytes"
        )
    run = replace(whole.move, axes=(minor._replace(extent=places - whole.target_offset),))
    return packed_move(run, *bits, start=whole.source_offset % (8 // bits[0]), big=big)


def _first_inside(unit: StridedPiece, per: int) -> int:
    """The first place where a run begins inside a byte."""
    steps = [axis.target_stride for axis in unit.move.axes if axis.target_stride > 1]
    return next(place for place in (unit.target_offset + step for step in (0, *steps)) if place % per)


def _with_whole_bytes(unit: StridedPiece, per: int) -> StridedPiece | None:
    """The piece with runs of whole bytes, of `per` places each; None when elements begin inside a byte."""
    if per == 1:
        return unit
    axes = unit.move.axes
    runs, others = (axes[0], axes[1:]) if axes and axes[0].target_stride == 1 else (Axis(1, 1, 1, 1), axes)
    skipped = -unit.target_offset % per
    if any(axis.target_stride % per for axis in others) or (skipped and unit.move.element_count):
        return None
    left = max(runs.extent - skipped, 0)
    grown = runs._replace(extent=-(-left // per) * per, bound=max(runs.bound - skipped, 0))
    dimensions = unit.move.dimensions if len(axes) > len(others) else ((), *unit.move.dimensions)
    move = replace(unit.move, axes=(grown, *others), dimensions=dimensions)
    return unit._replace(move=move, target_offset=unit.target_offset + skipped)
