"""Where the elements of a shape lie: its stride table, which `digits` makes, and the bits of an element in its byte.

Place 0 of a byte is its lowest bits or, with the bit order "big", its highest:

    u2: a b c d e     "little"  0bddccbbaa 0b000000ee     "big"  0baabbccdd 0bee000000
"""

from __future__ import annotations

import functools
from typing import Any

from gpulayout.layout.digits import StrideTable, table_of
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape


def stride_table(shape: Shape | str) -> StrideTable:
    """The stride table of a shape: where every element lies, as digits of the linear index.

    Parameters
    ----------
    shape : Shape or str
        A shape, or its text.

    Returns
    -------
    StrideTable
        The digits, most minor first.  Strides count elements.

    Raises
    ------
    LayoutError
        A dimension is unbounded, or the text is not an array shape.

    See Also
    --------
    linearize, delinearize : the same, for arrays of indices and with checks.

    Examples
    --------
    >>> table = stride_table("f32[2,3]{0,1:PD(3,5)}")
    >>> table.digits
    (Digit(dim=0, step=1, extent=3, stride=1), Digit(dim=1, step=1, extent=5, stride=3))
    >>> table.linear_of((1, 2)), table.index_of(5)
    (7, (2, 1))

    A tiled dimension has several digits: two columns and two rows in a tile, three tiles across, two tiles down.

    >>> for digit in stride_table("f32[3,5]{1,0:T(2,2)}").digits:
    ...     print(digit)
    Digit(dim=1, step=1, extent=2, stride=1)
    Digit(dim=0, step=1, extent=2, stride=2)
    Digit(dim=1, step=2, extent=3, stride=4)
    Digit(dim=0, step=2, extent=2, stride=12)
    """
    return _table(as_shape(shape))


# Compiling the table takes most of the time of a single index.  An entry takes about 3 KB.
@functools.lru_cache(maxsize=1024)
def _table(shape: Shape) -> StrideTable:
    layout = shape.layout
    return table_of(
        shape.dimensions, shape.buffer_dimensions, layout.major_to_minor, layout.tiles, layout.tail_padding_alignment
    )


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
