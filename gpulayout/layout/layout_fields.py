"""The fields of a layout one by one: what each may be."""

from __future__ import annotations

from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.padding import PaddingValue, Scalar, plain_scalar

# The limits of every field that is one number.  XLA stores the memory space in a signed byte.
NUMBERS = {
    "tail_padding_alignment": (1, checks.INT64_MAX),
    "element_size_in_bits": (0, checks.INT64_MAX),
    "memory_space": (0, 127),
    "dynamic_shape_metadata_prefix_bytes": (0, checks.INT64_MAX),
}
SPARSE_TYPES = (ElementType.U8, ElementType.U16, ElementType.U32, ElementType.U64)


def number(field: str, value: object) -> int:
    """`value` as an int within the limits of the field."""
    least, most = NUMBERS[field]
    found = checks.whole_number(field, value)
    if not least <= found <= most:
        limits = f"{least}..{most if most != checks.INT64_MAX else '2^63-1'}"
        raise LayoutError(f"{field} {checks.number_text(found)} is not in {limits}")
    return found


def padded_dimensions(value: Any, order: tuple[int, ...]) -> tuple[int, ...] | None:
    """One width for every dimension, or None."""
    if value is None:
        return None
    widths = checks.sizes("padded_dimensions", value)
    if len(widths) != len(order):
        raise LayoutError(
            f"padded_dimensions {checks.shown(widths)} has {checks.counted(len(widths), 'entry')}: "
            f"minor_to_major {checks.shown(order)} orders {checks.counted(len(order), 'dimension')}"
        )
    return widths


def padding_value(value: object, widths: tuple[int, ...] | None) -> PaddingValue | Scalar | None:
    """A pad value; INVALID, the proto's unset value, becomes None and is refused with padded dimensions."""
    if value is None:
        return None
    found = plain_scalar(value)
    if found is not PaddingValue.INVALID:
        return found
    if widths is not None:
        raise LayoutError(
            f"padding_value INVALID cannot fill padded_dimensions {checks.shown(widths)}: "
            "use None for zeros, or a named value"
        )
    return None


def sparse_type(field: str, value: object) -> ElementType | None:
    """An unsigned integer type of whole bytes, or None."""
    if value is None:
        return None
    found = ElementType.of(value)
    if found not in SPARSE_TYPES:
        raise LayoutError(f"{field} {found} is not one of {', '.join(SPARSE_TYPES)}")
    return found
