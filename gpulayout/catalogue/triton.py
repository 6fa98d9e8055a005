"""triton_kernels, which vLLM and gpt-oss use: scales of MXFP4 weights on Hopper."""

from gpulayout.catalogue.entry import Option, Size, entry
from gpulayout.layout.layout import Layout


@entry(
    summary="triton_kernels' MXFP4 scales for Hopper, by warps",
    about=(
        "On Hopper a kernel widens MXFP4 weights itself, and each lane needs the scales of its own rows. A group of 32 "
        "rows for each warp holds them together, two columns at a time: HOPPER_MX_SCALE with the scales along the row "
        "(mx_axis -1). On Blackwell the scales are cublas:block_scales with columns padded to 8."
    ),
    owner="triton_kernels",
    version="triton 14dd7a191e72",
    source=(
        "https://github.com/triton-lang/triton/blob/14dd7a191e72a5003a67311f7b3cabbf09f74ba5/python/triton_kernels/"
        "triton_kernels/tensor_details/layout_details/hopper_scale.py"
    ),
    judged_by="HopperMXScaleLayoutTransformation.swizzle_data",
    sizes=(Size("rows", "rows of the weight"), Size("columns", "scales of a row: K / 32")),
    types=("u8", "f8e8m0fnu"),
    choices=(Option("warps", "warps of the kernel", (8, 4, 2, 1, 16)),),
    stored=(
        "One byte for each scale. Rows are padded to a multiple of 32 * warps, columns to an even number, with zeros."
    ),
    usual=(4096, 128),
    kernels=("matmul_ogs",),
    tensor="dtype[ceil(rows,32*warps)/32,ceil(columns,2)*32]",
)
def hopper_scales(rows: int, columns: int, warps: int) -> Layout:
    """Digits, most major first: rows // (32 * warps), warp, column // 2, upper half of the warps, rows % 8, ..."""
    group = 32 * warps
    padded = (-(-rows // group) * group, -(-columns // 2) * 2)
    whole = max(padded[1], 2)
    tiles = ((group, whole), (group // 2, whole), (2, 1, 16, 2), (8, 2), (2, 1, 1, 1))
    return Layout((1, 0), padded_dimensions=padded if padded != (rows, columns) else None, tiles=tiles)
