"""Runs as turns of loops: a list that loops repeat further on in both buffers is found once.

    f32[20,300] to T(8,128)     two rows of tiles alike, each of 2 tiles and the columns 256 to 299; then half a row

Where copies that lie apart in the target have no loop in common, they are turns of their own, one behind the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpulayout.layout.frozen import cached_property
from gpulayout.moves.copies import Columns, CopyNest, Loop, NestedCopies, Numbers, pairs_within, without_shared_loops
from gpulayout.moves.run_cut import RunCut
from gpulayout.moves.run_stream import ROWS, RunStream


class RunFacts(NamedTuple):
    """What is known of runs before they are listed.

    runs       how many there are
    nbytes     of all of them
    shortest   bytes of the shortest run, and where the first of them lies on both sides; None without runs
    """

    runs: int
    nbytes: int
    shortest: tuple[int, int, int] | None


class ListedRuns(Protocol):
    """Runs in the order of the target.

    most   as many runs or more, known at once
    """

    most: int

    @property
    def facts(self) -> RunFacts:
        """What is known of them; to find out may take a pass over them."""

    def rows(self) -> Iterator[Columns]:
        """The runs, so many at a time."""

    def fill(self, out: np.ndarray, columns: Sequence[int]) -> int:
        """Write some columns of all runs, and say how many runs there are."""


class FoundRuns:
    """`ListedRuns` of a stream, cut.

    only   the one nest that the stream is of, if it is of one, without pages
    """

    def __init__(self, stream: RunStream, cut: RunCut, only: CopyNest | None = None):
        self._stream, self._cut, self._only = stream, cut, only
        self.most = cut.most(stream.most, stream.copies.high - stream.copies.low)

    @cached_property
    def facts(self) -> RunFacts:
        """See `ListedRuns.facts`."""
        only = self._only
        if only is not None and 2 * only.length <= self._cut.longest:
            count, nbytes = only.copies - pairs_within(only), only.copies * only.length
            return RunFacts(count, nbytes, (only.length, only.source, only.target))
        facts = RunFacts(0, 0, None)
        for runs in self._stream.runs():
            count, nbytes = int(self._cut.heads(runs)[1].sum()), int(runs[2].sum())
            facts = _together([facts, RunFacts(count, nbytes, self._cut.shortest(runs))])
        return facts

    def rows(self) -> Iterator[Columns]:
        """See `ListedRuns.rows`."""
        return itertools.chain.from_iterable(map(self._cut.rows, self._stream.runs()))

    def fill(self, out: np.ndarray, columns: Sequence[int]) -> int:
        """See `ListedRuns.fill`."""
        done = 0
        for runs in self.rows():
            more = len(runs[0])
            for into, column in enumerate(columns):
                out[done : done + more, into] = runs[column]
            done += more
        return done


class RepeatedRuns:
    """`ListedRuns` of some lists, one behind the other, that loops repeat; the innermost loop first."""

    def __init__(self, inner: Sequence[ListedRuns], loops: Sequence[Loop]):
        self._inner, self._loops, self._turns = inner, loops, math.prod(loop.times for loop in loops)
        self._most_in_turn = sum(each.most for each in inner)
        self.most = self._most_in_turn * self._turns

    @cached_property
    def facts(self) -> RunFacts:
        """See `ListedRuns.facts`."""
        count, nbytes, shortest = _together([each.facts for each in self._inner])
        return RunFacts(count * self._turns, nbytes * self._turns, shortest)

    def rows(self) -> Iterator[Columns]:
        """See `ListedRuns.rows`.  A short turn is kept and repeated, a long one found every time."""
        if self._turns == 1:
            yield from self._one_turn()
        elif self._most_in_turn <= ROWS:
            source, target, length = (np.concatenate(column) for column in zip(*self._one_turn()))
            for first in range(0, source.size * self._turns, ROWS):
                turns, row = np.divmod(np.arange(first, min(first + ROWS, source.size * self._turns)), source.size)
                ahead = self._ahead(turns)
                yield source[row] + ahead[0], target[row] + ahead[1], length[row]
        else:
            for turn in range(self._turns):
                ahead = self._ahead(np.array([turn]))
                yield from (
                    (source + ahead[0], target + ahead[1], length) for source, target, length in self._one_turn()
                )

    def fill(self, out: np.ndarray, columns: Sequence[int]) -> int:
        """See `ListedRuns.fill`.  What is there is written again further on, twice as much each time."""
        done = 0
        for each in self._inner:
            done += each.fill(out[done:], columns)
        for times, source, target in self._loops:
            turn, end = done, done * times
            while done < end:
                more, steps = min(done, end - done), (done // turn * source, done // turn * target, 0)
                for into, column in enumerate(columns):
                    np.add(out[:more, into], steps[column], out=out[done : done + more, into])
                done += more
        return done

    def _one_turn(self) -> Iterator[Columns]:
        return itertools.chain.from_iterable(each.rows() for each in self._inner)

    def _ahead(self, turns: Numbers) -> Numbers:
        """How far on turns are, in the source and in the target."""
        steps = np.zeros((2, turns.size), np.int64)
        for times, *strides in self._loops:
            turns, digits = np.divmod(turns, times)
            steps += digits * np.array(strides)[:, None]
        return steps


def _together(every: Sequence[RunFacts]) -> RunFacts:
    shortest = [each.shortest for each in every if each.shortest is not None]
    first = min(shortest, key=lambda run: (run[0], run[2]), default=None)
    return RunFacts(sum(each.runs for each in every), sum(each.nbytes for each in every), first)


def runs_of(nests: Sequence[CopyNest], cut: RunCut) -> ListedRuns:
    """The runs of nests in the order of the target."""
    turn, loops = without_shared_loops(nests, cut.align)
    apart = _apart(turn)
    inner: list[ListedRuns]
    if len(apart) > 1 and sum(each.copies for each in turn) > len(apart) * ROWS // 4:
        inner = [runs_of(each, cut) for each in apart]
    else:
        inner = [FoundRuns(RunStream(NestedCopies(turn)), cut, turn[0] if len(turn) == 1 else None)]
    return RepeatedRuns(inner, loops)


def _apart(nests: Sequence[CopyNest]) -> list[list[CopyNest]]:
    """The nests in groups that lie one behind the other in the target, and of which none goes on in the next."""
    groups: list[list[CopyNest]] = []
    last = 0, 0
    for each in nests:
        if groups and (each.target < last[1] or each[:2] == last):
            groups[-1].append(each)
        else:
            groups.append([each])
        last = max(last, each.ends, key=lambda ends: ends[1])
    return groups
