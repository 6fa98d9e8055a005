"""Whether dimensions and a layout go together; what only a shape can check, because it knows both."""
from __future__ import annotations

import math

from gpulayout.model import checks
from gpulayout.model.errors import LayoutError
from gpulayout.model.layout import Layout


def check_layout(dimensions: tuple[int, ...], layout: Layout, text: str) -> None:
    """LayoutError unless the layout has the rank of the dimensions and is wide enough; `text` is the shape without layout."""
    rank = len(dimensions)
    if layout.rank != rank:
        raise LayoutError(f"minor_to_major {checks.shown(layout.minor_to_major)} has {checks.counted(layout.rank, 'entry')} "
                          f"for {text}: the shape has {checks.counted(rank, 'dimension')}")
    for dim, (size, width) in enumerate(zip(dimensions, layout.padded_dimensions or ())):
        if width < size:
            raise LayoutError(f"padded_dimensions {checks.shown(layout.padded_dimensions)} is smaller than dimensions "
                              f"{checks.shown(dimensions)} for {text}{layout}: dimension {dim} needs at least {size}")


def check_size(dimensions: tuple[int, ...], layout: Layout, itemsize: int, text: str) -> None:
    """LayoutError unless every stride and the size in bytes fit 63 bits; a size of 0 counts as 1, so the order does not matter.

    XLA multiplies from the left and stops at the first 0: it takes [0,2^62,2^62] and refuses [2^62,2^62,0].
    """
    widths = layout.padded_dimensions or dimensions
    span = itemsize * math.prod(max(width, 1) for width in widths)
    if span > checks.INT64_MAX:
        field = "padded_dimensions" if layout.padded_dimensions else "dimensions"
        zeros = ", zeros counted as 1" if 0 in widths else ""
        raise LayoutError(f"{field} {checks.shown(widths)} is too large for {text}{layout}: "
                          f"{checks.number_text(span)} bytes{zeros}, the limit is 2^63-1")
