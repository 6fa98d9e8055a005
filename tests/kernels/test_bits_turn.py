"""Packed elements in blocks whose rows begin anywhere: kernels/bits_turn_any.cu is right for every size, phase and
thread order, clean under sanitizers, and reads and writes runs.
"""

import itertools
import random

import numpy as np
import pytest

from gpulayout.gpu.bits import TURN_AXES, words_of_block
from gpulayout.gpu.kernel_numbers import TURN_SKIP
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves.packed_move import PackedMove
from tests.kernels.test_bits import check_budget, macros, needs_compiler, needs_sanitizers, needs_simt, written
from tests.kernels.test_nvrtc import ARCHITECTURES
from tests.support.bits_cases import odd_turns, transposed
from tests.support.kernel_cases import BLOCK, FILES
from tests.support.kernel_runs import source_memory, target_memory
from tests.support.simt import host_module, runner

FILE = "bits_turn_any.cu"
MOST_SLOTS = 12_000  # of a random case: the reference takes time that grows with their square
for_bits = [pytest.param(bits, marks=needs_simt) for bits in (1, 2, 4)]


def small(bits):
    """Cases for checked runs, which take one kernel for all of one width of offsets."""
    return [case for case in odd_turns(bits) if case.index_bits == 32]


@pytest.mark.parametrize("bits", for_bits)
def test_rows_that_begin_anywhere_are_right(bits):
    for number, case in enumerate(odd_turns(bits)):
        assert case.plan.file == FILE and case.plan.index_bits == case.index_bits, case.name
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name


@pytest.mark.parametrize("bits", for_bits)
def test_no_two_blocks_write_parts_of_a_sector_inside_a_row(bits):
    """Rows end inside sectors, so of each row of the target two blocks may share the last sector, and no other."""
    rows = 37
    case = transposed(bits, (6949 // bits, rows), (0, 1), (), (1, 2))
    plan, shared, seen = case.plan, set(), set()
    assert dict(plan.macros)["GPL_SKIP"] == TURN_SKIP and plan.grid[0] > 1
    source, first = source_memory(case.source, case.phases[0])
    kernel = host_module.load(kernel_text(FILE), FILES[FILE], dict(plan.macros)).kernel(plan.kernel)
    target, place = target_memory(case.expected.size, case.phases[1])
    before, address = target.copy(), target.ctypes.data
    for block in range(plan.grid[0]):
        target[:] = before
        kernel(
            plan.grid,
            BLOCK,
            (source.ctypes.data + first, address + place, plan.parameters),
            first=block,
            last=block + 1,
        )
        sectors = set(((np.flatnonzero(target != before) + address) // 32 - (address + place) // 32).tolist())
        shared |= seen & sectors
        seen |= sectors
    assert len(shared) <= rows


@pytest.mark.parametrize("bits", for_bits)
def test_random_arrays_are_right(bits):
    """Sizes up to some blocks, in any order of up to five dimensions, with padding, at any address."""
    rng, side, seen = random.Random(f"turns {bits}"), 32 // bits, 0
    for number in range(150):
        sizes = [rng.choice((side - 1, side, side + 1, 2 * side + 1, rng.randrange(2, 5 * side))) for _ in range(2)]
        sizes += [rng.choice((1, 2, 3)) for _ in range(rng.randrange(4))]
        rng.shuffle(sizes)
        order = rng.sample(range(len(sizes)), len(sizes))
        pads = [rng.choice((0, 0, 1, side)) for _ in sizes]
        phases, index_bits = (rng.randrange(16), rng.randrange(16)), rng.choice((32, 32, 64))
        case = transposed(bits, sizes, order, pads, phases, index_bits=index_bits)
        if case.slots <= MOST_SLOTS and type(case.move) is PackedMove and case.plan.file == FILE:
            assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
            seen += 1
    assert seen >= 20


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=needs_sanitizers) for m in ("asan_ubsan", "tsan_block", "tsan_grid")]
)
@pytest.mark.parametrize("bits", (1, 4))
def test_the_kernel_is_clean(mode, bits):
    chosen = small(bits)
    for case, result in zip(chosen, runner.run([case.record(order=n % 3) for n, case in enumerate(chosen)], mode)):
        assert result.reports == (), case.name
        assert result.buffers[1] == case.expected.tobytes(), case.name


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bits", for_bits)
def test_no_word_is_read_or_written_that_a_buffer_holds_in_part(bits):
    chosen = small(bits)
    for case, result in zip(chosen, runner.run([case.record() for case in chosen], "trace")):
        assert result.traffic["outside access"].requests == 0, case.name
        assert all(result.traffic[kind].worst_degree == 1 for kind in ("shared read", "shared write")), case.name


@pytest.mark.parametrize("right, wrong", [pytest.param("GPL_OFFSET(slot) >= phase", "true", marks=needs_simt)])
def test_a_trace_sees_a_word_that_begins_before_the_source(right, wrong):
    text = kernel_text(FILE)
    assert right in text
    results = runner.run([case.record(text.replace(right, wrong)) for case in small(2)], "trace")
    assert any(result.traffic["outside access"].requests for result in results)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "right, wrong",
    [
        pytest.param(*twin, marks=needs_simt)
        for twin in (
            ("word[-1], word[0], (unsigned)here", "word[0], word[0], (unsigned)here"),
            ("(1u << column) - 1 : 0xff", "(1u << column - 1) - 1 : 0xff"),
            ("~0u << (column - made) : ~0u", "~0u << (column - made + 1) : ~0u"),
            ("others + 1 - move.lower", "others + 1"),
            ("if (left < GPL_WIDE && after.inside)", "if (false)"),
            ("left < GPL_WIDE && after.inside", "left < GPL_WIDE"),
            ("after.target == place.target + extent", "true"),
            ("after.target == place.target + extent", "false"),
            ("a + 1, move);", "a, move);"),
            ("(b < 0 && move.lower && slot != 0)", "(b < 0 && slot != 0)"),
            ("if (last < GPL_SIDE) word &=", "if (false) word &="),
            ("first.count + a == move.axis[1].extent.value", "true"),
            ("second.count + a == move.axis[1].extent.value", "true"),
            ("begin + rows <= move.axis[0].bound", "true"),
            ("row < move.axis[0].bound ? (int)", "true ? (int)"),
            ("high < (gpl_int)limit", "true"),
            ("low >= GPL_SIDE", "true"),
            ("move.lower && !rows.last ? extent", "move.lower ? extent"),
            ("(word & keep) | (move.pad[0] & ~keep)", "word"),
        )
    ],
)
def test_a_broken_twin_is_wrong(right, wrong):
    text = kernel_text(FILE)
    assert right in text
    broken = text.replace(right, wrong)
    assert not all(_is_right(case, broken) for case in small(4))


