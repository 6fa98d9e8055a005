"""NumPy's names for layouts: the orders "C" and "F", and strides in bytes.

np.zeros((2, 3), np.float32)                  order "C", strides (12, 4)     {1,0}
np.zeros((2, 3), np.float32, order="F")       order "F", strides (4, 8)      {0,1}
np.zeros((2, 4), np.float32)[:, :3]           strides (16, 4)                {1,0:PD(2,4)}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.interop.orders import said_in_full
from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import shape_from_strides
from gpulayout.layout.text import as_shape

ORDERS = ("C", "F")


def from_numpy_order(order: str, rank: SupportsIndex) -> Layout:
    """The layout of a new NumPy array in this order; the inverse of `to_numpy_order`.

    Parameters
    ----------
    order : {"C", "F"}
        "C" is descending (row-major), "F" ascending (column-major).
    rank : int
        Number of dimensions.

    Raises
    ------
    LayoutError
        Any other order.  "A" and "K" keep the order of an array and so do not name one.

    Examples
    --------
    >>> from_numpy_order("F", 3)
    Layout((0, 1, 2))
    """
    if not isinstance(order, str) or order not in (*ORDERS, "A", "K"):
        raise LayoutError(f"order {checks.value_text(order)} is not one of {', '.join(ORDERS)}")
    if order in ("A", "K"):
        raise LayoutError(
            f"order {order!r} names no layout, it keeps the order of an array: gl.shape_of(array).layout says which"
        )
    return Layout.descending(rank) if order == "C" else Layout.ascending(rank)


def to_numpy_order(layout: Shape | Layout | str) -> Literal["C", "F"]:
    """The NumPy order of a layout; "C" where both are right, at ranks 0 and 1; the inverse of `from_numpy_order`.

    Parameters
    ----------
    layout : Layout, Shape or str

    Raises
    ------
    LayoutError
        Neither order has this layout: the dimensions run otherwise, or there is padding, a tile or another field.

    Examples
    --------
    >>> to_numpy_order("{0,1,2}"), to_numpy_order("f32[2,3]")
    ('F', 'C')
    """
    order = said_in_full(layout, "a NumPy order")
    if order.is_descending:
        return "C"
    if order.is_ascending:
        return "F"
    raise LayoutError(
        f"minor_to_major {order.minor_to_major} of {layout} cannot be expressed as a NumPy order: "
        "C is descending and F is ascending"
    )


def from_numpy_strides(
    strides: Iterable[SupportsIndex], dimensions: Iterable[SupportsIndex], element_type: str | DTypeLike
) -> Shape:
    """The shape of a NumPy array from its strides; gaps between them become padded dimensions.

    Parameters
    ----------
    strides : iterable of int
        Bytes between neighbours along each dimension: `array.strides`.
    dimensions : iterable of int
        Logical sizes: `array.shape`.
    element_type : str or DTypeLike
        An XLA name, or what `ElementType.of` takes: `array.dtype`.

    Raises
    ------
    LayoutError
        No layout has these strides: they are negative, zero or overlapping, not whole elements, or a gap is not a
        multiple of the stride below it.  The message names the dimension.

    See Also
    --------
    to_numpy_strides : the inverse.
    gpulayout.shape_of : the shape of an array, without regard to the strides of dimensions of size 1.

    Notes
    -----
    The stride of a dimension of size 1 moves nothing.  It counts only where all strides together are those of a dense
    array, and then tells which order was meant.

    Examples
    --------
    >>> str(from_numpy_strides((4, 12), (2, 3), "f32"))
    'f32[2,3]{0,1:PD(3,3)}'
    """
    element_type, dimensions = ElementType.of(element_type), checks.sizes("dimensions", dimensions)
    named = [from_numpy_order(order, len(dimensions)) for order in ORDERS]
    return shape_from_strides(strides, dimensions, element_type, itemsize=element_type.itemsize, named=named)


def to_numpy_strides(shape: Shape | str) -> tuple[int, ...]:
    """The strides of a NumPy array whose elements lie where the shape puts them: bytes between neighbours.

    Parameters
    ----------
    shape : Shape or str

    Raises
    ------
    LayoutError
        Tiles, or elements that share a byte.

    See Also
    --------
    from_numpy_strides : the inverse.
    gpulayout.view : the array itself, over a buffer.

    Notes
    -----
    Strides say where elements lie.  They do not say what fills padding, nor how wide the most major dimension is.

    Examples
    --------
    >>> to_numpy_strides("f32[2,3]{0,1:PD(3,5)}")
    (4, 12)
    """
    return as_shape(shape).byte_strides
