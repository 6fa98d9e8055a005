"""A relayout, pack or unpack as pieces that together write every place of the target once.

Layouts of order and padding need one piece, which begins where the buffers begin.  Tiles need one as long as the tiles
of both sides divide each other and the sizes; else the array is cut where a tile of one side ends:

    f32[20,256] to T(8,128)     16 rows are 2 tiles, 4 rows are half a tile: two pieces, and 4 rows of padding are a third

Tiles of both sides that share no divisor make many pieces: T(7) and T(8) cut every 56 coordinates in 14.  Where they
are too many, or would end inside of bytes of a packed target, every place is looked up instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.lookup_move import NotInRegions, pack_lookup, relayout_lookup, unpack_lookup
from gpulayout.moves.move import (
    Axis,
    Move,
    Piece,
    Pieces,
    check_same_array,
    coalesce,
    pack_move,
    relayout_move,
    strided_move,
    unpack_move,
)
from gpulayout.moves.packed_move import PackedMove, packed_move, packed_part
from gpulayout.moves.regions import Region, array_side, element_regions, regions, shape_side
from gpulayout.moves.supported import check_storable, is_plain

LEAST_PIECES, MOST_PIECES = 64, 1 << 16
PLACES_A_PIECE = 512  # looked up by NumPy in the 3 us that it takes to begin with a piece


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
    except NotInRegions as why:
        return relayout_lookup(source, target, why)


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
        return _pieces(
            shape, regions(array_side(shape.dimensions, array_strides), shape_side(shape, shape.itemsize)), *bits
        )
    except NotInRegions as why:
        return pack_lookup(array_strides, shape, why)


def unpack_pieces(shape: Shape, array_strides: tuple[int, ...]) -> Pieces:
    """From a buffer of `shape` to a logical array with these byte strides."""
    check_storable(shape)
    bits = shape.bits_per_element, 8 * shape.itemsize
    if shape.is_packed and not shape.is_tiled:
        return whole_piece(strided_move(shape, shape.strides, array_strides, shape.dimensions), *bits)
    if is_plain(shape):
        return (Piece(unpack_move(shape, array_strides)),)
    elements = element_regions(shape_side(shape, shape.itemsize), array_side(shape.dimensions, array_strides))
    try:
        return _pieces(shape, ((part, True) for part in elements), *bits)
    except NotInRegions as why:
        return unpack_lookup(shape, array_strides, why)


def view_strides(shape: Shape) -> tuple[int, ...]:
    """Byte strides of the logical array over a buffer of `shape`; LayoutError where no strides reach all elements.

    Tiles have strides when they cut nothing apart: T(1,128), or tiles as wide as the array.  The place of the element
    with coordinate 1 along a dimension is its stride, if there is one, and every element has to lie where these say.
    """
    check_storable(shape)
    if shape.is_packed:
        raise LayoutError(
            f"element_size_in_bits {shape.bits_per_element} of {shape} has no strides in bytes: "
            f"{8 // shape.bits_per_element} elements share a byte; gl.unpack copies the array out of them"
        )
    if not shape.is_tiled:
        return shape.byte_strides
    if not shape.element_count:
        return shape.with_layout(None).byte_strides
    table, zero = stride_table(shape), [0] * shape.rank
    strides = tuple(
        shape.itemsize * table.linear_of([*zero[:dim], int(size > 1), *zero[dim + 1 :]])
        for dim, size in enumerate(shape.dimensions)
    )
    for part in element_regions(array_side(shape.dimensions, strides), shape_side(shape, shape.itemsize)):
        (start, *steps), (place, *place_steps) = part.rows
        if start != place or any(extent > 1 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):
            raise LayoutError(
                f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} have no single stride per dimension: neighbours "
                "lie at different distances inside and across tiles; gl.unpack copies the array out of them"
            )
    return strides


def _pieces(shape: Shape, parts: Iterable[tuple[Region, bool]], source_bits: int, target_bits: int) -> Pieces:
    """The pieces that copy elements and fill padding: those that copy come first, and the larger ones.

    Regions are in bytes, or in slots where a side has less than 8 bits for an element.  NotInRegions where they are too
    many.
    """
    most = min(max(shape.buffer_size // PLACES_A_PIECE, LEAST_PIECES), MOST_PIECES)
    kinds: dict[bool, list[Piece]] = {True: [], False: []}
    for part, is_element in parts:
        if len(kinds[is_element]) == most:
            raise NotInRegions(f"places are looked up one by one: tiles cut the array into more than {most} pieces")
        kinds[is_element].append(_piece(shape, part))
    copies, fills = joined(kinds[True]), joined(kinds[False])
    found = (
        packed_pieces(copies, fills, source_bits, target_bits, shape)
        if min(source_bits, target_bits) < 8
        else absorbed(copies, fills)
    )
    return tuple(
        sorted(found or [nothing(shape)], key=lambda piece: (not piece.move.element_count, -piece.move.place_count))
    )


def _piece(shape: Shape, part: Region) -> Piece:
    """The move of a region with two rows, in bytes: the place in the source, and in the target."""
    (source_offset, *source_steps), (target_offset, *target_steps) = part.rows
    axes = [Axis(extent, extent, *steps) for extent, *steps in zip(part.extents, source_steps, target_steps)]
    order = sorted(range(len(axes)), key=lambda loop: (abs(target_steps[loop]), part.extents[loop]))
    axes, made_of = coalesce([axes[loop] for loop in order], [part.dimensions[loop] for loop in order])
    return Piece(Move(axes, shape.itemsize, shape.padding_bytes, made_of), source_offset, target_offset)


# ---- pieces that continue one another are joined ------------------------------------------------------

Offsets = tuple[int, int]


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pieces without padding in fewer, where one goes on along an axis, on both sides, from where another
    ends.

    1000 elements that were cut into 7 tiles of 128 and a rest of 104 are one run again when the tiles lie in a row.
    """
    found: list[Piece] = []
    starts: dict[Offsets, list[int]] = {}
    ends: dict[Offsets, list[int]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.target_offset):
        near = [
            *ends.get(piece[1:], ()),
            *(number for begin in _offsets(piece, -1) for number in starts.get(begin, ())),
        ]
        longer = ((number, _continued(found[number], piece)) for number in near)
        number, whole = next((pair for pair in longer if pair[1]), (len(found), piece))
        found[number : number + 1] = [whole]
        starts.setdefault(whole[1:], []).append(number)
        for end in _offsets(whole, 1):
            ends.setdefault(end, []).append(number)
    return found


