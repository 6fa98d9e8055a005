"""What a picture of a plan shows of the first warp: the lines of memory that its requests touch, and the lanes' bytes.

A line is 128 bytes that begin at a multiple of 128: four sectors of 32 bytes.

    f32[64,64] to {0,1}, first request of the reads: lanes 0 to 7 read line 0, lanes 8 to 15 line 1, which are row 0 of
    the array, and lanes 16 to 31 lines 2 and 3, which are row 1; 16 sectors in all
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpulayout.gpu.first_warp import FirstWarp, LaneAccess, Request, sectors_of
from gpulayout.gpu.traffic import SECTOR

LINE = 128  # bytes
MOST_LINES = 12  # of one side
_MOST_LINES_OF_REQUEST = 6


class Line(NamedTuple):
    """A line of memory.

    offset     of its first byte, from the first byte of the side
    sectors    those of its four sectors that the request touches
    accesses   the accesses in it, ascending
    """

    offset: int
    sectors: tuple[int, ...]
    accesses: tuple[LaneAccess, ...]


class DrawnRequest(NamedTuple):
    """One request: its number from 1 on, its lanes and sectors, and its lines; None for lines that are left out."""

    number: int
    lanes: int
    sectors: int
    lines: tuple[Line | None, ...]


class WarpSide(NamedTuple):
    """The requests of one side.

    name       "reads" or "writes"
    requests   the first ones, as many as fit a picture
    sectors    the sectors of every request, also of those that are not drawn
    """

    name: str
    requests: tuple[DrawnRequest, ...]
    sectors: tuple[int, ...]


def warp_sides(warp: FirstWarp) -> tuple[WarpSide, WarpSide]:
    """Both sides of a warp."""
    reads, writes = (_side(name, requests) for name, requests in zip(warp._fields, warp))
    return reads, writes


def _side(name: str, requests: Sequence[Request]) -> WarpSide:
    drawn: list[DrawnRequest] = []
    count = 0
    for number, request in enumerate(requests, 1):
        lines = _shown(_lines(request))
        count += len(lines)
        if drawn and count > MOST_LINES:
            break
        drawn.append(DrawnRequest(number, len(request), len(sectors_of(request)), lines))
    return WarpSide(name, tuple(drawn), tuple(len(sectors_of(request)) for request in requests))


def _lines(request: Request) -> list[Line]:
    """The lines of a request, ascending.  Accesses are aligned to their size, so each lies in one line."""
    ordered = sorted(request, key=lambda access: access.offset)
    found = []
    for number, accesses in itertools.groupby(ordered, key=lambda access: access.offset // LINE):
        inside = tuple(accesses)
        found.append(Line(number * LINE, tuple(sector % (LINE // SECTOR) for sector in sectors_of(inside)), inside))
    return found


def _shown(lines: list[Line]) -> tuple[Line | None, ...]:
    """All lines, or the first and the last ones."""
    if len(lines) <= _MOST_LINES_OF_REQUEST:
        return tuple(lines)
    return (*lines[: _MOST_LINES_OF_REQUEST - 2], None, lines[-1])


def runs_of(accesses: Iterable[LaneAccess]) -> list[tuple[LaneAccess, ...]]:
    """Accesses that touch each other and whose lanes follow each other, as one.

    >>> [len(run) for run in runs_of([LaneAccess(0, 0, 4), LaneAccess(1, 4, 4), LaneAccess(2, 12, 4)])]
    [2, 1]
    """
    runs: list[tuple[LaneAccess, ...]] = []
    for access in accesses:
        last = runs[-1][-1] if runs else None
        if last and last.offset + last.nbytes == access.offset and last.lane + 1 == access.lane:
            runs[-1] += (access,)
        else:
            runs.append((access,))
    return runs
