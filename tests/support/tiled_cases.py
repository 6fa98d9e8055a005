"""Random pairs of tiled, padded, tail-padded and permuted layouts, and what their buffers hold by the reference."""

import math

import numpy as np

import gpulayout as gl
from tests import reference

TYPES = {1: "u8", 2: "u16", 4: "s32", 8: "s64", 16: "c128"}
TILE_SIZES = (1, 2, 2, 3, 4, 4, 5, 8)


def drawn_layout(rng, dimensions):
    """A layout of these dimensions: up to three tiles, some longer than the rank, some with combined dimensions."""
    widths = tuple(size + rng.choice((0, 0, 1, 3)) for size in dimensions) if rng.random() < 0.4 else None
    tiles = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        sizes = [rng.choice(TILE_SIZES) for _ in range(rng.randint(1, min(len(dimensions) + 1, 3)))]
        tiles.append(
            gl.Tile(
                [gl.COMBINE if k < len(sizes) - 1 and rng.random() < 0.15 else size for k, size in enumerate(sizes)]
            )
        )
    return gl.Layout(
        tuple(rng.sample(range(len(dimensions)), len(dimensions))),
        padded_dimensions=widths,
        padding_value=7,
        tiles=tiles,
        tail_padding_alignment=rng.choice((1, 1, 1, 2, 5, 16)),
    )


def drawn_pair(rng, itemsize):
    """(source, target) of the same logical array of rank 0 to 4, sometimes without elements."""
    while True:
        most = rng.choice((3, 6, 6, 12))
        dimensions = tuple(rng.randint(0 if rng.random() < 0.03 else 1, most) for _ in range(rng.randint(0, 4)))
        pair = [gl.Shape(TYPES[itemsize], dimensions, drawn_layout(rng, dimensions)) for _ in range(2)]
        if max(shape.buffer_size for shape in pair) <= 3000:
            return pair


def numbers(shape):
    """For every place of the buffer the number of its element, or -1."""
    layout = shape.layout
    tiles = [[str(entry) if entry is gl.COMBINE else entry for entry in tile] for tile in layout.tiles]
    return reference.tiled_numbers(
        shape.dimensions, layout.minor_to_major, layout.padded_dimensions, tiles, layout.tail_padding_alignment
    )


def expected_buffer(shape):
    """The buffer as an array: payloads, and the pad in all other places."""
    table = np.concatenate(
        [reference.payload(shape.element_count, shape.itemsize), np.frombuffer(shape.padding_bytes, np.uint8)[None]]
    )
    return table[numbers(shape)].reshape(-1).view(shape.dtype)


def logical_array(shape):
    return reference.payload(math.prod(shape.dimensions), shape.itemsize).view(shape.dtype).reshape(shape.dimensions)