def _offsets(piece: Piece, direction: int) -> Iterator[Offsets]:
    """Where a piece that goes on from this one would begin; or with -1, one of a single coordinate that this goes on
    from.
    """
    for axis in piece.move.axes:
        steps = axis.extent if direction > 0 else -1
        yield piece.source_offset + steps * axis.source_stride, piece.target_offset + steps * axis.target_stride


def _continued(first: Piece, second: Piece) -> Piece | None:
    """Both as one piece; None when the second does not go on from the first along one axis.

    One of them may lack the axis: it has one coordinate along it.
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


def absorbed(copies: Iterable[Piece], fills: Iterable[Piece]) -> list[Piece]:
    """The same copies and fills of padding in fewer: a fill that lies where a copy ends along an axis becomes its
    padding.

    A row of 104 elements that end a tile of 128 takes the 24 places behind them: an axis of extent 128 and bound 104.
    """
    waiting: dict[int, list[Piece]] = {}
    for fill in fills:
        waiting.setdefault(fill.target_offset, []).append(fill)
    grown = [_with_padding(copy, waiting) for copy in copies]
    return grown + [as_fill(fill) for left in waiting.values() for fill in left]


def _with_padding(copy: Piece, waiting: dict[int, list[Piece]]) -> Piece:
    """The copy with all the fills that it can take, which are taken out of those that wait."""
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


def as_fill(piece: Piece) -> Piece:
    """The same places, all of them padding."""
    *minor, major = piece.move.axes or (Axis(1, 1, 0, piece.move.itemsize),)
    dimensions = piece.move.dimensions or ((),)
    return piece._replace(move=replace(piece.move, axes=(*minor, major._replace(bound=0)), dimensions=dimensions))


def nothing(shape: Shape) -> Piece:
    """The piece of a target without places."""
    return Piece(Move((Axis(0, 0, 0, shape.itemsize),), shape.itemsize, shape.padding_bytes, ((),)))


# ---- packed elements ----------------------------------------------------------------------------------
#
# Relayouts, packs and unpacks of packed elements as pieces: what is planned in slots, in bytes and words.
#
# Untiled layouts are one piece.  Tiles cut the array into several, and no two of them may write one byte.  Places are elements or
# padding, each in the runs of one piece, so every byte gets one writer by three rules:
#
#     a run that begins at a byte goes on to the end of its last byte      s4[3]{0:T(4)E(4)}: 3 elements and a pad, 2 bytes
#     padding that begins inside of a byte begins at the next one          the pad is written by the elements before it
#     elements that begin inside of a byte are looked up one by one        T(3) and 4 bits: a tile ends inside of a byte
#
# The pieces of elements write the bytes that hold some, and only one does so, because its run covers the byte from its first slot.


def whole_piece(unit: Move, source_bits: int, target_bits: int, slots: int | None = None) -> Pieces:
    """The only piece between two untiled sides; `unit` is in slots, and `slots` those of the target, tail padding
    included.
    """
    return (Piece(packed_move(unit, source_bits, target_bits, slots)),)


def packed_pieces(
    copies: Iterable[Piece], fills: Iterable[Piece], source_bits: int, target_bits: int, target: Shape
) -> list[Piece]:
    """Pieces in slots, which write every place of `target` once, as pieces in bytes; fills are the places of padding.

    NotInRegions where two pieces of elements would have to write one byte.
    """
    per_source, per_target = 8 // source_bits, 8 // target_bits
    found = []
    for unit in [*copies, *map(as_fill, fills)]:
        whole = _with_whole_bytes(unit, per_target)
        if whole is None:
            raise NotInRegions(
                f"elements of {target_bits} bits are looked up one by one: a run of the target begins at place "
                f"{_first_inside(unit, per_target)}, inside of a byte"
            )
        if whole.move.place_count:
            part = packed_part(whole.move, source_bits, target_bits, whole.source_offset % per_source)
            if per_target > 1 and whole.target_offset + whole.move.target_span[1] > target.buffer_size:
                part = _last_part(whole, source_bits, target_bits, target)
            found.append(Piece(part, whole.source_offset // per_source, whole.target_offset // per_target))
    return found


def _last_part(whole: Piece, source_bits: int, target_bits: int, target: Shape) -> Move | PackedMove:
    """The piece whose last run ends with the buffer, inside of a byte."""
    if len(whole.move.axes) > 1:
        raise NotInRegions(
            f"elements of {target_bits} bits are looked up one by one: rows are padded at the end of the target, whose "
            f"{target.buffer_size} places are not a whole number of bytes"
        )
    run = replace(whole.move, axes=(whole.move.axes[0]._replace(extent=target.buffer_size - whole.target_offset),))
    return packed_move(run, source_bits, target_bits, start=whole.source_offset % (8 // source_bits))


def _first_inside(unit: Piece, per: int) -> int:
    """The first place inside of a byte that a run begins at."""
    steps = [axis.target_stride for axis in unit.move.axes if axis.target_stride > 1]
    return next(place for place in (unit.target_offset + step for step in (0, *steps)) if place % per)


def _with_whole_bytes(unit: Piece, per: int) -> Piece | None:
    """The piece with runs that begin and end with bytes of `per` places; None for what cannot."""
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
    return Piece(
        replace(unit.move, axes=(grown, *others), dimensions=dimensions),
        unit.source_offset,
        unit.target_offset + skipped,
    )
