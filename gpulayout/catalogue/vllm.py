"""vLLM: the six orders of its cache of keys and values, and the pages of its first paged attention."""

from functools import partial

from gpulayout.catalogue.entry import Size, check_multiple, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="vLLM",
    version="vLLM 0.10.0",
    source="https://github.com/vllm-project/vllm/blob/v0.10.0/csrc/cpu/cache.cpp",
    judged_by="reshape_and_cache_cpu_impl",
    sizes=(
        Size("blocks", "pages of the cache"),
        Size("tokens", "tokens of a page"),
        Size("heads", "heads of keys and values"),
        Size("head_size", "elements of a head"),
    ),
    types=("bf16", "f16", "f32", "f8e4m3fn", "f8e5m2", "u8"),
    usual=(128, 16, 8, 128),
    kernels=("paged_attention_v1", "paged_attention_v2"),
)


@_entry(
    summary="vLLM's pages of keys: (blocks, heads, head_size / x, tokens, x)",
    about=(
        "Each thread of the kernel loads 16 bytes of a key, x elements; those of neighbouring tokens lie side by side. "
        "The logical array has the tokens before the heads, as a model computes them."
    ),
    stored="One element in each place, no padding; x is 16 bytes of elements.",
    refuses="head_size must be a multiple of 16 bytes",
    tensor="dtype[blocks,heads,head_size*bits/128,tokens,128/bits]",
)
def key_cache(head_size: int, dtype: ElementType) -> Layout:
    """A head is cut into pieces of 16 bytes, and tokens come between the pieces."""
    piece = 128 // dtype.bits
    check_multiple("head_size", head_size, piece, f"{piece} elements")
    return Layout((1, 3, 2, 0), tiles=((piece, 1),))


@_entry(
    summary="vLLM's pages of values: (blocks, heads, head_size, tokens)",
    about=(
        "The sum over tokens reads one element of many values, so the tokens of a page lie side by side. The logical "
        "array has the tokens before the heads, as a model computes them."
    ),
    stored="One element in each place, no padding.",
    tensor="dtype[blocks,heads,head_size,tokens]",
)
def value_cache() -> Layout:
    """Tokens are the most minor dimension."""
    return Layout((1, 3, 2, 0))


_cache = partial(
    entry,
    owner="vLLM",
    version="vLLM 0.33.0; the six names are of August 2026",
    source="https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/kv_cache_layout.py",
    judged_by="KVCacheLayout, get_kv_cache_config_from_groups, allocate_kv_cache",
    sizes=(
        Size("layers", "L: layers whose pages have one size"),
        Size("blocks", "B: blocks of the cache, as the kernel counts them"),
        Size("heads", "H: heads of keys and values; 1 of MLA"),
        Size("tokens", "N: tokens of a block"),
        Size("content", "C: a key, then its value: 2 * head_size elements; the latent of MLA"),
    ),
    types=("bf16", "f16", "f32", "f8e4m3fn", "s8", "u8"),
    stored="One element in each place, no padding. A cache of fp8 comes as u8.",
    usual=(32, 128, 8, 16, 256),
)
_LOGICAL = (
    " The logical array of all six orders is vLLM's (L, B, H, N, C), and the letters of a name are the order in "
    "memory. VLLM_KV_CACHE_LAYOUT chooses one."
)


@_cache(
    summary="vLLM's KV cache, once HND: layers, blocks, heads, tokens",
    about="Each head of a block has its tokens side by side. HND is the older name of it." + _LOGICAL,
    tensor="dtype[layers,blocks,heads,tokens,content]",
)
def LBHNC() -> Layout:
    """The logical order."""
    return Layout((4, 3, 2, 1, 0))


@_cache(
    summary="vLLM's KV cache, once NHD: layers, blocks, tokens, heads",
    about="Each token of a block has its heads side by side. NHD is the older name of it." + _LOGICAL,
    tensor="dtype[layers,blocks,tokens,heads,content]",
)
def LBNHC() -> Layout:
    """Tokens before heads."""
    return Layout((4, 2, 3, 1, 0))


@_cache(
    summary="vLLM's KV cache: layers, heads, blocks, tokens",
    about=(
        "A head of a layer has all its blocks in one piece. Kernels for ROCm take it with two heads: one holds the "
        "keys of all heads, the other their values." + _LOGICAL
    ),
    tensor="dtype[layers,heads,blocks,tokens,content]",
)
def LHBNC() -> Layout:
    """Heads before blocks."""
    return Layout((4, 3, 1, 2, 0))


@_cache(
    summary="vLLM's KV cache: blocks, layers, heads, tokens",
    about="A block has all its layers in one piece, which can be sent at once; heads come before tokens." + _LOGICAL,
    tensor="dtype[blocks,layers,heads,tokens,content]",
)
def BLHNC() -> Layout:
    """Blocks before layers."""
    return Layout((4, 3, 2, 0, 1))


@_cache(
    summary="vLLM's KV cache: blocks, layers, tokens, heads",
    about="A block has all its layers in one piece, which can be sent at once; tokens come before heads." + _LOGICAL,
    tensor="dtype[blocks,layers,tokens,heads,content]",
)
def BLNHC() -> Layout:
    """Blocks before layers, and tokens before heads."""
    return Layout((4, 2, 3, 0, 1))


@_cache(
    summary="vLLM's KV cache: blocks, heads, layers, tokens",
    about=(
        "A head of a block has all its layers in one piece, so that heads can be sent to a machine that splits them "
        "over another number of GPUs." + _LOGICAL
    ),
    tensor="dtype[blocks,heads,layers,tokens,content]",
)
def BHLNC() -> Layout:
    """Blocks, then heads, then layers."""
    return Layout((4, 3, 0, 2, 1))
