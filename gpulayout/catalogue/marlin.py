"""Marlin, the kernel for weights of 4 and 8 bits in vLLM and SGLang: weights, scales and zero points."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout

_UTILS = "https://github.com/vllm-project/vllm/blob/v0.10.0/vllm/model_executor/layers/quantization/utils/"
_GROUPS = (Size("groups", "groups of rows that share a factor"), Size("columns", "columns of the weight: N", 64))
_entry = partial(
    entry,
    owner="Marlin in vLLM",
    version="vLLM 0.10.0",
    source=_UTILS + "marlin_utils.py",
    kernels=("gptq_marlin_gemm", "marlin_gemm", "moe_wna16_marlin_gemm"),
)


@_entry(
    summary="Marlin's weights of 4 or 8 bits, as the tensor cores take them",
    about=(
        "A tile of 16 rows (K) and 64 columns (N) holds what the 32 lanes of a warp load for four mma.m16n8k16: each "
        "lane's elements come next to each other, in the order in which the kernel widens them to 16 bits. The bytes "
        "are those of gptq_marlin_repack without act-order, whose int32 have the low element first."
    ),
    source=_UTILS + "marlin_utils_test.py",
    judged_by="marlin_weights, get_weight_perm",
    sizes=(
        Size("rows", "rows of the weight: K, the inputs", 16),
        Size("columns", "columns of the weight: N, the outputs", 64),
    ),
    types=("u4", "s4", "u8", "s8", "f8e4m3fn"),
    stored="Elements of 4 bits, two in a byte, the lower half first; or of 8 bits. No padding.",
    tensor="s32[rows/16,columns*bits/2]",
)
def weights(dtype: ElementType) -> Layout:
    """Digits of (K, N), most minor first: K 8, N 8, (N 16, N 32 with 4 bits,) K 1, ... as mma.m16n8k16 has them."""
    wide = ((2, 1, 2, 1, 1),) if dtype.bits == 4 else ()
    return Layout((1, 0), tiles=((16, 64), (16, 8), (8, 16, 1), (8, 8, 1), (2, 1, 8, 2, 1), *wide, (2, 1, 1, 1, 1)))


@_entry(
    summary="Marlin's scales of groups: 64 columns, transposed as 8 x 8",
    about=(
        "One scale for each group of 32, 64 or 128 rows and each column, of two groups or more. In every row of "
        "scales, 64 columns are a matrix of 8 x 8 that is transposed: a lane then finds the scales of its 8 columns "
        "next to each other."
    ),
    judged_by="marlin_permute_scales with group_size < size_k",
    sizes=_GROUPS,
    refuses="columns must be a multiple of 64, and groups more than 1",
    types=("f16", "bf16"),
    stored="One element in each place, no padding.",
    usual=(32, 4096),
    tensor="dtype[groups,columns]",
)
def scales(groups: int) -> Layout:
    """64 columns as 8 x 8, the low digit in front."""
    if groups == 1:  # silently wrong else: all owners decide so, also where a group has as many rows as the weight
        raise LayoutError(
            "groups is 1, and scales of whole columns are marlin:channel_scales of the columns alone, as by the rule "
            "'1 n -> n; marlin:channel_scales'"
        )
    return Layout((1, 0), tiles=((64,), (8,), (8, 1)))


@_entry(
    summary="Marlin's scales of whole columns",
    about=(
        "One scale for each column, where no groups divide K (group_size -1). They are used on results, not on "
        "weights, so their order is another one than that of marlin:scales: of 32 columns, pairs 8 apart come next to "
        "each other."
    ),
    judged_by="marlin_permute_scales with group_size -1",
    sizes=(Size("columns", "columns of the weight: N", 32),),
    types=("f16", "bf16"),
    stored="One element in each place, no padding.",
    tensor="dtype[1,columns]",
)
def channel_scales() -> Layout:
    """32 columns as 4 x 4 pairs, transposed."""
    return Layout((0,), tiles=((32,), (8,), (4, 2)))


@_entry(
    summary="Marlin's zero points of groups, for weights of AWQ",
    about=(
        "One zero point of 4 or 8 bits for each group of rows and each column. 64 columns are transposed as 8 x 8 like "
        "the scales, then 8 (of 4 bits) or 4 (of 8 bits) are interleaved as the kernel widens them."
    ),
    judged_by="marlin_zero_points",
    sizes=_GROUPS,
    types=("u4", "u8"),
    stored="Elements of 4 bits, two in a byte, the lower half first; or of 8 bits. No padding.",
    usual=(32, 4096),
    tensor="s32[groups,columns*bits/32]",
)
def zero_points(dtype: ElementType) -> Layout:
    """8 x 8 transposed, and of the places the even ones before the odd ones."""
    if dtype.bits == 4:
        return Layout((1, 0), tiles=((64,), (8,), (8, 1), (2, 1), (4, 1, 1, 1)))
    return Layout((1, 0), tiles=((64,), (8,), (8, 1), (4, 1), (2, 1), (2, 1, 1, 1)))
