"""Which tensors of the old files each new tensor is made of, by its rule: joined, stacked, split and cut.

    inputs are put together  >  from  >  split, or resize, shard  >  join  >  stack  >  pattern, layout, arithmetic

A rule names the result and its parts.  Each is checked here: it is there, once, and fits the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpulayout.catalogue.tensors import TensorAxis
from gpulayout.files.checkpoints.assembly import whole
from gpulayout.files.checkpoints.header import StoredTensor, tensor_text
from gpulayout.files.checkpoints.members import UNNAMED, Member, axis_text, grown, joined, stacked
from gpulayout.files.checkpoints.model import Found, Model, about_tensor, same_in_all
from gpulayout.files.checkpoints.rule_numbers import (
    check_each_has_its_own,
    check_rows_in_order,
    followed,
    numbers_of,
)
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.sibling_names import nearest
from gpulayout.files.checkpoints.views import View, view_of
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import Groups, Pattern, read_pattern


@dataclass(frozen=True)
class Draft:
    """A new tensor before it is planned: its name before renamings, and the old tensors that it is made of."""

    name: str
    member: Member


@dataclass
class Drafting:
    """The drafts of one model, tensor after tensor.

    used     what took a tensor as a part, by its name
    stacks   the rule of each stack and its members by their numbers, by its name
    """

    model: Model
    used: dict[str, str] = field(default_factory=dict)
    stacks: dict[str, tuple[Rule, dict[int, Member]]] = field(default_factory=dict)

    def drafts(self, name: str, rule: Rule) -> list[Draft]:
        """The new tensors of a rule for a tensor that it fits; a stack comes later, from `finished`."""
        match, regroup = rule.match.fullmatch(name), rule.regroup
        own = regroup.join, regroup.split, regroup.shard, regroup.resize
        goes_along = any(own) or self.model.inputs > 1
        if regroup.along is not None and not goes_along:
            raise LayoutError(
                f"{rule.origin}: along={regroup.along} is for join=, split= and shard=, and for pieces in several "
                "inputs; here is one input: say what is meant, such as shard=0/2"
            )
        if regroup.split:
            return self._split(name, rule, match)
        if regroup.sizes:
            parts = self._whole_pieces(name, rule, match)
        else:
            parts = [_resized(self._member(each, rule, match), rule) for each in self._parts(name, rule, match)]
        shards = [_shard(part, rule, number) for number, part in enumerate(parts)]
        member = shards[0]
        if regroup.join or regroup.sizes:
            member = joined(shards, _axis(member, rule), interleave=regroup.interleave)
        if regroup.stack is not None:
            self._add_to_stack(name, rule, match, member)
            return []
        new_name = rule.new_name(name)
        return [Draft(name if new_name is None else new_name, member)]

    def finished(self) -> Iterator[tuple[Rule, Draft]]:
        """The stacks, each with its rule, when all tensors have been given; `LayoutError` for a missing number."""
        for new_name, (rule, members) in self.stacks.items():
            missing = next((number for number in range(len(members)) if number not in members), None)
            if missing is not None:
                numbers = [*map(str, sorted(members))]
                have = ", ".join(numbers[:8]) + ", ..." * (len(numbers) > 8)
                raise LayoutError(
                    f"{rule.origin} stacks {counted(len(members), 'tensor')} as {value_text(clipped(new_name, 80))}, "
                    f"but number {missing} is missing: there are {have}"
                )
            yield rule, Draft(new_name, stacked([members[number] for number in range(len(members))]))

    def _parts(self, name: str, rule: Rule, match: Any) -> list[str]:
        """The names of all parts of a new tensor; `LayoutError` for one that is missing or used twice."""
        if not rule.regroup.join:
            return [name]
        parts = [template.expand(match) for template in rule.regroup.join]
        if parts[0] != name:
            raise LayoutError(
                f"{rule.origin} fits {tensor_text(name)}, but the first part of its join is "
                f"{value_text(clipped(parts[0], 80))}: the regular expression is for the first part"
            )
        for part in parts:
            if part not in self.model.tensors:
                near = nearest(part, "", self.model.tensors)
                raise LayoutError(
                    f"{rule.origin} joins {tensor_text(part)}, but there is none: the nearest names are "
                    f"{', '.join(near)}"
                )
            if part in self.used:
                raise LayoutError(f"{tensor_text(part)} is a part twice: of {self.used[part]}, and of {rule.origin}")
            self.used[part] = rule.origin
        check_each_has_its_own(rule, parts, match, self.model)
        return parts

    def _add_to_stack(self, name: str, rule: Rule, match: Any, member: Member) -> None:
        template = rule.regroup.stack
        assert template is not None
        groups = {*range(1, rule.match.groups + 1)} - {*template.parts}
        if len(groups) != 1:
            raise LayoutError(
                f"{rule.origin} has {counted(len(groups), 'group')} that the name of its stack leaves out: it must be "
                f"one, "
                r"whose numbers order the tensors, such as experts\.(\d+)\.w1=stack=experts.w1"
            )
        text = match[groups.pop()]
        if text is None or not re.fullmatch("[0-9]{1,9}", text):
            raise LayoutError(
                f"{rule.origin}: in {tensor_text(name)} the number of the stack is {value_text(text)}: the group that "
                r"its name leaves out must find numbers, as (\d+) does"
            )
        new_name = template.expand(match)
        own, members = self.stacks.setdefault(new_name, (rule, {}))
        if own is not rule:
            raise LayoutError(
                f"{own.origin} and {rule.origin} both stack tensors as {value_text(clipped(new_name, 80))}"
            )
        if int(text) in members:
            both = f"{tensor_text(members[int(text)].names[0])} and {tensor_text(name)}"
            raise LayoutError(
                f"{rule.origin}: {both} are both number {int(text)} of {value_text(clipped(new_name, 80))}"
            )
        members[int(text)] = member

    # ---- split ----

    def _split(self, name: str, rule: Rule, match: Any) -> list[Draft]:
        """The tensors that one is split into."""
        pieces = self._whole_pieces(name, rule, match)
        names = _split_names(rule, match, name, len(pieces))
        return [Draft(new_name, _shard(piece, rule)) for new_name, piece in zip(names, pieces)]

    def _whole_pieces(self, name: str, rule: Rule, match: Any) -> list[Member]:
        """The pieces of a tensor.  Those of several inputs are taken apart first, and then put together."""
        of_files = [self._of_file(found, name, rule, match) for found in self._found(name, rule)]
        pieces = [_pieces(member, rule, len(of_files)) for member in of_files]
        return [_of_inputs(each, rule) for each in zip(*pieces)]

    # ---- one tensor ----

    def _member(self, name: str, rule: Rule, match: Any) -> Member:
        """A tensor as a rule reads it; those of several inputs are put together."""
        return _of_inputs([self._of_file(each, name, rule, match) for each in self._found(name, rule)], rule)

    def _found(self, name: str, rule: Rule) -> Sequence[Found]:
        """The tensors of this name that are parts of one array, input after input."""
        found = self.model.tensors[name]
        if rule.regroup.along is None or self.model.inputs == 1:
            return (same_in_all(self.model, name),)
        if len(found) < self.model.inputs:
            raise LayoutError(
                f"{tensor_text(name)} is in {len(found)} of {self.model.inputs} inputs, and {rule.origin} joins the "
                "pieces of all: give those that have it to a relayout of their own"
            )
        return found

    def _of_file(self, found: Found, name: str, rule: Rule, match: Any) -> Member:
        """A tensor of one file as a rule reads it."""
        shard, tensor = found
        view = view_of(tensor, self.model.notes.get(name), rule.from_)
        check_rows_in_order(self.model, found, view)
        pattern, first = _pattern(rule, name, tensor, view)
        own = pattern if pattern is None or first is None else replace(pattern, before=pattern.before[1:])
        with about_tensor(name, tensor):
            groups, sizes = _axes(view, own)
        axes = [axis for group in groups for axis in group]
        units, places = view.sizes, [*_places(view, groups, sizes)]
        if view.is_array:
            units, places = tuple(sizes[axis] for axis in axes), [*map(TensorAxis, range(len(axes)))]
        numbers = {key: numbers_of(key, self.model, found, rule, match, view, groups, sizes) for key in followed(rule)}
        return Member(
            names=(name,),
            view=view,
            groups=groups,
            after=None if pattern is None else pattern.after,
            first=first,
            sizes=sizes,
            places=dict(zip(axes, places)),
            array=whole(shard, tensor, units, view.bits),
            numbers=numbers,
        )


def _pattern(rule: Rule, name: str, tensor: StoredTensor, view: View) -> tuple[Pattern | None, str | None]:
    """The pattern of a rule for a tensor, and what it calls the axis of the stack in front, if it names that."""
    rank, who = view.shape.rank, f"tensor {value_text(name)} is {tensor if rule.from_ is None else view.shape}"
    if rule.regroup.stack is not None and rule.pattern_for(rank) is None:
        text = rule.pattern_for(rank + 1)
        if text is not None:
            pattern = read_pattern(text, rank + 1, "pattern")
            if len(pattern.before[0]) == 1:
                return pattern, pattern.before[0][0]
            raise LayoutError(f"{rule.origin}: {pattern.shown} must begin with one name, for the axis of the stack")
    text = rule.pattern_of(who, rank)
    return (None if text is None else read_pattern(text, rank, "pattern")), None


def _axes(view: View, pattern: Pattern | None) -> tuple[Groups, dict[str, int]]:
    """The axes of each dimension, and the sizes of all: those of a pattern, or one for each dimension.

    A dimension of size 1 without a name has one here.
    """
    dimensions = view.shape.dimensions
    if pattern is None:
        groups: Groups = tuple((f"~{number}",) for number in range(len(dimensions)))
        return groups, dict(zip((group[0] for group in groups), dimensions))
    sizes = pattern.axis_sizes(dimensions, {})
    groups = tuple(group or (f"{UNNAMED}{number}",) for number, group in enumerate(pattern.before))
    return groups, {name: sizes.get(name, 1) for group in groups for name in group}


def _places(view: View, groups: Groups, sizes: Mapping[str, int]) -> Iterator[TensorAxis | None]:
    """Where the axes lie in what the file holds.  Of those that a pattern makes of one, only the first can be cut."""
    for place, group in zip(view.places, groups):
        inner = math.prod(sizes[axis] for axis in group[1:])
        if place is not None and inner:
            place = TensorAxis(place.axis, place.step / inner, place.multiple // math.gcd(place.multiple, inner))
        yield place
        yield from [None] * len(group[1:])


def _axis(member: Member, rule: Rule) -> str:
    """The name of the axis that a rule cuts or joins along."""
    along, rank = rule.regroup.along, len(member.groups)
    if isinstance(along, str):
        if along not in member.axes:
            named = [name for name in member.axes if name.isidentifier()]
            has = f"the axes are {', '.join(named)}" if named else f"write a number, 0 to {rank - 1}"
            raise LayoutError(f"{rule.origin}: {member} has no axis {value_text(along)} to go along: {has}")
        return along
    if along is None or not -rank <= along < rank:
        have = f"axes 0 to {rank - 1}" if rank else "no axis"
        raise LayoutError(f"{rule.origin}: along={along}, but {member} has {have}")
    group = member.groups[along]
    if len(group) > 1:
        raise LayoutError(
            f"{rule.origin}: along={along} is the axis ({' '.join(group)}) of the pattern: write along={group[0]} or "
            f"along={group[-1]}"
        )
    return group[0]


def _of_inputs(members: Sequence[Member], rule: Rule) -> Member:
    """What several inputs have of one tensor, put together."""
    first = members[0]
    return first if len(members) == 1 else replace(joined(members, _axis(first, rule)), names=first.names)


def _resized(member: Member, rule: Rule) -> Member:
    """A tensor with zeros behind the last index of an axis, or without the last ones."""
    if rule.regroup.resize is None:
        return member
    (old, new), axis = rule.regroup.resize, _axis(member, rule)
    if member.sizes[axis] != old:
        raise LayoutError(
            f"{rule.origin}: resize={old}->{new}, but {member} has {member.sizes[axis]} along {axis_text(axis)}"
        )
    return member.taken(axis, range(new)) if new < old else grown(member, axis, new)


def _shard(member: Member, rule: Rule, number: int = 0) -> Member:
    """The shard of a rule, which has one for all parts, or one for each."""
    if not rule.regroup.shard:
        return member
    axis, cut = _axis(member, rule), rule.regroup.shard[number if len(rule.regroup.shard) > 1 else 0]
    try:
        indices = cut.indices(member.sizes[axis], f"{member} along {axis_text(axis)}")
    except LayoutError as error:
        fits = -(-member.sizes[axis] // cut.parts) * cut.parts
        alone = not (rule.regroup.join or rule.regroup.split or rule.regroup.sizes or rule.regroup.resize)
        advice = f": resize={member.sizes[axis]}->{fits} adds zeros first" if alone else ""
        raise LayoutError(f"{rule.origin}: shard={error}{advice}") from None
    return member.taken(axis, indices)


def _pieces(member: Member, rule: Rule, inputs: int) -> list[Member]:
    """The pieces of a split, or the parts of a fused tensor.

    inputs   of how many the tensor is one, each of which has as much of every piece
    """
    regroup, count = rule.regroup, len(rule.regroup.split)
    if regroup.along is None:
        axis = _first_axis(member, rule)
        size = member.sizes[axis]
        if count != size and not regroup.split[0].counts:
            raise LayoutError(
                f"{rule.origin} splits {member} into {counted(count, 'tensor')}, one for each index of "
                f"{axis_text(axis)}, whose size is {size}; to cut an axis into pieces add along=AXIS"
            )
        pieces = [member.at(axis, index) for index in range(size)]
        return pieces[::-1] if axis in rule.flip else pieces
    axis = _axis(member, rule)
    size = member.sizes[axis]
    if regroup.split and regroup.split[0].counts:  # a piece for each index
        if inputs > 1:
            raise LayoutError(
                f"{rule.origin}: {{number}} does not say how many pieces {member} of {inputs} inputs has: write the "
                "names of all pieces"
            )
        count = size
    sizes = [*regroup.sizes] or [size * inputs // max(count, 1)] * count
    if sum(sizes) != size * inputs:
        if regroup.sizes:
            all_have = f"has {size}" if inputs == 1 else f"is one of {inputs}, which have {size * inputs}"
            said = f"sizes {','.join(map(str, sizes))} are {sum(sizes)}"
            raise LayoutError(f"{rule.origin}: {said}, and {member} {all_have} along {axis_text(axis)}")
        is_no = f"whose size {size * inputs} is not a multiple of {count}"
        raise LayoutError(f"{rule.origin} splits {member} along {axis_text(axis)}, {is_no}")
    if any(each % inputs for each in sizes):
        raise LayoutError(f"{rule.origin}: sizes {','.join(map(str, sizes))} do not divide among {inputs} inputs")
    if regroup.interleave:
        return [member.taken(axis, range(index, size, count)) for index in range(count)]
    begin, pieces = 0, []
    for piece in (each // inputs for each in sizes):
        pieces.append(member.taken(axis, range(begin, begin + piece)))
        begin += piece
    return pieces


def _first_axis(member: Member, rule: Rule) -> str:
    """The first axis of the result, which a split takes apart."""
    groups = member.groups if member.after is None else member.after
    if not groups or len(groups[0]) != 1:
        what = f"({' '.join(groups[0])})" if groups and groups[0] else "of size 1" if groups else "missing"
        raise LayoutError(
            f"{rule.origin} splits {member} by the first axis of the result, which is {what}: name it alone in a "
            "pattern, as in '(three=3 o) i -> three o i', or add along=AXIS"
        )
    return groups[0][0]


def _split_names(rule: Rule, match: Any, name: str, count: int) -> list[str]:
    """The names of the pieces of a split."""
    templates = rule.regroup.split
    counting = [each for each in templates if each.counts]
    if not counting:
        return [each.expand(match) for each in templates]
    if len(templates) > 1:
        who = tensor_text(name)
        raise LayoutError(f"{rule.origin}: split has {{number}}, so it must be one name, for all pieces of {who}")
    return [templates[0].expand(match, number) for number in range(count)]
