"""Regular expressions of rules, matched with the names of tensors in bounded time, and templates of new names.

Python's `re` tries one way after another.  (a+)+ has 2^40 ways to read 41 characters, and `re` tries all of them before
it says no.  Rules and names both come from files of others, so no pair of them may hang:

  re             where the number of ways is bounded and small.  It is read off the expression: every repeat counts with
                 all its lengths, unless what follows shows where it ends, as in [^.]*\\.  All ready maps are such rules
  `NameProgram`  for all others, in time proportional to the length of the name

What else was considered: a limit of time needs a process of its own, because `re` holds the interpreter; it costs more
than all other work of most calls, and depends on the load of the machine.  To refuse such rules is wrong for
(\\w+\\.?)*weight, which somebody may mean.  Libraries with other engines are one more dependency of all users, and read
no look-ahead, which the ready maps need, or have a limit of time again.
"""

from __future__ import annotations

import bisect
import difflib
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.name_program import NameProgram, NoProgram, first_literal, parsed, single_character
from gpulayout.layout.checks import clipped, either, value_text
from gpulayout.layout.errors import LayoutError

MOST_REGEX = 1000  # characters
MOST_WAYS = 1_000_000  # that `re` may try for one name: about 0.01 s
MOST_REPEATS = 20  # that count
_PART = re.compile(
    r"\\g<(?P<group>[^<>\\]*)>|\\(?P<digit>[1-9])(?![0-9])|\\(?P<escaped>[\\{}])|\{(?P<word>[^\W\d]\w*)\}|"
    r"(?P<text>\{|[^\\{]+)",
    re.DOTALL,
)
WORDS = ("name", "number")  # that may stand in braces
NUMBER = -1  # among the parts of a template: the number that `expand` gets
_HARMLESS = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "CATEGORY", "FAILURE")


class NameRegex:
    r"""A regular expression.

    pattern      its text
    groups       how many it has
    groupindex   the numbers of those with names
    longest, longest_searched   the longest name that `re` gets, as a whole and where a part of it may fit

    >>> NameRegex("((a+)+)b", "a rule").fullmatch("aab")[1], NameRegex("(a+)+", "a rule").fullmatch("a" * 60 + "b")
    ('aa', None)
    """

    def __init__(self, regex: Any, origin: str):
        """`LayoutError` for what is no regular expression; `origin` begins the message."""
        if not isinstance(regex, str) or len(regex) > MOST_REGEX:
            raise LayoutError(
                f"{origin}: {value_text(regex)} is not a regular expression of at most {MOST_REGEX} characters"
            )
        self.pattern, self._origin = regex, origin
        try:
            self._compiled = re.compile(regex)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it has been said
                self._tree = parsed(regex)
            bound = ways(self._tree)
        except (re.error, RecursionError, OverflowError) as error:
            raise LayoutError(f"{origin}: {value_text(regex)} is not a regular expression: {error}") from None
        self.groups, self.groupindex = self._compiled.groups, self._compiled.groupindex
        self.longest, self.longest_searched = bound.longest_name(), bound.longest_name(1)
        self._program: NameProgram | None = None
        if self.longest < 1:  # no name is for `re`, so what no program can do is said before any name is read
            self._for_long("")

    def fullmatch(self, name: str) -> Any:
        """The groups that are found in a name as a whole, a `re.Match` or a tuple; None if it does not fit."""
        if len(name) <= self.longest:
            return self._compiled.fullmatch(name)
        return self._for_long(name).fullmatch(name)

    def search(self, name: str) -> bool:
        """True if a part of a name fits."""
        if len(name) <= self.longest_searched:
            return bool(self._compiled.search(name))
        return next(self._for_long(name).matches(name), None) is not None

    def sub(self, expand: Callable[[Any], str], name: str) -> str:
        """A name in which all that is found gives way to what `expand` makes of its groups."""
        if len(name) <= self.longest_searched:
            return self._compiled.sub(expand, name)
        parts, done = [], 0
        for start, end, groups in self._for_long(name).matches(name):
            parts += [name[done:start], expand(groups)]
            done = end
        return "".join([*parts, name[done:]])

    def _for_long(self, name: str) -> NameProgram:
        """The program, which is made once; `LayoutError` if there is none that is fast enough for the name."""
        try:
            if self._program is None:
                groups = self._compiled.groups  # `re` tries a part, such as a look-ahead, at every position of a name
                self._program = NameProgram(self._tree, groups, lambda part: ways(part, None).longest_name(1))
            self._program.check(name)
        except NoProgram as problem:
            about = f" for {tensor_text(name)} of {len(name)} characters" if name else ""
            raise LayoutError(
                f"{self._origin}: {value_text(clipped(self.pattern, 80))} may take too long{about}, because it can fit "
                f"a name in very many ways, and {problem}: write parts that say where they end, such as [^.]* in place "
                "of .*, and (a|b)* in place of (a+|b+)*"
            ) from None
        return self._program


