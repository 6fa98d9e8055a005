"""The move of models as a caller asks for it: from Python or from the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

from gpulayout.files.checkpoints.moving import CheckpointWork, move_checkpoint, work_within
from gpulayout.files.checkpoints.opening import Stage, check_is_new_checkpoint, open_checkpoint, untold
from gpulayout.files.checkpoints.planning import CheckpointPlan
from gpulayout.files.engine import Progress
from gpulayout.files.errors import Note, warn

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
    """Which models become which one, and what that may take.

    sources     files and indices
    max_bytes   as text or a number; None for a part of what is free
    """

    sources: Sequence[Path]
    target: Path
    max_bytes: SupportsIndex | str | None = None
    overwrite: bool = False

    @contextlib.contextmanager
    def planned(self, planner: Callable[..., CheckpointPlan], stage: Stage = untold) -> Iterator[CheckpointWork]:
        """What will be done, after every check and with the sources open inside the `with`.

        planner   `plan_restore`, or `plan_relayout` with what a caller says
        """
        with open_checkpoint(self.sources, stage) as checkpoint:
            check_is_new_checkpoint(self.target, self.sources[0])
            plan = planner(checkpoint, self.target, overwrite=self.overwrite, stage=stage)
            yield work_within(plan, self.max_bytes)

    def run(self, work: CheckpointWork, progress: Progress, note: Note = warn) -> float:
        """Write the new file or files as planned.  Returns seconds, with the time to write them to the disk."""
        return move_checkpoint(work, progress, overwrite=self.overwrite, note=note)
