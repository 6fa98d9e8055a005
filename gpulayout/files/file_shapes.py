"""The shape of what a .npy file holds: an N-d array, described by its header, or a buffer, described by the user.

An *array* is logical and N-d, in C or Fortran order.  It is a buffer too: descending in C order, ascending in Fortran
order.  A *buffer* is 1-D, in some layout.
"""

from __future__ import annotations

from gpulayout.files.errors import FileError
from gpulayout.files.npy import NpyFile, NpyHeader
from gpulayout.layout.checks import counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


def buffer_shape(source: NpyFile, shape: Shape) -> Shape:
    """The given shape, if the file holds such a buffer."""
    if not shape.is_packed:
        _check_element_type(source, shape)
    elif source.dtype != shape.buffer_dtype:
        raise FileError(
            f"{source.name}: its elements are {source.dtype.name}, but {shape} is packed, and its buffer is uint8"
        )
    if len(source.dimensions) != 1:
        raise FileError(
            f"{source.name}: it holds an array of dimensions {source.dimensions}, but --from is for a 1-D buffer; "
            "gpulayout pack reads an N-d array"
        )
    if source.element_count != shape.buffer_length:
        unit = "byte" if shape.is_packed else "element"
        raise FileError(
            f"{source.name}: it has {counted(source.element_count, unit)}, but a buffer of {shape} has "
            f"{shape.buffer_length}"
        )
    return shape


def array_shape(source: NpyHeader, to: Shape | Layout | None) -> Shape:
    """The shape of an array file.  Its header has everything except the names of types that NumPy does not know.

    to   the layout that the array will get, or its whole shape, which names the type; None if it stays where it is
    """
    layout = (Layout.ascending if source.fortran_order else Layout.descending)(len(source.dimensions))
    if isinstance(to, Shape):
        if to.dimensions != source.dimensions:
            raise FileError(
                f"{source.name}: it holds an array of dimensions {source.dimensions}, but --to {to} has "
                f"{to.dimensions}; if it is a buffer, gpulayout relayout --from SHAPE moves it"
            )
        _check_element_type(source, to)
        return Shape(to.element_type, source.dimensions, layout)
    if isinstance(to, Layout) and len(source.dimensions) == 1 < to.rank:
        raise FileError(
            f"{source.name}: it holds an array of dimensions {source.dimensions}, but --to orders {to.rank} "
            "dimensions; if it is a buffer, gpulayout relayout --from SHAPE moves it"
        )
    if source.dtype.kind == "V":
        sizes = ",".join(map(str, source.dimensions))
        example = f"'{_likely_type(source, to)}[{sizes}]{layout if to is None else to}'"
        raise FileError(
            f"{source.name}: its elements are opaque ({source.dtype.str}); name their type with a whole shape, such "
            f"as {'gpulayout show' if to is None else '--to'} {example}"
        )
    try:
        return Shape(source.dtype, source.dimensions, layout)
    except TypeError as error:
        raise FileError(f"{source.name}: {error}") from None


def _likely_type(source: NpyHeader, layout: Layout | None) -> str:
    """A type for an example that opaque elements may have and the layout can store."""
    if layout is not None and layout.element_size_in_bits in (1, 2, 4):
        return f"s{layout.element_size_in_bits}"
    return "f8e4m3fn" if source.dtype.itemsize == 1 else "bf16"


def _check_element_type(source: NpyHeader, shape: Shape) -> None:
    """Check that the file holds unpacked elements of the shape's type.

    A type that NumPy lacks is stored as opaque bytes or unsigned integers of its width.
    """
    element_type: ElementType = shape.element_type
    opaque = source.dtype.kind == "V" or (element_type.is_extended and source.dtype == element_type.carrier)
    if source.dtype == element_type.dtype or (opaque and source.dtype.itemsize == element_type.itemsize):
        return
    also = f" (or {element_type.carrier.name})" if element_type.is_extended else ""
    raise FileError(f"{source.name}: its elements are {source.dtype.name}, but {shape} needs {shape.dtype.name}{also}")
