"""`relayout_checkpoint`: a model file by rules, from Python; `relayout_file` calls it for safetensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, SupportsIndex

from gpulayout.files.checkpoints.changes import TensorPlan
from gpulayout.files.checkpoints.kinds import assumptions
from gpulayout.files.checkpoints.maps import rule_sets
from gpulayout.files.checkpoints.moving import move_checkpoint, work_within
from gpulayout.files.checkpoints.opening import open_checkpoint
from gpulayout.files.checkpoints.planning import plan_relayout
from gpulayout.files.results import CheckpointRelayout, TensorReport
from gpulayout.layout.checks import value_text
from gpulayout.layout.element_type import ElementType


def relayout_checkpoint(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    tensors: Any,
    rename: Iterable[tuple[str, str]] | Mapping[str, str],
    assume: Iterable[tuple[str, str]] | Mapping[str, str],
    allow_unmatched: bool,
    dtype: Any,
    overwrite: bool,
    max_bytes: SupportsIndex | str | None,
    progress: Callable[[int, int], None],
) -> CheckpointRelayout:
    """Relayout a safetensors file, or the shards of an index, as `relayout_file` says."""
    source, target = Path(os.path.abspath(file)), Path(os.path.abspath(out))
    sets = rule_sets(tensors, _pairs("rename", rename, "texts"))
    assumed = assumptions(_pairs("assume", assume, "kinds"), sets)
    element_type = None if dtype is None else ElementType.of(dtype)
    with open_checkpoint(source) as opened:
        plan = plan_relayout(
            opened,
            target,
            sets,
            assumed=assumed,
            dtype=element_type,
            allow_unmatched=allow_unmatched,
            overwrite=overwrite,
        )
        work = work_within(plan, max_bytes)
        seconds = move_checkpoint(plan, work, progress, overwrite=overwrite)
    return CheckpointRelayout(tuple(map(tensor_report, plan.changes)), work.bytes_read, work.bytes_written, seconds)


def _pairs(name: str, value: Any, what: str) -> list[tuple[str, str]]:
    """The pairs of a mapping, or of a list of pairs; TypeError for other values."""
    pairs = list(value.items() if isinstance(value, Mapping) else value) if isinstance(value, Iterable) else [value]
    if isinstance(value, str) or not all(isinstance(each, (tuple, list)) and len(each) == 2 for each in pairs):
        raise TypeError(f"{name} is {value_text(value)}: it takes a mapping from regular expressions to {what}")
    return [(regex, text) for regex, text in pairs]


def tensor_report(change: TensorPlan) -> TensorReport:
    """A change as users see it."""
    return TensorReport(
        change.tensor.name,
        change.name,
        change.before,
        change.after,
        change.plan is not None,
        *(change.kind or (None, None)),
    )
