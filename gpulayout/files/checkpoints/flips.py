"""Axes in reverse order, as in the kernels of Flax's transposed convolutions.  A layout cannot express them.

The axes that are flipped come first on one side of the move, so a tensor there is a row of equal parts, and the parts
stand in reverse order.  A kernel of 3 x 3 of Flax, (h, w, in, out), has 9:

    tap        (0,0) (0,1) (0,2) (1,0) ... (2,2)
    is read as (2,2) (2,1) (2,0) (1,2) ... (0,0)

So bytes are read from other places of the file, or written to them.  The move itself knows nothing of it, and takes the
memory that it takes without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from gpulayout.files.source import Source
from gpulayout.files.target import Tails, Target
from gpulayout.layout.checks import value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import Groups, read_pattern


class Flip(NamedTuple):
    """The side of a move whose parts are in reverse order, and how many there are."""

    side: Literal["before", "after"]
    parts: int


def flip_of(pattern: str, axes: tuple[str, ...], dimensions: tuple[int, ...]) -> Flip | None:
    """The flip of those axes that occur in a pattern; None if none does.

    `LayoutError` if they come first on neither side.

    >>> flip_of("i o h w -> h w i o", ("d", "h", "w"), (4, 5, 3, 3))
    Flip(side='after', parts=9)
    """
    found = read_pattern(pattern, len(dimensions))
    sizes = found.axis_sizes(dimensions, {})
    flipped = {axis for axis in axes if axis in sizes}
    if not flipped:
        return None
    parts = math.prod(sizes[axis] for axis in flipped)
    if _come_first(found.after, flipped):
        return Flip("after", parts)
    if _come_first(found.before, flipped):
        return Flip("before", parts)
    raise LayoutError(
        f"flip {value_text(' '.join(axes))} is for axes that come first on one side, and in pattern "
        f"{value_text(pattern)} they do on neither"
    )


def _come_first(groups: Groups, axes: set[str]) -> bool:
    names = [name for group in groups for name in group]
    return {*names[: len(axes)]} == axes


@dataclass(frozen=True)
class FlippedSource(Source):
    """The elements of a file whose parts are read in reverse order."""

    parts: int

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` with the bytes from byte `start` on of the parts in reverse order."""
        for begin, end, place in _mirrored(start, len(part), self.header.nbytes, self.parts):
            super().read_into(part[begin:end], place)

    def read_runs(self, memory: memoryview, starts: np.ndarray, length: int, around: int = -1) -> int:
        """None at once: a run may lie in several parts."""
        return 0


@dataclass(frozen=True)
class FlippedTarget(Target):
    """The elements of a new file whose parts are written in reverse order."""

    parts: int

    def write_from(self, part: memoryview, start: int) -> None:
        """Write the bytes from byte `start` on of the parts in reverse order."""
        for begin, end, place in _mirrored(start, len(part), self.header.nbytes, self.parts):
            super().write_from(part[begin:end], place)

    def write_runs(self, memory: memoryview, starts: np.ndarray, length: int, tails: Tails) -> int:
        """None at once: a run may lie in several parts."""
        return 0


def _mirrored(start: int, count: int, nbytes: int, parts: int) -> Iterator[tuple[int, int, int]]:
    """Bytes `start` to `start + count - 1` in stretches: begin and end among them, and the place in the file.

    >>> [*_mirrored(1, 4, 9, 3)]  # of the parts 678 345 012
    [(0, 2, 7), (2, 4, 3)]
    """
    size = nbytes // parts
    place = start
    while place < start + count:
        part, inside = divmod(place, size)
        end = min((part + 1) * size, start + count)
        yield place - start, end - start, (parts - 1 - part) * size + inside
        place = end
