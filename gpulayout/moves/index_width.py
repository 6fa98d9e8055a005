"""How many bits the offsets of a move or an index conversion need.  Only this file decides that."""

from __future__ import annotations

_INT31 = 2**31


def index_bits(*reaches: int) -> int:
    """32 when every given offset, count and place fits 31 bits, else 64.

    Distances decide, not element counts: ten elements 2^30 apart need 64 bits.

    >>> index_bits(2**31 - 1), index_bits(-2**31), index_bits(2**31)
    (32, 64, 64)
    """
    return 32 if all(abs(reach) < _INT31 for reach in reaches) else 64
