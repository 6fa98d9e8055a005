"""Which rule each tensor of a checkpoint gets, and what is wrong with rules that no tensor gets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpulayout.files.checkpoints import kinds
from gpulayout.files.checkpoints.gguf import why_opaque
from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.kinds import FORMATS, Assumptions, Kind, Unclear, assumption_text
from gpulayout.files.checkpoints.maps import readers
from gpulayout.files.checkpoints.model import Model
from gpulayout.files.checkpoints.opening import Checkpoint, Stage, staged
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
            says = f"its metadata says format {written}"
            if assumed.format:
                says = f"{assumption_text('format', assumed.format)} says format {assumed.format}"
            insist = assumption_text("format", each.reads[0])
            raise LayoutError(
                f"{shard.path}: {says}, which is {FORMATS[said]}'s, but {each.origin} reads "
                f"{' or '.join(each.reads)}.  {readers().get(said, 'No ready map')} reads {said}.  If "
                f"{'that' if assumed.format else 'the metadata'} is wrong, write {insist}"
            )


def rules_of(
    source: Checkpoint,
    model: Model,
    sets: Sequence[RuleSet],
    assumed: Assumptions,
    *,
    allow_unmatched: bool,
    stage: Stage,
) -> dict[str, Chosen]:
    """The rule of every tensor by name, None for those without one, and the kind that it was chosen for.

    Parts of a join, but the first, have no rule of their own: they are not in the result.  `LayoutError` where a strict
    map has no rule, where a kind is unclear, and for an assumption that decides nothing.
    """
    dimensions = {name: model.dimensions(name) for name in model.tensors}
    by_name: dict[str, Chosen] = {}
    unclear: dict[str, tuple[str, Unclear]] = {}
    for_scales = without_measuring(sets)
    for name in staged(model.tensors, "tensors matched with rules", stage):
        own = for_scales if name in model.measured else sets
        choice, origin = _chosen_from(own, name, model.first(name).dtype, dimensions, assumed)
        if isinstance(choice, Unclear):
            unclear[name] = origin, choice
        else:
            by_name[name] = choice
    _leave_out_parts(by_name, unclear, sets)
    strict = next((each.origin for each in sets if each.strict), "")
    for name, (rule, _) in by_name.items():
        if rule is None and strict and not allow_unmatched:
            one, who = kinds.only(name), f"{tensor_text(name)}, {model.first(name)}"
            pieces = f"'{one}=along=0' for its pieces, " if model.inputs > 1 else ""
            raise LayoutError(
                why_opaque(model.first(name))
                or f"{strict} has no rule for {who}: add one of your own, such as {pieces}'{one}=drop', or '{one}=keep'"
            )
    for origin in dict.fromkeys(origin for origin, _ in unclear.values()):
        raise LayoutError(kinds.unclear_text([choice for where, choice in unclear.values() if where == origin], origin))
    if not allow_unmatched:
        kinds.check_all_decide(assumed, {name: kind for name, (_, kind) in by_name.items()}, dimensions, source.name)
    return by_name


def measuring(model: Model, sets: Sequence[RuleSet], assumed: Assumptions) -> dict[str, tuple[Rule, str]]:
    """The rule of each tensor whose scale is measured, and the name that it fits: of the parts of a join the first."""
    if not any(rule.measure for each in sets for rule in each.rules):
        return {}
    dimensions = {name: model.dimensions(name) for name in model.tensors}
    by_name: dict[str, Chosen] = {}
    for name in model.tensors:
        choice, _ = _chosen_from(sets, name, model.first(name).dtype, dimensions, assumed)
        if not isinstance(choice, Unclear):
            by_name[name] = choice
    _leave_out_parts(by_name, {}, sets)
    return {
        part: (rule, name)
        for name, (rule, _) in by_name.items()
        if rule is not None and rule.measure is not None
        for part in rule.parts(name) or [name]
    }


def without_measuring(sets: Sequence[RuleSet]) -> list[RuleSet]:
    """The rules for tensors of scales, of which none are measured in turn."""
    return [replace(each, rules=tuple(rule for rule in each.rules if rule.measure is None)) for each in sets]


def _leave_out_parts(
    by_name: dict[str, Chosen], unclear: dict[str, tuple[str, Unclear]], sets: Sequence[RuleSet]
) -> None:
    """Leave out the parts of all joins, but the first ones.

    `LayoutError` for a part with a rule beside the join's, or before it.  A rule behind it has no say, also one that
    joins: what it would join with the part stays.
    """
    place = {id(rule): number for number, each in enumerate(sets) for rule in each.rules}
    joins = [(name, rule) for name, (rule, _) in by_name.items() if rule is not None and rule.regroup.join]
    for name, rule in sorted(joins, key=lambda pair: place[id(pair[1])]):
        if name not in by_name:
            continue
        for part in rule.parts(name):
            own = by_name.get(part, (None, None))[0]
            if part != name and own is not None and place[id(own)] <= place[id(rule)]:
                raise LayoutError(f"{tensor_text(part)} is a part of {rule.origin}, and {own.origin} fits it too")
            unclear.pop(part, None)
            if part != name:
                by_name.pop(part, None)


def _chosen_from(
    sets: Sequence[RuleSet], name: str, dtype: str, dimensions: Mapping[str, tuple[int, ...]], assumed: Assumptions
) -> tuple[Chosen | Unclear, str]:
    """What is chosen from the first set with a rule for a tensor, and what messages call that set.

    `LayoutError` for a rule that only changes elements or the name, before one that would move the tensor too.
    """
    for number, each in enumerate(sets):
        rules = each.rules_for(name, dtype, len(dimensions[name]))
        choice = kinds.chosen(name, rules, dimensions, assumed)
        if isinstance(choice, Unclear):
            return choice, each.origin or rules[0].origin
        rule = choice[0]
        if rule is not None and not (rule.moves or rule.keep or rule.drop):
            hidden, origin = _chosen_from(sets[number + 1 :], name, dtype, dimensions, assumed)
            if isinstance(hidden, Unclear):
                return hidden, origin
            if hidden[0] is not None and hidden[0].moves:
                raise LayoutError(_about_order(rule, hidden[0], name, len(dimensions[name])))
        if rule is not None:
            return choice, ""
    return (None, None), ""


def _about_order(rule: Rule, other: Rule, name: str, rank: int) -> str:
    """What to write where a rule does not say in which order the elements of a tensor come."""
    moved, still = other.pattern_for(rank) or str(other.layout), "C"
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


def unused(sets: Sequence[RuleSet], used: Sequence[Rule], model: Model) -> tuple[str, ...]:
    """The rules that no tensor got, but for the optional ones, and those of a recipe or a map whose tensors all got a
    rule of the caller's.
    """
    ids = {*map(id, used)}
    left = [(each, rule) for each in sets for rule in each.rules if id(rule) not in ids and not rule.optional]
    own = [rule for each in sets if not each.origin for rule in each.rules if id(rule) in ids]
    taken = [name for name in model.tensors if any(rule.match.fullmatch(name) for rule in own)] if left else []
    return tuple(rule.origin for each, rule in left if not (each.origin and any(map(rule.match.fullmatch, taken))))


def about_unmatched(source: Checkpoint, sets: Sequence[RuleSet], unmatched: Sequence[str]) -> str:
    """What is wrong with the first rule that fits no tensor, and what it may have meant."""
    rule = next(rule for each in sets for rule in each.rules if rule.origin == unmatched[0])
    names = [each.name for shard in source.shards for each in shard.contents.tensors]
    inside = [name for name in names if rule.match.search(name)]
    if any(rule.match.fullmatch(name) for name in names):
        hint = "tensors of these names have another type or rank, belong to another rule, or are of another kind"
    elif inside:
        hint = f"it fits a part of {value_text(clipped(inside[0], 80))}, but must fit the whole name: begin with .*"
    else:
        hint = f"the first tensor is called {value_text(clipped(names[0], 80))}" if names else "there are no tensors"
    more = f" (and {len(unmatched) - 1} more)" if len(unmatched) > 1 else ""
    return f"{unmatched[0]} fits no tensor of {source.name}{more}: {hint}"


def check_renamings(source: Checkpoint, sets: Sequence[RuleSet], names: Sequence[Sequence[str]]) -> None:
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
        raise LayoutError(f"rename of {value_text(clipped(match.pattern, 80))} changes no name of {source.name}{hint}")
