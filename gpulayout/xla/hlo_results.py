"""The results of a program's instructions, `%name = SHAPE opcode(...)`, each counted once.

These only rename results that exist already, so they are left out:

  - tuple, get-tuple-element and bitcast
  - in the computation of a fusion, its parameters, which are the operands, and its root, which is the fusion's result.
    If the root is a tuple or a bitcast, so are the results that it renames
"""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpulayout.xla.hlo import FoundShape, Span, scan, visible, with_lines

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}
_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
_WORD = re.compile(r"[\w.\-]+")
_CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")
# A line that begins a computation: %name (parameters) -> SHAPE {  or  ENTRY name {
_COMPUTATION = re.compile(r"^[ \t]*(?:ENTRY[ \t]+)?%?([\w.\-]+)[ \t]*(?:\([^\n]*)?\{[ \t\r]*$", re.MULTILINE)
_MOST_BEFORE = 1 << 10  # characters of a name and its equals sign


class HloResult(NamedTuple):
    """A shape, and the name of the instruction whose result it is; "" in a text without instructions."""

    name: str
    found: FoundShape


class _HloInstruction(NamedTuple):
    """An instruction: its name, which begins at `start`, its opcode, and the span of its result.

    Programs have millions of them, so what can be read from the text is not kept.
    """

    start: int
    name_length: int
    is_root: bool
    opcode: str
    span: Span

    def name(self, seen: str) -> str:
        return seen[self.start : self.start + self.name_length]


def find_results(text: str, passed: Callable[[int], None] = lambda position: None) -> Iterator[HloResult]:
    """The results of a program's instructions in the order of the text, without those that only rename others.

    A text without instructions, such as an allocation report, gives all its shapes.

    passed   gets the positions in the text up to which it has been read

    >>> text = "%a = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)  ROOT %t = (f32[8]{0}) tuple(%a)"
    >>> [(name, found.column, str(found.shape)) for name, found in find_results(text)]
    [('a', 6, 'f32[8]{0}')]
    """
    seen = visible(text)
    instructions = list(_instructions(seen, passed))
    if not instructions:  # its shapes are read again, and not kept
        return (HloResult("", found) for found in with_lines(text, scan(seen)))
    renamed = _renamed_in_fusions(seen, instructions)
    own = [each for each in instructions if each.opcode not in NO_MEMORY and each.start not in renamed]
    return (
        HloResult(each.name(seen), found)
        for each, found in zip(own, with_lines(text, (each.span for each in own)), strict=True)
    )


def _instructions(seen: str, passed: Callable[[int], None]) -> Iterator[_HloInstruction]:
    """The instructions of a program without strings and comments."""
    for span in scan(seen):
        passed(span.end)
        before = seen[max(span.start - _MOST_BEFORE, 0) : span.start].rstrip()
        opcode = _OPCODE.match(seen, span.end)
        if not before.endswith("=") or not opcode:
            continue
        before = before[:-1].rstrip()
        reverse = _WORD.match(before[::-1])
        length = len(reverse[0]) if reverse else 0
        start = max(span.start - _MOST_BEFORE, 0) + len(before) - length
        is_root = before[: len(before) - length].rstrip("% \t").endswith("ROOT")
        yield _HloInstruction(start, length, is_root, sys.intern(opcode[1]), span)


def _renamed_in_fusions(seen: str, instructions: list[_HloInstruction]) -> set[int]:
    """Where the instructions begin whose results are operands or results of a fusion under another name."""
    ends = {each.start: after.start for each, after in zip(instructions, instructions[1:])}

    def rest(each: _HloInstruction) -> str:
        """What follows a result, up to the end of its computation."""
        return seen[each.span.end : ends.get(each.start, len(seen))].partition("\n}")[0]

    called = (_CALLS.search(rest(each)) for each in instructions if each.opcode == "fusion")
    fused = {match[1] for match in called if match}
    renamed: set[int] = set()
    for computation, inside in _by_computation(seen, instructions):
        if computation in fused:
            renamed |= {each.start for each in inside if each.opcode == "parameter"}
            renamed |= _renamed_by_root(seen, inside, rest)
    return renamed


def _by_computation(seen: str, instructions: list[_HloInstruction]) -> Iterator[tuple[str, list[_HloInstruction]]]:
    """The name and the instructions of every computation."""
    begins = list(_COMPUTATION.finditer(seen))
    starts = [each.start for each in instructions]
    firsts = [bisect.bisect(starts, begin.start()) for begin in begins] + [len(starts)]
    for begin, first, last in zip(begins, firsts, firsts[1:]):
        yield begin[1], instructions[first:last]


def _renamed_by_root(seen: str, inside: list[_HloInstruction], rest: Callable[[_HloInstruction], str]) -> set[int]:
    """Where the root of a computation begins, and what it renames."""
    named = {each.name(seen): each for each in inside}
    renamed: set[int] = set()
    following = [each for each in inside if each.is_root]
    while following:
        each = following.pop()
        if each.start not in renamed:
            renamed.add(each.start)
            if each.opcode in NO_MEMORY:
                following += [named[word] for word in _WORD.findall(rest(each)) if word in named]
    return renamed
