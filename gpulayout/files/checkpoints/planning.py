"""What becomes of all tensors of a checkpoint, with every check, before a byte is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpulayout.files.checkpoints import kinds
from gpulayout.files.checkpoints.changes import (
    TensorPlan,
    changed,
    dimensions_of,
    metadata_with,
    noted_shape,
    notes_of,
    restored,
)
from gpulayout.files.checkpoints.header import METADATA, StoredTensor, arranged, header_text, tensor_text
from gpulayout.files.checkpoints.kinds import FORMATS, Assumptions, Kind, Unclear, assumption_text
from gpulayout.files.checkpoints.maps import readers
from gpulayout.files.checkpoints.opening import (
    ENDING,
    INDEX_ENDING,
    Checkpoint,
    Shard,
    Stage,
    is_checkpoint,
    is_index,
    staged,
    untold,
)
from gpulayout.files.checkpoints.rules import Rule, RuleSet, new_names
from gpulayout.files.errors import FileError
from gpulayout.files.new_file import check_new_file
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError

Chosen = tuple[Rule | None, Kind | None]
ByShard = Sequence[tuple[Shard, list[TensorPlan]]]


@dataclass(frozen=True)
class ShardPlan:
    """One new file.

    shard     the old one
    path      of the new one
    changes   of the tensors that it gets, in their order there
    header    the bytes before the elements
    tensors   what the header says of them, one for each change
    """

    shard: Shard
    path: Path
    changes: tuple[TensorPlan, ...]
    header: bytes
    tensors: tuple[StoredTensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the new file."""
        return len(self.header) + (self.tensors[-1].end if self.tensors else 0)

    @property
    def offsets(self) -> Iterator[tuple[int, int, int]]:
        """For every change, where the tensor begins in the old file and in the new one, and its bytes there."""
        for change, new in zip(self.changes, self.tensors):
            yield self.shard.contents.start + change.tensor.begin, len(self.header) + new.begin, new.nbytes


@dataclass(frozen=True)
class CheckpointPlan:
    """What a relayout of a checkpoint will do.

    changes     of all tensors, in the order of the old file or files; also of those that are left out
    unmatched   the rules that fit no tensor and are allowed not to
    index       the text of the new index; None for one file
    """

    path: Path
    changes: tuple[TensorPlan, ...]
    unmatched: tuple[str, ...]
    shards: tuple[ShardPlan, ...]
    index: bytes | None


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
) -> CheckpointPlan:
    """The relayout of a checkpoint by rules.

    assumed           what the caller knows of the kinds of tensors, and of the format of the file
    dtype             the new type of all tensors of f16, bf16, f32 and f64 whose rule says no other
    allow_unmatched   neither a rule without tensors nor, in a strict map, a tensor without a rule is an error
    """
    check_dtype(dtype)
    check_outputs(source, path, overwrite=overwrite)
    check_formats(source, sets, assumed)
    notes = notes_in(source)
    rules = rules_of(source, notes, sets, assumed, allow_unmatched=allow_unmatched, stage=stage)
    names = {name: new_names(name, rule, sets) for name, (rule, _) in rules.items()}
    # Models have thousands of tensors of a few shapes, and a plan takes longer and more memory than all else that is
    # known of a tensor.  So tensors that are alike share one.
    shared: dict[tuple[object, ...], TensorPlan] = {}

    def change_of(tensor: StoredTensor) -> TensorPlan:
        (rule, kind), note = rules[tensor.name], notes.get(tensor.name)
        alike = (tensor.dtype, tensor.dimensions, note, id(rule))
        if alike not in shared:
            shared[alike] = changed(tensor, note, rule, dtype)
        name = None if rule is not None and rule.drop else names[tensor.name][-1]
        return replace(shared[alike], tensor=tensor, name=name, kind=kind)

    by_shard = _by_shard(source, change_of, stage)
    used = {id(rule) for rule, _ in rules.values()}
    unmatched = tuple(rule.origin for each in sets for rule in each.rules if id(rule) not in used and not rule.optional)
    if unmatched and not allow_unmatched:
        raise LayoutError(_about_unmatched(source, sets, unmatched))
    if not allow_unmatched:
        kept = [names[name] for name, (rule, _) in rules.items() if rule is None or not rule.drop]
        _check_renamings(source, sets, kept)
    metadata = {key: text for each in reversed(sets) for key, text in each.metadata.items()}
    return _planned(source, path, by_shard, unmatched, metadata, stage)


