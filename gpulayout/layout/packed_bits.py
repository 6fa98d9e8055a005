"""Where the bits of an element are that shares its byte with others.

Place 0 of a byte is its lowest bits or, with the bit order "big", its highest:

    u2: a b c d e     "little"  0bddccbbaa 0b000000ee     "big"  0baabbccdd 0bee000000
"""

from __future__ import annotations

from typing import Any

from gpulayout.layout.shape import Shape


def is_big(shape: Shape) -> bool:
    """True when place 0 of a byte is its highest bits."""
    return shape.layout.bit_order == "big"


def byte_and_bit(shape: Shape, place: Any) -> tuple[Any, Any]:
    """The byte in which a place begins, and the lowest bit of its element there; `place` is an int or an array.

    >>> from gpulayout import parse_shape
    >>> [byte_and_bit(parse_shape(f"pred[32]{{0:{order}}}"), 18) for order in ("E(1)", "E(1,big)")]
    [(2, 2), (2, 5)]
    """
    byte, bit = divmod(place * shape.bits_per_element, 8)
    return byte, 8 - shape.bits_per_element - bit if is_big(shape) else bit
