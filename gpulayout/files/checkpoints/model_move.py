"""The move of models as Python and the command line ask for it.

Some tensors are moved in blocks, and the others are copied by the system.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, SupportsIndex

import numpy as np

from gpulayout.files.checkpoints import config
from gpulayout.files.checkpoints.assembly import TensorRuns, one_by_one, reversed_parts, segments_of
from gpulayout.files.checkpoints.changes import TensorPlan
from gpulayout.files.checkpoints.gguf import is_gguf
from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.model import about_tensor
from gpulayout.files.checkpoints.model_folders import (
    ENDING,
    INDEX_ENDING,
    MODEL,
    is_model_folder,
    new_folder,
    write_other,
)
from gpulayout.files.checkpoints.opening import Checkpoint, Stage, check_is_new_checkpoint, open_checkpoint, untold
from gpulayout.files.checkpoints.planning import CheckpointPlan, check_whole_folder, whole_folder
from gpulayout.files.checkpoints.rank_files import Ranks, check_counted
from gpulayout.files.elements import CHUNK, Elements, became_shorter, read_at, write_at
from gpulayout.files.engine import Job, Progress, Report, RunThreads, jobs_of, move_jobs, report_of, wait_for
from gpulayout.files.errors import FileError, Note, warn
from gpulayout.files.memory import block_limit
from gpulayout.files.new_file import new_file, new_file_of_size
from gpulayout.files.new_files import new_files
from gpulayout.files.npy import Header
from gpulayout.files.pieces import FilePiece, Pieces
from gpulayout.files.route import route, sensible_route
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs
from gpulayout.plans.plan import Plan
from gpulayout.plans.plan_blocks import Blocks

# What copy_file_range says where the file system, or two of them, cannot do it.
CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF)
# Why what is said of one array is not for a model, by what Python calls it.
NOT_FOR_MODELS = {
    "source": "its tensors have shapes of their own",
    "scratch": "its tensors are moved one by one, each in one pass",
    "raw": "its header says what its tensors are",
    "offset": "its header says where its tensors begin",
    "byte_order": "its numbers are little-endian",
}


@dataclass(frozen=True)
class ModelMove:
    """The models that are read, the new one, and how much memory the move may take.

    sources     files, indices and folders
    target      a file, an index, or a folder
    max_bytes   as text or a number; None for a part of what is free
    to_folder   the target is a folder in any case, as several new files are made
    rank_names  those of the files of each rank, where a folder has those of all
    ranks       how many there are, of which a name with ${rank} stands for all; None for one new model
    """

    sources: Sequence[Path]
    target: Path
    max_bytes: SupportsIndex | str | None = None
    overwrite: bool = False
    to_folder: bool = False
    rank_names: str | None = None
    ranks: Ranks | None = None

    @contextlib.contextmanager
    def planned(self, planner: Callable[..., CheckpointPlan], stage: Stage = untold) -> Iterator[CheckpointWork]:
        """What will be done, after every check and with the sources open inside the `with`.

        planner   `plan_restore`, `plan_relayout` or `plan_by_recipe` with what a caller says
        """
        if self.rank_names is None:
            check_counted(self.sources, self.target, self.ranks)
        with open_checkpoint(self.sources, stage, self.rank_names) as checkpoint, self._place(checkpoint) as path:
            if self.ranks is not None:
                self.ranks.check_old(checkpoint.path, len(checkpoint.inputs))
                self.ranks.check_new(path)
            check_is_new_checkpoint(path, checkpoint.path)
            plan = planner(checkpoint, path, overwrite=self.overwrite, stage=stage)
            if path != self.target:
                plan = whole_folder(plan, self.sources[0], checkpoint, path.parent)
                check_whole_folder(plan, checkpoint.path.parent, path.parent, overwrite=self.overwrite)
            elif plan.others:
                remark = f"{config.NAME} stays as it is: name a folder as OUT for a whole checkpoint"
                plan = replace(plan, others=(), remarks=(*plan.remarks, remark))
            yield work_within(plan, self.max_bytes)

    @contextlib.contextmanager
    def _place(self, checkpoint: Checkpoint) -> Iterator[Path]:
        """The path of the new model; in a folder, which is there inside the `with`, and stays if something is in it."""
        folder = self.target
        is_named = folder.name.lower().endswith((ENDING, INDEX_ENDING)) and not folder.is_dir()
        if is_named and self.to_folder:
            raise FileError(f"{folder}: several files are made: name a folder, not a file")
        if not (self.to_folder or folder.is_dir() or (is_model_folder(self.sources[0]) and not is_named)):
            yield folder
            return
        if not folder.is_dir():  # a folder called model.gguf is hardly meant
            check_is_new_checkpoint(folder, checkpoint.path)
        with new_folder(folder):
            is_new = self.rank_names is not None or is_gguf(checkpoint.path)  # the old name is that of another file
            yield folder / (f"{MODEL}{ENDING}" if is_new else checkpoint.path.name)

    def run(self, work: CheckpointWork, progress: Progress, note: Note = warn) -> float:
        """Write the new file or files.  Returns seconds, with the time to write them to the disk.

        All files appear at the end, the index last.  An index that is replaced is removed before the first shard
        changes, so no index ever names shards of another model.
        """
        start, plan = time.perf_counter(), work.plan
        report = report_of(progress, work.bytes_read + work.bytes_written)
        new = functools.partial(new_file, overwrite=self.overwrite, note=note)
        new_shard = functools.partial(new_file_of_size, overwrite=self.overwrite, note=note)
        with new_files() as files:
            for other in plan.others:
                files.write_later(other.path, new, functools.partial(write_other, other))
            if plan.index is not None:
                files.open(plan.path, new(plan.path)).write(plan.index)
            streams = [files.open(each.path, new_shard(each.path, each.header, each.nbytes)) for each in plan.files]
            with plan.scales.opened(plan.path.parent, block_limit(self.max_bytes), report):
                _move_all(work, streams, report)
            if self.overwrite:
                files.keep_old()
                if plan.index is not None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.realpath(plan.path))
        return time.perf_counter() - start


class StoredCopy(NamedTuple):
    """Bytes that stay as they are.

    source   the old file, open
    begin    their offset in it
    target   the new file, open
    offset   in it
    tensor   the name of the first one of which they are a part
    files    the names of the two
    """

    source: BinaryIO
    begin: int
    target: BinaryIO
    offset: int
    nbytes: int
    tensor: str
    files: tuple[str, str]


class Limit(NamedTuple):
    """The memory for the blocks of a tensor.

    half       of it, for one of two pairs of buffers; None where only one pair fits
    max_bytes  as the caller says it
    """

    half: int | None
    max_bytes: SupportsIndex | str | None

    def blocks(self, change: TensorPlan, plan: Plan) -> Blocks:
        """The blocks of a tensor; `LayoutError`, which names it, where the limit is too small."""
        with about_tensor(change.parts[0], change.before):
            if self.half is None or self.max_bytes is not None:
                planned = sensible_route(plan, self.max_bytes, None)
            return (planned if self.half is None else route(plan, self.half, None)).passes[0]


@dataclass(frozen=True)
class CheckpointWork:
    """The work for all files.

    blocks  by the `id` of a tensor's plan: tensors that are alike share one.  The bytes of all others stay as they are
    """

    plan: CheckpointPlan
    blocks: Mapping[int, Blocks]
    limit: Limit

    @property
    def pairs(self) -> int:
        """How many pairs of buffers there are: with two, a block is read and another one written while a plan runs."""
        return 1 if self.limit.half is None else 2

    @property
    def bytes_read(self) -> int:
        """Bytes of elements that are read, but for those of siblings; once more where scales are measured."""
        return self.plan.scales.nbytes + sum(
            self.blocks[id(change.plan)].bytes_read if id(change.plan) in self.blocks else nbytes
            for file in self.plan.files
            for change, _, nbytes in file.places
        )

    @property
    def bytes_written(self) -> int:
        """Bytes of elements that are written."""
        return sum(stored.nbytes for file in self.plan.files for stored in file.tensors)


def work_within(plan: CheckpointPlan, max_bytes: SupportsIndex | str | None) -> CheckpointWork:
    """The blocks of all tensors within a limit of memory; `LayoutError` names the tensor that needs more."""
    limit = Limit(max(block_limit(max_bytes) // 2, 1), max_bytes)  # an error also where all tensors are copied
    with contextlib.suppress(LayoutError):
        return CheckpointWork(plan, _blocks(plan, limit), limit)
    limit = limit._replace(half=None)
    return CheckpointWork(plan, _blocks(plan, limit), limit)


def _blocks(plan: CheckpointPlan, limit: Limit) -> dict[int, Blocks]:
    blocks: dict[int, Blocks] = {}
    for change in (change for file in plan.files for change in file.changes):
        if change.plan is not None and change.plan.target.nbytes and id(change.plan) not in blocks:
            blocks[id(change.plan)] = limit.blocks(change, change.plan)
    return blocks


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
        pending += (copies.begin(functools.partial(_copy, part)) for part in _copies(work, streams))
        move_jobs(jobs(), report, pairs=work.pairs)
        if work.plan.scales.are_any:
            pending += (copies.begin(functools.partial(_copy, part)) for part in _copies(work, streams, measured=True))
        wait_for([*pending], report)
    finally:
        copies.stop()


def _jobs(work: CheckpointWork, streams: Sequence[BinaryIO]) -> Iterator[Job]:
    """The blocks of all tensors that move, in the order of the new files; those of measured scales come last."""
    yield from _jobs_of(work, streams, measured=False)
    if work.plan.scales.are_any:
        work.plan.scales.finish()
        yield from _jobs_of(work, streams, measured=True)


def _jobs_of(work: CheckpointWork, streams: Sequence[BinaryIO], *, measured: bool) -> Iterator[Job]:
    for file, stream in zip(work.plan.files, streams):
        for change, offset, nbytes in file.places:
            blocks = work.blocks.get(id(change.plan))
            if blocks is None or change.is_measured != measured:
                continue
            if change.again is not None:
                blocks = work.limit.blocks(change, change.again(work.plan.siblings.values))
            target = _target(str(file.path), stream, offset, nbytes, change.flip.after)
            yield from jobs_of(blocks, _source(change, blocks.plan.source.nbytes), target)


def _source(change: TensorPlan, nbytes: int) -> Elements | Pieces:
    """The bytes of an array in the old files."""
    regions = reversed_parts(segments_of(change.array), change.flip.before)
    segments = [[_file_piece(region) for region in segment] for segment in regions]
    pieces = [piece for segment in segments for piece in segment]
    header = _bytes(pieces[0].name if pieces else "", nbytes)  # an array without elements may become padding
    if len(pieces) == 1 and pieces[0].runs.run_count == 1:
        return Elements(header, pieces[0].runs.offset, pieces[0].stream)
    return Pieces(header, tuple(map(tuple, segments)))


def _file_piece(region: TensorRuns) -> FilePiece:
    """A region of a tensor as a piece of its file."""
    part, runs = region
    name = f"{part.shard.path}: {tensor_text(part.tensor.name)}"
    return FilePiece(part.shard.stream, name, runs._replace(offset=part.shard.begin(part.tensor) + runs.offset))


def _target(name: str, stream: BinaryIO, offset: int, nbytes: int, parts: int) -> Elements | Pieces:
    """The bytes of a tensor in a new file, where so many parts stand in reverse order."""
    header = _bytes(name, nbytes)
    if parts == 1:
        return Elements(header, offset, stream)
    size = nbytes // parts
    return Pieces(header, ((FilePiece(stream, name, Runs(offset + nbytes - size, size, ((parts, -size),))),),))


def _bytes(name: str, nbytes: int) -> Header:
    return Header(name, np.dtype(np.uint8), (nbytes,), False, "its shape")


def _copies(work: CheckpointWork, streams: Sequence[BinaryIO], *, measured: bool = False) -> Iterator[StoredCopy]:
    """The bytes that stay as they are, in the order of the new files, some at a time.

    measured   those of measured scales, and no others
    """
    for copy in _joined_copies(work, streams, measured=measured):
        for begin in range(0, copy.nbytes, CHUNK):
            size = min(CHUNK, copy.nbytes - begin)
            yield copy._replace(begin=copy.begin + begin, offset=copy.offset + begin, nbytes=size)


def _joined_copies(work: CheckpointWork, streams: Sequence[BinaryIO], *, measured: bool) -> Iterator[StoredCopy]:
    """The same, where neighbours in both files are one copy."""
    last: StoredCopy | None = None
    for copy in _all_copies(work, streams, measured=measured):
        ends = last and (last.source, last.begin + last.nbytes, last.target, last.offset + last.nbytes)
        if last is not None and ends == (copy.source, copy.begin, copy.target, copy.offset):
            last = last._replace(nbytes=last.nbytes + copy.nbytes)
            continue
        if last is not None:
            yield last
        last = copy
    if last is not None:
        yield last


def _all_copies(work: CheckpointWork, streams: Sequence[BinaryIO], *, measured: bool) -> Iterator[StoredCopy]:
    for file, stream in zip(work.plan.files, streams):
        for change, offset, nbytes in file.places:
            if id(change.plan) in work.blocks or not nbytes or change.is_measured != measured:
                continue
            for part, runs in one_by_one(segments_of(change.array)):
                names = part.tensor.name, (str(part.shard.path), str(file.path))
                begin = part.shard.begin(part.tensor) + runs.offset
                yield StoredCopy(part.shard.stream, begin, stream, offset, runs.length, *names)
                offset += runs.length


def _copy(part: StoredCopy) -> int:
    """Copy some bytes.  Returns how many were read and written, which is what progress counts."""
    done = 0
    while done < part.nbytes:
        count = _copy_by_system(part, done)
        if count is None:
            count = _copy_through_memory(part, done)
        if not count:
            raise became_shorter(part.source, part.files[0], f"and {tensor_text(part.tensor)} is not whole")
        done += count
    return 2 * done


def _copy_by_system(part: StoredCopy, done: int) -> int | None:
    """Let the system copy, which may share the blocks of a disk; None where it cannot."""
    if not hasattr(os, "copy_file_range"):
        return None
    source, target = part.source.fileno(), part.target.fileno()
    try:
        return os.copy_file_range(source, target, part.nbytes - done, part.begin + done, part.offset + done)
    except OSError as error:
        if error.errno in CANNOT:
            return None
        raise OSError(error.errno, error.strerror, part.files[1]) from error


def _copy_through_memory(part: StoredCopy, done: int) -> int:
    memory = memoryview(bytearray(part.nbytes - done))
    count = read_at(part.source, memory, part.begin + done, part.files[0])
    write_at(part.target, memory[:count], part.offset + done, part.files[1])
    return count
