r"""Rules: what becomes of the tensors whose names fit a regular expression.

    --tensor '(.*)\.kernel=i o -> o i; name=\1.weight'

    rule := REGEX "=" part (";" part)*
    part := pattern | layout | name of a layout | "dtype=" type | "scale=" numbers | "shift=" numbers | "divide"
          | "block=" numbers | "name=" template | "rank=" number | "kind=" kind | "flip=" axes | "keep" | "drop"

The regular expression fits the whole name of a tensor, and `rank` its rank.  Of several patterns, the one with the
tensor's rank is taken.

Rules come in sets: those of the command line, then those of each map.  A tensor belongs to the first set with a rule
for it.  Within a set only one rule may fit, or several for different kinds of tensors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.files.checkpoints.header import StoredTensor
from gpulayout.files.checkpoints.name_regex import NameRegex, Template, template_of
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import is_only_layout, parse_array_shape
from gpulayout.requests.arithmetic import SIMPLE
from gpulayout.requests.shape_arguments import check_layout_text

KEYS = ("to", *SIMPLE, "name", "rank", "kind", "flip", "keep", "drop")
KINDS = ("conv", "conv_transpose", "depthwise", "linear", "embedding", "attention", "norm")  # `kinds` tells them apart
FLAGS = ("divide", "keep", "drop")
LONGEST_NAME = 1 << 16  # characters of a new name
_KEYWORD = re.compile(rf"({'|'.join(key for key in KEYS[1:] if key not in FLAGS)})\s*=\s*(.*)", re.DOTALL)
_EXAMPLE = r"such as '(.*)\.kernel=i o -> o i; dtype=bf16; name=\1.weight'"
Targets = tuple["Layout | str", ...]
Renaming = tuple[NameRegex, Template]


def is_pattern(target: Layout | str | None) -> TypeGuard[str]:
    """True for a target that is a pattern."""
    return isinstance(target, str) and "->" in target


@dataclass(frozen=True)
class Rule:
    r"""What becomes of the tensors whose names fit `match`.

    ranks     of the tensors; nothing for any
    to        patterns of different ranks, or one layout or its name; nothing for elements that stay where they are
    options   arithmetic on the way
    name      of the new tensor; None for the old name
    kind      of the tensors, one of `KINDS`; None for any
    flip      axes of the patterns whose elements come in reverse order
    keep      leave the tensor as it is, also where all tensors get another type
    drop      leave it out
    optional  no error if it fits no tensor
    origin    what messages call the rule
    """

    match: NameRegex
    ranks: tuple[int, ...]
    to: Targets
    options: ArithmeticOptions
    name: Template | None
    kind: str | None
    flip: tuple[str, ...]
    keep: bool
    drop: bool
    optional: bool
    origin: str

    def target_for(self, tensor: StoredTensor, rank: int) -> Layout | str | None:
        """The one target that fits the rank of a tensor; `LayoutError` if none does, or several."""
        if len(self.to) < 2 and not self.patterns:
            return self.to[0] if self.to else None
        fitting, problem = self._fitting(rank)
        if len(fitting) == 1:
            return fitting[0]
        name = f"tensor {value_text(tensor.name)} is {tensor}"
        if fitting:
            raise LayoutError(f"{self.origin} fits in {len(fitting)} ways: {name}, and {fitting} all have rank {rank}")
        if len(self.patterns) > 1:
            problem = f"none of the patterns {self.patterns} has rank {rank}"
        raise LayoutError(f"{self.origin} does not fit: {name}, but {problem}")

    def is_for(self, rank: int) -> bool:
        """True for the ranks that a rule names; without, a rule for a kind is for those of its patterns alone."""
        if self.ranks or not self.kind or not self.patterns:
            return not self.ranks or rank in self.ranks
        return bool(self._fitting(rank)[0])

    @property
    def other_parts(self) -> list[str]:
        """What a rule says beside its targets, as parts of its text: the name and what changes the elements."""
        named = {} if self.name is None else {"name": self.name.text}
        return [_part(key, value) for key, value in {**self.options, **named}.items() if value is not False]

    @property
    def patterns(self) -> list[str]:
        """Those of the targets that are patterns."""
        return [*filter(is_pattern, self.to)]

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


def _part(key: str, value: Any) -> str:
    """A part of a rule as text; "..." in place of many numbers.

    >>> _part("divide", True), _part("scale", [0.5, 2]), _part("shift", [0] * 99)
    ('divide', 'scale=0.5,2', 'shift=...')
    """
    if value is True:
        return key
    value = value.tolist() if hasattr(value, "tolist") else value
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"{key}={'...' if key in SIMPLE and len(text) > 40 else text}"


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

    def rules_for(self, name: str, rank: int) -> list[Rule]:
        """The rules for a tensor, each for another kind, and one for none of them; `LayoutError` if others fit too."""
        fitting = [rule for rule in self.rules if rule.is_for(rank) and rule.match.fullmatch(name)]
        if len({rule.kind for rule in fitting}) < len(fitting):
            both = f"{fitting[0].origin} and {fitting[1].origin}"
            raise LayoutError(f"tensor {value_text(name)} fits {counted(len(fitting), 'rule')}: {both}")
        return fitting


# ---- reading rules -------------------------------------------------------------------------------------------


def rule_of_text(text: str) -> Rule:
    r"""The rule that a text such as '(.*)\.kernel=i o -> o i' means; `LayoutError` for other text."""
    origin = f"the rule {value_text(clipped(text, 80))}"
    regex, equals, what = split_at_equals(text)
    if not equals or not regex.strip():
        raise LayoutError(f"{origin} is not REGEX=WHAT{why_no_equals(text) or f', {_EXAMPLE}'}")
    return rule_of(regex.strip(), what, origin)


def split_at_equals(text: str) -> tuple[str, str, str]:
    r"""A text before and behind its first `=` that stands outside brackets and has no backslash.

    >>> split_at_equals("(?=a)[=]=i o -> o i; name=b")
    ('(?=a)[=]', '=', 'i o -> o i; name=b')
    """
    depth, in_class, position = 0, False, 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "=" and depth <= 0:
            return text[:position], "=", text[position + 1 :]
        position += 1
    return text, "", ""


def why_no_equals(text: str) -> str:
    """What is wrong with an expression in which a `=` is not found because its brackets do not close; or nothing.

    >>> why_no_equals(".*(kernel=F")
    ": '.*(kernel' is not a regular expression: missing ), unterminated subpattern at position 2"
    """
    regex, equals, _ = text.partition("=")
    try:
        re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        return f": {value_text(clipped(regex, 80))} is not a regular expression: {error}" if equals else ""
    return ""


def rule_of(regex: str, what: Any, origin: str, *, optional: bool = False) -> Rule:
    """The rule of a regular expression and what a user wrote for it: text, a layout, or a mapping of `KEYS`."""
    parts = _of_text(what, origin) if isinstance(what, str) else what
    if isinstance(parts, (Layout, Shape)):
        parts = {"to": parts}
    if not isinstance(parts, Mapping):
        raise TypeError(f"{origin} is {value_text(what)}, not text, a Layout or a mapping of {', '.join(KEYS)}")
    for key in parts:
        if key not in KEYS:
            raise LayoutError(f"{origin} has the key {value_text(key)}: the keys are {', '.join(KEYS)}")
    for key in FLAGS:
        if parts.get(key) not in (None, True, False):
            raise LayoutError(f"{origin}: {key} is {value_text(parts[key])}: it must be true or false")
    options = _options(parts, origin)
    keep, drop = bool(parts.get("keep")), bool(parts.get("drop"))
    to = _targets(parts.get("to"), origin)
    name = parts.get("name")
    if drop + keep + bool(to or options) > 1 or (drop and name is not None):
        raise LayoutError(f"{origin} says keep or drop, and something else as well")
    if not (to or options or keep or drop or name):
        raise LayoutError(f"{origin} does not say what becomes of its tensors, {_EXAMPLE}")
    match = NameRegex(regex, origin)
    kind = parts.get("kind")
    if kind is not None and kind not in KINDS:
        raise LayoutError(f"{origin}: kind {value_text(kind)} is none of {', '.join(KINDS)}")
    template = None if name is None else template_of(match, name, f"{origin}: name")
    ranks, flip = _ranks(parts.get("rank"), origin), _flip(parts.get("flip"), to, origin)
    return Rule(match, ranks, to, options, template, kind, flip, keep, drop, optional, origin)


def _options(parts: Mapping[str, Any], origin: str) -> ArithmeticOptions:
    """The arithmetic on the way; all but the type is checked with the tensor."""
    options: Any = {key: parts[key] for key in SIMPLE if parts.get(key) is not None}
    if parts.get("dtype") is not None:
        try:
            options["dtype"] = ElementType.of(parts["dtype"])
        except TypeError as error:
            raise LayoutError(f"{origin}: {error}") from None
    return cast(ArithmeticOptions, options)


def _of_text(text: str, origin: str) -> dict[str, Any]:
    """The keys that a text means, such as "i o -> o i; dtype=bf16"."""
    parts: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        keyword = _KEYWORD.fullmatch(part)
        key = keyword[1] if keyword else part if part in FLAGS else "to"
        if key in parts and key != "to":
            raise LayoutError(f"{origin} says {key} twice")
        if key == "to":
            _check_no_key(part, origin)
            parts.setdefault("to", []).append(part)
        elif keyword:
            parts[key] = _numbers(keyword[2], key, origin) if key in ("scale", "shift", "block") else keyword[2]
        else:
            parts[key] = True
    return parts


def _check_no_key(part: str, origin: str) -> None:
    """`LayoutError` for a part that was meant as a key: dtyp=bf16, or Keep."""
    word = re.fullmatch(r"([A-Za-z_]+)(?:\s*=[^>]*)?", part)
    if word and ("=" in part or word[1].lower() in FLAGS):
        near = difflib.get_close_matches(word[1].lower(), KEYS[1:], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(KEYS[1:])}"
        raise LayoutError(f"{origin} has the part {value_text(clipped(part, 60))}, which is no key of a rule: {hint}")


def _numbers(text: str, key: str, origin: str) -> float | list[float]:
    try:
        numbers = [int(each) if key == "block" else float(each) for each in text.split(",")]
    except ValueError:
        example = (
            "a whole number, or several such as 1,128" if key == "block" else "a number, or several such as 0.5,1,2"
        )
        raise LayoutError(f"{origin}: {key} {value_text(text)} is not {example}") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _ranks(value: Any, origin: str) -> tuple[int, ...]:
    ranks = [
        int(each) if isinstance(each, str) and each.isdecimal() and len(each) < 4 else each for each in _listed(value)
    ]
    if not all(type(each) is int and each >= 0 for each in ranks):
        raise LayoutError(f"{origin}: rank {value_text(value)} is not a number of dimensions, or a list of them")
    return tuple(ranks)


def _flip(value: Any, to: Targets, origin: str) -> tuple[str, ...]:
    """The axes that a rule reverses; `LayoutError` for those that no pattern has."""
    axes = value.split() if isinstance(value, str) else [] if value is None else value
    if not isinstance(axes, (list, tuple)) or not all(isinstance(axis, str) for axis in axes):
        raise LayoutError(f"{origin}: flip {value_text(value)} is not the names of axes, such as 'h w'")
    names = {name for each in filter(is_pattern, to) for group in read_pattern(each, None).before for name in group}
    for axis in axes:
        if axis not in names:
            has = f"its patterns have {', '.join(sorted(names))}" if names else "it has no pattern"
            raise LayoutError(f"{origin}: flip {value_text(value)} names the axis {value_text(axis)}, but {has}")
    return tuple(axes)


def _targets(value: Any, origin: str) -> Targets:
    for each in _listed(value):
        if not isinstance(each, (str, Layout, Shape)):
            raise TypeError(f"{origin}: to is {value_text(each)}, not text, a Layout or a Shape")
    targets = tuple(str(each) if isinstance(each, Shape) else each for each in _listed(value))
    for each in targets:
        if isinstance(each, str):
            try:
                if is_only_layout(each):
                    check_layout_text(each)
                else:
                    parse_array_shape(each)
            except LayoutError as error:
                raise LayoutError(f"{origin}: {error}") from None
    if len(targets) > 1 and not all(map(is_pattern, targets)):
        raise LayoutError(f"{origin} has {len(targets)} targets: only patterns, one for each rank, may be several")
    return targets


def renamings(pairs: Iterable[tuple[str, str]], origin: str) -> tuple[Renaming, ...]:
    """Pairs of a regular expression and the template that takes the place of what it finds."""
    compiled = []
    for regex, text in pairs:
        match = NameRegex(regex, origin)
        compiled.append((match, template_of(match, text, f"{origin} of {value_text(regex)}: the text")))
    return tuple(compiled)


def new_names(name: str, rule: Rule | None, sets: Sequence[RuleSet]) -> list[str]:
    """What a tensor is called by its rule, and then after each renaming of all sets in turn; the last one counts."""
    if rule is not None and rule.name is not None:
        match = rule.match.fullmatch(name)
        assert match
        name = rule.name.expand(match)
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
