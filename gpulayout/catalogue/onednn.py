"""oneDNN: blocked formats of activations and weights on CPUs, by the names of `dnnl_format_tag_t`.

A tag lists dimensions, most major first, then blocks: nChw16c cuts channels into blocks of 16, which are most minor.
Padding is zero, and kernels compute with it: a block is always whole.
"""

from typing import Any

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_OWNER: dict[str, Any] = {
    "owner": "oneDNN",
    "version": "oneDNN 3.2.0",
    "source": "https://uxlfoundation.github.io/oneDNN/dev_guide_understanding_memory_formats.html",
    "judge": "vectors",
}
_BYTES = ("s8", "u8")
_FLOATS = ("f32", "bf16", "f16", "s32", "s8", "u8")
_BATCH, _CHANNELS = Size("batch", "images"), Size("channels", "channels")
_OUT, _IN = Size("outputs", "channels of the result: o"), Size("inputs", "channels of the input: i")
_GROUPS = Size("groups", "groups of channels: g")
_DEPTH, _HEIGHT, _WIDTH = Size("depth", "depth: d"), Size("height", "height: h"), Size("width", "width: w")
_K, _N = Size("rows", "rows of the weights: K, the inputs"), Size("columns", "columns of the weights: N, the outputs")


def _padded(what: str) -> str:
    return f"One element in each place. {what} to whole blocks with zeros, which kernels read."


