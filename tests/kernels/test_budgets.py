"""Executed instructions per element of whole arrays, everything included: the limits that the kernels keep.

A device that moves 16 bytes per cycle and multiprocessor issues at most 15 instructions per byte of an element in that
time, and about 10 in practice: 40 for elements of 4 bytes.  `python -m tests.support.sass` prints these and more moves.
"""

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc
from tests.support.bits_cases import BitsCase
from tests.support.kernel_cases import Case, backwards, transposed
from tests.support.sass.launches import per_element, prepare, taken

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))


def turned(width, *sizes):
    """Matrices of the last two sizes, each turned."""
    rank = len(sizes)
    return Case(f"{width} bytes, {sizes} turned", transposed(width, sizes, (*range(rank - 2), rank - 1, rank - 2)))


def reversed_axes(width, *sizes):
    return Case(f"{width} bytes, {sizes} reversed", transposed(width, sizes, backwards(len(sizes))))


def swapped_rows(width, nbytes):
    return Case(f"rows of {nbytes} bytes", transposed(width, (128, 64, nbytes // width), (1, 0, 2)))


def packed(source_bits, target_bits, phases=(0, 0), size=8192, padding=0):
    """Half a million elements in padded rows, packed or unpacked."""
    wide, count = size + padding, (1 << 19) // size
    axes = (wide, size, 1, 1), (count, count, size, wide)
    name = f"rows of {size} and {padding}, {source_bits} bits to {target_bits} at {phases}"
    return BitsCase(name, axes, wide * count, 0, (source_bits, target_bits), phases)


def into_tiles(bits):
    """A matrix to tiles of one word by as many rows as a word has slots."""
    side, rows, columns = 32 // bits, 256, 2048
    axes = (side, side, columns, 1), (columns, columns, 1, side), (rows // side,) * 2 + (side * columns,) * 2
    return BitsCase(f"tiles of {bits} bits", axes, rows * columns, 0, (bits, bits))


def turned_bits(bits, size):
    return BitsCase(f"{bits} bits turned", ((size, size, size, 1), (size, size, 1, size)), size**2, 0, (bits, bits))


# kernel, move, limit, and one block of how many is executed
BUDGETS = [
    ("tile.cu", turned(4, 768, 768), 8, 1),
    ("tile.cu", turned(4, 16, 48, 704), 12, 1),  # every tile is partial
    ("tile_any.cu", turned(4, 639, 833), 18, 1),
    ("tile_any.cu", turned(8, 401, 403), 22, 1),
    ("tile_words.cu", turned(1, 1021, 1019), 12, 1),
    ("tile_words.cu", turned(1, 10, 300, 301), 16, 1),
    ("tile_words.cu", turned(2, 639, 833), 16, 1),
    ("tile.cu", reversed_axes(4, *[16] * 4), 9, 1),  # 16 matrices in a tile
    ("tile.cu", reversed_axes(4, 32, 15, 12, 32), 9, 1),
    ("tile.cu", turned(2, 768, 768), 5, 1),
    ("tile_nd.cu", reversed_axes(4, 8, *[16] * 4), 24, 1),
    ("tile_nd.cu", reversed_axes(4, *[8] * 6), 24, 1),
    ("tile_nd.cu", reversed_axes(4, *[2] * 22), 24, 16),
    ("tile_nd.cu", reversed_axes(4, *[3] * 14), 27, 27),
    ("tile_nd.cu", reversed_axes(1, *[8] * 6), 10, 1),
    ("tile_nd.cu", reversed_axes(8, *[8] * 6), 36, 1),
    ("box_words.cu", reversed_axes(1, *[3] * 14), 20, 27),
    ("rows.cu", swapped_rows(4, 64), 6, 1),
    ("rows.cu", swapped_rows(4, 256), 6, 1),
    ("copy.cu", Case("copy", transposed(4, (1 << 18,), (0,))), 5, 1),
    ("bits.cu", packed(1, 8), 8, 1),
    ("bits.cu", packed(4, 8, (1, 3)), 7, 1),
    ("bits.cu", packed(8, 1), 5, 1),
    ("bits.cu", packed(8, 4, (3, 1)), 5, 1),
    ("bits.cu", packed(1, 8, size=9, padding=2), 25, 1),
    ("bits.cu", packed(8, 4, size=100, padding=2), 40, 1),
    ("bits.cu", packed(4, 8), 7, 1),
    ("bits_turn.cu", into_tiles(4), 3.1, 1),
    ("bits_turn_wide.cu", turned_bits(4, 1024), 1.7, 1),
    ("bits_turn_wide.cu", turned_bits(2, 1024), 0.95, 1),
    ("bits_turn.cu", turned_bits(1, 2048), 0.57, 1),
    ("bits_turn_any.cu", turned_bits(4, 1735), 5.7, 1),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("file, case, limit, every", BUDGETS, ids=[case.name for _, case, _, _ in BUDGETS])
def test_a_move_takes_no_more_instructions_than_its_budget(file, case, limit, every):
    assert case.plan.file == file
    assert per_element(case, "sm_90", every) <= limit


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ("sm_80", "sm_100"))
def test_other_architectures_take_about_as_many(architecture):
    """One move of each kernel, and a sample of its blocks."""
    some = {row[0]: row for row in BUDGETS}.values()
    prepare([case.record() for _, case, *_ in some], architecture)
    for file, case, limit, every in some:
        assert per_element(case, architecture, max(every, 8)) <= 1.15 * limit, (file, case.name)


def test_a_division_for_every_element_is_seen():
    case, right = reversed_axes(4, 8, *[16] * 4), "gpl_at(from, entry[i].offset)"
    divided = "gpl_divide(gpl_divide((unsigned)entry[i].offset, nd.part[0].low), nd.part[1].low)"
    wrong = right.replace(".offset", f".offset + ({divided} & nd.boxes >> 8)")  # + 0
    assert right in kernel_text("tile_nd.cu")
    assert taken(case, text=kernel_text("tile_nd.cu").replace(right, wrong)).per_element > 24
