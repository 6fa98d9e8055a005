"""AWQ checkpoints, as AutoAWQ writes them: weights and zero points of 4 bits."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_SOURCE = "https://github.com/casper-hansen/AutoAWQ/blob/88e4c76b20755db275574e6a03c83c84ba3bece5/awq/modules/linear/"
_COLUMNS = Size("columns", "columns of the weight: N, the outputs", 32)
_entry = partial(
    entry,
    owner="AutoAWQ",
    version="AutoAWQ 88e4c76b2075, May 2025",
    source=_SOURCE + "gemm.py",
    judged_by="WQLinear_GEMM.from_linear",
    types=("u4",),
    stored="Elements of 4 bits; read as little-endian int32 it is the checkpoint's tensor. No padding.",
    kernels=("awq_gemm", "awq_dequantize"),
)


@_entry(
    summary="AWQ's qweight: 8 columns in an int32, as 0 2 4 6 1 3 5 7",
    about=(
        "The qweight of a checkpoint is int32 of (K, N / 8). Each holds 8 columns of a row, the even ones in the low "
        "half: a kernel widens two of them at once to two float16 of a register."
    ),
    sizes=(Size("rows", "rows of the weight: K, the inputs"), _COLUMNS),
    tensor="s32[rows,columns/8]",
)
def qweight() -> Layout:
    """8 columns as 4 pairs, transposed."""
    return Layout((1, 0), tiles=((8,), (2,), (4, 1)))


@_entry(
    summary="AWQ's qzeros: 8 columns in an int32, as 0 2 4 6 1 3 5 7",
    about="The zero points of groups of rows: int32 of (groups, N / 8), in the order of awq:qweight.",
    sizes=(Size("groups", "groups of rows that share a zero point"), _COLUMNS),
    usual=(32, 4096),
    tensor="s32[groups,columns/8]",
)
def qzeros() -> Layout:
    """8 columns as 4 pairs, transposed."""
    return Layout((1, 0), tiles=((8,), (2,), (4, 1)))


@_entry(
    summary="Weights of AWQ's fast kernels: 4 rows of 64 interleaved",
    about=(
        "The qweight of the version gemv_fast, which is TinyChat's: int16 of (N / 4, K). 64 elements of each of 4 rows "
        "follow each other, and of every 32 elements a lane's 8 come together, in the order that it widens."
    ),
    source=_SOURCE + "gemv_fast.py",
    judged_by="pack_intweight(weight, interleave=4, kstride=64)",
    sizes=(
        Size("rows", "rows of the transposed weight: N, the outputs", 4),
        Size("columns", "elements of a row: K, the inputs", 64),
    ),
    stored="Elements of 4 bits; read as little-endian int16 it is the checkpoint's tensor. No padding.",
    kernels=("gemv_forward_cuda_decode", "gemm_forward_cuda_prefill"),
    tensor="s16[rows/4,columns]",
)
def gemv_fast() -> Layout:
    """Of 32 columns, column c lies at c % 8 * 4 + c // 8."""
    return Layout((1, 0), tiles=((4, 64), (32,), (8,), (4, 1)))
