"""PyTorch's names for layouts: `memory_format`, and strides in elements.

    contiguous_format      any rank     descending
    channels_last          rank 4       N C H W in the order N H W C, so {1,3,2,0}
    channels_last_3d       rank 5       N C D H W in the order N D H W C, so {1,4,3,2,0}

`torch.preserve_format` keeps the format of a tensor and so names none.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.interop.orders import said_in_full
from gpulayout.layout import checks
from gpulayout.layout.element_type import TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import shape_from_strides
from gpulayout.layout.text import as_shape

_CHANNELS_LAST = {"channels_last": (1, 3, 2, 0), "channels_last_3d": (1, 4, 3, 2, 0)}  # minor to major
MEMORY_FORMATS = ("contiguous_format", *_CHANNELS_LAST)


def from_torch_memory_format(memory_format: Any, rank: SupportsIndex) -> Layout:
    """The layout of a new tensor in this memory format; the inverse of `to_torch_memory_format`.

    Parameters
    ----------
    memory_format : torch.memory_format or str
        `torch.contiguous_format`, `torch.channels_last`, `torch.channels_last_3d`, or the name of one.
    rank : int
        Number of dimensions: 4 for `channels_last`, 5 for `channels_last_3d`.

    Raises
    ------
    LayoutError
        The format has another rank, or is not one of the three.

    Examples
    --------
    >>> from_torch_memory_format("channels_last", 4)
    Layout((1, 3, 2, 0))
    """
    text = memory_format if isinstance(memory_format, str) else checks.value_text(memory_format)
    name, rank = text.removeprefix("torch."), checks.count("rank", rank)
    if name == "contiguous_format":
        return Layout.descending(rank)
    if name == "preserve_format":
        raise LayoutError(
            "memory_format preserve_format names no layout, it keeps that of a tensor: gl.shape_of(tensor).layout says "
            "which"
        )
    if name not in _CHANNELS_LAST:
        raise LayoutError(f"memory_format {checks.value_text(memory_format)} is not one of {', '.join(MEMORY_FORMATS)}")
    order = _CHANNELS_LAST[name]
    if rank != len(order):
        raise LayoutError(f"memory_format {name} is for {len(order)} dimensions, not {checks.number_text(rank)}")
    return Layout(order)


def to_torch_memory_format(layout: Shape | Layout | str) -> Any:
    """The memory format of a layout; the inverse of `from_torch_memory_format`.

    Parameters
    ----------
    layout : Layout, Shape or str

    Returns
    -------
    torch.memory_format
        `torch.channels_last` for ``{1,3,2,0}``.

    Raises
    ------
    LayoutError
        No memory format has this layout: the dimensions run otherwise, or there is padding, a tile or another field.
    ImportError
        PyTorch is not installed.

    Examples
    --------
    >>> to_torch_memory_format("f32[8,3]{1,0:PD(8,4)}")
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: padded_dimensions (8, 4) of f32[8,3]{1,0:PD(8,4)} cannot be expressed as a memory_format
    """
    order_only = said_in_full(layout, "a memory_format")
    names = [name for name, order in _CHANNELS_LAST.items() if order == order_only.minor_to_major]
    if order_only.is_descending:
        names = ["contiguous_format"]
    if not names:
        others = ", ".join(f"{name} is {order}" for name, order in _CHANNELS_LAST.items())
        raise LayoutError(
            f"minor_to_major {order_only.minor_to_major} of {layout} cannot be expressed as a memory_format: "
            f"contiguous_format is descending, {others}"
        )
    return getattr(importlib.import_module("torch"), names[0])


def from_torch_stride(
    stride: Iterable[SupportsIndex], size: Iterable[SupportsIndex], element_type: str | DTypeLike | TorchDType
) -> Shape:
    """The shape of a tensor from its strides; gaps between them become padded dimensions.

    Parameters
    ----------
    stride : iterable of int
        Elements between neighbours along each dimension: `tensor.stride()`.
    size : iterable of int
        Logical sizes: `tensor.size()`.
    element_type : str, DTypeLike or torch.dtype
        An XLA name, or what `ElementType.of` takes.

    Raises
    ------
    LayoutError
        No layout has these strides: they are zero (an expanded tensor) or overlapping, or a gap is not a multiple of
        the stride below it.  The message names the dimension.

    See Also
    --------
    to_torch_stride : the inverse.
    gpulayout.shape_of : the shape of a tensor, without regard to the strides of dimensions of size 1.

    Notes
    -----
    With one channel, contiguous and channels-last tensors have the same bytes.  PyTorch tells them apart by the strides
    of the dimensions of size 1, and so does this function where all strides together are those of a dense tensor.
    Where even they are the same, both take the tensor to be contiguous.

    Examples
    --------
    >>> str(from_torch_stride((48, 1, 12, 3), (8, 3, 4, 4), "f32").layout)
    '{1,3,2,0}'
    >>> [str(from_torch_stride(stride, (8, 1, 4, 4), "f32").layout) for stride in ((16, 16, 4, 1), (16, 1, 4, 1))]
    ['{3,2,1,0}', '{1,3,2,0}']
    """
    size = checks.sizes("size", size)
    orders = [order for order in _CHANNELS_LAST.values() if len(order) == len(size)]
    return shape_from_strides(stride, size, element_type, named=[Layout.descending(len(size)), *map(Layout, orders)])


def to_torch_stride(shape: Shape | str) -> tuple[int, ...]:
    """The strides, in elements, of a tensor that lies as the shape says; the inverse of `from_torch_stride`.

    They are for `torch.as_strided`.

    Parameters
    ----------
    shape : Shape or str

    Raises
    ------
    LayoutError
        Tiles, or elements that share a byte.

    Notes
    -----
    Strides say where elements lie.  They do not say what fills padding, nor how wide the most major dimension is.

    Examples
    --------
    >>> to_torch_stride("f32[8,3,4,4]{1,3,2,0}")
    (48, 1, 12, 3)
    """
    shape = as_shape(shape)
    return tuple(stride // shape.itemsize for stride in shape.byte_strides)
