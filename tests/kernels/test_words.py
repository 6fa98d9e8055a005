"""The tile of words: every phase on both sides, the machine code of whole tiles, the traffic, and when it is chosen."""

import dataclasses
import itertools
import re

import numpy as np
import pytest

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_numbers import ALIGN
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.tile import word_tile
from tests.support import nvrtc
from tests.support.kernel_cases import Case, move_of, transposed, word_tiles
from tests.support.kernel_runs import written
from tests.support.sass.launches import taken
from tests.support.simt import host_module, runner, toolchain

needs_host = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
FILE, KERNEL, TEXT = "tile_words.cu", "gpl_tile_words", kernel_text("tile_words.cu")
SMALL = (1, 2)


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_all_phases_of_both_addresses_are_right(width):
    """Pitches cover all phases too: 64 extents around the tile's and twice that, with all remainders modulo 4.

    A tile that holds its rows whole begins at words, others at sectors.
    """
    rng, tile_a = np.random.default_rng(width), word_tile(width, width)[0]
    for number, (source_phase, target_phase) in enumerate(itertools.product(range(0, 16, width), repeat=2)):
        a, b = tile_a + int(rng.integers(-3, 4)), (128, 256)[number % 2] + int(rng.integers(-5, 6))
        axes = [
            (b + number % 3, b, a + number % 7, 1),
            (a + number % 2, a, 1, b + 2 + number % 5),
            (2, 2, a * (b + 7), (a + 1) * (b + 7)),
        ]
        case = Case(
            f"{a} x {b}, phases {source_phase} {target_phase}",
            move_of(width, axes),
            source_phase,
            target_phase,
            (32, 64)[number % 2],
        )
        assert case.plan.kernel == KERNEL or not any((source_phase, target_phase, (a + number % 7) * width % 16))
        assert written(case, order=host_module.ORDERS[number % 3], seed=number) == case.expected(), case.name


# ---- machine code -----------------------------------------------------------------------------------------------

# Executed instructions per element of the whole array, ends included, as a device issues them.  A word of E elements
# takes E loads from shared memory and E - 1 byte_perms, a load and a store in both memories, and two sums for the
# addresses: 3 for an element of 1 byte, 4 for one of 2.  The rest is the cost of tiles, and of those at ends.
WHOLE_ARRAYS = [
    (1, (3001, 2047), (1, 0), 8.3),
    (2, (639, 833), (1, 0), 15.5),
    (1, (10, 300, 301), (0, 2, 1), 15.5),
    (2, (10, 300, 301), (0, 2, 1), 18),
]


@needs_disassembler
@pytest.mark.parametrize("width, dimensions, order, most", WHOLE_ARRAYS)
def test_whole_arrays_take_few_instructions_ends_included(width, dimensions, order, most):
    found = taken(Case("whole array", transposed(width, dimensions, order)))
    assert found.per_element <= most and found.conflicts <= 1.02
    assert found.counted.in_flight >= 4 * {1: 20, 2: 18}[width]  # all words of a thread


