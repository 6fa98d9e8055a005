"""The bytes of a block within a large buffer: runs of equal length, at places that loops give."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpulayout.moves.move import Axis, coalesce


class Runs(NamedTuple):
    """Runs of equal length within a large buffer, in bytes.

    The block's own buffer holds the same bytes without the gaps, run after run.

    Attributes
    ----------
    offset : int
        Bytes before the first run.
    length : int
        Bytes of each run.
    loops : tuple of (int, int)
        Count and stride in bytes of each loop over the runs, most major first.

    Examples
    --------
    The middle column of f32[2,3] is two runs of 4 bytes, 12 apart:

    >>> middle = Runs(4, 4, ((2, 12),))
    >>> middle.run_count, middle.nbytes, middle.starts()
    (2, 8, array([ 4, 16]))
    """

    offset: int
    length: int
    loops: tuple[tuple[int, int], ...] = ()

    @property
    def run_count(self) -> int:
        """The number of runs; 0 for a block without bytes on this side."""
        return math.prod(count for count, _ in self.loops) if self.length else 0

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self.run_count * self.length

    def starts(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """The byte offsets of runs, in the order in which the block's own buffer holds them: int64, 1-D.

        Parameters
        ----------
        first, last : int
            Only the runs ``first`` to ``last - 1``: the offsets of many short runs take more memory than the runs.
        """
        numbers = np.arange(first, self.run_count if last is None else last, dtype=np.int64)
        starts = np.full(numbers.size, self.offset, np.int64)
        for count, stride in reversed(self.loops):
            numbers, digits = np.divmod(numbers, max(count, 1))
            starts += digits * stride
        return starts

    def of(self, memory: np.ndarray) -> np.ndarray:
        """The runs as a view of the large buffer: one axis for every loop, and the bytes of a run last.

        Parameters
        ----------
        memory : array
            The whole buffer as 1-D uint8; it may be a memory map.

        Raises
        ------
        BufferError
            The memory is not 1-D contiguous uint8, or ends before the last run.

        Examples
        --------
        >>> Runs(4, 4, ((2, 12),)).of(np.arange(24, dtype=np.uint8))
        array([[ 4,  5,  6,  7],
               [16, 17, 18, 19]], dtype=uint8)
        """
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise BufferError(f"memory has dtype {memory.dtype} and shape {memory.shape}: runs are of 1-D uint8")
        if not self.run_count:
            return np.lib.stride_tricks.as_strided(memory, (0, 0), (1, 1))
        end = self.offset + self.length + sum((count - 1) * stride for count, stride in self.loops)
        if end > memory.size:
            raise BufferError(f"memory has {memory.size} bytes, but the last run ends at {end}")
        counts, strides = zip(*self.loops, (self.length, 1))
        return np.lib.stride_tricks.as_strided(memory[self.offset :], counts, strides)


def runs_of(levels: Iterable[tuple[int, int]], offset: int, bits: int) -> Runs:
    """The runs of a box of places.

    levels   extent and stride of each loop over places, most minor first; the strides grow
    offset   the first place
    bits     bits of a place; a run of less than 8 times a whole number ends with the buffer

    >>> runs_of([(3, 1), (4, 10), (2, 40)], 5, 32)
    Runs(offset=20, length=12, loops=((8, 40),))
    """
    axes, _ = coalesce([Axis(extent, extent, stride, stride) for extent, stride in levels])
    length, loops = (axes[0].extent, axes[1:]) if axes and axes[0].target_stride == 1 else (1, axes)
    in_bytes = tuple((axis.extent, axis.target_stride * bits // 8) for axis in reversed(loops))
    return Runs(offset * bits // 8, -(-length * bits // 8), in_bytes)
