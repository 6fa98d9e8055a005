"""Which kernels the benchmark cases get.  Planning needs no memory, so the cases have their full size."""

import itertools

import pytest

from gpulayout import Layout, Shape
from gpulayout.choices.explain import explain
from gpulayout.gpu.choose_kernel import kernel_plan
from tests.support.kernel_cases import backwards, move_of, transposed
from tests.support.placed import relayout_pieces

VECTOR, WORDS, ANY, ND, BOX_WORDS, ROWS, COPY = (
    "gpl_tile_vector",
    "gpl_tile_words",
    "gpl_tile_any",
    "gpl_tile_nd",
    "gpl_box_words",
    "gpl_rows",
    "gpl_copy",
)
CHANNELS = "gpl_channels"


def column_major(width, dimensions, order):
    """A transposition in the notation of column-major libraries, where dimension 0 is the most minor."""
    rank = len(dimensions)
    return transposed(width, dimensions[::-1], [rank - 1 - dim for dim in reversed(order)])


INSTANCES = {
    "2-D f32": (transposed(4, (8192, 8192), (1, 0)), VECTOR),
    "2-D f64": (transposed(8, (32768, 16384), (1, 0)), VECTOR),
    "2-D f32, long": (transposed(4, (43408, 1216), (1, 0)), VECTOR),
    "2-D bf16": (transposed(2, (16384, 16384), (1, 0)), VECTOR),
    "2-D u8": (transposed(1, (32768, 8192), (1, 0)), VECTOR),
    "2-D f32, odd": (transposed(4, (8191, 8209), (1, 0)), ANY),
    "2-D bf16, odd": (transposed(2, (16381, 8209), (1, 0)), WORDS),
    "2-D u8, odd": (transposed(1, (32749, 8191), (1, 0)), WORDS),
    "2-D u8, whole words": (transposed(1, (8204, 4100), (1, 0)), WORDS),
    "2-D u8, to odd": (transposed(1, (8191, 8192), (1, 0)), WORDS),
    "2-D u8, short": (transposed(1, (8191, 47), (1, 0)), ANY),
    "batched bf16, odd": (transposed(2, (100, 333, 77), (0, 2, 1)), WORDS),
    "points to coordinates": (transposed(4, (50_000_000, 3), (1, 0)), CHANNELS),
    "coordinates to points": (transposed(4, (3, 50_000_000), (1, 0)), CHANNELS),
    "pairs": (transposed(4, (100_000_000, 2), (1, 0)), CHANNELS),
    "batched f64": (transposed(8, (512, 1024, 1024), (0, 2, 1)), VECTOR),
    "batched fp16": (transposed(2, (3072, 64, 512), (0, 2, 1)), VECTOR),
    "TTC 3-D reversed": (column_major(4, (384, 59, 2320), (2, 1, 0)), VECTOR),
    "TTC 3-D swapped": (column_major(4, (2320, 384, 59), (1, 0, 2)), VECTOR),
    "TTC 4-D reversed": (column_major(4, (608, 12, 75, 96), (3, 2, 1, 0)), VECTOR),
    "TTC 4-D same minor": (column_major(4, (80, 16, 75, 582), (0, 3, 2, 1)), ROWS),
    "TTC 5-D reversed": (column_major(4, (352, 4, 28, 28, 48), (4, 3, 2, 1, 0)), VECTOR),
    "TTC 6-D reversed": (column_major(4, (32, 15, 15, 15, 15, 32), (5, 4, 3, 2, 1, 0)), VECTOR),
    "TTC 6-D": (column_major(4, (112, 5, 32, 15, 15, 15), (2, 0, 4, 1, 5, 3)), VECTOR),
    "6-D f64": (column_major(8, (64, 32, 32, 32, 16, 16), (5, 0, 4, 1, 3, 2)), CHANNELS),
    "23-D reversed": (column_major(8, (128, *[2] * 22), backwards(23)), ND),
    "22-D reversed, f32": (transposed(4, (2,) * 22, backwards(22)), ND),
    "22-D reversed, u8": (transposed(1, (2,) * 22, backwards(22)), ND),
    "3^18 reversed": (transposed(8, (3,) * 18, backwards(18)), ND),
    "3^18 reversed, f32": (transposed(4, (3,) * 18, backwards(18)), ND),
    "3^18 reversed, bf16": (transposed(2, (3,) * 18, backwards(18)), BOX_WORDS),
    "3^18 reversed, u8": (transposed(1, (3,) * 18, backwards(18)), BOX_WORDS),
    "3^18 cyclic": (transposed(8, (3,) * 18, (*range(1, 18), 0)), CHANNELS),
    "8^6 reversed": (transposed(4, (8,) * 6, backwards(6)), ND),
    "8^6 mixed": (transposed(4, (8,) * 6, (5, 0, 4, 1, 3, 2)), ND),
    "NCHW to NHWC": (transposed(2, (256, 64, 56, 56), (0, 2, 3, 1)), VECTOR),
    "NHWC to NCHW": (transposed(2, (256, 56, 56, 64), (0, 3, 1, 2)), VECTOR),
    "NCHW to NHWC, 7 x 7": (transposed(2, (256, 2048, 7, 7), (0, 2, 3, 1)), ANY),
    "images to planes": (transposed(1, (64, 1024, 1024, 3), (0, 3, 1, 2)), CHANNELS),
    "few channels, 7 x 7": (transposed(4, (1000, 5, 7, 7), (0, 2, 3, 1)), ND),
    "few channels, 7 x 7, u8": (transposed(1, (1000, 5, 7, 7), (0, 2, 3, 1)), BOX_WORDS),
    "attention heads": (transposed(2, (8, 4096, 32, 128), (0, 2, 1, 3)), ROWS),
    "attention keys": (transposed(2, (8, 32, 4096, 128), (0, 1, 3, 2)), VECTOR),
    "packed bf16": (transposed(2, (65536, 100, 6), (2, 1, 0)), ND),
    "pack, odd pitch": (move_of(4, [(8192, 8191, 1, 1), (8191, 8191, 8191, 8192)]), ROWS),
    "pack NCHW to NC/32HW32": (
        move_of(1, [(32, 24, 3136, 1), (3136, 3136, 1, 32), (512, 512, 24 * 3136, 32 * 3136)]),
        ANY,
    ),
    "pack to columns of 32": (move_of(1, [(32, 32, 1, 1), (4096, 4096, 4096, 32), (128, 128, 32, 32 * 4096)]), ROWS),
    "pack to tiles of 8 x 128, 2 x 1": (
        move_of(
            2, [(2, 2, 4100, 1), (128, 128, 1, 2), (4, 4, 8200, 256), (32, 32, 128, 1024), (512, 512, 32800, 32 * 1024)]
        ),
        CHANNELS,
    ),
    "unpack, odd pitch": (move_of(4, [(8191, 8191, 1, 1), (8191, 8191, 8192, 8191)]), ROWS),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_no_known_instance_is_gathered(name):
    move, kernel = INSTANCES[name]
    plan = kernel_plan(move)
    assert plan.family != "gather" and plan.kernel == kernel, (plan.kernel, plan.tile, plan.reasons)


# ---- tiles of many axes ------------------------------------------------------------------------------------


def test_offsets_of_any_size_have_a_box():
    moves = (
        move_of(width, [(3, 3, 15, 1), (5, 5, 3, 3), (3, 3, 1, 15), (100, 100, 45, 45), (2, 2, 10**4, step)])
        for width, step in itertools.product((1, 4), (2**31, 2**45, -(2**45)))
    )
    kernels = [BOX_WORDS] * 3 + [ND] * 3
    assert [(plan.kernel, plan.index_bits) for plan in map(kernel_plan, moves)] == [(kernel, 64) for kernel in kernels]


def test_the_plan_of_a_box_describes_it():
    source, target = Shape("f32", (8,) * 6), Shape("f32", (8,) * 6, Layout(range(6)))
    plan = kernel_plan(relayout_pieces(source, target)[0].move)
    assert plan.tile == (8, 8, 8, 8)
    assert plan.reasons[-1:] == (
        "two axes do not fill a tile, so a box over 4 axes is moved: its runs are of 256 bytes in the source, of 256 "
        "in the target, and 4 bytes are read and written at a time",
    )
    text = explain(relayout_pieces(source, target), source, target)
    assert "  gpu      tile (gpl_tile_nd in tile_nd.cu), for buffers aligned to 16 bytes\n" in text
    assert "tile of 8 x 8 x 8 x 8 elements (minor in the target last), 32-bit offsets, 64 blocks" in text
    short = kernel_plan(INSTANCES["packed bf16"][0])
    assert short.reasons[-1].startswith("a tile of two axes would have runs of ")
