"""The stride table of a shape, which `digits` makes from its order, widths, tiles and tail."""

from __future__ import annotations

import functools

from gpulayout.layout.arguments import as_shape
from gpulayout.layout.digits import StrideTable, table_of
from gpulayout.layout.shape import Shape


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
