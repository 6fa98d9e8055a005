"""Boxes of words, elements of 1 and 2 bytes whose runs begin anywhere: all phases, several boxes of a block, and no
word that a buffer holds in part.
"""

import dataclasses
import itertools
from unittest import mock

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many_axes import word_runs
from tests.support.kernel_cases import Case, backwards, transposed, word_boxes
from tests.support.kernel_runs import goes_wrong, written
from tests.support.simt import host_module, runner, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
FILE, SMALL = "box_words.cu", (1, 2)


def several_boxes(case, far):
    """The case with blocks that move up to 8 boxes, far apart or neighbours, as in a launch of many boxes."""
    case = dataclasses.replace(case)
    with mock.patch.multiple(word_runs, ENOUGH_BLOCKS=1, FAR_BOXES=far):
        assert case.plan.file == FILE
    return case


@pytest.mark.parametrize("width", SMALL)
def test_all_phases_of_both_addresses_are_right(width):
    move = transposed(width, (3,) * 8, backwards(8))
    for source, target, bits in itertools.product(range(0, 4 * width, width), range(0, 4 * width, width), (32, 64)):
        case = Case("3^8", move, source, target, bits)
        assert case.plan.file == FILE
        assert written(case) == case.expected(), (source, target, bits)


@pytest.mark.parametrize("width", SMALL)
@pytest.mark.parametrize("bits", (32, 64))
def test_a_block_moves_several_boxes(width, bits):
    for case in word_boxes(width):
        case = dataclasses.replace(case, bits=bits)
        if case.plan.file == FILE:
            for order, far in itertools.product(host_module.ORDERS, (0, 1)):
                found = several_boxes(case, far)
                assert found.plan.grid[0] < case.plan.grid[0] or case.plan.grid[0] == 1
                assert written(found, order=order) == case.expected(), (case.name, order, far)


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("    __syncthreads();                                              // the box is written", "    // the box"),
        ("    __syncthreads();                                              // the box and all", "    // the box"),
        ("gpl_box(first + threadIdx.x * nd.apart, nd.move)", "gpl_box(first, nd.move)"),
        ("if (length != extent.length) gpl_fill", "if (!length) gpl_fill"),
    ],
)
def test_a_block_that_mixes_up_its_boxes_is_seen(right, wrong):
    text = kernel_text(FILE)
    assert right in text
    cases = [several_boxes(case, far) for case in word_boxes(1) for far in (0, 1)]
    assert any(
        goes_wrong(case, text.replace(right, wrong))
        or written(case, text.replace(right, wrong), host_module.DESCENDING) != case.expected()
        for case in cases
    )


@pytest.mark.parametrize("width", SMALL)
def test_no_word_is_read_or_written_that_a_buffer_holds_in_part(width):
    cases = [
        dataclasses.replace(case, source_phase=phase, target_phase=phase)
        for case in word_boxes(width)
        for phase in (width, 3 * width)
    ]
    results = runner.run([case.record() for case in cases], "trace")
    for case, result in zip(cases, results):
        assert result.buffers[1] == case.expected(), case.name
        assert result.traffic["outside access"].requests == 0, (case.name, case.source_phase)


def test_words_read_outside_the_source_are_seen():
    """In all but the first and the last box of an array, words extend past their runs but not past the source."""
    text = kernel_text(FILE).replace("else if (in_memory) gpl_read_box", "else if (true) gpl_read_box")
    assert text != kernel_text(FILE)
    cases = [dataclasses.replace(case, source_phase=1) for case in word_boxes(1)]
    results = runner.run([case.record(text) for case in cases], "trace")
    assert any(result.traffic["outside access"].requests for result in results)


@pytest.mark.parametrize("width", SMALL)
def test_both_sides_of_short_odd_axes_move_in_words(width):
    """At all phases: 81 elements are 3.5 sectors of 1 byte on average; single elements are requests too."""
    move = transposed(width, (3,) * 9, backwards(9))
    cases = [Case("3^9", move, phase * width, (phase + 1) % 4 * width) for phase in range(4)]
    for result in runner.run([case.record() for case in cases], "trace"):
        sectors = sum(result.traffic[access].sectors for access in ("global read", "global write"))
        assert sectors <= (1.8, 1.5)[width - 1] * 2 * 3**9 * width / 32