@entry(
    "onednn:nChw8c",
    summary="Images in blocks of 8 channels",
    about=(
        "Activations for AVX2 (and 8 x float32 in general): 8 channels of a pixel are one vector of float32. In "
        "letters of dimensions the tag is aBcd8b."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag aBcd8b",
    sizes=(_BATCH, _CHANNELS, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Channels are padded"),
    usual=(32, 64, 56, 56),
    **_OWNER,
)
def nChw8c() -> Layout:
    """The tag aBcd8b."""
    return Layout((3, 2, 1, 0), tiles=((8, 1, 1),))


@entry(
    "onednn:nChw16c",
    summary="Images in blocks of 16 channels",
    about=(
        "Activations for AVX-512: 16 channels of a pixel are one vector of float32. In letters of dimensions the "
        "tag is aBcd16b."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag aBcd16b",
    sizes=(_BATCH, _CHANNELS, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Channels are padded"),
    usual=(32, 64, 56, 56),
    **_OWNER,
)
def nChw16c() -> Layout:
    """The tag aBcd16b."""
    return Layout((3, 2, 1, 0), tiles=((16, 1, 1),))


@entry(
    "onednn:nCdhw16c",
    summary="Volumes in blocks of 16 channels",
    about=(
        "Activations of 3-D convolutions for AVX-512: 16 channels of a voxel are one vector of float32. In "
        "letters of dimensions the tag is aBcde16b."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag aBcde16b",
    sizes=(_BATCH, _CHANNELS, _DEPTH, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Channels are padded"),
    usual=(4, 64, 16, 56, 56),
    **_OWNER,
)
def nCdhw16c() -> Layout:
    """The tag aBcde16b."""
    return Layout((4, 3, 2, 1, 0), tiles=((16, 1, 1, 1),))


@entry(
    "onednn:OIhw8i8o",
    summary="Weights of a convolution in blocks of 8 inputs and 8 outputs",
    about=(
        "Weights for AVX2: a block is 8 inputs of 8 outputs, and the outputs are one vector of float32. In "
        "letters of dimensions the tag is ABcd8b8a."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag ABcd8b8a",
    sizes=(_OUT, _IN, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Outputs and inputs are padded"),
    usual=(64, 64, 3, 3),
    **_OWNER,
)
def OIhw8i8o() -> Layout:
    """The tag ABcd8b8a."""
    return Layout((3, 2, 1, 0), tiles=((8, 8, 1, 1), (8, 1, 1, 1)))


@entry(
    "onednn:OIhw16i16o",
    summary="Weights of a convolution in blocks of 16 inputs and 16 outputs",
    about=(
        "Weights for AVX-512: a block is 16 inputs of 16 outputs, and the outputs are one vector of float32. In "
        "letters of dimensions the tag is ABcd16b16a."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag ABcd16b16a",
    sizes=(_OUT, _IN, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Outputs and inputs are padded"),
    usual=(64, 64, 3, 3),
    **_OWNER,
)
def OIhw16i16o() -> Layout:
    """The tag ABcd16b16a."""
    return Layout((3, 2, 1, 0), tiles=((16, 16, 1, 1), (16, 1, 1, 1)))


@entry(
    "onednn:gOIhw16i16o",
    summary="Weights of a grouped convolution, 16 inputs and 16 outputs",
    about=("onednn:OIhw16i16o for each group of channels. In letters of dimensions the tag is aBCde16c16b."),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag aBCde16c16b",
    sizes=(_GROUPS, _OUT, _IN, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Outputs and inputs are padded"),
    usual=(4, 64, 64, 3, 3),
    **_OWNER,
)
def gOIhw16i16o() -> Layout:
    """The tag aBCde16c16b."""
    return Layout((4, 3, 2, 1, 0), tiles=((16, 16, 1, 1), (16, 1, 1, 1)))


@entry(
    "onednn:Goihw16g",
    summary="Weights of a depthwise convolution in blocks of 16 groups",
    about=(
        "A depthwise convolution has one input and one output in each group; 16 groups are one vector of float32. "
        "In letters of dimensions the tag is Abcde16a."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag Abcde16a",
    sizes=(_GROUPS, _OUT, _IN, _HEIGHT, _WIDTH),
    types=_FLOATS,
    stored=_padded("Groups are padded"),
    usual=(64, 1, 1, 3, 3),
    **_OWNER,
)
def Goihw16g() -> Layout:
    """The tag Abcde16a."""
    return Layout((4, 3, 2, 1, 0), tiles=((16, 1, 1, 1, 1),))


@entry(
    "onednn:OIhw4i16o4i",
    summary="int8 weights of a convolution for VNNI: 4 inputs, 16 outputs",
    about=(
        "VNNI multiplies 4 neighbouring bytes and adds them to an int32: 4 inputs of an output are neighbours, 16 "
        "outputs a vector. In letters of dimensions the tag is ABcd4b16a4b."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag ABcd4b16a4b",
    sizes=(_OUT, _IN, _HEIGHT, _WIDTH),
    types=_BYTES,
    stored=_padded("Outputs and inputs are padded"),
    usual=(64, 64, 3, 3),
    **_OWNER,
)
def OIhw4i16o4i() -> Layout:
    """The tag ABcd4b16a4b."""
    return Layout((3, 2, 1, 0), tiles=((16, 16, 1, 1), (16, 4, 1, 1)))


@entry(
    "onednn:OIhw8i16o2i",
    summary="16-bit weights of a convolution: 2 inputs, 16 outputs",
    about=(
        "Dot products of bfloat16 take 2 neighbouring elements: 2 inputs of an output are neighbours, 16 outputs "
        "a vector. In letters of dimensions the tag is ABcd8b16a2b."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag ABcd8b16a2b",
    sizes=(_OUT, _IN, _HEIGHT, _WIDTH),
    types=("bf16", "f16", "s8", "u8"),
    stored=_padded("Outputs and inputs are padded"),
    usual=(64, 64, 3, 3),
    **_OWNER,
)
def OIhw8i16o2i() -> Layout:
    """The tag ABcd8b16a2b."""
    return Layout((3, 2, 1, 0), tiles=((16, 16, 1, 1), (16, 2, 1, 1)))


@entry(
    "onednn:BA16a64b4a",
    summary="int8 weights of a matrix product for AMX and VNNI",
    about=(
        "4 neighbours along K lie together, as VNNI and AMX take them; 64 columns of N and 16 of such pieces "
        "along K are a block."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag BA16a64b4a",
    sizes=(_K, _N),
    types=_BYTES,
    stored=_padded("Rows and columns are padded"),
    usual=(4096, 4096),
    **_OWNER,
)
def BA16a64b4a() -> Layout:
    """The tag BA16a64b4a."""
    return Layout((0, 1), tiles=((64, 64), (64, 4)))


@entry(
    "onednn:BA16a64b2a",
    summary="16-bit weights of a matrix product for AMX",
    about=(
        "2 neighbours along K lie together, as AMX takes bfloat16; 64 columns of N and 16 of such pieces along K "
        "are a block."
    ),
    judged_by="dnnl_memory_desc_create_with_tag and the reorder to it, tag BA16a64b2a",
    sizes=(_K, _N),
    types=("bf16", "f16", "s8", "u8"),
    stored=_padded("Rows and columns are padded"),
    usual=(4096, 4096),
    **_OWNER,
)
def BA16a64b2a() -> Layout:
    """The tag BA16a64b2a."""
    return Layout((0, 1), tiles=((64, 32), (64, 2)))
