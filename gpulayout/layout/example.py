"""A small array in a given layout, for a picture of the layout alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

_TYPES = (ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128)
_PACKED = {1: ElementType.U1, 2: ElementType.U2, 4: ElementType.U4}


def example(layout: Layout, dimensions: Iterable[SupportsIndex] | None = None) -> Shape:
    """An array in this layout; its element type is f32 unless the layout needs another one.

    Parameters
    ----------
    layout : Layout
    dimensions : iterable of int, optional
        Its sizes.  By default small ones: two tiles along every dimension that has tiles, the second of them half full.

    Raises
    ------
    LayoutError
        The layout does not fit the dimensions.

    Examples
    --------
    >>> from gpulayout import parse_layout
    >>> [str(example(parse_layout(text))) for text in ("{0,1}", "{1,0:T(8,128)}")]
    ['f32[4,3]{0,1}', 'f32[12,192]{1,0:T(8,128)}']
    """
    sizes = _sizes(layout) if dimensions is None else tuple(dimensions)
    types = (_PACKED[layout.element_size_in_bits],) if layout.element_size_in_bits in _PACKED else _TYPES
    for element_type in types[:-1]:
        try:
            return Shape(element_type, sizes, layout)
        except LayoutError:  # the type cannot hold the padding value
            continue
    return Shape(types[-1], sizes, layout)


def _sizes(layout: Layout) -> tuple[int, ...]:
    """Sizes that show what the layout does."""
    if layout.padded_dimensions is not None:
        return tuple(max(width - 1, min(width, 1)) for width in layout.padded_dimensions)
    sizes = [1] * layout.rank
    for dim, size in zip(layout.minor_to_major, (4, 3, 2, 2)):
        sizes[dim] = size
    tile = layout.tiles[0].dimensions if layout.tiles else ()
    for dim, entry in zip(layout.minor_to_major, reversed(tile)):
        if isinstance(entry, int):
            sizes[dim] = entry + max(entry // 2, 1)
    return tuple(sizes)
