"""AMD aiter: weights and scales for the matrix cores of MI300 and MI350."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="AMD aiter",
    version="aiter e4048607a535, August 2026",
    source="https://github.com/ROCm/aiter/blob/e4048607a535ace3a2b51ded31b1c8c2d45c0879/aiter/ops/shuffle.py",
)


@_entry(
    summary="aiter's shuffled weights: 16 rows, 16 bytes of each in turn",
    about=(
        "The pre-shuffled weights of aiter's products and mixtures of experts. 16 bytes of a row, those of the next 15 "
        "rows, then the next 16 bytes: 16 lanes load them in one piece. This is shuffle_weight with layout (16, 16)."
    ),
    judged_by="shuffle_weight",
    sizes=(
        Size("rows", "rows of the weight: N, the outputs", 16),
        Size("columns", "elements of a row: K, the inputs; K / 2 of FP4 in bytes", 32),
    ),
    types=("bf16", "f16", "f8e4m3fn", "f8e4m3fnuz", "s8", "u8"),
    stored="One element in each place, no padding. FP4 weights come as u8, two elements in a byte.",
    kernels=("gemm_a8w8_bpreshuffle",),
    tensor="dtype[rows,columns]",
)
def weights(dtype: ElementType) -> Layout:
    """Blocks of 16 rows and 16 bytes."""
    return Layout((1, 0), tiles=((16, 128 // dtype.bits),))


@_entry(
    summary="aiter's shuffled E8M0 scales of MXFP4, in blocks of 32 x 8",
    about=(
        "The scales of MXFP4 products on MI350: e8m0_shuffle. A block of 32 rows and 8 columns holds what 64 lanes "
        "need, 4 bytes each: two halves of 16 rows, and two groups of 4 columns."
    ),
    judged_by="shuffle_scale",
    sizes=(Size("rows", "rows of the matrix that is scaled"), Size("columns", "scales of a row: K / 32")),
    types=("f8e8m0fnu", "u8"),
    stored=(
        "One byte for each scale. Rows are padded to a multiple of 256, columns to one of 8: with zeros here, while "
        "the owner leaves them as they are."
    ),
    usual=(4096, 128),
    tensor="dtype[ceil(rows,256),ceil(columns,8)]",
)
def scales(rows: int, columns: int) -> Layout:
    """Digits of a block, most major first: column % 4, row % 16, column // 4, row // 16."""
    padded = (-(-rows // 256) * 256, columns) if rows % 256 else None
    tiles = ((32, 8), (32, 4), (2, 32, 1), (2, 16, 1), (2, 1, 2, 1, 1), (2, 1, 1, 1, 1))
    return Layout((1, 0), padded_dimensions=padded, tiles=tiles)
