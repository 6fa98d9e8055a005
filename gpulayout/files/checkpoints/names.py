r"""New names: templates such as \1.weight, in which groups of a regular expression stand.

    \1 ... \9      what a group found
    \g<12>         the same, for any number of groups
    \g<layer>      the same, by name
    \g<0>          all that the expression found
    \\             a backslash

All else stands for itself.  Python's templates know more: \0 and \101 are characters by their octal numbers there, and
\n is a new line.  No tensor should be called so by accident.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from gpulayout.files.checkpoints.name_regex import NameRegex
from gpulayout.layout.checks import value_text
from gpulayout.layout.errors import LayoutError

_PART = re.compile(
    r"\\g<(?P<group>[^<>\\]*)>|\\(?P<digit>[1-9])(?![0-9])|\\(?P<backslash>\\)|(?P<text>[^\\]+)", re.DOTALL
)


@dataclass(frozen=True)
class Template:
    """A text with groups.

    parts   texts, and numbers of groups
    text    as a user wrote it
    """

    parts: tuple[str | int, ...]
    text: str

    def expand(self, match: Any) -> str:
        """The text for what a regular expression found; a group that found nothing is empty."""
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


def template_of(match: NameRegex, text: Any, what: str) -> Template:
    r"""The template that a text means; `LayoutError` for other text, and for groups that the expression lacks.

    what   the part of a rule, for messages: begins with its origin

    >>> regex = NameRegex("(a)b", "a rule")
    >>> template_of(regex, r"\1.\g<0>", "name").expand(regex.fullmatch("ab"))
    'a.ab'
    """
    said = f"{what} {value_text(text)}"
    if not isinstance(text, str):
        raise LayoutError(f"{said} is not text")
    parts: list[str | int] = []
    place = 0
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            raise LayoutError(f"{said} has {_escape(text[place:])}")
        place = part.end()
        group = part["digit"] or part["group"]
        parts.append(_group(match, group, said) if group is not None else part["backslash"] or part["text"])
    for character in text:
        if unicodedata.category(character) == "Cc":
            raise LayoutError(f"{said} has the control character {ascii(character)}: no tensor is called so")
    return Template(tuple(parts), text)


def _escape(text: str) -> str:
    r"""What is wrong with a backslash, and what to write: for a text that begins with one."""
    digits = re.match(r"\\([0-9]+)", text)
    if digits and not digits[1].startswith("0"):
        number = digits[1]
        return rf"\{number}, whose end is unclear: write \g<{number}>, or \g<{number[0]}> and then the rest"
    if digits:
        return rf"\{digits[1]}: write \g<0> for all that was found, \1 for the first group"
    if text.startswith("\\g"):
        return r"\g without the name of a group: write \g<1>, \g<name>, or \g<0> for all that was found"
    return rf"{text[:2]}, which means nothing: write \1 or \g<name> for a group, \\ for a backslash"


def _group(match: NameRegex, group: str, said: str) -> int:
    """The number of a group, by its number or name."""
    known = [*match.groupindex, *map(str, range(match.groups + 1))]
    if group not in known:
        has = f"groups 1 to {match.groups}" if match.groups > 1 else "group 1" if match.groups else "no groups"
        names = f" and the names {', '.join(match.groupindex)}" if match.groupindex else ""
        raise LayoutError(
            rf"{said} does not fit the regular expression {value_text(match.pattern)}, which has {has}{names}: "
            rf"there is no group {value_text(group)}; \g<0> is all that was found"
        )
    return match.groupindex.get(group, int(group) if group.isdigit() else 0)
