"""Text shared by the explanations of several plans."""

from __future__ import annotations

from collections.abc import Sequence


def tile_text(major_first: Sequence[int]) -> str:
    """The sizes of a tile; the last one runs along the target's minor axis."""
    return f"{' x '.join(map(str, major_first))} elements (minor in the target last)"
