"""The control kernels, and ways to break them."""

import pathlib

import numpy as np

from .record import Buffer, Record

TEXT = pathlib.Path(__file__).with_name("controls.cu").read_text()


def broken(right, wrong, text=TEXT):
    """The text with `right` replaced by `wrong`; `right` must occur exactly once."""
    if text.count(right) != 1:
        raise ValueError(f"{right!r} occurs {text.count(right)} times in the text")
    return text.replace(right, wrong)


WITHOUT_FIRST_BARRIER = broken("__syncthreads();   // FIRST BARRIER", "")
WITHOUT_SECOND_BARRIER = broken("__syncthreads();   // SECOND BARRIER", "")


def matrix(rows, columns):
    """A rows x columns matrix whose elements are their own numbers."""
    return np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)


def tiles(rows, columns):
    """The grid with one block for each tile of 32 x 32."""
    return (columns + 31) // 32, (rows + 31) // 32


def transpose_record(kernel="transpose", text=TEXT, rows=40, columns=70, grid=None, **macros):
    """A recorded launch of one of the transposes."""
    source = matrix(rows, columns).tobytes()
    return Record(
        text,
        macros,
        kernel,
        grid or tiles(rows, columns),
        (32, 8),
        (Buffer(len(source), content=source, writable=False), Buffer(len(source)), rows, columns),
    )
