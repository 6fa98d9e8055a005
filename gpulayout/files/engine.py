"""The blocks of a plan, moved from one open file to another with bounded memory.

There are two buffers.  No file is read or written while the plan of a block runs; in between, both are:

    read 0 | plan 0 | read 1, write 0 | plan 1 | read 2, write 1 | plan 2 | write 2

Threads share the runs, because a disk answers several requests at a time.  The figures below are of a virtual disk that
moves 1.1 GB a second, under a memory limit of 512 MB that counts the page cache too.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait

import numpy as np

from gpulayout.api.plan import Block
from gpulayout.files.linux_files import start_write_back
from gpulayout.files.pieces import Crew, Run
from gpulayout.files.source import Bytes, Source
from gpulayout.files.target import Target
from gpulayout.moves.runs import Runs

Report = Callable[[int], None]  # gets the bytes that were read or written since the last call

READERS = 8  # runs of 26 KB: one thread reads 240 MB a second, 4 read 470, 8 read 650, and 16 no more
WRITERS = 2  # one writes 660 MB a second, and more than two no more: the system writes for them
TICK = 0.1  # seconds between two reports
PAGE = mmap.PAGESIZE  # what a file system reads in order to change a part of it
LONG_RUN = 1 << 18  # bytes; for runs as long as this, a page read in order to be changed is nothing


def move_blocks(blocks: Sequence[Block], source: Source, target: Target, report: Report) -> None:
    """Move every block.  An exception, such as that of a signal, stops the threads between two runs.

    `FileError` when the source has become shorter; OSError with the name of the file when a disk fails or is full.
    """
    reader, writer = _Reader(source), _Writer(target)
    try:
        pending: list[Future[int]] = []
        following = blocks[0] if len(blocks) else None
        if following:
            pending = reader.begin(following)
        for number in range(len(blocks)):
            block, following = following, blocks[number + 1] if number + 1 < len(blocks) else None
            assert block
            _wait(pending, report)
            _run(block, reader, writer)
            pending = writer.begin(block, following)
            if following:
                pending += reader.begin(following)
        _wait(pending, report)
    finally:
        for crew in (reader.crew, writer.crew):
            crew.stop()


def _run(block: Block, reader: _Reader, writer: _Writer) -> None:
    """Run the plan of a block, from one buffer to the other."""
    source, target = block.plan.source, block.plan.target
    writer.buffer = _of_size(writer.buffer, target.nbytes)
    block.plan(
        reader.buffer[: source.nbytes].view(source.buffer_dtype),
        out=writer.buffer[: target.nbytes].view(target.buffer_dtype),
    )


def _wait(pending: list[Future[int]], report: Report) -> None:
    """Wait until all is done, report the bytes, and raise the first error."""
    left = set(pending)
    while left:
        done, left = wait(left, TICK, FIRST_EXCEPTION)
        report(sum(future.result() for future in done))


def _of_size(buffer: Bytes, nbytes: int) -> Bytes:
    """A buffer of at least so many bytes; a block at the end may be larger than the first."""
    return buffer if buffer.size >= nbytes else np.empty(nbytes, np.uint8)


class _Reader:
    """Reads blocks into its buffer."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.buffer: Bytes = np.empty(0, np.uint8)
        self.crew = Crew(READERS)
        if source.stream is not None and hasattr(os, "posix_fadvise"):
            # Otherwise Linux also reads what follows a run, and reads it again for a later block.
            os.posix_fadvise(source.stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def begin(self, block: Block) -> list[Future[int]]:
        """Begin to read a block."""
        self.buffer = _of_size(self.buffer, block.source_runs.nbytes)
        memory = self.buffer.data

        def read(run: Run) -> None:
            self.source.read_into(memory[run.place : run.end], run.start)

        return self.crew.share(block.source_runs, read)


class _Writer:
    """Writes blocks from its buffer, in whole pages of the file.

    A page that two blocks write in parts is read in between, if the system does not hold it any more.  With 36 blocks
    in runs of 26 KB, this took 48 seconds instead of 28.  So the tail of a run, which is what lies behind its last page
    boundary, waits for the block that continues the run:

        block 0, bytes      0 to 25 999     writes      0 to 24 575, keeps 1424 bytes
        block 1, bytes 26 000 to 51 999     writes 24 576 to 49 151, keeps 2848 bytes
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.buffer: Bytes = np.empty(0, np.uint8)
        self.tails: list[bytes] = []  # of the runs of the last block; none if they were written
        self.crew = Crew(WRITERS)

    def begin(self, block: Block, following: Block | None) -> list[Future[int]]:
        """Begin to write a block."""
        runs, memory = block.target_runs, self.buffer.data
        keeps = following is not None and _continue(runs, following.target_runs)
        tails, self.tails = self.tails, [b""] * runs.run_count if keeps else []
        kept = self.tails

        def write(run: Run) -> None:
            end = run.end - (self.target.offset + run.start + run.end - run.place) % PAGE if kept else run.end
            part, start = memory[run.place : end], run.start
            if tails:
                start -= len(tails[run.number])
                part = memoryview(tails[run.number] + part)
            if kept:
                kept[run.number] = bytes(memory[end : run.end])
            self.target.write_from(part, start)

        futures = self.crew.share(runs, write)
        return [*futures, self.crew.begin(self._start_write_back)]

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
