"""What is kept between calls, so that a call with known shapes plans nothing."""

from __future__ import annotations

from typing import Any

from gpulayout.layout.arguments import LONGEST_KEPT
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

KEYS = frozenset((str, Shape, Layout))  # types that shapes are given as, and whose values may be part of a key


class Kept:
    """What was made of arguments, so that asking again costs a look-up: a bounded dictionary that begins anew when it
    is full.

    It has no lock, which a forked child could find taken and a signal's handler could wait for; each step is one atomic
    operation. Where two threads keep something at once, one of them may go uncounted until it begins anew.
    """

    # It saves the planning: 40 us for plain layouts, 600 us with tiles, seconds for thousands of pieces.  An entry
    # takes 6.5 KB, each further piece 1.8 KB, with what NumPy prepares.  So 64 MB are 10,000 entries of one piece.  A
    # transfer of more than 64 MB, of which 65,536 pieces make 118 MB, is kept alone.
    MOST_BYTES, ENTRY_BYTES, PIECE_BYTES = 1 << 26, 6500, 1800

    def __init__(self) -> None:
        self._found: dict[tuple, Any] = {}
        self._bytes = 0
        self.get = self._found.get

    def keep(self, key: tuple, made: Any, pieces: int = 0) -> None:
        """Keep what was made for a key of hashable values, unless there is a long text among them."""
        if any(isinstance(part, str) and len(part) > LONGEST_KEPT for part in key):
            return
        if key in self._found:
            return
        more = self.ENTRY_BYTES + self.PIECE_BYTES * pieces
        if self._bytes + more > self.MOST_BYTES:
            self.clear()
        self._bytes += more
        self._found[key] = made

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self._bytes = 0
