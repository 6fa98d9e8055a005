"""Finds the strides of layouts that are plain strides, so that a buffer can be viewed without a copy."""

from __future__ import annotations

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.placement import Placement
from gpulayout.moves.regions import element_regions
from gpulayout.moves.supported import check_storable


def view_strides(shape: Shape) -> tuple[int, ...]:
    """Byte strides of the logical array over a buffer of `shape`; LayoutError if no strides reach all elements.

    A tiled shape has strides when its tiles cut no dimension: T(1,128), or tiles as wide as the array.  The stride of a
    dimension, if it has one, is the place of the element with coordinate 1 along it and 0 elsewhere.  Then every other
    element is checked against these strides.
    """
    check_storable(shape)
    if shape.is_packed:
        raise LayoutError(
            f"element_size_in_bits {shape.bits_per_element} of {shape} has no strides in bytes: "
            f"{8 // shape.bits_per_element} elements share a byte; use gl.unpack to copy the array"
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
    for part in element_regions([Placement.array(shape, strides).table], Placement.buffer(shape).table):
        (start, *steps), (place, *place_steps) = part.rows
        if start != place or any(extent > 1 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):
            raise LayoutError(
                f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} have no single stride per dimension: "
                "neighbours are not the same distance apart inside and across tiles; use gl.unpack to copy the array"
            )
    return strides
