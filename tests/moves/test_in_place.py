"""Plans in place: their copies, done one after the other on the places of a buffer, are the relayout."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.in_place import move_in_place, steps_in_place
from gpulayout.moves.steps import BlockCycles
from tests import reference
from tests.support.placed import relayout_pieces
from tests.support.tiled_cases import numbers


def places(move, offset, side):
    """The places that a move reads (side 2) or writes (side 3), in order."""
    found = np.array([offset])
    for axis in reversed(move.axes):
        found = np.add.outer(found, np.arange(axis.extent) * axis[side]).reshape(-1)
    return np.add.outer(found, np.arange(move.itemsize)).reshape(-1)


def moved(steps, values):
    """The values of a buffer after all copies.  No copy writes what it reads, and none leaves the workspace."""
    buffer = values.copy()
    workspace = np.full(max((step.workspace for step in steps), default=0), -1)
    for step in steps:
        total = 0
        for copy in step.copies():
            read, written = (workspace if inside else buffer for inside in (copy.from_workspace, copy.to_workspace))
            sources, targets = places(copy.move, copy.source_offset, 2), places(copy.move, copy.target_offset, 3)
            assert min(sources[0], targets[0]) >= 0
            assert read is not written or not set(sources) & set(targets), copy
            for inside, used in ((copy.from_workspace, sources), (copy.to_workspace, targets)):
                assert not inside or used.max() < step.workspace
                total += 0 if inside else used.size
            written[targets] = read[sources]
        assert total <= step.bytes_moved
    return buffer


def check(dimensions, source, target, workspace, enough=None):
    """A relayout between two orders in a workspace of so many elements of one byte; the names of its steps."""
    shapes = [gl.Shape("u8", dimensions, gl.Layout(order)) for order in (source, target)]
    move = move_in_place(*shapes, relayout_pieces(*shapes))
    steps = steps_in_place(move, workspace, workspace if enough is None else enough, 1 + workspace % 3)
    assert max((step.workspace for step in steps), default=0) <= workspace
    before, after = (reference.numbers_in_places(dimensions, order) for order in (source, target))
    where = f"{shapes[0]} to {shapes[1]} in {workspace}: {steps}"
    assert moved(steps, before).tolist() == after.tolist(), where
    return tuple(step.kind for step in steps)


def check_all(dimensions, source, target):
    """With every workspace from one element up."""
    return {check(dimensions, source, target, size) for size in range(1, max(math.prod(dimensions), 1) + 1)}


def test_matrices_with_every_workspace():
    found = set()
    for dimensions in itertools.product(range(1, 10), repeat=2):
        found |= check_all(dimensions, (1, 0), (0, 1))
    assert {(), ("swaps",), ("slabs",), ("blocks",), ("chain", "blocks", "chain")} <= found
    assert ("kept", "chain", "blocks", "chain", "kept") in found
    assert ("kept", "kept", "chain", "blocks", "chain", "kept", "kept") in found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimensions", [(7, 31), (31, 7), (13, 17), (2, 83), (83, 2), (12, 18), (14, 14)])
def test_larger_matrices_with_every_workspace(dimensions):
    assert len(check_all(dimensions, (1, 0), (0, 1))) > 1


@pytest.mark.parametrize("rank", [0, 1])
def test_lines_need_no_steps(rank):
    for size in range(1, 4):
        assert check_all((size,) * rank, tuple(range(rank)), tuple(range(rank))) == {()}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", list(itertools.permutations(range(3))))
def test_three_dimensions_with_every_workspace(target):
    for dimensions in itertools.product(range(1, 5), repeat=3):
        check_all(dimensions, (2, 1, 0), target)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", list(itertools.permutations(range(4))))
def test_four_dimensions_with_every_workspace(target):
    for dimensions in itertools.product((2, 3), repeat=4):
        check_all(dimensions, (3, 2, 1, 0), target)


@st.composite
def relayouts(draw):
    """Dimensions of up to 4000 elements, two orders, and a workspace in elements."""
    dimensions = []
    for _ in range(draw(st.integers(1, 7))):
        dimensions.append(draw(st.integers(1, max(min(40, 4000 // math.prod(dimensions)), 1))))
    source, target = (tuple(draw(st.permutations(range(len(dimensions))))) for _ in range(2))
    workspace, enough = (draw(st.integers(1, math.prod(dimensions))) for _ in range(2))
    return tuple(dimensions), source, target, workspace, enough


@given(relayouts())
def test_random_relayouts(case):
    check(*case)


@pytest.mark.parametrize(
    "source, target",
    [
        ("u8[32,64]{1,0:T(8,16)}", "{1,0}"),
        ("u8[32,64]{0,1}", "{1,0:T(8,16)(4,1)}"),
        ("u8[24,36]{1,0:T(3,4)}", "{0,1:T(4,3)}"),
        ("u8[4,24,36]{2,1,0:T(2,3,4)}", "{0,2,1:T(12,2)}"),
    ],
)
def test_tiles_that_divide_the_array(source, target):
    source = gl.parse_shape(source)
    target = gl.plan(source, target).target
    move = move_in_place(source, target, relayout_pieces(source, target))
    for workspace in (1, 7, 50, 300, 1000, 3456):
        assert (
            moved(steps_in_place(move, workspace, workspace, 1), numbers(source)).tolist() == numbers(target).tolist()
        )


@pytest.mark.parametrize(
    "source, target, reason",
    [
        ("u8[2,3]{1,0}", "{0,1:PD(3,5)}", "the source takes 6 bytes, and the target 15"),
        ("u8[2,3]{1,0:PD(3,3)}", "{0,1:PD(2,4)}", "the source takes 9 bytes, and the target 8"),
        ("u8[2,3]{1,0:PD(2,4)}", "{0,1:PD(2,4)}", "2 of 8 bytes are padding"),
        ("u8[20]{0:T(8)}", "{0:T(12)}", "4 of 24 bytes are padding"),
        ("u8[4,6]{1,0:T(2,4)}", "{0,1:T(3,4)}", "the source takes 32 bytes, and the target 24"),
        ("u8[56,8]{1,0:T(7,8)}", "{1,0:T(8,4)}", "tiles of one side do not divide those of the other"),
        ("u4[4,6]{1,0:E(4)}", "{0,1:E(4)}", "elements of 4 bits share bytes, which are not moved whole"),
    ],
)
def test_what_cannot_be_done_in_place_says_why(source, target, reason):
    plan = gl.plan(source, target)
    with pytest.raises(LayoutError) as error:
        move_in_place(plan.source, plan.target, plan.pieces)
    assert f"{plan.source} to {plan.target} cannot be moved in place: " in str(error.value)
    assert str(error.value).endswith(reason)


def test_large_matrices_are_planned_within_5_percent():
    for dimensions in [(8192, 8192), (8191, 8193), (10_000_000, 3), (3, 10_000_000), (104729, 103), (2**31, 3)]:
        shape = gl.Shape("f32", dimensions)
        plan = gl.plan(shape, "{0,1}")
        steps = steps_in_place(plan.move, shape.nbytes // 20, 1 << 19, 16)
        assert max(step.workspace for step in steps) <= shape.nbytes // 20
        assert sum(step.bytes_moved for step in steps) <= 6.5 * shape.nbytes
        for step in steps:
            assert not isinstance(step, BlockCycles) or step.count < 5000 or step.part_bytes >= 1 << 16, (
                dimensions,
                steps,
            )


def test_huge_primes_are_planned_at_once():
    """Trial division up to the root of an extent would take a minute."""
    plan = gl.plan("u8[999999999999999989,3]", "{0,1}").in_place()
    assert plan.workspace <= plan.limit and plan.bytes_moved <= 7 * plan.source.nbytes
