"""The clock of machine code on programs made by hand, each with the cycles that its control bits say."""

import dataclasses

import numpy as np
import pytest

from tests.support import nvrtc
from tests.support.kernel_cases import Case, transposed
from tests.support.sass.decode import Immediate, Instruction, Word
from tests.support.sass.expected import block_alone, executed, expected
from tests.support.sass.timing import NONE, Chip, Control, Multiprocessor, control

CHIP = Chip(latency=500, hit=40, shared=33, special=30, operands=12, barrier=30, jump=25, begin=300, link=1, sector=0)
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)


def bits(stall=1, write=NONE, read=NONE, waits=()):
    return stall | write << 5 | read << 8 | sum(1 << k for k in waits) << 11


def program(*lines):
    """Instructions from (opcode, control bits)."""
    return [
        Instruction(number, opcode, (), None, (), None, opcode, (), control_bits)
        for number, (opcode, control_bits) in enumerate(lines)
    ]


def straight(lines, touched=None):
    """The steps of a warp that executes all instructions once."""
    return [(number, (touched or {}).get(number)) for number in range(len(lines))]


def ends(lines, warps=1, blocks=1, resident=1, chip=CHIP, touched=None):
    steps = [[straight(lines, touched) for _ in range(warps)]]
    return Multiprocessor(program(*lines), steps, resident, chip).run(blocks)


def sectors(first, count=4):
    return np.arange(first, first + count), np.full(count, 32)


EXIT = "EXIT", bits()


def test_control_bits_are_split_at_their_places():
    assert control(bits(5, 1, 2, (0, 3))) == Control(5, 1, 2, (0, 3))
    assert control(bits(15, waits=range(6))) == Control(15, NONE, NONE, (0, 1, 2, 3, 4, 5))
    reuse_and_yield = 0b1111 << 17 | 1 << 4
    assert control(bits(3) | reuse_and_yield) == control(bits(3))
    assert control(bits(0)).stall == 1  # two instructions of a warp never issue at once


@pytest.mark.parametrize("stalls", [(1,), (4, 2), (15, 15, 3)])
def test_a_warp_takes_the_sum_of_its_stalls(stalls):
    lines = [("MOV" if k % 2 else "IMAD", bits(max(stall, 2))) for k, stall in enumerate(stalls)]
    assert ends([*lines, EXIT]) == [sum(max(stall, 2) for stall in stalls)]


def test_a_result_is_awaited_only_by_its_scoreboard():
    load = "LDS", bits(2, write=0)
    used, free = ("IADD3", bits(4, waits=(0,))), ("IADD3", bits(4))
    assert ends([load, used, EXIT], touched={0: 1}) == [1 + CHIP.shared + 4]
    assert ends([load, free, EXIT], touched={0: 1}) == [2 + 4]
    assert ends([load, free, used, EXIT], touched={0: 1}) == [1 + CHIP.shared + 4]


def test_a_scoreboard_is_free_when_the_last_of_its_loads_is_there():
    lines = [("LDS", bits(2, write=3)), ("LDS", bits(2, write=3)), ("IADD3", bits(4, waits=(3,))), EXIT]
    assert ends(lines, touched={0: 1, 1: 8}) == [2 + 8 + CHIP.shared + 4]


def test_a_quick_result_does_not_free_the_scoreboard_of_a_slow_one():
    lines = [("LDG", bits(2, write=3)), ("LDS", bits(2, write=3)), ("IADD3", bits(4, waits=(3,))), EXIT]
    assert ends(lines, touched={0: sectors(0), 1: 1}) == [1 + 4 * CHIP.link + CHIP.latency + 4]


def test_registers_of_a_store_are_awaited_until_they_are_read():
    lines = [("STS", bits(2, read=1)), ("MOV", bits(4, waits=(1,))), EXIT]
    assert ends(lines, touched={0: 4}) == [4 + CHIP.operands + 4]
    lines[0] = "STG", bits(2, read=1)
    assert ends(lines, touched={0: sectors(0)}) == [1 + CHIP.operands + 4]  # four sectors pass at once


def test_shared_memory_serves_one_cycle_after_another():
    lines = [("LDS", bits(2, write=0)), ("IADD3", bits(4, waits=(0,))), EXIT]
    one, four = (ends(lines, warps, touched={0: 8})[0] for warps in (1, 4))
    assert one == 8 + CHIP.shared + 4
    assert four == 4 * 8 + CHIP.shared + 4


def test_a_scheduler_issues_one_instruction_a_cycle_and_four_of_them_four():
    lines = [*[("BRA", bits(2))] * 10, EXIT]
    chip = dataclasses.replace(CHIP, jump=0)
    assert ends(lines, 4, chip=chip) == [20]  # one warp a scheduler
    assert ends(lines, 8, chip=chip) == [42]  # two, and a pipeline that takes one every second cycle


def test_warps_share_the_integer_pipeline_but_not_those_of_others():
    integer = [*[("IADD3", bits(1))] * 10, EXIT]
    both = [("IADD3", bits(1)), ("IMAD", bits(1))] * 5
    assert ends(integer) == [19]
    assert ends([*both, EXIT]) == [10]


def test_two_warps_of_a_scheduler_share_its_slots_whatever_their_pipelines():
    lines = [("IADD3", bits(1)), ("IMAD", bits(1)), ("UIADD3", bits(1)), ("BRA", bits(1))] * 2
    chip = dataclasses.replace(CHIP, jump=0)
    assert ends([*lines, EXIT], 4, chip=chip)[0] < 2 * len(lines) <= ends([*lines, EXIT], 8, chip=chip)[0]


