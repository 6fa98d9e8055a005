"""Shapes and layouts as plain tuples of numbers and texts.

torch.compile takes these as constants of a graph, by value.  A shape it would know by its address, so that an equal one
compiles again, and a shape that the compiled function makes it could not hand on at all.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from enum import Enum
from typing import Any

from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

Plain = tuple[Any, ...]


def plain(value: Any) -> Any:
    """A shape or a layout as tuples; other values as they are.  torch.compile looks into this function.

    What does not matter for moving elements is left out.

    >>> plain(Shape("f32", (2, 3), "{0,1:T(2,2)}"))
    ('shape', 'f32', (2, 3), (False, False), ('layout', (0, 1), None, None, ((2, 2),), 1, 0, 'little', (), 0))
    """
    if isinstance(value, Shape):
        return (
            "shape",
            value.element_type.value,
            _sizes(value.dimensions),
            value.dynamic_dimensions,
            plain(value.layout),
        )
    if not isinstance(value, Layout):
        return value
    return (
        "layout",
        _sizes(value.minor_to_major),
        None if value.padded_dimensions is None else _sizes(value.padded_dimensions),
        _plain_scalar(value.padding_value),
        tuple([_sizes(tile.dimensions) for tile in value.tiles]),
        operator.index(value.tail_padding_alignment),
        operator.index(value.element_size_in_bits),
        value.bit_order,
        tuple([(operator.index(split.dimension), _sizes(split.split_indices)) for split in value.split_configs]),
        operator.index(value.dynamic_shape_metadata_prefix_bytes),
    )


# torch.compile makes variables of the numbers in an object once it has seen two of a kind; these make constants again.


def _sizes(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([value if isinstance(value, Enum) else operator.index(value) for value in values])


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, complex):
        return value.real.hex(), value.imag.hex()
    if isinstance(value, float):
        return (value.hex(),)
    return operator.index(value) if isinstance(value, int) and not isinstance(value, Enum) else value


def _scalar(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    parts = [float.fromhex(part) for part in value]
    return parts[0] if len(parts) == 1 else complex(*parts)


def from_plain(value: Any) -> Any:
    """The inverse.

    >>> str(from_plain(plain(Shape("f32", (2, 3), "{0,1:PD(3,5)}"))))
    'f32[2,3]{0,1:PD(3,5)}'
    """
    if not isinstance(value, tuple) or value[:1] not in (("shape",), ("layout",)):  # a tuple of a caller's is no shape
        return value
    if value[0] == "shape":
        return Shape(value[1], value[2], from_plain(value[4]), dynamic_dimensions=value[3])
    order, widths, padding_value, tiles, tail, bits, bit_order, splits, prefix = value[1:]
    return Layout(
        order,
        padded_dimensions=widths,
        padding_value=_scalar(padding_value),
        tiles=tiles,
        tail_padding_alignment=tail,
        element_size_in_bits=bits,
        bit_order=bit_order,
        split_configs=splits,
        dynamic_shape_metadata_prefix_bytes=prefix,
    )
