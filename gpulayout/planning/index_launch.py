"""How index conversion is launched: what both kinds of plan share."""
from __future__ import annotations

import math

from gpulayout.planning.launch import ITEMS, THREADS

MODES = {"raise": 0, "wrap": 1, "clip": 2, "mark": 3}          # as GplMode in kernels/coordinate.cuh


class IndexGrid:
    """A plan whose kernel converts 4 indices in a thread."""

    @staticmethod
    def grid(count: int) -> tuple[int, int]:
        """Blocks of 256 threads for `count` indices."""
        blocks = math.ceil(count / (THREADS * ITEMS))
        return min(blocks, 2**31 - 1), math.ceil(blocks / (2**31 - 1))
