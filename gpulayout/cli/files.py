"""NumPy's .npy files: checked before they are mapped, never unpickled, and written completely or not at all.

A .npy file is a header (dtype, dimensions, C or Fortran order) followed by the elements.  NumPy has no names for the
types of ml_dtypes, so they are stored as opaque bytes ("<V2" for bf16).
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.lib import format as npy

from gpulayout.cli.failures import Failure
from gpulayout.cli.new_file import new_file

MAX_RANK = 64  # NumPy's own limit

Dtype = np.dtype[Any]
Elements = np.ndarray[Any, Dtype]  # 1-D


@dataclass(frozen=True)
class NpyFile:
    """The header of a .npy file, checked against the size of the file.

    dtype           the dtype in the file: native byte order, no objects, no fields
    dimensions      logical sizes; with `fortran_order` dimension 0 varies fastest
    elements        all elements in the order of the file: 1-D, memory-mapped, read-only
    """

    path: Path
    dtype: Dtype
    dimensions: tuple[int, ...]
    fortran_order: bool
    elements: Elements = field(repr=False, compare=False)

    @property
    def element_count(self) -> int:
        """The product of the dimensions."""
        return math.prod(self.dimensions)


def open_npy(path: Path) -> NpyFile:
    """The checked header of a .npy file.  No element is read.

    `Failure` names the file if it is not a .npy file, has another size than its header says, or holds objects, fields
    or big-endian numbers.
    """
    # Opening a pipe would wait for a writer.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Failure(f"{path}: not a regular file")
    with open(path, "rb") as stream:
        dtype, dimensions, fortran_order = _read_header(path, stream)
        offset, file_size = stream.tell(), os.fstat(stream.fileno()).st_size
        expected = offset + math.prod(dimensions) * dtype.itemsize
        if file_size != expected:
            raise Failure(
                f"{path}: the file has {file_size} bytes, but its header ({dtype.str} of dimensions {dimensions}) "
                f"needs {expected}"
            )
        return NpyFile(
            path, dtype, dimensions, fortran_order, _mapped(stream, "r", dtype, offset, math.prod(dimensions))
        )


def _read_header(path: Path, stream: BinaryIO) -> tuple[Dtype, tuple[int, ...], bool]:
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
        raise Failure(f"{path}: not a .npy file that can be read: {reason[:200]}") from None
    _check_dtype(path, dtype)
    if any(type(size) is not int or size < 0 for size in dimensions) or len(dimensions) > MAX_RANK:
        raise Failure(f"{path}: the dimensions {str(dimensions)[:200]} are not at most {MAX_RANK} sizes of 0 or more")
    return dtype, dimensions, fortran_order


def _check_dtype(path: Path, dtype: Dtype) -> None:
    if dtype.hasobject:
        raise Failure(f"{path}: it holds Python objects, which are never unpickled")
    if dtype.names or dtype.subdtype:
        raise Failure(f"{path}: its dtype {str(dtype)[:80]} has fields, but a layout has plain elements")
    if not dtype.itemsize:
        raise Failure(f"{path}: its elements ({dtype.str}) take no bytes")
    if not dtype.isnative:
        raise Failure(f"{path}: its dtype {dtype.str} is big-endian: convert it to native byte order first")


@contextlib.contextmanager
def new_npy(path: Path, dtype: Dtype, dimensions: tuple[int, ...], *, overwrite: bool) -> Iterator[Elements]:
    """The elements of a new .npy file in C order, 1-D and memory-mapped, to fill inside the `with`; see `new_file`."""
    with new_file(path, overwrite=overwrite) as stream:
        npy.write_array_header_1_0(
            stream, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": dimensions}
        )
        offset = stream.tell()
        stream.flush()
        reserve_space(stream, offset + math.prod(dimensions) * dtype.itemsize)
        elements = _mapped(stream, "r+", dtype, offset, math.prod(dimensions))
        yield elements
        if isinstance(elements, np.memmap):
            elements.flush()


def _mapped(stream: BinaryIO, mode: Literal["r", "r+"], dtype: Dtype, offset: int, count: int) -> Elements:
    """Elements of an open file.  Its name may soon mean another file, or one that may not be opened again."""
    if not count:  # an empty range of a file cannot be mapped
        return np.empty(count, dtype)
    # The stubs leave out that any binary stream will do.
    mapped: Elements = np.memmap(cast(Any, stream), dtype, mode, offset, (count,))
    return mapped


def reserve_space(stream: BinaryIO, size: int) -> None:
    """Take the space now: a full disk is an OSError here, but kills a process that writes to mapped memory."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        os.ftruncate(stream.fileno(), size)