def check_dtype(dtype: ElementType | None) -> None:
    """TypeError unless the type is a floating-point one."""
    if dtype is not None and not dtype.is_floating:
        raise TypeError(f"dtype {dtype} for all floating-point tensors is no floating-point type: give it in a rule")


def plan_restore(source: Checkpoint, path: Path, *, overwrite: bool = False, stage: Stage = untold) -> CheckpointPlan:
    """The checkpoint with every tensor that has a note as the array that the note describes."""
    check_outputs(source, path, overwrite=overwrite)
    notes = notes_in(source)
    by_shard = _by_shard(source, lambda tensor: restored(tensor, notes.get(tensor.name)), stage)
    if not notes:
        raise FileError(f"{source.path}: no tensor has a note about its layout, so there is nothing to unpack")
    return _planned(source, path, by_shard, (), {}, stage)


def _by_shard(source: Checkpoint, change_of: Callable[[StoredTensor], TensorPlan], stage: Stage) -> ByShard:
    shards = staged(source.shards, "files planned", stage)
    return [(shard, [*map(change_of, shard.contents.tensors)]) for shard in shards]


def check_outputs(source: Checkpoint, path: Path, *, overwrite: bool) -> None:
    """`FileError` when the result must not be written where it is asked for."""
    if not is_checkpoint(path) or is_index(path) == (source.index is None):
        what, ending = ("one file", ENDING) if source.index is None else ("shards with an index", INDEX_ENDING)
        raise FileError(
            f"{path}: {source.path.name} is {what}, and so is the result: give it a name that ends in {ending}"
        )
    check_new_file(path, source.path, overwrite=overwrite)
    if source.index is not None:
        for shard in source.shards:
            check_new_file(path.parent / shard.path.name, shard.path, overwrite=overwrite)


# ---- the rule of each tensor -----------------------------------------------------------------------------------------


def check_formats(source: Checkpoint, sets: Sequence[RuleSet], assumed: Assumptions) -> None:
    """`LayoutError` for a map that reads another format than the file says it has."""
    for shard in source.shards:
        written = (shard.contents.metadata or {}).get("format", "")
        said = assumed.format or written.lower()
        for each in sets:
            if said not in FORMATS or not each.reads or said in each.reads:
                continue
            says = f"its metadata says format {written}"
            if assumed.format:
                says = f"{assumption_text('format', assumed.format)} says format {assumed.format}"
            insist = assumption_text("format", each.reads[0])
            raise LayoutError(
                f"{shard.path}: {says}, which is {FORMATS[said]}'s, but {each.origin} reads "
                f"{' or '.join(each.reads)}.  {readers().get(said, 'No ready map')} reads {said}.  If "
                f"{'that' if assumed.format else 'the metadata'} is wrong, write {insist}"
            )


def notes_in(source: Checkpoint) -> dict[str, str]:
    """The notes about all tensors, each from the file that has the tensor."""
    return {
        each.name: notes[each.name]
        for shard in source.shards
        if (notes := notes_of(shard.contents.metadata))
        for each in shard.contents.tensors
        if each.name in notes
    }


def rules_of(
    source: Checkpoint,
    notes: Mapping[str, str],
    sets: Sequence[RuleSet],
    assumed: Assumptions,
    *,
    allow_unmatched: bool,
    stage: Stage,
) -> dict[str, Chosen]:
    """The rule of every tensor by name, None for those without one, and the kind that it was chosen for.

    `LayoutError` where a strict map has no rule, where a kind is unclear, and for an assumption that decides nothing.
    """
    tensors = [each for shard in source.shards for each in shard.contents.tensors]
    dimensions = {each.name: dimensions_of(each, notes.get(each.name)) for each in tensors}
    strict = next((each.origin for each in sets if each.strict), "")
    by_name: dict[str, Chosen] = {}
    unclear: dict[str, list[Unclear]] = {}
    for tensor in staged(tensors, "tensors matched with rules", stage):
        choice, origin = _chosen_from(sets, tensor.name, dimensions, assumed)
        if isinstance(choice, Unclear):
            unclear.setdefault(origin, []).append(choice)
            continue
        by_name[tensor.name] = choice
        if choice[0] is None and strict and not allow_unmatched:
            one, who = kinds.only(tensor.name), f"{tensor_text(tensor.name)}, {tensor}"
            raise LayoutError(
                f"{strict} has no rule for {who}: add one of your own, such as '{one}=drop', or '{one}=keep'"
            )
    for origin, some in unclear.items():
        raise LayoutError(kinds.unclear_text(some, origin))
    if not allow_unmatched:
        kinds.check_all_decide(assumed, {name: kind for name, (_, kind) in by_name.items()}, dimensions, source.path)
    return by_name


