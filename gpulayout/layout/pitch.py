"""A pitch: rows that begin every so many bytes, as padding of the most minor dimension."""

from __future__ import annotations

from gpulayout.layout import checks
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import after_sizes


def pitched(element_type: ElementType, dimensions: tuple[int, ...], layout: Layout, pitch: object, text: str) -> Layout:
    """The layout with its most minor width rounded up to a multiple of `pitch` bytes.

    Rows of 1000 f32 take 4000 bytes; with a pitch of 256 they take 4096, which are 1024 elements.  `text` is the shape
    without its layout, for errors.
    """
    context = f" for {text}{after_sizes(layout)}"
    unit = checks.whole_number("pitch", pitch, context)
    shown = f"pitch {checks.number_text(unit)}"
    if unit < 1:
        raise LayoutError(f"{shown} is not a number of bytes{context}: it must be at least 1")
    if layout.tiles:
        tiles = "".join(map(str, layout.tiles))
        raise LayoutError(f"{shown} is for layouts without tiles{context}: {tiles} cut the rows into blocks")
    if not dimensions:
        raise LayoutError(f"{shown} needs a dimension to pad{context}: a scalar has no rows")
    if UNBOUNDED in dimensions:
        raise LayoutError(f"{shown} cannot be given{context}: dimension {dimensions.index(UNBOUNDED)} is unbounded")
    bits = layout.element_size_in_bits or 8 * element_type.itemsize
    if 8 * unit % bits:
        size = f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits"
        raise LayoutError(f"{shown} is not a multiple of the {size} of an element{context}")
    elements = 8 * unit // bits
    widths, minor = list(layout.padded_dimensions or dimensions), layout.minor_to_major[0]
    if widths[minor] % elements == 0:
        return layout
    widths[minor] = -(-widths[minor] // elements) * elements
    return layout.replace(padded_dimensions=widths)
