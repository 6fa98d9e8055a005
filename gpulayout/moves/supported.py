"""Which shapes can be planned.  Every function uses these checks, so that no layout is mistaken for a simpler one."""

from __future__ import annotations

import math

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

MOST_SIZES = 128  # dimensions and tile sizes together: planning nests one loop in the other


def is_plain(shape: Shape) -> bool:
    """True when order and padding describe the whole layout: no tiles, and no tail padding."""
    return not shape.is_tiled and shape.buffer_size == math.prod(shape.buffer_dimensions)


def check_storable(shape: Shape) -> None:
    """LayoutError unless the bytes of the buffer can be moved."""
    shape.validate_layout()
    count = shape.rank + sum(map(len, shape.layout.tiles))
    if shape.is_tiled and count > MOST_SIZES:
        raise LayoutError(f"{shape} has {count} dimensions and tile sizes: {MOST_SIZES} is the limit for a move")
