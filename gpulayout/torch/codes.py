"""Codes of elements below a byte in plain tensors: a byte for each, uint8 with its bits, or int8 with its number."""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.torch.memory import described

PART = 1 << 20  # codes of a part


def check_codes(tensor: Any, shape: Shape, role: str) -> None:
    """LayoutError for codes that need more bits than `shape` has: packing would lose them."""
    element_type = shape.element_type
    if not element_type.is_sub_byte or shape.is_packed or not tensor.numel():
        return
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return  # a graph cannot wait for an answer
    codes, count = tensor.detach(), 2**element_type.bits
    first, last = (-count // 2, count // 2 - 1) if codes.dtype == torch.int8 else (0, count - 1)
    least, most = _ends(codes)
    if least < first or most > last:
        wrong = least if least < first else most
        raise LayoutError(
            f"{role} {described(tensor)} has a code of {wrong}, but {element_type} has {element_type.bits} bits, "
            f"{first} to {last}: bits above would be lost"
        )


def _ends(codes: Any) -> tuple[int, int]:
    """The least and the greatest code; in parts, where torch would copy a whole tensor with gaps to find them."""
    parts = [codes]
    if not codes.is_contiguous():
        axis = max(range(codes.dim()), key=codes.shape.__getitem__)
        parts = codes.split(max(1, PART * codes.shape[axis] // codes.numel()), axis)
    ends = [int(end) for part in parts for end in torch.aminmax(part)]
    return min(ends), max(ends)


def with_signs(tensor: Any, shape: Shape, packed: Shape) -> Any:
    """Codes of the bytes that were unpacked, in place: in int8 their numbers, so that 15 of 4 bits is -1; in uint8 15.

    A layout with a code in each byte keeps the whole byte, so -1 of an int8 comes as 255 there.
    """
    element_type = shape.element_type
    if not element_type.is_sub_byte or shape.is_packed:
        return tensor
    sign = 1 << element_type.bits - 1
    if tensor.dtype == torch.int8:
        tensor.bitwise_and_(2 * sign - 1).bitwise_xor_(sign).sub_(sign)
    elif element_type.kind == "signed" and not packed.is_packed:
        tensor.bitwise_and_(2 * sign - 1)
    return tensor
