"""A planned checkpoint is written: some tensors are moved in blocks, the others copied by the system."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, SupportsIndex

import numpy as np

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.planning import CheckpointPlan, ShardPlan
from gpulayout.files.elements import CHUNK, Elements, read_at, write_at
from gpulayout.files.engine import Job, Progress, Report, RunThreads, jobs_of, move_jobs, report_of, wait_for
from gpulayout.files.errors import FileError, Note, warn
from gpulayout.files.memory import block_limit
from gpulayout.files.new_file import new_file, new_file_of_size
from gpulayout.files.npy import Header
from gpulayout.files.pieces import FilePiece, Pieces
from gpulayout.files.route import route, sensible_route
from gpulayout.layout.checks import counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs
from gpulayout.plans.plan_blocks import Blocks

# What copy_file_range says where the file system, or two of them, cannot do it.
CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF)


class StoredCopy(NamedTuple):
    """Bytes that stay as they are.

    begin     their offset in the old file
    target    the new file, open
    offset    in it
    tensor    the name of the first one of which they are a part
    """

    shard: ShardPlan
    begin: int
    target: BinaryIO
    offset: int
    nbytes: int
    tensor: str


@dataclass(frozen=True)
class CheckpointWork:
    """The work for all files.

    blocks  by the `id` of a tensor's plan: tensors that are alike share one.  The bytes of all others stay as they are
    pairs   of buffers: with two, a block is read and another one written while a plan runs
    """

    plan: CheckpointPlan
    blocks: Mapping[int, Blocks]
    pairs: int

    @property
    def bytes_read(self) -> int:
        """Bytes of elements that are read."""
        return sum(
            self.blocks[id(change.plan)].bytes_read if id(change.plan) in self.blocks else change.tensor.nbytes
            for shard in self.plan.shards
            for change in shard.changes
        )

    @property
    def bytes_written(self) -> int:
        """Bytes of elements that are written."""
        return sum(stored.nbytes for shard in self.plan.shards for stored in shard.tensors)


def work_within(plan: CheckpointPlan, max_bytes: SupportsIndex | str | None) -> CheckpointWork:
    """The blocks of all tensors within a limit of memory; `LayoutError` names the tensor that needs more."""
    block_limit(max_bytes)  # an error also where all tensors are copied
    with contextlib.suppress(LayoutError):
        return CheckpointWork(plan, _blocks(plan, max(block_limit(max_bytes) // 2, 1), max_bytes), 2)
    return CheckpointWork(plan, _blocks(plan, None, max_bytes), 1)


def _blocks(plan: CheckpointPlan, half: int | None, max_bytes: SupportsIndex | str | None) -> dict[int, Blocks]:
    """The blocks of every tensor: of at most `half` bytes, or else of all that the limit allows."""
    blocks: dict[int, Blocks] = {}
    for change in (change for shard in plan.shards for change in shard.changes):
        if change.plan is None or not change.plan.target.nbytes or id(change.plan) in blocks:
            continue
        try:
            if half is None or max_bytes is not None:
                planned = sensible_route(change.plan, max_bytes, None)
            blocks[id(change.plan)] = (planned if half is None else route(change.plan, half, None)).passes[0]
        except LayoutError as error:
            raise LayoutError(f"tensor {value_text(change.tensor.name)}, {change.before}: {error}") from None
    return blocks


def move_checkpoint(work: CheckpointWork, progress: Progress, *, overwrite: bool, note: Note = warn) -> float:
    """Write the new file or files.  Returns seconds, with the time to write them to the disk.

    All files appear at the end, the index last.  An index that is replaced is removed before the first shard changes,
    so no index ever names shards of another model.
    """
    start, plan = time.perf_counter(), work.plan
    report = report_of(progress, work.bytes_read + work.bytes_written)
    with contextlib.ExitStack() as stack:
        placed = stack.enter_context(_none_if_not_all())
        if plan.index is not None:
            index = stack.enter_context(new_file(plan.path, overwrite=overwrite, note=note))
            index.write(plan.index)
        streams = [
            stack.enter_context(
                new_file_of_size(shard.path, shard.header, shard.nbytes, overwrite=overwrite, note=note)
            )
            for shard in plan.shards
        ]
        placed += ((shard.path, os.fstat(stream.fileno())) for shard, stream in zip(plan.shards, streams))
        _move_all(work, streams, report)
        if plan.index is not None and overwrite:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.realpath(plan.path))
    return time.perf_counter() - start


@contextlib.contextmanager
def _none_if_not_all() -> Iterator[list[tuple[Path, os.stat_result]]]:
    """If the `with` ends with an error, remove those of the listed files that have their names already."""
    placed: list[tuple[Path, os.stat_result]] = []
    try:
        yield placed
    except BaseException:
        for path, status in placed:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(path), status):
                    os.unlink(os.path.realpath(path))
        raise


def _move_all(work: CheckpointWork, streams: Sequence[BinaryIO], report: Report) -> None:
    """Copies go to a thread of their own, beside the blocks that are moved."""
    copies = RunThreads(1)
    pending: deque[Future[int]] = deque()

    def jobs() -> Iterator[Job]:
        for job in _jobs(work, streams):
            while pending and pending[0].done():
                report(pending.popleft().result())
            yield job

    try:
        for copy in _copies(work, streams):
            for begin in range(0, copy.nbytes, CHUNK):
                size = min(CHUNK, copy.nbytes - begin)
                part = copy._replace(begin=copy.begin + begin, offset=copy.offset + begin, nbytes=size)
                pending.append(copies.begin(functools.partial(_copy, part)))
        move_jobs(jobs(), report, pairs=work.pairs)
        wait_for([*pending], report)
    finally:
        copies.stop()


def _jobs(work: CheckpointWork, streams: Sequence[BinaryIO]) -> Iterator[Job]:
    """The blocks of all tensors that move, in the order of the new files."""
    for shard, stream in zip(work.plan.shards, streams):
        for change, (begin, offset, nbytes) in zip(shard.changes, shard.offsets):
            blocks = work.blocks.get(id(change.plan))
            if blocks is not None:
                name = f"{shard.shard.path}: {tensor_text(change.tensor.name)}"
                source = _elements(name, shard.shard.stream, begin, change.tensor.nbytes, change.flip.before)
                target = _elements(str(shard.path), stream, offset, nbytes, change.flip.after)
                yield from jobs_of(blocks, source, target)


def _elements(name: str, stream: BinaryIO, offset: int, nbytes: int, parts: int) -> Elements | Pieces:
    """The bytes of a tensor in an open file, where so many parts stand in reverse order."""
    header = Header(name, np.dtype(np.uint8), (nbytes,), False, "its shape")
    if parts == 1:
        return Elements(header, offset, stream)
    size = nbytes // parts
    return Pieces(header, ((FilePiece(stream, name, Runs(offset + nbytes - size, size, ((parts, -size),))),),))


def _copies(work: CheckpointWork, streams: Sequence[BinaryIO]) -> Iterator[StoredCopy]:
    """The tensors that stay as they are, in the order of the new files; neighbours in both files are one copy."""
    for shard, stream in zip(work.plan.shards, streams):
        last: StoredCopy | None = None
        for change, (begin, offset, nbytes) in zip(shard.changes, shard.offsets):
            if id(change.plan) in work.blocks or not nbytes:
                continue
            if last is not None and (begin, offset) == (last.begin + last.nbytes, last.offset + last.nbytes):
                last = last._replace(nbytes=last.nbytes + nbytes)
                continue
            if last is not None:
                yield last
            last = StoredCopy(shard, begin, stream, offset, nbytes, change.tensor.name)
        if last is not None:
            yield last


def _copy(part: StoredCopy) -> int:
    """Copy some bytes.  Returns how many were read and written, which is what progress counts."""
    done, old = 0, part.shard.shard
    while done < part.nbytes:
        count = _copy_by_system(part, done)
        if count is None:
            count = _copy_through_memory(part, done)
        if not count:
            size = os.fstat(old.stream.fileno()).st_size
            raise FileError(
                f"{old.path}: the file has become shorter while it was read: it has {counted(size, 'byte')}, and "
                f"{tensor_text(part.tensor)} is not whole"
            )
        done += count
    return 2 * done


def _copy_by_system(part: StoredCopy, done: int) -> int | None:
    """Let the system copy, which may share the blocks of a disk; None where it cannot."""
    if not hasattr(os, "copy_file_range"):
        return None
    source, target = part.shard.shard.stream.fileno(), part.target.fileno()
    try:
        return os.copy_file_range(source, target, part.nbytes - done, part.begin + done, part.offset + done)
    except OSError as error:
        if error.errno in CANNOT:
            return None
        raise OSError(error.errno, error.strerror, str(part.shard.path)) from error


def _copy_through_memory(part: StoredCopy, done: int) -> int:
    memory = memoryview(bytearray(part.nbytes - done))
    count = read_at(part.shard.shard.stream, memory, part.begin + done, str(part.shard.shard.path))
    write_at(part.target, memory[:count], part.offset + done, str(part.shard.path))
    return count
