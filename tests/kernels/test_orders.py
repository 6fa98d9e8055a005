"""Every kernel writes the reference bytes in any order of its threads, and writes nothing else.

The host compiler compiles the sources.  From one barrier to the next, the threads of a block run in ascending,
descending and random order; shared memory holds garbage before every block.
"""

import numpy as np
import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import AXES_VARIANTS
from tests.support import executors
from tests.support.kernel_cases import WIDTHS, Case, cases, move_files, move_of
from tests.support.kernel_runs import AROUND_SOURCE, AROUND_TARGET, goes_wrong, written
from tests.support.simt import host_module, toolchain
from tests.support.simt.record import FRESH

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("width", WIDTHS)
def test_every_family_writes_the_reference_bytes_in_every_order(width, bits):
    files = set()
    for number, case in enumerate(cases(width, bits=bits)):
        files.add(case.plan.file)
        expected = case.expected()
        for order in host_module.ORDERS:
            assert written(case, order=order, seed=number) == expected, (case.name, order)
    assert files == move_files(width)


@pytest.mark.one_in(3)
def test_every_number_of_axes_is_right():
    """Unused axes have extent 1; from 9 axes on the kernels loop over them."""
    for number, count in enumerate(AXES_VARIANTS[1:]):
        bits = (32, 64)[number % 2]
        ones = [(1, 1, 0, 0)] * (count - 4)
        two = [(2, 2, 3, 5 * 7 * 64)] if count > 3 else []
        two += [(3, 2, -6 * 90 * 64, 5 * 7 * 64 * 2)] if count > 2 else []
        for b, a in (
            ((64, 64, 90, 1), (35, 35, 1, 64)),
            ((35, 35, 90, 1), (64, 64, 1, 35)),
            ((7, 5, 9, 1), (5, 5, 2, 7)),
            ((9, 9, 1, 1), (40, 39, 11, 9)),
        ):
            case = Case(f"{count} axes, {b} {a}", move_of(4, [b, a, *two, *ones]), bits=bits)
            assert dict(case.plan.macros)["GPL_AXES"] == count
            assert written(case, order=host_module.RANDOM, seed=count) == case.expected(), case.name


GARBAGE = """
extern "C" __global__ void garbage(unsigned char* to) {
  __shared__ unsigned char unwritten[1];
  to[0] = unwritten[0];
}
"""


def test_no_byte_around_a_buffer_can_be_taken_for_another():
    """A kernel that copies too much brings bytes from around the source, or garbage from shared memory."""
    garbage = np.zeros(1, np.uint8)
    host_module.load(GARBAGE, ("garbage",), {}).kernel("garbage")(1, 1, (garbage,))
    for around in ((AROUND_SOURCE, AROUND_TARGET, FRESH), (executors.SOURCE_BYTE, executors.GUARD_BYTE)):
        assert len({int(garbage[0]), *around}) == 1 + len(around)


# ---- broken twins ---------------------------------------------------------------------------------------------


# Faults that reach far outside the buffers are in test_sanitized.py, where each launch has its own process.
@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "family, right, wrong",
    [
        ("copy", "if (first < head)", "if (first + 1 < head)"),
        ("copy", "if (tail < move.total) ", ""),
        ("rows", "inside ? move.axis[0].bound : 0", "move.axis[0].bound"),
        ("rows", "gpl_below(first, k, move.steps.bound, move)", "true"),
        ("tile", "if (GPL_RAGGED) gpl_load_rest(source, tile, shared, move);", ""),
        ("tile", "if (!WHOLE && GPL_RAGGED) gpl_store_rest(target, tile, shared, move);", ""),
        ("tile", "  __syncthreads();", ""),
        ("tile", "0x5140", "0x5410"),
        ("odd tile", "  __syncthreads();", ""),
        ("odd tile", "min(spot + step, spot + step + turn)", "spot + step"),
        ("odd tile", "rest = all % E", "rest = 0 * all"),
        ("odd tile", "column < pieces ?", "true ?"),
        ("odd tile", "if (in.bound_a < in.extent_a || in.bound_b < in.extent_b ||\n      (", "if (false && ("),
        ("odd tile", "if (left <= GPL_THREADS) left += area, spot += above;", ""),
        ("words", "  __syncthreads();", ""),
        ("words", "const unsigned p = gpl_phase(gpl_low(row));", "const unsigned p = 0;"),  # right except for alignment
        ("words", "above = GPL_G - 1 - p + i", "above = GPL_G - 1 + i"),
        ("words", "q = gpl_phase(gpl_low(first))", "q = 0"),
        ("words", "tile.place.inside ? move.axis[1].bound : 0", "move.axis[1].bound"),
        ("words", "end > row ? end - row : 0", "GPL_ROWS - row"),
        ("words", "mask.rest &= ~mask.keep;", ""),
        ("words", "word[2] = {0, last}", "word[2] = {0, 0}"),
        ("words", "|| b >= extent ||", "||"),
        ("words", "gpl_mask(column.a, move.axis[1].bound, move)", "gpl_mask(column.a, move.axis[1].bound + 1, move)"),
        (
            "many axes",
            "  __syncthreads();                                                // the table",
            "  // the table",
        ),
        (
            "many axes",
            "  __syncthreads();                                              // the box is complete",
            "  // the box is complete",
        ),
        (
            "many axes",
            "  __syncthreads();                                              // the box is free",
            "  // the box is free",
        ),
        ("many axes", "gpl_wait_for_arrivals<GPL_ROOMS - 1>();", ""),
        ("many axes", "gpl_wait_for_arrivals<GPL_ROOMS - 1>();", "gpl_wait_for_arrivals<GPL_ROOMS>();"),
        ("many axes", "    gpl_arrivals_end();\n", ""),
        ("many axes", "box % GPL_ROOMS * GPL_APART", "0"),
        ("many axes", "min(left, tile) - 1)", "min(left, tile))"),
        ("many axes", "data = data && corner.first[i] < bound;", ""),
        ("many axes", "WRITES || corner.others.inside", "true"),
        ("many axes", "whole = !side.checked;", "whole = true;"),
        ("many axes", "own < side.last_lanes ? side.rows", "own < side.lanes ? side.rows"),
        ("many axes", "if (!ALL && i >= count) continue;\n      if (ASK", "if (ASK"),
        ("many axes", "reader.from = gpl_at(reader.from, nd.step[number].source);", ""),
        ("many axes", "writer.to = gpl_at(writer.to, nd.step[written].target);", ""),
        ("many axes", "(j ? nd.apart[j] : 0)", "j * GPL_ELEMENT_BYTES"),
        ("gather", "if (place.inside)", "if (true)"),
    ],
)
def test_a_broken_kernel_is_seen(family, right, wrong):
    """Wrong bytes, bytes outside the target, or a launch that does not end."""
    every = [(case, kernel_text(case.plan.file)) for case in cases(1, (family,)) if case.plan.element_bytes == 1]
    texts = [(case, text) for case, text in every if right in text]
    assert texts, f"{right!r} is in none of the files"
    assert any(goes_wrong(case, text.replace(right, wrong)) for case, text in texts), (
        f"no case tells {right!r} from {wrong!r}"
    )