def _chosen_from(
    sets: Sequence[RuleSet], name: str, dimensions: Mapping[str, tuple[int, ...]], assumed: Assumptions
) -> tuple[Chosen | Unclear, str]:
    """What is chosen from the first set with a rule for a tensor, and what messages call that set.

    `LayoutError` for a rule that only changes elements or the name, before one that would move the tensor too.
    """
    for number, each in enumerate(sets):
        rules = each.rules_for(name, len(dimensions[name]))
        choice = kinds.chosen(name, rules, dimensions, assumed)
        if isinstance(choice, Unclear):
            return choice, each.origin or rules[0].origin
        rule = choice[0]
        if rule is not None and not (rule.to or rule.keep or rule.drop):
            hidden, origin = _chosen_from(sets[number + 1 :], name, dimensions, assumed)
            if isinstance(hidden, Unclear):
                return hidden, origin
            if hidden[0] is not None and hidden[0].to:
                raise LayoutError(_about_order(rule, hidden[0], name, len(dimensions[name])))
        if rule is not None:
            return choice, ""
    return (None, None), ""


def _about_order(rule: Rule, other: Rule, name: str, rank: int) -> str:
    """What to write where a rule does not say in which order the elements of a tensor come."""
    moved, still = other.pattern_for(rank) or str(other.to[0]), "C"
    if "->" in moved:
        before = moved.partition("->")[0].strip()
        flip = " ".join(axis for axis in other.flip if axis in re.findall(r"\w+", before))
        moved, still = f"{moved}; flip={flip}" if flip else moved, f"{before} -> {before}"
    which = f"kind={other.kind}" if other.kind else f"rank={rank}"
    rest = "".join(f"; {each}" for each in (which, *rule.other_parts))
    match = other.match.fullmatch(name)
    named = ""
    if rule.name is None and other.name is not None and match:
        named = (
            f".  It also gives the name {value_text(clipped(other.name.expand(match), 80))}; yours needs a name= too"
        )
    return (
        f"{tensor_text(name)}: {rule.origin} does not say in which order the elements come, and "
        f"{other.origin}, which stands behind it, would move them: write '{moved}{rest}' to do both, or "
        f"'{still}{rest}' to leave their order{named}"
    )


def _about_unmatched(source: Checkpoint, sets: Sequence[RuleSet], unmatched: Sequence[str]) -> str:
    """What is wrong with the first rule that fits no tensor, and what it may have meant."""
    rule = next(rule for each in sets for rule in each.rules if rule.origin == unmatched[0])
    names = [each.name for shard in source.shards for each in shard.contents.tensors]
    inside = [name for name in names if rule.match.search(name)]
    if any(rule.match.fullmatch(name) for name in names):
        hint = "tensors of these names have another rank, belong to a rule before, or were taken as another kind"
    elif inside:
        hint = f"it fits a part of {value_text(clipped(inside[0], 80))}, but must fit the whole name: begin with .*"
    else:
        hint = f"the first tensor is called {value_text(clipped(names[0], 80))}" if names else "there are no tensors"
    more = f" (and {len(unmatched) - 1} more)" if len(unmatched) > 1 else ""
    return f"{unmatched[0]} fits no tensor of {source.path}{more}: {hint}"


def _check_renamings(source: Checkpoint, sets: Sequence[RuleSet], names: Sequence[Sequence[str]]) -> None:
    """`LayoutError` for a renaming of the caller's that changes no name; those of maps may be for other files.

    names   of each tensor, before the first renaming and after each one
    """
    own = next((each.rename for each in sets if not each.origin), ())  # the caller's set comes before the maps
    for number, (match, _) in enumerate(own):
        if any(each[number] != each[number + 1] for each in names):
            continue
        before = [each[number] for each in names]
        hint = f": the first tensor is then called {value_text(clipped(before[0], 80))}" if before else ""
        if any(map(match.search, before)):
            hint = ": its text is what it finds"
        raise LayoutError(f"rename of {value_text(clipped(match.pattern, 80))} changes no name of {source.path}{hint}")


