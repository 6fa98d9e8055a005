"""NVIDIA cuBLAS: the factors of block-scaled matrix products."""

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout


@entry(
    summary="Scales of MXFP8 and NVFP4 blocks, in blocks of 128 x 4",
    about=(
        "Block-scaled products on Blackwell (MXFP8, MXFP4, NVFP4) take one scale for each 32 or 16 elements along K. "
        "The tensor cores read them in blocks of 128 rows and 4 columns, 512 bytes each: row r and column c of a "
        "block lie at (r % 32) * 16 + (r // 32) * 4 + c. Blocks follow each other along a row of blocks, then down. "
        "torch's scaled_mm, cuDNN, CUTLASS and FlashInfer take the same, and call it the 128x4 or swizzled layout."
    ),
    owner="NVIDIA cuBLAS",
    version="12.8 and later",
    source="https://docs.nvidia.com/cuda/cublas/index.html#d-block-scaling-factors-layout",
    judge="package",
    judged_by="torch 2.13: to_blocked of torchao, in torch/_vendor/quack/mx_utils.py",
    sizes=(
        Size("rows", "rows of the matrix that is scaled: M, or N of the transposed second matrix"),
        Size("columns", "scales of a row: K / 32 of MXFP8 and MXFP4, K / 16 of NVFP4"),
    ),
    types=("f8e8m0fnu", "f8e4m3fn", "u8"),
    stored=(
        "One byte for each scale: f8e8m0fnu of MXFP8 and MXFP4, f8e4m3fn of NVFP4, u8 for either. Rows are padded to "
        "a multiple of 128, columns to one of 4, with zeros, which scale no element."
    ),
    usual=(4096, 128),
    kernels=("torch._scaled_mm", "cutlass_scaled_fp4_mm", "mm_fp4", "cublasLtMatmul"),
)
def block_scales() -> Layout:
    """Blocks of 128 x 4; in one, 4 groups of 32 rows lie side by side."""
    return Layout((1, 0), tiles=((128, 4), (32, 4), (4, 1, 1, 4)))
