"""Codes of GGUF files, which llama.cpp reads, without the scales that stand between them."""

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout


@entry(
    summary="GGUF's Q4_0: of 32 columns, c and c + 16 share a byte",
    about=(
        "A block of Q4_0 has a scale d in f16 and the codes of 32 columns in 16 bytes; a value is d * (code - 8). The "
        "low half of byte c has the code of column c, the high half that of column c + 16. gpulayout relayout reads "
        "such files, as one tensor of codes and one of scales."
    ),
    owner="ggml",
    version="gguf 0.19.0, from PyPI",
    source="https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/quants.py",
    judge="package",
    judged_by="gguf.quants.dequantize",
    sizes=(Size("columns", "elements of a row: K, the inputs", 32),),
    types=("u4",),
    stored="Elements of 4 bits, without the scales. No padding.",
    tensor="u8[columns/2]",
)
def q4_0() -> Layout:
    """Of 32 columns as 2 rows of 16, transposed."""
    return Layout((0,), tiles=((32,), (16,), (2, 1)))