# ---- how many ways there are ---------------------------------------------------------------------------------


class Ways(NamedTuple):
    """A bound of the ways to try an expression with a name.

    factor    that does not depend on the length of the name
    repeats   that may end anywhere; together they cut a name of n characters in C(n + repeats, repeats) ways
    runs      1 if there are repeats whose end is seen at once: after all others, they still read the name once
    """

    factor: float = 1
    repeats: int = 0
    runs: int = 0

    @property
    def is_one(self) -> bool:
        """True for parts that fit in one way or none."""
        return self[:2] == (1, 0)

    def longest_name(self, more: int = 0) -> float:
        """The length up to which a name has at most `MOST_WAYS` ways; -1 for none.

        more   repeats around the expression, such as 1 for all positions where a search begins
        """
        repeats = self.repeats + self.runs + more
        if self.factor > MOST_WAYS or repeats > MOST_REPEATS:
            return -1
        if not repeats:
            return math.inf
        return bisect.bisect_right(
            range(1, MOST_WAYS + 1), MOST_WAYS, key=lambda n: int(self.factor) * math.comb(n + repeats, repeats)
        )


_ENDLESS = Ways(math.inf)
END = -1  # what follows the last part: nothing else fits there


def ways(items: Any, follows: int | None = END) -> Ways:
    """The ways to try a parsed expression.

    follows   the character that must come next, `END`, or None where it may be any

    >>> ways(parsed(r"(.*)[.](\\d+)[.]w")), ways(parsed("(?:conv|norm)?x")), ways(parsed("(a+)+")).factor
    (Ways(factor=1, repeats=1, runs=1), Ways(factor=2, repeats=0, runs=0), inf)
    """
    parts = list(items)
    bounds = [_ways_of(str(kind), value, first_literal(parts[n:], follows)) for n, (kind, value) in enumerate(parts, 1)]
    factor, repeats = math.prod(each.factor for each in bounds), sum(each.repeats for each in bounds)
    runs = max((each.runs for each in bounds), default=0)
    return Ways(factor, repeats, runs) if repeats <= MOST_REPEATS else _ENDLESS


def _ways_of(kind: str, value: Any, follows: int | None) -> Ways:
    """The same for one part."""
    if kind in _HARMLESS:
        return Ways()
    if kind == "GROUPREF":
        return Ways(runs=1)
    if kind == "SUBPATTERN":
        return ways(value[3], follows)
    if kind == "BRANCH":
        return _ways_of_branches(value[1], follows)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = value
        return _ways_of_repeat(least, most, body, None if kind == "POSSESSIVE_REPEAT" else follows)
    if kind in ("ASSERT", "ASSERT_NOT"):
        return ways(value[1], None)
    if kind == "ATOMIC_GROUP":
        return ways(value, None)
    if kind == "GROUPREF_EXISTS":
        return _ways_of_branches([each for each in value[1:] if each is not None], follows)
    return _ENDLESS  # of a newer Python


def _ways_of_branches(branches: Any, follows: int | None) -> Ways:
    """All ways of all branches; those that begin with different characters exclude one another."""
    bounds = [ways(each, follows) for each in branches]
    first = [first_literal(each, None) for each in branches]
    apart = None not in first and len({chr(each).casefold() for each in first if each is not None}) == len(first)
    factors, repeats, runs = zip(*bounds)
    return Ways(max(factors) if apart else sum(factors), max(repeats), max(runs))


