"""What a reader of text does, counted without a clock: calls, and the steps of regular expressions.

Python calls and C calls are events of `sys.setprofile`.  `re` works inside one of them, so its steps are counted by a
matcher in Python that goes the same ways, see `RegexSteps`.
"""

import contextlib
import re
import sys
from collections.abc import Iterator

from gpulayout.files.checkpoints import name_program


class RegexSteps:
    """The steps of a backtracking matcher with an expression, in one text; `count` is their number."""

    def __init__(self, pattern: re.Pattern):
        self.tree = name_program.parsed(pattern.pattern, pattern.flags & ~re.UNICODE)
        self.items = [*self.tree]
        self.count = 0
        self._matches: dict = {}

    def first(self, text: str, place: int, *, full: bool = False) -> int | None:
        """Where the first way from a place ends."""
        for end in self.ends(self.items, 0, text, place):
            if not full or end == len(text):
                return end
        return None

    def all(self, text: str) -> int:
        """The steps when no way is right."""
        for _ in self.ends(self.items, 0, text, 0):
            pass
        return self.count

    def search(self, text: str, place: int) -> tuple[int, int] | None:
        for start in range(place, len(text) + 1):
            end = self.first(text, start)
            if end is not None:
                return start, end
        return None

    def ends(self, items: list, first: int, text: str, place: int) -> Iterator[int]:
        """Where parts from the `first` on may end."""
        if first == len(items):
            yield place
            return
        kind, value = str(items[first][0]), items[first][1]
        simple = kind in ("MAX_REPEAT", "MIN_REPEAT") and self._single(value[2])
        if first + 1 == len(items) or not simple:
            for end in self._ends_of(kind, items[first], text, place):
                yield from self.ends(items, first + 1, text, end)
            return
        for end in self._run(kind, value, text, place):
            yield from self.ends(items, first + 1, text, end)

    def _single(self, body) -> bool:
        return len(body) == 1 and str(body[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN")

    def _run(self, kind: str, value, text: str, place: int) -> Iterator[int]:
        """The ends of a repeat of one character, without a Python call for each round."""
        least, most, body = value
        ends, match = [place], self._match(body[0])
        while len(ends) <= most and match(text, ends[-1]):
            self.count += 1
            ends.append(ends[-1] + 1)
        for end in reversed(ends[least:]) if kind == "MAX_REPEAT" else ends[least:]:
            self.count += 1
            yield end

    def _ends_of(self, kind: str, item, text: str, place: int) -> Iterator[int]:
        self.count += 1
        value = item[1]
        if kind == "SUBPATTERN":
            yield from self.ends([*value[3]], 0, text, place)
        elif kind == "BRANCH":
            for branch in value[1]:
                yield from self.ends([*branch], 0, text, place)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            if self._single(value[2]):
                yield from self._run(kind, value, text, place)
            else:
                yield from self._rounds(kind == "MIN_REPEAT", *value, text, place)
        else:
            found = self._match(item)(text, place)
            if found:
                yield found.end()

    def _rounds(self, lazy: bool, least: int, most: int, body, text: str, place: int) -> Iterator[int]:
        """The ends of a repeat, on a list of open rounds: Python's stack is not deep enough for thousands."""
        body = [*body]
        waiting = [(place, iter([place]) if lazy and not least else iter(()), self.ends(body, 0, text, place), 0)]
        while waiting:
            at, before, rounds, done = waiting[-1]
            if lazy and done >= least:
                for end in before:
                    yield end
            end = next(rounds, None) if done < most else None
            if end is None:
                waiting.pop()
                if not lazy and done >= least:
                    yield at
            elif end > at or done < least:
                self.count += 1
                waiting.append((end, iter([end]), self.ends(body, 0, text, end), done + 1))

    def _match(self, item):
        key = id(item)
        if key not in self._matches:
            self._matches[key] = name_program.matcher(self.tree.state, [item], 0, 0), item
        return self._matches[key][0]


class CountedPattern:
    """A `re.Pattern` whose steps are counted too."""

    def __init__(self, pattern: re.Pattern, counter: list[int]):
        self._pattern, self._counter = pattern, counter

    def __getattr__(self, name):
        return getattr(self._pattern, name)

    def _count(self, way, text: str, place: int, **how):
        profile, steps = sys.getprofile(), RegexSteps(self._pattern)
        sys.setprofile(None)
        try:
            found = way(steps)(text, place, **how)
        finally:
            sys.setprofile(profile)
        self._counter[0] += steps.count
        return found

    def match(self, text, place=0):
        self._count(lambda steps: steps.first, text, place)
        return self._pattern.match(text, place)

    def fullmatch(self, text, place=0):
        self._count(lambda steps: steps.first, text, place, full=True)
        return self._pattern.fullmatch(text, place)

    def search(self, text, place=0):
        self._count(lambda steps: steps.search, text, place)
        return self._pattern.search(text, place)

    def _walk(self, text):
        place = 0
        while place <= len(text):
            found = self._count(lambda steps: steps.search, text, place)
            if found is None:
                return
            place = max(found[1], found[0] + 1)

    def finditer(self, text):
        self._walk(text)
        return self._pattern.finditer(text)

    def findall(self, text):
        self._walk(text)
        return self._pattern.findall(text)

    def sub(self, new, text):
        self._walk(text)
        return self._pattern.sub(new, text)

    def split(self, text):
        self._walk(text)
        return self._pattern.split(text)


class CountedModule:
    """The module `re` for the package's modules."""

    def __init__(self, counter: list[int]):
        self._counter = counter

    def __getattr__(self, name):
        if name not in ("match", "fullmatch", "search", "finditer", "findall", "split", "sub"):
            return getattr(re, name)

        def call(pattern, *given, flags=0):
            return getattr(CountedPattern(re.compile(pattern, flags), self._counter), name)(*given)

        return call


@contextlib.contextmanager
def counted_expressions() -> Iterator[list[int]]:
    """Inside the `with`, the package's regular expressions count their steps in the list's one number."""
    counter, changed = [0], []
    for name, module in [*sys.modules.items()]:
        if not name.startswith("gpulayout.") or name.startswith("gpulayout.files.checkpoints.name_"):
            continue
        for key, value in [*vars(module).items()]:
            if isinstance(value, re.Pattern):
                changed.append((module, key, value, CountedPattern(value, counter)))
            elif value is re:
                changed.append((module, key, value, CountedModule(counter)))
    for module, key, _, value in changed:
        setattr(module, key, value)
    try:
        yield counter
    finally:
        for module, key, value, _ in changed:
            setattr(module, key, value)


def steps_of(work, counter: list[int]) -> int:
    """The calls of some work, and the steps of its regular expressions."""
    calls = 0

    def event(frame, what, argument):
        nonlocal calls
        calls += what in ("call", "c_call")

    begin = counter[0]
    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls + counter[0] - begin
