"""Sizes and bytes for the entries of the catalogue."""

import hashlib
import math

import numpy as np

import gpulayout as gl
from tests.reference import tiled_numbers

MOST_ELEMENTS = 1 << 14  # of a random case


def payload(count, bits):
    """Element n: the highest `bits` bits of n * 2654435761 modulo 2^32, in unsigned integers of at least 8 bits."""
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1 << 32)
    return (numbers >> np.uint64(32 - bits)).astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[max(bits, 8)])


def values_for(shape):
    """The payload as an array of a shape's type."""
    numbers = payload(shape.element_count, min(shape.bits_per_element, 32))
    if shape.itemsize > 4:
        numbers = numbers.astype(np.uint64)
    return numbers.view(shape.dtype).reshape(shape.dimensions)


def stored_bytes(shape):
    """The bytes of a packed array of the payload."""
    return np.asarray(gl.pack(values_for(shape), shape)).view(np.uint8).tobytes()


def random_call(entry, rng):
    """Sizes, element type and choices that an entry takes, drawn at random; sometimes one size more, in front."""
    choices = {choice.name: rng.choice(choice.values) for choice in entry.choices}
    dtype = rng.choice(entry.types)
    wholes = (1, 1, 2, 32, 64, 128, 256) if entry.refuses else (1,)  # what a choice may ask of a size
    while True:
        multiples = [math.lcm(size.multiple, rng.choice(wholes)) for size in entry.sizes]
        sizes = [multiple * rng.choice((1, 1, 2, 3, rng.randint(1, 300 // multiple + 1))) for multiple in multiples]
        if rng.random() < 0.25:
            sizes.insert(0, rng.randint(1, 5))
        if math.prod(sizes) > MOST_ELEMENTS:
            continue
        try:
            return sizes, dtype, choices, entry(*sizes, dtype=dtype, **choices)
        except gl.LayoutError as error:  # a rule that no single size says
            assert "cannot be" in str(error) and entry.refuses, error


def reference_numbers(shape):
    """For each place the number of its element, or -1, by the independent model."""
    layout = shape.layout
    tiles = [[str(size) if size is gl.COMBINE else size for size in tile] for tile in layout.tiles]
    return tiled_numbers(
        shape.dimensions,
        layout.minor_to_major,
        layout.padded_dimensions,
        tiles,
        layout.tail_padding_alignment,
    )


def sha256(data):
    return hashlib.sha256(data).hexdigest()