@needs_disassembler
def test_masks_for_every_word_are_seen():
    everywhere = "if (padded) gpl_read_words<false, true, false>", "if (true) gpl_read_words<false, true, false>"
    assert everywhere[0] in TEXT
    width, dimensions, order, most = WHOLE_ARRAYS[1]
    found = taken(Case("whole array", transposed(width, dimensions, order)), text=TEXT.replace(*everywhere))
    assert found.per_element > most


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("width, align, loads", [(1, 4, 17), (2, 4, 17), (1, ALIGN, 20), (2, ALIGN, 18)])
def test_beside_the_path_of_ends_all_loads_of_a_whole_tile_are_still_under_way_first(
    width, align, loads, bits, architecture
):
    """In the whole kernel, the registers of another path do not break up the sequence of loads."""
    if width == 1 and bits == 64 and align == ALIGN:
        pytest.skip("never planned: see tile.py")
    macros = {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": bits, "GPL_AXES": 4, "GPL_ALIGN": align}
    cubin = nvrtc.compiled(TEXT, architecture, macros).cubin
    found = "".join(
        {"LDG": "l", "STS": "s"}.get(instruction.split(".")[0].split()[0], "")
        for instruction in nvrtc.instructions(cubin, KERNEL)
    )
    assert re.search(f"l{{{loads}}}s{{{loads}}}", found), found


# ---- memory traffic ---------------------------------------------------------------------------------------------


def traced(cases, *change):
    """The traffic of each case, by class of access."""
    text = TEXT.replace(*change) if change else TEXT
    assert not change or text != TEXT
    results = runner.run([case.record(text) for case in cases], "trace")
    assert all(result.buffers[1] == case.expected() for case, result in zip(cases, results))
    return [result.traffic for result in results]


def odd_squares(width):
    for a, b in ((131, 133), (255, 255), (401, 403), (509, 511), (1531, 1021)):
        yield Case(f"{a} x {b}", move_of(width, [(b, b, a, 1), (a, a, 1, b)]))
    yield Case("other phases", move_of(width, [(511, 511, 513, 1), (509, 509, 1, 511)]), 3 * width, 5 * width)
    yield Case("padded", move_of(width, [(523, 511, 513, 1), (517, 509, 1, 523)]))


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_odd_extents_touch_few_sectors_in_vain_and_hardly_a_bank_twice(width):
    """128 bytes from any word on are 4.9 sectors on average, and at least 4.  Whole sectors are written, but for both
    ends of each row, where a request for single elements touches a sector for each row.
    """
    cases = list(odd_squares(width))
    for case, seen in zip(cases, traced(cases)):
        assert case.plan.kernel == KERNEL
        assert seen["global read"].sectors_per_ideal <= 1.30, case.name
        ends = 2 * case.move.axes[1].extent
        assert 32 * seen["global write"].sectors <= case.move.bytes_written + 2 * 32 * ends, case.name
        assert seen["shared write"].worst_degree == 1, case.name
        # single elements of 1 byte at ends, which are a large part of a small array
        assert seen["shared read"].mean_degree <= (1.35 if width == 1 else 1), case.name


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_no_word_is_read_or_written_that_a_buffer_holds_in_part(width):
    """The first and the last words of the source's memory are read element by element."""
    cases = [
        dataclasses.replace(case, source_phase=phase) for case in word_tiles(width) for phase in range(0, 4, width)
    ]
    for case, seen in zip(cases, traced(cases)):
        assert seen["outside access"].requests == 0, (case.name, case.source_phase)


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_all_sectors_of_a_large_move_are_few_too(width):
    """In total, not per request: this counts single elements at the ends of rows, and what tiles read twice: up to 31
    rows beside 128 of 1 byte, 15 of 2 bytes, and rows of the last groups.
    """
    case = Case("large", move_of(width, [(1021, 1021, 1531, 1), (1531, 1531, 1, 1021)]))
    (seen,) = traced([case])
    assert seen["global read"].sectors <= {1: 1.59, 2: 1.44}[width] * case.move.bytes_read / 32
    assert seen["global write"].sectors <= {1: 1.12, 2: 1.06}[width] * case.move.bytes_written / 32


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_a_side_that_starts_at_sectors_is_moved_in_whole_sectors(width):
    from_aligned = Case("source", move_of(width, [(511, 511, 512, 1), (512, 512, 1, 511)]))
    to_aligned = Case("target", move_of(width, [(512, 512, 511, 1), (511, 511, 1, 512)]))
    first, second = traced([from_aligned, to_aligned])
    assert first["global read"].sectors_per_ideal == second["global write"].sectors_per_ideal == 1


@pytest.mark.simt
@needs_host
@pytest.mark.parametrize("width", SMALL)
def test_without_the_step_between_rows_lanes_meet_in_one_bank(width):
    case = Case("odd", move_of(width, [(255, 255, 255, 1), (255, 255, 1, 255)]))
    (seen,) = traced([case], "((row) * GPL_LANES + (row) / GPL_E)", "((row) * GPL_LANES)")
    assert seen["shared read"].worst_degree == 32


# ---- when it is chosen --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, width, axes, phases, tile",
    [
        ("odd", 1, [(300, 300, 301, 1), (301, 301, 1, 300)], (0, 0), (128, 125)),
        ("odd", 2, [(301, 301, 301, 1), (301, 301, 1, 301)], (0, 0), (128, 63)),
        ("source at words", 1, [(301, 301, 300, 1), (300, 300, 1, 301)], (4, 0), (128, 128)),
        (
            "source at words, another axis not",
            1,
            [(301, 301, 300, 1), (300, 300, 1, 301), (2, 2, 90301, 90300)],
            (4, 0),
            (128, 125),
        ),
        ("only an address is odd", 2, [(320, 320, 320, 1), (320, 320, 1, 320)], (0, 2), (128, 64)),
        ("whole words", 1, [(300, 300, 316, 1), (300, 300, 1, 300)], (0, 0), (128, 128)),
        ("short but for its rows", 1, [(500, 500, 65, 1), (64, 64, 1, 500)], (0, 0), (128, 125)),
        ("short", 1, [(500, 500, 63, 1), (63, 63, 1, 500)], (0, 0), None),
        ("few in a tile", 2, [(64, 64, 401, 1), (39, 39, 1, 67)], (0, 0), None),
        ("enough in a tile", 2, [(64, 64, 401, 1), (40, 40, 1, 67)], (0, 0), (128, 63)),
        ("dense rows of whole words", 2, [(500, 500, 49, 1), (49, 49, 1, 500)], (0, 0), None),
        ("dense rows, target odd", 2, [(501, 501, 49, 1), (49, 49, 1, 501)], (0, 0), (128, 63)),
        ("aligned", 2, [(320, 320, 320, 1), (320, 320, 1, 320)], (0, 0), None),
        ("larger elements", 4, [(301, 301, 301, 1), (301, 301, 1, 301)], (0, 0), None),
    ],
)
def test_words_are_chosen_where_rows_are_long_enough(name, width, axes, phases, tile):
    plan = kernel_plan(move_of(width, axes), *phases)
    assert (plan.kernel == KERNEL) == (tile is not None), plan
    assert tile is None or plan.tile == tile


