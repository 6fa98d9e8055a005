"""A relayout, pack or unpack as pieces that together write every place of the target once.

Layouts of order and padding need one piece, which begins where the buffers begin.  Tiles need one as long as the tiles of
both sides divide each other and the sizes; else the array is cut where a tile of one side ends:

    f32[20,256] to T(8,128)     16 rows are 2 tiles, 4 rows are half a tile: two pieces, and 4 rows of padding are a third

Tiles of both sides that share no divisor make many pieces: T(7) and T(8) cut every 56 coordinates in 14.  Where they are too many,
or would end inside of bytes of a packed target, every place is looked up instead.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable

from gpulayout.model.errors import LayoutError
from gpulayout.model.shape import Shape
from gpulayout.model.stride_table import stride_table
from gpulayout.planning.affine_box import Box
from gpulayout.planning.bits_pieces import packed_pieces, whole_piece
from gpulayout.planning.lookup_move import NotInBoxes, pack_lookup, relayout_lookup, unpack_lookup
from gpulayout.planning.move import Axis, Move, check_same_array, coalesce, pack_move, relayout_move, strided_move, unpack_move
from gpulayout.planning.piece import Piece, Pieces, absorbed, joined, nothing
from gpulayout.planning.supported import check_storable, is_plain
from gpulayout.planning.tiled_side import array_side, element_boxes, regions, shape_side


LEAST_PIECES, MOST_PIECES = 64, 1 << 16
PLACES_A_PIECE = 512         # looked up by NumPy in the 3 us that it takes to begin with a piece


@functools.lru_cache(maxsize=4096)
def relayout_pieces(source: Shape, target: Shape) -> Pieces:
    """From a buffer of `source` to a buffer of `target`; LayoutError unless both describe the same logical array."""
    check_same_array(source, target)
    check_storable(source)
    check_storable(target)
    packed = source.is_packed or target.is_packed
    if packed and not (source.is_tiled or target.is_tiled):
        unit = strided_move(target, source.strides, target.strides, target.buffer_dimensions)
        return whole_piece(unit, source.bits_per_element, target.bits_per_element, target.buffer_size)
    if is_plain(source) and is_plain(target):
        return (Piece(relayout_move(source, target)),)
    sides = [shape_side(shape, 1 if packed else shape.itemsize) for shape in (source, target)]
    try:
        return _pieces(target, regions(*sides), source.bits_per_element, target.bits_per_element)
    except NotInBoxes as why:
        return relayout_lookup(source, target, why)


@functools.lru_cache(maxsize=4096)
def pack_pieces(array_strides: tuple[int, ...], shape: Shape) -> Pieces:
    """From a logical array with these byte strides to a buffer of `shape`."""
    check_storable(shape)
    bits = 8 * shape.itemsize, shape.bits_per_element
    if shape.is_packed and not shape.is_tiled:
        unit = strided_move(shape, array_strides, shape.strides, shape.buffer_dimensions)
        return whole_piece(unit, *bits, shape.buffer_size)
    if is_plain(shape):
        return (Piece(pack_move(array_strides, shape)),)
    try:
        return _pieces(shape, regions(array_side(shape.dimensions, array_strides), shape_side(shape, shape.itemsize)), *bits)
    except NotInBoxes as why:
        return pack_lookup(array_strides, shape, why)


@functools.lru_cache(maxsize=4096)
def unpack_pieces(shape: Shape, array_strides: tuple[int, ...]) -> Pieces:
    """From a buffer of `shape` to a logical array with these byte strides."""
    check_storable(shape)
    bits = shape.bits_per_element, 8 * shape.itemsize
    if shape.is_packed and not shape.is_tiled:
        return whole_piece(strided_move(shape, shape.strides, array_strides, shape.dimensions), *bits)
    if is_plain(shape):
        return (Piece(unpack_move(shape, array_strides)),)
    elements = element_boxes(shape_side(shape, shape.itemsize), array_side(shape.dimensions, array_strides))
    try:
        return _pieces(shape, ((part, True) for part in elements), *bits)
    except NotInBoxes as why:
        return unpack_lookup(shape, array_strides, why)


def view_strides(shape: Shape) -> tuple[int, ...]:
    """Byte strides of the logical array over a buffer of `shape`; LayoutError where no strides reach all elements.

    Tiles have strides when they cut nothing apart: T(1,128), or tiles as wide as the array.  The place of the element
    with coordinate 1 along a dimension is its stride, if there is one, and every element has to lie where these say.
    """
    check_storable(shape)
    if shape.is_packed:
        raise LayoutError(f"element_size_in_bits {shape.bits_per_element} of {shape} cannot be said by strides: "
                          f"{8 // shape.bits_per_element} elements share a byte; gl.unpack copies the array out of them")
    if not shape.is_tiled:
        return shape.byte_strides
    if not shape.element_count:
        return shape.with_layout(None).byte_strides
    table, zero = stride_table(shape), [0] * shape.rank
    strides = tuple(shape.itemsize * table.linear_of([*zero[:dim], int(size > 1), *zero[dim + 1:]])
                    for dim, size in enumerate(shape.dimensions))
    for part in element_boxes(array_side(shape.dimensions, strides), shape_side(shape, shape.itemsize)):
        (start, *steps), (place, *place_steps) = part.rows
        if start != place or any(extent > 1 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):
            raise LayoutError(f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} cannot be said by strides: neighbours "
                              "lie at different distances inside and across tiles; gl.unpack copies the array out of them")
    return strides


def _pieces(shape: Shape, boxes: Iterable[tuple[Box, bool]], source_bits: int, target_bits: int) -> Pieces:
    """The pieces that copy elements and fill padding: those that copy come first, and the larger ones.

    Boxes are in bytes, or in slots where a side has less than 8 bits for an element.  NotInBoxes where they are too many.
    """
    most = min(max(shape.buffer_size // PLACES_A_PIECE, LEAST_PIECES), MOST_PIECES)
    kinds: dict[bool, list[Piece]] = {True: [], False: []}
    for part, is_element in boxes:
        if len(kinds[is_element]) == most:
            raise NotInBoxes(f"places are looked up one by one: tiles cut the array into more than {most} pieces")
        kinds[is_element].append(_piece(shape, part))
    copies, fills = joined(kinds[True]), joined(kinds[False])
    found = packed_pieces(copies, fills, source_bits, target_bits, shape) if min(source_bits, target_bits) < 8 else absorbed(copies, fills)
    return tuple(sorted(found or [nothing(shape)], key=lambda piece: (not piece.move.element_count, -piece.move.place_count)))


def _piece(shape: Shape, part: Box) -> Piece:
    """The move of a box with two rows, in bytes: the place in the source, and in the target."""
    (source_offset, *source_steps), (target_offset, *target_steps) = part.rows
    axes = [Axis(extent, extent, *steps) for extent, *steps in zip(part.extents, source_steps, target_steps)]
    order = sorted(range(len(axes)), key=lambda loop: (abs(target_steps[loop]), part.extents[loop]))
    axes, made_of = coalesce([axes[loop] for loop in order], [part.dimensions[loop] for loop in order])
    return Piece(Move(axes, shape.itemsize, shape.padding_bytes, made_of), source_offset, target_offset)
