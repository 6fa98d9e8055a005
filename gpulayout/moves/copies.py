"""The bytes that pieces copy, as copies within loops: what a list of runs is made from.

    f32[4,6] to {0,1}     4 bytes, 4 times: 24 bytes on in the source, 4 in the target; and that 6 times: 4 on, 16 on
    CopyNest(source=0, target=0, length=4, loops=(Loop(4, 24, 4), Loop(6, 4, 16)))

The loops of a nest visit the bytes of the target in order: each loop steps over all that those before it reach.  So
the number of copies that begin before a byte of the target is a sum with one term for each loop, and the copies of
any window of the target are found without those before it.  Many nests are arrays, with a column for each nest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpulayout.moves.move import Move
from gpulayout.moves.pieces import Piece

Numbers = np.ndarray
Columns = tuple[Numbers, Numbers, Numbers]  # of runs: the byte in the source, the byte in the target, and the bytes


class Loop(NamedTuple):
    """So many times, so many bytes on in the source and in the target."""

    times: int
    source: int
    target: int


class CopyNest(NamedTuple):
    """Copies of `length` bytes within loops, the most minor in the target first."""

    source: int
    target: int
    length: int
    loops: tuple[Loop, ...] = ()

    @property
    def copies(self) -> int:
        """The number of copies."""
        return math.prod(loop.times for loop in self.loops)

    @property
    def ends(self) -> tuple[int, int]:
        """One past the last byte of the last copy, in the source and in the target."""
        source = sum((loop.times - 1) * loop.source for loop in self.loops)
        target = sum((loop.times - 1) * loop.target for loop in self.loops)
        return self.source + source + self.length, self.target + target + self.length

    def without(self, outer: Loop) -> CopyNest | None:
        """What the outermost loop repeats, if it is `outer`, or `outer` around a loop of the same steps."""
        if not self.loops:
            return None
        count, source, target = self.loops[-1]
        times = count // outer.times
        if (count, times * source, times * target) != (times * outer.times, *outer[1:]):
            return None
        inner = (Loop(times, source, target),) if times > 1 else ()
        return self._replace(loops=(*self.loops[:-1], *inner))


def nest(source: int, target: int, length: int, loops: Iterable[Loop]) -> CopyNest:
    """A nest in as few loops as possible.

    >>> nest(0, 0, 4, [Loop(6, 4, 4), Loop(1, 9, 9), Loop(2, 24, 32), Loop(5, 48, 64)])
    CopyNest(source=0, target=0, length=24, loops=(Loop(times=10, source=24, target=32),))
    """
    joined: list[Loop] = []
    for loop in sorted((loop for loop in loops if loop.times != 1), key=lambda loop: loop.target):
        below = joined[-1] if joined else Loop(length, 1, 1)
        if loop[1:] != (below.times * below.source, below.times * below.target):
            joined.append(loop)
        elif joined:
            joined[-1] = below._replace(times=below.times * loop.times)
        else:
            length *= loop.times
    return CopyNest(source, target, length, tuple(joined))


def nests_of(pieces: Iterable[Piece[Move]], *, of_target: bool = False) -> list[CopyNest]:
    """The copies of elements by pieces, in the order of the target.

    of_target   the bytes of the target stand for those of the source too: what is written, in the longest runs
    """
    found: list[CopyNest] = []
    for move, *begins in pieces:
        if move.element_count:
            loops = [Loop(axis.bound, axis[2 + of_target], axis.target_stride) for axis in move.axes]
            found += _in_order(nest(begins[of_target], begins[1], move.itemsize, loops))
    return sorted(found, key=lambda each: each.target)


def _in_order(given: CopyNest) -> Iterator[CopyNest]:
    """The nest in parts that each visit the target in order: itself, unless a loop steps back within another."""
    reach = given.length
    for loop in given.loops:
        if loop.target < reach:
            break
        reach += (loop.times - 1) * loop.target
    else:
        yield given
        return
    *inner, outer = given.loops
    for number in range(outer.times):
        begins = given.source + number * outer.source, given.target + number * outer.target
        yield from _in_order(CopyNest(*begins, given.length, tuple(inner)))


def pairs_within(given: CopyNest) -> int:
    """How many copies of a nest go on where the one before them ends, on both sides.

    They do where an outer loop takes a turn, and no two in a row do: else their loops would be one.  u8[2,2,2] with
    the last two dimensions turned reads the bytes 0, 2, 1, 3, 4, 6, 5, 7: the 4 goes on after the 3.
    """
    found, turns, source, target = 0, given.copies, 0, 0
    for loop in given.loops:
        turns //= loop.times
        if loop.source - source == loop.target - target == given.length:
            found += (loop.times - 1) * turns
        source += (loop.times - 1) * loop.source
        target += (loop.times - 1) * loop.target
    return found


def without_shared_loops(nests: Sequence[CopyNest], align: int = 1) -> tuple[list[CopyNest], list[Loop]]:
    """What loops around all nests repeat, and these loops, the innermost first.

    They repeat whole lists of runs: no run goes on from one turn to the next, and turns begin at multiples of `align`
    from one another.

    >>> without_shared_loops([CopyNest(0, 0, 4, (Loop(8, 8, 8),)), CopyNest(4, 6, 2, (Loop(4, 16, 16),))])[1]
    [Loop(times=4, source=16, target=16)]
    """
    shared: list[Loop] = []
    while nests:
        outer = min((each.loops[-1] for each in nests if each.loops), key=lambda loop: loop.times, default=None)
        if outer is None or outer.target % align:
            break
        inner = [each.without(outer) for each in nests]
        turn = [each for each in inner if each is not None]
        if len(turn) < len(nests):
            break
        first, last = turn[0], max(turn, key=lambda each: each.ends[1])
        again = first.source + outer.source, first.target + outer.target
        if last.ends[1] > again[1] or last.ends == again:
            break
        nests, shared = turn, [outer, *shared]
    return [*nests], shared


# ---- windows of the target -------------------------------------------------------------------------------------------


class CopyWindow(Protocol):
    """The copies in some intervals of the target's bytes, which may be cut at their ends."""

    count: int

    def columns(self) -> Columns:
        """The copies, in any order."""