def test_a_barrier_waits_for_the_last_warp():
    lines = [("IADD3", bits(4)), ("IADD3", bits(15)), ("BAR", bits(5)), EXIT]
    quick, slow = [(0, None), (2, None), (3, None)], [(0, None), (1, None), (2, None), (3, None)]
    chip = dataclasses.replace(CHIP, jump=0)
    (end,) = Multiprocessor(program(*lines), [[quick, slow]], 1, chip).run(1)
    assert end == 4 + 15 + chip.barrier


def test_a_warp_goes_on_only_after_the_last_one_came():
    lines = [("IADD3", bits(15)), ("BAR", bits(5)), ("MOV", bits(15)), EXIT]
    quick, slow = [(1, None), (2, None), (3, None)], [(0, None), (1, None), (3, None)]
    (end,) = Multiprocessor(program(*lines), [[quick, slow]], 1, CHIP).run(1)
    assert end == 15 + CHIP.barrier + 15


def test_a_warp_that_ended_holds_no_barrier():
    lines = [("IADD3", bits(4)), ("BAR", bits(5)), EXIT]
    gone, waits = [(2, None)], [(0, None), (1, None), (2, None)]
    assert Multiprocessor(program(*lines), [[waits, gone]], 1, CHIP).run(1) == [4 + CHIP.barrier]


def test_a_taken_branch_costs_a_jump():
    lines = [("BRA", bits(5)), ("MOV", bits(4)), EXIT]
    steps = [(0, None), (2, None)]
    assert Multiprocessor(program(*lines), [[steps]], 1, CHIP).run(1) == [5 + CHIP.jump]


def test_memory_is_asked_once_for_a_sector_of_a_block():
    lines = [("LDG", bits(2, write=0)), ("LDG", bits(2, write=1, waits=(0,))), ("MOV", bits(4, waits=(1,))), EXIT]
    chip = dataclasses.replace(CHIP, sector=3)
    first = 1 + 4 * chip.sector + chip.latency
    assert ends(lines, chip=chip, touched={0: sectors(0), 1: sectors(0)}) == [first + 1 + chip.hit + 4]
    assert ends(lines, chip=chip, touched={0: sectors(0), 1: sectors(8)}) == [first + first + 4]
    half = first + 1 + 2 * chip.sector + chip.latency + 4
    assert ends(lines, chip=chip, touched={0: sectors(0), 1: sectors(2)}) == [half]


def test_a_sector_that_is_under_way_is_no_earlier_there_for_the_next_request():
    lines = [("LDG", bits(2, write=0)), ("LDG", bits(2, write=1)), ("MOV", bits(4, waits=(1,))), EXIT]
    (end,) = ends(lines, touched={0: sectors(0), 1: sectors(0)})
    assert end == 1 + 4 * CHIP.link + CHIP.latency + 4


def test_memory_bounds_many_blocks_and_latency_a_few():
    lines = [("LDG", bits(2, write=0)), ("MOV", bits(4, waits=(0,))), EXIT]
    chip = dataclasses.replace(CHIP, sector=25, begin=0)

    def step(resident):
        blocks = [[straight(lines, {0: sectors(4 * warp)}) for warp in range(8)]]
        found = Multiprocessor(program(*lines), blocks, resident, chip).run(60)
        return (found[50] - found[30]) / 20

    assert step(1) == pytest.approx(8 * 4 * 25 + chip.latency + 5, abs=5)
    assert step(8) == pytest.approx(8 * 4 * 25, abs=1)


@needs_disassembler
def test_a_launch_has_times_that_fit_each_other():
    from gpulayout.gpu.devices import DEVICES

    case = Case("768x768 turned", transposed(4, (768, 768), (1, 0)))
    launch = executed(case.record(), count=4)
    speed = expected(launch, 2 * 4 * 768 * 768, DEVICES["H100 SXM"])
    assert launch.total == 144 and len(launch.blocks) == 4
    touched = launch.touched
    assert (touched.read, touched.written, touched.partial, touched.runs) == (512, 512, 0, 128)
    # at least the loads' latency, and what the bytes of a block take
    assert block_alone(launch) == speed.alone > Chip().latency
    assert speed.step >= 0.8 * speed.memory and 0 < speed.fraction <= 1
    assert speed.binds in (*speed.busy, "latency")


@pytest.mark.parametrize("left, awaited", [(0, 2), (1, 1), (2, 0)])
def test_a_wait_for_groups_of_copies_leaves_the_last_ones(left, awaited):
    copy, end = ("LDGSTS", bits(2)), ("LDGDEPBAR", bits(2))
    lines = program(copy, end, copy, end, ("DEPBAR", bits(2)), ("MOV", bits(4)), EXIT)
    lines[4] = dataclasses.replace(lines[4], operands=(Word("SB0"), Immediate(left)))
    steps = [(k, {0: sectors(0), 2: sectors(8)}.get(k)) for k in range(7)]
    (end,) = Multiprocessor(lines, [[steps]], 1, CHIP).run(1)
    arrivals = [0, 1 + 4 + CHIP.latency, 4 + 1 + 4 + CHIP.latency]  # with `link` 1: a cycle for each of four sectors
    assert end == max(10, arrivals[awaited]) + 4
