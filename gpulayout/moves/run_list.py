"""The runs of bytes that make up a move, as a list: its numbers before it is listed, then whole or in parts.

Loops around all that moves repeat one list, further on in both buffers.  Only one turn is looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import cached_property
from gpulayout.moves.copies import Columns, CopyNest, Loop, Numbers, pairs_within
from gpulayout.moves.run_stream import ROWS, RunStream

NO_RUN = 0, 0, 0


class RunCut(NamedTuple):
    """How runs are cut: none is longer than `longest`, and each but the first begins at a multiple of `align`.

    12 bytes at byte 6, cut for 5 and 4: 2 bytes up to byte 8, then 4, 4 and 2
    """

    longest: int = checks.INT64_MAX
    align: int = 1

    @property
    def step(self) -> int:
        """Bytes from one cut to the next."""
        return self.longest // self.align * self.align

    def heads(self, runs: Columns) -> tuple[Numbers, Numbers]:
        """Of each run, the bytes before its first cut, and into how many runs it is cut."""
        _, target, length = runs
        is_long = length > self.longest
        heads = np.where(
            is_long, (target + np.minimum(length, self.longest)) // self.align * self.align - target, length
        )
        over = np.maximum(length - heads - self.longest, 0)
        return heads, 1 + is_long + -(-over // self.step)

    def rows(self, runs: Columns) -> Iterator[Columns]:
        """The runs, cut, so many at a time."""
        if not (runs[2] > self.longest).any():
            yield runs
            return
        source, target, length = runs
        heads, counts = self.heads(runs)
        ends = np.cumsum(counts)
        for first in range(0, int(ends[-1]), ROWS):
            numbers = np.arange(first, min(first + ROWS, int(ends[-1])))
            run = np.searchsorted(ends, numbers, side="right")
            number = numbers - (ends[run] - counts[run])
            begins = np.where(number > 0, heads[run] + (number - 1) * self.step, 0)
            stops = np.where(number < counts[run] - 1, heads[run] + number * self.step, length[run])
            yield source[run] + begins, target[run] + begins, stops - begins

    def shortest(self, runs: Columns) -> tuple[int, int, int]:
        """The shortest of the runs when they are cut, the first of them: its bytes, and where it lies on both sides."""
        source, target, length = runs
        heads, counts = self.heads(runs)
        last = np.where(counts > 1, heads + (counts - 2) * self.step, 0)
        found = []
        for ahead, sizes in (
            (0 * heads, heads),
            (heads, np.where(counts > 2, self.step, heads)),
            (last, length - last),
        ):
            run = int(sizes.argmin())
            place = int(ahead[run])
            found.append((int(sizes[run]), int(source[run]) + place, int(target[run]) + place))
        return min(found, key=lambda each: (each[0], each[2]))


UNCUT = RunCut()


class RunList:
    """Runs of bytes that together are a move: each row of the list copies bytes from the source to the target.

    Made by `Plan.run_list`.  Rows are in the order of the target's bytes, and no two neighbours could be one run.

    Attributes
    ----------
    count : int
        The number of runs.
    nbytes : int
        Bytes of all runs.
    shortest : int
        Bytes of the shortest run; 0 where there is none.

    Examples
    --------
    >>> import gpulayout as gl
    >>> runs = gl.plan("f32[2,3]", "{1,0:PD(2,4)}").run_list()
    >>> runs
    <2 runs, 24 bytes, the shortest 12>
    >>> runs.array()
    array([[ 0,  0, 12],
           [12, 16, 12]])
    """

    def __init__(self, turn: RunStream, shared: Sequence[Loop] = (), cut: RunCut = UNCUT, only: CopyNest | None = None):
        """The runs of one turn of the loops that are shared, the innermost first; all of it if one nest is `only`."""
        self._turn, self._shared, self._cut, self._only = turn, tuple(shared), cut, only

    @property
    def count(self) -> int:
        """The number of runs."""
        return self._measured[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self._measured[1]

    @property
    def shortest(self) -> int:
        """Bytes of the shortest run; 0 where there is none."""
        return self._measured[2][0]

    @property
    def shortest_at(self) -> tuple[int, int]:
        """Where the first of the shortest runs lies, in the source and in the target."""
        return self._measured[2][1:]

    def __repr__(self) -> str:
        runs, nbytes = checks.counted(self.count, "run"), checks.counted(self.nbytes, "byte")
        return f"<{runs}, {nbytes}, the shortest {self.shortest}>" if self.count else f"<{runs}>"

    def array(self) -> np.ndarray:
        """All runs: int64, with a row of source byte, target byte and bytes for each."""
        return self.filled((0, 1, 2))

    def parts(self, max_runs: int) -> Iterator[np.ndarray]:
        """The same rows as arrays of so many runs, the last of fewer, one after the other.

        Parameters
        ----------
        max_runs : int
            The most rows of an array.
        """
        most = checks.whole_number("max_runs", max_runs)
        if most < 1:
            raise LayoutError(f"max_runs {most} is less than 1: each array has at least one run")
        return self._in_parts(most)

    def filled(self, columns: Sequence[int]) -> np.ndarray:
        """`array` with only these columns.  An internal, as the pieces of a plan are."""
        out = np.empty((self.count, len(columns)), np.int64)
        done = 0
        for runs in self._one_turn():
            more = len(runs[0])
            for into, column in enumerate(columns):
                out[done : done + more, into] = runs[column]
            done += more
        for loop in self._shared:  # what is there is written again further on, twice as much each time
            turn, end = done, done * loop.times
            while done < end:
                more, steps = min(done, end - done), (done // turn * loop.source, done // turn * loop.target, 0)
                for into, column in enumerate(columns):
                    np.add(out[:more, into], steps[column], out=out[done : done + more, into])
                done += more
        return out

    @cached_property
    def _measured(self) -> tuple[int, int, tuple[int, int, int]]:
        """How many runs there are, their bytes, and the shortest: its bytes, and where it lies on both sides."""
        only = self._only
        if only is not None and 2 * only.length <= self._cut.longest:
            return only.copies - pairs_within(only), only.copies * only.length, (only.length, only.source, only.target)
        count = nbytes = 0
        shortest: tuple[int, int, int] | None = None
        for runs in self._turn.runs():
            count += int(self._cut.heads(runs)[1].sum())
            nbytes += int(runs[2].sum())
            found = self._cut.shortest(runs)
            shortest = found if shortest is None or found[0] < shortest[0] else shortest
        times = math.prod(loop.times for loop in self._shared)
        return count * times, nbytes * times, shortest or NO_RUN

    def _one_turn(self) -> Iterator[Columns]:
        return itertools.chain.from_iterable(map(self._cut.rows, self._turn.runs()))

    def _all_turns(self) -> Iterator[Columns]:
        """All runs, so many at a time.  The rows of a short turn are kept, those of a long one found in every turn."""
        times = math.prod(loop.times for loop in self._shared)
        rows = self.count // times
        if rows > ROWS or times == 1:
            for number in range(times):
                steps = [int(step) for step in self._steps(np.array([number]))[:, 0]]
                yield from (
                    (source + steps[0], target + steps[1], length) for source, target, length in self._one_turn()
                )
            return
        turn = [np.concatenate(column) for column in zip(*self._one_turn())]
        for first in range(0, self.count, ROWS):
            turns, row = np.divmod(np.arange(first, min(first + ROWS, self.count)), rows)
            source, target = self._steps(turns)
            yield turn[0][row] + source, turn[1][row] + target, turn[2][row]

    def _steps(self, turns: Numbers) -> Numbers:
        """How far on turns of the shared loops are, in the source and in the target."""
        steps = np.zeros((2, turns.size), np.int64)
        for count, *strides in self._shared:
            turns, digits = np.divmod(turns, count)
            steps += digits * np.array(strides)[:, None]
        return steps

    def _in_parts(self, most: int) -> Iterator[np.ndarray]:
        left, filled, part = self.count, 0, np.empty((0, 3), np.int64)
        for runs in self._all_turns() if left else ():
            first = 0
            while first < len(runs[0]):
                if not len(part):
                    part, filled = np.empty((min(most, left), 3), np.int64), 0
                more = min(len(runs[0]) - first, len(part) - filled)
                for column, numbers in enumerate(runs):
                    part[filled : filled + more, column] = numbers[first : first + more]
                first, filled = first + more, filled + more
                if filled == len(part):
                    left -= filled
                    yield part
                    part = np.empty((0, 3), np.int64)
