"""NumPy's .npy files: checked before they are mapped, never unpickled, and written completely or not at all.

A .npy file is a header (dtype, dimensions, C or Fortran order) followed by the elements.  NumPy has no names for the
types of ml_dtypes, so they are stored as opaque bytes ("<V2" for bf16).  A raw file is the elements alone.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.lib import format as npy

from gpulayout.files.errors import FileError, Note, warn
from gpulayout.files.new_file import new_file
from gpulayout.files.standard_streams import File, input_name, opened, status_of, write_standard_output
from gpulayout.layout.checks import counted

MAX_RANK = 64  # NumPy's own limit
CHUNK = 1 << 24  # bytes read from a pipe at a time

Dtype = np.dtype[Any]
Elements = np.ndarray[Any, Dtype]  # 1-D


@dataclass(frozen=True)
class NpyHeader:
    """The header of a .npy file.

    name            what messages call the file
    dtype           the dtype in the file: native byte order, no objects, no fields
    dimensions      logical sizes; with `fortran_order` dimension 0 varies fastest
    """

    name: str
    dtype: Dtype
    dimensions: tuple[int, ...]
    fortran_order: bool

    @property
    def element_count(self) -> int:
        """The product of the dimensions."""
        return math.prod(self.dimensions)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.element_count * self.dtype.itemsize


@dataclass(frozen=True)
class NpyFile(NpyHeader):
    """A .npy file and its elements in the order of the file: 1-D, and memory-mapped unless they come from a pipe."""

    elements: Elements = field(repr=False, compare=False)


def read_header(file: File) -> NpyHeader:
    """The checked header of a .npy file.  No element is read, and nothing after the header from a pipe.

    `FileError` names the file if it is not a .npy file, has another size than its header says, or holds objects, fields
    or big-endian numbers.  The size of what a pipe still holds is not known, so it is not checked.
    """
    with opened(file) as stream:
        return _checked_header(input_name(file), stream)


def open_npy(file: File) -> NpyFile:
    """A .npy file, checked as in `read_header`.  A file is mapped; a pipe is read to its end, which is checked too."""
    with opened(file) as stream:
        header = _checked_header(input_name(file), stream)
        needed = f"its header ({header.dtype.str} of dimensions {header.dimensions})"
        elements = _elements(header.name, stream, header.dtype, header.element_count, needed)
        return NpyFile(header.name, header.dtype, header.dimensions, header.fortran_order, elements)


def open_raw(file: File, dtype: Dtype, count: int, needed: str) -> NpyFile:
    """A raw file of `count` elements; `needed` names in an error what asks for so many."""
    name = input_name(file)
    with opened(file) as stream:
        _check_size(name, stream, count * dtype.itemsize, needed)
        return NpyFile(name, dtype, (count,), False, _elements(name, stream, dtype, count, needed))


def _checked_header(name: str, stream: BinaryIO) -> NpyHeader:
    header = NpyHeader(name, *_parsed_header(name, stream))
    _check_size(name, stream, header.nbytes, f"its header ({header.dtype.str} of dimensions {header.dimensions})")
    return header


def _parsed_header(name: str, stream: BinaryIO) -> tuple[Dtype, tuple[int, ...], bool]:
    try:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"format version {version} is only used for dtypes with fields")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers from Python 2
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            dimensions, fortran_order, dtype = read(stream)
    except OSError:
        raise
    except Exception as error:  # the header is a Python literal, and a hostile one can fail in many ways
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise FileError(f"{name}: not a .npy file that can be read: {reason[:200]}") from None
    _check_dtype(name, dtype)
    if any(type(size) is not int or size < 0 for size in dimensions) or len(dimensions) > MAX_RANK:
        raise FileError(f"{name}: the dimensions {str(dimensions)[:200]} are not at most {MAX_RANK} sizes of 0 or more")
    return dtype, dimensions, fortran_order


def _check_dtype(name: str, dtype: Dtype) -> None:
    if dtype.hasobject:
        raise FileError(f"{name}: it holds Python objects, which are never unpickled")
    if dtype.names or dtype.subdtype:
        raise FileError(f"{name}: its dtype {str(dtype)[:80]} has fields, but a layout has plain elements")
    if not dtype.itemsize:
        raise FileError(f"{name}: its elements ({dtype.str}) take no bytes")
    if not dtype.isnative:
        raise FileError(f"{name}: its dtype {dtype.str} is big-endian: convert it to native byte order first")


def _check_size(name: str, stream: BinaryIO, nbytes: int, needed: str) -> None:
    """Check that a regular file ends `nbytes` after the place reached so far."""
    status = status_of(stream)
    if status and status.st_size != stream.tell() + nbytes:
        raise FileError(
            f"{name}: the file has {counted(status.st_size, 'byte')}, but {needed} needs {stream.tell() + nbytes}"
        )


def _elements(name: str, stream: BinaryIO, dtype: Dtype, count: int, needed: str) -> Elements:
    """The elements from here on, mapped or read."""
    if status_of(stream):
        return _mapped(stream, "r", dtype, stream.tell(), count)
    nbytes = count * dtype.itemsize
    if nbytes > sys.maxsize:
        raise FileError(f"{name}: {needed} needs {nbytes} bytes, more than memory can hold")
    elements = np.empty(count, dtype)
    memory, place = elements.view(np.uint8).data, 0
    while place < nbytes and (read := cast(io.BufferedIOBase, stream).readinto(memory[place : place + CHUNK])):
        place += read
    if place < nbytes or stream.read(1):
        found = f"only {counted(place, 'byte')}" if place < nbytes else f"more than {counted(place, 'byte')}"
        raise FileError(f"{name}: there are {found} of elements, but {needed} needs {nbytes}")
    return elements


@contextlib.contextmanager
def new_npy(
    file: File,
    dtype: Dtype,
    dimensions: tuple[int, ...],
    *,
    overwrite: bool,
    raw: bool = False,
    note: Note = warn,
) -> Iterator[Elements]:
    """The elements of a new .npy file in C order, 1-D, to fill inside the `with`; with `raw`, of a raw file.

    Those of a file are memory-mapped, see `new_file`.  Standard output gets its bytes when the block has ended without
    an error.
    """
    header = b"" if raw else _header_bytes(dtype, dimensions)
    if not isinstance(file, Path):
        elements = np.empty(math.prod(dimensions), dtype)
        yield elements
        write_standard_output(header, elements.view(np.uint8).data)
        return
    with new_file(file, overwrite=overwrite, note=note) as stream:
        stream.write(header)
        offset = stream.tell()
        stream.flush()
        reserve_space(stream, offset + math.prod(dimensions) * dtype.itemsize)
        elements = _mapped(stream, "r+", dtype, offset, math.prod(dimensions))
        yield elements
        if isinstance(elements, np.memmap):
            elements.flush()


def _header_bytes(dtype: Dtype, dimensions: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    npy.write_array_header_1_0(
        stream, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": dimensions}
    )
    return stream.getvalue()


def _mapped(stream: BinaryIO, mode: Literal["r", "r+"], dtype: Dtype, offset: int, count: int) -> Elements:
    """Elements of an open file.  Its name may soon mean another file, or one that may not be opened again."""
    if not count:  # an empty range of a file cannot be mapped
        return np.empty(count, dtype)
    # The stubs leave out that any binary stream will do.
    mapped: Elements = np.memmap(cast(Any, stream), dtype, mode, offset, (count,))
    return mapped


def reserve_space(stream: BinaryIO, size: int) -> None:
    """Take the space now: a full disk is an OSError here, but kills a process that writes to mapped memory."""
    if size and hasattr(os, "posix_fallocate"):  # which refuses to reserve nothing
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        os.ftruncate(stream.fileno(), size)
