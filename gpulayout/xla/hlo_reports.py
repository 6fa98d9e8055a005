"""The allocations in reports of XLA's memory: what an out-of-memory error lists, and a dump of the buffer assignment.

    a report of a TPU             1. Size: 32.00G ... Shape: s32[8,4]{1,0:T(8,128)} ... XLA label: %copy.4 = ...
    a report of a GPU             Buffer 1: Size: 6.00MiB ... XLA Label: fusion ... Shape: f32[4,3]
    the buffer assignment         value: <12 copy.3 @0> (size=24,offset=0): f32[2,3]{1,0}

Each field of a report has a line of its own, to which a log may add a time and the like in front.  The shape of the
label is that of the allocation, or of the tuple that it is an element of, and is not found again.  A web page may have
put a backslash before the dot of 1. Size.  An assignment lists tuples, which are tables of addresses, and values that
only join others, (phi): both are left out, because what they name is listed as well.  Of an assignment with a list of
its peak buffers, the values count.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from typing import NamedTuple

from gpulayout.layout.other_shapes import TupleShape
from gpulayout.xla.hlo import Span, scan
from gpulayout.xla.hlo_lines import LineCounter

_MOST_BEFORE = 1 << 10  # characters of a value's name
_ENTRY = re.compile(r"(?:^|(?<=[ \t]))(?:[0-9]{1,9}\\?\. Size:|Buffer [0-9]{1,9}:(?=[ \t\r]*$))", re.MULTILINE)
_SHAPE = re.compile(r"\b(?:S|Subs)hape:[ \t]*$")
_LABEL = re.compile(r"\bXLA [Ll]abel:[ \t]*%?([\w.\-]+)")
_NAMES_AGAIN = re.compile(r"[^\n]*?\b(?:XLA [Ll]abel|Operator):")
_VALUE = re.compile(r"\bvalue: <[0-9]+ ([^\s@<>{}]+)(?:\{[0-9,]*\})?( \(phi\))? @[0-9]+> \([^()\n]*\):[ \t]*$")
_OTHER_LINE = re.compile(r"[^\n]*?\b(?:allocation [0-9]+|from instruction|(?:S|Subs)hape):")


class Allocations(NamedTuple):
    """Named spans in the order of a text, and a position in every line with a shape, or an entry, that gave none."""

    found: list[tuple[str, Span]]
    unread: list[int]


def read_allocations(seen: str, passed: Callable[[int], None]) -> Allocations:
    """Those that an out-of-memory report in a text without strings and comments lists; none in another text."""
    entries = [match.start() for match in _ENTRY.finditer(seen)]
    ends = [*entries[1:], len(seen)]
    found: list[tuple[str, Span]] = []
    left = _Left(seen, _NAMES_AGAIN)
    without: list[int] = []  # entries that have no shape so far
    entry = -1
    for span in scan(seen, left.add) if entries else ():
        passed(span.end)
        while entry + 1 < len(entries) and entries[entry + 1] <= span.start:
            entry += 1
            without.append(entries[entry])
        is_open = without and without[-1] == entries[entry]
        if is_open and _SHAPE.search(seen, max(span.start - _MOST_BEFORE, 0), span.start):
            label = _LABEL.search(seen, without.pop(), ends[entry])
            found.append((label[1] if label else "", span))
            left.is_read(span.start)
        else:
            left.add(span.start)
    return Allocations(found, list(heapq.merge(left.positions, [*without, *entries[entry + 1 :]])))


def read_assignment(seen: str, passed: Callable[[int], None]) -> Allocations:
    """The values that have memory in a dump of the buffer assignment; none in another text."""
    found: list[tuple[str, Span]] = []
    left = _Left(seen, _OTHER_LINE)
    for span in scan(seen, left.add) if "value: <" in seen else ():
        passed(span.end)
        value = _VALUE.search(seen, max(span.start - _MOST_BEFORE, 0), span.start)
        if value is None:
            left.add(span.start)
            continue
        left.is_read(span.start)
        if not value[2] and not isinstance(span.shape, TupleShape):
            found.append((value[1], span))
    return Allocations(found, left.positions)


class _Left:
    """A position in every line that has a shape and is neither read nor begins with what `known` matches."""

    def __init__(self, seen: str, known: re.Pattern[str]) -> None:
        self.seen, self.known, self.positions = seen, known, list[int]()
        self._lines, self._settled = LineCounter(seen), -1

    def is_read(self, position: int) -> None:
        self._lines.go(position)
        self._settled = self._lines.start

    def add(self, position: int) -> None:
        self._lines.go(position)
        if self._settled != self._lines.start and not self.known.match(self.seen, self._lines.start, position):
            self.positions.append(position)
        self._settled = self._lines.start
