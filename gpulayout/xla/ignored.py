"""What a comparison leaves out: the names that `ignore` takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError

LayoutPart = Literal[
    "layout_except_minor_to_major",
    "padded_dimensions",
    "padding_value",
    "tiles",
    "tail_padding_alignment",
    "element_size_in_bits",
    "bit_order",
    "memory_space",
    "split_configs",
    "dynamic_shape_metadata_prefix_bytes",
    "index_type",
    "pointer_type",
]
ShapePart = Literal[
    "layout", "element_type", "float_precision", "dynamic_dimensions", "dimensions", "buffer", LayoutPart
]

TypePart = Literal["element_type"]
PrecisionPart = Literal["float_precision"]


def ignored_parts(function: str, parts: Collection[str], ignore: str | Iterable[str]) -> frozenset[str]:
    """The names in `ignore`, checked against the parts that a public function can leave out."""
    if not isinstance(ignore, Iterable):
        raise LayoutTypeError(
            f"ignore {value_text(ignore)} is neither a name nor an iterable of names: it is {type_text(ignore)}"
        )
    found = [ignore] if isinstance(ignore, str) and ignore else list(ignore)
    for name in found:
        if name not in parts:
            raise LayoutError(f"ignore {value_text(name)} of {function} is not one of {', '.join(map(repr, parts))}")
    return frozenset(found)
