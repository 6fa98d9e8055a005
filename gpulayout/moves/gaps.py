"""The bytes of a target that no copy writes, which are its padding, as if they were copied onto themselves."""

from __future__ import annotations

import numpy as np

from gpulayout.moves.copies import Columns, Copies, Numbers


class Gaps:
    """`Copies` of the bytes that others leave out, up to so many of the target."""

    def __init__(self, copies: Copies, nbytes: int):
        self._copies = copies
        self.low, self.high, self.count, self.width = 0, nbytes, copies.count + 1, copies.width + 1

    def window(self, begins: Numbers, ends: Numbers) -> GapWindow:
        """See `Copies.window`."""
        return GapWindow(self._copies, begins, ends)


class GapWindow:
    """`CopyWindow` of gaps.  `count` may be too many."""

    def __init__(self, copies: Copies, begins: Numbers, ends: Numbers):
        self._written, self._begins, self._ends = copies.window(begins, ends), begins, ends
        self.count = self._written.count + begins.size

    def columns(self) -> Columns:
        """See `CopyWindow.columns`."""
        none = np.zeros_like(self._begins)
        _, written, length = self._written.columns()
        # Where an interval ends, the next one begins and a copy begins at the same byte, they come in this order.
        places = np.concatenate([self._ends, self._begins, written])
        lengths = np.concatenate([none, none, length])
        is_outside = np.arange(places.size) < none.size  # behind the end of an interval
        order = np.argsort(places, kind="stable")
        places, lengths, is_outside = places[order], lengths[order], is_outside[order]
        begins = (places + lengths)[:-1]
        sizes = np.where(is_outside[:-1], 0, places[1:] - begins)
        is_gap = sizes > 0
        return begins[is_gap], begins[is_gap], sizes[is_gap]
