"""A regular expression as a program that reads a name in time proportional to its length.

    (a+)+b      0 save 2   1 step a   2 split 1 3   3 save 3   4 split 0 5   5 step b   6 end

A split tries its first way, and later the other.  What follows depends only on the step and the position in the name:
if it failed once, it fails always.  So no pair of them is tried twice, and what is found is what `re` finds: the first
way that fits, in the order of the expression.  A repeat of what may be empty, as (a*)*, has no program: where it ends
depends on more than a step and a position.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_parser, _compiler = map(importlib.import_module, ("re._parser", "re._compiler"))

MOST_STEPS = 5000  # of a program
MOST_PAIRS = 5_000_000  # of a step and a position in a name: a few seconds
_CHARACTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")

Step = tuple[str, Any, int]  # what it is, its value, and for a split its second way
Found = tuple["str | None", ...]


class NoProgram(Exception):
    """Why there is none, as a part of a sentence."""


def parsed(regex: str, flags: int = 0) -> Any:
    """An expression as Python's own parser reads it: a list of parts, each a kind and a value."""
    return _parser.parse(regex, flags)


def first_literal(items: Any, follows: int | None) -> int | None:
    """The character with which parts must begin; `follows` if there are none, None if it may be any."""
    for kind, value in items:
        kind = str(kind)
        if kind == "LITERAL":
            return int(value)
        if kind == "SUBPATTERN":
            return None if value[1] or value[2] else first_literal([*value[3], ("ANY", None)], None)
        if kind in ("MAX_REPEAT", "MIN_REPEAT") and value[0]:
            return first_literal([*value[2], ("ANY", None)], None)
        return None
    return follows


def single_character(items: Any) -> Callable[[str], Any] | None:
    """What tells whether a character fits parts that are always one character; None for other parts."""
    if len(items) != 1:
        return None
    kind, value = items[0]
    if str(kind) == "SUBPATTERN":
        return None if value[1] or value[2] else single_character(value[3])
    return matcher(items.state, [items[0]], 0, 0) if str(kind) in _CHARACTERS else None


def matcher(state: Any, items: list[Any], on: int, off: int) -> Callable[..., Any]:
    """`match` of some parts by themselves, with flags that are on and off around them."""
    inner = _parser.SubPattern(state, items)
    whole = _parser.SubPattern(state, [(_parser.SUBPATTERN, (None, on, off, inner))]) if on or off else inner
    match: Callable[..., Any] = _compiler.compile(whole, state.flags).match
    return match


