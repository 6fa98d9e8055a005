"""A move from one placement to another as pieces that together write every place of the target once.

Layouts with only an order and padded dimensions need one piece, which begins where the buffers begin.  Tiled layouts
need one if the tiles of both sides divide each other and the array.  Otherwise the array is cut where a tile of either
side ends:

    f32[20,256] to T(8,128)     16 rows are 2 tiles, and 4 rows half a tile: two pieces; 4 rows of padding are a third

Tiles without a common divisor give many pieces: T(7) and T(8) cut every 56 coordinates into 14.  If there would be too
many, or some would end inside a byte of a packed target, every place is looked up instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpulayout.layout.shape import Shape
from gpulayout.moves.join_pieces import absorbed, joined
from gpulayout.moves.kinds import Piece, Pieces, StridedPiece
from gpulayout.moves.lookup_move import NotInRegions, lookup
from gpulayout.moves.move import Axis, Move, check_same_array, coalesce, strided_move
from gpulayout.moves.packed_pieces import packed_pieces, whole_piece
from gpulayout.moves.placement import Placement
from gpulayout.moves.regions import Region
from gpulayout.moves.supported import check_storable

LEAST_PIECES, MOST_PIECES = 64, 1 << 16
PLACES_A_PIECE = 512  # NumPy looks up this many in the time that it takes to begin a piece


def pieces(read: Placement, write: Placement) -> Pieces:
    """The pieces that bring every element of a logical array to its new place, and fill the padding of a buffer.

    LayoutError unless both placements are of the same logical array, and for shapes that no buffer can hold.
    """
    check_same_array(read.shape, write.shape)
    for side in (read, write):
        if side.is_buffer:
            check_storable(side.shape)
    bits, big = (read.bits, write.bits), (read.is_big, write.is_big)
    if min(bits) < 8 and not (read.shape.is_tiled or write.shape.is_tiled):
        return whole_piece(_strided(read, write), bits, big, write.shape.buffer_size if write.is_buffer else None)
    if read.is_plain and write.is_plain:
        return (Piece(_strided(read, write)),)
    try:
        return _joined(write.shape, write.parts([read.table]), bits, big)
    except NotInRegions as why:
        return (Piece(lookup(read, write, why)),)


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


def _joined(
    shape: Shape, parts: Iterable[tuple[Region, bool]], bits: tuple[int, int], big: tuple[bool, bool]
) -> Pieces:
    """The pieces that copy elements, then those that fill padding, each kind largest first.

    Regions are in bytes, or in slots if a side is packed.  Raises NotInRegions if there are too many.
    """
    kinds: dict[bool, list[StridedPiece]] = {True: [], False: []}
    for part, is_element in parts:
        check_piece_count(len(kinds[is_element]), shape.buffer_size)
        kinds[is_element].append(strided_piece(shape, part))
    copies, fills = joined(kinds[True]), joined(kinds[False])
    found: list[Piece] = []
    if min(bits) < 8:
        found += packed_pieces(copies, fills, bits, big, shape)
    else:
        found += map(Piece._make, absorbed(copies, fills))
    if not found:  # the target has no places
        found.append(Piece(Move((Axis(0, 0, 0, shape.itemsize),), shape.itemsize, shape.padding_bytes, ((),))))
    return tuple(sorted(found, key=lambda piece: (not piece.move.element_count, -piece.move.place_count)))


def check_piece_count(count: int, places: int) -> None:
    """NotInRegions if `count` pieces of a kind are all that a target of so many places may have."""
    most = min(max(places // PLACES_A_PIECE, LEAST_PIECES), MOST_PIECES)
    if count == most:
        raise NotInRegions(f"places are looked up one by one: tiles cut the array into more than {most} pieces")


def strided_piece(shape: Shape, part: Region) -> StridedPiece:
    """The move of a region whose two rows are the places in the source and in the target, in bytes or slots."""
    (source_offset, *source_steps), (target_offset, *target_steps) = part.rows
    loops = [Axis(extent, extent, *steps) for extent, *steps in zip(part.extents, source_steps, target_steps)]
    order = sorted(range(len(loops)), key=lambda loop: (abs(target_steps[loop]), part.extents[loop]))
    axes, made_of = coalesce([loops[loop] for loop in order], [part.dimensions[loop] for loop in order])
    return StridedPiece(Move(axes, shape.itemsize, shape.padding_bytes, made_of), source_offset, target_offset)
