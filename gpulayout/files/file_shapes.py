"""The shape of what a .npy file holds: an N-d array, described by its header, or a buffer, described by the user.

An *array* is logical and N-d, in C or Fortran order.  It is a buffer too: descending in C order, ascending in Fortran
order.  A *buffer* is in some layout.  Its file is 1-D, unless a .npy file can say the layout: then it is the file of
the array as well, and keeps the dimensions.
"""

from __future__ import annotations

from typing import Literal

from gpulayout.files.errors import FileError
from gpulayout.files.npy import MAX_RANK, Header
from gpulayout.layout.checks import counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape

Order = Literal["C", "F"]
ORDERS: tuple[Order, ...] = ("C", "F")
IF_A_BUFFER = "; if it is a buffer, gpulayout relayout --from SHAPE moves it"


def npy_order(shape: Shape) -> Order | None:
    """The order in which a .npy file can say what a buffer of this shape is, or None.

    "C" or "F" if the buffer is the array in that order, one element after the other, however its layout is written.
    Where both orders are the same it is "C", as NumPy has it.

    >>> from gpulayout import parse_shape
    >>> [npy_order(parse_shape(f"f32[2,3]{layout}")) for layout in ("{1,0}", "{0,1:PD(2,3)}", "{0,1:PD(3,5)}")]
    ['C', 'F', None]
    """
    for order in ORDERS:
        if shape.rank <= MAX_RANK and _is_array(shape, order):
            return order
    return None


def _is_array(shape: Shape, order: Order) -> bool:
    """True when a buffer of the shape is the array in this order, one element after the other."""
    array = Shape(shape.element_type, shape.dimensions, _layout(shape.rank, order))
    return same_buffer(shape, array)


def _order(header: Header) -> Order:
    return "F" if header.fortran_order else "C"


def _layout(rank: int, order: Order) -> Layout:
    return Layout.descending(rank) if order == "C" else Layout.ascending(rank)


def buffer_shape(source: Header, shape: Shape) -> Shape:
    """The given shape, if the file holds such a buffer: a 1-D one, or an N-d array in the order of the shape."""
    if not shape.is_packed:
        _check_element_type(source, shape)
    elif source.dtype != shape.buffer_dtype:
        raise FileError(
            f"{source.name}: its elements are {source.dtype.name}, but {shape} is packed, and its buffer is uint8"
        )
    if source.dimensions == shape.dimensions and _is_array(shape, _order(source)):
        return shape
    if len(source.dimensions) != 1:
        order = "Fortran" if source.fortran_order else "C"
        raise FileError(
            f"{source.name}: it holds an array of dimensions {source.dimensions} in {order} order, which is not a "
            f"buffer of {shape}",
            "; gpulayout pack reads an N-d array, and so does gpulayout relayout without --from",
        )
    if source.element_count != shape.buffer_length:
        unit = "byte" if shape.is_packed else "element"
        raise FileError(
            f"{source.name}: it has {counted(source.element_count, unit)}, but a buffer of {shape} has "
            f"{shape.buffer_length}"
        )
    return shape


def array_shape(source: Header, to: Shape | Layout | None) -> Shape:
    """The shape of an array file.  Its header has everything except the names of types that NumPy does not know.

    to   the layout that the array will get, or its whole shape, which names the type; None if it stays where it is
    """
    layout = _layout(len(source.dimensions), _order(source))
    if isinstance(to, Shape):
        if to.dimensions != source.dimensions:
            raise FileError(
                f"{source.name}: it holds an array of dimensions {source.dimensions}, but {to} has {to.dimensions}",
                IF_A_BUFFER,
            )
        _check_element_type(source, to, f"; dtype='{to.element_type}' converts the elements on the way")
        return Shape(to.element_type, source.dimensions, layout)
    if isinstance(to, Layout) and len(source.dimensions) == 1 < to.rank:
        raise FileError(
            f"{source.name}: it holds an array of dimensions {source.dimensions}, but the layout {to} orders {to.rank} "
            "dimensions",
            IF_A_BUFFER,
        )
    if source.dtype.kind == "V":
        sizes = ",".join(map(str, source.dimensions))
        example = f"'{_likely_type(source, to)}[{sizes}]{layout if to is None else to}'"
        raise FileError(
            f"{source.name}: its elements are opaque ({source.dtype.str}); name their type with a whole shape",
            f", such as {'gpulayout show' if to is None else '--to'} {example}",
        )
    try:
        return Shape(source.dtype.newbyteorder("="), source.dimensions, layout)
    except TypeError as error:
        raise FileError(f"{source.name}: {error}") from None


def changing_shape(source: Header, to: Shape | Layout | None) -> Shape:
    """The same for an array whose elements change on the way: a shape that it will get names their new type."""
    if source.dtype.kind == "V":
        raise FileError(
            f"{source.name}: its elements are opaque ({source.dtype.str}), so they cannot change: name the source's "
            "shape",
            ", with gpulayout relayout --from SHAPE",
        )
    return array_shape(source, to if isinstance(to, Layout) else None)


def _likely_type(source: Header, layout: Layout | None) -> str:
    """A type for an example that opaque elements may have and the layout can store."""
    if layout is not None and layout.element_size_in_bits in (1, 2, 4):
        return f"s{layout.element_size_in_bits}"
    return "f8e4m3fn" if source.dtype.itemsize == 1 else "bf16"


def _check_element_type(source: Header, shape: Shape, advice: str = "") -> None:
    """Check that the file holds unpacked elements of the shape's type; what else to write ends the message.

    A type that NumPy lacks is stored as opaque bytes or unsigned integers of its width.
    """
    element_type: ElementType = shape.element_type
    opaque = source.dtype.kind == "V" or (element_type.is_extended and source.dtype == element_type.carrier)
    if source.dtype == element_type.dtype or (opaque and source.dtype.itemsize == element_type.itemsize):
        return
    also = f" (or {element_type.carrier.name})" if element_type.is_extended else ""
    needed = f"{shape.dtype.name}{also}{advice}"
    raise FileError(f"{source.name}: its elements are {source.dtype.name}, but {shape} needs {needed}")
