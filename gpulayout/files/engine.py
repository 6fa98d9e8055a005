"""The blocks of a plan, moved from one open file to another with bounded memory.

There are two buffers.  No file is read or written while the plan of a block runs; in between, both are:

    read 0 | plan 0 | read 1, write 0 | plan 1 | read 2, write 1 | plan 2 | write 2

Where runs are long even in blocks of half the size, there are two pairs of buffers, and a plan runs at the same time:

    read 0 | read 1, plan 0 | read 2, plan 1, write 0 | read 3, plan 2, write 1 | ...

A plan runs on the GPU where one works and there are several blocks: `plan.stream` takes a block through it in smaller
ones.  Else it runs on the CPU.

A plan whose only block is small runs between two others, in the thread of the caller: to hand a few bytes to threads
takes longer than to move them, and models may have a hundred thousand tensors of a few bytes.

Threads share the runs, because a disk answers several requests at a time, and stop between two pieces.  The figures
below are of a virtual disk that moves 1.1 GB a second, under a memory limit of 512 MB that counts the page cache too.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import BinaryIO, NamedTuple

import numpy as np

from gpulayout.choices.backends import default_backend, host_backend
from gpulayout.files.elements import PAGE, Bytes, Elements, Tails
from gpulayout.files.linux_files import open_around_cache, start_write_back
from gpulayout.files.pieces import Pieces
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs
from gpulayout.plans.plan_blocks import Block, Blocks

Report = Callable[[int], None]  # gets the bytes that were read or written since the last call
Progress = Callable[[int, int], None]  # gets the bytes that were read and written so far, and all that will be

READERS = 16  # for short runs: fewer read more slowly, and more read no faster
WRITERS = 4  # more write no faster: the system writes for them, and one may be starting the disk
TICK = 0.1  # seconds between two reports
STREAM_SHARE = 8  # of a block, the part that is on its way through a GPU
LEAST_STREAM = 1 << 20  # bytes
SMALL = 1 << 16  # bytes of a block that needs no threads
WRITE_BACK = 1 << 20  # bytes that are written before the system is told to begin with the disk
LONG_RUN = 1 << 18  # bytes; for runs as long as this, a page read in order to be changed is nothing
PIECE = 1 << 19  # bytes that a thread moves between two looks at whether to stop
MOST_RUNS = 1 << 12  # runs in a piece: their offsets take memory too


class Job(NamedTuple):
    """One block, between two open files.

    limit      bytes that are on their way through the GPU at a time; None where none goes there
    is_small   it is the only block of its plan, of at most `SMALL` bytes
    is_part    it is one of several, which may not fit in memory together
    """

    block: Block
    source: Elements | Pieces
    target: Elements | Pieces
    limit: int | None
    is_small: bool
    is_part: bool

    @property
    def is_copy(self) -> bool:
        """True for a plan that leaves all bytes where they are."""
        plan = self.block.plan
        return plan.change is None and plan.source == plan.target

    def run(self, read: Bytes, written: Bytes) -> None:
        """Run the plan of the block, from one buffer to the other; the CPU moves tiles that do not fit on the GPU."""
        plan = self.block.plan
        buffer = read[: plan.source.nbytes].view(plan.source.buffer_dtype)
        out = written[: plan.target.nbytes].view(plan.target.buffer_dtype)
        if self.limit is not None:
            with contextlib.suppress(LayoutError):
                plan.stream(buffer, out=out, max_bytes=self.limit)
                return
        plan(buffer, out=out)


def report_of(progress: Progress, total: int) -> Report:
    """What adds up the bytes of one move."""
    done = 0

    def report(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    return report


def jobs_of(blocks: Blocks, source: Elements | Pieces, target: Elements | Pieces) -> Iterator[Job]:
    """The jobs for all blocks of one plan."""
    count = len(blocks)
    change = blocks.plan.change
    swaps = change is not None and change.arithmetic.swapped  # which the CPU does
    through_gpu = count > 1 and not swaps and default_backend() is not host_backend()
    limit = max(blocks.block_bytes // STREAM_SHARE, LEAST_STREAM) if through_gpu else None
    is_small = count == 1 and blocks.block_bytes <= SMALL
    return (Job(blocks[number], source, target, limit, is_small, count > 1) for number in range(count))


def move_jobs(jobs: Iterable[Job], report: Report, *, pairs: int) -> None:
    """Move blocks one after the other, with one or two pairs of buffers.

    An exception, such as that of a signal, stops the threads between two pieces.  `FileError` when a source has become
    shorter; OSError with the name of the file when a disk fails or is full.
    """
    reader, writer = BlockReader(pairs), BlockWriter(pairs)
    waiting = _without_small(jobs, report)
    try:
        reading: list[Future[int]] = []
        writing: deque[list[Future[int]]] = deque()
        following = next(waiting, None)
        if following:
            reading = reader.begin(following, 0)
        for number in itertools.count():
            job, following = following, next(waiting, None) if following else None
            if job is None:
                break
            wait_for([*reading, *(writing.popleft() if len(writing) == pairs else ())], report)
            if following and pairs > 1:
                reading = reader.begin(following, number + 1)
            if job.is_copy:  # written from where they were read
                reader.swap(writer, number)
            else:
                job.run(reader.buffer(number), writer.buffer(number, job.block.plan.target.nbytes))
            writing.append(writer.begin(job, following, number))
            if following and pairs == 1:
                reading = reader.begin(following, number + 1)
        wait_for([future for each in writing for future in each], report)
    finally:
        reader.stop()
        writer.threads.stop()


def _without_small(jobs: Iterable[Job], report: Report) -> Iterator[Job]:
    """The jobs that are not small.  Those that are have been done when the next one comes."""
    read: Bytes = np.empty(SMALL, np.uint8)
    written: Bytes = np.empty(SMALL, np.uint8)
    waits = 0  # bytes for which the disk has not begun
    for job in jobs:
        if not job.is_small:
            yield job
            continue
        source_runs, target_runs = job.block.source_runs, job.block.target_runs
        for group in _groups(source_runs):
            job.source.read_runs(read.data[group.begin :], group.starts, group.length)
        job.run(read, written)
        for group in _groups(target_runs):
            job.target.write_runs(written.data[group.begin :], group.starts, group.length)
        report(source_runs.nbytes + target_runs.nbytes)
        waits += target_runs.nbytes
        if waits >= WRITE_BACK:
            waits = _start_write_back(job.target)


def wait_for(pending: list[Future[int]], report: Report) -> None:
    """Wait until all is done, report the bytes, and raise the first error."""
    left = set(pending)
    while left:
        done, left = wait(left, TICK, FIRST_EXCEPTION)
        report(sum(future.result() for future in done))


class _BlockBuffers:
    """As many buffers as there are pairs, which blocks use in turn, and the threads that fill or empty them."""

    def __init__(self, pairs: int, threads: int) -> None:
        self._all: list[Bytes] = [np.empty(0, np.uint8)] * pairs
        self.threads = RunThreads(threads)

    def buffer(self, number: int, nbytes: int = 0) -> Bytes:
        """The buffer of a block, of at least so many bytes; a block at the end may be larger than the first."""
        turn = number % len(self._all)
        if self._all[turn].size < nbytes:
            self._all[turn] = np.empty(nbytes, np.uint8)
        return self._all[turn]

    def swap(self, other: _BlockBuffers, number: int) -> None:
        """Exchange the buffers of a block, which nothing reads or writes now."""
        turn = number % len(self._all)
        self._all[turn], other._all[turn] = other._all[turn], self._all[turn]


class BlockReader(_BlockBuffers):
    """Reads blocks into its buffers."""

    def __init__(self, pairs: int) -> None:
        super().__init__(pairs, READERS)
        self._around: tuple[BinaryIO | None, int] = None, -1  # a file, and its descriptor around the page cache
        self.advised: tuple[tuple[BinaryIO, ...], bool] = (), False

    def begin(self, job: Job, number: int) -> list[Future[int]]:
        """Begin to read a block."""
        source, runs = job.source, job.block.source_runs
        memory = self.buffer(number, runs.nbytes).data
        self._advise(source.streams, random=runs.length < LONG_RUN)
        around = self._descriptor(source.stream, job, runs.length)

        def read(group: RunGroup) -> None:
            source.read_runs(memory[group.begin :], group.starts, group.length, around)

        return self.threads.share(runs, read)

    def stop(self) -> None:
        """End the threads, and close what they used."""
        self.threads.stop()
        self._close()

    def _descriptor(self, stream: BinaryIO | None, job: Job, length: int) -> int:
        """That of a file around the page cache, which takes the system more time than the reading itself.

        -1 for a file that may fit in memory, and for runs of which a page has several.
        """
        if stream is None or not job.is_part or not 2 * PAGE <= length:
            return -1
        if self._around[0] is not stream:  # nothing is being read now
            self._close()
            self._around = stream, open_around_cache(stream)
        return self._around[1]

    def _close(self) -> None:
        if self._around[1] >= 0:
            os.close(self._around[1])
        self._around = None, -1

    def _advise(self, streams: tuple[BinaryIO, ...], *, random: bool) -> None:
        """Tell Linux how files are read.  Else it also reads what follows a short run, and again for a later block."""
        if streams and self.advised != (streams, random) and hasattr(os, "posix_fadvise"):
            for stream in streams:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM if random else os.POSIX_FADV_NORMAL)
            self.advised = streams, random


class BlockWriter(_BlockBuffers):
    """Writes blocks from its buffers, in whole pages of the file.

    A page that two blocks write in parts is read in between, if the system does not hold it any more.  Blocks in
    short runs have many such pages.  So the tail of a run, which is what lies behind its last page boundary,
    waits for the block that continues the run:

        block 0, bytes      0 to 25 999     writes      0 to 24 575, keeps 1424 bytes
        block 1, bytes 26 000 to 51 999     writes 24 576 to 49 151, keeps 2848 bytes
    """

    def __init__(self, pairs: int) -> None:
        super().__init__(pairs, WRITERS)
        self.waits = pairs == 1  # a block is written before the next one begins
        self.has_tails = False  # of the runs of the last block; else they were written
        self._tails: Bytes = np.empty(0, np.uint8)  # a page for each run
        # What starts the disk for the last block; the next one need not wait for it.
        self._begun: list[Future[int]] = []

    def begin(self, job: Job, following: Job | None, number: int) -> list[Future[int]]:
        """Begin to write a block."""
        target, runs, memory = job.target, job.block.target_runs, self.buffer(number).data
        goes_on = following is not None and following.target is target
        keeps = self.waits and goes_on and isinstance(target, Elements)  # pages of a file are not those of pieces
        keeps = keeps and following is not None and _continue(runs, following.block.target_runs)
        if keeps and self._tails.size < runs.run_count * PAGE:
            self._tails = np.empty(runs.run_count * PAGE, np.uint8)
        tails = Tails(self._tails.data, self.has_tails, keeps)
        self.has_tails = keeps

        def write(group: RunGroup) -> None:
            own = tails._replace(memory=tails.memory[group.first * PAGE :])
            target.write_runs(memory[group.begin :], group.starts, group.length, own)

        futures = self.threads.share(runs, write)
        begun, self._begun = self._begun, [self.threads.begin(functools.partial(_start_write_back, target))]
        return [*futures, *begun, *(() if goes_on else self._begun)]


def _start_write_back(target: Elements | Pieces) -> int:
    for stream in target.streams:
        start_write_back(stream)
    return 0


def _continue(runs: Runs, following: Runs) -> bool:
    """True when the runs of the following block continue these, and are of a length for which tails are worth it.

    Tails take half a page on average, so at most a quarter of the buffer.
    """
    return (
        (following.offset, following.loops) == (runs.offset + runs.length, runs.loops)
        and 2 * PAGE <= runs.length
        and max(runs.length, following.length) < LONG_RUN
    )


# ---- threads that share the runs of a block --------------------------------------------------------------------------


class RunGroup(NamedTuple):
    """Runs `first` to `last - 1` of a block, or a part of one long run, which a thread moves at a time.

    start    bytes of each run before the part
    length   bytes of each run, or of the part
    """

    runs: Runs
    first: int
    last: int
    start: int
    length: int

    @property
    def begin(self) -> int:
        """Where the first one begins in the block's buffer."""
        return self.first * self.runs.length + self.start

    @property
    def starts(self) -> np.ndarray:
        """Where each begins among the elements."""
        return self.runs.starts(self.first, self.last) + self.start


