"""`relayout_checkpoint`: a model file by rules, from Python; `relayout_file` calls it for safetensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

from gpulayout.files.checkpoints.changes import TensorPlan
from gpulayout.files.checkpoints.maps import rule_sets
from gpulayout.files.checkpoints.moving import move_checkpoint, work_within
from gpulayout.files.checkpoints.opening import open_checkpoint
from gpulayout.files.checkpoints.planning import plan_relayout
from gpulayout.layout.element_type import ElementType


class TensorReport(NamedTuple):
    """What became of one tensor.

    Attributes
    ----------
    name : str
        In the old file.
    new_name : str or None
        In the new file; None if it was left out.
    before, after : str
        Type and shape in the two headers, such as ``F32[2,3]``; or, for bytes with a note, the text of their shape.
    moved : bool
        False for bytes that are the same.
    """

    name: str
    new_name: str | None
    before: str
    after: str
    moved: bool


class CheckpointRelayout(NamedTuple):
    """What `relayout_file` has done with a model file.

    Attributes
    ----------
    tensors : tuple of TensorReport
        All tensors, in the order of the old file.
    bytes_read, bytes_written : int
        Bytes of elements.
    seconds : float
        With the time to write the new file to the disk.
    """

    tensors: tuple[TensorReport, ...]
    bytes_read: int
    bytes_written: int
    seconds: float


def relayout_checkpoint(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    tensors: Any,
    rename: Iterable[tuple[str, str]] | Mapping[str, str],
    allow_unmatched: bool,
    dtype: Any,
    overwrite: bool,
    max_bytes: SupportsIndex | str | None,
    progress: Callable[[int, int], None],
) -> CheckpointRelayout:
    """Relayout a safetensors file, or the shards of an index, as `relayout_file` says."""
    source, target = Path(os.path.abspath(file)), Path(os.path.abspath(out))
    pairs = rename.items() if isinstance(rename, Mapping) else rename
    sets = rule_sets(tensors, pairs)
    element_type = None if dtype is None else ElementType.of(dtype)
    with open_checkpoint(source) as opened:
        plan = plan_relayout(
            opened, target, sets, dtype=element_type, allow_unmatched=allow_unmatched, overwrite=overwrite
        )
        work = work_within(plan, max_bytes)
        seconds = move_checkpoint(plan, work, progress, overwrite=overwrite)
    return CheckpointRelayout(tuple(map(tensor_report, plan.changes)), work.bytes_read, work.bytes_written, seconds)


def tensor_report(change: TensorPlan) -> TensorReport:
    """A change as users see it."""
    return TensorReport(change.tensor.name, change.name, change.before, change.after, change.plan is not None)
