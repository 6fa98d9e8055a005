"""The lines of a program's text: the number of a line, and the lines that hold a shape but were not read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpulayout.layout.checks import clipped

MOST_UNREAD = 3  # lines that are shown
_MOST_SHOWN = 80  # characters of each


class LineCounter:
    """The line of each of many positions in a text, which come in order, so that every character is passed once."""

    def __init__(self, text: str) -> None:
        self.text, self.number, self.start, self._done = text, 1, 0, 0

    def go(self, position: int) -> None:
        """Set `number`, counted from 1, and `start` to those of the line of this position."""
        newline = self.text.rfind("\n", self._done, position)
        if newline >= 0:
            self.number += self.text.count("\n", self._done, newline + 1)
            self.start = newline + 1
        self._done = max(self._done, position)


class UnreadLine(NamedTuple):
    """A line with a shape that no result was made of: its number, from 1, and its text, cut."""

    line: int
    text: str


class UnreadLines(NamedTuple):
    """How many lines with a shape were not read, and the first of them."""

    total: int
    first: list[UnreadLine]


def unread_lines(text: str, positions: Iterable[int]) -> UnreadLines:
    """The lines of these positions in a text, which are in order; each line once.

    >>> unread_lines("a f32[2]\\nb\\nc f32[3] f32[4]", [2, 14, 21])
    UnreadLines(total=2, first=[UnreadLine(line=1, text='a f32[2]'), UnreadLine(line=3, text='c f32[3] f32[4]')])
    """
    lines, before, total = LineCounter(text), 0, 0
    first: list[UnreadLine] = []
    for position in positions:
        lines.go(position)
        if lines.number == before:
            continue
        before, total = lines.number, total + 1
        if len(first) < MOST_UNREAD:
            begin = lines.start if position - lines.start < _MOST_SHOWN // 2 else position
            shown = text[begin : begin + 2 * _MOST_SHOWN].lstrip().partition("\n")[0].rstrip()
            first.append(UnreadLine(lines.number, clipped(shown, _MOST_SHOWN)))
    return UnreadLines(total, first)
