r"""Rules: what becomes of the tensors whose names fit a regular expression.

    --tensor '(.*)\.kernel=i o -> o i; name=\1.weight'

The regular expression fits the whole name of a tensor, and `rank` its rank.  Of several patterns, the one with the
tensor's rank is taken.  `rule_text` reads rules, and says how they are written.

Rules come in sets: those of the command line, then those of each map.  A tensor belongs to the first set with a rule
for it.  Within a set only one rule may fit, or several for different kinds of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.files.checkpoints.beside import Beside
from gpulayout.files.checkpoints.expected import Expected
from gpulayout.files.checkpoints.measured import Measure
from gpulayout.files.checkpoints.name_regex import NameRegex, Template
from gpulayout.files.checkpoints.new_types import HeaderType
from gpulayout.files.checkpoints.sibling_names import SiblingName
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.cuts import Cut
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.requests.arithmetic import OPTIONS

KINDS = ("conv", "conv_transpose", "depthwise", "linear", "embedding", "attention", "norm")  # `kinds` tells them apart
LONGEST_NAME = 1 << 16  # characters of a new name
Renaming = tuple[NameRegex, Template]


def is_pattern(target: object) -> TypeGuard[str]:
    """True for a target that is a pattern."""
    return isinstance(target, str) and "->" in target


@dataclass(frozen=True)
class Regroup:
    """How tensors are cut and put together.

    join        the parts of one new tensor, in order, by the names of the old ones; none for the tensor alone
    stack       the name of a new tensor that has all those with this name on a new first axis
    split       the names of the new tensors that the tensor is cut into
    sizes       of those along the axis, none for equal ones; without a split those of the parts of a fused tensor
    interleave  joined and split tensors take turns along the axis
    shard       which of equal parts is taken: of all tensors, or of each part of a join or of a fused tensor
    resize      the size along the axis, and what becomes of it: zeros come behind, or the last indices go
    along       the axis, by its number or its name in the pattern; None where none is said
    """

    join: tuple[Template, ...] = ()
    stack: Template | None = None
    split: tuple[Template, ...] = ()
    sizes: tuple[int, ...] = ()
    interleave: bool = False
    shard: tuple[Cut, ...] = ()
    resize: tuple[int, int] | None = None
    along: int | str | None = None

    @property
    def regroups(self) -> bool:
        """True where more than one tensor, or less than a whole one, is taken."""
        return bool(self.join or self.stack or self.split or self.sizes or self.shard or self.resize)


NO_REGROUP = Regroup()


@dataclass(frozen=True)
class Rule:
    r"""What becomes of the tensors whose names fit `match`.

    ranks     of the tensors; nothing for any
    only      the types of the tensors, as the format calls them; nothing for any
    from_     what the tensor in the file is; None for what its header says
    patterns  of different ranks: the order of the axes; nothing for axes that stay where they are
    layout    of the result; None for an array in C order, or for one without patterns that stays where it is
    header    the type and the dimensions that the new file says; None for those that follow from the rest
    options   arithmetic on the way
    siblings  other tensors whose numbers are parameters of the arithmetic, by keyword
    measure   how the numbers of the sibling `scale` are measured from the tensor; None where the file has them
    regroup   how tensors are cut and put together
    name      of the new tensor; None for the old name
    kind      of the tensors, one of `KINDS`; None for any
    flip      axes of the patterns whose elements come in reverse order
    keep      leave the tensor as it is, also where all tensors get another type
    drop      leave it out
    expect    the numbers that its elements may be; None for any
    beside    the tensors that must stand beside each
    optional  no error if it fits no tensor
    origin    what messages call the rule
    """

    match: NameRegex
    ranks: tuple[int, ...]
    only: tuple[str, ...]
    from_: Shape | Layout | str | None
    patterns: tuple[str, ...]
    layout: Layout | str | None
    header: HeaderType | None
    options: ArithmeticOptions
    siblings: Mapping[str, SiblingName]
    regroup: Regroup
    name: Template | None
    kind: str | None
    flip: tuple[str, ...]
    keep: bool
    drop: bool
    expect: Expected | None
    beside: tuple[Beside, ...]
    optional: bool
    origin: str
    measure: Measure | None = None

    @property
    def moves(self) -> bool:
        """True for a rule that says where elements lie."""
        return bool(self.patterns) or self.layout is not None

    @property
    def changes(self) -> bool:
        """True for a rule that says more of tensors than their names, and which are kept and left out."""
        own = self.options, self.siblings, self.regroup != NO_REGROUP, self.header, self.from_
        return self.moves or any(own)

    @property
    def stays(self) -> bool:
        """True for a rule that leaves tensors as they are, or out, but for their names."""
        return self.keep or self.drop or not self.changes

    def new_name(self, name: str) -> str | None:
        """What a tensor is called that stays; None if it is left out."""
        if self.drop:
            return None
        return name if self.name is None else self.name.expand(self.match.fullmatch(name))

    def parts(self, name: str) -> list[str]:
        """The names of the tensors that a rule for the first of them joins; none where it joins nothing."""
        match = self.match.fullmatch(name) if self.regroup.join else None
        return [each.expand(match) for each in self.regroup.join]

    def pattern_of(self, tensor: str, rank: int) -> str | None:
        """The one pattern that fits the rank of a tensor; `LayoutError` if none does, or several.

        tensor   what messages call it, with its shape
        """
        if not self.patterns:
            return None
        fitting, problem = self._fitting(rank)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise LayoutError(
                f"{self.origin} fits in {len(fitting)} ways: {tensor}, and {fitting} all have rank {rank}"
            )
        if len(self.patterns) > 1:
            problem = f"none of the patterns {[*self.patterns]} has rank {rank}"
        raise LayoutError(f"{self.origin} does not fit: {tensor}, but {problem}")

    def is_for(self, dtype: str, rank: int) -> bool:
        """True for the types and ranks that a rule names; without, a rule for a kind is for those of its patterns."""
        if self.only and dtype not in self.only:
            return False
        if self.ranks or not self.kind or not self.patterns:
            return not self.ranks or rank in self.ranks
        return bool(self._fitting(rank)[0])

    @property
    def other_parts(self) -> list[str]:
        """What a rule says beside its targets, as parts of its text: the name and what changes the elements."""
        said: dict[str, Any] = {**self.options, **{key: each.text for key, each in self.siblings.items()}}
        if self.measure is not None:
            said |= {"scale": self.measure, "scale_name": said["scale"], "scale_dtype": self.measure.dtype}
        if self.name is not None:
            said["name"] = self.name.text
        return [part_text(key, value) for key, value in said.items() if value is not False]

    def pattern_for(self, rank: int) -> str | None:
        """The one pattern of a rank; None if there is none, or several."""
        fitting, _ = self._fitting(rank)
        return fitting[0] if len(fitting) == 1 else None

    def _fitting(self, rank: int) -> tuple[list[str], str]:
        """The patterns of a rank, and why the last of the others is none."""
        fitting, problem = [], ""
        for each in self.patterns:
            try:
                read_pattern(each, rank, "pattern")
                fitting.append(each)
            except LayoutError as error:
                problem = str(error)
        return fitting, problem


def part_text(key: str, value: Any) -> str:
    """A part of a rule as text; "..." in place of many numbers.

    >>> part_text("divide", True), part_text("scale", [0.5, 2]), part_text("shift", [0] * 99)
    ('divide', 'scale=0.5,2', 'shift=...')
    """
    if value is True:
        return key
    value = value.tolist() if hasattr(value, "tolist") else value
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"{key}={'...' if key in OPTIONS and len(text) > 40 else text}"


@dataclass(frozen=True)
class RuleSet:
    """Rules that stand side by side, and what else their file says.

    rename    pairs of a regular expression and a template, applied in turn to the name of every new tensor
    metadata  what the new file says of itself, beside what the old one says
    strict    every tensor needs a rule
    reads     the formats of the files that the rules are for, as metadata says them; none for any
    """

    rules: tuple[Rule, ...]
    rename: tuple[Renaming, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    origin: str = ""
    reads: tuple[str, ...] = ()

    def rules_for(self, name: str, dtype: str, rank: int) -> list[Rule]:
        """The rules for a tensor, each for another kind, and one for none of them; `LayoutError` if others fit too."""
        fitting = [rule for rule in self.rules if rule.is_for(dtype, rank) and rule.match.fullmatch(name)]
        if len({rule.kind for rule in fitting}) < len(fitting):
            both = f"{fitting[0].origin} and {fitting[1].origin}"
            raise LayoutError(f"tensor {value_text(name)} fits {counted(len(fitting), 'rule')}: {both}")
        return fitting


def new_names(name: str, sets: Sequence[RuleSet]) -> list[str]:
    """A new tensor's name, and then what it is after each renaming of all sets in turn; the last one counts."""
    names = [name]
    for each in sets:
        for match, template in each.rename:
            names.append(match.sub(template.expand, names[-1]))
            if len(names[-1]) > LONGEST_NAME:
                old, new = (value_text(clipped(each, 80)) for each in (names[0], names[-1]))
                raise LayoutError(
                    f"tensor {old} would be called {new}, a name of {len(names[-1])} characters: {LONGEST_NAME} is the "
                    "limit"
                )
    return names
