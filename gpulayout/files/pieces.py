"""The threads that move the runs of blocks, piece by piece, and stop between two pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gpulayout.moves.runs import Runs

PIECE = 1 << 19  # bytes that a thread moves between two looks at whether to stop
MOST_RUNS = 1 << 12  # runs in a piece: their offsets take memory too


class RunPart(NamedTuple):
    """A run, or a part of a long one: its number, where it begins in the block's buffer and in the file, and its end
    in the block's buffer.
    """

    number: int
    place: int
    start: int
    end: int


class RunGroup(NamedTuple):
    """Runs, or a part of one, that a thread moves at a time: the number of the first, where it begins in the block's
    buffer, where each begins in the file, and their length.
    """

    number: int
    place: int
    starts: np.ndarray
    length: int


class RunThreads:
    """Threads that share the runs of one block after the other."""

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size)
        self._stopped = False

    def share(
        self, runs: Runs, move: Callable[[RunPart], None], move_many: Callable[[RunGroup], int] = lambda group: 0
    ) -> list[Future[int]]:
        """Begin to call `move` for every run.  Each future is of some of them, and gives their bytes.

        move_many   moves the first runs of a piece, as many as it can, and returns how many
        """
        return [self._threads.submit(self._move_all, runs, move, move_many, each) for each in _pieces(runs)]

    def begin(self, work: Callable[[], int]) -> Future[int]:
        """Begin something else, after what has been shared out."""
        return self._threads.submit(work)

    def stop(self) -> None:
        """End the threads.  What they have not begun stays undone."""
        self._stopped = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _move_all(
        self,
        runs: Runs,
        move: Callable[[RunPart], None],
        move_many: Callable[[RunGroup], int],
        bounds: tuple[int, int, int, int],
    ) -> int:
        """Move bytes `begin` to `end - 1` of each of the runs `first` to `last - 1`, which are the bounds."""
        first, last, begin, end = bounds
        if self._stopped:
            return 0
        group = RunGroup(first, first * runs.length + begin, runs.starts(first, last) + begin, end - begin)
        for part in _parts(runs, first + move_many(group), last, begin, end):
            if self._stopped:
                break
            move(part)
        return (last - first) * (end - begin)


def move_at_once(runs: Runs, move: Callable[[RunPart], None]) -> int:
    """Call `move` for every run, in this thread.  Returns their bytes."""
    for each in _pieces(runs):
        for part in _parts(runs, *each):
            move(part)
    return runs.nbytes


def _parts(runs: Runs, first: int, last: int, begin: int, end: int) -> Iterator[RunPart]:
    """Bytes `begin` to `end - 1` of each of the runs `first` to `last - 1`."""
    for number, start in enumerate(runs.starts(first, last).tolist(), first):
        yield RunPart(number, number * runs.length + begin, start + begin, number * runs.length + end)


def _pieces(runs: Runs) -> Iterator[tuple[int, int, int, int]]:
    """Some short runs, or a part of a long one, at a time."""
    if runs.length > PIECE:
        for number in range(runs.run_count):
            for begin in range(0, runs.length, PIECE):
                yield number, number + 1, begin, min(begin + PIECE, runs.length)
    elif runs.length:
        step = min(PIECE // runs.length, MOST_RUNS)
        for first in range(0, runs.run_count, step):
            yield first, min(first + step, runs.run_count), 0, runs.length
