"""GPTQ checkpoints, as AutoGPTQ and its successors write them: weights and zero points in int32."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="AutoGPTQ",
    version="AutoGPTQ 9f7d37072917, April 2025",
    source=(
        "https://github.com/AutoGPTQ/AutoGPTQ/blob/9f7d37072917ab3a7545835f23e808294a542153/"
        "auto_gptq/nn_modules/qlinear/qlinear_cuda.py"
    ),
    judged_by="QuantLinear.pack",
    types=("u4", "u2", "u8"),
    stored="Elements of 2, 4 or 8 bits; read as little-endian int32 it is the checkpoint's tensor. No padding.",
    kernels=("vecquant4matmul",),
)


@_entry(
    summary="GPTQ's qweight: an int32 holds neighbours along K",
    about=(
        "The qweight of a checkpoint is int32 of (K * bits / 32, N): each holds 4, 8 or 16 rows of one column, the "
        "lowest row in the lowest bits. With act-order the rows must be sorted first, by the checkpoint's g_idx. "
        "Weights of 3 bits are not here: they cross bytes."
    ),
    sizes=(
        Size("rows", "rows of the weight: K, the inputs", 32),
        Size("columns", "columns of the weight: N, the outputs"),
    ),
    tensor="s32[rows*bits/32,columns]",
    order="g_idx",
)
def qweight(dtype: ElementType) -> Layout:
    """As many rows as an int32 holds lie below a column."""
    return Layout((1, 0), tiles=((32 // dtype.bits, 1),))


@_entry(
    summary="GPTQ's qzeros: an int32 holds neighbours along N",
    about=(
        "The qzeros of a checkpoint are int32 of (groups, N * bits / 32), packed along the row. AutoGPTQ stores each "
        "zero point less 1; that is arithmetic, and the values here are the stored ones."
    ),
    sizes=(
        Size("groups", "groups of rows that share a zero point"),
        Size("columns", "columns of the weight: N, the outputs", 32),
    ),
    usual=(32, 4096),
    tensor="s32[groups,columns*bits/32]",
)
def qzeros() -> Layout:
    """Rows, packed."""
    return Layout((1, 0))
