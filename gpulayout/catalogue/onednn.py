"""oneDNN: blocked formats of activations and weights on CPUs, by the names of `dnnl_format_tag_t`.

A tag lists dimensions, most major first, then blocks: nChw16c cuts channels into blocks of 16, which are most minor.
Padding is zero, and kernels compute with it: a block is always whole.
"""

import re

from gpulayout.catalogue.entry import Entry, Size, entry
from gpulayout.layout.layout import Layout

_FLOATS = ("f32", "bf16", "f16", "s32", "s8", "u8")
_HALVES = ("bf16", "f16", "s8", "u8")
_BYTES = ("s8", "u8")
_SIZES = {  # by their letters in tags
    "n": Size("batch", "images"),
    "c": Size("channels", "channels"),
    "o": Size("outputs", "channels of the result: o"),
    "i": Size("inputs", "channels of the input: i"),
    "g": Size("groups", "groups of channels: g"),
    "d": Size("depth", "depth: d"),
    "h": Size("height", "height: h"),
    "w": Size("width", "width: w"),
    "a": Size("rows", "rows of the weights: K, the inputs"),
    "b": Size("columns", "columns of the weights: N, the outputs"),
}
_USUAL = {  # by the dimensions of tags
    "nchw": (32, 64, 56, 56),
    "ncdhw": (4, 64, 16, 56, 56),
    "oihw": (64, 64, 3, 3),
    "goihw": (4, 64, 64, 3, 3),
    "ab": (4096, 4096),
}


def _entry(tag: str, summary: str, about: str, types: tuple[str, ...] = _FLOATS, usual: tuple[int, ...] = ()) -> Entry:
    """The entry of a tag, from which its sizes and its layout follow.  Dimensions in upper case have blocks."""
    order = re.split("[0-9]", tag)[0]
    dims = "ab" if order == "BA" else order.lower()
    letters = tag.translate(str.maketrans(dims + dims.upper(), "abcde"[: len(dims)] + "ABCDE"[: len(dims)]))
    padded = " and ".join(_SIZES[dim].name for dim in dims if dim.upper() in order).capitalize()
    layout = Layout.named(tag, logical=dims)

    def build() -> Layout:
        return layout

    build.__name__ = tag
    return entry(
        summary=summary,
        about=about if tag == letters else f"{about} In letters of dimensions the tag is {letters}.",
        owner="oneDNN",
        version="oneDNN 3.2.0",
        source="https://uxlfoundation.github.io/oneDNN/dev_guide_understanding_memory_formats.html",
        judged_by=f"dnnl_memory_desc_create_with_tag and the reorder to it, tag {letters}",
        sizes=tuple(_SIZES[dim] for dim in dims),
        types=types,
        stored=f"One element in each place. {padded} are padded to whole blocks with zeros, which kernels read.",
        usual=usual or _USUAL[dims],
    )(build)


nChw8c = _entry(
    "nChw8c",
    summary="Images in blocks of 8 channels",
    about="Activations for AVX2 (and 8 x float32 in general): 8 channels of a pixel are one vector of float32.",
)
nChw16c = _entry(
    "nChw16c",
    summary="Images in blocks of 16 channels",
    about="Activations for AVX-512: 16 channels of a pixel are one vector of float32.",
)
nCdhw16c = _entry(
    "nCdhw16c",
    summary="Volumes in blocks of 16 channels",
    about="Activations of 3-D convolutions for AVX-512: 16 channels of a voxel are one vector of float32.",
)
OIhw8i8o = _entry(
    "OIhw8i8o",
    summary="Weights of a convolution in blocks of 8 inputs and 8 outputs",
    about="Weights for AVX2: a block is 8 inputs of 8 outputs, and the outputs are one vector of float32.",
)
OIhw16i16o = _entry(
    "OIhw16i16o",
    summary="Weights of a convolution in blocks of 16 inputs and 16 outputs",
    about="Weights for AVX-512: a block is 16 inputs of 16 outputs, and the outputs are one vector of float32.",
)
gOIhw16i16o = _entry(
    "gOIhw16i16o",
    summary="Weights of a grouped convolution, 16 inputs and 16 outputs",
    about="onednn:OIhw16i16o for each group of channels.",
)
Goihw16g = _entry(
    "Goihw16g",
    summary="Weights of a depthwise convolution in blocks of 16 groups",
    about="A depthwise convolution has one input and one output in each group; 16 groups are one vector of float32.",
    usual=(64, 1, 1, 3, 3),
)
OIhw4i16o4i = _entry(
    "OIhw4i16o4i",
    summary="int8 weights of a convolution for VNNI: 4 inputs, 16 outputs",
    about=(
        "VNNI multiplies 4 neighbouring bytes and adds them to an int32: 4 inputs of an output are neighbours, 16 "
        "outputs a vector."
    ),
    types=_BYTES,
)
OIhw8i16o2i = _entry(
    "OIhw8i16o2i",
    summary="16-bit weights of a convolution: 2 inputs, 16 outputs",
    about=(
        "Dot products of bfloat16 take 2 neighbouring elements: 2 inputs of an output are neighbours, 16 outputs a "
        "vector."
    ),
    types=_HALVES,
)
BA16a64b4a = _entry(
    "BA16a64b4a",
    summary="int8 weights of a matrix product for AMX and VNNI",
    about=(
        "4 neighbours along K lie together, as VNNI and AMX take them; 64 columns of N and 16 of such pieces along K "
        "are a block."
    ),
    types=_BYTES,
)
BA16a64b2a = _entry(
    "BA16a64b2a",
    summary="16-bit weights of a matrix product for AMX",
    about=(
        "2 neighbours along K lie together, as AMX takes bfloat16; 64 columns of N and 16 of such pieces along K are a "
        "block."
    ),
    types=_HALVES,
)
