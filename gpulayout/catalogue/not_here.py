"""Names that people look for in the catalogue and that no entry has: what no layout can do, and older names."""

import re

# Owners without a module.
OWNERS = ("ggml", "kleidiai", "llama_cpp", "tma")

# A name, as a pattern, and what to say of it.  People also look for the last word alone.
_NAMES = {
    r"(\w+:)?\w*(act_?order|desc_act|g_?idx)\w*": (
        "act-order is no layout: it sorts rows by a permutation that comes with the model. Index the array first, by "
        "np.argsort(g_idx, kind='stable')"
    ),
    r"kleidiai:\w*|(\w+:)?\w*(_sums?|compensation)": (
        "sums of elements are no layout: they are computed. Lay out the elements alone, and add the sums yourself"
    ),
    r"(ggml|llama_cpp):\w*|gguf:(?!(q4_0|mxfp4)$)\w*": (
        "blocks of ggml are no layout: they hold scales between elements, and its repacks flip bits. gpulayout "
        "relayout takes those of Q4_0, Q4_1, Q8_0 and MXFP4 apart, and 'gguf:q4_0' is the order of the codes"
    ),
    r"(\w+:)?\w*quanti[sz](e|ation)\w*": (
        "quantisation is no layout: it computes new elements. Give gl.pack scale= and zero_point= beside an entry"
    ),
    r"(cutlass|mma|tma):\w*(swizzle|xor|ldmatrix)\w*": (
        "xor swizzles are no layout of global memory: a kernel applies one as it loads into shared memory"
    ),
    r"(\w+:)?\w*(w31|up_gate)\w*": (
        "up before gate is no layout: the halves change places. Swap them first, by np.roll(array, rows // 2, 0)"
    ),
    r"vllm:nhd": "vLLM's NHD is 'vllm:LBNHC'",
    r"vllm:hnd": "vLLM's HND is 'vllm:LBHNC'",
}


def why_not_here(name: str) -> str:
    """What to say of a name that no entry has; empty text where there is nothing to say but the nearest name.

    >>> why_not_here("vllm:NHD"), why_not_here("cublas:block_scale")
    ("vLLM's NHD is 'vllm:LBNHC'", '')
    """
    said = (text for pattern, text in _NAMES.items() if re.fullmatch(pattern, name.strip(), re.IGNORECASE))
    return next(said, "")
