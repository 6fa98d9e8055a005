"""The runs of bytes that make up a move, as a list: its numbers before it is listed, then whole or in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.run_turns import ListedRuns

RunRows = npt.NDArray[np.int64]


class RunList:
    """Runs of bytes that together are a move: each row of the list copies bytes from the source to the target.

    Made by `Plan.run_list`.  Rows are in the order of the target's bytes, and no two neighbours could be one run.

    Attributes
    ----------
    count : int
        The number of runs.
    nbytes : int
        Bytes of all runs.
    shortest : int
        Bytes of the shortest run; 0 where there is none.

    Notes
    -----
    They are known at once where the runs are turns of loops.  Else the first question takes a pass over the runs, in
    bounded memory.

    Examples
    --------
    >>> import gpulayout as gl
    >>> runs = gl.plan("f32[2,3]", "{1,0:PD(2,4)}").run_list()
    >>> runs
    <2 runs, 24 bytes, the shortest 12>
    >>> runs.array()
    array([[ 0,  0, 12],
           [12, 16, 12]])
    """

    __slots__ = ("_runs",)

    def __init__(self, runs: ListedRuns):
        self._runs = runs

    @property
    def count(self) -> int:
        """The number of runs."""
        return self._runs.facts.runs

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return self._runs.facts.nbytes

    @property
    def shortest(self) -> int:
        """Bytes of the shortest run; 0 where there is none."""
        return self._shortest[0]

    @property
    def shortest_at(self) -> tuple[int, int]:
        """Where the first of the shortest runs lies, in the source and in the target."""
        return self._shortest[1:]

    @property
    def _shortest(self) -> tuple[int, int, int]:
        return self._runs.facts.shortest or (0, 0, 0)

    def __repr__(self) -> str:
        runs, nbytes = checks.counted(self.count, "run"), checks.counted(self.nbytes, "byte")
        return f"<{runs}, {nbytes}, the shortest {self.shortest}>" if self.count else f"<{runs}>"

    def array(self) -> RunRows:
        """All runs: int64, with a row of source byte, target byte and bytes for each.

        Raises
        ------
        MemoryError
            For more runs than there is memory for: list them with `parts`.
        """
        return self.filled((0, 1, 2))

    def parts(self, max_runs: int) -> Iterator[RunRows]:
        """The same rows as arrays of so many runs, the last of fewer, one after the other.

        Parameters
        ----------
        max_runs : int
            The most rows of an array.

        Raises
        ------
        LayoutError
            For a number below 1.
        """
        most = checks.whole_number("max_runs", max_runs)
        if most < 1:
            raise LayoutError(f"max_runs {checks.number_text(most)} is less than 1: each array has at least one run")
        return self._in_parts(min(most, self._runs.most))

    def filled(self, columns: Sequence[int]) -> RunRows:
        """`array` with only these columns.  An internal, as the pieces of a plan are."""
        out = _rows(self.count, len(columns))
        self._runs.fill(out, columns)
        return out

    def _in_parts(self, most: int) -> Iterator[RunRows]:
        part, filled = np.empty((0, 3), np.int64), 0
        for runs in self._runs.rows():
            first = 0
            while first < len(runs[0]):
                if not len(part):
                    part, filled = _rows(most, 3), 0
                more = min(len(runs[0]) - first, most - filled)
                for column, numbers in enumerate(runs):
                    part[filled : filled + more, column] = numbers[first : first + more]
                first, filled = first + more, filled + more
                if filled == most:
                    yield part
                    part = np.empty((0, 3), np.int64)
        if len(part):
            yield part[:filled]


def _rows(count: int, columns: int) -> RunRows:
    """Memory for so many rows."""
    try:
        return np.empty((count, columns), np.int64)
    except (MemoryError, ValueError):
        raise MemoryError(
            f"a list of {count} runs takes {8 * columns * count} bytes: list them in parts, with max_runs= of runs or "
            "parts(max_runs)"
        ) from None