class RunThreads:
    """Threads that share the runs of one block after the other."""

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size)
        self._stopped = False

    def share(self, runs: Runs, move: Callable[[RunGroup], None]) -> list[Future[int]]:
        """Begin to call `move` for all runs.  Each future is of some of them, and gives their bytes."""
        return [self._threads.submit(self._move, group, move) for group in _groups(runs)]

    def begin(self, work: Callable[[], int]) -> Future[int]:
        """Begin something else, after what has been shared out."""
        return self._threads.submit(work)

    def stop(self) -> None:
        """End the threads.  What they have not begun stays undone."""
        self._stopped = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _move(self, group: RunGroup, move: Callable[[RunGroup], None]) -> int:
        if self._stopped:
            return 0
        move(group)
        return (group.last - group.first) * group.length


def _groups(runs: Runs) -> Iterator[RunGroup]:
    """All runs: some short ones, or a part of a long one, at a time."""
    if runs.length > PIECE:
        for number in range(runs.run_count):
            for start in range(0, runs.length, PIECE):
                yield RunGroup(runs, number, number + 1, start, min(PIECE, runs.length - start))
    elif runs.length:
        step = min(PIECE // runs.length, MOST_RUNS)
        for first in range(0, runs.run_count, step):
            yield RunGroup(runs, first, min(first + step, runs.run_count), 0, runs.length)
