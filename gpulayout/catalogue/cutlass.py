"""NVIDIA CUTLASS: the metadata of sparse matrices."""

from gpulayout.catalogue.entry import Size, check_multiple, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout


@entry(
    summary="Metadata of 2:4 sparse matrices, reordered for the tensor cores",
    about=(
        "A 2:4 sparse matrix keeps 2 of 4 elements, and 4 bits say which. The tensor cores of Ampere take these bits "
        "as words whose rows are interleaved in groups of 32 (16-bit words, float16 and bfloat16) or 16 (32-bit "
        "words, int8), with 2 x 2 blocks transposed, in pairs of columns: reorder_meta, then "
        "ColumnMajorInterleaved<2>."
    ),
    owner="NVIDIA CUTLASS",
    version="2.11 and later; torch 2.13",
    source="https://github.com/NVIDIA/cutlass/blob/main/tools/util/include/cutlass/util/host_reorder.h",
    judge="package",
    judged_by="torch 2.13: torch.sparse._semi_structured_conversions, its PyTorch version of reorder_meta",
    sizes=(
        Size("rows", "rows of the matrix: M", 16),
        Size("columns", "words of a row: K / 16 of 16 bits each, K / 32 of 32 bits", 2),
    ),
    types=("s16", "u16", "s32", "u32"),
    stored="One word in each place, no padding.",
    refuses="rows must be a multiple of 32 with words of 16 bits, of 16 with words of 32 bits; columns must be even",
    usual=(4096, 256),
    kernels=("_sparse_semi_structured_mm", "_sparse_semi_structured_linear"),
    tensor="dtype[rows,columns]",
)
def sparse_metadata(rows: int, dtype: ElementType) -> Layout:
    """Digits of a group's rows and of a pair of columns, most major first: rows % 8 // 2, column, ..., rows % 2."""
    if dtype.bits == 32:
        return Layout((0, 1), tiles=((2, 16), (2, 8), (2, 2, 1), (2, 1, 1)))
    check_multiple("rows", rows, 32)
    return Layout((0, 1), tiles=((2, 32), (2, 8), (4, 2, 1), (2, 1, 1)))
