"""Short names of dimensions, for people."""

from __future__ import annotations

# The letters of XLA's document on shapes and layout, dimension 0 first.
_LETTERS = {1: "x", 2: "yx", 3: "zyx", 4: "pzyx"}


def dimension_labels(rank: int) -> tuple[str, ...]:
    """A short name for every dimension: XLA's letters up to rank 4, else d0, d1, ...

    >>> dimension_labels(3), dimension_labels(5)[:2]
    (('z', 'y', 'x'), ('d0', 'd1'))
    """
    return tuple(_LETTERS.get(rank, "")) if rank in _LETTERS else tuple(f"d{dim}" for dim in range(rank))
