"""Packed moves of the native engine that are large enough for several boxes, with every instruction set.

tests/moves/test_packed.py has the small ones, on every engine.
"""

import random

import numpy as np
import pytest

from gpulayout.cpu import choose_plan, native
from gpulayout.cpu.choose_plan import plan_of
from gpulayout.moves.packed_move import PackedMove
from tests.support.bits_cases import WIDTHS, BitsCase

GUARD, FRESH = 64, 0x5C
SIZES = (2, 3, 7, 8, 30, 31, 64, 65, 127, 200, 513, 1030, 4100, 70_001)


@pytest.fixture(autouse=True)
def module():
    """The engine."""
    with native.chosen(True):
        if problem := native.missing():
            pytest.skip(problem)
        yield native.module()


@pytest.fixture(params=range(3))
def instruction_set(request, module):
    """Plans are made for one instruction set."""
    names = module.instruction_sets()
    if request.param >= len(names):
        pytest.skip(f"this machine has only {', '.join(names)}")
    module.use(request.param)
    yield names[request.param]
    module.use(len(names) - 1)


def values_of(memory, bits):
    """The elements of packed bytes, one in each byte."""
    if bits == 8:
        return memory
    digits = np.unpackbits(memory, bitorder="little").reshape(-1, bits)
    return (digits << np.arange(bits, dtype=np.uint8)).sum(1, dtype=np.uint8)


def bytes_of(values, bits):
    """Elements as packed bytes."""
    if bits == 8:
        return values
    digits = values[:, np.newaxis] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(digits.ravel(), bitorder="little")


def slots_of(counts, strides):
    """The slots of all coordinates, the first ones the fastest."""
    slots = np.zeros(1, int)
    for count, stride in zip(counts, strides):
        slots = (np.arange(count)[:, np.newaxis] * stride + slots).ravel()
    return slots


def expected(case):
    """(the target's bytes, which of them are written)."""
    extents, bounds, source, target = zip(*case.axes)
    mask = (1 << min(case.widths)) - 1
    last = slots_of(extents, target).max() + 1
    slots = last if case.has_gaps or case.widths[1] == 8 else case.slots
    found, written = np.full(max(slots, last), case.pad & mask, np.uint8), np.zeros(max(slots, last), np.uint8)
    read = slots_of(bounds, source) - case.span[0] + case.start
    found[slots_of(bounds, target)] = values_of(case.source, case.widths[0])[read] & mask
    written[slots_of(extents, target)] = 1
    if case.widths[1] < 8 and not case.has_gaps:
        written[:] = 1
    return tuple(bytes_of(each[:slots], case.widths[1]) for each in (found * written, written))


def drawn(rng, widths, number):
    """A case of some hundred thousand slots."""
    extents = [1]
    while not 150_000 < np.prod(extents) < 900_000:
        extents = [rng.choice(SIZES) for _ in range(rng.randint(1, 4))]
    padded = [extent + (rng.choice((0, 1, 5, 40)) if rng.random() < 0.3 else 0) for extent in extents]
    per, gap = 8 // widths[1], 1
    orders = [rng.sample(range(len(extents)), len(extents)) for _ in range(2)]
    if rng.random() < 0.4:  # the same minor dimension on both sides
        orders[0] = [orders[1][0], *(dim for dim in orders[0] if dim != orders[1][0])]
    strides = [[0] * len(extents) for _ in range(2)]
    for side, order in enumerate(orders):
        step = 1 if side == 0 or per > 1 else rng.choice((1, 1, 3))
        for place, dim in enumerate(order):
            strides[side][dim] = step
            if side == 1 and place == 0 and padded[dim] % per == 0 and rng.random() < 0.2:
                gap = 8
            step = step * padded[dim] + (gap if side == 1 and place == 0 and gap > 1 else 0)
    if widths[0] == 8:
        strides[0] = [stride * rng.choice((1, 1, -1)) for stride in strides[0]]
    axes = sorted(zip(padded, extents, *strides), key=lambda axis: axis[3])
    slots = int(np.prod(padded)) + (rng.choice((0, 0, 1, 9)) if gap == 1 and per > 1 else 0)
    start = rng.randrange(8 // widths[0])
    return BitsCase(f"large {widths} {number}", tuple(axes), slots, rng.randrange(256), widths, start=start)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_large_moves_are_those_of_the_definition(instruction_set, widths):
    rng, boxes, moved = random.Random(f"large moves {widths}"), 0, 0
    while moved < 12:
        case = drawn(rng, widths, moved)
        if type(case.move) is not PackedMove:
            continue
        moved += 1
        wanted, written = expected(case)
        plan = plan_of(case.move, rng.choice((1, 3)))
        target = np.full(len(wanted) + 2 * GUARD, FRESH, np.uint8)
        plan.execute(case.source, case.source_offset, target, GUARD)
        wrong = np.flatnonzero(target[GUARD:-GUARD] != np.where(written, wanted, FRESH))
        assert not wrong.size, (case.move, wrong[:10])
        assert (target[:GUARD] == FRESH).all() and (target[-GUARD:] == FRESH).all(), case.move
        boxes += plan.as_json()["boxes"]
    assert boxes > 2 * moved


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"source_bits": 3}, "1, 2, 4 or 8 bits"),
        ({"target_bits": 0}, "1, 2, 4 or 8 bits"),
        ({"start": 2}, "first byte"),
        ({"start": -1}, "first byte"),
        ({"slots": 41}, "all places"),
        ({"slots": -1}, "all places"),
        ({"axes": [(6, 6, 1, 1), (4, 4, 6, 7)], "slots": 24}, "whole bytes"),
        ({"axes": [(5, 5, 1, 1), (4, 4, 5, 6)], "slots": 20}, "whole bytes"),
        ({"axes": [(6, 6, 1, 1), (4, 4, 6, 8)], "slots": 23}, "all places"),
        ({"axes": [(6, 7, 1, 1)]}, "bound"),
        ({"axes": [(1 << 62, 1, 1, 1)]}, "2\\^63"),
    ],
)
def test_what_is_no_packed_move_is_refused(module, arguments, message):
    words = {"axes": [(40, 40, 1, 1)], "slots": 40, "start": 0, "source_bits": 4, "target_bits": 4}
    words |= {"source_big": False, "target_big": True, "pad": 0}
    assert module.packed_plan(**words).describe()["boxes"] == 1
    with pytest.raises(ValueError, match=message):
        module.packed_plan(**words | arguments)


def test_a_move_without_places_does_nothing(module):
    plan = module.packed_plan([(0, 0, 1, 1)], 0, 0, 4, 4, False, False, 0)
    target = np.full(4, FRESH, np.uint8)
    plan.run(np.zeros(4, np.uint8), 0, target, 0, 1)
    assert (target == FRESH).all()


@pytest.mark.parametrize(
    "move, text",
    [
        (((100, 100, 1, 1),), "1 box of up to 100 places, unpacked, packed"),
        (((3, 3, 5, 1), (5, 5, 1, 3)), "1 box of up to 15 places, unpacked, moved as bytes, packed"),
        (((1 << 20, 1 << 20, 1, 1),), "16 boxes of up to 65536 places, unpacked, packed; worth up to 8 threads"),
    ],
)
def test_plans_describe_themselves(move, text):
    slots = int(np.prod([axis[0] for axis in move]))
    assert choose_plan.describe(BitsCase("", move, slots, 0, (2, 2), start=1).move) == text
