r"""Siblings: tensors of the same file that hold the numbers of a tensor's arithmetic, and how a rule names them.

    scale={name}_scale_inv      the tensor's whole name, and a text behind it
    scale=\1.scales             groups of the rule's regular expression
    scale=*_scales              the longest beginning of the tensor's name with which there is such a tensor

For example:

    model.layers.0.up.weight    *scales is model.layers.0.up.scales, or else model.layers.0.scales
"""

from __future__ import annotations

import heapq
import math
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.name_regex import NameRegex, Template, template_of
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.IGNORECASE
)
MOST_BEGINNINGS = 2000  # that `*` tries for one tensor


def is_name(text: str) -> bool:
    """True for a text that may be the name of a tensor; False for a number, or several with commas.

    >>> [is_name(text) for text in ("*_scales", "0.5,1,2", "1e-3", "0.5;1")]
    [True, False, False, True]
    """
    return not all(_NUMBER.fullmatch(each) for each in text.split(","))


def number(text: str) -> float:
    """The number that a text means; `ValueError` for other text, and for 1e400 and 1e-400, which no float is near to.

    >>> number(" -1e-3"), number("inf"), number("0e9")
    (-0.001, inf, 0.0)
    """
    value, digits = float(text), text.lower().partition("e")[0]
    too_large, too_small = math.isinf(value) and re.search("[0-9]", digits), not value and re.search("[1-9]", digits)
    if not _NUMBER.fullmatch(text) or too_large or too_small:
        raise ValueError(f"{text} is no number")
    return value


def whole_number(text: str) -> int:
    """The whole number that a text means; `ValueError` for other text.

    >>> whole_number(" -128")
    -128
    """
    if not re.fullmatch(r"\s*[+-]?[0-9][0-9_]*\s*", text):
        raise ValueError(f"{text} is no whole number")
    return int(text)


@dataclass(frozen=True)
class SiblingName:
    r"""The name of a sibling as a rule says it.

    match    the expression of the rule
    before   of the name: all of it, or what stands before the `*`
    after    what stands behind the `*`; None without one
    text     as a user wrote it
    said     what messages call it
    """

    match: NameRegex
    before: Template
    after: Template | None
    text: str
    said: str

    def name_for(self, tensor_name: str, names: Collection[str], of_first: Any = None) -> str:
        """The name of the sibling of a tensor; `LayoutError` if none of `names` is it.

        names     of all tensors; a set or a mapping, which `in` searches at once
        of_first  what the rule's expression found in the name of the first part of a join, for one of the others
        """
        match = _OfFirst(tensor_name, of_first or self.match.fullmatch(tensor_name))
        wanted, after = self.before.expand(match), ""
        beginnings = [""]
        if self.after is not None:
            if len(tensor_name) > MOST_BEGINNINGS:
                raise LayoutError(
                    f"{self.said}: {tensor_text(tensor_name)} has {len(tensor_name)} characters, and * is for names of "
                    f"at most {MOST_BEGINNINGS}: write {{name}}, or a group"
                )
            after = self.after.expand(match)
            beginnings = [tensor_name[:end] for end in range(len(tensor_name), -1, -1)]
        found = next((name for each in beginnings if (name := f"{wanted}{each}{after}") in names), None)
        if found is None:
            raise LayoutError(self._missing(tensor_name, f"{wanted}{beginnings[0]}{after}", names))
        if found == tensor_name:
            raise LayoutError(f"{self.said} is {tensor_text(tensor_name)} itself: write the name of another tensor")
        return found

    def text_for(self, tensor_name: str, of_first: Any) -> str:
        """The name without a look whether there is such a tensor; of a text without `*`."""
        return self.before.expand(_OfFirst(tensor_name, of_first))

    def _missing(self, tensor_name: str, wanted: str, names: Collection[str]) -> str:
        """What was looked for, and the nearest names."""
        looked = f"there is no tensor {value_text(clipped(wanted, 80))}"
        if self.after is not None:
            looked += ", nor one with a shorter beginning"
        near = nearest(wanted, tensor_name, names)
        hint = f"; the nearest names are {', '.join(near)}" if near else "; there are no others"
        return f"{self.said} finds nothing for {tensor_text(tensor_name)}: {looked}{hint}"


def nearest(wanted: str, tensor_name: str, names: Collection[str]) -> list[str]:
    """The names with the longest beginning and end in common with the one that is wanted, as messages show them.

    `difflib` would take seconds for the names of a large model.
    """

    def alike(name: str) -> int:
        return len(os.path.commonprefix([wanted, name])) + len(os.path.commonprefix([wanted[::-1], name[::-1]]))

    near = heapq.nlargest(3, (name for name in names if name != tensor_name), key=alike)
    return [value_text(clipped(name, 80)) for name in near]


@dataclass(frozen=True)
class _OfFirst:
    """What an expression found in the first part of a join, for another part, whose name is the whole."""

    name: str
    match: Any

    def __getitem__(self, group: Any) -> Any:
        return self.name if group == 0 else self.match[group]


def sibling_name(match: NameRegex, text: str, what: str) -> SiblingName:
    r"""What a rule says about the name of a sibling; `LayoutError` for text that says none.

    match   the expression of the rule
    what    the part of the rule, for messages: begins with its origin

    >>> regex = NameRegex(r"(.*)\.q?weight", "a rule")
    >>> sibling_name(regex, "*scales", "scale").name_for("up.weight", {"up.weight", "up.scales"})
    'up.scales'
    >>> sibling_name(regex, r"\1.{name}", "scale").name_for("a.weight", {"a.a.weight"})
    'a.a.weight'
    """
    said = f"{what} {value_text(text)}"
    before, star, after = text.partition("*")
    if "*" in after:
        raise LayoutError(f"{said} has several *: one stands for a beginning of the tensor's name")
    templates = [template_of(match, each, what, ("name",)) for each in (before, after)]
    return SiblingName(match, templates[0], templates[1] if star else None, text, said)
