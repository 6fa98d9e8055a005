"""How plans put into words what moves have in common."""

from __future__ import annotations

from collections.abc import Sequence


def tile_text(major_first: Sequence[int]) -> str:
    """The sizes of a tile, and which is which: the last one runs along the target's minor axis."""
    return f"{' x '.join(map(str, major_first))} elements (minor in the target last)"