class Copies(Protocol):
    """Copies between two buffers, each byte of the target at most once.

    low, high   the first byte that is written, and one past the last
    count       copies, before any are joined
    width       an interval takes time and memory for so many copies, at least
    """

    low: int
    high: int
    count: int
    width: int

    def window(self, begins: Numbers, ends: Numbers) -> CopyWindow:
        """The copies in these intervals of the target, which are apart."""


class NestedCopies:
    """`Copies` of nests."""

    def __init__(self, nests: Sequence[CopyNest]):
        depth = max((len(each.loops) for each in nests), default=0)
        self.width, self.count = len(nests), sum(each.copies for each in nests)
        self.begins = _columns([each[:3] for each in nests], 3)
        loops = [(*([Loop(1, 0, 1)] * (depth - len(each.loops))), *each.loops[::-1]) for each in nests]
        # The most major first; for each loop a count, two strides, and the copies that a turn makes.
        self.loops = [_columns([row[level] for row in loops], 3) for level in range(depth)]
        self.turns = [np.ones(len(nests), np.int64)]
        for counts, *_ in self.loops[:0:-1]:
            self.turns.insert(0, self.turns[0] * counts)
        self.ends = np.array([each.ends[1] for each in nests], np.int64)
        self.low = int(self.begins[1].min()) if nests else 0
        self.high = int(self.ends.max()) if nests else 0

    def window(self, begins: Numbers, ends: Numbers) -> NestedWindow:
        """See `Copies.window`."""
        first, last = int(begins.min()), int(ends.max())
        found = np.flatnonzero((self.begins[1] < last) & (self.ends > first))
        return NestedWindow(self, found, begins, ends)

    def before(self, found: Numbers, places: Numbers) -> tuple[Numbers, Numbers]:
        """How many copies begin before bytes of the target, a row for each, and how far the last of them reaches."""
        left = places[:, None] - 1 - self.begins[1][found]
        count = (left >= 0).astype(np.int64)
        for (counts, _, steps), turns in zip(self.loops, self.turns):
            turn = np.minimum(np.maximum(left // steps[found], 0), counts[found] - 1)
            left -= turn * steps[found]
            count += turn * turns[found]
        return count, self.begins[2][found] - 1 - left


class NestedWindow:
    """`CopyWindow` of nests: for each interval and each nest that comes near, the numbers of the copies."""

    def __init__(self, copies: NestedCopies, found: Numbers, begins: Numbers, ends: Numbers):
        self._copies, self._found, self._begins, self._ends = copies, found, begins, ends
        first, reach = copies.before(found, begins)
        self._first = first - ((first > 0) & (reach > 0))  # one that begins before the interval may reach into it
        self._counts = copies.before(found, ends)[0] - self._first
        self.count = int(self._counts.sum())

    def columns(self) -> Columns:
        """See `CopyWindow.columns`."""
        copies, near = self._copies, max(self._found.size, 1)
        pair, number = numbered(self._counts.ravel())
        number += self._first.ravel()[pair]
        interval, of = pair // near, self._found if near == 1 else self._found[pair % near]
        source, target, length = [column[of] for column in copies.begins]
        for (_, *strides), turns in zip(copies.loops, copies.turns):
            turn = number
            if turns is not copies.turns[-1]:
                turn = number // turns[of]
                number = number - turn * turns[of]
            source = source + turn * strides[0][of]
            target = target + turn * strides[1][of]
        return clipped(source, target, length, self._begins[interval], self._ends[interval])


def _columns(rows: Sequence[Sequence[int]], width: int) -> list[Numbers]:
    return [*np.array(rows, np.int64).reshape(-1, width).T.copy()]


def numbered(counts: Numbers) -> tuple[Numbers, Numbers]:
    """For each of so many things of each kind its kind, and its number among those.

    >>> numbered(np.array([2, 0, 3]))
    (array([0, 0, 2, 2, 2]), array([0, 1, 0, 1, 2]))
    """
    kind = np.repeat(np.arange(counts.size), counts)
    return kind, np.arange(kind.size) - np.repeat(np.cumsum(counts) - counts, counts)


def clipped(source: Numbers, target: Numbers, length: Numbers, begins: Numbers, ends: Numbers) -> Columns:
    """The parts of copies that lie in an interval of the target, one for each copy."""
    ahead = np.maximum(begins - target, 0)
    source, target, length = source + ahead, target + ahead, length - ahead
    length = np.minimum(length, ends - target)
    return source, target, length
