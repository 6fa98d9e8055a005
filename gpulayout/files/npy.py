"""NumPy's .npy files: their header, read and checked, never unpickled, and written; and the shape of what they hold.

A .npy file is a header (dtype, dimensions, C or Fortran order) followed by the elements.  NumPy has no names for the
types of ml_dtypes, so they are stored as opaque bytes ("<V2" for bf16).

What it holds is an N-d array, described by its header, or a buffer, described by the user.  An *array* is logical and
N-d, in C or Fortran order.  It is a buffer too: descending in C order, ascending in Fortran order.  A *buffer* is in
some layout.  Its file is 1-D, unless a .npy file can say the layout: then it is the file of the array as well, and
keeps the dimensions.
"""

from __future__ import annotations

import ast
import codecs
import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from gpulayout.files.errors import FileError
from gpulayout.files.other_formats import refuse_other_format
from gpulayout.files.standard_streams import File, input_name, opened, status_of
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape

MAGIC = b"\x93NUMPY"
VERSIONS = {(1, 0): (2, npy.read_array_header_1_0), (2, 0): (4, npy.read_array_header_2_0)}  # bytes of the length
MOST_HEADER = 10_000  # bytes; NumPy's own limit, which NumPy checks only when it has read the header
MAX_RANK = 64  # NumPy's own limit

IF_A_BUFFER = "; if it is a buffer, gpulayout relayout --from SHAPE moves it"

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class Header:
    """What the elements of a file are: the header of a .npy file, or what the caller says about plain bytes.

    name            what messages call the file
    dtype           the dtype in the file: no objects, no fields; `native_header` makes it native
    dimensions      logical sizes; with `fortran_order` dimension 0 varies fastest
    needed          what asks for `nbytes` bytes, for messages about a file that has fewer or more
    swapped         the bytes of each number are in the other order than the machine's, which `dtype` no longer says
    """

    name: str
    dtype: Dtype
    dimensions: tuple[int, ...]
    fortran_order: bool
    needed: str = ""
    swapped: bool = False

    @property
    def element_count(self) -> int:
        """The product of the dimensions."""
        return math.prod(self.dimensions)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.element_count * self.dtype.itemsize


def read_header(file: File) -> Header:
    """The checked header of a .npy file.  No element is read, and nothing after the header from a pipe.

    `FileError` names the file if it is not a .npy file, has another size than its header says, or holds objects or
    fields.  The size of what a pipe still holds is not known, so it is not checked.
    """
    with opened(file) as stream:
        header = parse_header(input_name(file), stream)
        check_size(header, stream)
        return header


def parse_header(name: str, stream: BinaryIO, advice: str = "") -> Header:
    """The checked header at the offset that a stream has reached, which is then that of the first element.

    advice   of the error for a file that is no .npy file, see `FileError`
    """
    beginning = stream.read(len(MAGIC) + 2)
    refuse_other_format(name, beginning)
    try:
        if not beginning.startswith(MAGIC) or len(beginning) < len(MAGIC) + 2:
            mark = " (a byte order mark, which text editors write: this is no copy of the bytes)"
            has_mark = beginning.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            raise ValueError(f"it begins with {beginning!r}{mark * has_mark} instead of {MAGIC!r} and a version")
        version = beginning[-2], beginning[-1]
        if version not in VERSIONS:
            raise ValueError(f"its format version is {'.'.join(map(str, version))}, not 1.0 or 2.0")
        dimensions, fortran_order, dtype = _parsed(stream, *VERSIONS[version])
    except ValueError as error:
        raise FileError(f"{name}: not a .npy file that can be read: {error}", advice) from None
    _check_dtype(name, dtype)
    if any(type(size) is not int or size < 0 for size in dimensions) or len(dimensions) > MAX_RANK:
        raise FileError(f"{name}: the dimensions {str(dimensions)[:200]} are not at most {MAX_RANK} sizes of 0 or more")
    return Header(name, dtype, dimensions, fortran_order, f"its header ({dtype.str} of dimensions {dimensions})")


def _parsed(stream: BinaryIO, length_bytes: int, parse: Callable[[BinaryIO], Any]) -> Any:
    """What NumPy finds in a header.  Its length is checked first: four bytes can ask for 4 GB of memory."""
    length = stream.read(length_bytes)
    size = int.from_bytes(length, "little")
    if size > MOST_HEADER:
        raise ValueError(f"its header has {size} bytes, more than {MOST_HEADER}")
    header = stream.read(size) if len(length) == length_bytes else b""
    if len(length) < length_bytes or len(header) < size:
        raise ValueError("it ends inside its header")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers from Python 2
        try:
            return parse(io.BytesIO(length + header))
        except Exception:  # the header is a Python literal, and a hostile one can fail in many ways
            raise ValueError(_why_not(header.decode("latin1"))) from None


def _why_not(header: str) -> str:
    """What is wrong with a header that NumPy cannot read."""
    shown = clipped(repr(header.strip()), 100)
    try:
        fields = ast.literal_eval(header.strip())
        keys = sorted(fields) if isinstance(fields, dict) else None
    except Exception:
        keys = None
    if keys is None:
        return f"its header {shown} is not a Python dictionary of plain values"
    if keys != ["descr", "fortran_order", "shape"]:
        return f"its header {shown} does not have the keys descr, fortran_order and shape, and no others"
    order, shape = fields["fortran_order"], fields["shape"]
    if not isinstance(order, bool):
        return f"its fortran_order {clipped(value_text(order), 60)} is neither True nor False"
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return f"its shape {clipped(value_text(shape), 60)} is not a tuple of integers"
    return f"its descr {clipped(value_text(fields['descr']), 60)} is not a dtype of NumPy"


