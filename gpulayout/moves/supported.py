"""Which shapes can be planned at all: one check for every door, so that no layout is read as if it were a simpler
one.
"""

from __future__ import annotations

import math

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

MOST_SIZES = 128  # of dimensions and tiles: planning goes through them one inside the other


def is_plain(shape: Shape) -> bool:
    """True when order and padding say everything: no tiles, and no place after the last padded dimension."""
    return not shape.is_tiled and shape.buffer_size == math.prod(shape.buffer_dimensions)


def check_movable(shape: Shape) -> None:
    """LayoutError unless the bytes of the buffer can be moved with one stride for every dimension."""
    check_storable(shape)
    if not is_plain(shape):
        raise LayoutError(f"{shape} has tiles or a tail: it is moved in pieces, and not in one move of strides")


def check_storable(shape: Shape) -> None:
    """LayoutError unless the bytes of the buffer can be moved."""
    shape.validate_layout()
    count = shape.rank + sum(map(len, shape.layout.tiles))
    if shape.is_tiled and count > MOST_SIZES:
        raise LayoutError(
            f"tiles of {shape} and its dimensions are {count} sizes: {MOST_SIZES} is the limit for what can be moved"
        )
