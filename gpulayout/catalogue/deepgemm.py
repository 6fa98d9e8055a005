"""DeepGEMM: scales of FP8 products, which TMA loads column by column."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="DeepGEMM",
    sizes=(
        Size("rows", "rows of the matrix that is scaled: M"),
        Size("columns", "scales of a row: K / 128, or K / 32"),
    ),
    usual=(4096, 56),
)


def _columns(rows: int, columns: int, *tiles: tuple[int, ...]) -> Layout:
    """Column-major; TMA needs columns of whole 16 bytes, 4 rows of 4 bytes each."""
    return Layout((0, 1), padded_dimensions=(-(-rows // 4) * 4, columns) if rows % 4 else None, tiles=tiles)


@_entry(
    summary="DeepGEMM's scales: columns, each padded to 16 bytes",
    about=(
        "FP8 products scale blocks of 1 x 128 elements of the left matrix. TMA loads a column of scales, so it is "
        "contiguous, and begins at a multiple of 16 bytes: the MN-major, TMA-aligned layout."
    ),
    version="a6d97a1c1b48, February 2025; later versions compute the same in CUDA",
    source=(
        "https://github.com/deepseek-ai/DeepGEMM/blob/a6d97a1c1b48a7a9d7994d0e155ee6f11d0a3f07/"
        "deep_gemm/jit_kernels/utils.py"
    ),
    judged_by="get_col_major_tma_aligned_tensor",
    types=("f32", "s32", "u32"),
    stored="4 bytes for each scale. Columns are padded to a multiple of 4 rows; no kernel uses the padding.",
    kernels=("fp8_gemm_nt", "gemm_fp8_fp8_bf16_nt"),
)
def scales(rows: int, columns: int) -> Layout:
    """Columns of 4, 8, 12, ... rows."""
    return _columns(rows, columns)


@_entry(
    summary="DeepGEMM's UE8M0 scales: 4 in an int32, columns of int32",
    about=(
        "On Blackwell the scales are powers of 2, one byte each. 4 neighbours along K lie in an int32, and the int32 "
        "lie in columns that begin at multiples of 16 bytes."
    ),
    version="54e226124093, June 2026",
    source=(
        "https://github.com/deepseek-ai/DeepGEMM/blob/54e22612409371d6364144b69086735beb54e98b/tests/test_layout.py"
    ),
    judged_by="get_mn_major_tma_aligned_packed_ue8m0_tensor_torch_impl",
    types=("f8e8m0fnu", "u8"),
    stored="One byte for each scale. Rows and columns are padded to multiples of 4, with zeros.",
    kernels=("fp8_gemm_nt",),
)
def packed_scales(rows: int, columns: int) -> Layout:
    """Pieces of 4 columns, in columns."""
    return _columns(rows, columns, (4, 1))
