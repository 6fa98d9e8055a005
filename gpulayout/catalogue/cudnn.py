"""NVIDIA cuDNN: tensors whose channels are cut into vectors."""

from gpulayout.catalogue.entry import Option, Size, entry
from gpulayout.layout.layout import Layout


@entry(
    summary="CUDNN_TENSOR_NCHW_VECT_C: channels in vectors of 4 or 32",
    about=(
        "int8 convolutions of cuDNN take images whose channels are cut into vectors of 4 (CUDNN_DATA_INT8x4) or 32 "
        "(CUDNN_DATA_INT8x32). The vector lies innermost, the rest is NCHW with C / 4 or C / 32. Filters in "
        "CUDNN_TENSOR_NCHW_VECT_C lie the same way: K for N, R and S for H and W. TensorRT calls them kCHW4 and "
        "kCHW32."
    ),
    owner="NVIDIA cuDNN",
    version="documents of cuDNN 9",
    source="https://docs.nvidia.com/deeplearning/cudnn/backend/latest/developer/core-concepts.html",
    judge="formula",
    judged_by="the section NC/32HW32 of the core concepts",
    sizes=(
        Size("images", "N, or K of a filter"),
        Size("channels", "C"),
        Size("height", "H, or R of a filter"),
        Size("width", "W, or S of a filter"),
    ),
    types=("s8", "u8"),
    choices=(Option("vector", "channels that lie side by side", (32, 4)),),
    stored="One byte in each place. Channels are padded to a multiple of the vector, with zeros.",
    usual=(32, 256, 56, 56),
)
def nchw_vect_c(vector: int) -> Layout:
    """NCHW with a tile of channels."""
    return Layout((3, 2, 1, 0), tiles=((vector, 1, 1),))
