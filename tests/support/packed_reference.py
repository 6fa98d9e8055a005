"""Packed elements from their definition: a buffer is one large number, little end first, and element i is its bits from
i * bits on.  In the bit order "big" it is big end first, and bits are counted from the highest.

It shares no code with the library: it reads only the fields of shapes, and knows no bytes inside a buffer.
"""

import itertools

import numpy as np

from tests import reference


def unpacked(buffer, bits, count, order="little"):
    """The elements of a packed buffer, one in each byte."""
    if order == "big":
        digits = format(int.from_bytes(bytes(buffer), "big"), f"0{8 * len(buffer)}b")
        return np.array([int(digits[bits * i : bits * (i + 1)], 2) for i in range(count)], np.uint8)
    digits = format(int.from_bytes(bytes(buffer), "little"), f"0{bits * count}b")[::-1]  # the lowest bit first
    return np.array([int(digits[bits * i : bits * (i + 1)][::-1], 2) for i in range(count)], np.uint8)


def packed(values, bits, order="little"):
    """Elements as a packed buffer: their low bits, and zeros after the last."""
    if order == "big":
        digits = "".join(format(int(value) & (1 << bits) - 1, f"0{bits}b") for value in values)
        size = -(-len(digits) // 8)
        return np.frombuffer(int("0" + digits.ljust(8 * size, "0"), 2).to_bytes(size, "big"), np.uint8)
    digits = "".join(format(int(value) & (1 << bits) - 1, f"0{bits}b") for value in reversed(values))
    return np.frombuffer(int("0" + digits, 2).to_bytes(-(-len(values) * bits // 8), "little"), np.uint8)


def moved(axes, slots, pad, values):
    """The values of a target with this number of slots, the pad value wherever there is no element.

    axes      (extent, bound, source stride, target stride) each, strides in slots
    values    a function from the slot in the source to its value
    """
    result = np.full(slots, pad, np.uint8)
    for coordinates in itertools.product(*(range(bound) for _, bound, _, _ in axes)):
        source, target = (sum(c * axis[side] for c, axis in zip(coordinates, axes)) for side in (2, 3))
        result[target] = values(source)
    return result


def values(count, bits):
    """The elements of a logical array, in no regular order."""
    return (np.arange(count) * 7 + np.arange(count) // 5) % (1 << bits)


def buffer(shape):
    """The packed buffer of the logical array of these values, from the definitions of layouts, of tiles and of
    packing.
    """
    tiles = [[size if isinstance(size, int) else "*" for size in tile] for tile in shape.layout.tiles]
    numbers = reference.tiled_numbers(
        shape.dimensions,
        shape.layout.minor_to_major,
        shape.layout.padded_dimensions,
        tiles,
        shape.layout.tail_padding_alignment,
    )
    bits = shape.element_type.bits
    elements = np.append(values(shape.element_count, bits), shape.padding_bytes[0])[numbers]
    return packed(elements, bits, shape.layout.bit_order)