# ---- the new files ---------------------------------------------------------------------------------------------------


def _planned(
    source: Checkpoint,
    path: Path,
    by_shard: ByShard,
    unmatched: tuple[str, ...],
    metadata: Mapping[str, str],
    stage: Stage,
) -> CheckpointPlan:
    changes = [change for _, each in by_shard for change in each]
    _check_names(changes)
    one = source.index is None
    shards = tuple(
        _shard_plan(shard, path if one else path.parent / shard.path.name, each, metadata)
        for shard, each in staged(by_shard, "headers made", stage)
    )
    return CheckpointPlan(path, tuple(changes), unmatched, shards, None if one else _index_text(source, shards))


def _check_names(changes: Sequence[TensorPlan]) -> None:
    """`LayoutError` for two tensors with one name, and for the name that the format keeps for itself."""
    olds: dict[str, str] = {}
    for change in changes:
        if change.name is None:
            continue
        try:
            change.name.encode()
        except UnicodeEncodeError:
            who = f"tensor {value_text(change.tensor.name)} cannot be called {ascii(change.name)}"
            raise LayoutError(f"{who}: it has half a character") from None
        if change.name == METADATA:
            raise LayoutError(f"tensor {value_text(change.tensor.name)} cannot be called {METADATA}")
        if change.name in olds:
            raise LayoutError(
                f"tensors {value_text(olds[change.name])} and {value_text(change.tensor.name)} would both be called "
                f"{value_text(change.name)}"
            )
        olds[change.name] = change.tensor.name


def _shard_plan(shard: Shard, path: Path, changes: Sequence[TensorPlan], metadata: Mapping[str, str]) -> ShardPlan:
    by_name = {change.name: change for change in changes if change.name is not None}
    tensors = arranged((name, each.stored.dtype, each.stored.dimensions) for name, each in by_name.items())
    notes = {each.name: note for each in tensors if (note := by_name[each.name].stored.note) is not None}
    for each in tensors:  # a wrong note must fail here, not when the new file is read
        if each.name in notes:
            noted_shape(each, notes[each.name])
    header = header_text(metadata_with(shard.contents.metadata, metadata, notes), tensors)
    return ShardPlan(shard, path, tuple(by_name[each.name] for each in tensors), header, tensors)


def _index_text(source: Checkpoint, shards: Sequence[ShardPlan]) -> bytes:
    """The new index, with the total size of its tensors, as Hugging Face's libraries write it."""
    old: dict[str, Any] = dict(source.index or {})
    total = sum(each.nbytes for shard in shards for each in shard.tensors)
    files = {each.name: shard.path.name for shard in shards for each in shard.tensors}
    new = {**old, "metadata": {**old.get("metadata", {}), "total_size": total}, "weight_map": files}
    return (json.dumps(new, indent=2, sort_keys=True) + "\n").encode()


# ---- what users are told ---------------------------------------------------------------------------------------------


def summary(changes: Sequence[TensorPlan]) -> str:
    """How many tensors are moved, copied and left out.

    >>> summary([])
    '0 tensors'
    """
    moved = sum(change.plan is not None for change in changes)
    dropped = sum(change.name is None for change in changes)
    copied = len(changes) - moved - dropped
    parts = [
        f"{number} {what}" for number, what in ((moved, "moved"), (copied, "copied"), (dropped, "left out")) if number
    ]
    return f"{counted(len(changes), 'tensor')}{': ' if parts else ''}{', '.join(parts)}"


def taken_as(changes: Sequence[TensorPlan]) -> list[str]:
    """What tensors were taken as where the caller did not say: a line for each kind and each reason."""
    names_of: dict[Kind, list[str]] = {}
    for change in changes:
        if change.kind is not None and change.kind.known_by != "assume":
            names_of.setdefault(change.kind, []).append(change.tensor.name)
    return [
        f"{counted(len(names), 'tensor')} taken as {kind.kind} ({kind.known_by}): "
        f"{value_text(clipped(names[0], 80))}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
        for kind, names in names_of.items()
    ]
