"""What a picture of a plan shows of the first warp: the lines of memory that its requests touch, and the lanes' bytes.

A line is 128 bytes that begin at a multiple of 128: four sectors of 32 bytes.

    f32[64,64] to {0,1}, first request of the reads: lanes 0 to 7 read line 0, lanes 8 to 15 line 1, which are row 0 of
    the array, and lanes 16 to 31 lines 2 and 3, which are row 1; 16 sectors in all
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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


class Box(NamedTuple):
    """Bytes of a line, counted from its first, and the numbers of the lanes that access them."""

    first: int
    nbytes: int
    lanes: str


def boxes_of(line: Line, least: int) -> list[Box]:
    """The lanes' bytes.  Accesses of fewer than `least` bytes become one box if they and their lanes follow each other.

    >>> accesses = LaneAccess(0, 128, 2), LaneAccess(1, 130, 2), LaneAccess(2, 136, 4), LaneAccess(3, 136, 4)
    >>> boxes_of(Line(128, (0,), accesses), 4)
    [Box(first=0, nbytes=4, lanes='0–1'), Box(first=8, nbytes=4, lanes='2,3')]
    """
    found: list[Box] = []
    last = -2
    for (offset, nbytes), accesses in itertools.groupby(line.accesses, key=lambda access: access[1:]):
        lanes = [access.lane for access in accesses]
        first, size, text = found[-1] if found else Box(0, 0, "")
        if nbytes < least and first + size == offset - line.offset and lanes == [last + 1]:
            found[-1] = Box(first, size + nbytes, f"{text.partition('–')[0]}–{lanes[0]}")
        else:
            found.append(Box(offset - line.offset, nbytes, ",".join(map(str, lanes))))
        last = lanes[0] if len(lanes) == 1 else -2
    return found
