"""What becomes of all tensors of a checkpoint, with every check, before a byte is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpulayout.files.checkpoints import config
from gpulayout.files.checkpoints.assembly import parts_of
from gpulayout.files.checkpoints.beside import check_beside
from gpulayout.files.checkpoints.changes import Changes, TensorPlan, restored, unchanged
from gpulayout.files.checkpoints.choosing import (
    Chosen,
    about_unmatched,
    check_formats,
    check_renamings,
    measuring,
    rules_of,
    unused,
)
from gpulayout.files.checkpoints.constants import Constant
from gpulayout.files.checkpoints.drafts import Drafting
from gpulayout.files.checkpoints.expected import check_expected
from gpulayout.files.checkpoints.header import (
    StoredTensor,
    arranged,
    header_text,
    metadata_with,
    tensor_text,
    why_no_name,
)
from gpulayout.files.checkpoints.kinds import Assumptions, Kind
from gpulayout.files.checkpoints.measured_tensors import Scales, with_measured
from gpulayout.files.checkpoints.model import Model, check_order, model_of
from gpulayout.files.checkpoints.model_folders import (
    ENDING,
    INDEX_ENDING,
    OtherFile,
    check_new_folder,
    copy_of,
    not_copied,
    other_files,
)
from gpulayout.files.checkpoints.opening import (
    Checkpoint,
    Shard,
    Stage,
    is_checkpoint,
    is_index,
    staged,
    untold,
)
from gpulayout.files.checkpoints.rules import Rule, RuleSet, new_names
from gpulayout.files.checkpoints.sibling_values import Siblings
from gpulayout.files.checkpoints.views import noted_shape, view_of
from gpulayout.files.errors import FileError
from gpulayout.files.new_file import check_new_file
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError


@dataclass(frozen=True)
class NewFile:
    """One new file.

    path      of it
    changes   of the tensors that it gets, in their order there
    header    the bytes before the elements
    tensors   what the header says of them, one for each change
    """

    path: Path
    changes: tuple[TensorPlan, ...]
    header: bytes
    tensors: tuple[StoredTensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the new file."""
        return len(self.header) + (self.tensors[-1].end if self.tensors else 0)

    @property
    def places(self) -> Iterator[tuple[TensorPlan, int, int]]:
        """For every change, where the tensor begins in the new file, and its bytes there."""
        for change, new in zip(self.changes, self.tensors):
            yield change, len(self.header) + new.begin, new.nbytes


@dataclass(frozen=True)
class CheckpointPlan:
    """What a relayout of a checkpoint will do.

    changes     of all tensors, in the order of the old file or files; also of those that are left out
    unmatched   the rules that fit no tensor and are allowed not to
    files       the new ones
    index       the text of the new index; None for one file
    siblings    the tensors that are parameters of others
    others      files beside the model, of a whole folder
    not_copied  other files of the old folder, and folders in it, by their names
    remarks     what users are told of the result
    warnings    what they are told also where they want to hear nothing
    scales      those that are measured
    """

    path: Path
    changes: tuple[TensorPlan, ...]
    unmatched: tuple[str, ...]
    files: tuple[NewFile, ...]
    index: bytes | None
    siblings: Siblings
    scales: Scales = field(default_factory=Scales)
    others: tuple[OtherFile, ...] = ()
    not_copied: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_relayout(
    source: Checkpoint,
    path: Path,
    sets: Sequence[RuleSet],
    *,
    assumed: Assumptions,
    dtype: ElementType | None = None,
    allow_unmatched: bool = False,
    overwrite: bool = False,
    stage: Stage = untold,
    constants: Sequence[Constant] = (),
    scales: Scales | None = None,
) -> CheckpointPlan:
    """The relayout of a checkpoint by rules.

    assumed           what the caller knows of the kinds of tensors, and of the format of the file
    dtype             the new type of all tensors of f16, bf16, f32 and f64 whose rule says no other
    allow_unmatched   neither a rule without tensors nor, in a strict map, a tensor without a rule is an error
    constants         new tensors that no old one becomes
    scales            those of other plans that will be one with this
    """
    check_dtype(dtype)
    check_outputs(source, path, overwrite=overwrite)
    check_formats(source, sets, assumed)
    model = model_of(source)
    scales = Scales() if scales is None else scales
    model = with_measured(model, measuring(model, sets, assumed), scales)
    rules = rules_of(source, model, sets, assumed, allow_unmatched=allow_unmatched, stage=stage)
    _check_others(model, {name: rule for name, (rule, _) in rules.items()})
    if any(rule is not None and rule.regroup.along is not None for rule, _ in rules.values()):
        check_order(source.paths)
    siblings, names = Siblings(model, {name: rule for name, (rule, _) in rules.items()}), []

    def rename(name: str) -> str:
        names.append(new_names(name, sets))
        return names[-1][-1]

    plans = _plans(model, rules, Changes(siblings, dtype), rename, stage)
    plans += [plan for each in constants for plan in each.plans(model, rename)]
    left = unused(sets, [rule for rule, _ in rules.values() if rule is not None], model)
    if not allow_unmatched:
        if left:
            raise LayoutError(about_unmatched(source, sets, left))
        check_renamings(source, sets, names)
    metadata = {key: text for each in reversed(sets) for key, text in each.metadata.items()}
    planned = replace(_planned(source, path, plans, left, metadata, siblings, stage), scales=scales)
    _check_numbers(model, {name: rule for name, (rule, _) in rules.items()}, stage)
    return planned


