"""Places the elements of a box in shared memory without bank conflicts, and plans how both sides walk it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpulayout.gpu.element_width import SOURCE, TARGET
from gpulayout.gpu.kernel_numbers import BANKS, BOX_APART, BOX_ENTRY_BYTES, BOX_FACTORS, BOX_SHARED_BYTES, LANES
from gpulayout.gpu.many_axes.shared_box import SharedBox, cut_axes
from gpulayout.gpu.many_axes.warp_lanes import (
    FEW,
    MAX_CHECK_BITS,
    REST,
    UNCUT,
    LaneDigit,
    Walk,
    check_bits,
    conflict_ways,
    factor_count,
    walk,
)
from gpulayout.moves.move import Axis

_GOOD = 0.9  # fraction of active lanes from which on the run of the other side is not tried
_BUDGET = 150  # most steps of single axes that a `_StepSearch` looks at
_TRIES = 40  # sets of steps to try before bank conflicts are accepted
_WORD = 4  # bytes of a bank; small elements move in words of this size if possible


class Walks(NamedTuple):
    """How both sides walk a box.

    box       whose places they are
    steps     in shared memory, from one coordinate of each axis to the next, in elements
    span      elements of shared memory
    cost      (True if bank conflicts are frequent, accesses to shared memory and what rows take besides)
    """

    box: SharedBox
    steps: tuple[int, ...]
    span: int
    read: Walk
    write: Walk
    cost: tuple[bool, float]

    @property
    def entries(self) -> int:
        """Entries of the table: 32 lanes and all rows, for both sides."""
        return 2 * LANES + self.read.row_count + self.write.row_count

    @property
    def is_single(self) -> bool:
        """True if a side moves single elements."""
        return 1 in (len(self.read.apart), len(self.write.apart))

    @property
    def has_few_conflicts(self) -> bool:
        """True if bank conflicts are rare."""
        return not self.cost[0]


class _WalkedSide(NamedTuple):
    """A side's axes in its order, the elements of its runs, its digits without steps, and the arguments of `walk`."""

    axes: tuple[int, ...]
    run: int
    digits: tuple[LaneDigit, ...]
    width: int
    word: int
    reads: bool
    aligned: bool

    def walked(self, steps: Sequence[int]) -> Walk:
        digits = [digit._replace(step=steps[k]) for k, digit in zip(self.axes, self.digits)]
        return walk(digits, self.width, self.word, self.reads, self.aligned)


def box_walks(
    axes: Sequence[Axis],
    box: SharedBox,
    width: int,
    phases: tuple[int, int],
    operands: Sequence[int] = (),
) -> Walks | None:
    """The walks with the steps that cause the fewest bank conflicts; None if the box does not fit in shared memory.

    phases    addresses modulo 16 of the source and of the target
    operands  for each axis, the stride in the parameters of arithmetic on the way; none if they have one value each
    """
    source, target = (_side(axes, box, width, side, phases[side]) for side in (SOURCE, TARGET))
    if operands:  # the target's lanes and rows find their parameters, element by element
        digits = [digit._replace(operand=operands[k]) for k, digit in zip(target.axes, target.digits)]
        target = target._replace(digits=tuple(digits), word=1)
    best: Walks | None = None
    for number, steps in enumerate(_steps(box, (source, target))):
        walks = _walked(box, steps, (source, target))
        if walks and (best is None or walks.cost < best.cost):
            best = walks
        if number == 0:  # keeps the run of the source, the next that of the target
            is_enough = (
                best is not None and best.has_few_conflicts and min(best.read.efficiency, best.write.efficiency) > _GOOD
            )
        else:  # a box that does not fit with the smallest steps fits with no others
            is_enough = best is None or best.has_few_conflicts or number > _TRIES
        if is_enough:
            break
    return best


def _walked(box: SharedBox, steps: tuple[int, ...], sides: Sequence[_WalkedSide]) -> Walks | None:
    """The walks with these steps; None if the kernel has no room for the box and its table, the factors of their sums,
    or the checks of rows.
    """
    width = sides[0].width
    span = 1 + sum([(size - 1) * step for size, step in zip(box.sizes, steps)])
    if span * width > BOX_APART:
        return None
    read, write = (side.walked(steps) for side in sides)
    ways = conflict_ways(read, width), conflict_ways(write, width)
    # A piece enters shared memory in one access, but leaves it element by element.
    accesses = read.row_count * (REST + ways[0]) + write.row_count * (REST + ways[1] * len(write.apart))
    walks = Walks(box, steps, span, read, write, (max(ways) > FEW, accesses))
    fits = (
        BOX_ENTRY_BYTES * walks.entries + span * width <= BOX_SHARED_BYTES
        and factor_count(read) + factor_count(write) <= BOX_FACTORS
        and max(check_bits(read), check_bits(write)) <= MAX_CHECK_BITS
    )
    return walks if fits else None


