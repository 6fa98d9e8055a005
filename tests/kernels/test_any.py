"""Tiles of any size: the instructions that whole arrays take, the loads under way at once, stacks of matrices."""

import itertools

import pytest

from gpulayout.gpu.kernel_numbers import FULL_TILES
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.tile import full_tile
from tests.support import nvrtc
from tests.support.kernel_cases import Case, move_of, transposed
from tests.support.kernel_runs import goes_wrong, written
from tests.support.sass.launches import taken
from tests.support.simt import host_module, runner, toolchain

needs_host = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
FILE, TEXT = "tile_any.cu", kernel_text("tile_any.cu")


def turned(width, *dimensions):
    """A dense array whose two minor dimensions change places."""
    rank = len(dimensions)
    order = (*range(rank - 2), rank - 1, rank - 2)
    return Case(f"{dimensions} of {width} bytes", transposed(width, dimensions, order))


# ---- instructions -----------------------------------------------------------------------------------------------

# Executed instructions per element of the whole array, ends included, as a device issues them, and a tenth more.
WHOLE_ARRAYS = [
    (4, (639, 2047), 14.2),
    (8, (401, 403), 20.5),
    (4, (1000, 17), 27),
    (4, (17, 1000), 30.5),
    (4, (64, 33, 31), 33),
    (1, (64, 33, 31), 26.5),
    (1, (30001, 3), 17.5),
    (1, (3, 30001), 16.5),
    (2, (20001, 5), 29.5),
]


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize("width, dimensions, most", WHOLE_ARRAYS)
def test_whole_arrays_take_few_instructions_ends_included(width, dimensions, most):
    case = turned(width, *dimensions)
    assert case.plan.file == FILE
    assert taken(case).per_element <= most


@needs_disassembler
@pytest.mark.parametrize("width", FULL_TILES)
def test_all_loads_of_a_full_tile_are_under_way_first_and_no_bank_is_met_twice(width):
    along_a, along_b = FULL_TILES[width]
    gap = 1 if width < 16 else 0  # elements of 16 bytes are aligned, and short of a fixed tile's extents
    axes = [(2 * along_b, 2 * along_b, 2 * along_a + gap, 1), (2 * along_a, 2 * along_a, 1, 2 * along_b + gap)]
    case = Case("full tiles", move_of(width, axes))
    if case.plan.file != FILE:
        assert width == 16
        return
    found = taken(case)
    # tiles of 4-byte elements begin at sectors, so they read a ninth piece of each column
    assert found.counted.in_flight == {4: 72, 8: 64}[width] and found.conflicts == 1
    assert found.per_element <= {4: 24, 8: 14}[width]


@needs_disassembler
def test_questions_before_each_row_of_whole_tiles_are_seen():
    change = "if (full && tile.first.inside", "if (false && tile.first.inside"
    assert change[0] in TEXT
    width, dimensions, most = WHOLE_ARRAYS[0]
    assert taken(turned(width, *dimensions), text=TEXT.replace(*change)).per_element > most


# ---- rows of the target that begin at sectors -------------------------------------------------------------------


def at_any_phase(extent_b, extent_a, number, width=4):
    """Two matrices whose rows begin anywhere in a sector; padded at ends of both axes."""
    axes = [
        (extent_b, extent_b - number % 3, extent_a + 1 + number % 7, 1),
        (extent_a, extent_a - number % 2, 1, extent_b + 1 + number % 5),
        (2, 2, (extent_a + 9) * (extent_b + 9), (extent_a + 1) * (extent_b + 7)),
    ]
    phases = number * width % 16, number // 4 * width % 16
    return Case(f"{extent_b} x {extent_a}, {number}", move_of(width, axes), *phases, (32, 64)[number % 2])