def _plans(
    model: Model,
    rules: Mapping[str, Chosen],
    changes: Changes,
    rename: Callable[[str], str],
    stage: Stage,
) -> list[TensorPlan]:
    """What becomes of all tensors, by the rule of each; the stacks come last."""
    drafting, plans = Drafting(model), []
    for name in staged(rules, "tensors planned", stage):
        rule, kind = rules[name]
        if rule is not None and not rule.stays:
            plans += [
                changes.of_draft(model, each, rename(each.name), rule, kind) for each in drafting.drafts(name, rule)
            ]
            continue
        new_name = name if rule is None else rule.new_name(name)
        plans.append(changes.of_whole(model, name, new_name and rename(new_name), rule, kind))
    plans += [changes.of_draft(model, each, rename(each.name), rule, None) for rule, each in drafting.finished()]
    return plans


def _check_others(model: Model, rules: Mapping[str, Rule | None]) -> None:
    """`LayoutError` for tensors beside which others are missing, or have other sizes than their rule says."""
    for name, rule in rules.items():
        if rule is None or not rule.beside:
            continue
        for part in rule.parts(name) or [name]:
            if (match := rule.match.fullmatch(part)) is not None:
                view = view_of(model.first(part), model.notes.get(part), rule.from_)
                check_beside(model, part, match, rule.beside, view, rule.pattern_for(view.shape.rank))


def _check_numbers(model: Model, rules: Mapping[str, Rule | None], stage: Stage) -> None:
    """`LayoutError` for a tensor of any input with another number than its rule expects.  All else was checked: this
    reads whole tensors."""
    looked = [
        (part, rule, rule.expect)
        for name, rule in rules.items()
        if rule is not None and rule.expect is not None
        for part in rule.parts(name) or [name]
    ]
    for name, rule, expect in staged(looked, "tensors looked at", stage):
        if name in model.measured:
            raise LayoutError(f"{rule.origin}: expect is for tensors of the file, and {tensor_text(name)} is measured")
        for found in model.tensors[name]:
            check_expected(found, view_of(found[1], model.notes.get(name), rule.from_), expect, rule.origin)


def check_dtype(dtype: ElementType | None) -> None:
    """TypeError unless the type is a floating-point one."""
    if dtype is not None and not dtype.is_floating:
        raise TypeError(f"dtype {dtype} for all floating-point tensors is no floating-point type: give it in a rule")


