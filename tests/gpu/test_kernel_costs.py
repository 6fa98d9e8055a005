"""The table of what kernels take: the instructions that it predicts are those that were executed."""

import functools
import json

import pytest

from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.estimate import launch_work, work_items
from gpulayout.gpu.kernel_costs import TABLE, cost_of, key_of
from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc
from tests.support.kernel_cases import MOVE_FILES, WIDTHS, move_of
from tests.support.sass.budgets import moves
from tests.support.sass.launches import taken

LEAST, MOST = 0.45, 1.4  # of the executed instructions; nine of ten moves of the budgets are between 0.8 and 1.2
pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_machine_code = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
# A part of the moves that the budgets are for, one or two of each kind; `python -m tests.support.kernel_cost_table
# --budgets` prints all of them.
MOVES = ("768x768 turned", "639x833 turned", "200,33,31 turned, all partial", "8,16^4 reversed", "2^18 reversed")
MOVES += ("128,64 rows of 64 bytes swapped", "rows padded, shifted", "copied", "pixels of 3 to planes")


@functools.cache
def case_of(width, name):
    return next(case for case in moves(width) if case.name.endswith(f" {name}"))


@pytest.mark.one_in(8)
@needs_machine_code
@pytest.mark.parametrize("width", (1, 2, 4, 8))
@pytest.mark.parametrize("name", MOVES)
def test_the_table_predicts_the_executed_instructions(width, name):
    case = case_of(width, name)
    found = taken(case)
    predicted = launch_work(case.plan).instructions
    assert LEAST <= predicted / found.counted.issued <= MOST, (key_of(case.plan), work_items(case.plan))


def test_every_move_kernel_with_an_estimate_is_in_the_table():
    files = {key.split()[0] for key in json.loads(TABLE.read_text())}
    assert files == set(MOVE_FILES)


def test_registers_and_shared_memory_are_those_of_the_compiled_kernel():
    for width in WIDTHS:
        plan = kernel_plan(move_of(width, [(4096, 4096, 4096, 1), (4096, 4096, 1, 4096)]))
        usage = nvrtc.compiled(kernel_text(plan.file), "sm_90", dict(plan.macros)).usage[plan.kernel]
        assert cost_of(plan).shared_bytes == usage.shared_bytes
        assert usage.registers <= cost_of(plan).registers <= usage.registers + 16  # the most of any number of axes


def test_a_variant_without_a_row_gets_the_nearest_one():
    wide = kernel_plan(move_of(4, [(90000, 90000, 5, 1), (5, 5, 1, 90000)]))
    assert dict(wide.macros)["GPL_CHANNELS"] == 5 and cost_of(wide).registers > 0