def _side(axes: Sequence[Axis], box: SharedBox, width: int, side: int, phase: int) -> _WalkedSide:
    reads, word, cut = side == SOURCE, max(_WORD // width, 1), cut_axes(axes, box)
    strides, digits = [axis[2 + side] for axis in axes], []
    order, run = (box.read, box.source_run) if reads else (box.write, box.target_run)
    for k in order:
        axis, size = axes[k], box.sizes[k]
        bound = axis.bound if reads else axis.extent
        is_cut = size < axis.extent
        plain = bound == axis.extent and axis.extent % size == 0
        digits.append(
            LaneDigit(size, strides[k], 0, cut.index(k) if is_cut else UNCUT, bound=None if plain else bound, axis=k)
        )
    # Steps between tiles: of axes outside the box, and of pieces of cut axes.
    between = [stride * size for stride, size, axis in zip(strides, box.sizes, axes) if size < axis.extent]
    words = phase % _WORD == 0 and all(step % word == 0 for step in between)
    aligned = all(
        step * width % 32 == 0 for step in [*between, *(stride for stride in strides if abs(stride) * width >= 128)]
    )
    return _WalkedSide(order, run, tuple(digits), width, word if words else 1, reads, aligned)


# ---- steps -----------------------------------------------------------------------------------------------


def _steps(box: SharedBox, sides: Sequence[_WalkedSide]) -> Iterator[tuple[int, ...]]:
    """Steps to try, the most promising first.

    The run of one side stays contiguous and the other axes follow in the order of the other side, with gaps that keep
    lanes in different banks; then with a gap before each of the first two of these axes; then with one gap anywhere.
    """
    orders = []
    for side, other in (sides, sides[::-1]):
        run = _prefix(box.sizes, side.axes, min(side.run, BANKS))
        orders.append([*run, *(k for k in other.axes if k not in run)])
        yield _StepSearch(box.sizes, orders[-1], len(run), sides).steps()
    unit = max(_WORD // sides[0].width, 1)
    first = len(_prefix(box.sizes, sides[0].axes, min(sides[0].run, BANKS)))
    for gaps in itertools.product(range(0, 16 * unit, 4 * unit), range(0, 4 * unit, unit)):
        yield _stepped(box.sizes, orders[0], dict(zip((first, first + 1), gaps)))
    for order in orders:
        for position in range(1, len(order)):
            below = math.prod([box.sizes[k] for k in order[:position]])
            for gap in range(-below % unit, BANKS * unit, unit):
                yield _stepped(box.sizes, order, {position: gap})


class _StepSearch:
    """Finds the smallest step for each axis that causes no bank conflicts in a row of lanes.

    Depth first: if a later axis finds no such step, an earlier one takes its next.  32 x 32 elements of 4 bytes, where
    the source's lanes run along axis 0 and the target's along axis 1:

        axis 0   step 1     lanes of the source are in the banks 0 1 2 ... 31
        axis 1   step 32    lanes of the target are all in bank 0: 31 conflicts
                 step 33    in the banks 0 1 2 ... 31: taken

    order   the axes as they get their steps; the first `run` of them are a run, if possible without gaps
    """

    def __init__(self, sizes: Sequence[int], order: Sequence[int], run: int, sides: Sequence[_WalkedSide]) -> None:
        self._sizes, self._order, self._run, self._sides = sizes, order, run, sides
        self._unit = max(_WORD // sides[0].width, 1)
        self._budget = _BUDGET
        self._steps = [0] * len(sizes)  # 0 for an axis that had none yet; later axes keep those of the last attempt
        self._best = tuple(self._steps)
        self._fewest: float = math.inf

    def steps(self) -> tuple[int, ...]:
        """The steps of all axes, by their numbers; if all cause conflicts, those that cause few."""
        self._choose(0, 1, 0)
        return self._best

    def _choose(self, number: int, room: int, lost: int) -> None:
        """Choose the steps of the order's axes from this number on, the first at least `room`.

        lost   conflicts of the axes before
        """
        if number == len(self._order):
            self._best, self._fewest = tuple(self._steps), lost
            return
        k, attempts = self._order[number], []
        for step in self._free_steps(number, room):
            self._steps[k] = step
            more = sum([_lost(side, self._sizes, self._steps) for side in self._sides])
            attempts.append((more, step))
            self._budget -= 1
            if more:
                continue
            self._choose(number + 1, step * self._sizes[k], lost)
            if not self._fewest or self._budget < 0:
                return
        more, step = min(attempts)
        self._steps[k] = step
        if 0 < more < self._fewest:
            self._choose(number + 1, step * self._sizes[k], more)

    def _free_steps(self, number: int, room: int) -> Iterable[int]:
        """The steps to try for an axis, from `room` on: whole words, except in the run; the first axis has step 1."""
        if number == 0:
            return (room,)
        gap = -room % self._unit if number >= self._run else 0
        return range(room + gap, room + BANKS * self._unit, self._unit)


def _lost(side: _WalkedSide, sizes: Sequence[int], steps: Sequence[int]) -> int:
    """Bank conflicts in the first row of lanes, counting only axes that have a step already.

    Of lanes in one bank, all but one are lost: 32 lanes 2 words apart are in 16 banks, so 16 are.
    """
    places, missing, elements = [0], side.word, 1
    for k in side.axes:
        if not steps[k] or 2 * len(places) > LANES or elements >= side.run and 2 * len(places) >= LANES:
            break
        elements *= sizes[k]
        part = math.gcd(sizes[k], missing)
        missing, step = missing // part, steps[k] * part
        places = [
            place + step * coordinate
            for coordinate in range(min(sizes[k] // part, LANES // len(places)))
            for place in places
        ]
    served, unit = 128 // max(side.width, 4), max(_WORD // side.width, 1)
    if served == LANES:
        words = {place // unit for place in places}
        return len(words) - len({number % LANES for number in words})
    parts = [places[first : first + served] for first in range(0, len(places), served)]
    return len(places) - sum([len({place % served for place in part}) for part in parts])


def _prefix(sizes: Sequence[int], order: Sequence[int], run: int) -> list[int]:
    """The axes that make a run of this length."""
    prefix, length = [], 1
    for k in order:
        if length >= run:
            break
        prefix.append(k)
        length *= sizes[k]
    return prefix


def _stepped(sizes: Sequence[int], order: Sequence[int], gaps: dict[int, int]) -> tuple[int, ...]:
    steps, step = [0] * len(sizes), 1
    for number, k in enumerate(order):
        step += gaps.get(number, 0)
        steps[k], step = step, step * sizes[k]
    return tuple(steps)
