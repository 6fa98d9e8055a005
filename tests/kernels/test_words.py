"""The tile of words: every phase on both sides, the machine code of whole tiles, the traffic, and when it is chosen."""

import dataclasses
import itertools
import re

import numpy as np
import pytest

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.tile import word_tile
from tests.support import nvrtc
from tests.support.kernel_cases import BLOCK, FILES, Case, move_of, word_tiles
from tests.support.kernel_runs import written
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
    """Pitches cover all phases too: 64 extents around the tile's, with all remainders modulo 4."""
    rng, tile_a = np.random.default_rng(width), word_tile(width, False, False)[0]
    for number, (source_phase, target_phase) in enumerate(itertools.product(range(0, 16, width), repeat=2)):
        a, b = tile_a + int(rng.integers(-3, 4)), 128 + int(rng.integers(-5, 6))
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

# All instructions of a thread per element.  A word of E elements takes E loads from shared memory and E - 1 byte_perms,
# a load and a store in both memories, and four sums for the addresses: 3.0 for an element of 1 byte, 5.5 for one of 2.
# The rest is the cost of the tile.
MOST_INSTRUCTIONS = {1: 6.5, 2: 8.5}


@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("width", SMALL)
def test_whole_tiles_move_words_in_few_instructions(width, architecture):
    """Only the path that nearly every block runs."""
    text = re.sub(r"^  else gpl_(read|write)_words<false>.*$", "", TEXT, flags=re.MULTILINE)
    assert "_words<false>" not in text
    macros = {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": 32, "GPL_AXES": 2}
    cubin = nvrtc.compiled(text, architecture, macros, FILE).cubin
    found = [instruction.split()[0] for instruction in nvrtc.instructions(cubin, FILES[FILE][0])]
    kinds = [opcode.split(".")[0] for opcode in found]
    tile_a, tile_b, _ = word_tile(width, False, False)
    words = 32 * (4 // width) * tile_b * width // 4 // BLOCK
    # Accesses of a word have no size in their name; those of elements have .U8 or .U16.
    for kind, count in (("LDG", words + 1), ("STS", words + 1), ("STG", words)):
        assert kinds.count(kind) == count, kind
        assert not [
            opcode for opcode in found if opcode.startswith(kind) and re.search(r"\.(U8|S8|U16|S16|64|128)\b", opcode)
        ]
    assert kinds.count("LDS") == words * 4 // width
    assert max(i for i, kind in enumerate(kinds) if kind == "LDG") < kinds.index("STS")  # all loads are issued first
    assert "LDL" not in kinds and "STL" not in kinds
    assert sum(kind not in ("NOP", "BRA") for kind in kinds) / (tile_a * tile_b / BLOCK) <= MOST_INSTRUCTIONS[width]


@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("width", SMALL)
def test_beside_the_path_of_ends_all_loads_of_a_whole_tile_are_still_under_way_first(width, bits, architecture):
    """In the whole kernel, the registers of another path do not break up the sequence of loads."""
    cubin = nvrtc.compiled(
        TEXT, architecture, {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": bits, "GPL_AXES": 4}, FILE
    ).cubin
    found = "".join(
        {"LDG": "l", "STS": "s"}.get(instruction.split(".")[0].split()[0], "")
        for instruction in nvrtc.instructions(cubin, KERNEL)
    )
    assert re.search("l{17}s{17}", found), found


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
def test_odd_extents_touch_few_sectors_in_vain_and_no_bank_twice(width):
    """128 bytes from any word on are 4.9 sectors on average, and at least 4."""
    cases = list(odd_squares(width))
    for case, seen in zip(cases, traced(cases)):
        assert case.plan.kernel == KERNEL
        for access in ("global read", "global write"):
            assert seen[access].sectors_per_ideal <= 1.30, (case.name, access)
        for access in ("shared read", "shared write"):
            assert seen[access].worst_degree == 1, (case.name, access)


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
    """In total, not per request: this counts bytes that tiles read twice, and single elements at the ends of rows."""
    case = Case("large", move_of(width, [(1021, 1021, 1531, 1), (1531, 1531, 1, 1021)]))
    (seen,) = traced([case])
    for access, nbytes in (("global read", case.move.bytes_read), ("global write", case.move.bytes_written)):
        assert seen[access].sectors <= 1.32 * nbytes / 32, access


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
    assert plan.reasons[-1] == "accesses of 4 bytes: the source steps by 301 bytes, not a multiple of 16"
    assert plan.vector_bytes == 4 and plan.grid == (3 * 3, 1)


def test_the_first_tile_may_begin_before_the_row():
    """Rows of 128 places at phase 1 are 33 words, one more than a tile; at phase 0 they are one tile."""
    odd, even = (kernel_plan(move_of(1, [(128, 128, 131, 1), (125, 125, 1, pitch)])) for pitch in (129, 132))
    assert odd.kernel == even.kernel == KERNEL and (odd.grid, even.grid) == ((2, 1), (1, 1))
