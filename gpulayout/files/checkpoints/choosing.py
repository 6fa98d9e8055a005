"""Which rule each tensor of a checkpoint gets, and the checks that need only names and dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpulayout.files.checkpoints.changes import dimensions_of, notes_of
from gpulayout.files.checkpoints.kinds import (
    FORMATS,
    Assumptions,
    Kind,
    Unclear,
    assumption_text,
    check_all_decide,
    chosen,
    only,
    unclear_text,
)
from gpulayout.files.checkpoints.maps import readers
from gpulayout.files.checkpoints.opening import Checkpoint, Stage, staged, untold
from gpulayout.files.checkpoints.rules import Rule, RuleSet
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

Chosen = tuple[Rule | None, Kind | None]


def check_formats(source: Checkpoint, sets: Sequence[RuleSet], assumed: Assumptions) -> None:
    """`LayoutError` for a map that reads another format than the file says it has."""
    for shard in source.shards:
        written = (shard.contents.metadata or {}).get("format", "")
        said = assumed.format or written.lower()
        for each in sets:
            if said not in FORMATS or not each.reads or said in each.reads:
                continue
            insist = assumption_text("format", each.reads[0])
            raise LayoutError(
                f"{shard.path}: {_said_by(assumed, written)}, which is {FORMATS[said]}'s, but {each.origin} reads "
                f"{' or '.join(each.reads)}.  {readers().get(said, 'No ready map')} reads {said}.  If "
                f"{'that' if assumed.format else 'the metadata'} is wrong, write {insist}"
            )


def _said_by(assumed: Assumptions, written: str) -> str:
    if assumed.format:
        return f"{assumption_text('format', assumed.format)} says format {assumed.format}"
    return f"its metadata says format {written}"


def notes_in(source: Checkpoint) -> dict[str, str]:
    """The notes about all tensors, each from the file that has the tensor."""
    found = {}
    for shard in source.shards:
        notes = notes_of(shard.contents.metadata)
        found.update({each.name: notes[each.name] for each in shard.contents.tensors if each.name in notes})
    return found


def rules_of(
    source: Checkpoint,
    notes: Mapping[str, str],
    sets: Sequence[RuleSet],
    assumed: Assumptions,
    *,
    allow_unmatched: bool,
    stage: Stage = untold,
) -> dict[str, Chosen]:
    """The rule of every tensor by name, None for those without one, and the kind that it was chosen for.

    `LayoutError` where a strict map has no rule, where a kind is unclear, and for an assumption that decides nothing.
    """
    tensors = [each for shard in source.shards for each in shard.contents.tensors]
    dimensions = {each.name: dimensions_of(each, notes.get(each.name)) for each in tensors}
    strict = next((each.origin for each in sets if each.strict), "")
    found: dict[str, Chosen] = {}
    unclear: dict[str, list[Unclear]] = {}
    for tensor in staged(tensors, "tensors matched with rules", stage):
        one, origin = _chosen_from(sets, tensor.name, dimensions, assumed)
        if isinstance(one, Unclear):
            unclear.setdefault(origin, []).append(one)
            continue
        found[tensor.name] = one
        if one[0] is None and strict and not allow_unmatched:
            who = f"tensor {value_text(clipped(tensor.name, 80))}, {tensor}"
            raise LayoutError(
                f"{strict} has no rule for {who}: add one of your own, such as '{only(tensor.name)}=drop', or "
                f"'{only(tensor.name)}=keep'"
            )
    for origin, some in unclear.items():
        raise LayoutError(unclear_text(some, origin))
    if not allow_unmatched:
        check_all_decide(assumed, {name: kind for name, (_, kind) in found.items()}, dimensions, source.path)
    return found


def _chosen_from(
    sets: Sequence[RuleSet], name: str, dimensions: Mapping[str, tuple[int, ...]], assumed: Assumptions
) -> tuple[Chosen | Unclear, str]:
    """What is chosen from the first set with a rule for a tensor, and what messages call that set.

    `LayoutError` for a rule that only changes elements or the name, before one that would move the tensor too.
    """
    for number, each in enumerate(sets):
        rules = each.rules_for(name, len(dimensions[name]))
        one = chosen(name, rules, dimensions, assumed)
        if isinstance(one, Unclear):
            return one, each.origin or rules[0].origin
        rule = one[0]
        if rule is not None and not (rule.to or rule.keep or rule.drop):
            hidden, origin = _chosen_from(sets[number + 1 :], name, dimensions, assumed)
            if isinstance(hidden, Unclear):
                return hidden, origin
            if hidden[0] is not None and hidden[0].to:
                raise LayoutError(_about_order(rule, hidden[0], name, len(dimensions[name])))
        if rule is not None:
            return one, ""
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
    found = other.match.fullmatch(name)
    named = ""
    if rule.name is None and other.name is not None and found:
        named = (
            f".  It also gives the name {value_text(clipped(other.name.expand(found), 80))}; yours needs a name= too"
        )
    return (
        f"tensor {value_text(clipped(name, 80))}: {rule.origin} does not say in which order the elements come, and "
        f"{other.origin}, which stands behind it, would move them: write '{moved}{rest}' to do both, or "
        f"'{still}{rest}' to leave their order{named}"
    )
