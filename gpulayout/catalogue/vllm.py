"""vLLM: the pages of keys and values of its first paged attention, which its CPU and ROCm kernels still take."""

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
