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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, SupportsIndex

import numpy as np

from gpulayout.files.checkpoints.changes import TensorPlan
from gpulayout.files.checkpoints.planning import CheckpointPlan, ShardPlan
from gpulayout.files.elements import CHUNK, Elements, read_at, write_at
from gpulayout.files.engine import Job, Progress, Report, RunThreads, jobs_of, move_jobs, report_of, wait_for
from gpulayout.files.errors import FileError, Note, warn
from gpulayout.files.memory import block_limit
from gpulayout.files.new_file import new_file, new_file_of_size
from gpulayout.files.npy import Header
from gpulayout.files.route import route, sensible_route
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.plans.plan import Plan
from gpulayout.plans.plan_blocks import Blocks

COPY_CHUNK = 1 << 24  # bytes of one copy: a signal does not wait for more
# What copy_file_range says where the file system, or two of them, cannot do it.
CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF)


class StoredCopy(NamedTuple):
    """Bytes that stay as they are.  Both places are in the whole files.

    tensor     the first one of which they are a part
    old, new   the files, for messages
    """

    source: BinaryIO
    start: int
    target: BinaryIO
    place: int
    nbytes: int
    tensor: str
    old: Path
    new: Path


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
        changes = (change for shard in self.plan.shards for change in shard.changes)
        return sum(
            change.tensor.nbytes if (blocks := self.blocks.get(id(change.plan))) is None else blocks.bytes_read
            for change in changes
        )

    @property
    def bytes_written(self) -> int:
        """Bytes of elements that are written."""
        return sum(place.nbytes for shard in self.plan.shards for place in shard.places)


def work_within(plan: CheckpointPlan, max_bytes: SupportsIndex | str | None) -> CheckpointWork:
    """The blocks of all tensors within a limit of memory; `LayoutError` names the tensor that needs more."""
    for pairs in (2, 1):
        with contextlib.suppress(LayoutError) if pairs > 1 else contextlib.nullcontext():
            half = max(block_limit(max_bytes) // 2, 1) if pairs > 1 else None
            blocks: dict[int, Blocks] = {}
            for change in (change for shard in plan.shards for change in shard.changes):
                if change.plan is not None and change.plan.target.nbytes and id(change.plan) not in blocks:
                    blocks[id(change.plan)] = _blocks(change, change.plan, half, max_bytes)
            return CheckpointWork(plan, blocks, pairs)
    raise AssertionError("the last round returns or raises")


def _blocks(change: TensorPlan, plan: Plan, half: int | None, max_bytes: SupportsIndex | str | None) -> Blocks:
    """The blocks of a tensor: of at most `half` bytes, or else of all that the limit allows."""
    try:
        if half is None or max_bytes is not None:
            found = sensible_route(plan, max_bytes, None)
        return (found if half is None else route(plan, half, None)).passes[0]
    except LayoutError as error:
        raise LayoutError(f"tensor {value_text(change.tensor.name)}, {change.before}: {error}") from None


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
        for shard, stream in zip(work.plan.shards, streams):
            for copy in _joined(_copies(work, shard, stream)):
                for begin in range(0, copy.nbytes, COPY_CHUNK):
                    size = min(COPY_CHUNK, copy.nbytes - begin)
                    part = copy._replace(start=copy.start + begin, place=copy.place + begin, nbytes=size)
                    pending.append(copies.begin(functools.partial(_copy, part)))
        move_jobs(jobs(), report, pairs=work.pairs)
        wait_for([*pending], report)
    finally:
        copies.stop()


def _jobs(work: CheckpointWork, streams: Sequence[BinaryIO]) -> Iterator[Job]:
    """The blocks of all tensors that move, in the order of the new files."""
    for shard, stream in zip(work.plan.shards, streams):
        old = shard.shard
        for change, place in zip(shard.changes, shard.places):
            blocks = work.blocks.get(id(change.plan))
            if blocks is None:
                continue
            tensor = value_text(clipped(change.tensor.name, 80))
            source = Elements(
                _bytes(f"{old.path}: tensor {tensor}", change.tensor.nbytes),
                old.contents.start + change.tensor.begin,
                old.stream,
            )
            target = Elements(_bytes(str(shard.path), place.nbytes), len(shard.header) + place.begin, stream)
            if change.flip is not None and change.flip.side == "before":
                source = replace(source, parts=change.flip.parts)
            elif change.flip is not None:
                target = replace(target, parts=change.flip.parts)
            yield from jobs_of(blocks, source, target)


def _bytes(name: str, nbytes: int) -> Header:
    return Header(name, np.dtype(np.uint8), (nbytes,), False, "its shape")


def _copies(work: CheckpointWork, shard: ShardPlan, stream: BinaryIO) -> Iterator[StoredCopy]:
    """The tensors of a file that stay as they are, in the order of the new file."""
    old = shard.shard
    for change, place in zip(shard.changes, shard.places):
        if id(change.plan) not in work.blocks and place.nbytes:
            start, at = old.contents.start + change.tensor.begin, len(shard.header) + place.begin
            yield StoredCopy(old.stream, start, stream, at, place.nbytes, change.tensor.name, old.path, shard.path)


def _joined(copies: Iterator[StoredCopy]) -> Iterator[StoredCopy]:
    """The same copies; those that are neighbours on both sides are one."""
    last = next(copies, None)
    for copy in copies:
        assert last is not None
        if (copy.start, copy.place) == (last.start + last.nbytes, last.place + last.nbytes):
            last = last._replace(nbytes=last.nbytes + copy.nbytes)
        else:
            yield last
            last = copy
    if last is not None:
        yield last


def _copy(part: StoredCopy) -> int:
    """Copy some bytes.  Returns how many were read and written, which is what progress counts."""
    done = 0
    while done < part.nbytes:
        count = _copy_by_system(part, done)
        if count is None:
            count = _copy_through_memory(part, done)
        if not count:
            size = os.fstat(part.source.fileno()).st_size
            raise FileError(
                f"{part.old}: the file has become shorter while it was read: it has {counted(size, 'byte')}, and "
                f"tensor {value_text(clipped(part.tensor, 80))} is not whole"
            )
        done += count
    return 2 * done


def _copy_by_system(part: StoredCopy, done: int) -> int | None:
    """Let the system copy, which may share the blocks of a disk; None where it cannot."""
    if not hasattr(os, "copy_file_range"):
        return None
    try:
        return os.copy_file_range(
            part.source.fileno(), part.target.fileno(), part.nbytes - done, part.start + done, part.place + done
        )
    except OSError as error:
        if error.errno in CANNOT:
            return None
        raise OSError(error.errno, error.strerror, str(part.new)) from error


def _copy_through_memory(part: StoredCopy, done: int) -> int:
    memory = memoryview(bytearray(min(CHUNK, part.nbytes - done)))
    found = read_at(part.source, memory, part.start + done, str(part.old))
    write_at(part.target, memory[:found], part.place + done, str(part.new))
    return found
