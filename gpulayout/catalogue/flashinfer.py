"""FlashInfer and TensorRT-LLM: weights and scales of mixtures of experts on Blackwell, and pages of keys and values."""

from functools import partial

from gpulayout.catalogue.entry import Option, Size, check_multiple, entry
from gpulayout.layout.layout import Layout

_BLOB = "https://github.com/flashinfer-ai/flashinfer/blob/fb28d7242b3506a2348265962041acc1fb56cca4/flashinfer/"
_WEIGHT = (Size("rows", "rows of the weight: M", 2), Size("columns", "elements of a row: K, or K / 2 of FP4 in bytes"))
_TILE = Option(
    "epilogue_tile",
    "rows of the kernel's epilogue tile; multiples of 128 shuffle 32 rows, others 16",
    (128, 64, 32, 16, 8, 256),
)
_BLOCK_K = Option("block_k", "columns of a block; 0: rows are whole", (0, 128, 64, 256))
_IN_GROUPS = (
    "rows must be a multiple of 32 where epilogue_tile is one of 128, else of 16; columns must be a multiple of block_k"
)
_PRODUCTS = (  # the first two take scales of blocks
    "trtllm_fp4_block_scale_moe",
    "trtllm_fp8_block_scale_moe",
    "trtllm_fp8_per_tensor_scale_moe",
    "trtllm_bf16_moe",
    "trtllm_mxint4_block_scale_moe",
)
_entry = partial(
    entry,
    owner="FlashInfer and TensorRT-LLM",
    version="FlashInfer fb28d7242b35, August 2026",
    source=_BLOB + "fused_moe/core.py",
    sizes=_WEIGHT,
    types=("u8", "s8", "f8e4m3fn", "f8e8m0fnu", "bf16", "f16", "f32"),
    stored="One element in each place, no padding. FP4 weights come as u8, two elements in a byte.",
    usual=(4096, 2048),
)
_scales = partial(
    _entry,
    sizes=(Size("rows", "rows of the weight: M", 128), Size("columns", "scales of a row: K / 16 or K / 32")),
    types=("u8", "f8e4m3fn", "f8e8m0fnu"),
    choices=(_TILE,),
    stored="One byte for each scale. Columns are padded to a multiple of 4 with zeros, which scale no element.",
    usual=(4096, 256),
    kernels=_PRODUCTS[:2],
    tensor="dtype[rows,columns]",
)


def _block(rows: int, epilogue_tile: int) -> int:
    """How many rows are shuffled together; LayoutError where they do not fill the array."""
    block = 32 if epilogue_tile % 128 == 0 else 16
    check_multiple("rows", rows, block, f"{block}, with epilogue_tile {epilogue_tile}")
    return block