def test_a_plan_of_words_says_what_keeps_it_from_vectors():
    plan = kernel_plan(move_of(1, [(300, 300, 301, 1), (301, 301, 1, 300)]))
    assert plan.reasons[-1] == (
        "the source steps by 301 bytes, not a multiple of 16, so 4 bytes are read and written at a time"
    )
    assert plan.vector_bytes == 4 and plan.grid == (3 * 3, 1)


@pytest.mark.parametrize(
    "extent, pitch, grid, align",
    [
        (125, 129, 1, 4),  # rows at any byte: up to 3 bytes before their first whole word, so 128 bytes in all
        (126, 129, 2, 32),  # more than a tile: tiles begin at sectors, up to 31 bytes before the row
        (225, 229, 2, 32),
        (226, 229, 3, 32),
        (128, 132, 1, 4),  # rows at words
        (129, 132, 2, 32),
        (228, 236, 2, 32),  # 28 bytes before
        (229, 236, 3, 32),
        (256, 272, 2, 4),  # at multiples of 16
    ],
)
def test_tiles_begin_at_sectors_unless_they_hold_rows_whole_or_rows_begin_there(extent, pitch, grid, align):
    plan = kernel_plan(move_of(1, [(extent, extent, 131, 1), (125, 125, 1, pitch)]))
    assert plan.kernel == KERNEL and plan.grid == (grid, 1) and dict(plan.macros)["GPL_ALIGN"] == align
