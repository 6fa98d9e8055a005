"""Packed elements beyond 2^32 slots: the first and the last blocks of huge packed moves, in sparse memory."""

import itertools
import math

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from tests.support.bits_cases import BitsCase
from tests.support.kernel_cases import BLOCK, FILES
from tests.support.simt import host_module, toolchain
from tests.support.simt.sparse import sparse_bytes

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
BIG = 2**32
TILES = 3 * (2**31 - 1) - 2  # nearly all that a grid of three rows has
PAD = 0b1011

# (file, axes of (extent, bound, source stride, target stride) in slots, bits of a slot in the source and the target)
CASES = {
    "rows of odd length": ("bits.cu", ((BIG + 5, BIG + 5, 1, 1), (3, 3, BIG + 7, BIG + 5)), (4, 4)),
    "padded rows": ("bits.cu", ((9, 7, 1, 1), (BIG + 3, BIG + 3, 7, 9)), (1, 1)),
    "more than 2^32 groups": ("bits.cu", ((32, 31, 1, 1), (4 * BIG + 3, 4 * BIG + 3, 0, 32)), (1, 1)),
    "packed": ("bits.cu", ((BIG + 5001, BIG + 5000, 1, 1),), (8, 4)),
    "unpacked": ("bits.cu", ((BIG + 5001, BIG + 5000, 1, 1),), (4, 8)),
    "packed out of rows": ("bits.cu", ((37, 36, 1, 1), (BIG // 8 + 3, BIG // 8 + 3, 41, 37)), (8, 1)),
    "unpacked out of rows": ("bits.cu", ((37, 36, 1, 1), (BIG // 8 + 3, BIG // 8 + 3, 41, 37)), (2, 8)),
    "turned to runs": ("bits_turn.cu", ((8, 8, BIG + 16, 1), (BIG + 16, BIG + 8, 1, 8)), (4, 4)),
    "unpacked to gaps": ("bits_any.cu", ((BIG + 77, BIG + 77, 1, 3),), (2, 8)),
    "more than 2^32 bytes to gaps": ("bits_any.cu", ((3, 2, 1, 2), (BIG + 3, BIG + 3, 2, 7)), (4, 8)),
    "turned in odd rows": ("bits_turn_any.cu", ((BIG + 5, BIG + 3, 9, 1), (9, 9, 1, BIG + 5)), (4, 4)),
    "turned in odd rows of the source": ("bits_turn_any.cu", ((35, 33, BIG + 5, 1), (BIG + 5, BIG + 1, 1, 35)), (1, 1)),
    "more than 2^32 odd rows": (
        "bits_turn_any.cu",
        ((17, 17, 15, 1), (15, 13, 1, 17), (BIG + 3, BIG + 3, 0, 255)),
        (4, 4),
    ),
    "turned to gaps": ("bits_turn_any.cu", ((48, 45, 31, 1), (31, 30, 1, 56), (BIG + 3, BIG + 3, 0, 1736)), (2, 2)),
    "turned": ("bits_turn.cu", ((BIG // 2 + 16, BIG // 2, 16, 1), (16, 16, 1, BIG // 2 + 16)), (4, 4)),
    "turned, long in the source": ("bits_turn.cu", ((16, 16, BIG // 2 + 16, 1), (BIG // 2, BIG // 2, 1, 16)), (4, 4)),
    "turned in vectors": (
        "bits_turn_wide.cu",
        ((BIG // 2 + 64, BIG // 2, 128, 1), (128, 128, 1, BIG // 2 + 64)),
        (4, 4),
    ),
    "turned in vectors, long in the source": (
        "bits_turn_wide.cu",
        ((64, 64, 2 * BIG + 64, 1), (2 * BIG, 2 * BIG, 1, 64)),
        (2, 2),
    ),
    "more than 2^32 tiles": (
        "bits_turn_wide.cu",
        ((16, 16, 32, 1), (32, 16, 1, 16), (TILES, TILES, 0, 512)),
        (4, 4),
    ),
    "more than 2^32 blocks": ("bits_turn.cu", ((16, 16, 16, 1), (16, 8, 1, 16), (BIG + 3, BIG + 3, 0, 256)), (4, 4)),
}


def case_of(name):
    file, axes, widths = CASES[name]
    slots, in_blocks = math.prod(extent for extent, *_ in axes), file == "bits_turn_wide.cu"
    found = BitsCase(name, axes, slots, PAD, widths, index_bits=64, in_blocks=in_blocks)
    assert found.plan.file == file and max(found.slots, found.span[1]) > BIG
    return found


def corner(case, far):
    """(slot in the source or None, slot in the target) of the places at the beginning or the end of every axis."""
    ranges, second = [], 8 if case.axes[0][0] < 64 or case.plan.file == "bits_turn.cu" else 1
    for (extent, *_), most in zip(case.axes, (64, second, 1)):  # as far as the launched blocks reach
        size = min(extent, most)
        ranges.append(range(extent - size, extent) if far else range(size))
    for coordinates in itertools.product(*ranges):
        both = tuple(zip(coordinates, case.axes))
        inside = all(coordinate < axis[1] for coordinate, axis in both)
        source, target = (sum(coordinate * axis[side] for coordinate, axis in both) for side in (2, 3))
        yield source if inside else None, target


def value_of(slot, bits):
    """The value of a slot of the source; neighbours differ."""
    return (slot * 7 + slot // 5 + 1) % (1 << bits)


def corner_is_right(case, far, text=None):
    """Launch the first or the last blocks and check the corner that they fill."""
    plan, (source_bits, target_bits), bits = case.plan, case.widths, min(case.widths)
    source = sparse_bytes(case.span[1] * source_bits // 8 + 64)
    far_slot = sum((extent - 1) * stride for extent, _, _, stride in case.axes)
    target = sparse_bytes(far_slot * target_bits // 8 + 64)
    places = list(corner(case, far))
    for slot in {slot for slot, _ in places} - {None}:
        source[slot * source_bits // 8] |= value_of(slot, bits) << slot * source_bits % 8
    kernel = host_module.load(text or kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    blocks = plan.grid[0] * plan.grid[1]
    for first, last in [(0, 8), (max(blocks - 8, 0), blocks)][: 1 + far]:
        kernel(plan.grid, BLOCK, (source.ctypes.data, target.ctypes.data, plan.parameters), first=first, last=last)
    wanted = [PAD % (1 << bits) if slot is None else value_of(slot, bits) for slot, _ in places]
    return [
        int(target[slot * target_bits // 8]) >> slot * target_bits % 8 & (1 << bits) - 1 for _, slot in places
    ] == wanted


@pytest.mark.parametrize("far", (False, True), ids=("first", "last"))
@pytest.mark.parametrize("name", CASES)
def test_the_ends_of_a_huge_packed_move_are_right(name, far):
    assert corner_is_right(case_of(name), far)


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_32_bits_fail_there(name):
    """Every block number, and so every place, is cut to 32 bits; for cases of few blocks, every offset is."""
    case = case_of(name)
    text = kernel_text(case.plan.file)
    block = "gpl_divide(gpl_block()" if "gpl_divide(gpl_block()" in text else "gpl_block() *"
    twins = [text.replace(block, block.replace("gpl_block", "(unsigned)gpl_block")), text.replace("(gpl_int)", "(int)")]
    assert text not in twins
    assert not all(_is_right(case, twin) for twin in twins)


def _is_right(case, text):
    try:
        return corner_is_right(case, True, text)
    except host_module.LaunchError as error:
        assert "invalid memory access" in str(error)
        return False
