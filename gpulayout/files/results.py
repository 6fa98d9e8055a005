"""What `relayout_file` gives back: of an array, and of models with a report about every tensor."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gpulayout.files.array_move import FilePlan
from gpulayout.files.checkpoints.changes import TensorPlan
from gpulayout.files.checkpoints.model_move import CheckpointWork
from gpulayout.files.route import Route
from gpulayout.layout.shape import Shape


class FileRelayout(NamedTuple):
    """What `relayout_file` has done, or with ``dry_run=True`` would do.

    Attributes
    ----------
    source, target : Shape
        The shapes of the two files.
    dimensions : tuple of int
        Those in the header of the new file: of the N-d array, or of the 1-D buffer.
    blocks : tuple of int
        The number of blocks in each pass: one number, or two if there was a scratch file.
    bytes_read, bytes_written : int
        Bytes that were read from and written to files, the scratch file included.
    seconds : float or None
        With the time to write the new file to the disk; None after ``dry_run=True``, which wrote nothing.
    """

    source: Shape
    target: Shape
    dimensions: tuple[int, ...]
    blocks: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    seconds: float | None


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
    kind : str or None
        What the tensor was taken as, where layers of several kinds have such weights: ``"conv"``,
        ``"conv_transpose"``, ``"linear"``, ``"embedding"`` or ``"attention"``.
    known_by : str or None
        What said so: ``"assume"``, the argument; ``"bias"``, its length; ``"name"``, the layer's; ``"rule"``, which is
        for no other kind; or ``"guess"``.
    parts : tuple of str
        The names of all old tensors that it is made of, the first of which is `name`.
    file : Path or None
        The new file that has it; None if it was left out.
    measured : bool
        True for scales that are measured from another tensor; the old file has no such tensor.
    """

    name: str
    new_name: str | None
    before: str
    after: str
    moved: bool
    kind: str | None
    known_by: str | None
    parts: tuple[str, ...]
    file: Path | None
    measured: bool


class CheckpointRelayout(NamedTuple):
    """What `relayout_file` has done with models, or with ``dry_run=True`` would do.

    Attributes
    ----------
    tensors : tuple of TensorReport
        All new tensors and those that are left out, in the order of the old files; stacks last.  Where a recipe makes
        a file for each rank, those of the first one, then those of the others.
    bytes_read, bytes_written : int
        Bytes of elements.
    seconds : float or None
        With the time to write the new file to the disk; None after ``dry_run=True``, which wrote nothing.
    other_files : tuple of Path
        The config and the other files of a new folder.
    remarks : tuple of str
        What a recipe says of its result: which checks were left out, who reads it, and what to know.
    """

    tensors: tuple[TensorReport, ...]
    bytes_read: int
    bytes_written: int
    seconds: float | None
    other_files: tuple[Path, ...]
    remarks: tuple[str, ...]


def file_relayout(plan: FilePlan, route: Route, seconds: float | None) -> FileRelayout:
    """The move of an array as users see it."""
    shapes, blocks = (plan.relayout.source, plan.relayout.target), tuple(map(len, route.passes))
    return FileRelayout(*shapes, plan.header.dimensions, blocks, route.bytes_read, route.bytes_written, seconds)


def checkpoint_relayout(work: CheckpointWork, seconds: float | None) -> CheckpointRelayout:
    """The move of a model as users see it."""
    files = {id(change): file.path for file in work.plan.files for change in file.changes}
    tensors = tuple(tensor_report(change, files.get(id(change))) for change in work.plan.changes)
    others = tuple(each.path for each in work.plan.others)
    remarks = (*work.plan.warnings, *work.plan.remarks)
    return CheckpointRelayout(tensors, work.bytes_read, work.bytes_written, seconds, others, remarks)


def tensor_report(change: TensorPlan, file: Path | None) -> TensorReport:
    """A change as users see it, with the new file that it goes to."""
    return TensorReport(
        change.parts[0],
        change.name,
        str(change.before),
        str(change.stored),
        change.plan is not None,
        None if change.kind is None else change.kind.kind,
        None if change.kind is None else change.kind.known_by,
        change.parts,
        file,
        change.is_measured,
    )