def _is_right(case, text):
    try:
        return written(case, text).tolist() == case.expected.tolist()
    except (AssertionError, host_module.LaunchError) as error:
        assert "written outside" in str(error) or "invalid memory access" in str(error)
        return False


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode, right, wrong",
    [
        pytest.param(*twin, marks=needs_sanitizers)
        for twin in (
            ("asan_ubsan", "+ 4 * GPL_WORDS + 4 <= ", "+ 4 * GPL_WORDS <= "),
            ("asan_ubsan", "move.lower && !rows.last ? extent", "move.lower ? extent"),
            ("tsan_block", "    __syncthreads();                       ", ""),
            ("tsan_block", "    __syncthreads();\n    gpl_write_rows", "    gpl_write_rows"),
            ("tsan_grid", "(b < 0 && move.lower && slot != 0)", "false"),
        )
    ],
)
def test_a_broken_twin_is_seen_by_a_sanitizer(mode, right, wrong):
    text = kernel_text(FILE)
    assert right in text
    chosen = small(2)[:: 4 if mode == "tsan_block" else 1]
    results = runner.run([case.record(text.replace(right, wrong)) for case in chosen], mode)
    assert any(result.reports for result in results)


@pytest.mark.one_in(8)
@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bits", (1, 2, 4))
def test_the_kernel_fits_every_architecture(architecture, bits):
    for index_bits, axes, skip in itertools.product((32, 64), TURN_AXES, (1, TURN_SKIP)):
        rows = {"GPL_WORDS": words_of_block(bits, index_bits), "GPL_SKIP": skip}
        values = macros(bits, bits, index_bits, axes) | rows
        spilled = 16 if (architecture, bits, index_bits) == ("sm_120", 1, 32) else 0  # bytes, by the compiler's choice
        check_budget(FILE, architecture, values, shared_bytes=9728, spill_bytes=spilled)
