"""The blocks of a plan, moved from one open file to another with bounded memory.

There are two buffers.  No file is read or written while the plan of a block runs; in between, both are:

    read 0 | plan 0 | read 1, write 0 | plan 1 | read 2, write 1 | plan 2 | write 2

Where runs are long even in blocks of half the size, there are two pairs of buffers, and a plan runs at the same time:

    read 0 | read 1, plan 0 | read 2, plan 1, write 0 | read 3, plan 2, write 1 | ...

A plan runs on the GPU where one works and there are several blocks: `plan.stream` takes a block through it in smaller
ones.  Else it runs on NumPy.

Threads share the runs, because a disk answers several requests at a time.  The figures below are of a virtual disk that
moves 1.1 GB a second, under a memory limit of 512 MB that counts the page cache too.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait

import numpy as np

from gpulayout.api.backends import default_backend, host_backend
from gpulayout.api.plan_blocks import Block, Blocks
from gpulayout.files.linux_files import start_write_back
from gpulayout.files.pieces import RunPart, RunThreads
from gpulayout.files.source import Bytes, Source
from gpulayout.files.target import Target
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs

Report = Callable[[int], None]  # gets the bytes that were read or written since the last call

READERS = 8  # for short runs: fewer read more slowly, and more read no faster
WRITERS = 2  # more write no faster: the system writes for them
TICK = 0.1  # seconds between two reports
PAGE = mmap.PAGESIZE  # what a file system reads in order to change a part of it
STREAM_SHARE = 8  # of a block, the part that is on its way through a GPU
LEAST_STREAM = 1 << 20  # bytes
LONG_RUN = 1 << 18  # bytes; for runs as long as this, a page read in order to be changed is nothing


def move_blocks(blocks: Blocks, source: Source, target: Target, report: Report, *, pairs: int = 1) -> None:
    """Move every block, with one or two pairs of buffers.

    An exception, such as that of a signal, stops the threads between two runs.  `FileError` when the source has become
    shorter; OSError with the name of the file when a disk fails or is full.
    """
    run = _run_through_gpu(blocks) if len(blocks) > 1 and default_backend() is not host_backend() else _run
    reader, writer = _BlockReader(source, pairs), _BlockWriter(target, pairs)
    try:
        reading: list[Future[int]] = []
        writing: deque[list[Future[int]]] = deque()
        following = blocks[0] if len(blocks) else None
        if following:
            reading = reader.begin(following, 0)
        for number in range(len(blocks)):
            block, following = following, blocks[number + 1] if number + 1 < len(blocks) else None
            assert block
            _wait([*reading, *(writing.popleft() if len(writing) == pairs else ())], report)
            if following and pairs > 1:
                reading = reader.begin(following, number + 1)
            run(block, reader.buffer(number), writer.buffer(number, block.plan.target.nbytes))
            writing.append(writer.begin(block, following, number))
            if following and pairs == 1:
                reading = reader.begin(following, number + 1)
        _wait([future for each in writing for future in each], report)
    finally:
        for threads in (reader.threads, writer.threads):
            threads.stop()


def _run(block: Block, read: Bytes, written: Bytes) -> None:
    """Run the plan of a block, from one buffer to the other."""
    buffer, out = _typed(block, read, written)
    block.plan(buffer, out=out)


def _run_through_gpu(blocks: Blocks) -> Callable[[Block, Bytes, Bytes], None]:
    """The same through the GPU; tiles that do not fit there go by NumPy."""
    limit = max(blocks.block_bytes // STREAM_SHARE, LEAST_STREAM)

    def run(block: Block, read: Bytes, written: Bytes) -> None:
        try:
            buffer, out = _typed(block, read, written)
            block.plan.stream(buffer, out=out, max_bytes=limit)
        except LayoutError:
            _run(block, read, written)

    return run


def _typed(block: Block, read: Bytes, written: Bytes) -> tuple[np.ndarray, np.ndarray]:
    """The two buffers of a block, within larger ones of bytes."""
    source, target = block.plan.source, block.plan.target
    return read[: source.nbytes].view(source.buffer_dtype), written[: target.nbytes].view(target.buffer_dtype)


def _wait(pending: list[Future[int]], report: Report) -> None:
    """Wait until all is done, report the bytes, and raise the first error."""
    left = set(pending)
    while left:
        done, left = wait(left, TICK, FIRST_EXCEPTION)
        report(sum(future.result() for future in done))


class _BlockBuffers:
    """As many buffers as there are pairs, which blocks use in turn."""

    def __init__(self, count: int) -> None:
        self._all: list[Bytes] = [np.empty(0, np.uint8)] * count

    def buffer(self, number: int, nbytes: int = 0) -> Bytes:
        """The buffer of a block, of at least so many bytes; a block at the end may be larger than the first."""
        place = number % len(self._all)
        if self._all[place].size < nbytes:
            self._all[place] = np.empty(nbytes, np.uint8)
        return self._all[place]


class _BlockReader(_BlockBuffers):
    """Reads blocks into its buffers."""

    def __init__(self, source: Source, pairs: int) -> None:
        super().__init__(pairs)
        self.source = source
        self.threads = RunThreads(READERS)
        if source.stream is not None and hasattr(os, "posix_fadvise"):
            # Otherwise Linux also reads what follows a run, and reads it again for a later block.
            os.posix_fadvise(source.stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def begin(self, block: Block, number: int) -> list[Future[int]]:
        """Begin to read a block."""
        memory = self.buffer(number, block.source_runs.nbytes).data

        def read(run: RunPart) -> None:
            self.source.read_into(memory[run.place : run.end], run.start)

        return self.threads.share(block.source_runs, read)


class _BlockWriter(_BlockBuffers):
    """Writes blocks from its buffers, in whole pages of the file.

    A page that two blocks write in parts is read in between, if the system does not hold it any more.  Blocks in
    short runs have many such pages.  So the tail of a run, which is what lies behind its last page boundary,
    waits for the block that continues the run:

        block 0, bytes      0 to 25 999     writes      0 to 24 575, keeps 1424 bytes
        block 1, bytes 26 000 to 51 999     writes 24 576 to 49 151, keeps 2848 bytes
    """

    def __init__(self, target: Target, pairs: int) -> None:
        super().__init__(pairs)
        self.target = target
        self.waits = pairs == 1  # a block is written before the next one begins
        self.tails: list[bytes] = []  # of the runs of the last block; none if they were written
        self.threads = RunThreads(WRITERS)

    def begin(self, block: Block, following: Block | None, number: int) -> list[Future[int]]:
        """Begin to write a block."""
        runs, memory = block.target_runs, self.buffer(number).data
        keeps = self.waits and following is not None and _continue(runs, following.target_runs)
        tails, self.tails = self.tails, [b""] * runs.run_count if keeps else []
        kept = self.tails

        def write(run: RunPart) -> None:
            end = run.end - (self.target.offset + run.start + run.end - run.place) % PAGE if kept else run.end
            part, start = memory[run.place : end], run.start
            if tails:
                start -= len(tails[run.number])
                part = memoryview(tails[run.number] + part)
            if kept:
                kept[run.number] = bytes(memory[end : run.end])
            self.target.write_from(part, start)

        futures = self.threads.share(runs, write)
        return [*futures, self.threads.begin(self._start_write_back)]

    def _start_write_back(self) -> int:
        if self.target.stream is not None:
            start_write_back(self.target.stream)
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
