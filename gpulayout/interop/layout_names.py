"""Layouts by name: a name is a `Layout` once the dimensions of an array are known.

C, F                    NumPy's orders
torch:channels_last     a memory_format of PyTorch
cute:(2,3):(1,2)        a CuTe layout, whose sizes must be those of the array
named:NHWC:NCHW         a name of `Layout.named`, and the array's dimensions in order
NHWC                    the same, where the call says what the dimensions are called
kCHW32, CHW32, kHWC     a format of TensorRT, see `interop.tensorrt_formats`; also tensorrt:HWC
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence

from gpulayout.interop.cute import from_cute
from gpulayout.interop.numpy_layouts import ORDERS, from_numpy_order
from gpulayout.interop.tensorrt_formats import check_dimension_names, tensorrt_format, tensorrt_hint, tensorrt_layout
from gpulayout.interop.torch_layouts import MEMORY_FORMATS, from_torch_memory_format
from gpulayout.layout.argument_hints import COLOURS, are_colours, named_layout, named_order, tiles_alone
from gpulayout.layout.checks import counted, shown, value_text
from gpulayout.layout.element_type import ACROSS_BYTES, ElementType
from gpulayout.layout.errors import LayoutError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

FIXED = (*ORDERS, *(f"torch:{name}" for name in MEMORY_FORMATS))
NAMES = (*FIXED, "cute:SIZES:STRIDES", "named:NHWC:NCHW")
# The layout for an array of these dimensions and of this element type, if it is known; LayoutError without one.
LayoutFor = Callable[[Sequence[int], ElementType | None], Layout]


def layout_name(
    text: str, others: Callable[[], Iterable[str]] = tuple, dimension_names: Sequence[str] = ()
) -> LayoutFor:
    """The layout with this name; LayoutError for text that is not a name.

    others            more names that may be meant: those of the catalogue
    dimension_names   what the caller calls the dimensions of the array

    >>> layout_name("torch:channels_last")((8, 3, 4, 4), None), layout_name("cute:(2,3):(1,2)")((2, 3), None)
    (Layout((1, 3, 2, 0)), Layout((0, 1)))
    """
    library, _, name = text.partition(":")
    logical = "".join(dimension_names) if all(len(letter) == 1 for letter in dimension_names) else ""
    if text in ORDERS:
        return lambda dimensions, _: from_numpy_order(text, len(dimensions))
    if library == "torch" and name in MEMORY_FORMATS:
        return lambda dimensions, _: from_torch_memory_format(name, len(dimensions))
    if tensorrt := tensorrt_format(text):
        check_dimension_names(tensorrt, logical)
        return lambda dimensions, element_type: tensorrt_layout(tensorrt, dimensions, element_type)
    if re.fullmatch("[A-Za-z0-9/]+", text) and {*re.sub("[^a-z]", "", text.lower())} == {*logical.lower()}:
        own = Layout.named(text, logical=logical)
        return lambda *_: own
    if library == "cute":
        shape = from_cute(name, "u8")  # bytes: the element type changes no place
        return lambda dimensions, _: _of_cute(shape, text, dimensions)
    if library == "named":
        name, colon, logical = name.partition(":")
        if not colon:
            raise LayoutError(
                f"{value_text(text)} does not say the order of the array's dimensions: add it, as in named:NHWC:NCHW"
            )
        layout = Layout.named(name, logical=logical)
        return lambda dimensions, _: _of_rank(layout, text, dimensions)
    hint = tensorrt_hint(text) or named_layout(text, "'named:{name}:{logical}'") or _of_pixels(text)
    hint = hint or _of_order(text) or tiles_alone(text) or _of_element_type(text) or _did_you_mean(text, others())
    raise ShapeTextError(
        f"{value_text(text)} is neither a layout, such as {{1,0}}, nor a pattern, such as 'h w c -> c h w', nor the "
        f"name of one: names are {', '.join(NAMES)}, those of TensorRT, such as kCHW32, and those of the catalogue, "
        "such as cublas:block_scales"
        f"{f'; {hint}' if hint else ''}",
        0,
    )


def _of_order(text: str) -> str:
    """A hint for another word for one of NumPy's orders; or nothing."""
    order = named_order(text)
    return f"write {order!r}" if order and len(text) > 1 else ""


def _of_pixels(text: str) -> str:
    """A hint for BGR, and for a format of pixels that share bytes, such as Mono12p and RAW10; or nothing."""
    if are_colours(text):
        return COLOURS
    is_packed = re.fullmatch("(?i)(?:mono|raw|bayer[a-z]{2})(?:10|12|14)(?:p|_?packed)?", text[:40])
    return f"pixels that share bytes have no layout: {ACROSS_BYTES}" if is_packed else ""


def _of_element_type(text: str) -> str:
    """A hint for the name of an element type; or nothing."""
    try:
        ElementType.of(text)
    except TypeError:
        return ""
    return f"an element type stands before sizes, as in '{text}[2,3]', or in dtype={text!r}"


def _did_you_mean(text: str, others: Iterable[str]) -> str:
    """A hint for text that is almost a name, also without its library; or nothing."""
    known = {part.lower(): name for name in (*others, *FIXED) for part in (name, name.partition(":")[2]) if part}
    near = difflib.get_close_matches(text[:100].lower(), known, 1, cutoff=0.75)
    return f"did you mean {known[near[0]]!r}?" if near else ""


def _of_cute(shape: Shape, text: str, dimensions: Sequence[int]) -> Layout:
    if shape.dimensions != tuple(dimensions):
        raise LayoutError(f"{text} has sizes {shown(shape.dimensions)}, but the array has {shown(dimensions)}")
    return shape.layout


def _of_rank(layout: Layout, text: str, dimensions: Sequence[int]) -> Layout:
    if layout.rank != len(dimensions):
        raise LayoutError(
            f"{text} has {counted(layout.rank, 'dimension')}, but the array has {len(dimensions)}: {shown(dimensions)}"
        )
    return layout