@pytest.mark.simt
@needs_host
def test_full_tiles_are_right_wherever_rows_begin_and_end():
    """Around one tile, which begins at its row, and around several, which begin at sectors."""
    aligned = set()
    for number, (extent_b, extent_a) in enumerate(
        itertools.product((63, 64, 65, 120, 127, 128, 129, 193), (41, 64, 66))
    ):
        case = at_any_phase(extent_b, extent_a, number)
        assert case.plan.file == FILE
        aligned.add((dict(case.plan.macros)["GPL_ALIGN"], extent_b > 64))
        assert written(case, order=host_module.ORDERS[number % 3], seed=number) == case.expected(), case.name
    assert aligned >= {(1, False), (32, True)}


@pytest.mark.parametrize(
    "width, extent, pitch, grid, align",
    [
        (4, 64, 65, 1, 1),  # rows of one tile
        (4, 65, 65, 2, 32),
        (4, 121, 121, 2, 32),  # up to 7 places before the row
        (4, 122, 123, 3, 32),
        (4, 122, 122, 2, 32),  # rows at multiples of 8 bytes: up to 6 places
        (4, 124, 124, 2, 1),  # at multiples of 16
        (8, 129, 129, 3, 1),  # rows of a tile are 512 bytes
    ],
)
def test_full_tiles_begin_at_sectors_unless_few_are_cut(width, extent, pitch, grid, align):
    plan = Case("rows", move_of(width, [(extent, extent, 67, 1), (64, 64, 1, pitch)])).plan
    assert plan.file == FILE and dict(plan.macros)["GPL_ALIGN"] == align
    assert plan.grid == (grid * 64 // FULL_TILES[width][0], 1)


@pytest.mark.simt
@needs_host
def test_hardly_a_sector_is_written_in_part():
    """One at each end of a row; without the law, three in nine are written in part."""
    case = Case("odd", move_of(4, [(509, 509, 515, 1), (515, 515, 1, 509)]))
    (found,) = runner.run([case.record()], "trace")
    assert found.buffers[1] == case.expected()
    assert 32 * found.traffic["global write"].sectors <= case.move.bytes_written + 2 * 32 * 515


# ---- stacks of small matrices -----------------------------------------------------------------------------------


@pytest.mark.simt
@needs_host
def test_a_stack_of_any_height_is_right():
    """Tiles hold 4 matrices of 33 x 31 elements of 4 bytes; the last one may hold fewer."""
    for height, width, bits in itertools.product((2, 3, 4, 5, 9), (1, 4, 16), (32, 64)):
        area = 33 * 31
        axes = [
            (33, 33, 31, 1),
            (31, 31, 1, 33),
            (height, height, area, area),
            (3, 2, area * height + 8, area * height),
        ]
        case = Case(f"{height} matrices", move_of(width, axes), 0, 0, bits)
        assert written(case) == case.expected(), (height, width, bits)


def test_a_tile_holds_as_many_matrices_as_fit():
    assert turned(4, 200, 33, 31).plan.grid == (50, 1)
    assert turned(4, 3, 33, 31).plan.grid == (1, 1)
    assert turned(4, 200, 45, 47).plan.grid == (200, 1)  # two would not fit


def test_a_stack_with_gaps_takes_a_tile_for_each_matrix():
    axes = [(33, 33, 31, 1), (31, 31, 1, 33), (8, 8, 1024, 1023)]
    assert Case("gaps", move_of(4, axes)).plan.grid == (8, 1)


@pytest.mark.simt
@needs_host
def test_a_matrix_that_ends_without_a_step_is_seen():
    text = TEXT.replace("if (left <= GPL_THREADS) left += area, spot += above;", "")
    assert text != TEXT and goes_wrong(turned(4, 4, 33, 31), text)


# ---- when tiles are full ----------------------------------------------------------------------------------------


def test_a_full_tile_is_taken_if_the_axes_fill_most_of_it():
    assert [full_tile(4, a, 64) is not None for a in (39, 40, 64, 1000)] == [False, True, True, True]
    gaps = Case("gaps", move_of(4, [(63, 63, 65, 1), (63, 63, 1, 65)]))
    assert gaps.plan.tile == (64, 64) and turned(4, 63, 63).plan.tile == (63, 63)