@_entry(
    summary="Weights whose rows are shuffled in groups of 16 or 32",
    about=(
        "The kernels of TensorRT-LLM for Blackwell, which FlashInfer calls for mixtures of experts, read rows of their "
        "first matrix in the order in which the tensor cores give results. In each group of 32 rows, row r moves to "
        "r % 4 * 8 + r // 4; in groups of 16, to r % 2 * 8 + r // 2. With block_k flashinfer:block_major_k follows, in "
        "the same move. The second product of a mixture of experts takes its weights like this."
    ),
    source=_BLOB + "quantization/fp4_quantization.py",
    judged_by="shuffle_matrix_a, convert_to_block_layout",
    choices=(_TILE, _BLOCK_K),
    tensor="dtype[columns/block_k,rows,block_k] if block_k else dtype[rows,columns]",
    refuses=_IN_GROUPS,
    kernels=_PRODUCTS,
)
def shuffle_matrix_a(rows: int, columns: int, epilogue_tile: int, block_k: int) -> Layout:
    """Of a group's rows the low digit comes in front."""
    block, whole = _block(rows, epilogue_tile), max(columns, 1)
    if block_k:
        check_multiple("columns", columns, block_k, f"block_k {block_k}")
        return Layout((0, 1), tiles=((block_k, block), (block_k, block // 8), (8, block_k, 1)))
    return Layout((1, 0), tiles=((block, whole), (block // 8, whole), (8, 1, 1, whole)))


@_scales(
    summary="Scales of shuffled weights, in blocks of 128 x 4",
    about=(
        "The scales of the weights of flashinfer:shuffle_matrix_a: their rows are shuffled in the same groups of 32 or "
        "16, and then laid out in blocks of 128 rows and 4 columns as in cublas:block_scales. The scales come in rows, "
        "as checkpoints hold them."
    ),
    source=_BLOB + "quantization/fp4_quantization.py",
    judged_by=(
        "get_shuffle_matrix_sf_a_row_indices, and to_blocked of torchao for the blocks, which FlashInfer has in CUDA"
    ),
)
def shuffle_matrix_sf_a(epilogue_tile: int) -> Layout:
    """A block's rows, shuffled, then cut into 4 groups of 32 that lie side by side."""
    if epilogue_tile % 128 == 0:
        return Layout((1, 0), tiles=((128, 4), (4, 4), (32, 1, 1, 4), (8, 1, 1, 4), (4, 1, 1, 1, 1, 1, 1, 4)))
    return Layout((1, 0), tiles=((128, 4), (32, 4), (4, 1, 16, 4), (4, 1, 2, 4), (8, 1, 4, 1, 1, 4)))


@_entry(
    summary="Rows of gate and up in turns: 0, M/2, 1, M/2 + 1 and so on",
    about=(
        "A gated layer multiplies two halves of its result, gate and up. A kernel that does so in its epilogue takes "
        "weights whose rows alternate between the halves. transformers:row_pairs_to_halves is the other direction."
    ),
    judged_by="reorder_rows_for_gated_act_gemm",
    refuses="rows must be even",
    tensor="dtype[rows,columns]",
)
def gated_rows(rows: int, columns: int) -> Layout:
    """The half that a row is in becomes the low digit of its place."""
    whole = max(columns, 1)
    return Layout((1, 0), tiles=((max(rows // 2, 1), whole), (2, 1, 1, whole)))


@_entry(
    summary="Weights of gate and up: alternating rows, shuffled, in blocks of K",
    about=(
        "What a mixture of experts needs for its first product: flashinfer:gated_rows, then "
        "flashinfer:shuffle_matrix_a, and with block_k also flashinfer:block_major_k, in one move instead of three."
    ),
    judged_by="_maybe_get_cached_w3_w1_permute_indices, convert_to_block_layout",
    choices=(_TILE, _BLOCK_K),
    tensor="dtype[columns/block_k,rows,block_k] if block_k else dtype[rows,columns]",
    refuses=_IN_GROUPS,
    kernels=_PRODUCTS,
)
def gate_up(rows: int, columns: int, epilogue_tile: int, block_k: int) -> Layout:
    """Row i of half h, most major first: i // 16, i % 2, h, i % 16 // 2; in groups of 16: i // 8, h, i % 8."""
    block, half = _block(rows, epilogue_tile), max(rows // 2, 1)
    if block_k:
        check_multiple("columns", columns, block_k, f"block_k {block_k}")
        tiles: tuple[tuple[int, ...], ...] = ((block_k, half), (2, block_k, 8), (block_k, 1))
        if block == 32:
            tiles = ((block_k, half), (2, block_k, 16), (2, block_k, 2), (8, 2, block_k, 1), (8, 1, block_k, 1))
        return Layout((0, 1), tiles=tiles)
    whole = max(columns, 1)
    if block == 16:
        return Layout((1, 0), tiles=((half, whole), (2, 1, 8, whole)))
    tiles = ((half, whole), (2, 1, 16, whole), (2, 1, 2, whole), (8, 1, 2, 1, 1, whole), (8, 1, 1, 1, 1, whole))
    return Layout((1, 0), tiles=tiles)


@_scales(
    summary="Scales of gate and up: rows in turns, shuffled, in blocks of 128 x 4",
    about=(
        "The scales of the weights of flashinfer:gate_up, in one move: flashinfer:gated_rows, then "
        "flashinfer:shuffle_matrix_sf_a. The scales come in rows, one half above the other."
    ),
    judged_by=(
        "_maybe_get_cached_w3_w1_permute_indices with num_elts_per_sf, and to_blocked of torchao for the blocks, which "
        "FlashInfer has in CUDA"
    ),
)
def gate_up_scales(rows: int, columns: int, epilogue_tile: int) -> Layout:
    """Row i of half h, most major first: i // 64, i % 2, h, i % 16 // 2, i % 64 // 16, or with i % 16 // 8, h."""
    tiles: tuple[tuple[int, ...], ...] = ((max(rows // 2, 1), max(-(-columns // 4) * 4, 4)), (2, 1, 64, 4))
    if epilogue_tile % 128 == 0:
        tiles += ((2, 1, 2, 4), (32, 1, 2, 1, 1, 4), (32, 1, 1, 1, 1, 4), (8, 1, 1, 1, 1, 4))
        tiles += ((4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4),)
    else:
        tiles += ((2, 1, 16, 4), (4, 1, 2, 1, 8, 4), (4, 1, 1, 1, 1, 4))
    return Layout((1, 0), tiles=tiles)


@_entry(
    summary="BlockMajorK: blocks of K one after the other, each with all rows",
    about=(
        "The weights of a mixture of experts for the kernels of TensorRT-LLM: (M, K) becomes (K / block_k, M, "
        "block_k), so that a kernel loads a tile as one piece of memory. 128 bytes of K are usual."
    ),
    judged_by="convert_to_block_layout",
    sizes=(_WEIGHT[0]._replace(multiple=1), _WEIGHT[1]),
    choices=(Option("block_k", "columns of a block", (128, 64, 256, 32, 2)),),
    refuses="columns must be a multiple of block_k",
    tensor="dtype[columns/block_k,rows,block_k]",
)
def block_major_k(columns: int, block_k: int) -> Layout:
    """Blocks of columns, with all rows in each."""
    check_multiple("columns", columns, block_k, f"block_k {block_k}")
    return Layout((0, 1), tiles=((block_k, 1),))


@_entry(
    summary="Pages of keys and values, tokens or heads first: NHD or HND",
    about=(
        "The paged cache of FlashInfer's attention kernels. The logical array is (pages, 2, tokens, heads, head size), "
        "where 2 is the keys, then the values. NHD keeps it so. HND has heads before tokens, which kernels with "
        "grouped heads and small pages read in longer pieces."
    ),
    owner="FlashInfer",
    source=_BLOB + "trace/templates/page.py",
    judged_by="_append_paged_kv_cache_reference",
    sizes=(
        Size("pages", "pages of the cache"),
        Size("two", "2: keys and values; 1 for a cache of keys alone"),
        Size("tokens", "tokens of a page"),
        Size("heads", "heads of keys and values"),
        Size("head_size", "elements of a head"),
    ),
    types=("bf16", "f16", "f8e4m3fn", "f8e5m2", "f32", "u8"),
    choices=(Option("order", "which of the last dimensions come first: tokens (nhd) or heads (hnd)", ("nhd", "hnd")),),
    stored="One element in each place, no padding.",
    usual=(128, 2, 16, 8, 128),
    tensor="dtype[pages,two,heads,tokens,head_size] if order=hnd else dtype[pages,two,tokens,heads,head_size]",
    kernels=("BatchDecodeWithPagedKVCacheWrapper", "BatchPrefillWithPagedKVCacheWrapper", "append_paged_kv_cache"),
)
def kv_cache(order: str) -> Layout:
    """The given order, or heads before tokens."""
    return Layout((4, 3, 2, 1, 0) if order == "nhd" else (4, 2, 3, 1, 0))
