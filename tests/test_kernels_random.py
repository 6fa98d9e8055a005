"""29,600 random moves give the reference bytes on the kernels that planning chooses for them, and 2,000 more do in shared launches;
the threads take turns in an order that changes from launch to launch.  tests/random_moves.py draws the moves and says how to draw
others.
"""
import collections
import dataclasses

import pytest

from gpulayout.backends.kernel_source import kernel_text
from gpulayout.planning.many_plan import JOBS, Request, many_plan
from gpulayout.planning.move import Move
from tests.kernel_cases import BLOCK, FILES, MOVE_FILES, ONLY_WIDTHS, WIDTHS
from tests.kernel_runs import FRESH, Buffers, written
from tests.random_moves import AIMS, PLANS, drawn
from tests.simt import host_module, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
LEAST_SHARE = 0.4            # of the moves of a kind and element size: what must come to the kernel that they are aimed at
LISTS, TOGETHER = 5, 16      # tests of many moves at once, moves in one list


def features(case):
    """What is remarkable about a case."""
    plan, move = case.plan, case.move
    yield from (("file", plan.file), ("source phase", case.source_phase), ("target phase", case.target_phase), f"{plan.index_bits} bits")
    strides = [axis.source_stride for axis in move.axes if axis.bound > 1]
    yield from (word for word, is_so in (("padded", move.is_padded), ("zero stride", 0 in strides),
                                         ("negative stride", min(strides, default=0) < 0)) if is_so)
    if plan.tile and len(plan.tile) == 2:
        for side, size, axis in zip("ba", plan.tile, plan.axes):                # one less than a tile, whole ones, one more
            yield plan.file, side, (axis.extent + 1) % size - 1


def expected_features(kind, width):
    """Those that some of PLANS cases must have."""
    yield from ("32 bits", "64 bits")
    if kind != "tile":
        yield from ((f"{side} phase", phase) for side in ("source", "target") for phase in range(0, 16, width))
    if kind != "copy":
        yield from ("padded", "negative stride", "zero stride")
    if kind in ("tile", "odd tile"):
        yield from ((AIMS[kind].file, side, apart) for side in "ab" for apart in (-1, 0, 1))


@pytest.mark.parametrize("kind, width", [(kind, width) for kind, aim in AIMS.items() for width in aim.widths])
def test_random_moves_are_right(kind, width):
    seen = collections.Counter()
    for number in range(PLANS):
        case = drawn(kind, width, number)
        seen.update(features(case))
        order = host_module.ORDERS[number % 3]
        assert written(case, order=order, seed=number) == case.expected(FRESH), f"order {order}: {case.name}"
    assert [feature for feature in expected_features(kind, width) if not seen[feature]] == []
    assert seen["file", AIMS[kind].file] >= LEAST_SHARE * PLANS and seen["64 bits"] >= PLANS / 8, seen


def test_there_are_20_000_moves_and_1500_of_each_kernel():
    """By what the test above asserts of its own share."""
    shares = collections.Counter()
    for aim in AIMS.values():
        shares[aim.file] += len(aim.widths) * PLANS
    assert set(shares) == set(MOVE_FILES) and shares.total() >= 20_000
    assert all(share * LEAST_SHARE >= (1500 if file not in ONLY_WIDTHS else 600) for file, share in shares.items())


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
    for number in range(part, PLANS // 6, LISTS):
        cases = list(small_cases(number))
        plan = many_plan(tuple(Request(i, case.move, case.source_phase, case.target_phase) for i, case in enumerate(cases)))
        for launch in plan.shared:
            kernel = host_module.load(kernel_text(launch.file), FILES[launch.file], dict(launch.macros)).kernel(launch.kernel)
            buffers = [Buffers(cases[member]) for member in launch.members]
            kernel(launch.grid, BLOCK, (launch.parameters([each.addresses for each in buffers]),), host_module.ORDERS[number % 3], number)
            for each in buffers:
                assert each.written() == each.case.expected(FRESH), f"{len(buffers)} together: {each.case.name}"
            shared += len(buffers)
            variants.add(dict(launch.macros)["GPL_AXES"])
    assert shared * LISTS >= 1500 and variants == set(JOBS)
