"""NVIDIA cuBLASLt: the orders of matrices for int8 products."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="NVIDIA cuBLASLt",
    source="https://docs.nvidia.com/cuda/cublas/index.html#cublasltorder-t",
    judged_by="NVIDIA's FasterTransformer: the kernels that store its int8 matrices, run on the CPU",
    sizes=(Size("rows", "rows of the matrix"), Size("columns", "columns of the matrix")),
    types=("s8", "u8", "s32", "f16", "f32"),
    kernels=("cublasLtMatmul",),
)


@_entry(
    summary="CUBLASLT_ORDER_COL32: panels of 32 columns, each in rows",
    about=(
        "int8 products on the tensor cores of Turing and Ampere take A and write C in this order. Columns are cut "
        "into panels of 32; a panel holds its rows one after the other, 32 elements each. The leading dimension is "
        "the stride between panels, 32 * rows."
    ),
    version="since CUDA 10.1; documents of CUDA 13",
    stored="One element in each place. Columns are padded to a multiple of 32; the padding is zero and is not read.",
)
def col32() -> Layout:
    """Column-major, but 32 columns at a time."""
    return Layout((0, 1), tiles=((32, 1),))


@_entry(
    summary="CUBLASLT_ORDER_COL32_2R_4R4: tiles of 32 x 32 with shuffled rows",
    about=(
        "int8 products on the tensor cores of Ampere take B in this order. Tiles of 32 rows and 32 columns follow "
        "each other down a panel of 32 columns. Row r of a tile, 32 elements, is number (r % 8 / 2 * 4 + r / 8) * 2 "
        "+ r % 2 of the tile: pairs of rows stay together, and rows that are 8 apart come next to each other."
    ),
    version="since CUDA 11.0; documents of CUDA 13",
    stored="One element in each place. Rows and columns are padded to multiples of 32, with zeros.",
)
def col32_2r_4r4() -> Layout:
    """Of a tile's rows, most major first: r % 8 // 2, r // 8, r % 2."""
    return Layout((0, 1), tiles=((32, 32), (32, 8), (4, 32, 2), (32, 1)))


@_entry(
    summary="CUBLASLT_ORDER_COL4_4R2_8C: tiles of 8 x 32 in groups of 4 columns",
    about=(
        "int8 products on the tensor cores of Turing take B in this order. Tiles of 8 rows and 32 columns follow "
        "each other down a panel of 32 columns. A tile holds its even rows, then its odd ones; of these, 4 blocks of "
        "8 columns; of a block, the left 4 columns of the 4 rows, then the right ones."
    ),
    version="since CUDA 10.1; documents of CUDA 13",
    stored="One element in each place. Rows are padded to a multiple of 8 and columns to one of 32, with zeros.",
)
def col4_4r2_8c() -> Layout:
    """Of row r and column c, most major first: c // 32, r // 8, r % 2, c % 32 // 8, c % 8 // 4, r % 8 // 2, c % 4."""
    return Layout((0, 1), tiles=((32, 8), (32, 2), (4, 32, 1), (4, 4, 1)))
