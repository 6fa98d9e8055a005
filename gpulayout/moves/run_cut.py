"""How runs of bytes are cut: into at most so many bytes, and where their bytes in the target are aligned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpulayout.layout import checks
from gpulayout.moves.copies import Columns, Numbers
from gpulayout.moves.run_stream import ROWS


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

    def most(self, runs: int, nbytes: int) -> int:
        """As many runs or more as these become, which have so many bytes together."""
        return runs if self.longest >= nbytes else 2 * runs + nbytes // self.step

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