def plan_restore(source: Checkpoint, path: Path, *, overwrite: bool = False, stage: Stage = untold) -> CheckpointPlan:
    """The checkpoint with every tensor that has a note as the array that the note describes."""
    check_outputs(source, path, overwrite=overwrite)
    model, plans = model_of(source), []
    if not model.notes:
        raise FileError(f"{source.name}: no tensor has a note about its layout, so there is nothing to unpack")
    for name in staged(model.tensors, "tensors planned", stage):
        plans.append(unchanged(model, name, name))
        if name in model.notes:
            plans[-1] = replace(plans[-1], change=restored(model.first(name), model.notes[name]))
    return _planned(source, path, plans, (), {}, Siblings(model, {}), stage)


def check_outputs(source: Checkpoint, path: Path, *, overwrite: bool) -> None:
    """`FileError` when the result must not be written where it is asked for."""
    several = len(source.inputs) > 1
    if not is_checkpoint(path) or (is_index(path) and source.index is None):
        what = f"{source.path.name} is one file, and so is the result"
        if source.index is not None:
            what = f"{source.path.name} has shards, and the result has shards or is one file"
        elif several:
            what = "several inputs become one file"
        endings = f"{ENDING} or {INDEX_ENDING}" if source.index is not None else ENDING
        raise FileError(f"{path}: {what}: give it a name that ends in {endings}")
    for shard in source.shards:
        check_new_file(path, shard.path, overwrite=overwrite)
    for each in source.paths:
        check_new_file(path, each, overwrite=overwrite)
    if is_index(path):
        for shard in source.shards:
            check_new_file(path.parent / shard.path.name, shard.path, overwrite=overwrite)


def whole_folder(plan: CheckpointPlan, named: Path, source: Checkpoint, new: Path) -> CheckpointPlan:
    """A plan with the files that a new folder gets beside the model.

    named   the old model as the caller names it: other files than the config come from a folder only
    new     the new folder
    """
    others, old = [*plan.others], source.path.parent
    left: list[str] = []
    if not others:  # the config stays as it is
        names = [name for name in (config.NAME, config.OF_GPTQ, config.OF_AWQ) if os.path.lexists(old / name)]
        others = [copy_of(old / name, new) for name in names]
    if named.is_dir():
        others += other_files(old, new)
        read = {path.name for path in (*source.paths, *(shard.path for shard in source.shards))}
        left = not_copied(old, new, read, others)
    return replace(plan, others=tuple(others), not_copied=tuple(left))


def check_whole_folder(plan: CheckpointPlan, old: Path, new: Path, *, overwrite: bool) -> None:
    """`FileError` when a folder must not become the new one."""
    files = [*(file.path for file in plan.files), *(each.path for each in plan.others)]
    check_new_folder(new, old, files + [plan.path] * (plan.index is not None))
    for path in files:
        check_new_file(path, None, overwrite=overwrite)


# ---- the new files ---------------------------------------------------------------------------------------------------


def _planned(
    source: Checkpoint,
    path: Path,
    plans: Sequence[TensorPlan],
    left: tuple[str, ...],
    metadata: Mapping[str, str],
    siblings: Siblings,
    stage: Stage,
) -> CheckpointPlan:
    """The new files: one, or a shard for each old one, which gets the tensors whose first part is there."""
    _check_names(plans)
    by_file: dict[Path, tuple[list[Shard], list[TensorPlan]]] = {}
    has_shards = is_index(path)
    for shard in source.shards:
        new = path.parent / shard.path.name if has_shards else path
        by_file.setdefault(new, ([], []))[0].append(shard)
    for each in plans:
        shard = next(parts_of(each.array)).shard
        by_file[path.parent / shard.path.name if has_shards else path][1].append(each)
    files = tuple(
        _new_file(new, shards, own, metadata)
        for new, (shards, own) in staged(by_file.items(), "headers made", stage)
        if own or not all(shard.contents.tensors for shard in shards)  # whose tensors went to other shards
    )
    return CheckpointPlan(path, tuple(plans), left, files, _index_text(source, files) if has_shards else None, siblings)


