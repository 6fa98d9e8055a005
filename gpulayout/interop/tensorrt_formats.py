"""TensorRT's names for layouts: `nvinfer1::TensorFormat`, whose law is in NvInferRuntimeBase.h and in the chapter "Data
Format Descriptions" of TensorRT's documentation.

The last dimensions of a tensor are C, H and W, or C, D, H and W; any number of batch dimensions come before them.  With
V scalars per vector, the element (n, c, h, w) of a tensor [N,C,H,W] is, in an array in C order, the element

    LINEAR                  (n, c, h, w)                of [N][C][H][W]
    CHW2, 4, 16, 32         (n, c // V, h, w, c % V)    of [N][ceil(C/V)][H][W][V]          NC/32HW32
    CDHW32                  (n, c // V, d, h, w, c % V) of [N][ceil(C/V)][D][H][W][V]
    HWC, DHWC               (n, h, w, c)                of [N][H][W][C]
    HWC8, HWC16, DHWC8      (n, h, w, c)                of [N][H][W][ceil(C/V) * V]         NHWC8
    DLA_LINEAR              (n, c, h, w)                of [N][C][H][W rounded up to 64 bytes]

DLA_HWC4 is refused: how far it rounds W up depends on the chip.  Which element types TensorRT takes in a format is not
checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulayout.layout.checks import counted, shown
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout

FORMATS = (
    *("LINEAR", "CHW2", "CHW4", "CHW16", "CHW32", "CDHW32"),
    *("HWC", "HWC8", "HWC16", "DHWC", "DHWC8", "DLA_LINEAR", "DLA_HWC4"),
)
DLA_PITCH = 64  # bytes of which a row of DLA_LINEAR is a multiple


def tensorrt_format(text: str) -> str | None:
    """The format that a text names; None for other text.

    A name alone is one if it ends with a number: HWC may also say what the dimensions of the array are.

    >>> [tensorrt_format(text) for text in ("kHWC", "tensorrt:HWC", "CHW32", "HWC")]
    ['HWC', 'HWC', 'CHW32', None]
    """
    name = re.sub("^(?:tensorrt:|(?:nvinfer1::)?TensorFormat::)?k?", "", text)
    return name if name in FORMATS and (name != text or name[-1].isdigit()) else None


def tensorrt_hint(text: str) -> str:
    """What to write for a format in small letters, as trtexec takes it, or without its `k`; nothing for other text.

    >>> tensorrt_hint("chw32"), tensorrt_hint("DHWC")
    ("write 'kCHW32' for TensorRT's format", "write 'kDHWC' if the array's last dimensions are C, D, H and W")
    """
    name = text.upper().removeprefix("TENSORRT:").removeprefix("K")
    if name not in FORMATS:
        return ""
    last = {"HWC": "C, H and W", "DHWC": "C, D, H and W"}.get(text)
    return f"write 'k{name}' " + (f"if the array's last dimensions are {last}" if last else "for TensorRT's format")


def check_dimension_names(name: str, logical: str) -> None:
    """LayoutError for dimensions that are called C, H and W, and do not stand in the order that the format is for.

    >>> check_dimension_names("HWC8", "NHWC")
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: TensorRT's format HWC8 is for dimensions in the order ... C, H, W, but they are called \
NHWC: write 'NHWC8c'
    """
    letters, vector = _letters(name)
    last = "CDHW" if "D" in letters else "CHW"
    called = logical.upper()
    if {*last} <= {*called} and not called.endswith(last):
        batch = "".join(letter for letter in called if letter not in last)
        raise LayoutError(
            f"TensorRT's format {name} is for dimensions in the order ... {', '.join(last)}, but they are called "
            f"{logical}: write '{batch}{letters}{vector and vector + 'c'}'"
        )


def _letters(name: str) -> tuple[str, str]:
    """The letters of a format in the order of its memory, and the scalars per vector, which may be none."""
    match = re.fullmatch("([CDHW]+)([0-9]*)", name)
    return (match[1], match[2]) if match else ("CHW", "")


def tensorrt_layout(name: str, dimensions: Sequence[int], element_type: ElementType | None) -> Layout:
    """The layout of an array of these dimensions in a format; LayoutError without one.

    >>> str(tensorrt_layout("CHW32", (3, 4, 5), None)), str(tensorrt_layout("HWC8", (2, 3, 4, 5), None))
    ('{2,1,0:T(32,1,1)}', '{1,3,2,0:T(8)}')
    >>> str(tensorrt_layout("DLA_LINEAR", (3, 4, 5), ElementType.F16))
    '{2,1,0:PD(3,4,32)}'
    """
    if name == "DLA_HWC4":
        raise LayoutError(
            "TensorRT's format DLA_HWC4 rounds rows up to 32 or 64 bytes, as the chip wants: write the layout, such as "
            "'{1,3,2,0:PD(1,4,8,16)}' for f16[1,4,8,10] with rows of 16 elements"
        )
    rank = len(dimensions)
    if name == "LINEAR":
        return Layout.descending(rank)
    letters, vector = _letters(name)
    if rank < len(letters):
        least = ", ".join("CDHW" if "D" in letters else "CHW")
        raise LayoutError(
            f"TensorRT's format {name} is for {len(letters)} dimensions or more, of which the last are {least}, but "
            f"the array has {counted(rank, 'dimension')}: {shown(dimensions)}"
        )
    if name == "DLA_LINEAR":
        if element_type is None:
            raise LayoutError("TensorRT's format DLA_LINEAR has rows of whole 64 bytes: write the whole shape")
        row = DLA_PITCH // element_type.itemsize
        return Layout.descending(rank).replace(padded_dimensions=(*dimensions[:-1], -(-dimensions[-1] // row) * row))
    order, channels = list(range(rank)), rank - len(letters)
    tile = [int(vector or 1)] + [1] * (len(letters) - 1)
    if letters.endswith("C"):
        order.append(order.pop(channels))
        tile = tile[:1]
    return Layout(order[::-1], tiles=(tile,) if vector else ())