def _check_dtype(name: str, dtype: Dtype) -> None:
    if dtype.hasobject:
        raise FileError(f"{name}: it holds Python objects, which are never unpickled")
    if dtype.names or dtype.subdtype:
        raise FileError(f"{name}: its dtype {str(dtype)[:80]} has fields, but a layout has plain elements")
    if not dtype.itemsize:
        raise FileError(f"{name}: its elements ({dtype.str}) take no bytes")


def native_header(header: Header) -> Header:
    """The same with the dtype in the machine's byte order: `swapped` says of big-endian numbers what they are."""
    return replace(header, dtype=header.dtype.newbyteorder("="), swapped=not header.dtype.isnative)


def check_size(header: Header, stream: BinaryIO, skipped: int = 0, *, strict: bool | None = None) -> None:
    """Check that a regular file has so many bytes from here on, then those of all elements, and no more.

    strict   of a buffer in plain bytes: False lets more follow; None for a file whose own header says its size
    """
    status = status_of(stream)
    if status and status.st_size != (needed := stream.tell() + skipped + header.nbytes):
        rest = status.st_size - needed
        if rest > 0 and strict is False:
            return
        is_longer = rest > 0 and strict is not None
        raise FileError(
            f"{header.name}: the file has {counted(status.st_size, 'byte')}, but {header.needed} needs {needed}"
            + f": {counted(rest, 'byte')} would be left over" * is_longer,
            f"; --no-strict ignores {'it' if rest == 1 else 'them'}" * is_longer,
        )


def header_bytes(header: Header) -> bytes:
    """The header as a .npy file begins with it."""
    stream = io.BytesIO()
    npy.write_array_header_1_0(
        stream,
        {"descr": npy.dtype_to_descr(header.dtype), "fortran_order": header.fortran_order, "shape": header.dimensions},
    )
    return stream.getvalue()


def is_npy_name(file: File) -> bool:
    """True when a new file gets a header: its name ends in .npy, or it is standard output."""
    return not isinstance(file, Path) or file.name.lower().endswith(".npy")


# ---- the shape of what a file holds ----------------------------------------------------------------------------------


def npy_order(shape: Shape) -> Literal["C", "F"] | None:
    """The order in which a .npy file can say what a buffer of this shape is, or None.

    "C" or "F" if the buffer is the array in that order, one element after the other, however its layout is written.
    Where both orders are the same it is "C", as NumPy has it.

    >>> from gpulayout import parse_shape
    >>> [npy_order(parse_shape(f"f32[2,3]{layout}")) for layout in ("{1,0}", "{0,1:PD(2,3)}", "{0,1:PD(3,5)}")]
    ['C', 'F', None]
    """
    if shape.rank > MAX_RANK:
        return None
    return "C" if _is_array(shape, False) else "F" if _is_array(shape, True) else None


def _is_array(shape: Shape, fortran_order: bool) -> bool:
    """True when a buffer of the shape is the array in this order, one element after the other."""
    array = Shape(shape.element_type, shape.dimensions, _layout(shape.rank, fortran_order))
    return same_buffer(shape, array)


def _layout(rank: int, fortran_order: bool) -> Layout:
    return Layout.ascending(rank) if fortran_order else Layout.descending(rank)


def buffer_shape(source: Header, shape: Shape, *, strict: bool = True) -> Shape:
    """The given shape, if the file holds such a buffer: a 1-D one, or an N-d array in the order of the shape.

    strict   False takes the first elements of a longer 1-D one
    """
    if not shape.is_packed:
        _check_element_type(source, shape)
    elif source.dtype != shape.buffer_dtype:
        raise FileError(
            f"{source.name}: its elements are {source.dtype.name}, but {shape} is packed, and its buffer is uint8"
        )
    if source.dimensions == shape.dimensions and _is_array(shape, source.fortran_order):
        return shape
    if len(source.dimensions) != 1:
        order = "Fortran" if source.fortran_order else "C"
        raise FileError(
            f"{source.name}: it holds an array of dimensions {source.dimensions} in {order} order, which is not a "
            f"buffer of {shape}",
            "; gpulayout pack reads an N-d array, and so does gpulayout relayout without --from",
        )
    is_longer = source.element_count > shape.buffer_length
    if source.element_count != shape.buffer_length and (strict or not is_longer):
        unit = "byte" if shape.is_packed else "element"
        raise FileError(
            f"{source.name}: it has {counted(source.element_count, unit)}, but a buffer of {shape} has "
            f"{shape.buffer_length}",
            f"; --no-strict takes the first {shape.buffer_length}" * is_longer,
        )
    return shape


def array_shape(source: Header, to: Shape | Layout | None) -> Shape:
    """The shape of an array file.  Its header has everything except the names of types that NumPy does not know.

    to   the layout that the array will get, or its whole shape, which names the type; None if it stays where it is
    """
    layout = _layout(len(source.dimensions), source.fortran_order)
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
