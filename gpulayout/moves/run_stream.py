"""Runs of bytes in the order of the target, joined as far as they go on, found window by window.

A window is so many bytes of the target.  It takes more bytes after windows with few copies, and fewer after others, so
that memory stays bounded.  The last run of a window waits for the next one, which may go on with it.

Where a side lies in pages, as an MMU has them, windows follow the order in which the target's pages really lie.  Copies
are cut where a page of either side ends, and then get their real places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpulayout.moves.copies import Columns, Copies, CopyWindow, Numbers, numbered

ROWS = 1 << 12  # copies of a window: with all temporary arrays, about half a megabyte


class PageTable(NamedTuple):
    """Where the pages of a buffer really lie: page k of `size` bytes at ``table[k] * size``."""

    table: Numbers
    size: int

    def real(self, places: Numbers) -> Numbers:
        """The real places of bytes."""
        page = places // self.size
        real: Numbers = places + (self.table[page] - page) * self.size
        return real


class RunStream(NamedTuple):
    """The runs of some copies, with the pages of both sides; None for a side that lies as it is."""

    copies: Copies
    source_pages: PageTable | None = None
    target_pages: PageTable | None = None

    @property
    def most(self) -> int:
        """As many runs or more."""
        cuts = [pages.table.size for pages in (self.source_pages, self.target_pages) if pages is not None]
        return self.copies.count + sum(cuts)

    def runs(self) -> Iterator[Columns]:
        """Runs in the order of the target, joined as far as they go on; none comes twice."""
        waiting: Columns | None = None
        for window in self._windows():
            if not window.count:
                continue
            found = self._placed(window.columns())
            if not len(found[0]):
                continue
            if waiting is not None:
                found = _together(waiting, found)
            joined = _joined(found)
            source, target, length = joined
            waiting = source[-1:], target[-1:], length[-1:]
            if len(source) > 1:
                yield source[:-1], target[:-1], length[:-1]
        if waiting is not None:
            yield waiting

    def _placed(self, found: Columns) -> Columns:
        """Copies at their real places, in the order of the target."""
        if self.source_pages is not None:
            source, target, length = _cut_at_multiples(found, self.source_pages.size)
            found = self.source_pages.real(source), target, length
        if self.target_pages is not None:
            found = found[0], self.target_pages.real(found[1]), found[2]
        target = found[1]
        if (target[1:] > target[:-1]).all():
            return found
        order = np.argsort(target, kind="stable")
        return found[0][order], target[order], found[2][order]

    def _windows(self) -> Iterator[CopyWindow]:
        """The copies, a window at a time, in the order in which the target really lies."""
        pages, copies = self.target_pages, self.copies
        low, high, page, order = copies.low, copies.high, max(copies.high, 1), np.zeros(1, np.int64)
        if pages is not None and low < high:
            page, order = pages.size, np.argsort(pages.table, kind="stable")
            low, high = 0, page * len(order)
        most = max(high - low, ROWS)
        if self.source_pages is not None:
            most = min(most, ROWS * self.source_pages.size)
        if pages is not None:
            most = min(most, max(4 * ROWS // max(copies.width, 1), 1) * page)
        size = min(max((high - low) * ROWS // (2 * max(copies.count, 1)), ROWS), most)
        while low < high:
            end = min(low + size, high)
            window = copies.window(*_intervals(low, end, page, order))
            if window.count > ROWS < end - low:  # no byte is written twice: so many bytes are no more copies
                size = max((end - low) // 2, ROWS)
                continue
            yield window
            low = end
            if window.count <= ROWS // 2:
                size = min(2 * size, most)


def _intervals(low: int, high: int, page: int, order: Numbers) -> tuple[Numbers, Numbers]:
    """Where bytes lie in the target as the copies see it, if its pages come in this order.

    >>> _intervals(6, 14, 8, np.array([2, 0]))
    (array([22,  0]), array([24,  6]))
    """
    first, last = low // page, (high - 1) // page
    begins = order[first : last + 1] * page
    ends = begins + page
    begins[0] += low - first * page
    ends[-1] += high - (last + 1) * page
    return begins, ends


def _together(first: Columns, second: Columns) -> Columns:
    source, target, length = (np.concatenate(pair) for pair in zip(first, second))
    return source, target, length


def _joined(runs: Columns) -> Columns:
    """Runs in the order of the target, each with those that go on where it ends on both sides."""
    source, target, length = runs
    is_new = np.empty(len(source), bool)
    is_new[0] = True
    np.not_equal(source[1:] - source[:-1], length[:-1], out=is_new[1:])
    is_new[1:] |= target[1:] - target[:-1] != length[:-1]
    if is_new.all():
        return runs
    firsts = np.flatnonzero(is_new)
    return source[firsts], target[firsts], np.add.reduceat(length, firsts)


def _cut_at_multiples(runs: Columns, size: int) -> Columns:
    """Runs that end where the source reaches a multiple of `size`."""
    source, target, length = runs
    first, ends = source // size, source + length
    counts = (ends - 1) // size - first + 1
    if (counts == 1).all():
        return runs
    run, number = numbered(counts)
    page = (first[run] + number) * size
    begins = np.maximum(page, source[run])
    ahead = begins - source[run]
    return begins, target[run] + ahead, np.minimum(page - begins + size, ends[run] - begins)