def _ways_of_repeat(least: int, most: Any, body: Any, follows: int | None) -> Ways:
    if least == most == 1:
        return ways(body, follows)
    most, one = int(most), ways(body, None)
    if not one.is_one:
        if most * max(one.repeats, 1) > MOST_REPEATS or one.factor > MOST_WAYS:
            return _ENDLESS
        return Ways(one.factor**most * (most - least + 1), one.repeats * most, one.runs)
    if least == most:
        return one
    if follows is not None and not _may_be(body, follows):
        return Ways(runs=1)
    return Ways(most - least + 1, 0, one.runs) if most - least < 100 else Ways(1, 1, one.runs)


def _may_be(body: Any, character: int) -> bool:
    """True unless parts are always one character, and never this one: then what follows them shows where they end.

    Small and capital letters count as one, because a flag may say so.
    """
    fits = single_character(body)
    if fits is None or character == END:
        return fits is None
    same = {chr(character), chr(character).lower(), chr(character).upper(), chr(character).casefold()}
    return any(fits(each) for each in same)


# ---- new names -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    r"""A text with groups of a regular expression, such as \1.weight.

        \1 ... \9      what a group found
        \g<12>         the same, for any number of groups
        \g<layer>      the same, by name
        \g<0>          all that the expression found
        {name}         the whole name of the tensor, in rules
        {number}       a number that counts, where there are several results
        \\ \{ \}       a backslash, a brace

    Other braces need no backslash.  All else stands for itself.  Python's templates know more: \0 and \101 are
    characters by their octal numbers there, and \n is a new line.  No tensor should be called so by accident.

    parts   texts, and numbers of groups; or `NUMBER`
    text    as a user wrote it
    """

    parts: tuple[str | int, ...]
    text: str

    @property
    def counts(self) -> bool:
        """True for a template with {number}."""
        return NUMBER in self.parts

    def expand(self, match: Any, number: int = 0) -> str:
        """The text for what a regular expression found; a group that found nothing is empty.

        number   that a template has which counts
        """
        return "".join(
            part if isinstance(part, str) else str(number) if part == NUMBER else match[part] or ""
            for part in self.parts
        )


def template_of(match: NameRegex, text: Any, what: str, words: Sequence[str] = ()) -> Template:
    r"""The template that a text means; `LayoutError` for other text, and for groups that the expression lacks.

    what    the part of a rule, for messages: begins with its origin
    words   those of `WORDS` that stand for something: "name" where the expression fits whole names, "number" where
            results count

    >>> regex = NameRegex("(a)b", "a rule")
    >>> template_of(regex, r"\1.\g<0>", "name").expand(regex.fullmatch("ab"))
    'a.ab'
    """
    said = f"{what} {value_text(text)}"
    if not isinstance(text, str):
        raise LayoutError(f"{said} is not text")
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise LayoutError(f"{said} has {_escape(text[position:])}")
        position = part.end()
        group = part["digit"] or part["group"]
        if part["word"] is not None:
            parts.append(_word(part["word"], words, said))
        else:
            parts.append(_group(match, group, said) if group is not None else part["escaped"] or part["text"])
    for character in text:
        if unicodedata.category(character) == "Cc":
            raise LayoutError(f"{said} has the control character {ascii(character)}: no tensor is called so")
    return Template(tuple(parts), text)


def _word(word: str, words: Sequence[str], said: str) -> str | int:
    """What a word in braces is, as a part of a template; `LayoutError` for one in a wrong place or spelling."""
    if word in words:
        return 0 if word == "name" else NUMBER
    if not difflib.get_close_matches(word.lower(), WORDS, 1):
        return f"{{{word}}}"
    known = either([f"{{{each}}}" for each in words]) if words else r"no such word, \g<0> is all that was found"
    raise LayoutError(rf"{said} has {{{word}}}: here is {known}; text with braces is \{{{word}\}}")


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
    shown = text[:2] if text[:2].isprintable() else "\\" + ascii(text[1:2])[1:-1]
    return rf"{shown}, which means nothing: write \1 or \g<name> for a group, \\ for a backslash"


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
