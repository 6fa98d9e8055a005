"""One-dimensional arrays whose rows are interleaved by tiles, as TPUs keep them."""
from __future__ import annotations

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.errors import LayoutError
from gpulayout.model.shape import Shape


@takes_shapes("shape")
def packed_factor_for_1d_interleaved_array(shape: Shape) -> int:
    """How many elements, one from each of as many rows, lie together: k of the tiles T(a)(b)(k,1) of one dimension.

    LayoutError for any other tiles.  XLA: `PackedFactorFor1DInterleavedArray`, which looks no closer than at the number of
    tiles and the length of the last.

    >>> packed_factor_for_1d_interleaved_array("bf16[2048]{0:T(1024)(128)(2,1)}")
    2
    """
    tiles = shape.layout.tiles
    if shape.rank != 1 or [len(tile) for tile in tiles] != [1, 1, 2] or tiles[-1].sizes[1:] != (1,):
        text = f"tiles {''.join(map(str, tiles))}" if tiles else "no tiles"
        raise LayoutError(f"{text} of {shape} are not those of an interleaved array: one dimension with tiles T(a)(b)(k,1)")
    return tiles[-1].sizes[0]