def _check_names(plans: Sequence[TensorPlan]) -> None:
    """`LayoutError` for two tensors with one name, and for the name that the format keeps for itself."""
    olds: dict[str, str] = {}
    for each in plans:
        if each.name is None:
            continue
        old = each.parts[0]
        if problem := why_no_name(each.name):
            raise LayoutError(f"tensor {value_text(old)} cannot be called {ascii(each.name)}: {problem}")
        if each.name in olds:
            two = f"tensors {value_text(olds[each.name])} and {value_text(old)} would both be called"
            if olds[each.name] == old:
                two = f"two pieces of tensor {value_text(old)} would be called"
            raise LayoutError(f"{two} {value_text(each.name)}")
        olds[each.name] = old


def _new_file(path: Path, shards: Sequence[Shard], plans: Sequence[TensorPlan], more: Mapping[str, str]) -> NewFile:
    by_name = {each.name: each for each in plans if each.name is not None}
    tensors = arranged((name, each.stored.dtype, each.stored.dimensions) for name, each in by_name.items())
    notes = {each.name: note for each in tensors if (note := by_name[each.name].stored.note) is not None}
    for each in tensors:  # a wrong note must fail here, not when the new file is read
        if each.name in notes:
            noted_shape(each, notes[each.name])
    olds = [shard.contents.metadata for shard in shards if shard.contents.metadata is not None]
    old = {key: text for each in reversed(olds) for key, text in each.items()} if olds else None
    sides = {name: side for name in notes if (side := by_name[name].plain) is not None}
    header = header_text(metadata_with(old, more, notes, sides), tensors)
    return NewFile(path, tuple(by_name[each.name] for each in tensors), header, tensors)


def _index_text(source: Checkpoint, files: Sequence[NewFile]) -> bytes:
    """The new index, with the total size of its tensors, as Hugging Face's libraries write it."""
    old: dict[str, Any] = dict(source.index or {})
    total = sum(each.nbytes for file in files for each in file.tensors)
    names = {each.name: file.path.name for file in files for each in file.tensors}
    new = {**old, "metadata": {**old.get("metadata", {}), "total_size": total}, "weight_map": names}
    return (json.dumps(new, indent=2, sort_keys=True) + "\n").encode()


# ---- what users are told ---------------------------------------------------------------------------------------------


def summary(changes: Sequence[TensorPlan]) -> str:
    """How many tensors are moved, copied and left out.

    >>> summary([])
    '0 tensors'
    """
    kept = [change for change in changes if change.name is not None]
    measured = sum(change.is_measured for change in kept)
    moved = sum(change.plan is not None and not change.is_measured for change in kept)
    dropped, copied = len(changes) - len(kept), len(kept) - moved - measured
    counts = ((moved, "moved"), (measured, "measured"), (copied, "copied"), (dropped, "left out"))
    parts = [f"{number} {what}" for number, what in counts if number]
    return f"{counted(len(changes), 'tensor')}{': ' if parts else ''}{', '.join(parts)}"


def taken_as(changes: Sequence[TensorPlan]) -> list[str]:
    """What tensors were taken as where the caller did not say: a line for each kind and each reason."""
    names_of: dict[Kind, list[str]] = {}
    for change in changes:
        if change.kind is not None and change.kind.known_by != "assume":
            names_of.setdefault(change.kind, []).append(change.parts[0])
    return [
        f"{counted(len(names), 'tensor')} taken as {kind.kind} ({kind.known_by}): "
        f"{value_text(clipped(names[0], 80))}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
        for kind, names in names_of.items()
    ]


def copied_siblings(plan: CheckpointPlan) -> list[str]:
    """That numbers of other tensors are in the new file still, where they may be used once more."""
    used = plan.siblings.read - {*plan.siblings.model.measured}
    names = [each.parts[0] for each in plan.changes if each.name is not None and {*each.parts} & used]
    if not names:
        return []
    more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
    return [
        f"used by arithmetic, and copied: {value_text(clipped(names[0], 80))}{more} in the new file too; a rule with "
        "drop leaves such out"
    ]
