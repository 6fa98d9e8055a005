"""A relayout, pack or unpack as pieces that together write every place of the target once.

Layouts with only an order and padded dimensions need one piece, which begins where the buffers begin.  Tiled layouts
need one if the tiles of both sides divide each other and the array.  Otherwise the array is cut where a tile of either
side ends:

    f32[20,256] to T(8,128)     16 rows are 2 tiles, and 4 rows half a tile: two pieces; 4 rows of padding are a third

Tiles without a common divisor give many pieces: T(7) and T(8) cut every 56 coordinates into 14.  If there would be too
many, or some would end inside a byte of a packed target, every place is looked up instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpulayout.layout.packed_bits import is_big
from gpulayout.layout.shape import Shape
from gpulayout.moves.join_pieces import absorbed, joined
from gpulayout.moves.kinds import Piece, Pieces, StridedPiece
from gpulayout.moves.lookup_move import NotInRegions, pack_lookup, relayout_lookup, unpack_lookup
from gpulayout.moves.move import (
    Axis,
    Move,
    check_same_array,
    coalesce,
    pack_move,
    relayout_move,
    strided_move,
    unpack_move,
)
from gpulayout.moves.packed_pieces import packed_pieces, whole_piece
from gpulayout.moves.regions import Region, array_side, element_regions, regions, shape_side
from gpulayout.moves.supported import check_storable, is_plain

LEAST_PIECES, MOST_PIECES = 64, 1 << 16
PLACES_A_PIECE = 512  # NumPy looks up this many in the time that it takes to begin a piece


def relayout_pieces(source: Shape, target: Shape) -> Pieces:
    """The pieces from a buffer of `source` to one of `target`; LayoutError unless both are the same logical array."""
    check_same_array(source, target)
    check_storable(source)
    check_storable(target)
    packed, bits = source.is_packed or target.is_packed, (source.bits_per_element, target.bits_per_element)
    big = is_big(source), is_big(target)
    if packed and not (source.is_tiled or target.is_tiled):
        unit = strided_move(target, source.strides, target.strides, target.buffer_dimensions)
        return whole_piece(unit, bits, big, target.buffer_size)
    if is_plain(source) and is_plain(target):
        return (Piece(relayout_move(source, target)),)
    sides = [shape_side(shape, 1 if packed else shape.itemsize) for shape in (source, target)]
    try:
        return _pieces(target, regions(sides[:1], sides[1]), bits, big)
    except NotInRegions as why:
        return (Piece(relayout_lookup(source, target, why)),)


def pack_pieces(array_strides: tuple[int, ...], shape: Shape) -> Pieces:
    """The pieces from a logical array with these byte strides to a buffer of `shape`."""
    check_storable(shape)
    bits, big = (8 * shape.itemsize, shape.bits_per_element), (False, is_big(shape))
    if shape.is_packed and not shape.is_tiled:
        unit = strided_move(shape, array_strides, shape.strides, shape.buffer_dimensions)
        return whole_piece(unit, bits, big, shape.buffer_size)
    if is_plain(shape):
        return (Piece(pack_move(array_strides, shape)),)
    try:
        return _pieces(
            shape, regions([array_side(shape.dimensions, array_strides)], shape_side(shape, shape.itemsize)), bits, big
        )
    except NotInRegions as why:
        return (Piece(pack_lookup(array_strides, shape, why)),)


def unpack_pieces(shape: Shape, array_strides: tuple[int, ...]) -> Pieces:
    """The pieces from a buffer of `shape` to a logical array with these byte strides."""
    check_storable(shape)
    bits, big = (shape.bits_per_element, 8 * shape.itemsize), (is_big(shape), False)
    if shape.is_packed and not shape.is_tiled:
        return whole_piece(strided_move(shape, shape.strides, array_strides, shape.dimensions), bits, big)
    if is_plain(shape):
        return (Piece(unpack_move(shape, array_strides)),)
    elements = element_regions([shape_side(shape, shape.itemsize)], array_side(shape.dimensions, array_strides))
    try:
        return _pieces(shape, ((part, True) for part in elements), bits, big)
    except NotInRegions as why:
        return (Piece(unpack_lookup(shape, array_strides, why)),)


def _pieces(
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
    """The move of a region whose two rows are the places in the source and in the target, in bytes."""
    (source_offset, *source_steps), (target_offset, *target_steps) = part.rows
    loops = [Axis(extent, extent, *steps) for extent, *steps in zip(part.extents, source_steps, target_steps)]
    order = sorted(range(len(loops)), key=lambda loop: (abs(target_steps[loop]), part.extents[loop]))
    axes, made_of = coalesce([loops[loop] for loop in order], [part.dimensions[loop] for loop in order])
    return StridedPiece(Move(axes, shape.itemsize, shape.padding_bytes, made_of), source_offset, target_offset)
