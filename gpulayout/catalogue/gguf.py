"""Codes of GGUF files, which llama.cpp reads, without the scales that stand between them."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="ggml",
    version="gguf 0.19.0, from PyPI",
    source="https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/quants.py",
    judge="package",
    judged_by="gguf.quants.dequantize",
    sizes=(Size("columns", "elements of a row: K, the inputs", 32),),
    stored="Elements of 4 bits, without the scales. No padding.",
    tensor="u8[columns/2]",
)


@_entry(
    summary="GGUF's Q4_0: of 32 columns, c and c + 16 share a byte",
    about=(
        "A block of Q4_0 has a scale d in f16 and the codes of 32 columns in 16 bytes; a value is d * (code - 8). The "
        "low half of byte c has the code of column c, the high half that of column c + 16. Q4_1 has a second f16, m, "
        "and a value is d * code + m. gpulayout relayout reads the parts of such blocks as tensors."
    ),
    types=("u4",),
)
def q4_0() -> Layout:
    """Of 32 columns as 2 rows of 16, transposed."""
    return Layout((0,), tiles=((32,), (16,), (2, 1)))


@_entry(
    summary="GGUF's MXFP4: of 32 columns, c and c + 16 share a byte",
    about=(
        "A block of MXFP4 has a scale, a power of two, and 32 columns in 16 bytes, in the order of gguf:q4_0. In other "
        "files of MXFP4 neighbours share a byte. gpulayout relayout reads the parts of such blocks as tensors."
    ),
    types=("f4e2m1fn",),
)
def mxfp4() -> Layout:
    """Of 32 columns as 2 rows of 16, transposed."""
    return Layout((0,), tiles=((32,), (16,), (2, 1)))
