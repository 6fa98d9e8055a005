"""Every kernel has enough bytes under way at once, or a reason why it has not.

`python -m tests.support.sass --in-flight` prints the table with all figures.
"""

import dataclasses

import pytest

from tests.support import nvrtc
from tests.support.kernel_cases import FILES
from tests.support.sass.in_flight import found, launches

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))

# Launches below their limit, by reason.  When a launch reaches its limit, the test fails until its entry is deleted.
BELOW = {
    "a thread loads few single elements of a tile": ["u8 200,33,31 turned, all partial"],
    "a block has a single box here, of 8 and 9 KB, and none ahead": ["u8 8^6 reversed", "f32 3^11 reversed"],
    "ten words of a thread: with twelve, registers spill on sm_100": ["u8 3^11 reversed"],
    "ends of axes cut most tiles": ["f32 117,2,3,31,45 turned", "c128 planes to pixels of 16"],
    "single elements, each with divisions of its own": [
        *(f"{kind} {name}" for kind in ("u8", "f16", "f32") for name in ("short rows", "every second")),
        *(f"{bits} bits to gaps" for bits in (1, 2, 4)),
    ],
    "a thread writes one group of 16 bytes": [
        *(f"{bits} bits to 8{rows}" for bits in (2, 4) for rows in ("", ", short rows"))
    ],
    "instructions bind: more than 50 for a place": [
        "f32 looked up",
        "u4 looked up",
        "s32 linearize, digits",
        "s32 linearize, a program",
        "s32 convert_linear, a program",
    ],
}
REASONS = {name: reason for reason, names in BELOW.items() for name in names}
LAUNCHES = {launched.name: launched for launched in launches()}


def test_every_reason_is_of_a_launch():
    assert set(REASONS) <= set(LAUNCHES) and sum(map(len, BELOW.values())) == len(REASONS)


def test_every_kernel_has_a_launch():
    """But that of many small moves, which go as those of gather.cu do."""
    assert {launched.file for launched in LAUNCHES.values()} == set(FILES) - {"many.cu"}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LAUNCHES)
def test_enough_bytes_are_under_way(name):
    took = found(LAUNCHES[name])
    text = f"{name}: {took.kilobytes:.0f} of {took.limit:.0f} KB, {took.blocks} blocks of {took.registers} registers"
    assert (took.kilobytes < took.limit) == (name in REASONS), text


def test_one_load_of_a_thread_is_too_few():
    copied = LAUNCHES["f32 copied"]
    record = copied.record()
    text = record.text.replace("#define GPL_ALIGNED_ITEMS 4\n", "#define GPL_ALIGNED_ITEMS 1\n")
    took = found(copied._replace(record=lambda: dataclasses.replace(record, text=text)))
    assert (took.in_flight, took.blocks) == (16, 8) and took.kilobytes == 32 < took.limit == 48
