"""The fraction of a plain copy's speed that each kind of case must reach on a GPU, counting bytes read and written."""

from __future__ import annotations

ALIGNED = {1: 0.92, 2: 0.92, 4: 0.95, 8: 0.95, 16: 0.95}  # 2-D transposes by element bytes, both extents whole vectors
ODD = {1: 0.60, 2: 0.75, 4: 0.85, 8: 0.85}  # with extents that are not
ATTENTION = 0.95
THREE_CHANNELS = 0.90
PACKING = 0.92  # of bytes read and bytes written once
TILES = 0.85  # whole tiles, to them and from them
INDEX = 0.88
TTC_ROW = 0.75  # every one of the 57

_VECTOR = 16


def transpose_goal(itemsize: int, rows: int, columns: int) -> float | None:
    """The goal of a 2-D transpose; None if a side is no longer than a vector, which leaves no work for tiles."""
    if min(rows, columns) * itemsize <= _VECTOR:
        return None
    aligned = rows * itemsize % _VECTOR == 0 and columns * itemsize % _VECTOR == 0
    return (ALIGNED if aligned else ODD).get(itemsize)
