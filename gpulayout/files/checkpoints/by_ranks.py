r"""A file for each rank, of one model or of files that were cut for another number of ranks.

    gpulayout relayout 'old/rank${rank}.safetensors' 'new/rank${rank}.safetensors' --ranks 4:2 \
        --tensor '.*q_proj\.weight=along=0; shard=${rank}/${ranks}'

The rules of each new file are those of the caller with its number in the place of ${rank}.  What it needs is read from
the old files, so no whole model is ever made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulayout.files.checkpoints.maps import rule_sets
from gpulayout.files.checkpoints.measured_tensors import Scales
from gpulayout.files.checkpoints.opening import Checkpoint
from gpulayout.files.checkpoints.planning import CheckpointPlan, plan_relayout
from gpulayout.files.checkpoints.rank_files import check_no_other_ranks, rank_names
from gpulayout.files.checkpoints.recipe_values import RecipeValues, UnknownName
from gpulayout.files.checkpoints.rules import RuleSet
from gpulayout.layout.checks import counted


def sets_of_ranks(tensors: Any, rename: Iterable[tuple[str, str]], ranks: int) -> list[tuple[RuleSet, ...]]:
    """The sets of rules of each new file, as `rule_sets` reads them."""
    pairs = [*rename]
    return [rule_sets(tensors, pairs, _values(rank, ranks)) for rank in range(ranks)]


def _values(rank: int, ranks: int) -> RecipeValues:
    def unknown(name: str) -> Any:
        raise UnknownName(name)

    def missing(name: str) -> str:
        return f"${{{name}}} has no value: there are ${{rank}}, the number of a new file, and ${{ranks}}"

    return RecipeValues({"rank": rank, "ranks": ranks}, {}, unknown, missing)


def plan_by_ranks(source: Checkpoint, path: Path, sets: Sequence[Sequence[RuleSet]], **options: Any) -> CheckpointPlan:
    """The relayout of a checkpoint to a file for each rank.

    path      of the new files, with ${rank} in its name, unless there is one
    sets      the rules of each
    options   of `plan_relayout`
    """
    ranks, scales = len(sets), Scales()
    check_no_other_ranks(path, ranks)
    plans = [
        plan_relayout(source, path.with_name(name), with_all_ruled(source, own), scales=scales, **options)
        for name, own in zip(rank_names(path.name, ranks), sets)
    ]
    return replace(together(plans), remarks=(f"{counted(len(source.inputs), 'input')} to {counted(ranks, 'rank')}",))


def with_all_ruled(source: Checkpoint, sets: Sequence[RuleSet]) -> Sequence[RuleSet]:
    """Sets that want a rule for every tensor of several inputs: pieces that are equal by chance, such as zeros, would
    be taken for one tensor, and one that only some ranks have would be given to all.
    """
    if len(source.inputs) == 1 or any(each.strict for each in sets):
        return sets
    return [*sets, RuleSet((), strict=True, origin="a file for each rank of several inputs")]


def together(plans: Sequence[CheckpointPlan]) -> CheckpointPlan:
    """Several plans of one checkpoint as one, whose files all appear or none."""
    first = plans[0]
    for each in plans[1:]:
        first.siblings.read.update(each.siblings.read)
    changes = tuple(change for each in plans for change in each.changes)
    unmatched = tuple(dict.fromkeys(rule for each in plans for rule in each.unmatched))
    files = tuple(file for each in plans for file in each.files)
    return replace(first, changes=changes, unmatched=unmatched, files=files)
