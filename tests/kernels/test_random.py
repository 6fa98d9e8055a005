"""16,000 random moves give the reference bytes on the kernels that the planner chooses, and 1,000 more in shared
launches; 1,200 random index conversions give the reference's numbers.  The order of the threads changes from launch to
launch.  tests/support/random_moves.py and random_indices.py draw the cases and explain how to draw others.
"""

import collections
import dataclasses

import numpy as np
import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many import JOBS, JobMove, many_plan
from gpulayout.moves.move import Move
from tests.support import random_indices
from tests.support.kernel_cases import BLOCK, FILES, MOVE_FILES, WIDTHS
from tests.support.kernel_runs import Buffers, written
from tests.support.random_moves import AIMS, PLANS, drawn
from tests.support.simt import host_module, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
LEAST_SHARE = 0.33  # the share of the moves of a kind and an element size that must get the kernel they are meant for
LISTS, TOGETHER = 5, 16  # tests of many moves at once, moves in one list


def features(case):
    """The notable features of a case."""
    plan, move = case.plan, case.move
    yield from (
        ("file", plan.file),
        ("source phase", case.source_phase),
        ("target phase", case.target_phase),
        f"{plan.index_bits} bits",
    )
    strides = [axis.source_stride for axis in move.axes if axis.bound > 1]
    yield from (
        word
        for word, is_so in (
            ("padded", move.is_padded),
            ("zero stride", 0 in strides),
            ("negative stride", min(strides, default=0) < 0),
        )
        if is_so
    )
    if plan.file == "channels.cu" and plan.axes[1].bound < plan.axes[1].extent:
        yield "channels of pad", dict(plan.macros)["GPL_TO_PLANES"]
    if plan.tile and len(plan.tile) == 2:
        for side, size, axis in zip("ba", plan.tile, plan.axes):  # one less than a tile, whole ones, one more
            yield plan.file, side, (axis.extent + 1) % size - 1


def expected_features(kind, width):
    """The features that some of PLANS cases must have."""
    yield from ("32 bits", "64 bits")
    if kind != "tile":
        yield from ((f"{side} phase", phase) for side in ("source", "target") for phase in range(0, 16, width))
    if kind != "copy":
        yield from ("padded", "negative stride", "zero stride")
    if kind == "channels":
        yield from (("channels of pad", 1), ("channels of pad", 0))
    if kind in ("tile", "odd tile", "words"):
        yield from ((AIMS[kind].file, side, apart) for side in "ab" for apart in (-1, 0, 1))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind, width", [(kind, width) for kind, aim in AIMS.items() for width in aim.widths])
def test_random_moves_are_right(kind, width):
    seen, plans = collections.Counter(), AIMS[kind].plans
    for number in range(plans):
        case = drawn(kind, width, number)
        seen.update(features(case))
        order = host_module.ORDERS[number % 3]
        assert written(case, order=order, seed=number) == case.expected(), f"order {order}: {case.name}"
    assert [feature for feature in expected_features(kind, width) if not seen[feature]] == []
    assert seen["file", AIMS[kind].file] >= LEAST_SHARE * plans and seen["64 bits"] >= plans / 8, seen


def test_there_are_10_000_moves_and_many_of_each_kernel():
    """Follows from what the test above asserts for its share of the moves."""
    drawn_for = collections.Counter()
    for aim in AIMS.values():
        drawn_for[aim.file] += aim.plans * len(aim.widths)
        assert aim.plans * len(aim.widths) * aim.share * LEAST_SHARE >= 650
    assert set(drawn_for) == set(MOVE_FILES)
    assert drawn_for.total() >= 10_000


def small_cases(number):
    """A list of moves of all kinds and widths, with 32-bit offsets and no axes of one place."""
    for place in range(TOGETHER):
        kind = ("rows", "gather", "copy", "channels", "rows", "many axes", "odd tile", "gather")[place % 8]
        case = drawn(kind, WIDTHS[(number + place // 4) % 5], number)
        axes = tuple(axis for axis in case.move.axes if axis.extent > 1)
        yield dataclasses.replace(case, move=Move(axes, case.move.itemsize, case.move.pad, ((),) * len(axes)), bits=32)


@pytest.mark.parametrize("part", range(LISTS))
def test_random_moves_are_right_in_shared_launches(part):
    shared, variants = 0, set()
    for number in range(part, PLANS // 30, LISTS):
        cases = list(small_cases(number))
        plan = many_plan(
            tuple(JobMove(i, case.move, case.source_phase, case.target_phase) for i, case in enumerate(cases))
        )
        for launch in plan.shared:
            kernel = host_module.load(kernel_text(launch.file), FILES[launch.file], dict(launch.macros)).kernel(
                launch.kernel
            )
            buffers = [Buffers(cases[member]) for member in launch.members]
            kernel(
                launch.grid,
                BLOCK,
                (launch.parameters([each.addresses for each in buffers]),),
                host_module.ORDERS[number % 3],
                number,
            )
            for each in buffers:
                assert each.written() == each.case.expected(), f"{len(buffers)} together: {each.case.name}"
            shared += len(buffers)
            variants.add(dict(launch.macros)["GPL_AXES"])
    assert shared * LISTS >= 750 and variants == set(JOBS)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("given_type, result_type", [("int64", "int64"), ("int32", "int32"), ("uint16", "int64")])
def test_random_indices_are_converted(given_type, result_type):
    seen = collections.Counter()
    for number in range(PLANS // 5):
        case = random_indices.drawn(given_type, result_type, number)
        result, offender = random_indices.converted(case, host_module.ORDERS[number % 3])
        assert np.array_equal(result, case.expected), case.name
        assert offender == (np.argmax(case.is_bad) if case.is_bad.any() else 2**64 - 1), case.name
        macros = dict(case.launch.macros)
        seen.update((case.launch.kernel, (macros["GPL_INDEX_BITS"], macros["GPL_DIGIT_BITS"]), bool(case.is_bad.any())))
    assert len(seen) == len(FILES["index.cu"]) + 3 + 2 and min(seen.values()) >= PLANS // 5 // 20, seen
