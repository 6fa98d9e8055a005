"""`gpulayout show FILE.npy`: the layout of the array in a file, from its header alone."""

from __future__ import annotations

from typing import Any

from gpulayout.cli.failures import printable
from gpulayout.files.npy import Header, array_shape, read_header
from gpulayout.files.standard_streams import File
from gpulayout.layout.shape import Shape


def read_shape(file: File) -> tuple[Shape, Header]:
    """The shape of the array in a .npy file, and the header that says so."""
    header = read_header(file)
    return array_shape(header, None), header


def header_text(header: Header) -> str:
    """The header in one line."""
    order = "Fortran" if header.fortran_order else "C"
    return f"{printable(header.name)}: {header.dtype.str}, dimensions {header.dimensions}, {order} order"


def header_as_json(header: Header) -> dict[str, Any]:
    """The header as plain values."""
    return {
        "name": header.name,
        "dtype": header.dtype.str,
        "dimensions": header.dimensions,
        "fortran_order": header.fortran_order,
    }