class NameProgram:
    """A program: its `steps`.

    longest   of a part that `re` tries at every position, the longest name for which it may
    """

    def __init__(self, tree: Any, groups: int, longest: Callable[[Any], float]):
        self._state, self._longest = tree.state, longest
        self._groups = groups
        self._most = math.inf
        self.steps: list[Step] = []
        self._add(tree, 0, 0)
        self._emit("end")

    def check(self, name: str) -> None:
        """`NoProgram` for a name that takes too long."""
        if len(name) > self._most:
            raise NoProgram("it has a look-ahead or an atomic part, which is tried at many places")
        if (len(name) + 1) * len(self.steps) > MOST_PAIRS:
            raise NoProgram("the name is long")

    def fullmatch(self, name: str) -> Found | None:
        """The groups of a name as a whole."""
        way = self.first_way(name, 0, bytearray((len(name) + 1) * len(self.steps)), full=True)
        return None if way is None else way[1]

    def matches(self, name: str) -> Iterator[tuple[int, int, Found]]:
        """The parts of a name that fit: where each begins and ends, and its groups.  As `re.finditer`."""
        tried = bytearray((len(name) + 1) * len(self.steps))
        start, empty_at = 0, -1
        while start <= len(name):
            way = self.first_way(name, start, tried, not_at=empty_at)
            if way is None:
                start += 1
                continue
            end, groups = way
            yield start, end, groups
            # What was tried at the end succeeded.  Before it nothing begins any more.
            tried[end * len(self.steps) : (end + 1) * len(self.steps)] = bytes(len(self.steps))
            empty_at, start = end if end == start else -1, end

    def first_way(
        self, name: str, start: int, tried: bytearray, *, full: bool = False, not_at: int = -1
    ) -> tuple[int, Found] | None:
        """Where the first way from a position ends, and its groups.

        full     it must end with the name
        not_at   a position where it must not end
        """
        steps, width = self.steps, len(self.steps)
        waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, start, (-1,) * (2 * self._groups + 2))]
        while waiting:
            at, position, marks = waiting.pop()
            while not tried[position * width + at]:
                tried[position * width + at] = 1
                kind, value, other = steps[at]
                at += 1
                if kind == "step":
                    match = value(name, position)
                    if match is None:
                        break
                    position = match.end()
                elif kind == "split":
                    waiting.append((other, position, marks))
                    at = value
                elif kind == "jump":
                    at = value
                elif kind == "save":
                    marks = (*marks[:value], position, *marks[value + 1 :])
                elif (position == len(name) or not full) and position != not_at:
                    return position, self._texts(name, start, position, marks)
                else:
                    break
        return None

    def _texts(self, name: str, start: int, end: int, marks: tuple[int, ...]) -> Found:
        pairs = [(start, end), *zip(marks[2::2], marks[3::2])]
        return tuple(None if min(pair) < 0 else name[slice(*pair)] for pair in pairs)

    # ---- making it -------------------------------------------------------------------------------------------

    def _emit(self, kind: str, value: Any = None, other: int = 0) -> int:
        """Add a step; returns its number."""
        if len(self.steps) >= MOST_STEPS:
            raise NoProgram(f"it has counted repeats, such as {{2,9}}, that make more than {MOST_STEPS} steps")
        self.steps.append((kind, value, other))
        return len(self.steps) - 1

    def _add(self, items: Iterable[Any], on: int, off: int) -> None:
        """Add the steps of parts, those that fit in one way in one step.  `on` and `off` are flags around them."""
        plain: list[Any] = []
        for item in items:
            if self._is_plain(item):
                plain.append(item)
                continue
            self._add_plain(plain, on, off)
            plain = []
            self._add_choice(str(item[0]), item[1], on, off)
        self._add_plain(plain, on, off)

    def _add_plain(self, items: list[Any], on: int, off: int) -> None:
        if items:
            self._emit("step", matcher(self._state, items, on, off))

    def _is_plain(self, item: Any) -> bool:
        """True for a part without groups that fits in one way or none.  `NoProgram` for what no program can do."""
        kind, value = str(item[0]), item[1]
        if kind in (*_CHARACTERS, "AT", "FAILURE"):
            return True
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            return bool(value[0] == value[1]) and all(map(self._is_plain, value[2]))
        if kind in ("ASSERT", "ASSERT_NOT", "ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
            inside = value[1] if kind.startswith("ASSERT") else value if kind == "ATOMIC_GROUP" else [item]
            if _has_groups(inside):
                raise NoProgram("it has a group in a look-ahead or an atomic part")
            self._most = min(self._most, self._longest(_parser.SubPattern(self._state, list(inside))))
            return True
        if kind in ("SUBPATTERN", "BRANCH"):
            return False
        raise NoProgram("it refers to a group, as (?P=name) does")

    def _add_choice(self, kind: str, value: Any, on: int, off: int) -> None:
        if kind == "SUBPATTERN":
            group, more, less, inside = value
            if group is not None:
                self._emit("save", 2 * group)
            self._add(inside, (on | more) & ~less, (off | less) & ~more)
            if group is not None:
                self._emit("save", 2 * group + 1)
        elif kind == "BRANCH":
            jumps = []
            for branch in value[1][:-1]:
                split = self._emit("split")
                self._add(branch, on, off)
                jumps.append(self._emit("jump"))
                self.steps[split] = ("split", split + 1, len(self.steps))
            self._add(value[1][-1], on, off)
            for jump in jumps:
                self.steps[jump] = ("jump", len(self.steps), 0)
        else:
            least, most, body = value
            self._add_repeat(least, most, body, on, off, lazy=kind == "MIN_REPEAT")

    def _add_repeat(self, least: int, most: Any, body: Any, on: int, off: int, *, lazy: bool) -> None:
        """Counted rounds stand one after the other; a repeat without an end is a loop."""
        if most > max(least, 1) and not body.getwidth()[0]:
            raise NoProgram("it repeats what may be empty, as in (a*)*, for which (a+)* does")
        for _ in range(least):
            self._add(body, on, off)
        splits = []
        endless = most is _parser.MAXREPEAT
        for _ in range(1 if endless else int(most) - least):
            splits.append(self._emit("split"))
            self._add(body, on, off)
        if endless:
            self._emit("jump", splits[0])
        for split in splits:
            inside, behind = split + 1, len(self.steps)
            self.steps[split] = ("split", behind, inside) if lazy else ("split", inside, behind)


def _has_groups(items: Any) -> bool:
    for kind, value in items:
        if str(kind) == "SUBPATTERN" and value[0] is not None:
            return True
        parts = value if isinstance(value, (tuple, list)) else [value]
        for part in parts:
            inner = part if isinstance(part, list) else [part]  # of the branches of a BRANCH
            if any(isinstance(each, _parser.SubPattern) and _has_groups(each) for each in inner):
                return True
    return False
