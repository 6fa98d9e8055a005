"""Runs between pools of pages, where pages are alike: the runs of one turn are found once, and only its start moves.

A turn is what the inner loops of a nest copy within one page of either side.  Outer loops say where turns begin in
the buffers; the page tables then say where that really is:

    tokens of 8 heads, from pages of 16 with heads first to pages of 64 with tokens first
    a turn is the 128 runs of 16 tokens; a page of the target takes four of them

Turns have to lie one behind the other in the target's pool.  Otherwise, and for short turns, runs are found window by
window.  Where the last run of a turn goes on in the next turn, both are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.layout.frozen import cached_property
from gpulayout.moves.copies import Columns, CopyNest, Loop, NestedCopies, Numbers
from gpulayout.moves.run_cut import RunCut
from gpulayout.moves.run_stream import PageTable, RunStream
from gpulayout.moves.run_turns import RunFacts

LEAST = 32  # runs of a turn, on average: the start of one takes as much memory as two runs
MOST = 1 << 13  # runs of a turn, which are kept


class _Alike(NamedTuple):
    """Turns that are alike.

    runs     of one turn, from its first byte on both sides
    starts   where turns begin in the buffers, then in the pools
    """

    runs: Columns
    starts: tuple[Numbers, Numbers]


def paged_turns(
    nests: Sequence[CopyNest], cut: RunCut, source_pages: PageTable | None, target_pages: PageTable | None
) -> PagedTurns | None:
    """The runs of nests between pools, if they are turns; None where they are not."""
    sizes = [None if pages is None else pages.size for pages in (source_pages, target_pages)]
    found: list[_Alike] = []
    split = [turn for whole in nests for turn in _split(whole, sizes)]
    turns = [math.prod(loop.times for loop in outer) for _, outer, _ in split]
    copies = sum(count * inner.copies for count, (inner, _, _) in zip(turns, split))
    if copies >= LEAST * sum(turns):
        for inner, outer, begin in split:
            if 2 * inner.length > cut.longest or inner.copies > MOST:
                return None
            source, target, length = map(np.concatenate, zip(*RunStream(NestedCopies([inner])).runs()))
            starts = _starts(outer, begin)
            placed = _placed(starts[0], int((source + length).max()), source_pages)
            lies = _placed(starts[1], int(target[-1] + length[-1]), target_pages)
            if placed is None or lies is None:
                return None
            found.append(_Alike((source, target, length), (placed, lies)))
    made = PagedTurns(found) if found else None
    return made if made is not None and made.are_apart and made.are_long else None


def _split(whole: CopyNest, sizes: Sequence[int | None]) -> Iterator[tuple[CopyNest, list[Loop], tuple[int, int]]]:
    """The nest as turns: what one copies, the loops around it, and where the first begins.

    A loop that leaves a page takes as many rounds within it as a whole page has, and those that are left are turns of
    another kind.
    """
    for number, (times, *steps) in enumerate(whole.loops):
        rounds = [size // step if size % step == 0 else 1 for size, step in zip(sizes, steps) if size and step > 0]
        within = math.gcd(*rounds) if rounds else times
        if within >= times:
            continue
        inner, outer = whole.loops[:number], [*whole.loops[number + 1 :]]
        for first, count in ((0, within), (times // within * within, times % within)):
            turns = 1 if first else times // within
            if count and turns:
                begin = whole.source + first * steps[0], whole.target + first * steps[1]
                more = [Loop(count, *steps)] if count > 1 else []
                around = [Loop(turns, count * steps[0], count * steps[1])] if turns > 1 else []
                yield CopyNest(0, 0, whole.length, (*inner, *more)), [*around, *outer], begin
        return
    yield whole._replace(source=0, target=0), [], (whole.source, whole.target)


def _starts(loops: Sequence[Loop], begin: tuple[int, int]) -> tuple[Numbers, Numbers]:
    starts = [np.array([first], np.int64) for first in begin]
    for times, *steps in loops:
        for side, step in enumerate(steps):
            starts[side] = (np.arange(times)[:, None] * step + starts[side]).reshape(-1)
    return starts[0], starts[1]


def _placed(starts: Numbers, reach: int, pages: PageTable | None) -> Numbers | None:
    """Where turns really begin; None if one of them reaches into another page."""
    if pages is None:
        return starts
    return None if (starts % pages.size + reach > pages.size).any() else pages.real(starts)


class PagedTurns:
    """`ListedRuns` of turns: see the head of this file."""

    def __init__(self, kinds: Sequence[_Alike]):
        self._kinds = kinds
        counts = [each.starts[1].size for each in kinds]
        self._kind = np.repeat(np.arange(len(kinds)), counts)
        source, target = (np.concatenate([each.starts[side] for each in kinds]) for side in range(2))
        order = np.argsort(target, kind="stable")
        self._kind, self._source, self._target = self._kind[order], source[order], target[order]
        self.most = sum(count * len(each.runs[0]) for count, each in zip(counts, kinds))
        firsts = np.array([[column[0] for column in each.runs] for each in kinds])[self._kind]
        lasts = np.array([[column[-1] for column in each.runs] for each in kinds])[self._kind]
        begin = np.stack([self._source, self._target, np.zeros_like(self._source)], axis=1)
        self._firsts, self._lasts = firsts + begin, lasts + begin
        ends = self._lasts[:-1, :2] + self._lasts[:-1, 2:]
        self.are_apart = not (ends[:, 1] > self._firsts[1:, 1]).any()
        self._goes_on = np.append(False, (ends == self._firsts[1:, :2]).all(axis=1))  # from the turn before
        self.are_long = not self._goes_on.any() or all(len(each.runs[0]) > 2 for each in kinds)

    @cached_property
    def facts(self) -> RunFacts:
        """See `ListedRuns.facts`."""
        lasts = self._lasts.copy()
        lasts[np.append(self._goes_on[1:], False), 2] += self._firsts[self._goes_on, 2]
        candidates, nbytes = [lasts, self._firsts[~self._goes_on]], 0
        for number, (runs, _) in enumerate(self._kinds):
            turns = np.flatnonzero(self._kind == number)
            nbytes += turns.size * int(runs[2].sum())
            inner = np.stack([column[1:-1] for column in runs], axis=1)
            candidates.append(inner + [self._source[turns[0]], self._target[turns[0]], 0])
        first_of_each = [each[each[:, 2].argmin()].tolist() for each in candidates if len(each)]
        source, target, shortest = min(first_of_each, key=lambda run: (run[2], run[1]))
        return RunFacts(self.most - int(self._goes_on.sum()), nbytes, (shortest, source, target))

    def rows(self) -> Iterator[Columns]:
        """See `ListedRuns.rows`."""
        waiting: Columns | None = None
        starts = zip(self._kind.tolist(), self._source.tolist(), self._target.tolist(), self._goes_on.tolist())
        for kind, *begin, goes_on in starts:
            source, target, length = self._kinds[kind].runs
            if waiting is not None:
                waiting[2][-1] += goes_on * length[0]
                yield waiting
            waiting = source[goes_on:] + begin[0], target[goes_on:] + begin[1], length[goes_on:].copy()
        if waiting is not None:
            yield waiting

    def fill(self, out: np.ndarray, columns: Sequence[int]) -> int:
        """See `ListedRuns.fill`.  Neighbours of one kind are written together."""
        breaks = np.flatnonzero((np.diff(self._kind) != 0) | self._goes_on[1:]) + 1
        borders = [0, *breaks.tolist(), self._kind.size]
        starts = self._source, self._target, np.zeros_like(self._source)
        done = 0
        for first, last in zip(borders, borders[1:]):
            runs = self._kinds[int(self._kind[first])].runs
            done -= int(self._goes_on[first])  # the first run is written over the one that goes on in it
            longer = out[done].copy() if self._goes_on[first] else None
            more = (last - first) * len(runs[0])
            part = out[done : done + more].reshape(last - first, len(runs[0]), len(columns))
            for into, column in enumerate(columns):
                np.add(starts[column][first:last, None], runs[column], out=part[:, :, into])
            if longer is not None:
                out[done] = longer + [runs[2][0] * (column == 2) for column in columns]
            done += more
        return done
